//! Rows of memory entries: table `memory_entries`.

use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::ids::{IntentId, MemoryId, TaskId};
use entente_domain::limits::{MEMORY_ARCHIVE_SECONDS, MEMORY_EVICTIONS};
use entente_domain::openintent::memory::room::{Candidate, Used};
use entente_domain::openintent::memory::{MemoryEntry, MemoryPriority, MemorySensitivity, MemoryType};
use entente_kernel::{AppError, Outcome, unknown};
use sqlx::PgConnection;
use uuid::Uuid;

/// Selects whole entries: the query's name, and the text after `FROM memory_entries`.
macro_rules! select {
    ($name:literal, $rest:literal $(+ $more:literal)* $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            $crate::memory_entries::rows::Row,
            "-- " + $name + "
             SELECT id, agent_id, namespace, key, memory_type, value, intent_id, task_id, tags, ttl, pinned, priority,
                    sensitivity, curated_by, version, created_at, updated_at, updated_by, expires_at, archived_at, used_at
             FROM memory_entries " + $rest $(+ $more)*
            $(, $argument)*
        )
    };
}
pub(crate) use select;

/// A row of `memory_entries`.
pub(crate) struct Row {
    pub id: Uuid,
    pub agent_id: String,
    pub namespace: String,
    pub key: String,
    pub memory_type: String,
    pub value: String,
    pub intent_id: Option<Uuid>,
    pub task_id: Option<Uuid>,
    pub tags: Vec<String>,
    pub ttl: Option<String>,
    pub pinned: bool,
    pub priority: i16,
    pub sensitivity: Option<String>,
    pub curated_by: Option<String>,
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub updated_by: String,
    pub expires_at: Option<Timestamp>,
    pub archived_at: Option<Timestamp>,
    pub used_at: Timestamp,
}

/// Stored form of a priority: the order of eviction.
pub(crate) fn rank(priority: MemoryPriority) -> i16 {
    match priority {
        MemoryPriority::Low => 0,
        MemoryPriority::Normal => 1,
        MemoryPriority::High => 2,
    }
}

/// Parses a stored priority.
pub(crate) fn priority(rank_stored: i16) -> Outcome<MemoryPriority> {
    let found = MemoryPriority::ALL.iter().copied().find(|priority| rank(*priority) == rank_stored);
    found.ok_or_else(|| unknown("priority of memory", &rank_stored.to_string()))
}

/// Parses a stored sensitivity.
pub(crate) fn sensitivity(word: &str) -> Outcome<MemorySensitivity> {
    MemorySensitivity::parse(word).ok_or_else(|| unknown("sensitivity", word))
}

impl TryFrom<Row> for MemoryEntry {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            agent_id: row.agent_id,
            namespace: row.namespace,
            key: row.key,
            value: serde_json::from_str(&row.value)?,
            memory_type: MemoryType::parse(&row.memory_type)
                .ok_or_else(|| unknown("memory type", &row.memory_type))?,
            intent_id: row.intent_id.map(IntentId::from),
            task_id: row.task_id.map(TaskId::from),
            tags: row.tags,
            ttl: row.ttl,
            pinned: row.pinned,
            priority: priority(row.priority)?,
            sensitivity: row.sensitivity.as_deref().map(sensitivity).transpose()?,
            curated_by: row.curated_by,
            version: row.version,
            created_at: row.created_at,
            updated_at: row.updated_at,
            updated_by: row.updated_by,
            expires_at: row.expires_at,
            archived_at: row.archived_at,
            used_at: row.used_at,
        })
    }
}

/// Converts rows to entries.
pub(crate) fn read(rows: Vec<Row>) -> Outcome<Vec<MemoryEntry>> {
    rows.into_iter().map(MemoryEntry::try_from).collect()
}

fn uuids(ids: &[MemoryId]) -> Vec<Uuid> {
    ids.iter().map(|id| id.uuid()).collect()
}

/// Loads these entries, expired or not.
pub(crate) async fn load_all(conn: &mut PgConnection, ids: &[MemoryId]) -> Outcome<Vec<MemoryEntry>> {
    read(select!("memory::load_all", "WHERE id = ANY($1) ORDER BY id", &uuids(ids)).fetch_all(conn).await?)
}

/// Loads an entry, unless it has expired.
pub(crate) async fn load(
    conn: &mut PgConnection,
    id: MemoryId,
    now: Timestamp,
) -> Outcome<Option<MemoryEntry>> {
    Ok(load_all(conn, &[id]).await?.pop().filter(|entry| !entry.is_due(now)))
}

/// Loads the unarchived entry under a key, expired or not.
pub(crate) async fn under(
    conn: &mut PgConnection,
    agent: &str,
    namespace: &str,
    key: &str,
) -> Outcome<Option<MemoryEntry>> {
    let row = select!(
        "memory::under",
        "WHERE agent_id = $1 AND namespace = $2 AND key = $3 AND archived_at IS NULL",
        agent,
        namespace,
        key
    );
    row.fetch_optional(conn).await?.map(MemoryEntry::try_from).transpose()
}

/// Amounts used by an agent in a namespace and for a task; the store has its totals.
pub(crate) async fn used(
    conn: &mut PgConnection,
    agent: &str,
    namespace: &str,
    task: Option<TaskId>,
) -> Outcome<Used> {
    let row = sqlx::query!(
        r#"-- memory::used
         SELECT (SELECT count(*) FROM memory_entries
                 WHERE agent_id = $1 AND namespace = $2 AND archived_at IS NULL) AS "in_namespace!",
                t.entries AS "for_task!", t.bytes AS "task_bytes!"
         FROM (SELECT count(*) AS entries, coalesce(sum(bytes), 0)::bigint AS bytes FROM memory_entries
               WHERE task_id = $3 AND agent_id = $1 AND archived_at IS NULL) t"#,
        agent,
        namespace,
        task.map(TaskId::uuid)
    )
    .fetch_one(conn)
    .await?;
    Ok(Used {
        in_namespace: row.in_namespace,
        for_task: row.for_task,
        task_bytes: row.task_bytes,
        ..Used::default()
    })
}

/// Candidates for eviction for a new entry, in order of eviction.
///
/// Searches each place that may be full, so that one place's many entries do not hide another's few: archived
/// entries anywhere, those of the task, those in the namespace.
pub(crate) async fn evictable(
    conn: &mut PgConnection,
    agent: &str,
    namespace: &str,
    task: Option<TaskId>,
) -> Outcome<Vec<Candidate>> {
    let rows = sqlx::query!(
        r#"-- memory::evictable
         WITH of_agent AS (
             SELECT id FROM memory_entries
             WHERE agent_id = $1 AND NOT pinned AND memory_type <> 'semantic' AND archived_at IS NOT NULL
             ORDER BY priority, used_at, id LIMIT $4),
         of_task AS (
             SELECT id FROM memory_entries
             WHERE task_id = $3 AND agent_id = $1 AND NOT pinned AND memory_type <> 'semantic' AND archived_at IS NULL
             ORDER BY priority, used_at, id LIMIT $4),
         of_namespace AS (
             SELECT id FROM memory_entries
             WHERE agent_id = $1 AND namespace = $2 AND NOT pinned AND memory_type <> 'semantic' AND archived_at IS NULL
             ORDER BY priority, used_at, id LIMIT $4)
         SELECT id, intent_id, bytes, archived_at IS NULL AND namespace = $2 AS "in_namespace!",
                coalesce(archived_at IS NULL AND task_id = $3, false) AS "of_task!"
         FROM memory_entries
         WHERE id IN (SELECT id FROM of_agent UNION SELECT id FROM of_task UNION SELECT id FROM of_namespace)
         ORDER BY (archived_at IS NOT NULL) DESC, priority, used_at, id"#,
        agent,
        namespace,
        task.map(TaskId::uuid),
        i64::from(MEMORY_EVICTIONS)
    )
    .fetch_all(conn)
    .await?;
    let candidates = rows.into_iter().map(|row| Candidate {
        id: row.id.into(),
        intent_id: row.intent_id.map(IntentId::from),
        bytes: row.bytes,
        in_namespace: row.in_namespace,
        of_task: row.of_task,
    });
    Ok(candidates.collect())
}

/// Up to `limit` expired entries, each with its agent and intent.
pub(crate) async fn due(
    conn: &mut PgConnection,
    now: Timestamp,
    limit: i64,
) -> Outcome<Vec<(String, Option<IntentId>, MemoryId)>> {
    let rows = sqlx::query!(
        "-- memory::due
         SELECT id, agent_id, intent_id FROM memory_entries WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2",
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.agent_id, row.intent_id.map(IntentId::from), row.id.into())).collect())
}

pub(crate) async fn insert(conn: &mut PgConnection, entry: &MemoryEntry) -> Outcome<()> {
    sqlx::query!(
        "-- memory::insert
         INSERT INTO memory_entries (id, agent_id, namespace, key, memory_type, value, bytes, intent_id, task_id, tags, ttl,
                                     pinned, priority, sensitivity, curated_by, version, created_at, updated_at,
                                     updated_by, expires_at, used_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)",
        entry.id.uuid(),
        entry.agent_id,
        entry.namespace,
        entry.key,
        entry.memory_type.as_str(),
        serde_json::to_string(&entry.value)?,
        entry.bytes(),
        entry.intent_id.map(IntentId::uuid),
        entry.task_id.map(TaskId::uuid),
        &entry.tags,
        entry.ttl,
        entry.pinned,
        rank(entry.priority),
        entry.sensitivity.map(MemorySensitivity::as_str),
        entry.curated_by,
        entry.version,
        entry.created_at,
        entry.updated_at,
        entry.updated_by,
        entry.expires_at,
        entry.used_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes the mutable columns of an entry.
pub(crate) async fn update(conn: &mut PgConnection, entry: &MemoryEntry) -> Outcome<()> {
    sqlx::query!(
        "-- memory::update
         UPDATE memory_entries SET value = $2, bytes = $3, tags = $4, ttl = $5, pinned = $6, priority = $7, sensitivity = $8,
                curated_by = $9, version = $10, updated_at = $11, updated_by = $12, expires_at = $13, used_at = $14
         WHERE id = $1",
        entry.id.uuid(),
        serde_json::to_string(&entry.value)?,
        entry.bytes(),
        &entry.tags,
        entry.ttl,
        entry.pinned,
        rank(entry.priority),
        entry.sensitivity.map(MemorySensitivity::as_str),
        entry.curated_by,
        entry.version,
        entry.updated_at,
        entry.updated_by,
        entry.expires_at,
        entry.used_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub(crate) async fn delete(conn: &mut PgConnection, ids: &[MemoryId]) -> Outcome<()> {
    sqlx::query!("-- memory::delete\n DELETE FROM memory_entries WHERE id = ANY($1)", &uuids(ids))
        .execute(conn)
        .await?;
    Ok(())
}

/// Records the use of an entry, without waiting for a concurrent change, which records a use as well.
pub(crate) async fn touch(conn: &mut PgConnection, id: MemoryId, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- memory::touch
         UPDATE memory_entries SET used_at = $2
         WHERE id = (SELECT id FROM memory_entries WHERE id = $1 AND used_at < $2 FOR UPDATE SKIP LOCKED)",
        id.uuid(),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Archives the working memory of an intent, or of these tasks of it, and sets its expiry.
///
/// It expires at once if the task's policy wants no archive. Returns, per task, the number of entries that
/// disappear for readers of the intent.
pub(crate) async fn archive(
    conn: &mut PgConnection,
    intent: IntentId,
    tasks: Option<&[TaskId]>,
    now: Timestamp,
) -> Outcome<Vec<(Option<TaskId>, i64)>> {
    let until = plus_seconds(now, MEMORY_ARCHIVE_SECONDS);
    macro_rules! archive {
        ($name:literal, $rest:literal $(, $argument:expr)*) => {
            sqlx::query_as!(
                Archived,
                "-- " + $name + r#"
                 WITH over AS (
                     UPDATE memory_entries e SET archived_at = $2, expires_at = least(e.expires_at, CASE
                            WHEN (SELECT t.memory_policy::jsonb ->> 'archive_on_completion' FROM tasks t
                                  WHERE t.id = e.task_id) = 'false' THEN $2 ELSE $3 END)
                     WHERE e.intent_id = $1 AND e.memory_type = 'working' AND e.archived_at IS NULL
                       AND (e.expires_at IS NULL OR e.expires_at > $2)"# + $rest + r#"
                     RETURNING e.task_id, e.sensitivity)
                 SELECT task_id, count(*) AS "entries!" FROM over WHERE sensitivity IS DISTINCT FROM 'restricted'
                 GROUP BY task_id ORDER BY task_id"#,
                intent.uuid(),
                now,
                until
                $(, $argument)*
            )
            .fetch_all(conn)
            .await?
        };
    }
    let rows = match tasks {
        None => archive!("memory::archive_of_intent", ""),
        Some(tasks) => {
            let tasks: Vec<Uuid> = tasks.iter().map(|id| id.uuid()).collect();
            archive!("memory::archive_of_tasks", " AND e.task_id = ANY($4)", &tasks)
        }
    };
    Ok(rows.into_iter().map(|row| (row.task_id.map(TaskId::from), row.entries)).collect())
}

struct Archived {
    task_id: Option<Uuid>,
    entries: i64,
}
