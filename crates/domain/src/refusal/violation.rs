//! The violation of an intent's governance policy (RFC-0013), as a refusal reports it to programs.

use serde::{Deserialize, Serialize};

/// How an intent may become `completed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompletionMode {
    /// Any agent that may change its status may complete it.
    #[default]
    Auto,
    /// With an approval of the action `complete`, which is used up by it.
    RequireApproval,
    /// With approvals by a quorum of the voters.
    Quorum,
}

/// The member of a policy that forbids an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = GovernanceRule)]
pub enum Rule {
    /// Only assigned agents may work on the intent.
    WriteScope,
    /// Only named agents may work on the intent.
    AllowedAgents,
    /// Its completion must be approved.
    CompletionMode,
    /// A change of its status needs a reason.
    RequireStatusReason,
    /// It would exceed its maximum cost.
    MaxCost,
}

impl Rule {
    /// Returns the rule's wire form, which is the policy's member.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WriteScope => "write_scope",
            Self::AllowedAgents => "allowed_agents",
            Self::CompletionMode => "completion_mode",
            Self::RequireStatusReason => "require_status_reason",
            Self::MaxCost => "max_cost",
        }
    }
}

/// A violation of a policy, for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = GovernanceViolation)]
pub struct Violation {
    /// The member of the policy that forbids the action.
    pub rule: Rule,
    /// With `completion_mode`: the configured mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<CompletionMode>,
    /// With `completion_mode`: number of approvals required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<usize>,
    /// With `completion_mode`: number of approvals granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted: Option<usize>,
}
