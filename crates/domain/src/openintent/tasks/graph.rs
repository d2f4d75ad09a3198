//! Dependencies between tasks: an acyclic graph, in which the end of a task updates its dependents.

use std::collections::{BTreeMap, HashSet};

use super::TaskStatus;
use crate::ids::TaskId;
use crate::refusal::{Code, Refusal};

/// Dependencies that a task still waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wait {
    /// Dependencies that are not over.
    pub open: Vec<TaskId>,
    /// Dependencies that ended without completion: the task never becomes ready by itself.
    pub lost: Vec<(TaskId, TaskStatus)>,
}

impl Wait {
    /// Returns the dependencies that a task with these still waits for.
    #[must_use]
    pub fn of(dependencies: &[(TaskId, TaskStatus)]) -> Self {
        let mut wait = Self::default();
        for (id, status) in dependencies {
            if !status.is_terminal() {
                wait.open.push(*id);
            } else if *status != TaskStatus::Completed {
                wait.lost.push((*id, *status));
            }
        }
        wait
    }

    /// Returns whether there is nothing to wait for.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.open.is_empty() && self.lost.is_empty()
    }

    /// Returns the reason why a task that waits for these is blocked; `None` if it may still become ready.
    #[must_use]
    pub fn blocked_reason(&self) -> Option<String> {
        let (id, status) = self.lost.first()?;
        let more = match self.lost.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more like it"),
        };
        Some(format!("{id}, which it depends on, is {}{more}", status.as_str()))
    }
}

/// Removes duplicates, keeping the order.
#[must_use]
pub fn distinct(given: Vec<TaskId>) -> Vec<TaskId> {
    let mut seen = HashSet::new();
    given.into_iter().filter(|id| seen.insert(*id)).collect()
}

/// Checks that none of these dependencies waits for the task, directly or through others.
///
/// `below` has the dependencies of all tasks reachable from them.
///
/// # Errors
/// [`Code::Unprocessable`] if the graph would have a cycle.
pub fn check_no_circle(
    task: TaskId,
    depends_on: &[TaskId],
    below: &BTreeMap<TaskId, Vec<TaskId>>,
) -> Result<(), Refusal> {
    let mut left: Vec<TaskId> = depends_on.to_vec();
    let mut seen = HashSet::new();
    while let Some(next) = left.pop() {
        if next == task {
            return Err(Refusal::field(
                Code::Unprocessable,
                "depends_on",
                "circle",
                format!("{task} would wait for itself. Leave out of `depends_on` what depends on it."),
            ));
        }
        if seen.insert(next) {
            left.extend(below.get(&next).into_iter().flatten());
        }
    }
    Ok(())
}
