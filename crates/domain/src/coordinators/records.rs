//! What coordinators decide, and what keeps them from it (RFC-0013 §3, §4).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::words::OnExceed;
use super::{Coordinator, CoordinatorStatus, DecisionType, check_bytes};
use crate::access::check_reason;
use crate::canonical::exact;
use crate::clock::Timestamp;
use crate::events::Kind;
use crate::ids::{CoordinatorId, DecisionRecordId, IntentId};
use crate::limits::LIST_ITEMS;
use crate::refusal::{Code, Refusal};

/// What comes of a coordinator's decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Decided {
    /// It counts; the coordinator after it.
    Lawful(Coordinator),
    /// It is more than a guardrail lets it: what becomes of the coordinator by that, and what is told.
    Exceeds(Option<(Coordinator, Kind)>),
}

/// The refusal of what a guardrail does not let a coordinator do (RFC-0013 §3).
#[must_use]
pub fn exceeded() -> Refusal {
    Refusal::new(
        Code::Forbidden,
        "guardrail_violation: the coordinator has made and changed as many plans as its guardrail `max_plan_versions` lets it. \
         Its supervisor, or an admin of the intent, can change the guardrails.",
    )
}

impl Coordinator {
    /// It decides something. `plans`: how many plans it has made and changed before. What a guardrail does to it instead, if
    /// one is exceeded: that is written down, and the decision refused ([`exceeded`]).
    ///
    /// # Errors
    /// [`Code::InvalidTransition`] when it rests or is over.
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

/// What a coordinator has decided; it stands for ever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// Its id.
    pub id: DecisionRecordId,
    /// The appointment under which it was made.
    pub coordinator_id: CoordinatorId,
    /// Who decided.
    pub agent_id: String,
    /// The intent.
    pub intent_id: IntentId,
    /// What it is about.
    pub decision_type: DecisionType,
    /// What was decided.
    pub summary: String,
    /// Why.
    pub rationale: String,
    /// What else was thought of.
    pub alternatives: Vec<Value>,
    /// How sure the coordinator is, 0 to 1.
    pub confidence: Option<f64>,
    /// When.
    pub at: Timestamp,
}

impl DecisionRecord {
    /// Checks what a coordinator says of its decision.
    ///
    /// # Errors
    /// A summary that is blank, texts or alternatives that are too large, a confidence that is none.
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
