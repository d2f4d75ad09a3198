//! Rows of intents: the only code that writes table `intents`.

use entente_domain::access::AccessLevel;
use entente_domain::clock::Timestamp;
use entente_domain::ids::IntentId;
use entente_domain::limits::PAGE_BYTES;
use entente_domain::openintent::intents::{Intent, IntentStatus};
use sqlx::PgConnection;

use crate::column;
use crate::facts::MembershipColumns;
use crate::log::deferred::Deferred;
use crate::pages::Measure;
use crate::{AppError, Outcome, unknown};

struct Row {
    id: uuid::Uuid,
    title: String,
    description: String,
    created_by: String,
    parent_id: Option<uuid::Uuid>,
    depends_on: Vec<uuid::Uuid>,
    constraints: String,
    state: String,
    status: String,
    confidence: f64,
    version: i64,
    governance_policy: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl TryFrom<Row> for Intent {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            title: row.title,
            description: row.description,
            created_by: row.created_by,
            parent_id: row.parent_id.map(IntentId::from),
            depends_on: row.depends_on.into_iter().map(IntentId::from).collect(),
            constraints: serde_json::from_str(&row.constraints)?,
            state: serde_json::from_str(&row.state)?,
            status: IntentStatus::parse(&row.status).ok_or_else(|| unknown("intent status", &row.status))?,
            confidence: row.confidence,
            version: row.version,
            governance_policy: row.governance_policy.as_deref().map(serde_json::from_str).transpose()?,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

/// Loads an intent by its id.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn load(conn: &mut PgConnection, id: IntentId) -> Outcome<Option<Intent>> {
    let row = sqlx::query_as!(
        Row,
        "-- intents::load
         SELECT id, title, description, created_by, parent_id, depends_on, constraints, state, status, confidence,
                version, governance_policy, created_at, updated_at
         FROM intents WHERE id = $1",
        id.uuid()
    )
    .fetch_optional(conn)
    .await?;
    row.map(Intent::try_from).transpose()
}

/// Maximum size of an intent that a query for several returns, in bytes of its larger columns. A larger one has a query of its own, so that
/// the others do not wait for it.
const SHARED_BYTES: i32 = 32 * 1024;

/// An intent with the access of an agent to it.
pub type IntentAs = (Intent, AccessLevel);

/// Loads intents with the access of an agent to each, in one query: each with its place in `asked`. Those that do not exist are
/// left out, and large ones too if several are asked for.
///
/// # Errors
/// A database error; of one intent, that a stored value is invalid.
pub async fn load_as(
    conn: &mut PgConnection,
    asked: &[(IntentId, String)],
    now: Timestamp,
) -> Outcome<Vec<(usize, Outcome<IntentAs>)>> {
    let rows = sqlx::query!(
        r#"-- intents::load_as
         SELECT k.place AS "place!", k.agent AS "agent!", i.id, i.title, i.description, i.created_by, i.parent_id,
                i.depends_on, i.constraints, i.state, i.status, i.confidence, i.version, i.governance_policy, i.created_at,
                i.updated_at, a.default_policy AS "default_policy?",
                (coalesce(a.narrowed, false) OR coalesce((
                    SELECT true FROM acl_entries e WHERE e.intent_id = i.id LIMIT 1), false)) AS "has_entries!",
                own.permission AS "permission?", own.expires_at AS "expires_at?"
         FROM UNNEST($1::uuid[], $2::text[]) WITH ORDINALITY AS k (id, agent, place)
         JOIN intents i ON i.id = k.id
         LEFT JOIN acls a ON a.intent_id = i.id
         LEFT JOIN LATERAL (
             SELECT e.permission, e.expires_at FROM acl_entries e
             WHERE e.intent_id = i.id AND e.principal_id = k.agent AND (e.expires_at IS NULL OR e.expires_at > $3)
             ORDER BY array_position(ARRAY['admin', 'write', 'read'], e.permission), e.expires_at DESC NULLS FIRST
             LIMIT 1) own ON true
         WHERE octet_length(i.state) + octet_length(i.constraints) + octet_length(i.description)
             + coalesce(octet_length(i.governance_policy), 0) <= $4"#,
        &asked.iter().map(|(id, _)| id.uuid()).collect::<Vec<_>>(),
        &asked.iter().map(|(_, agent)| agent.as_str()).collect::<Vec<_>>() as &[&str],
        now,
        if asked.len() > 1 { SHARED_BYTES } else { i32::MAX }
    )
    .fetch_all(conn)
    .await?;
    let loaded = rows.into_iter().map(|row| {
        // The first one's place is 1.
        let place = usize::try_from(row.place - 1).unwrap_or(usize::MAX);
        let columns = MembershipColumns {
            created_by: &row.created_by,
            status: &row.status,
            default_policy: row.default_policy.as_deref(),
            has_entries: row.has_entries,
            permission: row.permission.as_deref(),
            expires_at: row.expires_at,
            role: None,
            governed: row.governance_policy.is_some(),
            strict: false,
        };
        let access = columns.membership(&row.agent, false).map(|membership| membership.access);
        let intent = Row {
            id: row.id,
            title: row.title,
            description: row.description,
            created_by: row.created_by,
            parent_id: row.parent_id,
            depends_on: row.depends_on,
            constraints: row.constraints,
            state: row.state,
            status: row.status,
            confidence: row.confidence,
            version: row.version,
            governance_policy: row.governance_policy,
            created_at: row.created_at,
            updated_at: row.updated_at,
        };
        (place, access.and_then(|access| Ok((Intent::try_from(intent)?, access))))
    });
    Ok(loaded.collect())
}

/// Returns the ids of the next intents below an intent.
///
/// # Errors
/// A database error.
pub async fn below(
    conn: &mut PgConnection,
    parent: IntentId,
    after: IntentId,
    limit: i64,
) -> Outcome<Vec<IntentId>> {
    let ids = sqlx::query_scalar!(
        "-- intents::below
         SELECT id FROM intents WHERE parent_id = $1 AND id > $2 ORDER BY id LIMIT $3",
        parent.uuid(),
        after.uuid(),
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(IntentId::from).collect())
}

/// Loads the intents of these ids, in the given order.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn load_all(conn: &mut PgConnection, ids: &[IntentId]) -> Outcome<Vec<Intent>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query_as!(
        Row,
        "-- intents::load_all
         SELECT i.id, i.title, i.description, i.created_by, i.parent_id, i.depends_on, i.constraints, i.state, i.status,
                i.confidence, i.version, i.governance_policy, i.created_at, i.updated_at
         FROM UNNEST($1::uuid[]) WITH ORDINALITY AS k (id, place) JOIN intents i ON i.id = k.id ORDER BY k.place",
        &ids.iter().map(|id| id.uuid()).collect::<Vec<_>>()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Intent::try_from).collect()
}

/// Filter of a list of intents.
#[derive(Debug, Clone, Default)]
pub struct IntentFilter {
    /// Only intents in this status.
    pub status: Option<IntentStatus>,
    /// Only intents of this creator.
    pub created_by: Option<String>,
    /// Only children of this intent.
    pub parent_id: Option<IntentId>,
    /// Only intents that this agent is assigned to.
    pub assigned_to: Option<String>,
    /// Cursor: only intents older than this one.
    pub before: Option<IntentId>,
    /// Maximum number of intents.
    pub limit: u32,
    /// Number of the newest intents to skip.
    pub offset: u32,
}

/// Loads a page of the intents that an agent may read, newest first.
///
/// Returns little more bytes than `measure` allows.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn page(
    conn: &mut PgConnection,
    agent: &str,
    filter: &IntentFilter,
    now: Timestamp,
    measure: &mut Measure,
) -> Outcome<Vec<Intent>> {
    let rows = loop {
        let rows = sqlx::query_as!(
            Row,
            "-- intents::page
             SELECT i.id, i.title, i.description, i.created_by, i.parent_id, i.depends_on, i.constraints, i.state,
                    i.status, i.confidence, i.version, i.governance_policy, i.created_at, i.updated_at
             FROM (SELECT p.*, sum(octet_length(p.state) + octet_length(p.constraints)) OVER (ORDER BY p.id DESC)
                          - octet_length(p.state) - octet_length(p.constraints) AS before
             FROM (SELECT i.* FROM intents i LEFT JOIN acls a ON a.intent_id = i.id
             WHERE ($1::text IS NULL OR i.status = $1)
               AND ($2::text IS NULL OR i.created_by = $2)
               AND ($3::uuid IS NULL OR i.parent_id = $3)
               AND ($4::text IS NULL OR EXISTS (
                    SELECT 1 FROM assignments s WHERE s.intent_id = i.id AND s.agent_id = $4))
               AND ($5::uuid IS NULL OR i.id < $5)
               AND (a.default_policy IS DISTINCT FROM 'closed' OR i.created_by = $6 OR EXISTS (
                    SELECT 1 FROM acl_entries e WHERE e.intent_id = i.id AND e.principal_id = $6
                    AND (e.expires_at IS NULL OR e.expires_at > $7)))
             ORDER BY i.id DESC LIMIT $8 OFFSET $9) p) i WHERE i.before < $10 ORDER BY i.id DESC",
            filter.status.map(IntentStatus::as_str),
            filter.created_by,
            filter.parent_id.map(IntentId::uuid),
            filter.assigned_to,
            filter.before.map(IntentId::uuid),
            agent,
            now,
            i64::from(filter.limit),
            i64::from(filter.offset),
            measure.bytes()
        )
        .fetch_all(&mut *conn)
        .await?;
        if !measure.again(rows.iter().map(|row| row.state.len() + row.constraints.len()).sum()) {
            break rows;
        }
    };
    rows.into_iter().map(Intent::try_from).collect()
}

/// Number of leading intents that fit into a page's byte limit; at least one.
///
/// # Errors
/// A database error.
pub async fn fitting(conn: &mut PgConnection, ids: &[IntentId]) -> Outcome<usize> {
    if ids.len() < 2 {
        return Ok(ids.len());
    }
    let fitting = sqlx::query_scalar!(
        r#"-- intents::fitting
         SELECT count(*) AS "count!" FROM (
             SELECT sum(weight) OVER (ORDER BY place) - weight AS before FROM (
                 SELECT k.place, coalesce(octet_length(i.state) + octet_length(i.constraints), 0) AS weight
                 FROM UNNEST($1::uuid[]) WITH ORDINALITY AS k (id, place) LEFT JOIN intents i ON i.id = k.id) w) s
         WHERE before < $2"#,
        &ids.iter().map(|id| id.uuid()).collect::<Vec<_>>(),
        PAGE_BYTES
    );
    Ok(usize::try_from(fitting.fetch_one(conn).await?).unwrap_or(0).max(1))
}

/// A new intent without dependencies or an access list, to write at the end of a transaction.
pub struct NewIntent(pub Intent);

impl Deferred for NewIntent {
    async fn write(conn: &mut PgConnection, rows: Vec<Self>) -> Outcome<()> {
        insert(conn, &rows.into_iter().map(|row| row.0).collect::<Vec<_>>()).await
    }
}

/// Inserts new intents.
///
/// # Errors
/// A database error.
pub async fn insert(conn: &mut PgConnection, intents: &[Intent]) -> Outcome<()> {
    let (mut constraints, mut states, mut policies) = (Vec::new(), Vec::new(), Vec::new());
    for intent in intents {
        constraints.push(serde_json::to_string(&intent.constraints)?);
        states.push(serde_json::to_string(&intent.state)?);
        policies.push(intent.governance_policy.as_ref().map(serde_json::to_string).transpose()?);
    }
    // `UNNEST` takes no list of lists.
    let depends_on = |intent: &Intent| {
        let ids: Vec<String> = intent.depends_on.iter().map(|id| id.uuid().to_string()).collect();
        format!("{{{}}}", ids.join(","))
    };
    sqlx::query!(
        "-- intents::insert
         INSERT INTO intents (id, title, description, created_by, parent_id, depends_on, constraints, state, status,
                              confidence, version, governance_policy, created_at, updated_at)
         SELECT id, title, description, created_by, parent_id, depends_on::uuid[], constraints, state, status, confidence,
                version, governance_policy, created_at, updated_at
         FROM UNNEST($1::uuid[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::text[], $7::text[], $8::text[],
                     $9::text[], $10::double precision[], $11::bigint[], $12::text[], $13::timestamptz[], $14::timestamptz[])
              AS k (id, title, description, created_by, parent_id, depends_on, constraints, state, status, confidence,
                    version, governance_policy, created_at, updated_at)",
        column!(intents, i => i.id.uuid()),
        column!(intents, i => i.title.as_str()) as &[&str],
        column!(intents, i => i.description.as_str()) as &[&str],
        column!(intents, i => i.created_by.as_str()) as &[&str],
        column!(intents, i => i.parent_id.map(IntentId::uuid)) as &[Option<uuid::Uuid>],
        column!(intents, i => depends_on(i)),
        &constraints,
        &states,
        column!(intents, i => i.status.as_str()) as &[&str],
        column!(intents, i => i.confidence),
        column!(intents, i => i.version),
        &policies as &[Option<String>],
        column!(intents, i => i.created_at),
        column!(intents, i => i.updated_at),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes an intent's governance policy with its new version.
///
/// # Errors
/// A database error; the stored version is not the previous one.
pub async fn set_policy(conn: &mut PgConnection, intent: &Intent) -> Outcome<()> {
    let updated = sqlx::query!(
        "-- intents::set_policy
         UPDATE intents SET governance_policy = $2, version = $3::bigint, updated_at = $4
         WHERE id = $1 AND version = $3::bigint - 1",
        intent.id.uuid(),
        intent.governance_policy.as_ref().map(serde_json::to_string).transpose()?,
        intent.version,
        intent.updated_at
    )
    .execute(conn)
    .await?;
    one_row(updated.rows_affected(), intent.id)
}

/// Writes the next version of an intent; the caller has held its lock since it read the previous one.
///
/// # Errors
/// A database error; the stored version is not the previous one.
pub async fn update(conn: &mut PgConnection, intent: &Intent) -> Outcome<()> {
    let depends_on: Vec<uuid::Uuid> = intent.depends_on.iter().map(|id| id.uuid()).collect();
    let updated = sqlx::query!(
        "-- intents::update
         UPDATE intents SET state = $2, status = $3, version = $4::bigint, updated_at = $5, depends_on = $6
         WHERE id = $1 AND version = $4::bigint - 1",
        intent.id.uuid(),
        serde_json::to_string(&intent.state)?,
        intent.status.as_str(),
        intent.version,
        intent.updated_at,
        &depends_on
    )
    .execute(conn)
    .await?;
    one_row(updated.rows_affected(), intent.id)
}

/// Requires that one row changed: the intent's lock was held since its version was read.
fn one_row(updated: u64, id: IntentId) -> Outcome<()> {
    if updated == 1 { Ok(()) } else { Err(AppError::Inconsistent(format!("{id} changed under its lock"))) }
}
