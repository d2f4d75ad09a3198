//! Tasks by which operations decide, with the records that end or continue with them, read for several operations at
//! once.

use entente_domain::ids::TaskId;
use entente_domain::openintent::tasks::Task;
use entente_kernel::Outcome;
use sqlx::PgConnection;

use super::links::{self, Following};
use super::rows;

/// A task as it is stored, with the records that end or continue with it.
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
    /// Whether this change of the task is all that there is to write, in the columns of
    /// [`ChangedTask`](rows::ChangedTask): it ends nothing else, and nothing continues.
    pub(super) fn is_all_of(&self, changed: &Task) -> bool {
        let was = &self.task;
        let ends_more = self.has_more || !self.blocks.is_empty() || was.plan_id.is_some();
        let is_as_described = (&was.name, &was.description, &was.priority, &was.depends_on)
            == (&changed.name, &changed.description, &changed.priority, &changed.depends_on)
            && (&was.input, &was.metadata) == (&changed.input, &changed.metadata);
        is_as_described && !(changed.status.is_terminal() && ends_more)
    }
}

/// Finds tasks, with the records that end or continue with them.
pub(super) async fn find(conn: &mut PgConnection, ids: &[TaskId]) -> Outcome<Vec<Found>> {
    let tasks = rows::load_all(conn, ids).await?;
    let mut following = links::following(conn, &tasks).await?;
    let found = |task: Task| {
        let Following { blocks, has_more } = following.remove(&task.id).unwrap_or_default();
        Found { task, blocks, has_more }
    };
    Ok(tasks.into_iter().map(found).collect())
}
