//! Plans (RFC-0012): an intent's tasks taken together, with checkpoints at which they wait for a decision. A task is in one
//! plan at the most; what the plan's tasks come to is what the plan comes to.
//!
//! How a plan goes on is `plans/course.rs`. A checkpoint is called `Gate` here: a checkpoint of a log is another thing (RFC-0019).

pub mod course;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use self::course::PlanCourse;
use crate::clock::Timestamp;
use crate::ids::{IntentId, PlanId, TaskId};
use crate::kinds::Kind;
use crate::refusal::{Code, Refusal};

/// Where a plan is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlanState {
    /// Written down. Its tasks can be claimed all the same, because clients never activate one; not in strict mode.
    Draft,
    /// Put to work.
    Active,
    /// At rest: none of its tasks can be claimed.
    Paused,
    /// All its tasks are done.
    Completed,
    /// It failed.
    Failed,
    /// It was called off.
    Cancelled,
}

impl PlanState {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Draft, Self::Active, Self::Paused, Self::Completed, Self::Failed, Self::Cancelled];

    /// The state as it is written.
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

    /// Reads a state; `None` when there is no such state.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether the plan is over.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// What a plan does when one of its tasks has failed for good. A plan with such a task never completes; this says how soon it
/// fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Rest until somebody has looked.
    #[default]
    PauseAndEscalate,
    /// Go on with what can go on.
    Notify,
    /// Fail at once; what is open is called off.
    Fail,
    /// Go on: the tasks have their own attempts.
    Retry,
}

impl OnFailure {
    /// The word as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PauseAndEscalate => "pause_and_escalate",
            Self::Notify => "notify",
            Self::Fail => "fail",
            Self::Retry => "retry",
        }
    }

    /// Reads the word; `None` when there is no such word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::PauseAndEscalate, Self::Notify, Self::Fail, Self::Retry];
        all.into_iter().find(|word| word.as_str() == text)
    }
}

/// What becomes of a checkpoint that nobody has decided in time. Kept as given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// Put it before somebody else.
    #[default]
    Escalate,
    /// Pass.
    AutoApprove,
    /// Fail.
    Fail,
}

/// What has become of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateStatus {
    /// The plan has not come to it.
    #[default]
    Pending,
    /// The plan waits there for a decision.
    Reached,
    /// The plan went on, by a decision or because none was wanted.
    Approved,
    /// The plan was stopped there.
    Rejected,
}

/// A checkpoint of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// Its id within the plan.
    pub id: String,
    /// What it is about.
    pub name: String,
    /// The plan comes to it when this task is completed.
    pub after_task: String,
    /// Whether somebody has to decide before the plan goes on.
    pub requires_approval: bool,
    /// Who may decide; those who manage the intent when nobody is named.
    pub approvers: Vec<String>,
    /// Hours that a decision may take; kept as given.
    pub timeout_hours: Option<u32>,
    /// What becomes of it then; kept as given.
    pub on_timeout: OnTimeout,
    /// What has become of it.
    pub status: GateStatus,
    /// Who decided.
    pub approved_by: Option<String>,
    /// When.
    pub approved_at: Option<Timestamp>,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Its id.
    pub id: PlanId,
    /// The intent.
    pub intent_id: IntentId,
    /// Where it is in its life.
    pub state: PlanState,
    /// Its tasks.
    pub tasks: Vec<TaskId>,
    /// Its checkpoints.
    pub gates: Vec<Gate>,
    /// Kept as given.
    pub conditions: Vec<Value>,
    /// What it does when a task has failed for good.
    pub on_failure: OnFailure,
    /// Kept as given.
    pub on_complete: String,
    /// The client's own object.
    pub metadata: Map<String, Value>,
    /// Rises with each change of the plan itself; guards writes (`If-Match`).
    pub version: i64,
    /// Who made it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// What is asked for in a new plan, or in a change of one. What is `None` has its default, or stays.
#[derive(Debug, Clone, Default)]
pub struct PlanAsk {
    /// Its state.
    pub state: Option<PlanState>,
    /// The whole list of its tasks.
    pub tasks: Option<Vec<TaskId>>,
    /// The whole list of its checkpoints.
    pub gates: Option<Vec<Gate>>,
    /// Kept as given.
    pub conditions: Option<Vec<Value>>,
    /// What it does when a task has failed for good.
    pub on_failure: Option<OnFailure>,
    /// Kept as given.
    pub on_complete: Option<String>,
    /// The client's own object.
    pub metadata: Option<Map<String, Value>>,
}

/// Makes a plan.
///
/// # Errors
/// A member that is over its limit; a state that is over already.
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
    /// The checkpoint at which the plan waits for a decision.
    #[must_use]
    pub fn waits_at(&self) -> Option<&Gate> {
        self.gates.iter().find(|gate| gate.status == GateStatus::Reached)
    }

    /// Requires that the plan's tasks can be claimed.
    ///
    /// # Errors
    /// [`Code::InvalidTransition`]: it rests, waits at a checkpoint, is over, or (strict) was not put to work.
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
