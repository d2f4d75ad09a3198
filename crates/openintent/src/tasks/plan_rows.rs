//! Rows of plans. Table `plans`.

use std::collections::HashMap;

use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, PlanId, TaskId};
use entente_domain::openintent::plans::{OnFailure, Plan, PlanState};
use entente_domain::openintent::tasks::TaskStatus;
use entente_kernel::{AppError, Outcome, unknown};
use sqlx::PgConnection;

use super::links;

struct Row {
    id: uuid::Uuid,
    intent_id: uuid::Uuid,
    state: String,
    checkpoints: String,
    conditions: String,
    on_failure: String,
    on_complete: String,
    metadata: String,
    version: i64,
    created_by: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl TryFrom<Row> for Plan {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            state: PlanState::parse(&row.state).ok_or_else(|| unknown("plan state", &row.state))?,
            tasks: Vec::new(),
            gates: serde_json::from_str(&row.checkpoints)?,
            conditions: serde_json::from_str(&row.conditions)?,
            on_failure: OnFailure::parse(&row.on_failure)
                .ok_or_else(|| unknown("plan's on_failure", &row.on_failure))?,
            on_complete: row.on_complete,
            metadata: serde_json::from_str(&row.metadata)?,
            version: row.version,
            created_by: row.created_by,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

/// Selects plans without their tasks: the query's name, and the text after `FROM plans`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT id, intent_id, state, checkpoints, conditions, on_failure, on_complete, metadata, version, created_by,
                    created_at, updated_at
             FROM plans " + $rest
            $(, $argument)*
        )
    };
}

/// Loads a plan with its tasks.
pub(super) async fn load(conn: &mut PgConnection, id: PlanId) -> Outcome<Option<Plan>> {
    let row = select!("plans::load", "WHERE id = $1", id.uuid()).fetch_optional(&mut *conn).await?;
    Ok(with_tasks(conn, row.into_iter().collect()).await?.pop())
}

/// Loads a page of an intent's plans with their tasks, oldest first.
pub(super) async fn of_intent(
    conn: &mut PgConnection,
    intent_id: IntentId,
    limit: u32,
    offset: u32,
) -> Outcome<Vec<Plan>> {
    let rows = select!(
        "plans::of_intent",
        "WHERE intent_id = $1 ORDER BY id LIMIT $2 OFFSET $3",
        intent_id.uuid(),
        i64::from(limit),
        i64::from(offset)
    )
    .fetch_all(&mut *conn)
    .await?;
    with_tasks(conn, rows).await
}

/// Loads all plans of an intent that are not over, with their tasks.
pub(super) async fn open_of_intent(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Vec<Plan>> {
    let rows = select!(
        "plans::open_of_intent",
        "WHERE intent_id = $1 AND state IN ('draft', 'active', 'paused') ORDER BY id",
        intent_id.uuid()
    )
    .fetch_all(&mut *conn)
    .await?;
    with_tasks(conn, rows).await
}

async fn with_tasks(conn: &mut PgConnection, rows: Vec<Row>) -> Outcome<Vec<Plan>> {
    let mut plans = rows.into_iter().map(Plan::try_from).collect::<Outcome<Vec<_>>>()?;
    let ids: Vec<PlanId> = plans.iter().map(|plan| plan.id).collect();
    let mut lists: HashMap<PlanId, Vec<TaskId>> = HashMap::new();
    for (plan, task, _) in links::of_plans(conn, &ids).await? {
        lists.entry(plan).or_default().push(task);
    }
    for plan in &mut plans {
        plan.tasks = lists.remove(&plan.id).unwrap_or_default();
    }
    Ok(plans)
}

/// Returns the tasks of a plan with their statuses, in the plan's order.
pub(super) async fn statuses(conn: &mut PgConnection, plan: PlanId) -> Outcome<Vec<(TaskId, TaskStatus)>> {
    let found = links::of_plans(conn, &[plan]).await?;
    Ok(found.into_iter().map(|(_, id, status)| (id, status)).collect())
}

pub(super) async fn insert(conn: &mut PgConnection, plan: &Plan) -> Outcome<()> {
    sqlx::query!(
        "-- plans::insert
         INSERT INTO plans (id, intent_id, state, checkpoints, conditions, on_failure, on_complete, metadata, version,
                            created_by, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        plan.id.uuid(),
        plan.intent_id.uuid(),
        plan.state.as_str(),
        serde_json::to_string(&plan.gates)?,
        serde_json::to_string(&plan.conditions)?,
        plan.on_failure.as_str(),
        plan.on_complete,
        serde_json::to_string(&plan.metadata)?,
        plan.version,
        plan.created_by,
        plan.created_at,
        plan.updated_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub(super) async fn update(conn: &mut PgConnection, plan: &Plan) -> Outcome<()> {
    sqlx::query!(
        "-- plans::update
         UPDATE plans SET state = $2, checkpoints = $3, conditions = $4, on_failure = $5, on_complete = $6, metadata = $7,
                version = $8, updated_at = $9
         WHERE id = $1",
        plan.id.uuid(),
        plan.state.as_str(),
        serde_json::to_string(&plan.gates)?,
        serde_json::to_string(&plan.conditions)?,
        plan.on_failure.as_str(),
        plan.on_complete,
        serde_json::to_string(&plan.metadata)?,
        plan.version,
        plan.updated_at
    )
    .execute(conn)
    .await?;
    Ok(())
}
