//! Rows of the table `checkpoints`, for `checkpoints.rs`.

use std::collections::HashMap;

use entente_domain::canonical;
use entente_domain::clock::{Timestamp, parse, rfc3339};
use entente_domain::ids::{CheckpointId, EventId, IntentId};
use entente_domain::log::chains::Break;
use entente_domain::log::checkpoints::{Checkpoint, CheckpointScope};
use sqlx::PgConnection;

use crate::audit::floors::{self, Leaf};
use crate::log::writer::digest;
use crate::{AppError, Outcome};

pub(super) struct Row {
    pub id: uuid::Uuid,
    pub intent_id: uuid::Uuid,
    pub merkle_root: Vec<u8>,
    pub event_count: i64,
    pub first_sequence: i64,
    pub last_sequence: i64,
    pub created_at: Timestamp,
    pub signed_by: String,
    pub signature: String,
    pub anchor: Option<String>,
}

impl TryFrom<Row> for Checkpoint {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let log = IntentId::from(row.intent_id);
        let system = log == IntentId::SYSTEM;
        Ok(Self {
            checkpoint_id: row.id.into(),
            intent_id: (!system).then_some(log),
            scope: if system { CheckpointScope::Server } else { CheckpointScope::Intent },
            merkle_root: canonical::show(&digest(row.merkle_root)?),
            event_count: row.event_count,
            first_sequence: row.first_sequence,
            last_sequence: row.last_sequence,
            created_at: rfc3339(row.created_at),
            signed_by: row.signed_by,
            signature: row.signature,
            anchor: row.anchor.as_deref().map(serde_json::from_str).transpose()?,
        })
    }
}

/// Loads a checkpoint by id.
pub(crate) async fn load(conn: &mut PgConnection, id: CheckpointId) -> Outcome<Option<Checkpoint>> {
    let row = sqlx::query_as!(
        Row,
        "-- checkpoints::load
         SELECT id, intent_id, merkle_root, event_count, first_sequence, last_sequence, created_at, signed_by,
                signature, anchor
         FROM checkpoints WHERE id = $1",
        id.uuid()
    )
    .fetch_optional(conn)
    .await?;
    row.map(Checkpoint::try_from).transpose()
}

/// Loads the checkpoints of a log, shortest first; an unreadable one is replaced by its fault.
pub(crate) async fn of_log(
    conn: &mut PgConnection,
    log: IntentId,
) -> Outcome<Vec<Result<Checkpoint, Break>>> {
    let rows = sqlx::query_as!(
        Row,
        "-- checkpoints::of_log
         SELECT id, intent_id, merkle_root, event_count, first_sequence, last_sequence, created_at, signed_by,
                signature, anchor
         FROM checkpoints WHERE intent_id = $1 ORDER BY last_sequence, id",
        log.uuid()
    )
    .fetch_all(conn)
    .await?;
    let read = |row: Row| {
        let (id, sequence) = (CheckpointId::from(row.id), row.last_sequence);
        Checkpoint::try_from(row).map_err(|e| Break {
            sequence,
            event_id: EventId::from(uuid::Uuid::nil()),
            checkpoint_id: Some(id.to_string()),
            reason: format!("checkpoint {id}: {e}"),
        })
    };
    Ok(rows.into_iter().map(read).collect())
}

/// A checkpoint's log, root and signature as stored.
pub(crate) type Bare = (IntentId, Vec<u8>, String);

/// Loads these checkpoints' stored values, from any log.
pub(crate) async fn bare(
    conn: &mut PgConnection,
    ids: &[CheckpointId],
) -> Outcome<HashMap<CheckpointId, Bare>> {
    let rows = sqlx::query!(
        "-- checkpoints::bare
         SELECT id, intent_id, merkle_root, signature FROM checkpoints WHERE id = ANY($1)",
        &ids.iter().map(|id| id.uuid()).collect::<Vec<_>>()
    )
    .fetch_all(conn)
    .await?;
    let bare = rows.into_iter().map(|row| {
        (CheckpointId::from(row.id), (IntentId::from(row.intent_id), row.merkle_root, row.signature))
    });
    Ok(bare.collect())
}

/// The condition for an automatic checkpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    /// The log has grown by so many events since its last checkpoint.
    pub every: Option<i64>,
    /// The log has grown, and its last checkpoint, or the first event of a log without one, is of an earlier time.
    pub before: Option<Timestamp>,
}

/// Returns up to `limit` logs, or only this one, whose checkpoint is due.
///
/// An event that is its log's only one is never deleted and needs none, nor does the system log for the event that tells
/// of its own last checkpoint.
pub(super) async fn due(
    conn: &mut PgConnection,
    due: Due,
    only: Option<IntentId>,
    limit: i64,
) -> Outcome<Vec<IntentId>> {
    let found = sqlx::query_scalar!(
        "-- checkpoints::due
         SELECT c.intent_id FROM intent_clock c
         LEFT JOIN LATERAL (SELECT k.last_sequence, k.created_at FROM checkpoints k WHERE k.intent_id = c.intent_id
                            ORDER BY k.last_sequence DESC LIMIT 1) k ON true
         WHERE ($3::uuid IS NULL OR c.intent_id = $3)
           AND (c.sequence - coalesce(k.last_sequence, 0) >= $1
                OR $2::timestamptz IS NOT NULL
                   AND c.sequence > coalesce(k.last_sequence + (c.intent_id = $5)::integer, 1)
                   AND coalesce(k.created_at, (SELECT e.created_at FROM events e WHERE e.intent_id = c.intent_id
                                               ORDER BY e.seq LIMIT 1)) < $2)
         ORDER BY c.intent_id LIMIT $4",
        due.every,
        due.before,
        only.map(IntentId::uuid),
        limit,
        IntentId::SYSTEM.uuid()
    )
    .fetch_all(conn)
    .await?;
    Ok(found.into_iter().map(IntentId::from).collect())
}

/// Marks up to `limit` checkpoints, taken before a moment, that allow no further event to be deleted: the last event of a
/// log stays.
pub(in crate::audit) async fn spend(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<()> {
    sqlx::query!(
        "-- checkpoints::spend
         UPDATE checkpoints SET spent = true WHERE id = ANY (ARRAY(
             SELECT k.id FROM checkpoints k WHERE NOT k.spent AND k.created_at < $1
               AND k.last_sequence <= 1 + coalesce((SELECT f.sequence FROM log_floors f WHERE f.intent_id = k.intent_id), 0)
             LIMIT $2 FOR UPDATE SKIP LOCKED))",
        before,
        limit
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns the ids and hashes of the events under a checkpoint, oldest first, also of deleted ones.
pub(super) async fn leaves(conn: &mut PgConnection, checkpoint: &Checkpoint) -> Outcome<Vec<Leaf>> {
    // A checkpoint with inconsistent numbers covers nothing.
    let Some(_lawful) = checkpoint.count() else { return Ok(Vec::new()) };
    let log = checkpoint.intent_id.unwrap_or(IntentId::SYSTEM);
    // The events are read first: one deleted in between is then in both, and counts once.
    let rows = sqlx::query!(
        "-- checkpoints::leaves
         SELECT sequence, id, event_hash FROM events WHERE intent_id = $1 ORDER BY seq LIMIT $2",
        log.uuid(),
        checkpoint.event_count
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut leaves = floors::leaves(conn, log, checkpoint.event_count).await?;
    let deleted = i64::try_from(leaves.len()).unwrap_or(i64::MAX);
    let kept = rows.into_iter().filter(|row| row.sequence > deleted || deleted == 0);
    for row in kept.take(usize::try_from(checkpoint.event_count - deleted).unwrap_or(0)) {
        leaves.push((row.id.into(), digest(row.event_hash)?));
    }
    Ok(leaves)
}

/// Parses the time that was signed.
fn time(text: &str) -> Outcome<Timestamp> {
    parse(text).ok_or_else(|| AppError::Inconsistent(format!("`{text}` is no time")))
}

pub(super) async fn insert(conn: &mut PgConnection, made: &Checkpoint) -> Outcome<()> {
    let root = canonical::read(&made.merkle_root);
    let root = root.ok_or_else(|| AppError::Inconsistent("a Merkle root is no hash".to_owned()))?;
    sqlx::query!(
        "-- checkpoints::insert
         INSERT INTO checkpoints (id, intent_id, merkle_root, event_count, first_sequence, last_sequence, created_at,
                                  signed_by, signature)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        made.checkpoint_id.uuid(),
        made.intent_id.unwrap_or(IntentId::SYSTEM).uuid(),
        root.as_slice(),
        made.event_count,
        made.first_sequence,
        made.last_sequence,
        time(&made.created_at)?,
        made.signed_by,
        made.signature
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores a checkpoint's anchor and the signature that covers it.
pub(super) async fn save_anchor(conn: &mut PgConnection, signed: &Checkpoint) -> Outcome<()> {
    sqlx::query!(
        "-- checkpoints::save_anchor
         UPDATE checkpoints SET anchor = $2, signed_by = $3, signature = $4 WHERE id = $1",
        signed.checkpoint_id.uuid(),
        signed.anchor.as_ref().map(canonical::text).transpose()?,
        signed.signed_by,
        signed.signature
    )
    .execute(conn)
    .await?;
    Ok(())
}
