//! Subscriptions (ARCP §7.6): a session follows a job of another session, or its own job again. Events get a number
//! in the session when they are planned for it, under the session's lock. Table `session_follows`.

use entente_domain::arcp::jobs::JobStatus;
use entente_domain::arcp::jobs::ask::no_job;
use entente_domain::arcp::jobs::wire::Described;
use entente_domain::arcp::sessions::FOLLOWS;
use entente_domain::ids::{IntentId, JobId, SessionId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Caller, IntentTx, Outcome, unknown};
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Entered, frames};
use crate::Ctx;
use crate::jobs;
use crate::jobs::log::EVENT;
use crate::session_rows::counters;

/// Maximum number of events numbered at once.
const EVENTS: u16 = 1_000;

/// A job that is now followed.
#[derive(Debug)]
pub struct Followed {
    /// The job, in its state at that moment.
    pub job: Described,
    /// Last number of the following session: the events of the subscription get later ones.
    pub from: i64,
    /// Whether earlier events follow.
    pub replayed: bool,
    /// Whether events follow through the subscription: none does if the job is over, and a session's own ones come by
    /// themselves.
    pub awaits: bool,
}

/// Records a request to follow a job, and whether it was allowed (§14).
///
/// # Errors
/// Returns database errors.
pub async fn observed(
    ctx: &Ctx,
    caller: &Caller,
    session: SessionId,
    job: JobId,
    allowed: bool,
) -> Outcome<()> {
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let target = sqlx::query_scalar!(
        "-- session_follows::target
         SELECT principal FROM jobs WHERE id = $1",
        job.uuid()
    )
    .fetch_optional(work.conn())
    .await?;
    // A job that does not exist has no owner.
    let Some(target) = target else { return Ok(()) };
    let payload = json!({
        "job_id": job, "session_id": session, "subscriber": caller.agent, "target_principal": target,
        "decision": if allowed { "allowed" } else { "denied" },
    });
    work.record(Draft::of(Kind::JobObserved, &caller.agent, payload));
    work.commit().await
}

struct FollowState {
    status: String,
    last_seq: i64,
    session_id: Uuid,
    counted: bool,
}

/// Start of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// Only later events.
    Now,
    /// Events after a number of the submitting session.
    After(i64),
    /// Only later events or, if the job is over, its end: for a client that repeats a submission.
    End,
}

/// Follows a job; the caller has read it into `described`.
///
/// # Errors
/// Fails if the job no longer exists, or if the session follows the maximum number of jobs.
pub async fn follow(
    ctx: &Ctx,
    entered: &Entered,
    described: jobs::Description,
    since: Since,
) -> Outcome<Followed> {
    let job = described.job.id;
    let mut tx = ctx.pool.begin().await?;
    // From here on, an event of the session's own jobs gets no number that is not seen below.
    let counter = counters::lock(&mut tx, &[entered.id]).await?.remove(&entered.id).ok_or_else(no_job)?;
    let standing = sqlx::query_as!(
        FollowState,
        "-- session_follows::standing
         SELECT c.status, c.last_seq, j.session_id, j.counted FROM job_clock c JOIN jobs j ON j.id = c.job_id
         WHERE c.job_id = $1",
        job.uuid()
    )
    .fetch_optional(&mut *tx)
    .await?
    .ok_or_else(no_job)?;
    let own = standing.counted && standing.session_id == entered.id.uuid();
    let status = JobStatus::parse(&standing.status).ok_or_else(|| unknown("job status", &standing.status))?;
    let cursor = match since {
        Since::After(0) => 0,
        Since::After(seq) => seen(&mut tx, job, seq).await?,
        Since::End if status.is_terminal() => standing.last_seq - 1,
        Since::Now | Since::End => standing.last_seq,
    };
    // Later events of the session's own job come by themselves.
    let until = own.then_some(standing.last_seq);
    let replayed = cursor < standing.last_seq;
    let awaits = replayed || !own && !status.is_terminal();
    if awaits {
        if count(&mut tx, entered.id, job).await? >= FOLLOWS {
            let message =
                format!("The session follows {FOLLOWS} jobs, as many as it may. Unsubscribe from some.");
            return Err(Refusal::new(Code::PermissionDenied, message).into());
        }
        insert(&mut tx, entered.id, job, cursor, until, since != Since::Now).await?;
    }
    if own && replayed {
        // The history comes before live events (§7.6), and those of the session's own job get their numbers as they are
        // written: whoever writes the next one waits for the lock.
        let mut seq = counter.last_seq;
        while number(&mut tx, entered, Some(job), &mut seq).await? == usize::from(EVENTS) {}
        counters::save(&mut tx, &[(entered.id, seq)]).await?;
    }
    tx.commit().await?;
    let mut described = Described::new(&described.job, &described.remaining);
    described.current_status = status;
    Ok(Followed { job: described, from: counter.last_seq, replayed, awaits })
}

/// Stops following a job.
///
/// # Errors
/// Returns database errors.
pub async fn unfollow(ctx: &Ctx, session: SessionId, job: JobId) -> Outcome<()> {
    let mut conn = ctx.pool.acquire().await?;
    remove(&mut conn, session, &[job]).await
}

struct New {
    job_id: Uuid,
    job_seq: i64,
    word: String,
    kind: Option<String>,
    until_seq: Option<i64>,
}

/// Numbers the new events of the jobs that a session follows; returns true if there may be more.
///
/// # Errors
/// Returns database errors.
pub async fn plan(ctx: &Ctx, entered: &Entered) -> Outcome<bool> {
    let mut tx = ctx.pool.begin().await?;
    let Some(counter) = counters::lock(&mut tx, &[entered.id]).await?.remove(&entered.id) else {
        return Ok(false);
    };
    let mut seq = counter.last_seq;
    let count = number(&mut tx, entered, None, &mut seq).await?;
    if count > 0 {
        counters::save(&mut tx, &[(entered.id, seq)]).await?;
        tx.commit().await?;
    }
    Ok(count == usize::from(EVENTS))
}

/// Numbers some new events of one job that the session follows, or of all of them, and returns how many it has found; `seq` is the last
/// number given. The caller has locked the session's counter.
async fn number(
    conn: &mut PgConnection,
    entered: &Entered,
    job: Option<JobId>,
    seq: &mut i64,
) -> Outcome<usize> {
    let new = new(conn, entered.id, job).await?;
    let mut numbered = Vec::new();
    let mut cursors: Vec<(Uuid, i64)> = Vec::new();
    let mut over: Vec<JobId> = Vec::new();
    for event in &new {
        let admitted = event.kind.as_deref().is_none_or(|kind| entered.features.admit(kind));
        if admitted {
            *seq += 1;
            numbered.push((*seq, JobId::from(event.job_id), Some(event.job_seq)));
        }
        match cursors.last_mut() {
            Some((job, cursor)) if *job == event.job_id => *cursor = event.job_seq,
            _ => cursors.push((event.job_id, event.job_seq)),
        }
        if event.word != EVENT || event.until_seq == Some(event.job_seq) {
            over.push(event.job_id.into());
        }
    }
    if !new.is_empty() {
        frames::insert(conn, entered.id, &numbered, None).await?;
        advance(conn, entered.id, &cursors).await?;
        remove(conn, entered.id, &over).await?;
    }
    Ok(new.len())
}

/// Returns the last event of a job that a client has, by a number of the submitting session.
async fn seen(conn: &mut PgConnection, job: JobId, from: i64) -> Outcome<i64> {
    let seq = sqlx::query_scalar!(
        "-- session_follows::seen
         SELECT job_seq FROM job_events WHERE job_id = $1 AND origin_seq <= $2 ORDER BY origin_seq DESC, job_seq DESC LIMIT 1",
        job.uuid(),
        from
    )
    .fetch_optional(conn)
    .await?;
    Ok(seq.unwrap_or(0))
}

/// Counts the jobs that a session follows besides this one.
async fn count(conn: &mut PgConnection, session: SessionId, besides: JobId) -> Outcome<i64> {
    let count = sqlx::query_scalar!(
        r#"-- session_follows::count
         SELECT count(*) AS "count!" FROM session_follows WHERE session_id = $1 AND job_id <> $2"#,
        session.uuid(),
        besides.uuid()
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// Returns whether a session follows any job.
pub(super) async fn any(conn: &mut PgConnection, session: SessionId) -> Outcome<bool> {
    Ok(count(conn, session, JobId::from(Uuid::nil())).await? > 0)
}

/// Lists the jobs that a session follows.
///
/// # Errors
/// Returns database errors.
pub async fn followed(ctx: &Ctx, session: SessionId) -> Outcome<Vec<JobId>> {
    let ids = sqlx::query_scalar!(
        "-- session_follows::followed
         SELECT job_id FROM session_follows WHERE session_id = $1",
        session.uuid()
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(ids.into_iter().map(JobId::from).collect())
}

async fn insert(
    conn: &mut PgConnection,
    session: SessionId,
    job: JobId,
    cursor: i64,
    until: Option<i64>,
    again: bool,
) -> Outcome<()> {
    // A session that follows the job already, and requests no history, misses none of its events.
    sqlx::query!(
        "-- session_follows::insert
         INSERT INTO session_follows AS f (session_id, job_id, cursor_seq, until_seq) VALUES ($1, $2, $3, $4)
         ON CONFLICT (session_id, job_id) DO UPDATE SET until_seq = excluded.until_seq,
             cursor_seq = CASE WHEN $5 THEN excluded.cursor_seq ELSE least(f.cursor_seq, excluded.cursor_seq) END",
        session.uuid(),
        job.uuid(),
        cursor,
        until,
        again
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Selects the events of one followed job, or of all of them, that have no number in the session yet.
async fn new(conn: &mut PgConnection, session: SessionId, job: Option<JobId>) -> Outcome<Vec<New>> {
    let rows = sqlx::query_as!(
        New,
        "-- session_follows::new
         SELECT f.job_id, e.job_seq, e.type AS word, e.kind, f.until_seq FROM session_follows f
         CROSS JOIN LATERAL (
             SELECT e.job_seq, e.type, e.kind FROM job_events e
             WHERE e.job_id = f.job_id AND e.job_seq > f.cursor_seq AND (f.until_seq IS NULL OR e.job_seq <= f.until_seq)
             ORDER BY e.job_seq LIMIT $2) e
         WHERE f.session_id = $1 AND ($3::uuid IS NULL OR f.job_id = $3) ORDER BY f.job_id, e.job_seq LIMIT $2",
        session.uuid(),
        i64::from(EVENTS),
        job.map(JobId::uuid)
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

async fn advance(conn: &mut PgConnection, session: SessionId, cursors: &[(Uuid, i64)]) -> Outcome<()> {
    let (jobs, seqs): (Vec<Uuid>, Vec<i64>) = cursors.iter().copied().unzip();
    sqlx::query!(
        "-- session_follows::advance
         UPDATE session_follows f SET cursor_seq = n.seq FROM UNNEST($2::uuid[], $3::bigint[]) AS n (job_id, seq)
         WHERE f.session_id = $1 AND f.job_id = n.job_id",
        session.uuid(),
        &jobs,
        &seqs
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn remove(conn: &mut PgConnection, session: SessionId, over: &[JobId]) -> Outcome<()> {
    let jobs: Vec<Uuid> = over.iter().map(|job| job.uuid()).collect();
    sqlx::query!(
        "-- session_follows::remove
         DELETE FROM session_follows WHERE session_id = $1 AND job_id = ANY($2)",
        session.uuid(),
        &jobs
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes the subscriptions of sessions that were deleted.
pub(super) async fn delete(conn: &mut PgConnection, sessions: &[Uuid]) -> Outcome<()> {
    sqlx::query!(
        "-- session_follows::delete
         DELETE FROM session_follows WHERE session_id = ANY($1)",
        sessions
    )
    .execute(conn)
    .await?;
    Ok(())
}
