//! Retention of what is spent: costs, past windows of budgets, and ended reservations.

use entente_domain::clock::Timestamp;

use crate::{Ctx, Outcome};

/// How long an ended reservation is kept, so that a repeated request settles nothing twice: a day, in seconds.
const ENDED: i64 = 24 * 3_600;

/// Deletes up to `limit` rows of each kind that are past their retention; returns how many.
///
/// # Errors
/// A database error.
pub async fn forget(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let now = ctx.now();
    let ended = now - chrono::TimeDelta::seconds(ENDED);
    let mut gone = sqlx::query!(
        "-- spend_reservations::forget
         DELETE FROM spend_reservations WHERE id IN (
             SELECT id FROM spend_reservations WHERE ended_at IS NOT NULL AND ended_at < $1 LIMIT $2)",
        ended,
        limit
    )
    .execute(&ctx.pool)
    .await?
    .rows_affected();
    let kept = ctx.settings.spend_retention.and_then(|kept| chrono::TimeDelta::from_std(kept).ok());
    if let Some(kept) = kept {
        gone += delete(ctx, now - kept, limit).await?;
    }
    Ok(gone)
}

async fn delete(ctx: &Ctx, before: Timestamp, limit: i64) -> Outcome<u64> {
    let costs = sqlx::query!(
        "-- spend::forget
         DELETE FROM spend WHERE id IN (SELECT id FROM spend WHERE at < $1 ORDER BY at LIMIT $2)",
        before,
        limit
    )
    .execute(&ctx.pool)
    .await?;
    // A window that still holds something, or that never ends, stays.
    let windows = sqlx::query!(
        "-- budget_windows::forget
         WITH old AS (
             SELECT w.budget_id, w.starts_at FROM budget_windows w JOIN budgets b ON b.id = w.budget_id
             WHERE w.starts_at < $1 AND w.reserved = 0
               AND budget_window_end(b.period, b.time_zone, w.starts_at) < $1
             ORDER BY w.starts_at LIMIT $2),
         thresholds AS (
             DELETE FROM budget_reached r USING old o
             WHERE r.budget_id = o.budget_id AND r.starts_at = o.starts_at AND r.handled_at IS NOT NULL)
         DELETE FROM budget_windows w USING old o WHERE w.budget_id = o.budget_id AND w.starts_at = o.starts_at",
        before,
        limit
    )
    .execute(&ctx.pool)
    .await?;
    Ok(costs.rows_affected() + windows.rows_affected())
}
