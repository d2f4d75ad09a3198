//! Human approval of tasks before delivery (`requires.human_approval`, AEE §3): when it is needed, the
//! persons who may give it, and when it is too late.
//!
//! The draft does not define the member's meaning; this module defines it for this server.

use serde::{Deserialize, Serialize};

use super::pairing::{Pair, PairStatus};
use super::{Envelope, EnvelopeType};
use crate::clock::{Timestamp, rfc3339};
use crate::identity::principals::PrincipalKind;
use crate::refusal::{Code, Refusal};

/// A person's decision on a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ApprovalDecision)]
pub enum Decision {
    /// The task may be done.
    Approve,
    /// The task may not be done.
    Decline,
}

/// Whether an entity is a person; `kind` is its kind of principal, if known.
///
/// For unknown entities the name decides (AEE §5.2); a name never overrides a known kind.
#[must_use]
pub fn is_person(entity: &str, kind: Option<PrincipalKind>) -> bool {
    kind.map_or_else(|| entity.starts_with("human."), |kind| kind == PrincipalKind::Human)
}

/// Whether a person has to approve an envelope first; `recipient` is the recipient's kind of principal, if
/// known.
///
/// A recipient that is a person needs no approval, because that person decides for themselves.
#[must_use]
pub fn needed(envelope: &Envelope, recipient: Option<PrincipalKind>) -> bool {
    let person = is_person(&envelope.recipient, recipient);
    envelope.kind == EnvelopeType::Task && envelope.requires.human_approval && !person
}

/// Requires that the key belongs to a person and, if an approver is configured, to that person.
///
/// # Errors
/// [`Code::Forbidden`].
pub fn require_person(principal: &str, kind: PrincipalKind, approver: Option<&str>) -> Result<(), Refusal> {
    if kind != PrincipalKind::Human {
        let message = "Only a person agrees to a task, with a key of their own: never an agent or a service, whatever its key.";
        return Err(Refusal::new(Code::Forbidden, message));
    }
    if approver.is_some_and(|approver| approver != principal) {
        let message = "This server has one person who agrees to tasks, and this is another one's key.";
        return Err(Refusal::new(Code::Forbidden, message));
    }
    Ok(())
}

/// Requires that the deciding principal is neither the sender nor the submitter of the task.
///
/// # Errors
/// [`Code::Forbidden`].
pub fn require_other(principal: &str, sender: &str, handed_in_by: Option<&str>) -> Result<(), Refusal> {
    if principal != sender && handed_in_by != Some(principal) {
        return Ok(());
    }
    let message = "Nobody agrees to what they asked for themselves. Somebody else has to.";
    Err(Refusal::new(Code::Forbidden, message))
}

/// An existing decision: the deciding principal, and when it decided.
pub type Decided = (String, Timestamp);

/// Requires that a task still waits for a decision.
///
/// # Errors
/// [`Code::InvalidTransition`]: it was decided. [`Code::TaskClosed`]: its time ran out.
pub fn require_waiting(pairs: &[(Pair, Option<Decided>)], now: Timestamp) -> Result<(), Refusal> {
    if pairs.iter().any(|(pair, _)| pair.status_at(now) == PairStatus::Held) {
        return Ok(());
    }
    if let Some((who, at)) = pairs.iter().find_map(|(_, decided)| decided.as_ref()) {
        let message =
            format!("`{who}` decided this at {}. There is one decision, and it stands.", rfc3339(*at));
        return Err(Refusal::new(Code::InvalidTransition, message));
    }
    let message = "The task's time ran out before anybody decided, and who asked was told so (AEE §11.6).";
    Err(Refusal::new(Code::TaskClosed, message))
}
