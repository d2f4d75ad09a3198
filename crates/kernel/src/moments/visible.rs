//! Which moments somebody may see, for queries of many: each of the ways to be let in is read along an index of its own.

use entente_domain::clock::Timestamp;
use entente_domain::keys::Scope;

use crate::Caller;

/// Reads, by `$rows` (`select!` or one like it), moments that somebody may see ([`Seen`], which is $1 to $4): `$each` says
/// which of them, in what order and how many; `$all` the same of all together, as `y`. Each branch stops at its own limit along
/// its own index (`e` is the clock of its job, `n` what took its place and `nc` the clock of that one's), also in a plan that knows no values: one condition with `OR` reads the whole table. Nobody is two of agent,
/// person and second person of one moment, so that none comes twice.
macro_rules! seen {
    ($rows:ident, $name:literal, $each:literal, $all:literal, $who:ident $(, $argument:expr)* $(,)?) => {
        $rows!(
            $name,
            "WHERE m.id = ANY (ARRAY(SELECT y.id FROM (
               (SELECT x.* FROM moments x LEFT JOIN job_clock e ON e.job_id = x.job_id LEFT JOIN moments n ON n.id = x.superseded_by
                  LEFT JOIN job_clock nc ON nc.job_id = n.job_id WHERE $1 AND " + $each + ")
               UNION ALL
               (SELECT x.* FROM moments x LEFT JOIN job_clock e ON e.job_id = x.job_id LEFT JOIN moments n ON n.id = x.superseded_by
                  LEFT JOIN job_clock nc ON nc.job_id = n.job_id WHERE x.agent_id = $2 AND " + $each + ")
               UNION ALL
               (SELECT x.* FROM moments x LEFT JOIN job_clock e ON e.job_id = x.job_id LEFT JOIN moments n ON n.id = x.superseded_by
                  LEFT JOIN job_clock nc ON nc.job_id = n.job_id WHERE x.principal_id = $3 AND " + $each + ")
               UNION ALL
               (SELECT x.* FROM moments x LEFT JOIN job_clock e ON e.job_id = x.job_id LEFT JOIN moments n ON n.id = x.superseded_by
                  LEFT JOIN job_clock nc ON nc.job_id = n.job_id WHERE x.escalate_to = $3
                  AND x.escalate_at <= least($4, coalesce(x.resolved_at, x.ended_at, 'infinity')) AND " + $each + ")) y " + $all,
            $who.everything,
            $who.agent,
            $who.person,
            $who.now
            $(, $argument)*
        )
    };
}
pub(super) use seen;

/// Whose moments are read; as `role` and `Moment::is_addressed_to` have it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// Everybody's.
    pub everything: bool,
    /// Those that this agent asked.
    pub agent: Option<&'a str>,
    /// Those that this person is asked, or is asked too since it is time.
    pub person: Option<&'a str>,
    /// Now.
    pub now: Timestamp,
}

impl<'a> Seen<'a> {
    /// The caller's own.
    pub fn of(caller: &'a Caller, now: Timestamp) -> Self {
        let person = caller.is_itself().then_some(caller.agent.as_str());
        Self { everything: false, agent: Some(&caller.agent), person, now }
    }

    /// The caller's own, with the scope `admin` everybody's; then those of one agent, or to one person, are read along theirs.
    pub fn filtered(
        caller: &'a Caller,
        agent: Option<&'a str>,
        person: Option<&'a str>,
        now: Timestamp,
    ) -> Self {
        if !caller.has(Scope::Admin) {
            return Self::of(caller, now);
        }
        let everything = agent.is_none() && person.is_none();
        Self { everything, agent, person: person.filter(|_| agent.is_none()), now }
    }
}
