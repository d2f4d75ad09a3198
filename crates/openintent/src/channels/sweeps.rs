//! The sweep of channels: closes those whose time to live has passed. A channel ends the instant it is due; the sweep only
//! records that.

use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::openintent::channels::{ChannelStatus, CloseReason};
use entente_kernel::channels::{close, rows};
use entente_kernel::due::run_each;
use entente_kernel::{IntentTx, Outcome};

use crate::Ctx;

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
