//! What time does to jobs: leases run out, deadlines pass, workers are lost, the grace of a cancellation ends, keys are past
//! their window. What is due is the law's affair (`Job::due`).

use entente_core::events::{Draft, Kind};
use entente_core::faults::Fault;
use entente_core::ids::{IntentId, JobId};
use entente_core::jobs::{Due, GRACE_SECONDS, Job};
use entente_core::principals::HOUSE;
use serde_json::json;

use super::hold::Hold;
use super::{rows, writes};
use crate::app::lines::Line;
use crate::app::rounds::round;
use crate::app::{Ctx, Outcome, lock_key};

/// Does what is due of up to `limit` jobs; answers with how much that was.
///
/// # Errors
/// The database.
pub async fn pass_time(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let due = sqlx::query_scalar!(
        "-- job_clock::due
         SELECT job_id FROM job_clock WHERE due_at <= $1 AND ended_at IS NULL AND status <> 'preparing'
         ORDER BY due_at LIMIT $2",
        ctx.now(),
        limit
    )
    .fetch_all(&ctx.pool)
    .await?;
    let done = round(due.into_iter().map(|id| pass(ctx, id.into()))).await?;
    let mut tx = ctx.pool.begin().await?;
    let stopped = writes::stop_children(&mut tx, ctx.now(), limit).await?;
    tx.commit().await?;
    Ok(done + stopped)
}

async fn pass(ctx: &Ctx, id: JobId) -> Outcome<u64> {
    let mut conn = ctx.pool.acquire().await?;
    let mut intents = rows::intents(&mut conn, &[id]).await?;
    // A lease that ran out is noted on the house's line (§14), whose lock comes with the others.
    let expiring = rows::load(&mut conn, &[id]).await?.iter().any(|job| job.lease_expired(ctx.now()));
    drop(conn);
    if expiring {
        intents.push(IntentId::HOUSE);
    }
    let mut tx = ctx.begin_locked(intents.iter().copied().map(lock_key).collect()).await?;
    intents.retain(|intent| *intent != IntentId::HOUSE);
    let mut hold = Hold::take(&mut tx, &[id], &intents, ctx.now()).await?;
    let Ok(job) = hold.job(id) else { return Ok(0) };
    let (due, job) = (job.due(hold.now()), job.clone());
    match due {
        // Somebody else was here first, or its worker was heard of: it is looked at again when that is really due.
        None => {
            hold.change(id)?;
        }
        Some(Due::Requeue) => hold.requeue(id)?,
        Some(Due::End(fault)) => hold.fail(id, fault, &why(&job, fault), None, None)?,
    }
    hold.save(ctx, &mut tx).await?;
    if expiring && due == Some(Due::End(Fault::LeaseExpired)) {
        let mut line = Line::open(&mut tx, IntentId::HOUSE, None, ctx.now()).await?;
        let payload = json!({
            "job_id": id, "agent": job.agent, "principal": job.principal, "expired_at": job.expires_at,
        });
        line.record(ctx, Draft::of(Kind::JobLeaseExpired, HOUSE, payload));
        line.save(&mut tx).await?;
    }
    tx.commit().await?;
    hold.announce(ctx);
    Ok(u64::from(due.is_some()))
}

fn why(job: &Job, fault: Fault) -> String {
    match fault {
        Fault::Cancelled => {
            job.cancel.as_ref().map_or_else(|| "Cancelled.".to_owned(), |cancel| cancel.reason.clone())
        }
        Fault::Timeout => "The job took longer than its max_runtime_sec.".to_owned(),
        Fault::LeaseExpired => format!(
            "The job's lease ran out and {GRACE_SECONDS} s of grace with it. To go on, submit it again with more time."
        ),
        _ => format!("Its worker was lost, for the {}. time. It can be submitted again.", job.attempt),
    }
}

/// Forgets the idempotency keys of up to `limit` jobs that are past their window (ARCP §7.2): they can be used anew.
///
/// # Errors
/// The database.
pub async fn forget_keys(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let before = ctx.now() - ctx.settings.idempotency_window;
    writes::forget_keys(&ctx.pool, before, limit).await
}
