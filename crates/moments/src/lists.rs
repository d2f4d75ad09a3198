//! Lists of moments: visible ones, a person's inbox, and counts. Pages leave out the words, which only a
//! single moment's response has: there may be two hundred of 16 KiB.

use std::collections::HashSet;

use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, JobId, MomentId};
use entente_domain::limits::MOMENT_PAGE;
use entente_domain::moments::{MomentAsk, MomentState, check_room};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Caller, Outcome};
use sqlx::PgConnection;
use uuid::Uuid;

use super::rows::{self, Row, StoredMoment, select};
use super::visible::{Seen, seen};
use super::{MomentView, Role, role, words};
use crate::Ctx;

/// Rows read for a page with a filter, which may drop most of them.
const LOOKED: i64 = 500;

/// Filter of a list of moments.
#[derive(Debug, Clone, Default)]
pub struct MomentFilter {
    /// Only moments in this state.
    pub state: Option<MomentState>,
    /// Only moments addressed to this person.
    pub principal: Option<String>,
    /// Only moments of this agent.
    pub agent: Option<String>,
    /// Only moments of this decision class.
    pub class: Option<String>,
    /// Only moments of this job.
    pub job: Option<JobId>,
    /// Only moments of this intent.
    pub intent: Option<IntentId>,
    /// Maximum number of moments.
    pub limit: u32,
    /// Cursor: only moments older than this one.
    pub before: Option<MomentId>,
}

impl MomentFilter {
    /// Whether it selects all visible moments.
    fn is_empty(&self) -> bool {
        let Self { state, principal, agent, class, job, intent, limit: _, before: _ } = self;
        let names = principal.is_none() && agent.is_none() && class.is_none();
        names && state.is_none() && job.is_none() && intent.is_none()
    }
}

/// Lists the moments that the caller asked or is asked, or all with the scope `admin`, newest first.
///
/// Also returns the cursor of the next page. A page reads a limited number of rows, which bounds the cost of
/// a filter: it may be short or empty and still have a cursor.
///
/// # Errors
/// The caller lacks the scope.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    filter: &MomentFilter,
) -> Outcome<(Vec<MomentView>, Option<MomentId>)> {
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

/// Selects ids of moments: the query's name, and the text after its `FROM`.
macro_rules! ids {
    ($name:literal, $rest:literal $(+ $more:literal)* $(, $argument:expr)* $(,)?) => {
        sqlx::query_scalar!("-- " + $name + "\n SELECT m.id FROM moments m " + $rest $(+ $more)* $(, $argument)*)
    };
}

/// Ids to filter, newest first, each query along an index of its own.
///
/// Reads those of the job or intent, the waiting ones if only these are wanted, else all visible ones.
async fn looked_at(
    conn: &mut PgConnection,
    who: Seen<'_>,
    filter: &MomentFilter,
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

/// Visible moments that wait or may wait again.
///
/// Each party's are read along the partial indexes of waiting moments, so that no plan reads finished ones.
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

/// Lists the open questions and deliberations that wait for the caller as a person, earliest deadline first,
/// with the cursor of the next page.
///
/// # Errors
/// The caller lacks the scope; the cursor is invalid.
pub async fn inbox(
    ctx: &Ctx,
    caller: &Caller,
    limit: u32,
    after: Option<MomentId>,
) -> Outcome<(Vec<MomentView>, Option<MomentId>)> {
    caller.require(Scope::MomentsRead)?;
    let limit = limit.clamp(1, MOMENT_PAGE);
    // The caller's own questions do not wait for the caller.
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

/// Start position of a page in an inbox: a deadline, which a deliberation lacks, and an id.
async fn place(
    conn: &mut PgConnection,
    caller: &Caller,
    after: Option<MomentId>,
    now: Timestamp,
) -> Outcome<(Option<Timestamp>, Uuid)> {
    let Some(id) = after else { return Ok((Some(Timestamp::UNIX_EPOCH), Uuid::nil())) };
    let mine = |kept: &StoredMoment| role(caller, &kept.moment, now) == Some(Role::Principal);
    let kept = rows::load(conn, id).await?.filter(mine).ok_or_else(|| {
        let message = "`cursor` is none of this inbox's. Begin without one.";
        Refusal::field(Code::InvalidRequest, "cursor", "value", message)
    })?;
    Ok((kept.moment.expires_at, id.uuid()))
}

/// A page of at most `limit` of these rows, and the next cursor, which counts hidden rows as well.
async fn page(
    conn: &mut PgConnection,
    caller: &Caller,
    mut rows: Vec<Row>,
    limit: u32,
    now: Timestamp,
) -> Outcome<(Vec<MomentView>, Option<MomentId>)> {
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|last| MomentId::from(last.id));
    let ids: Vec<MomentId> = rows.iter().map(|row| row.id.into()).collect();
    let spoken = words::spoken(conn, &ids).await?;
    let mut shown = Vec::new();
    for row in rows {
        let kept = StoredMoment::try_from(row)?;
        let said = spoken.get(&kept.moment.id).map_or(0, |one| one.count);
        let bare = MomentView::new(kept, Vec::new(), caller, now);
        shown.extend(bare.map(|one| MomentView { said, ..one }));
    }
    Ok((shown, next))
}

/// Counts moments: the query's name, and the text after its `FROM`.
macro_rules! count {
    ($name:literal, $rest:literal $(+ $more:literal)* $(, $argument:expr)* $(,)?) => {
        sqlx::query_scalar!(
            "-- " + $name + r#"
             SELECT count(*) AS "count!" FROM moments m "# + $rest $(+ $more)*
            $(, $argument)*
        )
    };
}

/// Counts the open questions that the caller may see, and tells which of these jobs wait for an answer.
///
/// # Errors
/// The caller lacks the scope.
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

/// Requires room for one more question of the agent to each addressee, under the lock of each pair.
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
