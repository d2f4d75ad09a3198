//! Enums of coordinators: type, status and decision type.

use serde::{Deserialize, Serialize};

/// The kind of coordinator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CoordinatorType {
    /// A language model.
    #[default]
    Llm,
    /// A person.
    Human,
    /// A language model and a person together.
    Composite,
    /// A program with fixed rules.
    System,
}

impl CoordinatorType {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::Llm, Self::Human, Self::Composite, Self::System];

    /// Returns the type's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::Human => "human",
            Self::Composite => "composite",
            Self::System => "system",
        }
    }

    /// Parses a type's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}

/// The status of a coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CoordinatorStatus {
    /// Not started; defined by the SDK, but no appointment of this server has it.
    Registering,
    /// It leads the intent.
    Active,
    /// It is paused; heartbeats are not required meanwhile.
    Paused,
    /// It has been silent for too long; a heartbeat brings it back, another appointment may replace it.
    Unresponsive,
    /// It was given up, or another agent was appointed in its place.
    FailedOver,
    /// It finishes its current work.
    Completing,
    /// It has finished.
    Completed,
}

impl CoordinatorStatus {
    /// All variants.
    pub const ALL: [Self; 7] = [
        Self::Registering,
        Self::Active,
        Self::Paused,
        Self::Unresponsive,
        Self::FailedOver,
        Self::Completing,
        Self::Completed,
    ];

    /// Returns the status's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Registering => "registering",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Unresponsive => "unresponsive",
            Self::FailedOver => "failed_over",
            Self::Completing => "completing",
            Self::Completed => "completed",
        }
    }

    /// Parses a status's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }

    /// Whether the appointment is over.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Self::FailedOver | Self::Completed)
    }
}

/// The consequence of exceeding a guardrail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnExceed {
    Pause,
    Escalate,
    PauseAndEscalate,
    Fail,
}

impl OnExceed {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "pause" => Some(Self::Pause),
            "escalate" => Some(Self::Escalate),
            "pause_and_escalate" => Some(Self::PauseAndEscalate),
            "fail" => Some(Self::Fail),
            _ => None,
        }
    }
}

/// The subject of a coordinator's decision (RFC-0013 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CoordinatorDecisionType)]
pub enum DecisionType {
    /// A plan was made.
    PlanCreated,
    /// A plan was changed.
    PlanModified,
    /// A task was assigned to an agent.
    TaskAssigned,
    /// A task was delegated.
    TaskDelegated,
    /// The supervisor was asked.
    EscalationInitiated,
    /// The supervisor's answer was carried out.
    EscalationResolved,
    /// A checkpoint of a plan was evaluated.
    CheckpointEvaluated,
    /// A failure was handled.
    FailureHandled,
    /// Measures were taken to stay within the guardrails.
    GuardrailApproached,
    /// Another coordinator takes over.
    CoordinatorHandoff,
}

impl DecisionType {
    /// All variants.
    pub const ALL: [Self; 10] = [
        Self::PlanCreated,
        Self::PlanModified,
        Self::TaskAssigned,
        Self::TaskDelegated,
        Self::EscalationInitiated,
        Self::EscalationResolved,
        Self::CheckpointEvaluated,
        Self::FailureHandled,
        Self::GuardrailApproached,
        Self::CoordinatorHandoff,
    ];

    /// Returns the type's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PlanCreated => "plan_created",
            Self::PlanModified => "plan_modified",
            Self::TaskAssigned => "task_assigned",
            Self::TaskDelegated => "task_delegated",
            Self::EscalationInitiated => "escalation_initiated",
            Self::EscalationResolved => "escalation_resolved",
            Self::CheckpointEvaluated => "checkpoint_evaluated",
            Self::FailureHandled => "failure_handled",
            Self::GuardrailApproached => "guardrail_approached",
            Self::CoordinatorHandoff => "coordinator_handoff",
        }
    }

    /// Parses a type's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}
