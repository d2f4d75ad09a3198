//! Sweeps of channels: close those whose time to live has passed, and delete messages over a channel's limit or
//! after the retention period. A channel ends the instant it is due; the sweeps only record that and clean up.

use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::openintent::channels::{ChannelStatus, CloseReason};
use entente_kernel::channels::{close, rows};
use entente_kernel::due::run_each;
use entente_kernel::inbox::follower;
use entente_kernel::log::GlobalPosition;
use entente_kernel::messages;
use entente_kernel::messages::{pending, receipts};
use entente_kernel::webhooks::fanout;
use entente_kernel::{IntentTx, Outcome};

use crate::Ctx;

/// Maximum number of messages deleted in one transaction: enough to keep up, few enough to stay short.
const DELETE_STEP: i64 = 5_000;

/// Closes channels whose time to live since the last message has passed, up to `limit` of them.
///
/// # Errors
/// A database error.
pub async fn close_idle(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let due = rows::idle(&ctx.pool, ctx.now(), limit).await?;
    run_each(due.into_iter().map(|(intent_id, id)| close_if_idle(ctx, intent_id, id))).await
}

async fn close_if_idle(ctx: &Ctx, intent_id: IntentId, id: ChannelId) -> Outcome<u64> {
    let mut work = IntentTx::unattended(ctx, intent_id).await?;
    let (conn, log) = work.parts();
    let Some(channel) = rows::load(conn, id).await? else { return Ok(0) };
    if channel.status != ChannelStatus::Open {
        return Ok(0);
    }
    let over = channel.status_at(log.now()) != ChannelStatus::Open;
    if over {
        close(conn, ctx, log, &channel, CloseReason::TtlExpired, SYSTEM).await?;
    } else {
        // A message arrived since this check was scheduled: check again when the channel is really due.
        rows::look_again(conn, id, channel.ttl_ends_at()).await?;
    }
    work.commit().await?;
    Ok(u64::from(over))
}

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
