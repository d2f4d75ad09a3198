//! What tasks wait for: their dependencies form a graph without a circle, and each end of one moves those that wait for
//! it.

use std::collections::{BTreeMap, HashSet};

use super::TaskStatus;
use crate::ids::TaskId;
use crate::refusal::{Code, Refusal};

/// Which of its dependencies a task still waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wait {
    /// Those that are not over.
    pub open: Vec<TaskId>,
    /// Those that are over and were not completed: the task will never become ready by itself.
    pub lost: Vec<(TaskId, TaskStatus)>,
}

impl Wait {
    /// What a task with these dependencies waits for.
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

    /// Whether nothing is waited for.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.open.is_empty() && self.lost.is_empty()
    }

    /// Why a task that waits for this is blocked; `None` when it may still become ready.
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

/// The list without repetitions, in the order given.
#[must_use]
pub fn distinct(given: Vec<TaskId>) -> Vec<TaskId> {
    let mut seen = HashSet::new();
    given.into_iter().filter(|id| seen.insert(*id)).collect()
}

/// Checks that a task may depend on these: none of them waits for it, directly or through others. `below` has the
/// dependencies of all that are reached from them.
///
/// # Errors
/// [`Code::Unprocessable`] when the graph would have a circle.
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
