//! Rows of graphs: table `intent_dependencies`, and walks over it and over the tree of children. The walks
//! leave out intents that the caller may not read.

use entente_domain::clock::Timestamp;
use entente_domain::ids::IntentId;
use entente_domain::limits::{GRAPH_NODES, INTENT_DEPTH};
use entente_domain::openintent::graphs::Readiness;
use entente_domain::openintent::intents::IntentStatus;
use entente_kernel::{Outcome, unknown};
use sqlx::PgConnection;
use uuid::Uuid;

use super::Node;

/// Parameters of a graph query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look<'a> {
    /// Starting intent.
    pub of: IntentId,
    /// Agent to check access for.
    pub agent: &'a str,
    /// Time at which access is checked.
    pub now: Timestamp,
    /// Cursor: only intents after this one.
    pub after: Option<IntentId>,
    /// Maximum number of ids.
    pub limit: i64,
}

/// Selects ids of intents readable by the agent: `$1` start, `$2` agent, `$3` time, `$4` cursor, `$5` limit.
macro_rules! select {
    ($name:literal, $which:literal, $look:ident $(, $more:expr)*) => {
        sqlx::query_scalar!(
            "-- " + $name + "\n SELECT i.id FROM intents i LEFT JOIN acls a ON a.intent_id = i.id WHERE " + $which +
            " AND ($4::uuid IS NULL OR i.id > $4)
              AND (a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $2 OR EXISTS (
                  SELECT 1 FROM acl_entries e WHERE e.intent_id = i.id AND e.principal_id = $2
                  AND (e.expires_at IS NULL OR e.expires_at > $3)))
              ORDER BY i.id LIMIT $5",
            $look.of.uuid(),
            $look.agent,
            $look.now,
            $look.after.map(IntentId::uuid),
            $look.limit
            $(, $more)*
        )
    };
}

fn status(word: &str) -> Outcome<IntentStatus> {
    IntentStatus::parse(word).ok_or_else(|| unknown("intent status", word))
}

fn ids(found: Vec<Uuid>) -> Vec<IntentId> {
    found.into_iter().map(IntentId::from).collect()
}

/// Direct children of an intent.
pub(super) async fn children(conn: &mut PgConnection, look: Look<'_>) -> Outcome<Vec<IntentId>> {
    Ok(ids(select!("graphs::children", "i.parent_id = $1", look).fetch_all(conn).await?))
}

/// Direct dependencies of an intent.
pub(super) async fn dependencies(conn: &mut PgConnection, look: Look<'_>) -> Outcome<Vec<IntentId>> {
    let found = select!(
        "graphs::dependencies",
        "i.id IN (SELECT d.dependency_id FROM intent_dependencies d WHERE d.intent_id = $1)",
        look
    );
    Ok(ids(found.fetch_all(conn).await?))
}

/// Intents that depend directly on an intent.
pub(super) async fn dependents(conn: &mut PgConnection, look: Look<'_>) -> Outcome<Vec<IntentId>> {
    let found = select!(
        "graphs::dependents",
        "i.id IN (SELECT d.intent_id FROM intent_dependencies d WHERE d.dependency_id = $1)",
        look
    );
    Ok(ids(found.fetch_all(conn).await?))
}

/// Unfinished children of an intent that are ready, or blocked.
///
/// The SQL repeats `entente_domain::openintent::graphs::readiness`, so that a page holds only matching intents.
pub(super) async fn parts(
    conn: &mut PgConnection,
    look: Look<'_>,
    readiness: Readiness,
) -> Outcome<Vec<IntentId>> {
    let found = select!(
        "graphs::parts",
        "i.parent_id = $1 AND i.status NOT IN ('completed', 'abandoned') AND $6 = NOT EXISTS (
             SELECT 1 FROM intent_dependencies d JOIN intents o ON o.id = d.dependency_id
             WHERE d.intent_id = i.id AND o.status <> 'completed')",
        look,
        readiness == Readiness::Ready
    );
    Ok(ids(found.fetch_all(conn).await?))
}

/// Ancestors of an intent, nearest first; after the cursor, the ancestors above it.
pub(super) async fn ancestors(conn: &mut PgConnection, look: Look<'_>) -> Outcome<Vec<IntentId>> {
    let found = sqlx::query_scalar!(
        r#"-- graphs::ancestors
         WITH RECURSIVE above AS (
             SELECT i.id, i.parent_id, 0::bigint AS level FROM intents i WHERE i.id = $1
             UNION ALL
             SELECT i.id, i.parent_id, b.level + 1 FROM above b
             JOIN intents i ON i.id = b.parent_id LEFT JOIN acls a ON a.intent_id = i.id
             WHERE b.level < $5 AND (a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $2 OR EXISTS (
                 SELECT 1 FROM acl_entries e WHERE e.intent_id = i.id AND e.principal_id = $2
                 AND (e.expires_at IS NULL OR e.expires_at > $3))))
         SELECT id AS "id!" FROM above
         WHERE level > coalesce((SELECT n.level FROM above n WHERE n.id = $4), 0) ORDER BY level LIMIT $6"#,
        look.of.uuid(),
        look.agent,
        look.now,
        look.after.map(IntentId::uuid),
        // Bounds the walk: older data may be deeper than the current limit.
        i64::try_from(GRAPH_NODES).unwrap_or(i64::MAX),
        look.limit
    )
    .fetch_all(conn)
    .await?;
    Ok(ids(found))
}

/// Descendants of an intent, unordered; at most one more than a walk may visit.
pub(super) async fn descendants(conn: &mut PgConnection, look: Look<'_>) -> Outcome<Vec<IntentId>> {
    let found = sqlx::query_scalar!(
        r#"-- graphs::descendants
         WITH RECURSIVE below AS (
             SELECT $1::uuid AS id
             UNION ALL
             SELECT i.id FROM below b
             JOIN intents i ON i.parent_id = b.id LEFT JOIN acls a ON a.intent_id = i.id
             WHERE a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $2 OR EXISTS (
                 SELECT 1 FROM acl_entries e WHERE e.intent_id = i.id AND e.principal_id = $2
                 AND (e.expires_at IS NULL OR e.expires_at > $3)))
         SELECT id AS "id!" FROM below OFFSET 1 LIMIT $4"#,
        look.of.uuid(),
        look.agent,
        look.now,
        i64::try_from(GRAPH_NODES).unwrap_or(i64::MAX) + 1
    )
    .fetch_all(conn)
    .await?;
    Ok(ids(found))
}

/// An intent, its descendants and all of their dependencies.
pub(super) async fn connected(conn: &mut PgConnection, look: Look<'_>) -> Outcome<Vec<IntentId>> {
    let found = sqlx::query_scalar!(
        r#"-- graphs::connected
         WITH RECURSIVE reached AS (
             SELECT $1::uuid AS id
             UNION
             SELECT i.id FROM reached r
             CROSS JOIN LATERAL (
                 SELECT c.id FROM intents c WHERE c.parent_id = r.id
                 UNION ALL SELECT d.dependency_id FROM intent_dependencies d WHERE d.intent_id = r.id) n
             JOIN intents i ON i.id = n.id LEFT JOIN acls a ON a.intent_id = i.id
             WHERE a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $2 OR EXISTS (
                 SELECT 1 FROM acl_entries e WHERE e.intent_id = i.id AND e.principal_id = $2
                 AND (e.expires_at IS NULL OR e.expires_at > $3)))
         SELECT id AS "id!" FROM reached LIMIT $4"#,
        look.of.uuid(),
        look.agent,
        look.now,
        look.limit
    )
    .fetch_all(conn)
    .await?;
    Ok(ids(found))
}

/// An intent and its direct and indirect dependencies, regardless of who may read them.
///
/// Returns at most one more than the domain rules look at.
pub(super) async fn reached(conn: &mut PgConnection, from: IntentId) -> Outcome<Vec<IntentId>> {
    let found = sqlx::query_scalar!(
        r#"-- graphs::reached
         WITH RECURSIVE reached AS (
             SELECT $1::uuid AS id
             UNION
             SELECT d.dependency_id FROM reached r JOIN intent_dependencies d ON d.intent_id = r.id)
         SELECT id AS "id!" FROM reached LIMIT $2"#,
        from.uuid(),
        i64::try_from(GRAPH_NODES).unwrap_or(i64::MAX) + 1
    )
    .fetch_all(conn)
    .await?;
    Ok(ids(found))
}

/// Level of an intent in its tree, counted from 1; at most one more than the allowed depth.
pub(crate) async fn levels(conn: &mut PgConnection, id: IntentId) -> Outcome<usize> {
    let levels = sqlx::query_scalar!(
        r#"-- graphs::levels
         WITH RECURSIVE above AS (
             SELECT i.parent_id FROM intents i WHERE i.id = $1
             UNION ALL
             SELECT i.parent_id FROM above b JOIN intents i ON i.id = b.parent_id)
         SELECT count(*) AS "levels!" FROM (SELECT 1 FROM above LIMIT $2) few"#,
        id.uuid(),
        i64::try_from(INTENT_DEPTH).unwrap_or(i64::MAX) + 1
    )
    .fetch_one(conn)
    .await?;
    Ok(usize::try_from(levels).unwrap_or(usize::MAX))
}

/// Intents of a graph without their states, which may be large.
pub(super) async fn nodes(conn: &mut PgConnection, of: &[IntentId]) -> Outcome<Vec<Node>> {
    let rows = sqlx::query!(
        "-- graphs::nodes
         SELECT id, title, status, parent_id, depends_on, version FROM intents WHERE id = ANY ($1)",
        &of.iter().map(|id| id.uuid()).collect::<Vec<_>>()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Node {
                id: row.id.into(),
                title: row.title,
                status: status(&row.status)?,
                parent_id: row.parent_id.map(IntentId::from),
                depends_on: ids(row.depends_on),
                version: row.version,
            })
        })
        .collect()
}

/// Incomplete dependencies of these intents, as (dependent, dependency, status of the dependency).
///
/// The status of a dependency that the agent may not read is shown as `active`.
pub(super) async fn statuses(
    conn: &mut PgConnection,
    of: &[IntentId],
    look: Look<'_>,
) -> Outcome<Vec<(IntentId, IntentId, IntentStatus)>> {
    let rows = sqlx::query!(
        r#"-- graphs::statuses
         SELECT d.intent_id, d.dependency_id, CASE
             WHEN a.default_policy IS DISTINCT FROM 'closed' OR o.created_by = $2 OR EXISTS (
                 SELECT 1 FROM acl_entries e WHERE e.intent_id = o.id AND e.principal_id = $2
                 AND (e.expires_at IS NULL OR e.expires_at > $3))
             THEN o.status ELSE 'active' END AS "status!"
         FROM intent_dependencies d JOIN intents o ON o.id = d.dependency_id LEFT JOIN acls a ON a.intent_id = o.id
         WHERE d.intent_id = ANY ($1) AND o.status <> 'completed' ORDER BY d.intent_id, d.dependency_id"#,
        &of.iter().map(|id| id.uuid()).collect::<Vec<_>>(),
        look.agent,
        look.now
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| Ok((row.intent_id.into(), row.dependency_id.into(), status(&row.status)?)))
        .collect()
}

/// Adds dependencies to an intent.
pub(crate) async fn add_all(conn: &mut PgConnection, id: IntentId, on: &[IntentId]) -> Outcome<()> {
    if on.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- graphs::add_all
         INSERT INTO intent_dependencies (intent_id, dependency_id) SELECT $1, d FROM UNNEST($2::uuid[]) AS d
         ON CONFLICT DO NOTHING",
        id.uuid(),
        &on.iter().map(|id| id.uuid()).collect::<Vec<_>>()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes a dependency from an intent.
pub(super) async fn remove(conn: &mut PgConnection, id: IntentId, dependency: IntentId) -> Outcome<()> {
    sqlx::query!(
        "-- graphs::remove
         DELETE FROM intent_dependencies WHERE intent_id = $1 AND dependency_id = $2",
        id.uuid(),
        dependency.uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}
