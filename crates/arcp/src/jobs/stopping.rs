//! Jobs of stopped subjects: the running ones are told to end, with the grace time of a cancellation (ARCP §7.4), and their
//! credentials are revoked at once (§9.8.2); the pending ones leave the queue until the stop is lifted. Table
//! `stopped_jobs`. A pending job whose submitter, or former worker, has credentials for it ends: they are revoked, and without
//! them it could not run later. A stop of a worker's principal concerns the jobs that the worker runs.
//!
//! This repeats as long as a stop is in force: jobs can become pending or running later, on a server that did not know of
//! the stop, after a pause, or when credentials have come.

use std::collections::BTreeMap;

use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::{Cancel, JobStatus};
use entente_domain::clock::Timestamp;
use entente_domain::ids::{JobId, WorkerId};
use entente_kernel::Outcome;
use entente_kernel::wakeups::WakeKey;
use sqlx::PgConnection;

use super::locked::LockedJobs;
use super::{rows, writes};
use crate::Ctx;
use crate::credentials;

/// Number of jobs changed in one transaction.
const BATCH: i64 = 100;

/// Number of jobs taken out of the queue at once.
const LARGE_BATCH: i64 = 5_000;

/// Tells running jobs of stopped subjects to end, takes pending ones out of the queue, and puts those back whose stop was
/// lifted; returns how many.
///
/// # Errors
/// A database error.
pub async fn apply_stops(ctx: &Ctx) -> Outcome<u64> {
    let mut done = 0;
    loop {
        let due_at = ctx.now() + ctx.state.jobs.cancel_grace;
        let ids = running(&mut *ctx.pool.acquire().await?, due_at).await?;
        if ids.is_empty() {
            break;
        }
        done += end(ctx, &ids).await?;
    }
    done += writes::hold_back_stopped(&mut *ctx.pool.acquire().await?, LARGE_BATCH).await?;
    Ok(done + give_back(ctx).await?)
}

/// The stop of a job.
struct Stopped {
    reason: String,
    /// Whether its own subject is stopped, and it has credentials: then it ends even if it waits.
    has_credentials: bool,
    /// The stopped worker that runs it, if the job's own subject is not stopped.
    worker: Option<WorkerId>,
}

async fn end(ctx: &Ctx, stopped: &BTreeMap<JobId, Stopped>) -> Outcome<u64> {
    let ids: Vec<JobId> = stopped.keys().copied().collect();
    let intents = rows::intents(&mut *ctx.pool.acquire().await?, &ids).await?;
    let mut tx = ctx.begin(&intents).await?;
    let now = ctx.now();
    let mut locked = LockedJobs::take(&mut tx, &ids, &intents, now).await?;
    let due_at = now + ctx.state.jobs.cancel_grace;
    // Those with credentials also if they were told to end before.
    let mut revoked: Vec<JobId> =
        stopped.iter().filter(|(_, one)| one.has_credentials).map(|(id, _)| *id).collect();
    for (id, one) in stopped {
        let Ok(mut change) = locked.change(*id) else { continue };
        let reason = format!("Stopped: {}", one.reason);
        let holder = change.job().claim.as_ref().map(|claim| claim.worker_id);
        match change.job().status {
            // The stopped worker has just lost it, and another one runs it.
            JobStatus::Running if one.worker.is_some_and(|worker| holder != Some(worker)) => continue,
            // One that was just given back waits like the others.
            JobStatus::Pending if one.has_credentials => {
                change.fail(Fault::Cancelled, &reason, None, None)?;
            }
            // One that its submitter has cancelled gets no longer time to stop than the others.
            JobStatus::Running
                if change.job().cancel.as_ref().is_none_or(|cancel| cancel.due_at > due_at) =>
            {
                change.job_mut().cancel = Some(Cancel { reason, due_at });
                revoked.push(*id);
            }
            _ => continue,
        }
        locked.apply(change);
    }
    credentials::end_of_jobs(&mut tx, &revoked, now).await?;
    locked.conclude(ctx, tx).await?;
    ctx.state.provisioners.ring();
    Ok(u64::try_from(stopped.len()).unwrap_or(u64::MAX))
}

/// Running jobs that were not told to end by this time, and jobs with credentials, each with the reason of its stop.
async fn running(conn: &mut PgConnection, due_at: Timestamp) -> Outcome<BTreeMap<JobId, Stopped>> {
    let rows = sqlx::query!(
        r#"-- job_clock::stopped_running
         SELECT c.job_id AS "job_id!", s.reason AS "reason!", false AS "has_credentials!",
                CASE WHEN stop_concerns(s.scope, s.subject, s.subject_id, j.owner, j.principal, j.agent, j.intent_id, j.key_id)
                     THEN NULL ELSE c.worker_id END AS worker_id
         FROM job_clock c JOIN jobs j ON j.id = c.job_id
         LEFT JOIN workers w ON w.id = c.worker_id
         JOIN stops s ON s.lifted_at IS NULL
             AND (stop_concerns(s.scope, s.subject, s.subject_id, j.owner, j.principal, j.agent, j.intent_id, j.key_id)
                  OR stop_concerns(s.scope, s.subject, s.subject_id, w.principal, w.principal, w.principal, NULL, NULL))
         WHERE c.due_at IS NOT NULL AND c.status = 'running' AND (c.cancel_due_at IS NULL OR c.cancel_due_at > $2)
         UNION ALL
         SELECT c.job_id, s.reason, true, NULL
         FROM credentials k JOIN job_clock c ON c.job_id = k.job_id JOIN jobs j ON j.id = c.job_id
         JOIN stops s ON s.lifted_at IS NULL
             AND stop_concerns(s.scope, s.subject, s.subject_id, j.owner, j.principal, j.agent, j.intent_id, j.key_id)
         WHERE k.state = 'live' AND c.status IN ('pending', 'running')
         ORDER BY 1, 3, 4 LIMIT $1"#,
        BATCH,
        due_at
    )
    .fetch_all(conn)
    .await?;
    // Of a job's rows the last one counts, which concerns it most.
    let stopped = rows.into_iter().map(|row| {
        let (reason, has_credentials) = (row.reason, row.has_credentials);
        let worker = row.worker_id.map(WorkerId::from);
        (row.job_id.into(), Stopped { reason, has_credentials, worker })
    });
    Ok(stopped.collect())
}

/// Puts jobs whose stop was lifted back into the queue, and wakes workers; returns how many.
async fn give_back(ctx: &Ctx) -> Outcome<u64> {
    let mut count = 0;
    loop {
        let agents = writes::give_back_unstopped(&mut *ctx.pool.acquire().await?, LARGE_BATCH).await?;
        if agents.is_empty() {
            return Ok(count);
        }
        count += u64::try_from(agents.len()).unwrap_or(u64::MAX);
        agents.into_iter().for_each(|agent| ctx.feed.wake(WakeKey::Work(agent)));
    }
}
