//! Lists of moments: what somebody may see, what waits for a person, how much waits. Pages are without words, which only who
//! looks at one moment gets: one may have two hundred of 16 KiB.

use std::collections::HashSet;

use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, JobId, MomentId};
use entente_domain::keys::Scope;
use entente_domain::limits::MOMENT_PAGE;
use entente_domain::moments::{MomentAsk, MomentState, check_room};
use entente_domain::refusal::{Code, Refusal};
use sqlx::PgConnection;
use uuid::Uuid;

use super::rows::{self, Kept, Row, select};
use super::visible::{Seen, seen};
use super::{Role, Shown, role, words};
use crate::{Caller, Ctx, Outcome};

/// Rows that are looked at for a page that a filter may leave most of out.
const LOOKED: i64 = 500;

/// Which moments to list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only in this state.
    pub state: Option<MomentState>,
    /// Only to this person.
    pub principal: Option<String>,
    /// Only of this agent.
    pub agent: Option<String>,
    /// Only of this class.
    pub class: Option<String>,
    /// Only of this job.
    pub job: Option<JobId>,
    /// Only of this intent.
    pub intent: Option<IntentId>,
    /// How many at the most.
    pub limit: u32,
    /// Only older than this one: the cursor.
    pub before: Option<MomentId>,
}

impl Filter {
    /// Whether all that somebody may see is listed.
    fn is_empty(&self) -> bool {
        let Self { state, principal, agent, class, job, intent, limit: _, before: _ } = self;
        let names = principal.is_none() && agent.is_none() && class.is_none();
        names && state.is_none() && job.is_none() && intent.is_none()
    }
}

/// The moments that the caller asked or is asked, with the scope `admin` everybody's; the latest first, and where to go on
/// when there are more. So many rows are looked at for a page, so that what a filter leaves out costs no more than that: a page
/// may be short, or empty, and still say where to go on.
///
/// # Errors
/// The scope is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &Filter) -> Outcome<(Vec<Shown>, Option<MomentId>)> {
    caller.require(Scope::MomentsRead)?;
    let limit = filter.limit.clamp(1, MOMENT_PAGE);
    let who = Seen::filtered(caller, filter.agent.as_deref(), filter.principal.as_deref(), ctx.now());
    let looked = if filter.is_empty() { i64::from(limit) + 1 } else { LOOKED };
    let mut conn = ctx.pool.acquire().await?;
    let ids = looked_at(&mut conn, who, filter, looked).await?;
    let rows = select!(
        "moments::list",
        "WHERE m.id = ANY($5) AND ($1 OR m.agent_id = $2 OR m.principal_id = $3 OR m.escalate_to = $3
                AND m.escalate_at <= least($4, coalesce(m.resolved_at, m.ended_at, 'infinity')))
           AND ($6::text IS NULL OR $6 = CASE
                WHEN m.state = 'open' AND m.expires_at <= $4 AND (c.ended_at IS NULL OR c.ended_at >= m.expires_at)
                    THEN 'expired'
                WHEN m.state IN ('open', 'deliberating') AND m.resolution_kind IS NULL AND c.ended_at IS NOT NULL
                    THEN 'withdrawn'
                WHEN m.state = 'superseded' AND m.resolution_kind = 'dialogue' AND m.veto_settled_at IS NULL
                    AND (n.state IN ('withdrawn', 'expired')
                        OR n.state = 'open' AND (n.expires_at <= $4 OR nc.ended_at IS NOT NULL))
                    THEN 'deliberating'
                ELSE m.state END)
           AND ($7::text IS NULL OR m.principal_id = $7) AND ($8::text IS NULL OR m.agent_id = $8)
           AND ($9::text IS NULL OR m.decision_class = $9) AND ($10::uuid IS NULL OR m.job_id = $10)
           AND ($11::uuid IS NULL OR m.intent_id = $11) ORDER BY m.id DESC LIMIT $12",
        who.everything,
        who.agent,
        who.person,
        who.now,
        &ids,
        filter.state.map(MomentState::as_str),
        filter.principal,
        filter.agent,
        filter.class,
        filter.job.map(JobId::uuid),
        filter.intent.map(IntentId::uuid),
        i64::from(limit) + 1
    )
    .fetch_all(&mut *conn)
    .await?;
    let (shown, next) = page(&mut conn, caller, rows, limit, who.now).await?;
    let all = i64::try_from(ids.len()).is_ok_and(|found| found < looked);
    Ok((shown, next.or(ids.last().filter(|_| !all).map(|last| MomentId::from(*last)))))
}

/// Reads the ids of moments: the query's name, and what follows its `FROM`.
macro_rules! ids {
    ($name:literal, $rest:literal $(+ $more:literal)* $(, $argument:expr)* $(,)?) => {
        sqlx::query_scalar!("-- " + $name + "\n SELECT m.id FROM moments m " + $rest $(+ $more)* $(, $argument)*)
    };
}

/// The ids among which a list is looked for, the latest first: those of the job or the intent, those that wait where only such
/// are asked for, else all that somebody may see. Each along an index of its own.
async fn looked_at(
    conn: &mut PgConnection,
    who: Seen<'_>,
    filter: &Filter,
    looked: i64,
) -> Outcome<Vec<Uuid>> {
    let before = filter.before.map_or(Uuid::max(), MomentId::uuid);
    let waits = matches!(filter.state, Some(MomentState::Open | MomentState::Deliberating));
    let ids = if let Some(job) = filter.job {
        sqlx::query_scalar!(
            "-- moments::list_of_job
             SELECT id FROM moments WHERE job_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3",
            job.uuid(),
            before,
            looked
        )
        .fetch_all(conn)
        .await
    } else if let Some(intent) = filter.intent {
        sqlx::query_scalar!(
            "-- moments::list_of_intent
             SELECT id FROM moments WHERE intent_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3",
            intent.uuid(),
            before,
            looked
        )
        .fetch_all(conn)
        .await
    } else if waits {
        return waiting_ids(conn, who, before, looked).await;
    } else {
        seen!(
            ids,
            "moments::list_of_party",
            "x.id < $5 ORDER BY x.id DESC LIMIT $6",
            "ORDER BY y.id DESC LIMIT $6)) ORDER BY m.id DESC",
            who,
            before,
            looked
        )
        .fetch_all(conn)
        .await
    };
    Ok(ids?)
}

/// What waits, or may do so again, of what somebody may see: of each party as much as the indexes of what waits have, so that
/// no plan goes through what is over.
async fn waiting_ids(
    conn: &mut PgConnection,
    who: Seen<'_>,
    before: Uuid,
    looked: i64,
) -> Outcome<Vec<Uuid>> {
    let ids = sqlx::query_scalar!(
        r#"-- moments::list_waiting
         WITH w AS MATERIALIZED (
             SELECT id FROM moments WHERE $1
                AND (state IN ('open', 'deliberating') OR resolution_kind = 'dialogue' AND veto_settled_at IS NULL)
             UNION SELECT id FROM moments WHERE agent_id = $2 AND state IN ('open', 'deliberating')
             UNION SELECT id FROM moments WHERE agent_id = $2 AND resolution_kind = 'dialogue' AND veto_settled_at IS NULL
             UNION SELECT id FROM moments WHERE principal_id = $3
                AND (state IN ('open', 'deliberating') OR resolution_kind = 'dialogue' AND veto_settled_at IS NULL)
             UNION SELECT id FROM moments WHERE escalate_to = $3
                AND (state IN ('open', 'deliberating') OR resolution_kind = 'dialogue' AND veto_settled_at IS NULL))
         SELECT id AS "id!" FROM w WHERE id < $4 ORDER BY id DESC LIMIT $5"#,
        who.everything,
        who.agent,
        who.person,
        before,
        looked
    )
    .fetch_all(conn)
    .await?;
    Ok(ids)
}

/// What waits for the caller as a person: open questions and deliberations, the earliest deadline first; and where to go on
/// when there are more.
///
/// # Errors
/// The scope is missing; the cursor is none.
pub async fn inbox(
    ctx: &Ctx,
    caller: &Caller,
    limit: u32,
    after: Option<MomentId>,
) -> Outcome<(Vec<Shown>, Option<MomentId>)> {
    caller.require(Scope::MomentsRead)?;
    let limit = limit.clamp(1, MOMENT_PAGE);
    // What the caller has asked itself does not wait for it.
    let who = Seen { agent: None, ..Seen::of(caller, ctx.now()) };
    let mut conn = ctx.pool.acquire().await?;
    let (deadline, last) = place(&mut conn, caller, after, who.now).await?;
    let rows = seen!(
        select,
        "moments::inbox",
        "(x.state IN ('open', 'deliberating') OR x.resolution_kind = 'dialogue' AND x.veto_settled_at IS NULL)
           AND (x.state <> 'superseded' OR n.state IN ('withdrawn', 'expired')
                OR n.state = 'open' AND (n.expires_at <= $4 OR nc.ended_at IS NOT NULL))
           AND NOT (x.state = 'open' AND x.expires_at <= $4)
           AND NOT (x.resolution_kind IS NULL AND e.ended_at IS NOT NULL)
           AND (coalesce(x.expires_at, 'infinity'), x.id) > (coalesce($5::timestamptz, 'infinity'), $6::uuid)
         ORDER BY x.expires_at, x.id LIMIT $7",
        "ORDER BY y.expires_at, y.id LIMIT $7)) ORDER BY m.expires_at, m.id",
        who,
        deadline,
        last,
        i64::from(limit) + 1
    )
    .fetch_all(&mut *conn)
    .await?;
    page(&mut conn, caller, rows, limit, who.now).await
}

/// The place in an inbox after which a page begins: a deadline, which a deliberation has not, and an id.
async fn place(
    conn: &mut PgConnection,
    caller: &Caller,
    after: Option<MomentId>,
    now: Timestamp,
) -> Outcome<(Option<Timestamp>, Uuid)> {
    let Some(id) = after else { return Ok((Some(Timestamp::UNIX_EPOCH), Uuid::nil())) };
    let mine = |kept: &Kept| role(caller, &kept.moment, now) == Some(Role::Principal);
    let kept = rows::load(conn, id).await?.filter(mine).ok_or_else(|| {
        let message = "`cursor` is none of this inbox's. Begin without one.";
        Refusal::field(Code::InvalidRequest, "cursor", "value", message)
    })?;
    Ok((kept.moment.expires_at, id.uuid()))
}

/// A page of at most `limit` of these rows, and where to go on. That goes by the rows: what is not shown does not end a list.
async fn page(
    conn: &mut PgConnection,
    caller: &Caller,
    mut rows: Vec<Row>,
    limit: u32,
    now: Timestamp,
) -> Outcome<(Vec<Shown>, Option<MomentId>)> {
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|last| MomentId::from(last.id));
    let ids: Vec<MomentId> = rows.iter().map(|row| row.id.into()).collect();
    let spoken = words::spoken(conn, &ids).await?;
    let mut shown = Vec::new();
    for row in rows {
        let kept = Kept::try_from(row)?;
        let said = spoken.get(&kept.moment.id).map_or(0, |one| one.count);
        let bare = Shown::new(kept, Vec::new(), caller, now);
        shown.extend(bare.map(|one| Shown { said, ..one }));
    }
    Ok((shown, next))
}

/// Counts moments: the query's name, and what follows its `FROM`.
macro_rules! count {
    ($name:literal, $rest:literal $(+ $more:literal)* $(, $argument:expr)* $(,)?) => {
        sqlx::query_scalar!(
            "-- " + $name + r#"
             SELECT count(*) AS "count!" FROM moments m "# + $rest $(+ $more)*
            $(, $argument)*
        )
    };
}

/// How many questions are open that the caller may see, and which of these jobs wait for an answer.
///
/// # Errors
/// The scope is missing.
pub async fn waiting(ctx: &Ctx, caller: &Caller, jobs: &[JobId]) -> Outcome<(i64, HashSet<JobId>)> {
    caller.require(Scope::MomentsRead)?;
    let who = Seen::filtered(caller, None, None, ctx.now());
    let open = seen!(
        count,
        "moments::waiting",
        "x.state IN ('open', 'deliberating') AND x.state = 'open' AND x.expires_at > $4 AND e.ended_at IS NULL",
        "))",
        who
    )
    .fetch_one(&ctx.pool)
    .await?;
    let jobs: Vec<Uuid> = jobs.iter().map(|job| job.uuid()).collect();
    let waits = sqlx::query_scalar!(
        r#"-- moments::jobs_waiting
         SELECT DISTINCT job_id AS "job_id!" FROM moments
         WHERE job_id = ANY($1) AND state IN ('open', 'deliberating') AND state = 'open' AND expires_at > $2"#,
        &jobs,
        who.now
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok((open, waits.into_iter().map(JobId::from).collect()))
}

/// Requires that there is room for one more of the agent's before those whom it asks. The lock of each pair is held.
pub(super) async fn require_room(conn: &mut PgConnection, ask: &MomentAsk, now: Timestamp) -> Outcome<()> {
    let asked = [("principal_id", Some(&ask.principal_id)), ("escalate_to", ask.escalate_to.as_ref())];
    for (member, person) in asked {
        let Some(person) = person else { continue };
        let waiting = sqlx::query_scalar!(
            r#"-- moments::of_pair
             SELECT count(*) AS "count!" FROM moments
             WHERE agent_id = $1 AND state IN ('open', 'deliberating') AND (principal_id = $2 OR escalate_to = $2)
               AND NOT (state = 'open' AND expires_at <= $3) AND id IS DISTINCT FROM $4"#,
            ask.agent_id,
            person,
            now,
            ask.supersedes.map(MomentId::uuid)
        )
        .fetch_one(&mut *conn)
        .await?;
        check_room(usize::try_from(waiting).unwrap_or(usize::MAX), member, person)?;
    }
    Ok(())
}
