//! Plans (RFC-0012): an intent's tasks as a unit, with checkpoints at which they wait for a decision. A task is in at
//! most one plan; the results of its tasks determine the result of a plan.
//!
//! State transitions are in `plans/course.rs`. A checkpoint is called `Gate` here to distinguish it from log
//! checkpoints (RFC-0019).

pub mod course;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::clock::Timestamp;
use crate::ids::{IntentId, PlanId, TaskId};
use crate::log::kinds::Kind;
use crate::openintent::plans::course::PlanCourse;
use crate::refusal::{Code, Refusal};

/// State of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlanState {
    /// Not activated.
    ///
    /// Its tasks can be claimed nevertheless, except in strict mode, because clients never activate plans.
    Draft,
    /// In progress.
    Active,
    /// Paused: none of its tasks can be claimed.
    Paused,
    /// All its tasks are done.
    Completed,
    /// Failed.
    Failed,
    /// Cancelled.
    Cancelled,
}

impl PlanState {
    /// All states.
    pub const ALL: [Self; 6] =
        [Self::Draft, Self::Active, Self::Paused, Self::Completed, Self::Failed, Self::Cancelled];

    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Returns whether the plan is over.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Reaction of a plan to the permanent failure of a task.
///
/// Such a plan never completes; the setting determines how soon it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Pause until somebody has looked.
    #[default]
    PauseAndEscalate,
    /// Continue with the tasks that can continue.
    Notify,
    /// Fail at once and cancel the open tasks.
    Fail,
    /// Continue: the tasks have their own attempts.
    Retry,
}

impl OnFailure {
    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PauseAndEscalate => "pause_and_escalate",
            Self::Notify => "notify",
            Self::Fail => "fail",
            Self::Retry => "retry",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::PauseAndEscalate, Self::Notify, Self::Fail, Self::Retry];
        all.into_iter().find(|word| word.as_str() == text)
    }
}

/// Reaction to a checkpoint that is not decided in time; stored as given, not enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// Escalate.
    #[default]
    Escalate,
    /// Pass.
    AutoApprove,
    /// Fail.
    Fail,
}

/// Status of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateStatus {
    /// The plan has not reached it.
    #[default]
    Pending,
    /// The plan waits there for a decision.
    Reached,
    /// The plan continued, by a decision or because none was required.
    Approved,
    /// The plan was stopped there.
    Rejected,
}

/// A checkpoint of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// Identifier within the plan.
    pub id: String,
    /// Name.
    pub name: String,
    /// Task: the checkpoint is reached when it is completed.
    pub after_task: String,
    /// Whether the plan waits for a decision here.
    pub requires_approval: bool,
    /// Agents that may decide; if empty, those that manage the intent.
    pub approvers: Vec<String>,
    /// Hours allowed for a decision; stored as given.
    pub timeout_hours: Option<u32>,
    /// Reaction to the timeout; stored as given.
    pub on_timeout: OnTimeout,
    /// Status.
    pub status: GateStatus,
    /// Agent that decided.
    pub approved_by: Option<String>,
    /// Time of the decision.
    pub approved_at: Option<Timestamp>,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Identifier.
    pub id: PlanId,
    /// Intent of the plan.
    pub intent_id: IntentId,
    /// State.
    pub state: PlanState,
    /// Tasks.
    pub tasks: Vec<TaskId>,
    /// Checkpoints.
    pub gates: Vec<Gate>,
    /// Conditions; stored as given.
    pub conditions: Vec<Value>,
    /// Reaction to the permanent failure of a task.
    pub on_failure: OnFailure,
    /// Reaction to completion; stored as given.
    pub on_complete: String,
    /// Client-defined object.
    pub metadata: Map<String, Value>,
    /// Version, incremented by each change of the plan itself; guards writes (`If-Match`).
    pub version: i64,
    /// Agent that created the plan.
    pub created_by: String,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// Request to create or change a plan; `None` means the default, or no change.
#[derive(Debug, Clone, Default)]
pub struct PlanAsk {
    /// State.
    pub state: Option<PlanState>,
    /// Complete list of its tasks.
    pub tasks: Option<Vec<TaskId>>,
    /// Complete list of its checkpoints.
    pub gates: Option<Vec<Gate>>,
    /// Conditions; stored as given.
    pub conditions: Option<Vec<Value>>,
    /// Reaction to the permanent failure of a task.
    pub on_failure: Option<OnFailure>,
    /// Reaction to completion; stored as given.
    pub on_complete: Option<String>,
    /// Client-defined object.
    pub metadata: Option<Map<String, Value>>,
}

/// Creates a plan.
///
/// # Errors
/// A member over its limit, or a state other than `draft` or `active`.
pub fn create(
    ask: PlanAsk,
    created_by: &str,
    intent_id: IntentId,
    id: PlanId,
    now: Timestamp,
) -> Result<PlanCourse, Refusal> {
    let state = ask.state.unwrap_or(PlanState::Draft);
    if ![PlanState::Draft, PlanState::Active].contains(&state) {
        let message = "A plan begins as `draft` or `active`.";
        return Err(Refusal::field(Code::InvalidRequest, "state", "terminal", message));
    }
    let plan = Plan {
        id,
        intent_id,
        state: PlanState::Draft,
        tasks: Vec::new(),
        gates: Vec::new(),
        conditions: Vec::new(),
        on_failure: OnFailure::default(),
        on_complete: "notify".to_owned(),
        metadata: Map::new(),
        version: 1,
        created_by: created_by.to_owned(),
        created_at: now,
        updated_at: now,
    };
    let mut course = PlanCourse::of(plan);
    course.write(PlanAsk { state: None, ..ask })?;
    course.tell(Kind::PlanCreated, json!({ "tasks": course.plan.tasks, "created_by": created_by }));
    if state == PlanState::Active {
        course.enter(PlanState::Active, json!({}));
    }
    Ok(course)
}

impl Plan {
    /// Returns the checkpoint at which the plan waits for a decision.
    #[must_use]
    pub fn waits_at(&self) -> Option<&Gate> {
        self.gates.iter().find(|gate| gate.status == GateStatus::Reached)
    }

    /// Requires that the plan's tasks can be claimed.
    ///
    /// # Errors
    /// [`Code::InvalidTransition`]: it is paused, waits at a checkpoint, is over, or (strict mode) was not activated.
    pub fn require_open_for_work(&self, strict: bool) -> Result<(), Refusal> {
        let refuse = |message: String| Err(Refusal::new(Code::InvalidTransition, message));
        if self.waits_at().is_some() {
            return refuse("The task's plan waits at a checkpoint for its approval.".to_owned());
        }
        if self.state == PlanState::Active || self.state == PlanState::Draft && !strict {
            return Ok(());
        }
        let advice = if self.state.is_terminal() { "" } else { " Activate or resume it first." };
        refuse(format!("The task's plan is {}.{advice}", self.state.as_str()))
    }

    /// Requires that the caller has seen the current version.
    ///
    /// # Errors
    /// [`Code::VersionConflict`] with the current version.
    pub fn require_version(&self, seen: i64) -> Result<(), Refusal> {
        if seen == self.version { Ok(()) } else { Err(Refusal::version_conflict(self.version)) }
    }
}
