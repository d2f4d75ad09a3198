//! Streams over all jobs of a principal, and polling for changes with lost notifications.
//!
//! A stream over many jobs follows the order over the events of all jobs, like the stream over many intents
//! (ARCHITECTURE.md, "One order").

use std::collections::HashMap;

use entente_domain::arcp::jobs::Job;
use entente_domain::ids::JobId;
use entente_kernel::log::order;
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{Caller, Outcome};
use uuid::Uuid;

use super::log::{self, JobEventPosition, JobEventToken, Stored};
use super::rows;
use crate::Ctx;

/// Events read at once.
const STEP: i64 = 2_048;

/// Returns the start position of a stream without history: after everything that is committed.
///
/// # Errors
/// The database query fails.
pub async fn start_of_everything(ctx: &Ctx) -> Outcome<JobEventPosition> {
    let (global, job_seq) = order::advance(&mut *ctx.pool.acquire().await?).await?.jobs;
    Ok(JobEventPosition { global, job_seq })
}

/// Returns the position of a client's token.
///
/// # Errors
/// The database query fails.
pub async fn resume_everything(ctx: &Ctx, token: JobEventToken) -> Outcome<JobEventPosition> {
    let mut conn = ctx.pool.acquire().await?;
    let (global, job_seq) = order::advance(&mut conn).await?.jobs;
    let place = match token {
        JobEventToken::Place(place) => place,
        JobEventToken::Former { xid, job_id, job_seq } => {
            log::translate(&mut conn, xid, job_id, job_seq).await?
        }
    };
    // A token beyond the end comes from a database that was restored: continue at the end.
    Ok(place.min(JobEventPosition { global, job_seq }))
}

/// Returns the events of the caller's jobs after a position, each with its own, and the position reached.
///
/// # Errors
/// The database query fails.
pub async fn everything(
    ctx: &Ctx,
    caller: &Caller,
    after: JobEventPosition,
) -> Outcome<(Vec<(JobEventPosition, Stored, Job)>, JobEventPosition)> {
    let mut conn = ctx.pool.acquire().await?;
    let (global, job_seq) = order::advance(&mut conn).await?.jobs;
    if after >= (JobEventPosition { global, job_seq }) {
        return Ok((Vec::new(), after));
    }
    let (places, mut reached) = log::places(&mut conn, after, &caller.agent, STEP).await?;
    // Of others' events only the positions are read; of the caller's own as many as fit.
    let (mut last, mut mine, mut bytes) = (after, Vec::new(), 0);
    for place in places {
        if place.mine {
            if bytes >= log::BYTES {
                reached = last;
                break;
            }
            bytes += i64::from(place.bytes);
            mine.push((place.place, place.job_id));
        }
        last = place.place;
    }
    let named: Vec<(Uuid, i64)> = mine.iter().map(|(place, job)| (*job, place.job_seq)).collect();
    let found = log::at(&mut conn, &named).await?;
    let found: HashMap<(JobId, i64), Stored> =
        found.into_iter().map(|event| ((event.job_id, event.job_seq), event)).collect();
    let mut ids: Vec<JobId> = named.iter().map(|(job, _)| (*job).into()).collect();
    ids.sort_unstable();
    ids.dedup();
    let jobs = rows::load(&mut conn, &ids).await?;
    let jobs: HashMap<JobId, Job> = jobs.into_iter().map(|job| (job.id, job)).collect();
    let events = mine.into_iter().filter_map(|(place, job)| {
        let job_id = JobId::from(job);
        let event = found.get(&(job_id, place.job_seq))?.clone();
        Some((place, event, jobs.get(&job_id)?.clone()))
    });
    Ok((events.collect(), reached))
}

/// Wakes workers that wait for work if another server's notification was lost; free while none waits.
///
/// # Errors
/// The database query fails.
pub async fn poll_pending(ctx: &Ctx) -> Outcome<()> {
    let wakeups = ctx.feed.wakeups();
    let awaited = wakeups.awaited();
    if !awaited.is_empty() {
        let waiting = sqlx::query_scalar!(
            r#"-- job_clock::look_around
             SELECT a.agent AS "agent!" FROM UNNEST($1::text[]) AS a (agent)
             WHERE EXISTS (SELECT 1 FROM job_clock c WHERE c.status = 'pending' AND NOT c.parked AND c.agent = a.agent)"#,
            &awaited
        )
        .fetch_all(&ctx.pool)
        .await?;
        waiting.into_iter().for_each(|agent| wakeups.ring(&WakeKey::Work(agent)));
    }
    Ok(())
}

/// Current version numbers of the jobs and sessions among these wake keys.
pub(crate) async fn versions(
    ctx: &entente_kernel::Ctx,
    listened: &[WakeKey],
) -> Outcome<Vec<(WakeKey, i64)>> {
    let (mut jobs, mut sessions) = (Vec::new(), Vec::new());
    for touch in listened {
        match touch {
            WakeKey::Job(id) | WakeKey::Stop(id) => jobs.push(id.uuid()),
            WakeKey::Session(id) => sessions.push(id.uuid()),
            WakeKey::Intent(_)
            | WakeKey::Work(_)
            | WakeKey::Worker(_)
            | WakeKey::Mailbox(_)
            | WakeKey::Moment(_)
            | WakeKey::Inbox(_)
            | WakeKey::Leases(_)
            | WakeKey::AgentInbox(_) => {}
        }
    }
    let mut found = Vec::new();
    if !jobs.is_empty() {
        let rows = sqlx::query!(
            r#"-- job_clock::moved
             SELECT job_id, last_seq, attempt, signals_sent, cancel_due_at IS NOT NULL OR status <> 'running' AS "stops!"
             FROM job_clock WHERE job_id = ANY($1)"#,
            &jobs
        )
        .fetch_all(&ctx.pool)
        .await?;
        for row in rows {
            found.push((WakeKey::Job(row.job_id.into()), row.last_seq));
            // Differs whenever the worker has to look: the job has to stop, another worker has it, or it has a signal.
            let stops = i64::from(row.attempt) * 2 + i64::from(row.stops);
            found.push((WakeKey::Stop(row.job_id.into()), (row.signals_sent << 32) + stops));
        }
    }
    if !sessions.is_empty() {
        let rows = sqlx::query!(
            "-- sessions::moved\n SELECT id, last_seq FROM sessions WHERE id = ANY($1)",
            &sessions
        )
        .fetch_all(&ctx.pool)
        .await?;
        found.extend(rows.into_iter().map(|row| (WakeKey::Session(row.id.into()), row.last_seq)));
    }
    Ok(found)
}
