//! Requests for access to an intent (RFC-0011): what may be asked, and what becomes of it.

use serde::{Deserialize, Serialize};

use crate::access::{Level, check_list, check_reason};
use crate::clock::Timestamp;
use crate::ids::{AccessRequestId, IntentId};
use crate::principals::check_name;
use crate::refusal::Refusal;

/// What has become of a request for access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequestStatus {
    /// Nobody has decided yet.
    Pending,
    /// An admin granted access.
    Approved,
    /// An admin refused.
    Denied,
}

impl RequestStatus {
    /// The status as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
        }
    }

    /// Reads a status; `None` when there is no such status.
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
    /// Who asks.
    pub principal_id: String,
    /// What it is.
    pub principal_type: String,
    /// How much it asks for.
    pub requested_permission: Level,
    /// Why.
    pub reason: String,
    /// What has become of it.
    pub status: RequestStatus,
    /// What the asker can do, to help whoever decides.
    pub capabilities: Vec<String>,
    /// Who decided.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<Timestamp>,
    /// Why so.
    pub decision_reason: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What is asked for in a request for access.
#[derive(Debug, Clone)]
pub struct RequestAsk {
    /// Who asks.
    pub principal_id: String,
    /// What it is; `agent` when nothing is said.
    pub principal_type: Option<String>,
    /// How much; write when nothing is said, as the SDK does.
    pub permission: Option<Level>,
    /// Why.
    pub reason: String,
    /// What the asker can do.
    pub capabilities: Vec<String>,
}

/// Makes a request for access.
///
/// # Errors
/// A name that is none, a reason or a list that is too long.
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
