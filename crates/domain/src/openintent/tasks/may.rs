//! Permissions on a task (RFC-0012). A claimed task belongs to its agent until it is released or its time is up;
//! otherwise only agents that manage the intent may act on it. Any agent with write access may act on an unclaimed task.

use super::TaskStatus;
use super::course::Course;
use crate::clock::Timestamp;
use crate::openintent::agents::Agent;
use crate::openintent::plans::Plan;
use crate::refusal::{Code, Refusal};

/// Acting agent, with the facts that its rights depend on.
#[derive(Debug, Clone, Copy)]
pub struct By<'a> {
    /// The agent.
    pub agent: &'a str,
    /// Agent that a claim is made for: the acting agent, unless it assigns the task to another one.
    pub claimer: &'a str,
    /// Record of the claiming agent, if it has one.
    pub record: Option<&'a Agent>,
    /// Whether it manages the intent: an admin in its own right, or a coordinator.
    pub manages: bool,
    /// Claim token that it presents.
    pub token: Option<i64>,
    /// Whether it may omit steps, which are then performed implicitly (OI-8.4).
    pub jumps: bool,
    /// Whether a registered record and an active plan are required (OI-2.9).
    pub strict: bool,
    /// Plan that the task belongs to.
    pub plan: Option<&'a Plan>,
    /// Time of the operation.
    pub now: Timestamp,
}

impl Course {
    /// Requires that the presented claim, if any, is current.
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

    /// Requires that the agent has the task; claims it implicitly if the agent may omit steps.
    pub(super) fn require_held(&mut self, by: &By<'_>) -> Result<(), Refusal> {
        if !self.task.is_held() {
            if !by.jumps {
                return Err(self.wrong("was not claimed; claim it first"));
            }
            self.claim(by)?;
        }
        // An agent that claims the task for another one may not act in its place.
        self.require_touch(by)
    }

    /// Requires that the agent works on the task; starts it implicitly, except in strict mode.
    pub(super) fn require_running(&mut self, by: &By<'_>) -> Result<(), Refusal> {
        self.require_held(by)?;
        match self.task.status {
            TaskStatus::Running => Ok(()),
            TaskStatus::Claimed if by.strict => Err(self.wrong("was not started; start it first")),
            TaskStatus::Blocked if !by.jumps => Err(self.wrong("is blocked; unblock it first")),
            _ => self.start(by),
        }
    }

    /// Requires that no other agent has the task.
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

    /// Requires that the agent's record shows that it takes work and has the capabilities.
    ///
    /// An agent without a record passes, because registration is optional (OI-9.1), but not in strict mode.
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
