//! Who may do what with a task (RFC-0012). A task that an agent has claimed is that agent's until it lets go or its time
//! is up; nobody else goes on with it but those who manage the intent. One that nobody has is for all who may write.

use super::TaskStatus;
use super::course::Course;
use crate::agents::Agent;
use crate::clock::Timestamp;
use crate::plans::Plan;
use crate::refusal::{Code, Refusal};

/// Who does it, and what else decides.
#[derive(Debug, Clone, Copy)]
pub struct By<'a> {
    /// The agent.
    pub agent: &'a str,
    /// The agent that a claim is made for: itself, unless it hands the task to another one.
    pub claimer: &'a str,
    /// The claimer's record, if it has one.
    pub record: Option<&'a Agent>,
    /// Whether it manages the intent: an admin in its own right, or a coordinator.
    pub manages: bool,
    /// The claim that it says it has.
    pub token: Option<i64>,
    /// Whether it may leave out steps, which are then done on the way (contract 2).
    pub jumps: bool,
    /// Whether a registered record and an active plan are wanted (contract 2).
    pub strict: bool,
    /// The plan that the task belongs to.
    pub plan: Option<&'a Plan>,
    /// When.
    pub now: Timestamp,
}

impl Course {
    /// Requires that the claim that is named, if one is, still holds.
    pub(super) fn require_token(&self, by: &By<'_>) -> Result<(), Refusal> {
        if by.token.is_none() || by.token == self.task.claim_token() {
            return Ok(());
        }
        Err(Refusal::new(
            Code::ClaimConflict,
            "The claim that you name holds no longer: its time was up, or the task was given to another agent. Stop \
             working on it.",
        ))
    }

    /// Requires that the agent has the task; one that may jump takes it on the way.
    pub(super) fn require_held(&mut self, by: &By<'_>) -> Result<(), Refusal> {
        if !self.task.is_held() {
            if !by.jumps {
                return Err(self.wrong("was not claimed; claim it first"));
            }
            self.claim(by)?;
        }
        // Whoever takes it for another agent does not go on with it in that one's stead.
        self.require_touch(by)
    }

    /// Requires that the agent works on the task; the step before is done on the way.
    pub(super) fn require_running(&mut self, by: &By<'_>) -> Result<(), Refusal> {
        self.require_held(by)?;
        match self.task.status {
            TaskStatus::Running => Ok(()),
            TaskStatus::Claimed if by.strict => Err(self.wrong("was not started; start it first")),
            TaskStatus::Blocked if !by.jumps => Err(self.wrong("is blocked; unblock it first")),
            _ => self.start(by),
        }
    }

    /// Requires that nobody else has the task.
    pub(super) fn require_touch(&self, by: &By<'_>) -> Result<(), Refusal> {
        let has_it = self.task.assigned_agent.as_deref();
        if !self.task.is_held() || by.manages || has_it == Some(by.agent) {
            return Ok(());
        }
        let message = format!(
            "`{}` has claimed this task; only that agent and those who manage the intent go on with it.",
            has_it.unwrap_or("somebody")
        );
        Err(Refusal::new(Code::Forbidden, message))
    }

    /// Requires that the agent takes work and can do this: its record says so. An agent without a record is believed,
    /// because registering is optional (contract 9); not in strict mode.
    pub(super) fn require_capable(&self, by: &By<'_>) -> Result<(), Refusal> {
        let required = &self.task.capabilities_required;
        let forbidden = |message: String| Err(Refusal::new(Code::Forbidden, message));
        let Some(record) = by.record else {
            if by.strict && !required.is_empty() {
                return forbidden(format!(
                    "The task needs {}; `{}` has not registered what it can do.",
                    required.join(", "),
                    by.claimer
                ));
            }
            return Ok(());
        };
        let status = record.status_at(by.now);
        if !status.takes_work() {
            return forbidden(format!("`{}` is {} and takes no new work.", by.claimer, status.as_str()));
        }
        let lacks: Vec<&str> =
            required.iter().filter(|word| !record.capabilities.contains(word)).map(String::as_str).collect();
        if lacks.is_empty() {
            return Ok(());
        }
        forbidden(format!("The task needs {}, which the record of `{}` lacks.", lacks.join(", "), by.claimer))
    }
}
