//! Closes channels (RFC-0021 §1.3, §7), and deletes their messages over the limit or after the retention
//! period. A channel ends the instant it is due; the sweeps here only record that and clean up.

use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{ChannelId, IntentId, JobId, TaskId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::channels::{Channel, ChannelStatus, CloseReason};
use serde_json::json;
use sqlx::PgConnection;

use super::rows;
use crate::due::run_each;
use crate::feed::GlobalPosition;
use crate::log::writer::IntentLog;
use crate::openintent::messages;
use crate::openintent::messages::{pending, receipts};
use crate::webhooks::fanout;
use crate::{Ctx, Outcome};

/// Maximum number of messages deleted in one transaction: enough to keep up, few enough to stay short.
const DELETE_STEP: i64 = 5_000;

/// Closes a channel within an operation that holds the intent's lock: expires its pending messages and logs
/// the reason.
pub(crate) async fn close(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    channel: &Channel,
    reason: CloseReason,
    actor: &str,
) -> Outcome<()> {
    rows::close(conn, channel.id, reason, log.now(), purge_at(ctx, log.now())).await?;
    log.record(ctx, closed_event(channel.id, &channel.name, reason, actor));
    pending::expire_on_channel(conn, log, channel.id).await
}

/// Closes all open channels of a resolved intent, and expires its pending messages (RFC-0021 §7.1).
pub(crate) async fn close_of_intent(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    actor: &str,
) -> Outcome<()> {
    let reason = CloseReason::IntentResolved;
    for (id, name) in
        rows::close_all(conn, log.intent_id, reason, log.now(), purge_at(ctx, log.now())).await?
    {
        log.record(ctx, closed_event(id, &name, reason, actor));
    }
    pending::expire_on_intent(conn, log).await
}

/// Closes channels scoped to tasks that ended, and expires their pending messages (RFC-0021 §7.3).
pub(crate) async fn close_of_tasks(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    tasks: &[TaskId],
    actor: &str,
) -> Outcome<()> {
    close_scoped(conn, ctx, log, tasks.iter().map(TaskId::to_string).collect(), actor).await
}

/// As [`close_of_tasks`], for the channels of jobs.
pub(crate) async fn close_of_jobs(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    jobs: &[JobId],
    actor: &str,
) -> Outcome<()> {
    close_scoped(conn, ctx, log, jobs.iter().map(JobId::to_string).collect(), actor).await
}

async fn close_scoped(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    names: Vec<String>,
    actor: &str,
) -> Outcome<()> {
    let reason = CloseReason::TaskEnded;
    let purge_at = purge_at(ctx, log.now());
    for (id, name) in rows::close_scoped(conn, log.intent_id, &names, reason, log.now(), purge_at).await? {
        log.record(ctx, closed_event(id, &name, reason, actor));
        pending::expire_on_channel(conn, log, id).await?;
    }
    Ok(())
}

fn closed_event(id: ChannelId, name: &str, reason: CloseReason, actor: &str) -> Draft {
    Draft::of(Kind::ChannelClosed, actor, json!({ "channel_id": id, "name": name, "reason": reason }))
}

fn purge_at(ctx: &Ctx, now: Timestamp) -> Option<Timestamp> {
    let retention = ctx.settings.message_retention?;
    Some(plus_seconds(now, u32::try_from(retention.as_secs()).unwrap_or(u32::MAX)))
}

/// Closes channels whose time to live since the last message has passed, up to `limit` of them.
///
/// # Errors
/// A database error.
pub async fn close_idle(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let due = rows::idle(&ctx.pool, ctx.now(), limit).await?;
    run_each(due.into_iter().map(|(intent_id, id)| close_if_idle(ctx, intent_id, id))).await
}

async fn close_if_idle(ctx: &Ctx, intent_id: IntentId, id: ChannelId) -> Outcome<u64> {
    let mut tx = ctx.begin(&[intent_id]).await?;
    let mut log = IntentLog::open(&mut tx, intent_id, None, ctx.now()).await?;
    let Some(channel) = rows::load(&mut tx, id).await? else { return Ok(0) };
    let now = log.now();
    if channel.status != ChannelStatus::Open {
        return Ok(0);
    }
    let over = channel.status_at(now) != ChannelStatus::Open;
    if over {
        close(&mut tx, ctx, &mut log, &channel, CloseReason::TtlExpired, SYSTEM).await?;
        log.save(&mut tx).await?;
    } else {
        // A message arrived since this check was scheduled: check again when the channel is really due.
        rows::look_again(&mut tx, id, channel.ttl_ends_at()).await?;
    }
    tx.commit().await?;
    ctx.feed.notify_committed(intent_id);
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

/// Returns the position up to which webhooks were fanned out; `None` if there are no receivers, or if nothing
/// is due.
async fn told(ctx: &Ctx, due: usize) -> Outcome<Option<GlobalPosition>> {
    if due == 0 {
        return Ok(None);
    }
    let mut conn = ctx.pool.acquire().await?;
    fanout::reached(&mut conn).await
}
