//! Rows of tasks. Table `tasks`.

use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, PlanId, TaskId};
use entente_domain::openintent::tasks::{Task, TaskStatus};
use entente_kernel::column;
use entente_kernel::log::deferred::Deferred;
use entente_kernel::{AppError, Outcome, unknown};
use sqlx::PgConnection;
use uuid::Uuid;

use super::TaskFilter;

/// Selects whole tasks: the query's name, and the clauses after `FROM tasks`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT id, intent_id, plan_id, parent_task_id, name, description, status, priority, input, output, artifacts,
                    assigned_agent, claims, claimed_at, capabilities_required, depends_on, retry_policy, timeout_seconds,
                    attempt, max_attempts, permissions, memory_policy, requires_tools, blocked_reason, error, metadata,
                    version, created_by, created_at, started_at, completed_at, due_at
             FROM tasks " + $rest
            $(, $argument)*
        )
    };
}

struct Row {
    id: Uuid,
    intent_id: Uuid,
    plan_id: Option<Uuid>,
    parent_task_id: Option<Uuid>,
    name: String,
    description: Option<String>,
    status: String,
    priority: String,
    input: String,
    output: Option<String>,
    artifacts: Vec<String>,
    assigned_agent: Option<String>,
    claims: i64,
    claimed_at: Option<Timestamp>,
    capabilities_required: Vec<String>,
    depends_on: Vec<Uuid>,
    retry_policy: Option<String>,
    timeout_seconds: Option<i32>,
    attempt: i32,
    max_attempts: i32,
    permissions: String,
    memory_policy: Option<String>,
    requires_tools: String,
    blocked_reason: Option<String>,
    error: Option<String>,
    metadata: String,
    version: i64,
    created_by: String,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    due_at: Option<Timestamp>,
}

pub(super) fn status(word: &str) -> Outcome<TaskStatus> {
    TaskStatus::parse(word).ok_or_else(|| unknown("task status", word))
}

fn number(stored: i32) -> Outcome<u32> {
    u32::try_from(stored).map_err(|_negative| unknown("number of a task", &stored.to_string()))
}

fn column(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl TryFrom<Row> for Task {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            plan_id: row.plan_id.map(PlanId::from),
            parent_task_id: row.parent_task_id.map(TaskId::from),
            name: row.name,
            description: row.description,
            status: status(&row.status)?,
            priority: row.priority,
            input: serde_json::from_str(&row.input)?,
            output: row.output.as_deref().map(serde_json::from_str).transpose()?,
            artifacts: row.artifacts,
            assigned_agent: row.assigned_agent,
            claims: row.claims,
            claimed_at: row.claimed_at,
            capabilities_required: row.capabilities_required,
            depends_on: row.depends_on.into_iter().map(TaskId::from).collect(),
            retry_policy: row.retry_policy,
            timeout_seconds: row.timeout_seconds.map(number).transpose()?,
            attempt: number(row.attempt)?,
            max_attempts: number(row.max_attempts)?,
            permissions: row.permissions,
            memory_policy: row.memory_policy.as_deref().map(serde_json::from_str).transpose()?,
            requires_tools: serde_json::from_str(&row.requires_tools)?,
            blocked_reason: row.blocked_reason,
            error: row.error,
            metadata: serde_json::from_str(&row.metadata)?,
            version: row.version,
            created_by: row.created_by,
            created_at: row.created_at,
            started_at: row.started_at,
            completed_at: row.completed_at,
            due_at: row.due_at,
        })
    }
}

/// Loads a task as it is stored.
pub(crate) async fn load(conn: &mut PgConnection, id: TaskId) -> Outcome<Option<Task>> {
    Ok(load_all(conn, &[id]).await?.pop())
}

/// Loads these tasks as they are stored, oldest first.
pub(crate) async fn load_all(conn: &mut PgConnection, ids: &[TaskId]) -> Outcome<Vec<Task>> {
    let rows =
        select!("tasks::load_all", "WHERE id = ANY($1) ORDER BY id", &uuids(ids)).fetch_all(conn).await?;
    rows.into_iter().map(Task::try_from).collect()
}

/// Returns a page of an intent's tasks as they are stored, oldest first; a due task is filtered by its due status.
pub(crate) async fn page(
    conn: &mut PgConnection,
    intent_id: IntentId,
    filter: &TaskFilter,
    now: Timestamp,
) -> Outcome<Vec<Task>> {
    let open = filter.status.is_some_and(|status| !status.is_terminal());
    let rows = if open {
        // A task that is over never returns to such a status, so an index of open tasks suffices.
        select!(
            "tasks::page_of_open",
            "WHERE intent_id = $1
           AND status IN ('pending', 'ready', 'claimed', 'running', 'blocked')
           AND ($2::text IS NULL OR CASE WHEN due_at <= $7 THEN due_status ELSE status END = $2)
           AND ($3::text IS NULL OR assigned_agent = $3)
           AND ($4::uuid IS NULL OR plan_id = $4)
         ORDER BY id LIMIT $5 OFFSET $6",
            intent_id.uuid(),
            filter.status.map(TaskStatus::as_str),
            filter.assigned_agent,
            filter.plan_id.map(PlanId::uuid),
            i64::from(filter.limit),
            i64::from(filter.offset),
            now
        )
        .fetch_all(conn)
        .await?
    } else {
        select!(
            "tasks::page",
            "WHERE intent_id = $1
           AND ($2::text IS NULL OR CASE WHEN due_at <= $7 THEN due_status ELSE status END = $2)
           AND ($3::text IS NULL OR assigned_agent = $3)
           AND ($4::uuid IS NULL OR plan_id = $4)
         ORDER BY id LIMIT $5 OFFSET $6",
            intent_id.uuid(),
            filter.status.map(TaskStatus::as_str),
            filter.assigned_agent,
            filter.plan_id.map(PlanId::uuid),
            i64::from(filter.limit),
            i64::from(filter.offset),
            now
        )
        .fetch_all(conn)
        .await?
    };
    rows.into_iter().map(Task::try_from).collect()
}

pub(super) fn uuids(ids: &[TaskId]) -> Vec<Uuid> {
    ids.iter().map(|id| id.uuid()).collect()
}

/// Returns the intent that a task belongs to.
pub(crate) async fn home(conn: &mut PgConnection, id: TaskId) -> Outcome<Option<IntentId>> {
    let found = sqlx::query_scalar!("-- tasks::home\n SELECT intent_id FROM tasks WHERE id = $1", id.uuid())
        .fetch_optional(conn)
        .await?;
    Ok(found.map(IntentId::from))
}

/// Returns those of these tasks that belong to the intent, with their statuses and plans.
pub(crate) async fn among(
    conn: &mut PgConnection,
    intent_id: IntentId,
    ids: &[TaskId],
) -> Outcome<Vec<(TaskId, TaskStatus, Option<PlanId>)>> {
    let rows = sqlx::query!(
        "-- tasks::among
         SELECT id, status, plan_id FROM tasks WHERE id = ANY($1) AND intent_id = $2",
        &uuids(ids),
        intent_id.uuid()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| Ok((row.id.into(), status(&row.status)?, row.plan_id.map(PlanId::from))))
        .collect()
}

/// Returns the open tasks of an intent.
pub(crate) async fn open_of_intent(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Vec<TaskId>> {
    let rows = sqlx::query_scalar!(
        "-- tasks::open_of_intent
         SELECT id FROM tasks
         WHERE intent_id = $1 AND status IN ('pending', 'ready', 'claimed', 'running', 'blocked') ORDER BY id",
        intent_id.uuid()
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(TaskId::from).collect())
}

/// Returns the open tasks of an intent that have an assigned agent, with the agent.
pub(crate) async fn assigned(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Vec<(TaskId, String)>> {
    let rows = sqlx::query!(
        r#"-- tasks::assigned
         SELECT id, assigned_agent AS "agent!" FROM tasks
         WHERE intent_id = $1 AND status IN ('pending', 'ready', 'claimed', 'running', 'blocked')
           AND assigned_agent IS NOT NULL ORDER BY id"#,
        intent_id.uuid()
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id.into(), row.agent)).collect())
}

/// Returns the open tasks assigned to an agent, each with its intent.
pub(crate) async fn of_agent(conn: &mut PgConnection, agent: &str) -> Outcome<Vec<(IntentId, TaskId)>> {
    let rows = sqlx::query!(
        "-- tasks::of_agent
         SELECT intent_id, id FROM tasks
         WHERE assigned_agent = $1 AND status IN ('pending', 'ready', 'claimed', 'running', 'blocked') ORDER BY id",
        agent
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.intent_id.into(), row.id.into())).collect())
}

/// Returns up to `limit` due tasks, each with its intent.
pub(crate) async fn due(
    conn: &mut PgConnection,
    now: Timestamp,
    limit: i64,
) -> Outcome<Vec<(IntentId, TaskId)>> {
    let rows = sqlx::query!(
        "-- tasks::due
         SELECT intent_id, id FROM tasks WHERE due_at <= $1 ORDER BY due_at LIMIT $2",
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.intent_id.into(), row.id.into())).collect())
}

/// Returns a list as PostgreSQL writes it: `UNNEST` takes no list of lists.
fn list<'a>(items: impl IntoIterator<Item = &'a String>) -> String {
    let quoted = |item: &String| format!("\"{}\"", item.replace('\\', "\\\\").replace('"', "\\\""));
    let items: Vec<String> = items.into_iter().map(quoted).collect();
    format!("{{{}}}", items.join(","))
}

fn ids(ids: &[TaskId]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| id.uuid().to_string()).collect();
    format!("{{{}}}", ids.join(","))
}

/// A new task.
pub(super) struct NewTask(pub Task);

impl Deferred for NewTask {
    async fn write(conn: &mut PgConnection, rows: Vec<Self>) -> Outcome<()> {
        let (mut inputs, mut policies, mut tools, mut metadata) = (vec![], vec![], vec![], vec![]);
        for Self(task) in &rows {
            inputs.push(serde_json::to_string(&task.input)?);
            policies.push(task.memory_policy.as_ref().map(serde_json::to_string).transpose()?);
            tools.push(serde_json::to_string(&task.requires_tools)?);
            metadata.push(serde_json::to_string(&task.metadata)?);
        }
        sqlx::query!(
            "-- tasks::insert
             INSERT INTO tasks (id, intent_id, plan_id, parent_task_id, name, description, status, priority, input,
                                artifacts, claims, capabilities_required, depends_on, retry_policy, timeout_seconds,
                                attempt, max_attempts, permissions, memory_policy, requires_tools, blocked_reason, metadata,
                                version, created_by, created_at)
             SELECT id, intent_id, plan_id, parent_task_id, name, description, status, priority, input, artifacts::text[],
                    claims, capabilities_required::text[], depends_on::uuid[], retry_policy, timeout_seconds, attempt,
                    max_attempts, permissions, memory_policy, requires_tools, blocked_reason, metadata, version, created_by,
                    created_at
             FROM UNNEST($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[],
                         $9::text[], $10::text[], $11::bigint[], $12::text[], $13::text[], $14::text[], $15::integer[],
                         $16::integer[], $17::integer[], $18::text[], $19::text[], $20::text[], $21::text[], $22::text[],
                         $23::bigint[], $24::text[], $25::timestamptz[])
                  AS k (id, intent_id, plan_id, parent_task_id, name, description, status, priority, input, artifacts,
                        claims, capabilities_required, depends_on, retry_policy, timeout_seconds, attempt, max_attempts,
                        permissions, memory_policy, requires_tools, blocked_reason, metadata, version, created_by,
                        created_at)",
            column!(rows, Self(t) => t.id.uuid()),
            column!(rows, Self(t) => t.intent_id.uuid()),
            column!(rows, Self(t) => t.plan_id.map(PlanId::uuid)) as &[Option<Uuid>],
            column!(rows, Self(t) => t.parent_task_id.map(TaskId::uuid)) as &[Option<Uuid>],
            column!(rows, Self(t) => t.name.as_str()) as &[&str],
            column!(rows, Self(t) => t.description.as_deref()) as &[Option<&str>],
            column!(rows, Self(t) => t.status.as_str()) as &[&str],
            column!(rows, Self(t) => t.priority.as_str()) as &[&str],
            &inputs,
            column!(rows, Self(t) => list(&t.artifacts)),
            column!(rows, Self(t) => t.claims),
            column!(rows, Self(t) => list(&t.capabilities_required)),
            column!(rows, Self(t) => ids(&t.depends_on)),
            column!(rows, Self(t) => t.retry_policy.as_deref()) as &[Option<&str>],
            column!(rows, Self(t) => t.timeout_seconds.map(column)) as &[Option<i32>],
            column!(rows, Self(t) => column(t.attempt)),
            column!(rows, Self(t) => column(t.max_attempts)),
            column!(rows, Self(t) => t.permissions.as_str()) as &[&str],
            &policies as &[Option<String>],
            &tools,
            column!(rows, Self(t) => t.blocked_reason.as_deref()) as &[Option<&str>],
            &metadata,
            column!(rows, Self(t) => t.version),
            column!(rows, Self(t) => t.created_by.as_str()) as &[&str],
            column!(rows, Self(t) => t.created_at),
        )
        .execute(conn)
        .await?;
        Ok(())
    }
}

/// A task that a verb has changed, in the columns that verbs change.
pub(super) struct ChangedTask(pub Task);

impl Deferred for ChangedTask {
    async fn write(conn: &mut PgConnection, rows: Vec<Self>) -> Outcome<()> {
        let output = |Self(task): &Self| task.output.as_ref().map(serde_json::to_string).transpose();
        let outputs: Vec<Option<String>> = rows.iter().map(output).collect::<Result<_, _>>()?;
        sqlx::query!(
            "-- tasks::update_all
             UPDATE tasks t SET status = k.status, output = k.output, artifacts = k.artifacts::text[],
                    assigned_agent = k.assigned_agent, claims = k.claims, claimed_at = k.claimed_at, attempt = k.attempt,
                    blocked_reason = k.blocked_reason, error = k.error, version = k.version, started_at = k.started_at,
                    completed_at = k.completed_at, due_at = k.due_at, due_status = k.due_status
             FROM UNNEST($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::timestamptz[],
                         $8::integer[], $9::text[], $10::text[], $11::bigint[], $12::timestamptz[], $13::timestamptz[],
                         $14::timestamptz[], $15::text[])
                  AS k (id, status, output, artifacts, assigned_agent, claims, claimed_at, attempt, blocked_reason, error,
                        version, started_at, completed_at, due_at, due_status)
             WHERE t.id = k.id",
            column!(rows, Self(t) => t.id.uuid()),
            column!(rows, Self(t) => t.status.as_str()) as &[&str],
            &outputs as &[Option<String>],
            column!(rows, Self(t) => list(&t.artifacts)),
            column!(rows, Self(t) => t.assigned_agent.as_deref()) as &[Option<&str>],
            column!(rows, Self(t) => t.claims),
            column!(rows, Self(t) => t.claimed_at) as &[Option<Timestamp>],
            column!(rows, Self(t) => column(t.attempt)),
            column!(rows, Self(t) => t.blocked_reason.as_deref()) as &[Option<&str>],
            column!(rows, Self(t) => t.error.as_deref()) as &[Option<&str>],
            column!(rows, Self(t) => t.version),
            column!(rows, Self(t) => t.started_at) as &[Option<Timestamp>],
            column!(rows, Self(t) => t.completed_at) as &[Option<Timestamp>],
            column!(rows, Self(t) => t.due_at) as &[Option<Timestamp>],
            column!(rows, Self(t) => due_status(t)) as &[Option<&str>],
        )
        .execute(conn)
        .await?;
        Ok(())
    }
}

/// Returns the status of a task from the next effect of time on.
fn due_status(task: &Task) -> Option<&'static str> {
    task.due_at.map(|due| task.clone().at(due).status.as_str())
}

/// Writes the columns of a task that may change.
pub(crate) async fn update(conn: &mut PgConnection, task: &Task) -> Outcome<()> {
    sqlx::query!(
        "-- tasks::update
         UPDATE tasks SET name = $2, description = $3, status = $4, priority = $5, input = $6, output = $7, artifacts = $8,
                assigned_agent = $9, claims = $10, claimed_at = $11, depends_on = $12, attempt = $13,
                blocked_reason = $14, error = $15, metadata = $16, version = $17, started_at = $18, completed_at = $19,
                due_at = $20, due_status = $21
         WHERE id = $1",
        task.id.uuid(),
        task.name,
        task.description,
        task.status.as_str(),
        task.priority,
        serde_json::to_string(&task.input)?,
        task.output.as_ref().map(serde_json::to_string).transpose()?,
        &task.artifacts,
        task.assigned_agent,
        task.claims,
        task.claimed_at,
        &uuids(&task.depends_on),
        column(task.attempt),
        task.blocked_reason,
        task.error,
        serde_json::to_string(&task.metadata)?,
        task.version,
        task.started_at,
        task.completed_at,
        task.due_at,
        due_status(task)
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Cancels every open task of an intent, in one statement.
pub(crate) async fn cancel_all(conn: &mut PgConnection, intent_id: IntentId, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- tasks::cancel_all
         UPDATE tasks SET status = 'cancelled', completed_at = $2, version = version + 1, due_at = NULL, due_status = NULL
         WHERE intent_id = $1 AND status IN ('pending', 'ready', 'claimed', 'running', 'blocked')",
        intent_id.uuid(),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Makes these the tasks of a plan, in this order; others leave it.
pub(crate) async fn set_plan(conn: &mut PgConnection, plan: PlanId, tasks: &[TaskId]) -> Outcome<()> {
    sqlx::query!(
        "-- tasks::leave_plan
         UPDATE tasks SET plan_id = NULL, plan_place = NULL WHERE plan_id = $1 AND NOT id = ANY($2)",
        plan.uuid(),
        &uuids(tasks)
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "-- tasks::join_plan
         UPDATE tasks SET plan_id = $1, plan_place = k.place
         FROM UNNEST($2::uuid[]) WITH ORDINALITY AS k (id, place) WHERE tasks.id = k.id",
        plan.uuid(),
        &uuids(tasks)
    )
    .execute(conn)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_every_text() {
        let texts = ["", "NULL", "a,b", "{c}", "\"d\\", " e "].map(str::to_owned);
        assert_eq!(list(&texts), r#"{"","NULL","a,b","{c}","\"d\\"," e "}"#);
        assert_eq!(list(&[]), "{}");
    }
}
