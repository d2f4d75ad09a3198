//! Escalations (RFC-0013): an agent refers an intent to people.
//!
//! An escalation addressed to a person waits for that person's own answer; one without addressee for any
//! person with read access to the intent. No agent resolves an escalation, nor does the one that raised it.
//! It is prose with an answer in prose; a question with options, which a program acts on, is a binding moment
//! ([`crate::moments`]).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::{AccessLevel, Level, check_reason};
use crate::clock::Timestamp;
use crate::identity::authority;
use crate::identity::authority::Authority;
use crate::identity::principals::{Author, PrincipalKind};
use crate::ids::{EscalationId, IntentId};
use crate::limits::{ESCALATIONS_WAITING, TEXT_BYTES};
use crate::openintent::approvals::check_context;
use crate::refusal::{Code, Refusal};

/// The status of an escalation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EscalationStatus {
    /// Not answered yet.
    Pending,
    /// Answered.
    Resolved,
    /// Its intent ended first.
    Expired,
}

impl EscalationStatus {
    /// Returns the status's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Resolved => "resolved",
            Self::Expired => "expired",
        }
    }

    /// Parses a status's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Resolved, Self::Expired].into_iter().find(|status| status.as_str() == text)
    }
}

/// The importance, or the urgency, of an escalation.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[schema(as = EscalationPriority)]
pub enum Weight {
    /// When there is time.
    Low,
    /// As usual.
    #[default]
    Medium,
    /// Before others.
    High,
    /// Immediately.
    Critical,
}

impl Weight {
    /// Returns the weight's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    /// Parses a weight's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Low, Self::Medium, Self::High, Self::Critical]
            .into_iter()
            .find(|weight| weight.as_str() == text)
    }
}

/// An escalation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Escalation {
    /// The escalation's id.
    pub id: EscalationId,
    /// The intent.
    pub intent_id: IntentId,
    /// The agent that raised it.
    pub escalated_by: String,
    /// The principal of the key that it was raised with; `None` if that was not recorded.
    #[serde(default)]
    pub escalated_by_principal: Option<String>,
    /// The only person who may answer; `None` for any.
    pub assigned_to: Option<String>,
    /// Why.
    pub reason: String,
    /// The importance.
    pub priority: Weight,
    /// The urgency.
    pub urgency: Weight,
    /// Context that helps to answer; an object defined by the client.
    pub context: Map<String, Value>,
    /// The escalation's status.
    pub status: EscalationStatus,
    /// The person that answered.
    pub resolved_by: Option<String>,
    /// When it was answered.
    pub resolved_at: Option<Timestamp>,
    /// The answer.
    pub resolution: Option<String>,
    /// Notes on the answer.
    pub resolution_notes: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Input for an escalation.
#[derive(Debug, Clone, Default)]
pub struct EscalationAsk {
    /// Why.
    pub reason: String,
    /// The importance.
    pub priority: Weight,
    /// The urgency.
    pub urgency: Weight,
    /// Context that helps to answer.
    pub context: Map<String, Value>,
    /// The person to answer.
    pub assigned_to: Option<String>,
}

/// Creates an escalation; `waiting` is the number of unanswered ones of the intent.
///
/// # Errors
/// A missing or too long reason, a context over its limit, or too many unanswered escalations.
pub fn escalate(
    ask: EscalationAsk,
    intent_id: IntentId,
    by: Author<'_>,
    id: EscalationId,
    waiting: usize,
    now: Timestamp,
) -> Result<Escalation, Refusal> {
    if ask.reason.trim().is_empty() {
        let message = "`reason` is missing: what a person is to decide, and why.";
        return Err(Refusal::field(Code::InvalidRequest, "reason", "missing", message));
    }
    check_reason(Some(&ask.reason))?;
    check_context(&ask.context)?;
    if waiting >= ESCALATIONS_WAITING {
        let message = format!(
            "{ESCALATIONS_WAITING} escalations wait on this intent, as many as may. Have some of them resolved first."
        );
        return Err(Refusal::field(Code::TooLarge, "reason", "too_many", message));
    }
    Ok(Escalation {
        id,
        intent_id,
        escalated_by: by.agent.to_owned(),
        escalated_by_principal: Some(by.principal.to_owned()),
        assigned_to: ask.assigned_to,
        reason: ask.reason,
        priority: ask.priority,
        urgency: ask.urgency,
        context: ask.context,
        status: EscalationStatus::Pending,
        resolved_by: None,
        resolved_at: None,
        resolution: None,
        resolution_notes: None,
        created_at: now,
    })
}

/// Returns the refusal of an addressee that is not a person; the same whether or not such a principal exists.
#[must_use]
pub fn no_person(member: &str) -> Refusal {
    let message =
        format!("`{member}` names nobody who is known here as a person (a principal of the kind `human`).");
    Refusal::field(Code::Unprocessable, member, "unknown", message)
}

/// A caller that wants to answer an escalation, with its rights.
#[derive(Debug, Clone, Copy)]
pub struct Answerer<'a> {
    /// The name that it acts under.
    pub agent: &'a str,
    /// The principal of its key.
    pub principal: &'a str,
    /// The kind of that principal.
    pub kind: PrincipalKind,
    /// The access level of the name to the intent.
    pub access: AccessLevel,
    /// The basis of the key.
    pub authority: Option<&'a Authority>,
}

impl Answerer<'_> {
    /// Whether it is a person acting with their own key: nobody answers in a person's name.
    fn is_person(&self) -> bool {
        self.kind == PrincipalKind::Human && self.agent == self.principal
    }

    /// Whether it may see the escalation: it can read the intent, or is the addressee.
    #[must_use]
    pub fn sees(&self, escalation: &Escalation) -> bool {
        self.access.reaches(Level::Read) || self.is_addressee(escalation)
    }

    fn is_addressee(&self, escalation: &Escalation) -> bool {
        self.is_person() && escalation.assigned_to.as_deref() == Some(self.agent)
    }

    fn require(&self, escalation: &Escalation) -> Result<(), Refusal> {
        let raised = |name: &str| {
            escalation.escalated_by == name || escalation.escalated_by_principal.as_deref() == Some(name)
        };
        let message = if escalation.assigned_to.is_some() && !self.is_addressee(escalation) {
            "This was put before a person by name. Only that person resolves it, with a key of its own."
        } else if !self.is_person() {
            "Only a person resolves what was escalated, with a key of its own: no agent, no service, nobody in a person's name. \
             Wait for one of those who can read the intent."
        } else if raised(self.agent) {
            "Who raised this cannot be who resolves it, under whatever name. Wait for another person."
        } else {
            return authority::require(self.authority);
        };
        Err(Refusal::new(Code::NotThePrincipal, message))
    }
}

impl Escalation {
    /// Answers the escalation; repeating the same answer by the same person changes nothing.
    ///
    /// # Errors
    /// The caller may not answer; it is answered already; the answer is missing, or a text is too long.
    pub fn resolve(
        mut self,
        by: Answerer<'_>,
        resolution: &str,
        notes: Option<String>,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        if resolution.trim().is_empty() {
            let message = "`resolution` is missing: what was decided.";
            return Err(Refusal::field(Code::InvalidRequest, "resolution", "missing", message));
        }
        for (member, text) in [("resolution", Some(resolution)), ("notes", notes.as_deref())] {
            if text.is_some_and(|text| text.len() > TEXT_BYTES) {
                let message = format!("`{member}` has at most {TEXT_BYTES} bytes.");
                return Err(Refusal::field(Code::TooLarge, member, "too_long", message));
            }
        }
        by.require(&self)?;
        if self.status != EscalationStatus::Pending {
            let same = self.resolved_by.as_deref() == Some(by.agent)
                && self.resolution.as_deref() == Some(resolution)
                && self.resolution_notes == notes;
            if same {
                return Ok(self);
            }
            let message = match self.status {
                EscalationStatus::Expired => {
                    "The intent ended before this was resolved; there is nothing to decide any more."
                }
                EscalationStatus::Pending | EscalationStatus::Resolved => {
                    "This was resolved already. Read it to see how."
                }
            };
            return Err(Refusal::new(Code::AlreadyDecided, message));
        }
        self.status = EscalationStatus::Resolved;
        self.resolved_by = Some(by.agent.to_owned());
        self.resolved_at = Some(now);
        self.resolution = Some(resolution.to_owned());
        self.resolution_notes = notes;
        Ok(self)
    }
}
