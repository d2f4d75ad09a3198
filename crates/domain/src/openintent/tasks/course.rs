//! State transitions of a task (RFC-0012), with their consequences and the events to record. Permissions are in
//! `may.rs`, operations in `change.rs`.

use serde_json::{Map, Value, json};

use super::change::Verb;
use super::graph::Wait;
use super::may::By;
use super::{Task, TaskStatus, pause_seconds};
use crate::clock::{Timestamp, plus_seconds, rfc3339};
use crate::log::kinds::Kind;
use crate::refusal::{Code, Refusal};

/// A task during a change, with the events to record, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// The task.
    pub task: Task,
    /// Events to record: kind and payload.
    pub told: Vec<(Kind, Value)>,
}

impl Course {
    /// Starts from the task as stored.
    #[must_use]
    pub fn of(task: Task) -> Self {
        Self { task, told: Vec::new() }
    }

    /// Starts from the task at this time: due time-outs and pauses are applied first.
    #[must_use]
    pub fn begin(task: Task, now: Timestamp) -> Self {
        let mut course = Self::of(task);
        while let Some(due) = course.task.due_at.filter(|due| *due <= now) {
            course.task.due_at = None;
            if course.task.is_held() {
                course.task.version += 1;
                let seconds = course.task.timeout_seconds.unwrap_or(0);
                course.attempt_failed(format!("The attempt took longer than {seconds} seconds."), due);
            } else if course.task.status == TaskStatus::Pending {
                // A pause only starts when the task has no open dependencies.
                course.await_dependencies(&Wait::default(), due);
            }
        }
        course
    }

    /// Starts from a task just created.
    #[must_use]
    pub fn made(task: Task, wait: &Wait) -> Self {
        let now = task.created_at;
        let mut course = Self::of(task);
        let more = json!({
            "depends_on": course.task.depends_on, "parent_task_id": course.task.parent_task_id,
            "priority": course.task.priority, "capabilities_required": course.task.capabilities_required,
            "created_by": course.task.created_by,
        });
        course.tell(Kind::TaskCreated, more);
        course.await_dependencies(wait, now);
        course.task.version = 1;
        course
    }

    /// Performs one operation on the task.
    ///
    /// # Errors
    /// The task is over, or its status does not allow the operation; another agent has it; the agent may not.
    pub fn act(&mut self, verb: Verb, wait: &Wait, by: &By<'_>) -> Result<(), Refusal> {
        if self.task.status.is_terminal() {
            return Err(self.wrong("is over and never changes again"));
        }
        verb.check()?;
        if verb != Verb::Claim {
            self.require_token(by)?;
        }
        let told = self.told.len();
        match verb {
            Verb::Claim => self.claim(by)?,
            Verb::Start => self.start(by)?,
            Verb::Progress(said) => {
                self.require_running(by)?;
                self.tell(Kind::TaskProgress, Value::Object(said));
            }
            Verb::Complete { output, artifacts } => self.complete(output, artifacts, by)?,
            Verb::Fail { error, for_good } => self.fail(error, for_good, by)?,
            Verb::Block(reason) => {
                self.require_touch(by)?;
                self.block(Kind::TaskBlocked, reason, json!({}));
            }
            Verb::Unblock => self.unblock(wait, by)?,
            Verb::HandBack => self.hand_back(wait, by)?,
            Verb::Delegate { to, reason } => self.delegate(to, reason.as_deref(), wait, by)?,
            Verb::Escalate { to, reason } => {
                self.require_touch(by)?;
                self.block(Kind::TaskEscalated, reason, json!({ "to": to }));
            }
            Verb::Cancel(reason) => {
                if by.agent != self.task.created_by {
                    self.require_touch(by)?;
                }
                self.end(TaskStatus::Cancelled, reason.as_deref(), by.now);
            }
            Verb::Skip(reason) => {
                self.require_touch(by)?;
                self.end(TaskStatus::Skipped, reason.as_deref(), by.now);
            }
        }
        // Operations without effect do not change the version: progress, or releasing an unclaimed task.
        let changes = |(kind, _): &(Kind, Value)| *kind != Kind::TaskProgress;
        self.task.version += i64::from(self.told.iter().skip(told).any(changes));
        Ok(())
    }

    pub(super) fn claim(&mut self, by: &By<'_>) -> Result<(), Refusal> {
        let task = &self.task;
        let other = |agent: &&str| task.is_held() || *agent != by.claimer;
        if task.assigned_agent.as_deref().is_some_and(|agent| other(&agent)) {
            // The message omits the agent's name: a client might mistake its text for another conflict (OI-3.5.3).
            let what = if task.is_held() { "was claimed already" } else { "is kept for another agent" };
            return Err(Refusal::new(Code::ClaimConflict, format!("This task {what}. Take another one.")));
        }
        if task.status != TaskStatus::Ready {
            return Err(self.wrong("cannot be claimed: only a task that is ready can"));
        }
        if let Some(plan) = by.plan {
            plan.require_open_for_work(by.strict)?;
        }
        self.require_capable(by)?;
        self.task.claims += 1;
        self.task.claimed_at = Some(by.now);
        self.task.assigned_agent = Some(by.claimer.to_owned());
        self.task.status = TaskStatus::Claimed;
        self.task.due_at = self.attempt_ends_at(by.now);
        self.tell(Kind::TaskClaimed, json!({ "claim_token": self.task.claims }));
        Ok(())
    }

    pub(super) fn start(&mut self, by: &By<'_>) -> Result<(), Refusal> {
        self.require_held(by)?;
        match self.task.status {
            TaskStatus::Claimed => {}
            TaskStatus::Blocked if by.jumps => self.go_on(by.now),
            _ => return Err(self.wrong("cannot be started: only one that was claimed can")),
        }
        if self.task.status == TaskStatus::Claimed {
            self.task.status = TaskStatus::Running;
            self.task.started_at = Some(by.now);
            self.task.due_at = self.attempt_ends_at(by.now);
            self.tell(Kind::TaskStarted, json!({}));
        }
        Ok(())
    }

    fn complete(
        &mut self,
        output: Option<Map<String, Value>>,
        artifacts: Option<Vec<String>>,
        by: &By<'_>,
    ) -> Result<(), Refusal> {
        self.require_running(by)?;
        self.task.output = output.or(self.task.output.take());
        if let Some(artifacts) = artifacts {
            self.task.artifacts = artifacts;
        }
        self.task.error = None;
        self.task.due_at = None;
        self.task.status = TaskStatus::Completed;
        self.task.completed_at = Some(by.now);
        self.tell(Kind::TaskCompleted, json!({ "artifacts": self.task.artifacts }));
        Ok(())
    }

    fn fail(&mut self, error: Option<String>, for_good: bool, by: &By<'_>) -> Result<(), Refusal> {
        let error = error.or(self.task.error.take()).unwrap_or_else(|| "No reason was given.".to_owned());
        if for_good {
            self.require_touch(by)?;
            self.failed(error, by.now);
        } else {
            self.require_held(by)?;
            self.attempt_failed(error, by.now);
        }
        Ok(())
    }

    /// Fails this attempt; another one follows after a pause while there are attempts left.
    fn attempt_failed(&mut self, error: String, at: Timestamp) {
        if self.task.attempt >= self.task.max_attempts {
            return self.failed(error, at);
        }
        let pause = pause_seconds(self.task.retry_policy.as_deref(), self.task.attempt);
        self.task.attempt += 1;
        let again_at = (pause > 0).then(|| plus_seconds(at, pause));
        self.retry(Some(error), again_at, json!({ "next_attempt_at": again_at.map(rfc3339) }), at);
    }

    fn failed(&mut self, error: String, at: Timestamp) {
        self.task.due_at = None;
        self.task.status = TaskStatus::Failed;
        self.task.completed_at = Some(at);
        let told = json!({ "error": error });
        self.task.error = Some(error);
        self.tell(Kind::TaskFailed, told);
    }

    /// Releases the task and schedules it again.
    fn retry(&mut self, error: Option<String>, again_at: Option<Timestamp>, mut more: Value, at: Timestamp) {
        let had_it = self.task.assigned_agent.clone();
        self.let_go();
        self.task.status = TaskStatus::Pending;
        self.task.error = error.or(self.task.error.take());
        self.task.due_at = again_at;
        if let Some(members) = more.as_object_mut() {
            members.insert("error".to_owned(), json!(self.task.error));
            members.insert("previous_agent".to_owned(), json!(had_it));
        }
        self.tell(Kind::TaskRetrying, more);
        self.await_dependencies(&Wait::default(), at);
    }

    /// Releases the task because its agent has left, or the one it is reserved for; this costs no attempt.
    ///
    /// A blocked task stays blocked.
    pub fn agent_left(&mut self, why: &str, now: Timestamp) {
        self.task.version += 1;
        let held = self.task.is_held();
        if held && self.task.status != TaskStatus::Blocked {
            return self.retry(None, None, json!({ "reason": why }), now);
        }
        let (from, reason) = (self.task.assigned_agent.clone(), self.task.blocked_reason.clone());
        let due_at = self.task.due_at;
        self.let_go();
        (self.task.blocked_reason, self.task.due_at) = (reason, due_at);
        self.tell(Kind::TaskDelegated, json!({ "from": from, "to": null, "reason": why }));
    }

    fn block(&mut self, kind: Kind, reason: Option<String>, mut more: Value) {
        self.task.status = TaskStatus::Blocked;
        self.task.blocked_reason = reason;
        // The attempt's time limit is suspended.
        self.task.due_at = None;
        if let Some(members) = more.as_object_mut() {
            members.insert("reason".to_owned(), json!(self.task.blocked_reason));
        }
        self.tell(kind, more);
    }

    fn unblock(&mut self, wait: &Wait, by: &By<'_>) -> Result<(), Refusal> {
        if self.task.status != TaskStatus::Blocked {
            return Err(self.wrong("is not blocked"));
        }
        self.require_touch(by)?;
        if self.task.is_held() {
            self.go_on(by.now);
            return Ok(());
        }
        // Dependencies that will never be completed are dropped.
        let lost: Vec<_> = wait.lost.iter().map(|(id, _)| *id).collect();
        self.task.depends_on.retain(|id| !lost.contains(id));
        self.task.blocked_reason = None;
        self.task.status = TaskStatus::Pending;
        self.tell(Kind::TaskUnblocked, json!({ "no_longer_depends_on": lost }));
        self.await_dependencies(&Wait { open: wait.open.clone(), lost: Vec::new() }, by.now);
        Ok(())
    }

    /// Resumes a blocked task of an agent.
    fn go_on(&mut self, now: Timestamp) {
        self.task.blocked_reason = None;
        self.task.status =
            if self.task.started_at.is_some() { TaskStatus::Running } else { TaskStatus::Claimed };
        self.task.due_at = self.attempt_ends_at(now);
        self.tell(Kind::TaskUnblocked, json!({}));
    }

    fn hand_back(&mut self, wait: &Wait, by: &By<'_>) -> Result<(), Refusal> {
        if !self.task.is_held() {
            if self.task.status == TaskStatus::Blocked {
                return self.unblock(wait, by);
            }
            if !wait.is_over() || self.task.due_at.is_some() {
                return Err(self.wrong("is not ready yet: it waits for other tasks, or for its next attempt"));
            }
            return Ok(());
        }
        self.require_touch(by)?;
        self.let_go();
        self.task.status = TaskStatus::Pending;
        self.await_dependencies(wait, by.now);
        Ok(())
    }

    fn delegate(
        &mut self,
        to: String,
        reason: Option<&str>,
        wait: &Wait,
        by: &By<'_>,
    ) -> Result<(), Refusal> {
        self.require_touch(by)?;
        let held = self.task.is_held();
        let from = self.task.assigned_agent.clone();
        if held {
            self.let_go();
            self.task.status = TaskStatus::Pending;
        }
        self.task.assigned_agent = Some(to);
        let more = json!({ "from": from, "to": self.task.assigned_agent, "reason": reason });
        self.tell(Kind::TaskDelegated, more);
        if held {
            self.await_dependencies(wait, by.now);
        }
        Ok(())
    }

    /// Ends the task without success: cancelled, or not needed.
    pub fn end(&mut self, status: TaskStatus, reason: Option<&str>, now: Timestamp) {
        self.task.status = status;
        self.task.due_at = None;
        self.task.completed_at = Some(now);
        let kind = if status == TaskStatus::Skipped { Kind::TaskSkipped } else { Kind::TaskCancelled };
        self.tell(kind, json!({ "reason": reason }));
    }

    /// Makes an unclaimed task ready, pending or blocked, according to its dependencies.
    pub fn await_dependencies(&mut self, wait: &Wait, now: Timestamp) {
        if let Some(reason) = wait.blocked_reason() {
            self.task.version += 1;
            return self.block(Kind::TaskBlocked, Some(reason), json!({}));
        }
        let pauses = self.task.due_at.is_some_and(|due| due > now);
        if !wait.open.is_empty() || pauses {
            self.task.status = TaskStatus::Pending;
        } else if self.task.status != TaskStatus::Ready {
            self.task.status = TaskStatus::Ready;
            self.task.due_at = None;
            self.tell(Kind::TaskReady, json!({}));
        }
    }

    /// Releases the task.
    fn let_go(&mut self) {
        self.task.assigned_agent = None;
        self.task.claimed_at = None;
        self.task.started_at = None;
        self.task.due_at = None;
        self.task.blocked_reason = None;
    }

    fn attempt_ends_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.task.timeout_seconds.map(|seconds| plus_seconds(now, seconds))
    }

    pub(super) fn wrong(&self, what: &str) -> Refusal {
        let message = format!("This task ({}) {what}.", self.task.status.as_str());
        Refusal::new(Code::InvalidTransition, message)
    }

    pub(super) fn tell(&mut self, kind: Kind, more: Value) {
        let task = &self.task;
        let mut payload = match more {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        let always = [
            ("task_id", json!(task.id)),
            ("name", json!(task.name)),
            ("status", json!(task.status)),
            ("attempt", json!(task.attempt)),
            ("assigned_agent", json!(task.assigned_agent)),
            ("plan_id", json!(task.plan_id)),
        ];
        payload.extend(always.into_iter().map(|(member, value)| (member.to_owned(), value)));
        self.told.push((kind, Value::Object(payload)));
    }
}
