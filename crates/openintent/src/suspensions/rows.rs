//! Rows of suspensions. Table `suspensions`: it contains no text of a question or an answer.

use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, MomentId};
use entente_domain::openintent::suspensions::{FallbackPolicy, Suspension, SuspensionState};
use entente_kernel::Pool;
use entente_kernel::{AppError, Outcome, unknown};
use sqlx::PgConnection;

/// Selects whole suspensions: the query's name, and the clauses after `FROM suspensions`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT intent_id, id, n, asked_by, asked_by_principal, moment_id, unasked, state, fallback, created_at, expires_at, ended_at,
                    responded_by, end_reason
             FROM suspensions " + $rest
            $(, $argument)*
        )
    };
}

struct Row {
    intent_id: uuid::Uuid,
    id: String,
    n: i64,
    asked_by: String,
    asked_by_principal: Option<String>,
    moment_id: Option<uuid::Uuid>,
    unasked: Option<String>,
    state: String,
    fallback: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    responded_by: Option<String>,
    end_reason: Option<String>,
}

impl TryFrom<Row> for Suspension {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            intent_id: row.intent_id.into(),
            id: row.id,
            n: row.n,
            asked_by: row.asked_by,
            asked_by_principal: row.asked_by_principal,
            moment_id: row.moment_id.map(MomentId::from),
            unasked: row.unasked,
            state: SuspensionState::parse(&row.state)
                .ok_or_else(|| unknown("state of a suspension", &row.state))?,
            fallback: FallbackPolicy::parse(&row.fallback)
                .ok_or_else(|| unknown("fallback of a suspension", &row.fallback))?,
            created_at: row.created_at,
            expires_at: row.expires_at,
            ended_at: row.ended_at,
            responded_by: row.responded_by,
            end_reason: row.end_reason,
        })
    }
}

/// Loads one of an intent's questions.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn load(conn: &mut PgConnection, intent_id: IntentId, id: &str) -> Outcome<Option<Suspension>> {
    let row = select!("suspensions::load", "WHERE intent_id = $1 AND id = $2", intent_id.uuid(), id)
        .fetch_optional(conn)
        .await?;
    row.map(Suspension::try_from).transpose()
}

/// Loads the open questions of these intents.
pub(super) async fn open(conn: &mut PgConnection, intents: &[uuid::Uuid]) -> Outcome<Vec<Suspension>> {
    let rows = select!("suspensions::open", "WHERE intent_id = ANY($1) AND state = 'open'", intents)
        .fetch_all(conn)
        .await?;
    rows.into_iter().map(Suspension::try_from).collect()
}

/// Lists an intent's questions with a number below `before`, newest first.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn list(
    conn: &mut PgConnection,
    intent_id: IntentId,
    before: Option<i64>,
    limit: u32,
) -> Outcome<Vec<Suspension>> {
    let rows = select!(
        "suspensions::list",
        "WHERE intent_id = $1 AND n < coalesce($2, 9223372036854775807) ORDER BY n DESC LIMIT $3",
        intent_id.uuid(),
        before,
        i64::from(limit)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Suspension::try_from).collect()
}

/// Returns the number of the intent's last question; 0 if there is none.
///
/// # Errors
/// A database error.
pub async fn last(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<i64> {
    let last = sqlx::query_scalar!(
        r#"-- suspensions::last
         SELECT coalesce(max(n), 0) AS "last!" FROM suspensions WHERE intent_id = $1"#,
        intent_id.uuid()
    )
    .fetch_one(conn)
    .await?;
    Ok(last)
}

/// Returns the intents of up to `limit` questions that are due.
pub(super) async fn due(pool: &Pool, now: Timestamp, limit: i64) -> Outcome<Vec<IntentId>> {
    let ids = sqlx::query_scalar!(
        "-- suspensions::due
         SELECT intent_id FROM suspensions WHERE state = 'open' AND expires_at IS NOT NULL AND expires_at <= $1
         ORDER BY expires_at LIMIT $2",
        now,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(ids.into_iter().map(IntentId::from).collect())
}

/// Returns the first person among the intent's creator and the owners of its admin entries, oldest first.
///
/// # Errors
/// A database error.
pub async fn person_of(
    conn: &mut PgConnection,
    intent_id: IntentId,
    but: [&str; 2],
    now: Timestamp,
) -> Outcome<Option<String>> {
    let found = sqlx::query_scalar!(
        r#"-- suspensions::person_of
         SELECT p.id FROM (
             SELECT created_by AS name, NULL::uuid AS entry FROM intents WHERE id = $1
             UNION ALL
             SELECT principal_id, id FROM acl_entries
             WHERE intent_id = $1 AND permission = 'admin' AND (expires_at IS NULL OR expires_at > $3)) a
         JOIN principals p ON p.id = a.name
         WHERE p.kind = 'human' AND p.id <> ALL($2) ORDER BY a.entry NULLS FIRST LIMIT 1"#,
        intent_id.uuid(),
        &but as &[&str],
        now
    )
    .fetch_optional(conn)
    .await?;
    Ok(found)
}

/// Inserts a question.
///
/// # Errors
/// Returns database errors.
pub async fn insert(conn: &mut PgConnection, made: &Suspension) -> Outcome<()> {
    sqlx::query!(
        "-- suspensions::insert
         INSERT INTO suspensions (intent_id, id, n, asked_by, moment_id, unasked, state, fallback, created_at, expires_at,
                                  asked_by_principal)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        made.intent_id.uuid(),
        made.id,
        made.n,
        made.asked_by,
        made.moment_id.map(MomentId::uuid),
        made.unasked,
        made.state.as_str(),
        made.fallback.as_str(),
        made.created_at,
        made.expires_at,
        made.asked_by_principal
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records the end of a question, once.
pub(super) async fn end(conn: &mut PgConnection, one: &Suspension) -> Outcome<()> {
    let ended = sqlx::query!(
        "-- suspensions::end
         UPDATE suspensions SET state = $3, ended_at = $4, responded_by = $5, end_reason = $6
         WHERE intent_id = $1 AND id = $2 AND state = 'open'",
        one.intent_id.uuid(),
        one.id,
        one.state.as_str(),
        one.ended_at,
        one.responded_by,
        one.end_reason
    )
    .execute(conn)
    .await?;
    if ended.rows_affected() == 1 {
        return Ok(());
    }
    // The lock of the intent was held since the question was read.
    Err(AppError::Inconsistent(format!("a question of {} ended under its lock", one.intent_id)))
}
