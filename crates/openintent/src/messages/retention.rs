//! Retention of messages: deletes those over their channel's limit (RFC-0021 §1.2, `max_messages`), and those of ended channels
//! past `ENTENTE_MESSAGE_RETENTION_DAYS`, with the channel.

use entente_kernel::Outcome;
use entente_kernel::channels::rows;
use entente_kernel::inbox::follower;
use entente_kernel::log::GlobalPosition;
use entente_kernel::messages;
use entente_kernel::messages::{pending, receipts};
use entente_kernel::webhooks::fanout;

use crate::Ctx;

/// Maximum number of messages deleted in one transaction: enough to keep up, few enough to stay short.
const DELETE_STEP: i64 = 5_000;

/// Deletes messages over their channel's limit: up to `limit` channels, [`DELETE_STEP`] messages each.
///
/// # Errors
/// A database error.
pub async fn evict(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let mut evicted = 0;
    let due = rows::over_limit(&ctx.pool, limit).await?;
    let told = told(ctx, due.len()).await?;
    for id in due {
        // No lock of the intent is needed: nobody can see the messages deleted here any more.
        let mut tx = ctx.begin(&[]).await?;
        let Some(floor) = rows::claim_over_limit(&mut tx, id).await? else { continue };
        let gone = messages::forget(&mut tx, id, floor, DELETE_STEP, told).await?;
        if !messages::has_any(&mut tx, id, floor).await? {
            pending::forget(&mut tx, id, floor).await?;
            receipts::forget(&mut tx, id, floor).await?;
            rows::within_limit(&mut tx, id).await?;
        }
        tx.commit().await?;
        evicted += gone;
    }
    Ok(evicted)
}

/// Deletes the messages of channels that were deleted or whose retention period is over: up to `limit`
/// channels, [`DELETE_STEP`] messages each; a deleted channel is removed with its last message.
///
/// # Errors
/// A database error.
pub async fn purge(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let mut purged = 0;
    let due = rows::to_purge(&ctx.pool, ctx.now(), limit).await?;
    let told = told(ctx, due.len()).await?;
    for id in due {
        let mut tx = ctx.begin(&[]).await?;
        if !rows::claim_purge(&mut tx, id).await? {
            continue;
        }
        let gone = messages::forget(&mut tx, id, i64::MAX, DELETE_STEP, told).await?;
        if !messages::has_any(&mut tx, id, i64::MAX).await? {
            pending::forget(&mut tx, id, i64::MAX).await?;
            receipts::forget(&mut tx, id, i64::MAX).await?;
            rows::purged(&mut tx, id).await?;
        }
        tx.commit().await?;
        purged += gone;
    }
    Ok(purged)
}

/// Returns the position up to which webhooks were fanned out and inboxes written; `None` if there are neither, or if nothing is
/// due.
async fn told(ctx: &Ctx, due: usize) -> Outcome<Option<GlobalPosition>> {
    if due == 0 {
        return Ok(None);
    }
    let mut conn = ctx.pool.acquire().await?;
    let webhooks = fanout::reached(&mut conn).await?;
    let inboxes = follower::reached(&mut conn).await?;
    Ok(webhooks.into_iter().chain(inboxes).min())
}
