//! The words of coordinators: what one is, where it stands, what it decides about.

use serde::{Deserialize, Serialize};

/// What a coordinator is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CoordinatorType {
    /// A language model.
    #[default]
    Llm,
    /// A person.
    Human,
    /// Both together.
    Composite,
    /// A program of rules.
    System,
}

impl CoordinatorType {
    /// Every type.
    pub const ALL: [Self; 4] = [Self::Llm, Self::Human, Self::Composite, Self::System];

    /// The type as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::Human => "human",
            Self::Composite => "composite",
            Self::System => "system",
        }
    }

    /// Reads a type; `None` when there is no such type.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}

/// Where a coordinator stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CoordinatorStatus {
    /// Not begun; the SDK knows it, and no appointment of this server is in it.
    Registering,
    /// It leads.
    Active,
    /// It was told to rest; silence does not count meanwhile.
    Paused,
    /// It has been silent for too long; a heartbeat brings it back, another appointment takes its place.
    Unresponsive,
    /// It was given up, or somebody was appointed in its place.
    FailedOver,
    /// It finishes what it has.
    Completing,
    /// It is done.
    Completed,
}

impl CoordinatorStatus {
    /// Every status.
    pub const ALL: [Self; 7] = [
        Self::Registering,
        Self::Active,
        Self::Paused,
        Self::Unresponsive,
        Self::FailedOver,
        Self::Completing,
        Self::Completed,
    ];

    /// The status as it is written.
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

    /// Reads a status; `None` when there is no such status.
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

/// What happens when a guardrail is exceeded.
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

/// What a coordinator's decision is about (RFC-0013 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CoordinatorDecisionType)]
pub enum DecisionType {
    /// A plan was made.
    PlanCreated,
    /// A plan was changed.
    PlanModified,
    /// A task was given to an agent.
    TaskAssigned,
    /// A task was handed on.
    TaskDelegated,
    /// The supervisor was asked.
    EscalationInitiated,
    /// What the supervisor said is done.
    EscalationResolved,
    /// A checkpoint of a plan was judged.
    CheckpointEvaluated,
    /// What follows from a failure.
    FailureHandled,
    /// What is done to stay within the guardrails.
    GuardrailApproached,
    /// Somebody else takes over.
    CoordinatorHandoff,
}

impl DecisionType {
    /// Every type.
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

    /// The type as it is written.
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

    /// Reads a type; `None` when there is no such type.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}
