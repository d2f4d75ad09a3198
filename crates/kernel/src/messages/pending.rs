//! Messages that still wait for something: a request for its response, any message for its expiry. Table `pending`;
//! sends insert and delete its rows (`log/guarded_write.rs`).
//!
//! A message whose `expires_at` has passed is expired as long as it is in this table, swept or not.

use entente_domain::ids::{ChannelId, IntentId, MessageId};
use entente_domain::log::receipts::{Receipt, ReceiptKind};
use sqlx::PgConnection;

use crate::due::run_each;
use crate::log::writer::IntentLog;
use crate::messages::receipts;
use crate::{Ctx, IntentTx, Outcome};

/// Removes a message that was read, so that it no longer waits.
///
/// # Errors
/// A database error.
pub async fn settle(conn: &mut PgConnection, channel: ChannelId, message: MessageId) -> Outcome<()> {
    sqlx::query!(
        "-- pending::settle
         DELETE FROM pending WHERE channel_id = $1 AND number = $2",
        channel.uuid(),
        i64::from(message.number())
    )
    .execute(conn)
    .await?;
    Ok(())
}

struct Row {
    channel_id: uuid::Uuid,
    message_id: uuid::Uuid,
}

/// Expires the messages that wait on a channel that closes.
pub(crate) async fn expire_on_channel(
    conn: &mut PgConnection,
    log: &mut IntentLog,
    channel: ChannelId,
) -> Outcome<()> {
    let rows = sqlx::query_as!(
        Row,
        "-- pending::expire_on_channel
         DELETE FROM pending WHERE channel_id = $1 RETURNING channel_id, message_id",
        channel.uuid()
    )
    .fetch_all(&mut *conn)
    .await?;
    expired(conn, log, rows).await
}

/// Expires the messages that wait on an intent that is resolved (RFC-0021 §7.1).
pub(crate) async fn expire_on_intent(conn: &mut PgConnection, log: &mut IntentLog) -> Outcome<()> {
    let rows = sqlx::query_as!(
        Row,
        "-- pending::expire_on_intent
         DELETE FROM pending WHERE intent_id = $1 RETURNING channel_id, message_id",
        log.intent_id.uuid()
    )
    .fetch_all(&mut *conn)
    .await?;
    expired(conn, log, rows).await
}

/// Expires the requests on an intent that wait for an agent that has left (RFC-0021 §7.2); returns their channels.
///
/// # Errors
/// A database error.
pub async fn expire_for_agent(
    conn: &mut PgConnection,
    log: &mut IntentLog,
    agent: &str,
) -> Outcome<Vec<ChannelId>> {
    let rows = sqlx::query_as!(
        Row,
        "-- pending::expire_for_agent
         DELETE FROM pending WHERE agent_id = $1 AND is_request AND intent_id = $2 RETURNING channel_id, message_id",
        agent,
        log.intent_id.uuid()
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut channels: Vec<ChannelId> = rows.iter().map(|row| row.channel_id.into()).collect();
    channels.sort_unstable();
    channels.dedup();
    expired(conn, log, rows).await?;
    Ok(channels)
}

/// Returns the intents on which a request waits for an agent.
///
/// # Errors
/// A database error.
pub async fn intents_awaiting(conn: &mut PgConnection, agent: &str) -> Outcome<Vec<IntentId>> {
    let rows = sqlx::query_scalar!(
        "-- pending::intents_awaiting
         SELECT DISTINCT intent_id FROM pending WHERE agent_id = $1 AND is_request",
        agent
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(IntentId::from).collect())
}

async fn expired(conn: &mut PgConnection, log: &mut IntentLog, rows: Vec<Row>) -> Outcome<()> {
    let mut made: Vec<Receipt> = rows
        .into_iter()
        .map(|row| Receipt {
            seq: 0,
            intent_id: log.intent_id,
            channel_id: row.channel_id.into(),
            message_id: row.message_id.into(),
            kind: ReceiptKind::Expired,
            agent: String::new(),
            at: log.now(),
        })
        .collect();
    made.sort_by_key(|receipt| (receipt.channel_id, receipt.message_id));
    for receipt in &mut made {
        (receipt.seq, receipt.at) = log.advance();
    }
    receipts::insert(conn, &made).await
}

/// Records the expiry of messages that are due, up to `limit` of them, one intent at a time.
///
/// # Errors
/// Returns database errors.
pub async fn expire_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let intents = sqlx::query_scalar!(
        "-- pending::due
         SELECT DISTINCT intent_id FROM (
             SELECT intent_id FROM pending WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2) due",
        ctx.now(),
        limit
    )
    .fetch_all(&ctx.pool)
    .await?;
    run_each(intents.into_iter().map(|intent_id| expire_due_on(ctx, intent_id.into(), limit))).await
}

/// Does the work of [`expire_due`] on one intent.
async fn expire_due_on(ctx: &Ctx, intent_id: IntentId, limit: i64) -> Outcome<u64> {
    let mut work = IntentTx::unattended(ctx, intent_id).await?;
    let (conn, log) = work.parts();
    let rows = sqlx::query_as!(
        Row,
        "-- pending::expire_due
         DELETE FROM pending WHERE (channel_id, number) IN (
             SELECT channel_id, number FROM pending WHERE intent_id = $1 AND expires_at <= $2 LIMIT $3)
         RETURNING channel_id, message_id",
        intent_id.uuid(),
        log.now(),
        limit
    )
    .fetch_all(&mut *conn)
    .await?;
    if rows.is_empty() {
        // Another server has expired them already.
        return Ok(0);
    }
    let count = rows.len() as u64;
    expired(conn, log, rows).await?;
    work.commit().await?;
    Ok(count)
}

/// Deletes the waiting entries of a channel's messages up to a number, because those messages are gone.
///
/// # Errors
/// A database error.
pub async fn forget(conn: &mut PgConnection, channel: uuid::Uuid, up_to: i64) -> Outcome<()> {
    sqlx::query!(
        "-- pending::forget\n DELETE FROM pending WHERE channel_id = $1 AND number <= $2",
        channel,
        up_to
    )
    .execute(conn)
    .await?;
    Ok(())
}
