//! Operations on a task: the verbs of RFC-0012, each with its own route, and changes by clients of the reference
//! server (`PATCH`, OI-8.4), which are translated to verbs.

use serde_json::{Map, Value, json};

use super::course::Course;
use super::graph::{Wait, distinct};
use super::may::By;
use super::{TaskStatus, check, check_outcome, check_size, check_text};
use crate::canonical::exact;
use crate::identity::principals::check_name;
use crate::ids::TaskId;
use crate::limits::METADATA_BYTES;
use crate::log::kinds::Kind;
use crate::refusal::Refusal;

/// Operation on a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Verb {
    /// Claim it.
    Claim,
    /// Start work on it.
    Start,
    /// Report progress.
    Progress(Map<String, Value>),
    /// Complete it, with its results.
    Complete {
        /// Output.
        output: Option<Map<String, Value>>,
        /// Artifacts.
        artifacts: Option<Vec<String>>,
    },
    /// Report that this attempt failed.
    Fail {
        /// Error.
        error: Option<String>,
        /// Whether there are no further attempts.
        for_good: bool,
    },
    /// Block it.
    Block(Option<String>),
    /// Unblock it.
    Unblock,
    /// Release it.
    HandBack,
    /// Reserve it for another agent.
    Delegate {
        /// The other agent.
        to: String,
        /// Reason.
        reason: Option<String>,
    },
    /// Escalate it to a decision maker; it is blocked until then.
    Escalate {
        /// Decision maker.
        to: Option<String>,
        /// Subject.
        reason: Option<String>,
    },
    /// Cancel it.
    Cancel(Option<String>),
    /// Skip it, because it is not needed.
    Skip(Option<String>),
}

impl Verb {
    /// Checks the arguments of the operation.
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

/// Assignment of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assignee {
    /// This agent.
    Agent(String),
    /// Any agent that takes it.
    Anybody,
}

/// A change of a task; members that are `None` stay as they are.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// New status.
    pub status: Option<TaskStatus>,
    /// New assignment; with a status that requires an agent, the claiming one.
    pub assigned_agent: Option<Assignee>,
    /// Output.
    pub output: Option<Map<String, Value>>,
    /// Artifacts.
    pub artifacts: Option<Vec<String>>,
    /// Error.
    pub error: Option<String>,
    /// Reason for being blocked.
    pub blocked_reason: Option<String>,
    /// Replacement of the whole list.
    pub depends_on: Option<Vec<TaskId>>,
    /// New name.
    pub name: Option<String>,
    /// New description.
    pub description: Option<String>,
    /// New priority.
    pub priority: Option<String>,
    /// Replacement of the whole input.
    pub input: Option<Map<String, Value>>,
    /// Replacement of the whole object.
    pub metadata: Option<Map<String, Value>>,
}

impl Change {
    /// Returns the agent that an implied claim would be made for.
    #[must_use]
    pub fn claimer(&self) -> Option<&str> {
        match &self.assigned_agent {
            Some(Assignee::Agent(agent)) => Some(agent),
            Some(Assignee::Anybody) | None => None,
        }
    }

    /// Writes the members that need no operation; returns their names.
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

    /// Returns whether the task has no agent in the requested status, or no status is requested: then
    /// `assigned_agent` reserves it.
    ///
    /// Otherwise `assigned_agent` names the claiming agent.
    fn leaves_it_free(&self) -> bool {
        let free = [TaskStatus::Pending, TaskStatus::Ready, TaskStatus::Blocked];
        self.status.is_none_or(|status| free.contains(&status))
    }

    /// Returns the operation that reserves the task as requested; `None` if it is already reserved, or nothing is requested.
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

    /// Returns the operation that leads to the requested status; `None` if the task already has it.
    fn verb(&mut self, course: &Course, by: &By<'_>) -> Option<Verb> {
        let task = &course.task;
        let status = self.status?;
        let has_it = task.is_held() && task.assigned_agent.as_deref() == Some(by.claimer);
        if status == TaskStatus::Running && task.is_held() && !has_it && self.claimer().is_some() {
            // Refused as a claim, because another agent has the task.
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
    /// Changes the task.
    ///
    /// Steps that a client omits are performed implicitly, if the agent may perform them; a task that is over stays
    /// so. `failed` is final regardless of remaining attempts: a client reads back the status it wrote.
    ///
    /// # Errors
    /// As [`Course::act`]; a member over its limit.
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
            // Creation and change share one type, as with channels: the SDK cannot parse another (OI-5.6.1).
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

    /// Changes the dependencies of an unclaimed task; a task blocked by somebody stays blocked.
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
