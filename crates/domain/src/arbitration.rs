//! Arbitration (RFC-0003): asking for somebody who decides, and the record of what was decided. A decision stands for
//! ever; it closes the request that it answers, and does nothing by itself.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::canonical::exact;
use crate::clock::Timestamp;
use crate::ids::{ArbitrationId, DecisionId, IntentId};
use crate::limits::{LIST_ITEMS, METADATA_BYTES, TEXT_BYTES};
use crate::principals::check_name;
use crate::refusal::{Code, Refusal};

/// What has become of a request for arbitration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArbitrationStatus {
    /// Nobody has decided yet.
    Pending,
    /// A decision names it.
    Resolved,
}

impl ArbitrationStatus {
    /// The status as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Resolved => "resolved",
        }
    }

    /// Reads a status; `None` when there is no such status.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Resolved].into_iter().find(|status| status.as_str() == text)
    }
}

/// A request for arbitration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arbitration {
    /// Its id.
    pub id: ArbitrationId,
    /// The intent.
    pub intent_id: IntentId,
    /// Who asks.
    pub requester_id: String,
    /// Why.
    pub reason: String,
    /// What helps whoever decides; the client's own object.
    pub context: Map<String, Value>,
    /// What there is to choose from; the client's own.
    pub options: Vec<Value>,
    /// What has become of it.
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

/// What is asked for in a request for arbitration.
#[derive(Debug, Clone, Default)]
pub struct ArbitrationAsk {
    /// Why.
    pub reason: String,
    /// What helps whoever decides.
    pub context: Map<String, Value>,
    /// What there is to choose from.
    pub options: Vec<Value>,
}

/// Makes a request for arbitration.
///
/// # Errors
/// A reason that is missing or too long, a context or options over their limits or with numbers that do not survive
/// hashing.
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
    /// Its id.
    pub id: DecisionId,
    /// The intent.
    pub intent_id: IntentId,
    /// Who decided.
    pub decision_maker_id: String,
    /// What kind of decision: `arbitration`, or the client's own word.
    pub decision_type: String,
    /// What was decided.
    pub outcome: String,
    /// Why so.
    pub reasoning: String,
    /// What it rests on; the client's own.
    pub evidence: Vec<Value>,
    /// The request that it answers.
    pub arbitration_id: Option<ArbitrationId>,
    /// When.
    pub created_at: Timestamp,
}

/// What is to be recorded as a decision.
#[derive(Debug, Clone, Default)]
pub struct DecisionAsk {
    /// What kind of decision.
    pub decision_type: String,
    /// What was decided.
    pub outcome: String,
    /// Why so.
    pub reasoning: String,
    /// What it rests on.
    pub evidence: Vec<Value>,
    /// The request that it answers.
    pub arbitration_id: Option<ArbitrationId>,
}

/// Makes a decision.
///
/// # Errors
/// A type that is no name, an outcome that is missing, texts or evidence over their limits or with numbers that do not
/// survive hashing.
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
