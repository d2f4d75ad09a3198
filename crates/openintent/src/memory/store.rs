//! Totals, changes and earlier versions of an agent's memory. Tables `memory_stores`, `memory_changes` and
//! `memory_versions`.

use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::ids::MemoryId;
use entente_domain::limits::{MEMORY_CHANGES, MEMORY_VERSIONS};
use entente_domain::openintent::memory::{MemoryEntry, MemoryPriority, MemorySensitivity, MemoryType};
use entente_kernel::{Outcome, unknown};
use serde_json::{Map, Value};
use sqlx::PgConnection;

use crate::memory_entries::rows::{priority, rank, sensitivity};

/// Advisory lock for writing an agent's memory.
pub(super) fn lock_key(agent: &str) -> i64 {
    let digest = sha256(format!("memory\0{agent}"));
    digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// Totals of an agent's memory, with the number of its changes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Store {
    pub entries: i64,
    pub bytes: i64,
    pub changes: i64,
}

/// A change of an agent's memory.
#[derive(Debug, Clone)]
pub struct Change {
    /// Number among the agent's changes, from 1 without gaps.
    pub number: i64,
    /// Kind of change: created, updated, deleted, evicted, expired.
    pub what: String,
    /// Changed entry.
    pub entry_id: MemoryId,
    /// Namespace of the entry.
    pub namespace: String,
    /// Key of the entry.
    pub key: String,
    /// Type of memory.
    pub memory_type: MemoryType,
    /// Version of the entry after the change.
    pub version: i64,
    /// Agent that made the change.
    pub changed_by: String,
    /// Time of the change.
    pub changed_at: Timestamp,
}

/// A current or earlier version of an entry.
#[derive(Debug, Clone)]
pub struct Version {
    /// Version number.
    pub version: i64,
    /// Value in this version.
    pub value: Map<String, Value>,
    /// Tags in this version.
    pub tags: Vec<String>,
    /// Whether it was pinned.
    pub pinned: bool,
    /// Priority in this version.
    pub priority: MemoryPriority,
    /// Sensitivity in this version.
    pub sensitivity: Option<MemorySensitivity>,
    /// Time to live, as requested.
    pub ttl: Option<String>,
    /// Resulting expiry.
    pub expires_at: Option<Timestamp>,
    /// Agent that made the change.
    pub changed_by: String,
    /// Time of the change.
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

/// Records changes and deletes those beyond the limit.
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

/// Changes of an agent's memory after a number, oldest first.
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

/// Keeps an entry's previous version and deletes those beyond the limit.
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

/// Earlier versions of an entry, newest first.
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
