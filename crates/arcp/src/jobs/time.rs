//! Effects of time on jobs: expired leases, passed deadlines, lost workers, ended cancellation grace, expired
//! idempotency keys, reached starts; and the follow-up of failed jobs. `Job::due` decides which effect is due.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::wire::ErrorPayload;
use entente_domain::arcp::jobs::{Due, GRACE_SECONDS, Job, JobStatus};
use entente_domain::clock::Timestamp;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::log::events::{Draft, Kind};
use entente_kernel::due::run_each;
use entente_kernel::wakeups::WakeKey;
use entente_kernel::{IntentTx, Outcome};
use serde_json::json;
use sqlx::PgConnection;

use super::claims::gates;
use super::locked::LockedJobs;
use super::log::{self, Stored};
use super::records::lapsed;
use super::{rows, writes};
use crate::Ctx;

/// Jobs released at once: those due at one second start in the order of the queue, not in that of the batches.
const TOGETHER: i64 = 10_000;

/// Time for which the cost under a lapsed reservation is still charged.
const LATEST: TimeDelta = TimeDelta::days(1);

/// Workers woken for jobs of one agent; each that takes a job of many wakes the next one.
const WOKEN: usize = 32;

/// Applies the due effects to up to `limit` jobs and returns the number of changes.
///
/// # Errors
/// The database query fails.
pub async fn expire_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let released = release_due(ctx).await?;
    let due = sqlx::query_scalar!(
        "-- job_clock::due
         SELECT job_id FROM job_clock WHERE due_at <= $1 AND ended_at IS NULL AND status <> 'preparing'
         ORDER BY due_at LIMIT $2",
        ctx.now(),
        limit
    )
    .fetch_all(&ctx.pool)
    .await?;
    let done = run_each(due.into_iter().map(|id| pass(ctx, id.into()))).await?;
    let ended = done + follow_ends(ctx, limit).await?;
    Ok(released + ended + gates::let_in_all(ctx, limit).await?)
}

/// Releases the jobs that may be claimed from now on, and wakes their workers; returns their number.
///
/// A job that waits for its start, or for its next attempt, is `pending` without an agent in `job_clock`, so that no claim
/// finds it, and claims need not look for its time.
async fn release_due(ctx: &Ctx) -> Outcome<u64> {
    let released = writes::release(&mut *ctx.pool.acquire().await?, ctx.now(), TOGETHER).await?;
    let count = released.len() as u64;
    let mut waiting: BTreeMap<String, usize> = BTreeMap::new();
    for agent in released {
        *waiting.entry(agent).or_default() += 1;
    }
    for (agent, jobs) in waiting {
        for _ in 0..jobs.min(WOKEN) {
            ctx.feed.wake(WakeKey::Work(agent.clone()));
        }
    }
    Ok(count)
}

async fn pass(ctx: &Ctx, id: JobId) -> Outcome<u64> {
    let (tx, mut locked) = LockedJobs::begin(ctx, id).await?;
    let Ok(mut change) = locked.change(id) else { return Ok(0) };
    let due = change.job().due(change.now());
    match due {
        // Another server was first, or the claim was extended: rewriting the row sets the real due time.
        None => change.touch(),
        Some(Due::Requeue) => change.lose(),
        Some(Due::End(fault)) => {
            let message = why(change.job(), fault, change.now());
            change.fail(fault, &message, None, None)?;
        }
    }
    locked.apply(change);
    locked.conclude(ctx, tx).await?;
    Ok(u64::from(due.is_some()))
}

/// Follows up failed jobs and returns the number of children stopped.
///
/// Stops their children and records expired leases in the system log (§14).
async fn follow_ends(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    if !writes::any_failed(&ctx.pool, ctx.now()).await? {
        return Ok(0);
    }
    let mut work = IntentTx::unattended(ctx, IntentId::SYSTEM).await?;
    let failed = writes::failed(work.conn(), ctx.now(), limit).await?;
    for job in expired(work.conn(), &failed).await? {
        let payload = json!({
            "job_id": job.id, "agent": job.agent, "principal": job.principal, "expired_at": job.expires_at,
        });
        work.record(Draft::of(Kind::JobLeaseExpired, SYSTEM, payload));
    }
    let stopped = writes::stop_children(work.conn(), &failed, ctx.now()).await?;
    work.commit().await?;
    Ok(stopped)
}

/// Those of these jobs that ended because their leases expired.
async fn expired(conn: &mut PgConnection, failed: &[JobId]) -> Outcome<Vec<Job>> {
    let mut jobs = rows::load(conn, failed).await?;
    jobs.retain(|job| {
        job.status == JobStatus::Error && job.ended_at.is_some_and(|end| job.lease_expired(end))
    });
    if jobs.is_empty() {
        return Ok(jobs);
    }
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    let ends = log::ends(conn, &ids).await?;
    // Within the grace period a job may have ended for another reason.
    let so = |end: &Stored| {
        serde_json::from_str(&end.body).is_ok_and(|said: ErrorPayload| said.code == Fault::LeaseExpired)
    };
    let ended: BTreeSet<JobId> = ends.iter().filter(|end| so(end)).map(|end| end.job_id).collect();
    jobs.retain(|job| ended.contains(&job.id));
    Ok(jobs)
}

fn why(job: &Job, fault: Fault, now: Timestamp) -> String {
    match fault {
        Fault::Cancelled => {
            job.cancel.as_ref().map_or_else(|| "Cancelled.".to_owned(), |cancel| cancel.reason.clone())
        }
        Fault::Timeout => job.timeout_reason(now),
        Fault::LeaseExpired => format!(
            "The job's lease ran out and {GRACE_SECONDS} s of grace with it. To go on, submit it again with more time."
        ),
        _ => format!(
            "Its worker was lost, for the {}. time. It can be submitted again.",
            job.attempt - job.failures
        ),
    }
}

/// Removes the expired idempotency keys of up to `limit` jobs (ARCP §7.2), so that they can be reused.
///
/// # Errors
/// The database query fails.
pub async fn forget_keys(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let before = ctx.now() - ctx.settings.idempotency_window;
    writes::forget_keys(&ctx.pool, before, limit).await
}

/// Forgets up to `limit` reservations that lapsed so long ago that nothing spent under them is charged any more.
///
/// # Errors
/// The database query fails.
pub async fn forget_lapsed(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    lapsed::forget(&ctx.pool, ctx.now() - LATEST, limit).await
}
