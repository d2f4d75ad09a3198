//! Arbitration (RFC-0003): requests for a decision, and the record of decisions.
//!
//! A decision is permanent; it resolves the request that it answers and has no other effect.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::canonical::exact;
use crate::clock::Timestamp;
use crate::identity::principals::check_name;
use crate::ids::{ArbitrationId, DecisionId, IntentId};
use crate::limits::{LIST_ITEMS, METADATA_BYTES, TEXT_BYTES};
use crate::refusal::{Code, Refusal};

/// The status of an arbitration request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArbitrationStatus {
    /// Not decided yet.
    Pending,
    /// A decision refers to it.
    Resolved,
}

impl ArbitrationStatus {
    /// Returns the status's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Resolved => "resolved",
        }
    }

    /// Parses a status's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Resolved].into_iter().find(|status| status.as_str() == text)
    }
}

/// A request for arbitration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arbitration {
    /// The request's id.
    pub id: ArbitrationId,
    /// The intent.
    pub intent_id: IntentId,
    /// The requesting principal.
    pub requester_id: String,
    /// Why arbitration is requested.
    pub reason: String,
    /// Context that helps to decide; an object defined by the client.
    pub context: Map<String, Value>,
    /// The options to choose from, defined by the client.
    pub options: Vec<Value>,
    /// The request's status.
    pub status: ArbitrationStatus,
    /// The decision that answers it.
    pub decision_id: Option<DecisionId>,
    /// The outcome of that decision.
    pub resolution: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was answered.
    pub resolved_at: Option<Timestamp>,
}

/// Input for a new arbitration request.
#[derive(Debug, Clone, Default)]
pub struct ArbitrationAsk {
    /// Why arbitration is requested.
    pub reason: String,
    /// Context that helps to decide.
    pub context: Map<String, Value>,
    /// The options to choose from.
    pub options: Vec<Value>,
}

/// Creates an arbitration request.
///
/// # Errors
/// A reason that is missing or too long, or a context or options that exceed their limits or contain numbers
/// that do not survive hashing.
pub fn request(
    ask: ArbitrationAsk,
    intent_id: IntentId,
    by: &str,
    id: ArbitrationId,
    now: Timestamp,
) -> Result<Arbitration, Refusal> {
    check_text("reason", &ask.reason)?;
    ask.context.values().try_for_each(exact)?;
    check_bytes("context", &ask.context)?;
    check_things("options", &ask.options)?;
    Ok(Arbitration {
        id,
        intent_id,
        requester_id: by.to_owned(),
        reason: ask.reason,
        context: ask.context,
        options: ask.options,
        status: ArbitrationStatus::Pending,
        decision_id: None,
        resolution: None,
        created_at: now,
        resolved_at: None,
    })
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The decision's id.
    pub id: DecisionId,
    /// The intent.
    pub intent_id: IntentId,
    /// The principal that decided.
    pub decision_maker_id: String,
    /// The kind of decision: `arbitration`, or a name defined by the client.
    pub decision_type: String,
    /// The outcome.
    pub outcome: String,
    /// The reasoning.
    pub reasoning: String,
    /// The evidence, defined by the client.
    pub evidence: Vec<Value>,
    /// The arbitration request that it answers.
    pub arbitration_id: Option<ArbitrationId>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Input for a new decision.
#[derive(Debug, Clone, Default)]
pub struct DecisionAsk {
    /// The kind of decision.
    pub decision_type: String,
    /// The outcome.
    pub outcome: String,
    /// The reasoning.
    pub reasoning: String,
    /// The evidence.
    pub evidence: Vec<Value>,
    /// The arbitration request that it answers.
    pub arbitration_id: Option<ArbitrationId>,
}

/// Creates a decision.
///
/// # Errors
/// An invalid type name, a missing outcome, or texts or evidence that exceed their limits or contain numbers
/// that do not survive hashing.
pub fn decide(
    ask: DecisionAsk,
    intent_id: IntentId,
    by: &str,
    id: DecisionId,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    check_name("decision_type", &ask.decision_type)?;
    check_text("outcome", &ask.outcome)?;
    if ask.reasoning.len() > TEXT_BYTES {
        return Err(too_long("reasoning"));
    }
    check_things("evidence", &ask.evidence)?;
    Ok(Decision {
        id,
        intent_id,
        decision_maker_id: by.to_owned(),
        decision_type: ask.decision_type,
        outcome: ask.outcome,
        reasoning: ask.reasoning,
        evidence: ask.evidence,
        arbitration_id: ask.arbitration_id,
        created_at: now,
    })
}

fn check_text(member: &str, text: &str) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        let message = format!("`{member}` is empty. Say it in a sentence.");
        return Err(Refusal::field(Code::InvalidRequest, member, "missing", message));
    }
    if text.len() > TEXT_BYTES { Err(too_long(member)) } else { Ok(()) }
}

fn too_long(member: &str) -> Refusal {
    let message = format!("`{member}` has at most {TEXT_BYTES} bytes. Keep documents elsewhere.");
    Refusal::field(Code::TooLarge, member, "too_long", message)
}

fn check_things(member: &str, things: &[Value]) -> Result<(), Refusal> {
    if things.len() > LIST_ITEMS {
        let message = format!("`{member}` has {} items, at most {LIST_ITEMS} are allowed.", things.len());
        return Err(Refusal::field(Code::TooLarge, member, "too_long", message));
    }
    things.iter().try_for_each(exact)?;
    check_bytes(member, &things)
}

fn check_bytes(member: &str, value: &impl Serialize) -> Result<(), Refusal> {
    let bytes = serde_json::to_string(value).map_or(0, |text| text.len());
    if bytes <= METADATA_BYTES {
        return Ok(());
    }
    let message = format!("`{member}` has {bytes} bytes, at most {METADATA_BYTES} are allowed.");
    Err(Refusal::field(Code::TooLarge, member, "too_large", message))
}
