//! Beginnings of logs whose oldest events retention has deleted, and the hashes that stay of these events. Tables
//! `log_floors` and `event_leaves`; `retention.rs` deletes.

use entente_domain::canonical::Digest;
use entente_domain::ids::{EventId, IntentId};
use entente_domain::log::events::Event;
use entente_domain::openintent::intents::Intent;
use sqlx::PgConnection;

use crate::log::writer::digest;
use crate::{AppError, Outcome};

/// The last deleted event of a log; all numbers are 0 in a log that is whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct Floor {
    /// Its number in the log.
    pub seq: i64,
    /// Its number in the hash chain, which is the number of deleted events.
    pub sequence: i64,
    /// The intent as the deleted events made it; `None` for the system log.
    pub intent: Option<Intent>,
}

/// A deleted event's id and hash.
pub(crate) type Leaf = (EventId, Digest);

/// Loads where a log begins.
pub(crate) async fn load(conn: &mut PgConnection, log: IntentId) -> Outcome<Option<Floor>> {
    let row = sqlx::query!(
        "-- log_floors::load
         SELECT seq, sequence, intent FROM log_floors WHERE intent_id = $1",
        log.uuid()
    )
    .fetch_optional(conn)
    .await?;
    let floor = |row: Option<String>| row.as_deref().map(serde_json::from_str).transpose();
    row.map(|row| Ok(Floor { seq: row.seq, sequence: row.sequence, intent: floor(row.intent)? })).transpose()
}

/// Returns the numbers of a log's last deleted event, in the log and in the hash chain.
pub(crate) async fn numbers(conn: &mut PgConnection, log: IntentId) -> Outcome<Option<(i64, i64)>> {
    let row = sqlx::query!(
        "-- log_floors::numbers
         SELECT seq, sequence FROM log_floors WHERE intent_id = $1",
        log.uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| (row.seq, row.sequence)))
}

/// Returns the highest position in the order of all logs that had a deleted event.
pub(crate) async fn highest(conn: &mut PgConnection) -> Outcome<Option<(i64, i64)>> {
    let row = sqlx::query!(
        "-- log_floors::highest
         SELECT global, seq FROM log_floors ORDER BY global DESC LIMIT 1"
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| (row.global, row.seq)))
}

/// Locks the floor of a log until the end of the transaction: one server at a time deletes from it.
pub(super) async fn lock(conn: &mut PgConnection, log: IntentId) -> Outcome<Floor> {
    sqlx::query!(
        "-- log_floors::begin
         INSERT INTO log_floors (intent_id, seq, sequence, global) VALUES ($1, 0, 0, 0) ON CONFLICT DO NOTHING",
        log.uuid()
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "-- log_floors::lock\n SELECT 1 AS one FROM log_floors WHERE intent_id = $1 FOR UPDATE",
        log.uuid()
    )
    .fetch_one(&mut *conn)
    .await?;
    Ok(load(conn, log).await?.unwrap_or_default())
}

/// Stores the hashes of events that are deleted in this transaction, and raises the floor to the last of them.
pub(super) async fn raise(
    conn: &mut PgConnection,
    log: IntentId,
    events: &[Event],
    intent: Option<&Intent>,
) -> Outcome<()> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(()) };
    let ids: Vec<u8> = events.iter().flat_map(|event| event.id.uuid().into_bytes()).collect();
    let hashes: Vec<u8> = events.iter().flat_map(|event| event.event_hash).collect();
    sqlx::query!(
        "-- event_leaves::insert
         INSERT INTO event_leaves (intent_id, first_sequence, last_sequence, ids, hashes) VALUES ($1, $2, $3, $4, $5)",
        log.uuid(),
        first.sequence,
        last.sequence,
        ids,
        hashes
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "-- log_floors::raise
         UPDATE log_floors SET seq = $2, sequence = $3, intent = $4, global = coalesce((
             SELECT o.global FROM log_order o WHERE o.intent_id = $1 AND o.to_seq >= $2 ORDER BY o.to_seq LIMIT 1), global)
         WHERE intent_id = $1",
        log.uuid(),
        last.seq,
        last.sequence,
        intent.map(serde_json::to_string).transpose()?
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Loads the ids and hashes of a log's deleted events, oldest first, up to a number in the hash chain.
///
/// A reader that is in no snapshot reads the events before: one deleted in between is then in both.
pub(crate) async fn leaves(conn: &mut PgConnection, log: IntentId, until: i64) -> Outcome<Vec<Leaf>> {
    let rows = sqlx::query!(
        "-- event_leaves::load
         SELECT ids, hashes FROM event_leaves WHERE intent_id = $1 AND first_sequence <= $2 ORDER BY first_sequence",
        log.uuid(),
        until
    )
    .fetch_all(conn)
    .await?;
    let mut leaves = Vec::new();
    for row in rows {
        let (ids, hashes) = (row.ids.chunks_exact(16), row.hashes.chunks_exact(32));
        if ids.len() != hashes.len() {
            return Err(AppError::Inconsistent("deleted events have not one hash each".to_owned()));
        }
        for (id, hash) in ids.zip(hashes) {
            let id = uuid::Uuid::from_slice(id).map_err(|e| AppError::Inconsistent(e.to_string()))?;
            leaves.push((id.into(), digest(hash.to_vec())?));
        }
    }
    leaves.truncate(usize::try_from(until).unwrap_or(usize::MAX));
    Ok(leaves)
}
