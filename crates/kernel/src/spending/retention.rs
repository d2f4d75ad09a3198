//! Retention of spending: costs, past windows and thresholds of budgets, and ended reservations.

use entente_domain::clock::earlier;

use super::reservations;
use crate::charges;
use crate::charges::reached;
use crate::{Ctx, Outcome};

/// How long an ended reservation is kept, so that a repeated request settles nothing twice: a day, in seconds.
const ENDED_SECONDS: u32 = 24 * 3_600;

/// Deletes up to `limit` rows of each kind that are past their retention; returns how many.
///
/// # Errors
/// A database error.
pub async fn forget(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let now = ctx.now();
    let mut conn = ctx.pool.acquire().await?;
    let mut gone = reservations::forget(&mut conn, earlier(now, ENDED_SECONDS), limit).await?;
    if let Some(kept) = ctx.settings.spend_retention {
        let before = earlier(now, u32::try_from(kept.as_secs()).unwrap_or(u32::MAX));
        gone += charges::forget(&mut conn, before, limit).await?;
        gone += reached::forget(&mut conn, before, limit).await?;
    }
    Ok(gone)
}
