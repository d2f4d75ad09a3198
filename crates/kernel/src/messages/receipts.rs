//! Receipts: events of messages after they were sent. Table `receipts`; written once, in the intent's log.
//! Who may mark a message as read: `Message::may_be_marked_read` (`crates/domain/src/openintent/messages.rs`).

use entente_domain::clock::Timestamp;
use entente_domain::ids::IntentId;
use entente_domain::log::receipts::{Receipt, ReceiptKind};
use sqlx::PgConnection;

use crate::log::order::Parts;
use crate::{AppError, Outcome, unknown};

/// Inserts receipts; if a message has the same one already, the older one stays.
///
/// # Errors
/// A database error.
pub async fn insert(conn: &mut PgConnection, receipts: &[Receipt]) -> Outcome<()> {
    if receipts.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- receipts::insert
         INSERT INTO receipts (channel_id, number, message_id, kind, agent_id, intent_id, seq, at)
         SELECT * FROM UNNEST($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::uuid[], $7::bigint[],
                              $8::timestamptz[])
         ON CONFLICT (channel_id, number, kind, agent_id) DO NOTHING",
        &receipts.iter().map(|receipt| receipt.channel_id.uuid()).collect::<Vec<_>>(),
        &receipts.iter().map(|receipt| i64::from(receipt.message_id.number())).collect::<Vec<_>>(),
        &receipts.iter().map(|receipt| receipt.message_id.uuid()).collect::<Vec<_>>(),
        &receipts.iter().map(|receipt| receipt.kind.as_str()).collect::<Vec<_>>() as &[&str],
        &receipts.iter().map(|receipt| receipt.agent.as_str()).collect::<Vec<_>>() as &[&str],
        &receipts.iter().map(|receipt| receipt.intent_id.uuid()).collect::<Vec<_>>(),
        &receipts.iter().map(|receipt| receipt.seq).collect::<Vec<_>>(),
        &receipts.iter().map(|receipt| receipt.at).collect::<Vec<_>>()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes the receipts of a channel's messages up to a number.
///
/// # Errors
/// A database error.
pub async fn forget(conn: &mut PgConnection, channel: uuid::Uuid, up_to: i64) -> Outcome<()> {
    sqlx::query!(
        "-- receipts::forget\n DELETE FROM receipts WHERE channel_id = $1 AND number <= $2",
        channel,
        up_to
    )
    .execute(conn)
    .await?;
    Ok(())
}

struct Row {
    channel_id: uuid::Uuid,
    message_id: uuid::Uuid,
    kind: String,
    agent_id: String,
    intent_id: uuid::Uuid,
    seq: i64,
    at: Timestamp,
}

impl TryFrom<Row> for Receipt {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            seq: row.seq,
            intent_id: row.intent_id.into(),
            channel_id: row.channel_id.into(),
            message_id: row.message_id.into(),
            kind: ReceiptKind::parse(&row.kind).ok_or_else(|| unknown("receipt", &row.kind))?,
            agent: row.agent_id,
            at: row.at,
        })
    }
}

/// Returns the receipts of an intent's log after one number, up to another.
pub(crate) async fn of_line(
    conn: &mut PgConnection,
    intent: IntentId,
    after: i64,
    end: i64,
    limit: i64,
) -> Outcome<Vec<Receipt>> {
    let rows = sqlx::query_as!(
        Row,
        "-- receipts::of_line
         SELECT channel_id, message_id, kind, agent_id, intent_id, seq, at FROM receipts
         WHERE intent_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4",
        intent.uuid(),
        after,
        end,
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Receipt::try_from).collect()
}

/// Returns the receipts of these parts of logs.
pub(crate) async fn of_parts(conn: &mut PgConnection, parts: &Parts) -> Outcome<Vec<Receipt>> {
    let rows = sqlx::query_as!(
        Row,
        "-- receipts::of_parts
         SELECT r.channel_id, r.message_id, r.kind, r.agent_id, r.intent_id, r.seq, r.at
         FROM UNNEST($1::uuid[], $2::bigint[], $3::bigint[]) AS p (intent_id, from_seq, to_seq)
         CROSS JOIN LATERAL (SELECT s.* FROM receipts s
                             WHERE s.intent_id = p.intent_id AND s.seq BETWEEN p.from_seq AND p.to_seq OFFSET 0) r",
        &parts.intents,
        &parts.from,
        &parts.to
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Receipt::try_from).collect()
}

/// Returns the receipts at these positions.
pub(crate) async fn at(conn: &mut PgConnection, places: &[(IntentId, i64)]) -> Outcome<Vec<Receipt>> {
    let rows = sqlx::query_as!(
        Row,
        "-- receipts::at
         SELECT channel_id, message_id, kind, agent_id, r.intent_id, r.seq, at
         FROM UNNEST($1::uuid[], $2::bigint[]) AS k (intent_id, seq)
         JOIN receipts r ON r.intent_id = k.intent_id AND r.seq = k.seq",
        &places.iter().map(|(intent, _)| intent.uuid()).collect::<Vec<_>>(),
        &places.iter().map(|(_, seq)| *seq).collect::<Vec<_>>()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Receipt::try_from).collect()
}
