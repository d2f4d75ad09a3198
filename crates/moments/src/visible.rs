//! Visibility filter for queries over many moments: each ground of access has an index of its own.

use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_kernel::Caller;

/// Selects moments that a party may see ([`Seen`], bound as $1 to $4), with `$rows` (`select!` or one like
/// it).
///
/// `$each` filters, orders and limits each branch; `$all` does so for their union `y`. In a branch `e` is the
/// clock of the moment's job, `n` its successor and `nc` the clock of that one's job. Each branch stops at
/// its own limit along its own index, even in a generic plan; one condition with `OR` would read the whole
/// table. The agent, person and second person of a moment are all different, so that none appears twice.
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

/// Party whose moments are read; matches `role` and `Moment::is_addressed_to`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// Whether all moments are visible.
    pub everything: bool,
    /// Moments asked by this agent.
    pub agent: Option<&'a str>,
    /// Moments asked of this person, or escalated to them by now.
    pub person: Option<&'a str>,
    /// Current time.
    pub now: Timestamp,
}

impl<'a> Seen<'a> {
    /// The caller's own moments.
    pub fn of(caller: &'a Caller, now: Timestamp) -> Self {
        let person = caller.is_itself().then_some(caller.agent.as_str());
        Self { everything: false, agent: Some(&caller.agent), person, now }
    }

    /// The caller's own moments, or all with the scope `admin`; a named agent or person narrows these.
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
