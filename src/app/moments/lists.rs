//! Lists of moments: what somebody may see, what waits for a person, how much waits. Pages are without words, which only who
//! looks at one moment gets: one may have two hundred of 16 KiB.

use std::collections::HashSet;

use entente_core::clock::Timestamp;
use entente_core::ids::{IntentId, JobId, MomentId};
use entente_core::keys::Scope;
use entente_core::limits::MOMENT_PAGE;
use entente_core::moments::{MomentAsk, MomentState, check_room};
use entente_core::refusal::{Code, Refusal};
use sqlx::PgConnection;
use uuid::Uuid;

use super::rows::{self, Kept, Row, select};
use super::visible::{Seen, seen};
use super::{Role, Shown, role, words};
use crate::app::{Caller, Ctx, Outcome};

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

/// The moments that the caller asked or is asked, with the scope `admin` everybody's; the latest first, and where to go on
/// when there are more.
///
/// # Errors
/// The scope is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &Filter) -> Outcome<(Vec<Shown>, Option<MomentId>)> {
    caller.require(Scope::MomentsRead)?;
    let limit = filter.limit.clamp(1, MOMENT_PAGE);
    let who = Seen::filtered(caller, filter.agent.as_deref(), filter.principal.as_deref(), ctx.now());
    let mut conn = ctx.pool.acquire().await?;
    let rows = seen!(
        select,
        "moments::list",
        "($5::text IS NULL OR $5 = CASE
                WHEN x.state = 'open' AND x.expires_at <= $4 AND (e.ended_at IS NULL OR e.ended_at >= x.expires_at)
                    THEN 'expired'
                WHEN x.state IN ('open', 'deliberating') AND x.resolution_kind IS NULL AND e.ended_at IS NOT NULL
                    THEN 'withdrawn'
                WHEN x.state = 'superseded' AND x.resolution_kind = 'dialogue' AND x.veto_settled_at IS NULL
                    AND (n.state IN ('withdrawn', 'expired')
                        OR n.state = 'open' AND (n.expires_at <= $4 OR nc.ended_at IS NOT NULL))
                    THEN 'deliberating'
                ELSE x.state END)
           AND ($6::text IS NULL OR x.principal_id = $6) AND ($7::text IS NULL OR x.agent_id = $7)
           AND ($8::text IS NULL OR x.decision_class = $8) AND ($9::uuid IS NULL OR x.job_id = $9)
           AND ($10::uuid IS NULL OR x.intent_id = $10) AND x.id < $11 ORDER BY x.id DESC LIMIT $12",
        "ORDER BY y.id DESC LIMIT $12)) ORDER BY m.id DESC",
        who,
        filter.state.map(MomentState::as_str),
        filter.principal,
        filter.agent,
        filter.class,
        filter.job.map(JobId::uuid),
        filter.intent.map(IntentId::uuid),
        filter.before.map_or(Uuid::max(), MomentId::uuid),
        i64::from(limit) + 1
    )
    .fetch_all(&mut *conn)
    .await?;
    page(&mut conn, caller, rows, limit, who.now).await
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
