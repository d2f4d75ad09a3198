//! Searches of memory entries: an agent's own by namespace, key, tags and words, and shared ones. Each search
//! has a query of its own, so that each uses its own index.

use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, TaskId};
use entente_domain::openintent::memory::range::range;
use entente_domain::openintent::memory::{MemoryEntry, MemoryType};
use entente_kernel::Outcome;
use sqlx::PgConnection;

use crate::memory_entries::rows::{read, select};

/// Filter of a list of entries.
#[derive(Debug, Clone, Default)]
pub struct MemoryFilter {
    /// Only entries in this namespace.
    pub namespace: Option<String>,
    /// Only entries with this key.
    pub key: Option<String>,
    /// Only entries with keys that have this prefix.
    pub key_prefix: Option<String>,
    /// Only entries of this type.
    pub memory_type: Option<MemoryType>,
    /// Only entries with all of these tags.
    pub tags: Vec<String>,
    /// Only entries that match these words, best match first.
    pub query: Option<String>,
    /// Only entries for this task.
    pub task_id: Option<TaskId>,
    /// Archived entries instead of those in force.
    pub archived: bool,
    /// Maximum number of entries.
    pub limit: u32,
    /// Number of entries to skip.
    pub offset: u32,
}

impl MemoryFilter {
    /// Whether it selects all entries in force.
    fn is_for_all(&self) -> bool {
        let named = self.namespace.is_some() || self.key.is_some() || self.key_prefix.is_some();
        !named && self.memory_type.is_none() && self.task_id.is_none()
    }
}

/// Page of a list.
#[derive(Debug, Clone, Copy)]
pub struct MemoryPage {
    /// Archived entries instead of those in force.
    pub archived: bool,
    /// Maximum number of entries.
    pub limit: u32,
    /// Number of entries to skip.
    pub offset: u32,
}

/// Owner and viewer of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look<'a> {
    /// Agent that owns the entries.
    pub owner: &'a str,
    /// Agent that looks at them.
    pub viewer: &'a str,
    /// Whether the viewer may act as the owner; others see only entries shared on intents that they can read.
    pub own: bool,
}

/// Selects an agent's entries that the viewer may see and the filter matches: name and rest of the query.
macro_rules! seen {
    (($conn:ident, $look:ident, $filter:ident, $now:ident), $name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {{
        let (from, to) = range($filter.namespace.as_deref(), None);
        let (low, high) = range($filter.key.as_deref(), $filter.key_prefix.as_deref());
        select!(
            $name,
            "m WHERE agent_id = $1 AND namespace >= $2 AND namespace < $3 AND key >= $4 AND key < $5
               AND ($6::text IS NULL OR memory_type = $6) AND ($7::uuid IS NULL OR task_id = $7)
               AND (expires_at IS NULL OR expires_at > $8)
               AND ($9 OR (intent_id IS NOT NULL AND sensitivity IS DISTINCT FROM 'restricted' AND EXISTS (
                   SELECT 1 FROM intents i LEFT JOIN acls a ON a.intent_id = i.id WHERE i.id = m.intent_id
                   AND (a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $10 OR EXISTS (
                        SELECT 1 FROM acl_entries e WHERE e.intent_id = i.id AND e.principal_id = $10
                        AND (e.expires_at IS NULL OR e.expires_at > $8))))))" + $rest,
            $look.owner,
            from,
            to,
            low,
            high,
            $filter.memory_type.map(MemoryType::as_str),
            $filter.task_id.map(TaskId::uuid),
            $now,
            $look.own,
            $look.viewer,
            i64::from($filter.limit),
            i64::from($filter.offset)
            $(, $argument)*
        )
        .fetch_all($conn)
        .await?
    }};
}

/// Lists an agent's entries that the viewer may see, last changed or best match first.
///
/// Each query is planned once for all filters: an optional filter is either a range or a condition on one
/// agent's rows, few enough to be sorted.
pub(super) async fn of_agent(
    conn: &mut PgConnection,
    look: Look<'_>,
    filter: &MemoryFilter,
    now: Timestamp,
) -> Outcome<Vec<MemoryEntry>> {
    let rows = if let Some(query) = &filter.query {
        // Filter by tags after the word search: without tags, the index of tags would be read as a whole.
        seen!(
            (conn, look, filter, now),
            "memory::search",
            " AND (archived_at IS NOT NULL) = $13 AND (tags || '{}') @> $14
             AND search @@ websearch_to_tsquery('simple', $15)
             ORDER BY ts_rank(search, websearch_to_tsquery('simple', $15)) DESC, updated_at DESC, id DESC
             LIMIT $11 OFFSET $12",
            filter.archived,
            &filter.tags,
            query
        )
    } else if !filter.tags.is_empty() {
        seen!(
            (conn, look, filter, now),
            "memory::tagged",
            " AND (archived_at IS NOT NULL) = $13 AND tags @> $14
             ORDER BY updated_at DESC, id DESC LIMIT $11 OFFSET $12",
            filter.archived,
            &filter.tags
        )
    } else if filter.archived {
        seen!(
            (conn, look, filter, now),
            "memory::archived",
            " AND archived_at IS NOT NULL ORDER BY updated_at DESC, id DESC LIMIT $11 OFFSET $12"
        )
    } else if look.own && filter.is_for_all() {
        // The most frequent query reads no more than it returns.
        select!(
            "memory::page",
            "WHERE agent_id = $1 AND archived_at IS NULL AND (expires_at IS NULL OR expires_at > $2)
             ORDER BY updated_at DESC, id DESC LIMIT $3 OFFSET $4",
            look.owner,
            now,
            i64::from(filter.limit),
            i64::from(filter.offset)
        )
        .fetch_all(conn)
        .await?
    } else {
        seen!(
            (conn, look, filter, now),
            "memory::keyed",
            " AND archived_at IS NULL ORDER BY updated_at DESC, id DESC LIMIT $11 OFFSET $12"
        )
    };
    read(rows)
}

/// Lists the entries shared on an intent and the viewer's own, last changed first.
pub(super) async fn of_intent(
    conn: &mut PgConnection,
    intent: IntentId,
    viewer: &str,
    page: MemoryPage,
    now: Timestamp,
) -> Outcome<Vec<MemoryEntry>> {
    let rows = select!(
        "memory::of_intent",
        "WHERE intent_id = $1 AND (sensitivity IS DISTINCT FROM 'restricted' OR agent_id = $2)
           AND (expires_at IS NULL OR expires_at > $3) AND (archived_at IS NOT NULL) = $4
         ORDER BY updated_at DESC, id DESC LIMIT $5 OFFSET $6",
        intent.uuid(),
        viewer,
        now,
        page.archived,
        i64::from(page.limit),
        i64::from(page.offset)
    );
    read(rows.fetch_all(conn).await?)
}
