//! Tasks in batches: what several operations decide by is read at once, and what they change is written at once, at the end
//! of their transaction. Table `tasks`.

use entente_domain::clock::Timestamp;
use entente_domain::ids::{PlanId, TaskId};
use entente_domain::openintent::tasks::Task;
use entente_kernel::Outcome;
use entente_kernel::operations::Deferred;
use sqlx::PgConnection;
use uuid::Uuid;

use super::links::{self, Following};
use super::rows;

/// A task as it is stored, with what follows it.
#[derive(Clone)]
pub(super) struct Found {
    /// The task.
    pub task: Task,
    /// The tasks that depend on it.
    pub blocks: Vec<TaskId>,
    /// Whether it has an open channel or working memory, which end with it.
    has_more: bool,
}

impl Found {
    /// Whether this change of the task is all that there is to write, in the columns of [`ChangedTask`]: it ends nothing
    /// else, and nothing continues.
    pub(super) fn is_all_of(&self, changed: &Task) -> bool {
        let was = &self.task;
        let ends_more = self.has_more || !self.blocks.is_empty() || was.plan_id.is_some();
        let is_as_described = (&was.name, &was.description, &was.priority, &was.depends_on)
            == (&changed.name, &changed.description, &changed.priority, &changed.depends_on)
            && (&was.input, &was.metadata) == (&changed.input, &changed.metadata);
        is_as_described && !(changed.status.is_terminal() && ends_more)
    }
}

/// Finds tasks with what follows them.
pub(super) async fn find(conn: &mut PgConnection, ids: &[TaskId]) -> Outcome<Vec<Found>> {
    let tasks = rows::load_all(conn, ids).await?;
    let mut following = links::following(conn, &tasks).await?;
    let found = |task: Task| {
        let Following { blocks, has_more } = following.remove(&task.id).unwrap_or_default();
        Found { task, blocks, has_more }
    };
    Ok(tasks.into_iter().map(found).collect())
}

/// Collects a column of the rows to write, as an array for `UNNEST`.
macro_rules! column {
    ($rows:expr, $task:ident => $value:expr) => {
        &$rows.iter().map(|row| { let $task = &row.0; $value }).collect::<Vec<_>>()
    };
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
            column!(rows, t => t.id.uuid()),
            column!(rows, t => t.intent_id.uuid()),
            column!(rows, t => t.plan_id.map(PlanId::uuid)) as &[Option<Uuid>],
            column!(rows, t => t.parent_task_id.map(TaskId::uuid)) as &[Option<Uuid>],
            column!(rows, t => t.name.as_str()) as &[&str],
            column!(rows, t => t.description.as_deref()) as &[Option<&str>],
            column!(rows, t => t.status.as_str()) as &[&str],
            column!(rows, t => t.priority.as_str()) as &[&str],
            &inputs,
            column!(rows, t => list(&t.artifacts)),
            column!(rows, t => t.claims),
            column!(rows, t => list(&t.capabilities_required)),
            column!(rows, t => ids(&t.depends_on)),
            column!(rows, t => t.retry_policy.as_deref()) as &[Option<&str>],
            column!(rows, t => t.timeout_seconds.map(rows::column)) as &[Option<i32>],
            column!(rows, t => rows::column(t.attempt)),
            column!(rows, t => rows::column(t.max_attempts)),
            column!(rows, t => t.permissions.as_str()) as &[&str],
            &policies as &[Option<String>],
            &tools,
            column!(rows, t => t.blocked_reason.as_deref()) as &[Option<&str>],
            &metadata,
            column!(rows, t => t.version),
            column!(rows, t => t.created_by.as_str()) as &[&str],
            column!(rows, t => t.created_at),
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
            column!(rows, t => t.id.uuid()),
            column!(rows, t => t.status.as_str()) as &[&str],
            &outputs as &[Option<String>],
            column!(rows, t => list(&t.artifacts)),
            column!(rows, t => t.assigned_agent.as_deref()) as &[Option<&str>],
            column!(rows, t => t.claims),
            column!(rows, t => t.claimed_at) as &[Option<Timestamp>],
            column!(rows, t => rows::column(t.attempt)),
            column!(rows, t => t.blocked_reason.as_deref()) as &[Option<&str>],
            column!(rows, t => t.error.as_deref()) as &[Option<&str>],
            column!(rows, t => t.version),
            column!(rows, t => t.started_at) as &[Option<Timestamp>],
            column!(rows, t => t.completed_at) as &[Option<Timestamp>],
            column!(rows, t => t.due_at) as &[Option<Timestamp>],
            column!(rows, t => rows::due_status(t)) as &[Option<&str>],
        )
        .execute(conn)
        .await?;
        Ok(())
    }
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
