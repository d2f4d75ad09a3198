//! Requests for access to an intent (RFC-0011): their contents, limits and status.

use serde::{Deserialize, Serialize};

use crate::access::{Level, check_list, check_reason};
use crate::clock::Timestamp;
use crate::identity::principals::check_name;
use crate::ids::{AccessRequestId, IntentId};
use crate::refusal::Refusal;

/// The status of an access request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequestStatus {
    /// Not decided yet.
    Pending,
    /// An admin granted access.
    Approved,
    /// An admin refused.
    Denied,
}

impl RequestStatus {
    /// Returns the status's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
        }
    }

    /// Parses a status's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Approved, Self::Denied].into_iter().find(|status| status.as_str() == text)
    }
}

/// A request for access to an intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRequest {
    /// The request's id.
    pub id: AccessRequestId,
    /// The intent.
    pub intent_id: IntentId,
    /// The requesting principal.
    pub principal_id: String,
    /// The kind of principal.
    pub principal_type: String,
    /// The access level requested.
    pub requested_permission: Level,
    /// Why access is requested.
    pub reason: String,
    /// The request's status.
    pub status: RequestStatus,
    /// The requester's capabilities, to help the admins decide.
    pub capabilities: Vec<String>,
    /// The admin that decided.
    pub decided_by: Option<String>,
    /// When it was decided.
    pub decided_at: Option<Timestamp>,
    /// Why it was decided so.
    pub decision_reason: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Input for a new access request.
#[derive(Debug, Clone)]
pub struct RequestAsk {
    /// The requesting principal.
    pub principal_id: String,
    /// The kind of principal; defaults to `agent`.
    pub principal_type: Option<String>,
    /// The access level requested; defaults to write, as in the SDK.
    pub permission: Option<Level>,
    /// Why access is requested.
    pub reason: String,
    /// The requester's capabilities.
    pub capabilities: Vec<String>,
}

/// Creates an access request.
///
/// # Errors
/// An invalid name, or a reason or list that is too long.
pub fn request(
    ask: RequestAsk,
    intent_id: IntentId,
    id: AccessRequestId,
    now: Timestamp,
) -> Result<AccessRequest, Refusal> {
    check_name("principal_id", &ask.principal_id)?;
    let principal_type = ask.principal_type.unwrap_or_else(|| "agent".to_owned());
    check_name("principal_type", &principal_type)?;
    check_reason(Some(&ask.reason))?;
    check_list("capabilities", &ask.capabilities)?;
    Ok(AccessRequest {
        id,
        intent_id,
        principal_id: ask.principal_id,
        principal_type,
        requested_permission: ask.permission.unwrap_or(Level::Write),
        reason: ask.reason,
        status: RequestStatus::Pending,
        capabilities: ask.capabilities,
        decided_by: None,
        decided_at: None,
        decision_reason: None,
        created_at: now,
    })
}
