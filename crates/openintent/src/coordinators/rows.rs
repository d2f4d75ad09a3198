//! Rows of the table `coordinators`.

use entente_domain::clock::Timestamp;
use entente_domain::ids::{CoordinatorId, IntentId};
use entente_domain::limits::PAGE;
use entente_domain::openintent::coordinators::{Coordinator, CoordinatorStatus, CoordinatorType};
use entente_kernel::Pool;
use entente_kernel::{AppError, Outcome, unknown};
use sqlx::PgConnection;

/// Loads whole appointments: takes the query's name and the text after its `FROM`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT id, intent_id, agent_id, role, supervisor_id, appointed_by, coordinator_type, status, guardrails,
                    heartbeat_seconds, heard_at, last_heartbeat, logged_at, progress_at, stalled_at, granted_at, until,
                    ended_at, role_before, metadata, version
             FROM coordinators " + $rest
            $(, $argument)*
        )
    };
}

struct Row {
    id: uuid::Uuid,
    intent_id: uuid::Uuid,
    agent_id: String,
    role: String,
    supervisor_id: String,
    appointed_by: String,
    coordinator_type: String,
    status: String,
    guardrails: Option<String>,
    heartbeat_seconds: i32,
    heard_at: Timestamp,
    last_heartbeat: Option<Timestamp>,
    logged_at: Option<Timestamp>,
    progress_at: Timestamp,
    stalled_at: Option<Timestamp>,
    granted_at: Timestamp,
    until: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    role_before: Option<String>,
    metadata: String,
    version: i64,
}

impl TryFrom<Row> for Coordinator {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            agent_id: row.agent_id,
            role: row.role,
            supervisor_id: row.supervisor_id,
            appointed_by: row.appointed_by,
            coordinator_type: CoordinatorType::parse(&row.coordinator_type)
                .ok_or_else(|| unknown("type of coordinator", &row.coordinator_type))?,
            status: CoordinatorStatus::parse(&row.status)
                .ok_or_else(|| unknown("status of a coordinator", &row.status))?,
            guardrails: row.guardrails.as_deref().map(serde_json::from_str).transpose()?,
            heartbeat_seconds: u32::try_from(row.heartbeat_seconds)
                .map_err(|_negative| AppError::Inconsistent("a stored interval is negative".to_owned()))?,
            heard_at: row.heard_at,
            last_heartbeat: row.last_heartbeat,
            logged_at: row.logged_at,
            progress_at: row.progress_at,
            stalled_at: row.stalled_at,
            granted_at: row.granted_at,
            until: row.until,
            ended_at: row.ended_at,
            role_before: row.role_before,
            metadata: serde_json::from_str(&row.metadata)?,
            version: row.version,
        })
    }
}

/// Loads an appointment by id.
pub(super) async fn load(conn: &mut PgConnection, id: CoordinatorId) -> Outcome<Option<Coordinator>> {
    let row = select!("coordinators::load", "WHERE id = $1", id.uuid()).fetch_optional(conn).await?;
    row.map(Coordinator::try_from).transpose()
}

/// Loads the appointments on an intent that are not recorded as over.
pub(super) async fn active(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Vec<Coordinator>> {
    let rows = select!(
        "coordinators::active",
        "WHERE intent_id = $1 AND ended_at IS NULL ORDER BY role",
        intent_id.uuid()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Coordinator::try_from).collect()
}

/// Loads the newest [`PAGE`] appointments on an intent before a given one, oldest first.
pub(super) async fn list(
    conn: &mut PgConnection,
    intent_id: IntentId,
    before: Option<CoordinatorId>,
) -> Outcome<Vec<Coordinator>> {
    let rows = select!(
        "coordinators::list",
        "WHERE intent_id = $1 AND id < coalesce($2, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
         ORDER BY id DESC LIMIT $3",
        intent_id.uuid(),
        before.map(CoordinatorId::uuid),
        i64::from(PAGE)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().rev().map(Coordinator::try_from).collect()
}

/// Returns the intents of up to `limit` appointments with an elapsed deadline.
pub(super) async fn due(pool: &Pool, now: Timestamp, limit: i64) -> Outcome<Vec<IntentId>> {
    let ids = sqlx::query_scalar!(
        "-- coordinators::due
         SELECT DISTINCT intent_id FROM (
             SELECT intent_id FROM coordinators WHERE due_at <= $1 ORDER BY due_at LIMIT $2) due",
        now,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(ids.into_iter().map(IntentId::from).collect())
}

/// Converts seconds for storage; the domain rules bound them.
fn stored(seconds: u32) -> i32 {
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

pub(super) async fn insert(conn: &mut PgConnection, made: &Coordinator) -> Outcome<()> {
    sqlx::query!(
        "-- coordinators::insert
         INSERT INTO coordinators (id, intent_id, agent_id, role, supervisor_id, appointed_by, coordinator_type, status,
             guardrails, heartbeat_seconds, heard_at, progress_at, granted_at, until, role_before, metadata, version, due_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)",
        made.id.uuid(),
        made.intent_id.uuid(),
        made.agent_id,
        made.role,
        made.supervisor_id,
        made.appointed_by,
        made.coordinator_type.as_str(),
        made.status.as_str(),
        made.guardrails.as_ref().map(serde_json::to_string).transpose()?,
        stored(made.heartbeat_seconds),
        made.heard_at,
        made.progress_at,
        made.granted_at,
        made.until,
        made.role_before,
        serde_json::to_string(&made.metadata)?,
        made.version,
        made.due_at()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Updates the mutable columns of an appointment.
pub(super) async fn update(conn: &mut PgConnection, one: &Coordinator) -> Outcome<()> {
    sqlx::query!(
        "-- coordinators::update
         UPDATE coordinators SET status = $2, guardrails = $3, heard_at = $4, last_heartbeat = $5, logged_at = $6,
             progress_at = $7, stalled_at = $8, ended_at = $9, version = $10, due_at = $11
         WHERE id = $1",
        one.id.uuid(),
        one.status.as_str(),
        one.guardrails.as_ref().map(serde_json::to_string).transpose()?,
        one.heard_at,
        one.last_heartbeat,
        one.logged_at,
        one.progress_at,
        one.stalled_at,
        one.ended_at,
        one.version,
        one.due_at()
    )
    .execute(conn)
    .await?;
    Ok(())
}
