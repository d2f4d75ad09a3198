//! Deletes jobs past their retention: their events, counters, attempts, labels, signals and rows. `bridges` chooses the jobs, because other
//! protocols refer to them.

use entente_domain::ids::JobId;
use entente_kernel::Outcome;

use super::{attempts, budgets, log, records, writes};
use crate::Ctx;

/// Maximum number of events deleted in one transaction: enough to keep up, few enough to stay short.
const DELETE_STEP: i64 = 5_000;

/// Deletes those of these jobs that have ended; returns the number of deleted jobs, and of events of jobs that have more.
///
/// A job with many events loses its oldest ones first, in several runs, and its row with the last one. Records of its
/// credentials stay: no value serves a second job (ARCP §14).
///
/// # Errors
/// A database error.
pub async fn forget(ctx: &Ctx, jobs: &[JobId]) -> Outcome<u64> {
    if jobs.is_empty() {
        return Ok(0);
    }
    let mut tx = ctx.begin(&[]).await?;
    let locked = writes::lock_ended(&mut tx, jobs).await?;
    let events = log::forget(&mut tx, &locked, DELETE_STEP).await?;
    let gone = log::without_events(&mut tx, &locked).await?;
    log::forget_numbers(&mut tx, &gone).await?;
    writes::delete(&mut tx, &gone).await?;
    budgets::drop_all(&mut tx, &gone).await?;
    attempts::forget(&mut tx, &gone).await?;
    records::drop_all(&mut tx, &gone).await?;
    tx.commit().await?;
    // A full step says that there is more to do.
    Ok(if i64::try_from(events) == Ok(DELETE_STEP) { events } else { gone.len() as u64 })
}
