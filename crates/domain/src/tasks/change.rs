//! What can be done with a task: the verbs of RFC-0012, each a route of its own, and changes as clients of the reference
//! server write them (`PATCH`, contract 8), which come to the same verbs.

use serde_json::{Map, Value, json};

use super::course::Course;
use super::graph::{Wait, distinct};
use super::may::By;
use super::{TaskStatus, check, check_outcome, check_size, check_text};
use crate::canonical::exact;
use crate::ids::TaskId;
use crate::kinds::Kind;
use crate::limits::METADATA_BYTES;
use crate::principals::check_name;
use crate::refusal::Refusal;

/// What is done with a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Verb {
    /// Take it.
    Claim,
    /// Begin to work on it.
    Start,
    /// Say how far it is.
    Progress(Map<String, Value>),
    /// Say that it is done, with what came of it.
    Complete {
        /// What came of it.
        output: Option<Map<String, Value>>,
        /// What was made on the way.
        artifacts: Option<Vec<String>>,
    },
    /// Say that this attempt failed; `for_good`: there is to be no other.
    Fail {
        /// What went wrong.
        error: Option<String>,
        /// Whether there is to be no other attempt.
        for_good: bool,
    },
    /// Say that it cannot go on.
    Block(Option<String>),
    /// Let it go on.
    Unblock,
    /// Let go of it.
    HandBack,
    /// Keep it for another agent.
    Delegate {
        /// Whom it is kept for.
        to: String,
        /// Why.
        reason: Option<String>,
    },
    /// Put it before somebody who decides; it is blocked until then.
    Escalate {
        /// Who is to decide.
        to: Option<String>,
        /// What about.
        reason: Option<String>,
    },
    /// Call it off.
    Cancel(Option<String>),
    /// It is not needed.
    Skip(Option<String>),
}

impl Verb {
    /// Checks what is said with it.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        match self {
            Self::Progress(said) => {
                check_size("progress", said, METADATA_BYTES)?;
                said.values().try_for_each(exact)
            }
            Self::Delegate { to, reason } => {
                check_name("to", to)?;
                check_text("reason", reason.as_deref())
            }
            Self::Escalate { to, reason } => {
                to.as_deref().map_or(Ok(()), |to| check_name("to", to))?;
                check_text("reason", reason.as_deref())
            }
            Self::Block(reason) | Self::Cancel(reason) | Self::Skip(reason) => {
                check_text("reason", reason.as_deref())
            }
            Self::Fail { error, .. } => check_text("error", error.as_deref()),
            Self::Complete { output, artifacts } => {
                check_outcome(output.as_ref(), artifacts.as_deref().unwrap_or_default())
            }
            Self::Claim | Self::Start | Self::Unblock | Self::HandBack => Ok(()),
        }
    }
}

/// Who is to have a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assignee {
    /// This agent.
    Agent(String),
    /// Whoever takes it.
    Anybody,
}

/// A change of a task. What is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// The new status.
    pub status: Option<TaskStatus>,
    /// Who is to have it; with a status that an agent has to have it for, who claims it.
    pub assigned_agent: Option<Assignee>,
    /// What came of it.
    pub output: Option<Map<String, Value>>,
    /// What was made on the way.
    pub artifacts: Option<Vec<String>>,
    /// What went wrong.
    pub error: Option<String>,
    /// Why it cannot go on.
    pub blocked_reason: Option<String>,
    /// The whole new list.
    pub depends_on: Option<Vec<TaskId>>,
    /// The new name.
    pub name: Option<String>,
    /// The new description.
    pub description: Option<String>,
    /// The new priority.
    pub priority: Option<String>,
    /// The whole new input.
    pub input: Option<Map<String, Value>>,
    /// The whole new object.
    pub metadata: Option<Map<String, Value>>,
}

impl Change {
    /// The agent that a claim on the way would be made for.
    #[must_use]
    pub fn claimer(&self) -> Option<&str> {
        match &self.assigned_agent {
            Some(Assignee::Agent(agent)) => Some(agent),
            Some(Assignee::Anybody) | None => None,
        }
    }

    /// Writes what needs no verb; answers with the names of what was written.
    fn write(&mut self, course: &mut Course) -> Vec<&'static str> {
        let task = &mut course.task;
        let mut written = Vec::new();
        let mut put = |name: &'static str, given: bool| {
            if given {
                written.push(name);
            }
        };
        put("output", self.output.is_some());
        put("artifacts", self.artifacts.is_some());
        put("error", self.error.is_some());
        put("name", self.name.is_some());
        put("description", self.description.is_some());
        put("priority", self.priority.is_some());
        put("input", self.input.is_some());
        put("metadata", self.metadata.is_some());
        task.output = self.output.take().or(task.output.take());
        task.artifacts = self.artifacts.take().unwrap_or_else(|| std::mem::take(&mut task.artifacts));
        task.error = self.error.take().or(task.error.take());
        task.name = self.name.take().unwrap_or_else(|| std::mem::take(&mut task.name));
        task.description = self.description.take().or(task.description.take());
        task.priority = self.priority.take().unwrap_or_else(|| std::mem::take(&mut task.priority));
        task.input = self.input.take().unwrap_or_else(|| std::mem::take(&mut task.input));
        task.metadata = self.metadata.take().unwrap_or_else(|| std::mem::take(&mut task.metadata));
        written
    }

    /// Whether nobody has the task in the status that is asked for, or none is: then `assigned_agent` says whom it is kept
    /// for. Else it says who takes it.
    fn leaves_it_free(&self) -> bool {
        let free = [TaskStatus::Pending, TaskStatus::Ready, TaskStatus::Blocked];
        self.status.is_none_or(|status| free.contains(&status))
    }

    /// The verb by which it is kept for whom it is to be kept for; `None` when it is already, or nothing is said.
    fn keeping(&mut self, course: &Course) -> Option<Verb> {
        let task = &course.task;
        let lets_go = matches!(self.status, Some(TaskStatus::Pending | TaskStatus::Ready)) && task.is_held();
        if !self.leaves_it_free() {
            return None;
        }
        match self.assigned_agent.take()? {
            Assignee::Agent(to) if task.assigned_agent.as_ref() == Some(&to) && !lets_go => None,
            Assignee::Agent(to) => Some(Verb::Delegate { to, reason: None }),
            Assignee::Anybody => task.is_held().then_some(Verb::HandBack),
        }
    }

    /// The verb that leads to the status that is asked for; `None` when it is the task's already.
    fn verb(&mut self, course: &Course, by: &By<'_>) -> Option<Verb> {
        let task = &course.task;
        let status = self.status?;
        let has_it = task.is_held() && task.assigned_agent.as_deref() == Some(by.claimer);
        if status == TaskStatus::Running && task.is_held() && !has_it && self.claimer().is_some() {
            // It is refused as what it is: a claim of what another agent has.
            return Some(Verb::Claim);
        }
        if status == task.status && (has_it || status != TaskStatus::Claimed) {
            return None;
        }
        let reason = || task.error.clone().or(self.blocked_reason.clone());
        Some(match status {
            TaskStatus::Pending | TaskStatus::Ready => Verb::HandBack,
            TaskStatus::Claimed => Verb::Claim,
            TaskStatus::Running => Verb::Start,
            TaskStatus::Blocked => Verb::Block(self.blocked_reason.take()),
            TaskStatus::Completed => Verb::Complete { output: None, artifacts: None },
            TaskStatus::Failed => Verb::Fail { error: None, for_good: true },
            TaskStatus::Cancelled => Verb::Cancel(reason()),
            TaskStatus::Skipped => Verb::Skip(reason()),
        })
    }
}

impl Course {
    /// Changes the task. Steps that a client leaves out are done on the way, where the agent may take them; a task that
    /// is over stays so. `failed` is what it says, whatever attempts are left: a client reads back what it wrote.
    ///
    /// # Errors
    /// As [`Course::act`]; a member that is over its limit.
    pub fn change(&mut self, mut change: Change, wait: &Wait, by: &By<'_>) -> Result<(), Refusal> {
        if self.task.status.is_terminal() {
            return Err(self.wrong("is over and never changes again"));
        }
        if let Some(agent) = change.claimer() {
            check_name("assigned_agent", agent)?;
        }
        let version = self.task.version;
        self.require_touch(by)?;
        let mut written = change.write(self);
        if let Some(depends_on) = change.depends_on.take() {
            self.depend(distinct(depends_on), wait, by)?;
            written.push("depends_on");
        }
        let for_anybody = change.assigned_agent == Some(Assignee::Anybody) && change.leaves_it_free();
        if for_anybody && !self.task.is_held() && self.task.assigned_agent.take().is_some() {
            written.push("assigned_agent");
        }
        check(&self.task)?;
        if !written.is_empty() {
            // The one type for "made or changed", as with channels: the SDK can read no other (contract 5.6).
            self.tell(Kind::TaskCreated, json!({ "updated": written }));
        }
        if let Some(verb) = change.keeping(self) {
            self.act(verb, wait, by)?;
        }
        if let Some(verb) = change.verb(self, by) {
            self.act(verb, wait, by)?;
        }
        if !self.told.is_empty() {
            self.task.version = version + 1;
        }
        Ok(())
    }

    /// Changes what the task waits for, while nobody has it. One that somebody blocked stays so.
    fn depend(&mut self, depends_on: Vec<TaskId>, wait: &Wait, by: &By<'_>) -> Result<(), Refusal> {
        if self.task.is_held() {
            return Err(self.wrong("has begun: what it depends on cannot change any more"));
        }
        self.task.depends_on = depends_on;
        if self.task.status != TaskStatus::Blocked {
            self.task.due_at = None;
            self.task.status = if wait.is_over() { self.task.status } else { TaskStatus::Pending };
            self.await_dependencies(wait, by.now);
        }
        Ok(())
    }
}
