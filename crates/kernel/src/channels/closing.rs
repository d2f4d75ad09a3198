//! Closes channels inside a transaction (RFC-0021 §1.3, §7): a channel ends, its pending messages expire, and the
//! log records the reason.

use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::ids::{ChannelId, JobId, TaskId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::channels::{Channel, CloseReason};
use serde_json::json;
use sqlx::PgConnection;

use super::rows;
use crate::log::writer::IntentLog;
use crate::messages::pending;
use crate::{Ctx, Outcome};

/// Closes a channel within an operation that holds the intent's lock: expires its pending messages and logs
/// the reason.
///
/// # Errors
/// A database error.
pub async fn close(
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
///
/// # Errors
/// A database error.
pub async fn close_of_intent(
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
///
/// # Errors
/// A database error.
pub async fn close_of_tasks(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    tasks: &[TaskId],
    actor: &str,
) -> Outcome<()> {
    close_scoped(conn, ctx, log, tasks.iter().map(TaskId::to_string).collect(), actor).await
}

/// As [`close_of_tasks`], for the channels of jobs.
///
/// # Errors
/// A database error.
pub async fn close_of_jobs(
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
