//! Coordinators' decisions, and the guardrails that limit them (RFC-0013 §3, §4).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::words::OnExceed;
use super::{Coordinator, CoordinatorStatus, DecisionType, check_bytes};
use crate::access::check_reason;
use crate::canonical::exact;
use crate::clock::Timestamp;
use crate::ids::{CoordinatorId, DecisionRecordId, IntentId};
use crate::limits::LIST_ITEMS;
use crate::log::events::Kind;
use crate::refusal::{Code, Refusal};

/// The outcome of recording a coordinator's decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Decided {
    /// It is accepted; contains the coordinator afterwards.
    Lawful(Coordinator),
    /// It exceeds a guardrail; contains the coordinator after the consequence, and the event to log, if any.
    Exceeds(Option<(Coordinator, Kind)>),
}

/// Returns the refusal of a decision that exceeds a guardrail (RFC-0013 §3).
#[must_use]
pub fn exceeded() -> Refusal {
    Refusal::new(
        Code::Forbidden,
        "guardrail_violation: the coordinator has made and changed as many plans as its guardrail `max_plan_versions` lets it. \
         Its supervisor, or an admin of the intent, can change the guardrails.",
    )
}

impl Coordinator {
    /// Applies a decision of the coordinator, which has made and changed `plans` plans before.
    ///
    /// If it exceeds a guardrail, the returned consequence is written down and the decision refused
    /// ([`exceeded`]).
    ///
    /// # Errors
    /// [`Code::InvalidTransition`] if the coordinator is paused or the appointment is over.
    pub fn decides(&self, decision: DecisionType, plans: u64, now: Timestamp) -> Result<Decided, Refusal> {
        match self.status_at(now) {
            CoordinatorStatus::Paused => {
                let message = "This coordinator was told to rest, and decides nothing meanwhile. Its supervisor, or an admin \
                               of the intent, has it go on.";
                return Err(Refusal::new(Code::InvalidTransition, message));
            }
            status if status.is_over() => return Err(self.over(now)),
            _ => {}
        }
        let of_a_plan = matches!(decision, DecisionType::PlanCreated | DecisionType::PlanModified);
        let most = self.limit("max_plan_versions");
        if of_a_plan && most.is_some_and(|most| plans >= most) {
            let next = match self.on_exceed() {
                OnExceed::Escalate => None,
                OnExceed::Pause | OnExceed::PauseAndEscalate => {
                    Some((Self { status: CoordinatorStatus::Paused, ..self.next() }, Kind::CoordinatorPaused))
                }
                OnExceed::Fail => {
                    Some((self.ended(CoordinatorStatus::FailedOver, now), Kind::CoordinatorFailedOver))
                }
            };
            return Ok(Decided::Exceeds(next));
        }
        // A decision is a sign of life.
        let status = if self.status_at(now) == CoordinatorStatus::Unresponsive {
            CoordinatorStatus::Active
        } else {
            self.status
        };
        let heard = Self { status, heard_at: now, progress_at: now, stalled_at: None, ..self.clone() };
        Ok(Decided::Lawful(heard))
    }
}

/// A coordinator's decision; it is permanent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// The decision's id.
    pub id: DecisionRecordId,
    /// The appointment under which it was made.
    pub coordinator_id: CoordinatorId,
    /// The agent that decided.
    pub agent_id: String,
    /// The intent.
    pub intent_id: IntentId,
    /// The subject of the decision.
    pub decision_type: DecisionType,
    /// The decision in a sentence.
    pub summary: String,
    /// The reasons.
    pub rationale: String,
    /// The alternatives considered.
    pub alternatives: Vec<Value>,
    /// The coordinator's confidence, 0 to 1.
    pub confidence: Option<f64>,
    /// When it was made.
    pub at: Timestamp,
}

impl DecisionRecord {
    /// Checks the contents of a decision.
    ///
    /// # Errors
    /// A blank summary, texts or alternatives that are too large, or a confidence out of range.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.summary.trim().is_empty() {
            let message = "`summary` is blank. Say in a line what was decided.";
            return Err(Refusal::field(Code::InvalidRequest, "summary", "blank", message));
        }
        check_reason(Some(&self.summary))?;
        check_reason(Some(&self.rationale))?;
        if self.alternatives.len() > LIST_ITEMS || self.alternatives.iter().any(|one| !one.is_object()) {
            let message = format!("`alternatives_considered` is a list of at most {LIST_ITEMS} objects.");
            return Err(Refusal::field(Code::InvalidRequest, "alternatives_considered", "invalid", message));
        }
        self.alternatives.iter().try_for_each(exact)?;
        check_bytes("alternatives_considered", &self.alternatives)?;
        if self.confidence.is_some_and(|sure| !(0.0..=1.0).contains(&sure)) {
            let message = "`confidence` is from 0 to 1.";
            return Err(Refusal::field(Code::InvalidRequest, "confidence", "out_of_range", message));
        }
        Ok(())
    }
}
