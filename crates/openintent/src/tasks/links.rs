//! Relations of tasks to each other and to plans, read from their rows (`rows.rs`).

use std::collections::HashMap;

use entente_domain::ids::{IntentId, PlanId, TaskId};
use entente_domain::openintent::tasks::{Task, TaskStatus};
use entente_kernel::Outcome;
use sqlx::PgConnection;
use uuid::Uuid;

use super::rows::{status, uuids};

/// Returns the direct and indirect dependencies of these tasks, including themselves, each with its own
/// dependencies.
pub(crate) async fn below(conn: &mut PgConnection, ids: &[TaskId]) -> Outcome<Vec<(TaskId, Vec<TaskId>)>> {
    let rows = sqlx::query!(
        r#"-- tasks::below
         WITH RECURSIVE below AS (
             SELECT id, depends_on FROM tasks WHERE id = ANY($1)
             UNION
             SELECT t.id, t.depends_on FROM below b JOIN tasks t ON t.id = ANY(b.depends_on))
         SELECT id AS "id!", depends_on AS "depends_on!" FROM below"#,
        &uuids(ids)
    )
    .fetch_all(conn)
    .await?;
    let list = |ids: Vec<Uuid>| ids.into_iter().map(TaskId::from).collect();
    Ok(rows.into_iter().map(|row| (row.id.into(), list(row.depends_on))).collect())
}

/// Records that end or continue with a task.
#[derive(Default)]
pub(super) struct Following {
    /// The tasks that depend on it.
    pub blocks: Vec<TaskId>,
    /// Whether it has an open channel or working memory.
    pub has_more: bool,
}

/// Returns, for each of these tasks, the records that end or continue with it, in one query.
pub(super) async fn following(
    conn: &mut PgConnection,
    tasks: &[Task],
) -> Outcome<HashMap<TaskId, Following>> {
    let rows = sqlx::query!(
        r#"-- tasks::following
         SELECT k.id AS "id!",
                ARRAY(SELECT d.id FROM tasks d WHERE d.depends_on && ARRAY[k.id] AND d.depends_on <> '{}'
                      ORDER BY d.id) AS "blocks!",
                EXISTS (SELECT 1 FROM channels c
                        WHERE c.intent_id = k.intent_id AND c.task_id = k.name AND c.status = 'open')
                OR EXISTS (SELECT 1 FROM memory_entries m WHERE m.task_id = k.id AND m.archived_at IS NULL) AS "has_more!"
         FROM UNNEST($1::uuid[], $2::uuid[], $3::text[]) AS k (id, intent_id, name)"#,
        &tasks.iter().map(|task| task.id.uuid()).collect::<Vec<_>>(),
        &tasks.iter().map(|task| task.intent_id.uuid()).collect::<Vec<_>>(),
        &tasks.iter().map(|task| task.id.to_string()).collect::<Vec<_>>()
    )
    .fetch_all(conn)
    .await?;
    let ids = |ids: Vec<Uuid>| ids.into_iter().map(TaskId::from).collect();
    Ok(rows
        .into_iter()
        .map(|row| (row.id.into(), Following { blocks: ids(row.blocks), has_more: row.has_more }))
        .collect())
}

/// Records that may have to change when tasks end.
pub(super) struct Followers {
    /// Whether they have open channels.
    pub channels: bool,
    /// Whether they have working memory.
    pub memory: bool,
    /// Whether pending tasks depend on them.
    pub dependents: bool,
}

/// Returns which records end or continue with these tasks of an intent; most have none, and one query tells.
///
/// It looks at the status of dependents last: by an index of open tasks PostgreSQL would walk all of them to find out that
/// none depends on these.
pub(super) async fn followers(
    conn: &mut PgConnection,
    intent_id: IntentId,
    ids: &[TaskId],
) -> Outcome<Followers> {
    let has = sqlx::query_as!(
        Followers,
        r#"-- tasks::followers
         SELECT EXISTS (SELECT 1 FROM channels
                        WHERE intent_id = $1 AND task_id = ANY($3) AND status = 'open') AS "channels!",
                EXISTS (SELECT 1 FROM memory_entries
                        WHERE intent_id = $1 AND task_id = ANY($2) AND archived_at IS NULL) AS "memory!",
                coalesce((SELECT bool_or(status = 'pending') FROM tasks
                          WHERE depends_on && $2 AND depends_on <> '{}'), false) AS "dependents!""#,
        intent_id.uuid(),
        &uuids(ids),
        &ids.iter().map(TaskId::to_string).collect::<Vec<_>>()
    )
    .fetch_one(conn)
    .await?;
    Ok(has)
}

/// Returns the pending tasks that depend on one of these; it finds them by their dependencies, as [`followers`].
pub(crate) async fn waiting_for(conn: &mut PgConnection, ids: &[TaskId]) -> Outcome<Vec<TaskId>> {
    let rows = sqlx::query_scalar!(
        "-- tasks::waiting_for
         WITH dependents AS MATERIALIZED (
             SELECT id, status FROM tasks WHERE depends_on && $1 AND depends_on <> '{}')
         SELECT id FROM dependents WHERE status = 'pending' ORDER BY id",
        &uuids(ids)
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(TaskId::from).collect())
}

/// Returns the tasks that depend on these, as pairs: `(one of these, one that depends on it)`.
pub(crate) async fn blocks(conn: &mut PgConnection, ids: &[TaskId]) -> Outcome<Vec<(TaskId, TaskId)>> {
    let rows = sqlx::query!(
        r#"-- tasks::blocks
         SELECT d.id AS "id!", t.id AS dependent FROM tasks t CROSS JOIN LATERAL UNNEST(t.depends_on) AS d (id)
         WHERE t.depends_on && $1 AND t.depends_on <> '{}' ORDER BY t.id"#,
        &uuids(ids)
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id.into(), row.dependent.into())).collect())
}

/// Returns the tasks of these plans with their statuses, in each plan's order.
pub(crate) async fn of_plans(
    conn: &mut PgConnection,
    plans: &[PlanId],
) -> Outcome<Vec<(PlanId, TaskId, TaskStatus)>> {
    let ids: Vec<Uuid> = plans.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        r#"-- tasks::of_plans
         SELECT plan_id AS "plan_id!", id, status FROM tasks WHERE plan_id = ANY($1)
         ORDER BY plan_place NULLS LAST, id"#,
        &ids
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(|row| Ok((row.plan_id.into(), row.id.into(), status(&row.status)?))).collect()
}
