//! When a person has to agree to a task before it is handed out (`requires.human_approval`, AEE §3), who that may be, and
//! when it is too late. The draft gives the word no meaning; this is the one that it has here.

use serde::{Deserialize, Serialize};

use super::pairing::{Pair, PairStatus};
use super::{Envelope, EnvelopeType};
use crate::clock::{Timestamp, rfc3339};
use crate::principals::Kind;
use crate::refusal::{Code, Refusal};

/// What a person says to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ApprovalDecision)]
pub enum Decision {
    /// It may be done.
    Approve,
    /// It may not.
    Decline,
}

/// Whether an entity is a person; `kind`: what kind of being it is, if that is known. Of one whom nobody knows the name counts
/// (AEE §5.2); a name alone makes nobody one who is known to be none.
#[must_use]
pub fn is_person(entity: &str, kind: Option<Kind>) -> bool {
    kind.map_or_else(|| entity.starts_with("human."), |kind| kind == Kind::Human)
}

/// Whether a person has to agree to this first; `recipient`: what kind of being it is for, if that is known. Who is a person
/// decides for himself.
#[must_use]
pub fn needed(envelope: &Envelope, recipient: Option<Kind>) -> bool {
    let person = is_person(&envelope.recipient, recipient);
    envelope.kind == EnvelopeType::Task && envelope.requires.human_approval && !person
}

/// Requires that a key is one of who may be asked: of a person, and of the one who is named if one is.
///
/// # Errors
/// [`Code::Forbidden`].
pub fn require_person(principal: &str, kind: Kind, approver: Option<&str>) -> Result<(), Refusal> {
    if kind != Kind::Human {
        let message = "Only a person agrees to a task, with a key of their own: never an agent or a service, whatever its key.";
        return Err(Refusal::new(Code::Forbidden, message));
    }
    if approver.is_some_and(|approver| approver != principal) {
        let message = "This server has one person who agrees to tasks, and this is another one's key.";
        return Err(Refusal::new(Code::Forbidden, message));
    }
    Ok(())
}

/// Requires that whoever decides did not ask: it is neither the sender nor who handed it in for them.
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

/// What stands already: who decided, and when.
pub type Decided = (String, Timestamp);

/// Requires that a task still waits for a decision.
///
/// # Errors
/// [`Code::InvalidTransition`]: there is one. [`Code::TaskClosed`]: its time ran out.
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
