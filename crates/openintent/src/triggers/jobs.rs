//! Jobs of firings: a firing stores the request, and a background task of any server submits it
//! (`crates/bridges/src/trigger_jobs.rs`), because this protocol knows no jobs. The request's idempotency key makes the
//! job one, whatever dies in between.

use entente_domain::clock::plus_seconds;
use entente_domain::ids::{FiringId, IntentId, JobId, TriggerId};
use entente_domain::openintent::triggers::Cause;
use entente_kernel::{Caller, Outcome};

use super::tx::{FiringTx, owners};
use super::{firings, rows};
use crate::Ctx;

/// A job to submit.
pub struct DueJob {
    /// The firing.
    pub firing_id: FiringId,
    /// The request, as JSON.
    pub request: String,
    /// The trigger's owner with its present rights; `None` if it has none left.
    pub owner: Option<Caller>,
    /// Whether the request is so old that its idempotency key may be forgotten.
    pub late: bool,
}

/// Seconds after which a job is tried again that could not be submitted.
const AGAIN_SECONDS: u32 = 10;

/// Takes up to `limit` jobs to submit, the oldest first. A job that is not submitted comes again after ten seconds, behind those
/// that were not tried yet.
///
/// # Errors
/// Returns database errors.
pub async fn due_jobs(ctx: &Ctx, limit: i64) -> Outcome<Vec<DueJob>> {
    let (mut conn, now) = (ctx.pool.acquire().await?, ctx.now());
    let found = firings::jobs(&mut conn, now, plus_seconds(now, AGAIN_SECONDS), limit).await?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let mut triggers = Vec::new();
    for one in &found {
        // A trigger that was deleted since has fired all the same.
        if let Some(stored) = rows::find_any(&mut conn, one.trigger_id).await? {
            triggers.push((stored.trigger.id, stored.key_id, stored.trigger.agent_id));
        }
    }
    let named: Vec<(TriggerId, _, &str)> =
        triggers.iter().map(|(id, key, agent)| (*id, *key, agent.as_str())).collect();
    let owners = owners(&mut conn, &named, now).await?;
    let due = found.into_iter().map(|one| DueJob {
        firing_id: one.id,
        request: one.request,
        owner: owners.get(&one.trigger_id).cloned(),
        late: one.created_at + ctx.settings.idempotency_window / 2 <= now,
    });
    Ok(due.collect())
}

/// Records the job of a firing.
///
/// # Errors
/// Returns database errors.
pub async fn job_submitted(ctx: &Ctx, firing: FiringId, job: JobId) -> Outcome<()> {
    // Every change of a trigger holds this lock (`tx.rs`); there is nothing to record.
    let mut tx = ctx.begin(&[IntentId::SYSTEM]).await?;
    if let Some(trigger) = firings::job_submitted(&mut tx, firing, job).await? {
        rows::recovered(&mut tx, trigger).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// Records that the job of a firing was refused, which counts as a failure of its trigger, unless somebody fired it by hand.
///
/// # Errors
/// Returns database errors.
pub async fn job_refused(ctx: &Ctx, firing: FiringId, why: &str) -> Outcome<()> {
    let mut work = FiringTx::begin(ctx).await?;
    let now = work.system_log.now();
    let Some((trigger, cause)) = firings::job_refused(&mut work.tx, firing, why, now).await? else {
        return Ok(());
    };
    if cause != Cause::Hand {
        work.count_failure(ctx, trigger, "refused").await?;
    }
    work.conclude(ctx).await
}
