//! Rows of failures. Table `failures`.

use entente_domain::clock::Timestamp;
use entente_domain::ids::IntentId;
use entente_domain::limits::RETRIES;
use entente_domain::openintent::failures::Failure;
use entente_domain::openintent::intents::IntentStatus;
use entente_kernel::Pool;
use entente_kernel::{AppError, Outcome};
use sqlx::PgConnection;

/// Cancels the pending retries of an intent that ends, within that operation; completion also resolves its
/// failures.
pub(crate) async fn end_of_intent(
    conn: &mut PgConnection,
    intent_id: IntentId,
    status: IntentStatus,
    now: Timestamp,
) -> Outcome<()> {
    let settled = (status == IntentStatus::Completed).then_some(now);
    sqlx::query!(
        "-- failures::end_of_intent
         UPDATE failures SET due_at = NULL, due_attempt = NULL, resolved_at = $2
         WHERE intent_id = $1 AND resolved_at IS NULL AND (due_at IS NOT NULL OR $2::timestamptz IS NOT NULL)",
        intent_id.uuid(),
        settled
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A row of `failures`.
pub(super) struct Row {
    id: uuid::Uuid,
    intent_id: uuid::Uuid,
    pub seq: i64,
    agent_id: String,
    attempt_number: i64,
    error_code: Option<String>,
    error_message: Option<String>,
    recoverable: bool,
    metadata: String,
    next: String,
    announced_at: Option<Timestamp>,
    resolved_at: Option<Timestamp>,
    created_at: Timestamp,
}

impl TryFrom<Row> for Failure {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            agent_id: row.agent_id,
            attempt_number: u32::try_from(row.attempt_number)
                .map_err(|e| AppError::Inconsistent(e.to_string()))?,
            error_code: row.error_code,
            error_message: row.error_message,
            recoverable: row.recoverable,
            metadata: serde_json::from_str(&row.metadata)?,
            next: serde_json::from_str(&row.next)?,
            announced_at: row.announced_at,
            resolved_at: row.resolved_at,
            created_at: row.created_at,
        })
    }
}

/// Loads an intent's failures after a position in its log, oldest first.
pub(super) async fn load(
    conn: &mut PgConnection,
    intent_id: IntentId,
    after: i64,
    limit: i64,
) -> Outcome<Vec<Row>> {
    let rows = sqlx::query_as!(
        Row,
        "-- failures::load
         SELECT id, intent_id, seq, agent_id, attempt_number, error_code, error_message, recoverable, metadata, next,
                announced_at, resolved_at, created_at
         FROM failures WHERE intent_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
        intent_id.uuid(),
        after,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Counts an agent's failures after a position in the intent's log; stops beyond the most retries that any
/// policy allows.
pub(super) async fn count(
    conn: &mut PgConnection,
    intent_id: IntentId,
    agent_id: &str,
    since: i64,
) -> Outcome<u32> {
    let count = sqlx::query_scalar!(
        r#"-- failures::count
         SELECT count(*) AS "count!" FROM (
             SELECT 1 FROM failures WHERE intent_id = $1 AND agent_id = $2 AND seq > $3 LIMIT $4) AS there"#,
        intent_id.uuid(),
        agent_id,
        since,
        i64::from(RETRIES) + 1
    )
    .fetch_one(conn)
    .await?;
    u32::try_from(count).map_err(|e| AppError::Inconsistent(e.to_string()))
}

/// Cancels an agent's pending retry, because it has failed again.
pub(super) async fn call_off(conn: &mut PgConnection, intent_id: IntentId, agent_id: &str) -> Outcome<()> {
    sqlx::query!(
        "-- failures::call_off
         UPDATE failures SET due_at = NULL, due_attempt = NULL
         WHERE intent_id = $1 AND agent_id = $2 AND due_at IS NOT NULL",
        intent_id.uuid(),
        agent_id
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A due retry.
pub(super) struct Due {
    pub id: uuid::Uuid,
    pub agent_id: String,
    pub attempt: i32,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
}

/// Returns the intents of up to `limit` due retries.
pub(super) async fn due(pool: &Pool, now: Timestamp, limit: i64) -> Outcome<Vec<IntentId>> {
    let intents = sqlx::query_scalar!(
        r#"-- failures::due
         SELECT DISTINCT intent_id FROM (
             SELECT intent_id FROM failures WHERE due_at <= $1 ORDER BY due_at LIMIT $2) AS due"#,
        now,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(intents.into_iter().map(IntentId::from).collect())
}

/// Takes the due retries of an intent, under its lock.
pub(super) async fn take_due(
    conn: &mut PgConnection,
    intent_id: IntentId,
    now: Timestamp,
    limit: i64,
) -> Outcome<Vec<Due>> {
    let due = sqlx::query_as!(
        Due,
        r#"-- failures::take_due
         WITH due AS (
             SELECT id, due_attempt FROM failures WHERE intent_id = $1 AND due_at IS NOT NULL AND due_at <= $2
             ORDER BY due_at LIMIT $3)
         UPDATE failures f SET due_at = NULL, due_attempt = NULL FROM due WHERE f.id = due.id
         RETURNING f.id, f.agent_id, due.due_attempt AS "attempt!", f.error_code, f.error_message"#,
        intent_id.uuid(),
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(due)
}

/// Records that these retries were announced to their agents.
pub(super) async fn announced(conn: &mut PgConnection, ids: &[uuid::Uuid], now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- failures::announced
         UPDATE failures SET announced_at = $2 WHERE id = ANY($1)",
        ids,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Inserts a failure with its position in the log and its retry, if one is to be announced.
pub(super) async fn insert(
    conn: &mut PgConnection,
    made: &Failure,
    seq: i64,
    due: Option<(u32, Timestamp)>,
) -> Outcome<()> {
    sqlx::query!(
        "-- failures::insert
         INSERT INTO failures (id, intent_id, seq, agent_id, attempt_number, error_code, error_message, recoverable, metadata,
                               next, due_attempt, due_at, announced_at, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        made.id.uuid(),
        made.intent_id.uuid(),
        seq,
        made.agent_id,
        i64::from(made.attempt_number),
        made.error_code,
        made.error_message,
        made.recoverable,
        serde_json::to_string(&made.metadata)?,
        serde_json::to_string(&made.next)?,
        due.map(|(attempt, _)| i32::try_from(attempt).unwrap_or(i32::MAX)),
        due.map(|(_, at)| at),
        made.announced_at,
        made.created_at
    )
    .execute(conn)
    .await?;
    Ok(())
}
