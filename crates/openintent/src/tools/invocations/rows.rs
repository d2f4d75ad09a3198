//! Rows of tool invocations: table `tool_invocations`.

use entente_domain::clock::Timestamp;
use entente_domain::ids::{InvocationId, ToolGrantId};
use entente_domain::openintent::tools::invocations::{
    CallFailure, INTERRUPTED, Invocation, InvocationStatus,
};
use entente_kernel::{AppError, Outcome, unknown};
use serde_json::{Map, Value};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{InvocationPage, Made};

struct Row {
    id: Uuid,
    grant_id: Uuid,
    service: String,
    tool: String,
    agent_id: String,
    parameters: String,
    status: String,
    result: Option<String>,
    error: Option<String>,
    cost: Option<String>,
    duration_ms: Option<i32>,
    http_status: Option<i32>,
    request_bytes: Option<i32>,
    response_bytes: Option<i32>,
    idempotency_key: Option<String>,
    context: String,
    reported: bool,
    started_at: Timestamp,
    deadline_at: Option<Timestamp>,
}

fn object(text: Option<String>) -> Outcome<Option<Map<String, Value>>> {
    Ok(text.map(|text| serde_json::from_str(&text)).transpose()?)
}

fn text(object: Option<&Map<String, Value>>) -> Outcome<Option<String>> {
    Ok(object.map(serde_json::to_string).transpose()?)
}

impl TryFrom<Row> for Invocation {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            grant_id: row.grant_id.into(),
            service: row.service,
            tool: row.tool,
            agent_id: row.agent_id,
            parameters: serde_json::from_str(&row.parameters)?,
            status: InvocationStatus::parse(&row.status)
                .ok_or_else(|| unknown("invocation status", &row.status))?,
            result: object(row.result)?,
            error: object(row.error)?,
            cost: object(row.cost)?,
            duration_ms: row.duration_ms,
            http_status: row.http_status,
            request_bytes: row.request_bytes,
            response_bytes: row.response_bytes,
            idempotency_key: row.idempotency_key,
            context: serde_json::from_str(&row.context)?,
            reported: row.reported,
            started_at: row.started_at,
            deadline_at: row.deadline_at,
        })
    }
}

/// Selects invocations: the query's name, and the text after `FROM tool_invocations`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT id, grant_id, service, tool, agent_id, parameters, status, result, error, cost, duration_ms, http_status,
                    request_bytes, response_bytes, idempotency_key, context, reported, started_at, deadline_at
             FROM tool_invocations " + $rest
            $(, $argument)*
        )
    };
}

/// Loads an invocation.
pub(super) async fn find(conn: &mut PgConnection, id: InvocationId) -> Outcome<Option<Invocation>> {
    let row = select!("tool_invocations::find", "WHERE id = $1", id.uuid()).fetch_optional(conn).await?;
    row.map(Invocation::try_from).transpose()
}

/// Lists the invocations of a grant, newest first.
pub(super) async fn list(
    conn: &mut PgConnection,
    grant: ToolGrantId,
    page: InvocationPage,
    now: Timestamp,
) -> Outcome<Vec<Invocation>> {
    let found = select!(
        "tool_invocations::list",
        "WHERE grant_id = $1 AND id < coalesce($2, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
           AND ($3 OR status <> 'running' OR deadline_at <= $4)
         ORDER BY id DESC LIMIT $5",
        grant.uuid(),
        page.before.map(InvocationId::uuid),
        page.running,
        now,
        i64::from(page.limit)
    );
    found.fetch_all(conn).await?.into_iter().map(Invocation::try_from).collect()
}

/// Number of running calls into an owner's vaults.
pub(super) async fn running(conn: &mut PgConnection, owner: &str, now: Timestamp) -> Outcome<i64> {
    let count = sqlx::query_scalar!(
        r#"-- tool_invocations::running
         SELECT count(*) AS "count!" FROM tool_invocations
         WHERE owner_id = $1 AND status = 'running' AND deadline_at > $2"#,
        owner,
        now
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// Inserts an invocation.
pub(super) async fn insert(conn: &mut PgConnection, one: &Invocation, owner: &str) -> Outcome<()> {
    sqlx::query!(
        "-- tool_invocations::insert
         INSERT INTO tool_invocations (id, grant_id, service, tool, agent_id, parameters, status, result, error, cost,
                                       duration_ms, request_bytes, idempotency_key, context, reported, started_at,
                                       deadline_at, owner_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)",
        one.id.uuid(),
        one.grant_id.uuid(),
        one.service,
        one.tool,
        one.agent_id,
        serde_json::to_string(&one.parameters)?,
        one.status.as_str(),
        text(one.result.as_ref())?,
        text(one.error.as_ref())?,
        text(one.cost.as_ref())?,
        one.duration_ms,
        one.request_bytes,
        one.idempotency_key,
        serde_json::to_string(&one.context)?,
        one.reported,
        one.started_at,
        one.deadline_at,
        owner
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Whether a call under the grant has succeeded.
pub(super) async fn worked(conn: &mut PgConnection, grant: ToolGrantId) -> Outcome<bool> {
    let worked = sqlx::query_scalar!(
        r#"-- tool_invocations::worked
         SELECT EXISTS (SELECT FROM tool_invocations WHERE grant_id = $1 AND status = 'success' AND NOT reported) AS "worked!""#,
        grant.uuid()
    )
    .fetch_one(conn)
    .await?;
    Ok(worked)
}

/// Records the outcome of a call, once; also replaces a premature `interrupted` mark.
pub(super) async fn finish(conn: &mut PgConnection, id: InvocationId, made: &Made) -> Outcome<()> {
    sqlx::query!(
        "-- tool_invocations::finish
         UPDATE tool_invocations SET status = $2, result = $3, error = $4, duration_ms = $5, http_status = $6,
                response_bytes = $7, interrupted = false
         WHERE id = $1 AND (status = 'running' OR interrupted)",
        id.uuid(),
        made.status.as_str(),
        text(made.result.as_ref())?,
        text(made.error.as_ref())?,
        made.duration_ms,
        made.http_status,
        made.response_bytes
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Marks calls past their deadline as interrupted and returns their number.
pub(super) async fn interrupt(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<u64> {
    let error = serde_json::to_string(&CallFailure::Interrupted.told(INTERRUPTED))?;
    let done = sqlx::query!(
        "-- tool_invocations::interrupt
         UPDATE tool_invocations SET status = 'error', error = $3, interrupted = true WHERE id IN (
             SELECT id FROM tool_invocations WHERE status = 'running' AND deadline_at <= $1
             ORDER BY deadline_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        now,
        limit,
        error
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Deletes expired invocations and returns their number.
pub(super) async fn forget(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- tool_invocations::forget
         DELETE FROM tool_invocations WHERE id IN (
             SELECT id FROM tool_invocations WHERE status <> 'running' AND started_at < $1
             ORDER BY started_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        before,
        limit
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
