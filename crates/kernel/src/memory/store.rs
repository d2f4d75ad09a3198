//! What is known of an agent's memory as a whole: how much it is, what happened to it, what its entries were before. Tables
//! `memory_stores`, `memory_changes` and `memory_versions`.

use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::ids::MemoryId;
use entente_domain::limits::{MEMORY_CHANGES, MEMORY_VERSIONS};
use entente_domain::memory::{MemoryEntry, MemoryPriority, MemorySensitivity, MemoryType};
use serde_json::{Map, Value};
use sqlx::PgConnection;

use super::rows::{priority, rank, sensitivity};
use crate::{Outcome, unknown};

/// The advisory lock under which an agent's memory is written.
pub(super) fn lock_key(agent: &str) -> i64 {
    let digest = sha256(format!("memory\0{agent}"));
    digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// What an agent has, and how often that has changed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Store {
    pub entries: i64,
    pub bytes: i64,
    pub changes: i64,
}

/// Something that happened to an agent's memory.
#[derive(Debug, Clone)]
pub struct Change {
    /// Its number among the agent's, from 1 without gaps.
    pub number: i64,
    /// What: created, updated, deleted, evicted, expired.
    pub what: String,
    /// To which entry.
    pub entry_id: MemoryId,
    /// Where that was.
    pub namespace: String,
    /// Under which key.
    pub key: String,
    /// What kind of memory it was.
    pub memory_type: MemoryType,
    /// The version that it then had.
    pub version: i64,
    /// Whose doing it was.
    pub changed_by: String,
    /// When.
    pub changed_at: Timestamp,
}

/// What an entry was, or is.
#[derive(Debug, Clone)]
pub struct Version {
    /// Which.
    pub version: i64,
    /// Its value then.
    pub value: Map<String, Value>,
    /// Its tags then.
    pub tags: Vec<String>,
    /// Whether it was pinned.
    pub pinned: bool,
    /// How much it was wanted.
    pub priority: MemoryPriority,
    /// How sensitive it was.
    pub sensitivity: Option<MemorySensitivity>,
    /// How long it was to be kept.
    pub ttl: Option<String>,
    /// Until when.
    pub expires_at: Option<Timestamp>,
    /// Who made it so.
    pub changed_by: String,
    /// When.
    pub changed_at: Timestamp,
}

impl From<MemoryEntry> for Version {
    fn from(entry: MemoryEntry) -> Self {
        Self {
            version: entry.version,
            value: entry.value,
            tags: entry.tags,
            pinned: entry.pinned,
            priority: entry.priority,
            sensitivity: entry.sensitivity,
            ttl: entry.ttl,
            expires_at: entry.expires_at,
            changed_by: entry.updated_by,
            changed_at: entry.updated_at,
        }
    }
}

pub(super) async fn load(conn: &mut PgConnection, agent: &str) -> Outcome<Store> {
    let found = sqlx::query_as!(
        Store,
        "-- memory::store
         SELECT entries, bytes, changes FROM memory_stores WHERE agent_id = $1",
        agent
    );
    Ok(found.fetch_optional(conn).await?.unwrap_or_default())
}

pub(super) async fn save(conn: &mut PgConnection, agent: &str, store: Store) -> Outcome<()> {
    sqlx::query!(
        "-- memory::save_store
         INSERT INTO memory_stores (agent_id, entries, bytes, changes) VALUES ($1, $2, $3, $4)
         ON CONFLICT (agent_id) DO UPDATE SET entries = excluded.entries, bytes = excluded.bytes, changes = excluded.changes",
        agent,
        store.entries,
        store.bytes,
        store.changes
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes what happened, and forgets what happened long before.
pub(super) async fn note(conn: &mut PgConnection, agent: &str, changes: &[Change]) -> Outcome<()> {
    let Some(last) = changes.last() else { return Ok(()) };
    sqlx::query!(
        "-- memory::note
         INSERT INTO memory_changes (agent_id, number, what, entry_id, namespace, key, memory_type, version, changed_by,
                                     changed_at)
         SELECT $1, * FROM UNNEST($2::bigint[], $3::text[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::bigint[],
             $9::text[], $10::timestamptz[])",
        agent,
        &changes.iter().map(|change| change.number).collect::<Vec<_>>(),
        &changes.iter().map(|change| change.what.as_str()).collect::<Vec<_>>() as &[&str],
        &changes.iter().map(|change| change.entry_id.uuid()).collect::<Vec<_>>(),
        &changes.iter().map(|change| change.namespace.as_str()).collect::<Vec<_>>() as &[&str],
        &changes.iter().map(|change| change.key.as_str()).collect::<Vec<_>>() as &[&str],
        &changes.iter().map(|change| change.memory_type.as_str()).collect::<Vec<_>>() as &[&str],
        &changes.iter().map(|change| change.version).collect::<Vec<_>>(),
        &changes.iter().map(|change| change.changed_by.as_str()).collect::<Vec<_>>() as &[&str],
        &changes.iter().map(|change| change.changed_at).collect::<Vec<_>>()
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "-- memory::forget_changes
         DELETE FROM memory_changes WHERE agent_id = $1 AND number <= $2",
        agent,
        last.number - MEMORY_CHANGES
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The changes of an agent's memory after this number, the oldest first.
pub(super) async fn changes(
    conn: &mut PgConnection,
    agent: &str,
    after: i64,
    limit: i64,
) -> Outcome<Vec<Change>> {
    let rows = sqlx::query!(
        "-- memory::changes
         SELECT number, what, entry_id, namespace, key, memory_type, version, changed_by, changed_at
         FROM memory_changes WHERE agent_id = $1 AND number > $2 ORDER BY number LIMIT $3",
        agent,
        after,
        limit
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Change {
                number: row.number,
                what: row.what,
                entry_id: row.entry_id.into(),
                namespace: row.namespace,
                key: row.key,
                memory_type: MemoryType::parse(&row.memory_type)
                    .ok_or_else(|| unknown("memory type", &row.memory_type))?,
                version: row.version,
                changed_by: row.changed_by,
                changed_at: row.changed_at,
            })
        })
        .collect()
}

/// Keeps what an entry was, and forgets what it was long before.
pub(super) async fn keep(conn: &mut PgConnection, was: &MemoryEntry) -> Outcome<()> {
    sqlx::query!(
        "-- memory::keep_version
         INSERT INTO memory_versions (entry_id, version, value, tags, pinned, priority, sensitivity, ttl, expires_at,
                                      changed_by, changed_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        was.id.uuid(),
        was.version,
        serde_json::to_string(&was.value)?,
        &was.tags,
        was.pinned,
        rank(was.priority),
        was.sensitivity.map(MemorySensitivity::as_str),
        was.ttl,
        was.expires_at,
        was.updated_by,
        was.updated_at
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "-- memory::forget_versions
         DELETE FROM memory_versions WHERE entry_id = $1 AND version <= $2",
        was.id.uuid(),
        was.version - MEMORY_VERSIONS
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// What an entry was before, the latest first.
pub(super) async fn versions(conn: &mut PgConnection, id: MemoryId) -> Outcome<Vec<Version>> {
    let rows = sqlx::query!(
        "-- memory::versions
         SELECT version, value, tags, pinned, priority, sensitivity, ttl, expires_at, changed_by, changed_at
         FROM memory_versions WHERE entry_id = $1 ORDER BY version DESC",
        id.uuid()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Version {
                version: row.version,
                value: serde_json::from_str(&row.value)?,
                tags: row.tags,
                pinned: row.pinned,
                priority: priority(row.priority)?,
                sensitivity: row.sensitivity.as_deref().map(sensitivity).transpose()?,
                ttl: row.ttl,
                expires_at: row.expires_at,
                changed_by: row.changed_by,
                changed_at: row.changed_at,
            })
        })
        .collect()
}
