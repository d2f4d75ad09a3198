//! Escalations (RFC-0013): an agent puts an intent before people. One that names a person waits for that person's own word;
//! one that names nobody for any person who can read the intent. No agent resolves one, nor does who raised it.
//!
//! An escalation is prose that somebody answers in prose. A question with options, which a program acts on, is a binding
//! moment ([`crate::moments`]).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::{Level, Standing, check_reason};
use crate::authority::{self, Authority};
use crate::clock::Timestamp;
use crate::ids::{EscalationId, IntentId};
use crate::limits::{ESCALATIONS_WAITING, TEXT_BYTES};
use crate::permits::check_context;
use crate::principals::Kind;
use crate::refusal::{Code, Refusal};

/// What has become of an escalation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EscalationStatus {
    /// Nobody has answered yet.
    Pending,
    /// Somebody has.
    Resolved,
    /// Its intent ended first.
    Expired,
}

impl EscalationStatus {
    /// The status as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Resolved => "resolved",
            Self::Expired => "expired",
        }
    }

    /// Reads a status; `None` when there is no such status.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Resolved, Self::Expired].into_iter().find(|status| status.as_str() == text)
    }
}

/// How much an escalation matters, and how soon.
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
    /// Now.
    Critical,
}

impl Weight {
    /// The weight as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    /// Reads a weight; `None` when there is no such weight.
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
    /// Its id.
    pub id: EscalationId,
    /// The intent.
    pub intent_id: IntentId,
    /// Who asks.
    pub escalated_by: String,
    /// Whose key it did so with; `None` where nobody noted that.
    #[serde(default)]
    pub escalated_by_principal: Option<String>,
    /// The person who is to answer, and nobody else.
    pub assigned_to: Option<String>,
    /// Why.
    pub reason: String,
    /// How much it matters.
    pub priority: Weight,
    /// How soon.
    pub urgency: Weight,
    /// What helps whoever answers; the client's own object.
    pub context: Map<String, Value>,
    /// What has become of it.
    pub status: EscalationStatus,
    /// Who answered.
    pub resolved_by: Option<String>,
    /// When.
    pub resolved_at: Option<Timestamp>,
    /// What.
    pub resolution: Option<String>,
    /// What it said about that.
    pub resolution_notes: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What is asked for in an escalation.
#[derive(Debug, Clone, Default)]
pub struct EscalationAsk {
    /// Why.
    pub reason: String,
    /// How much it matters.
    pub priority: Weight,
    /// How soon.
    pub urgency: Weight,
    /// What helps whoever answers.
    pub context: Map<String, Value>,
    /// The person who is to answer.
    pub assigned_to: Option<String>,
}

/// Makes an escalation; `waiting` are those of the intent that nobody has answered.
///
/// # Errors
/// No reason, or one that is too long; a context over its limit; too many that wait.
pub fn escalate(
    ask: EscalationAsk,
    intent_id: IntentId,
    (by, principal): (&str, &str),
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
        escalated_by: by.to_owned(),
        escalated_by_principal: Some(principal.to_owned()),
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

/// The refusal of an addressee who is nobody's person: the same whether there is such a principal.
#[must_use]
pub fn no_person(member: &str) -> Refusal {
    let message =
        format!("`{member}` names nobody who is known here as a person (a principal of the kind `human`).");
    Refusal::field(Code::Unprocessable, member, "unknown", message)
}

/// Who wants to answer an escalation, and by what right.
#[derive(Debug, Clone, Copy)]
pub struct Answerer<'a> {
    /// Under what name.
    pub agent: &'a str,
    /// Whose key it is.
    pub principal: &'a str,
    /// What kind of being that is.
    pub kind: Kind,
    /// Where the name stands with the intent.
    pub standing: Standing,
    /// On what the key rests.
    pub authority: Option<&'a Authority>,
}

impl Answerer<'_> {
    /// Whether it is this person, with a key of its own: nobody answers in a person's name (design §3).
    fn is_person(&self) -> bool {
        self.kind == Kind::Human && self.agent == self.principal
    }

    /// Whether it may know of the escalation: it can read the intent, or is the one who is asked.
    #[must_use]
    pub fn sees(&self, escalation: &Escalation) -> bool {
        self.standing.reaches(Level::Read) || self.is_addressee(escalation)
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
    /// The escalation, answered. The same answer of the same once more changes nothing.
    ///
    /// # Errors
    /// The answerer may not; it is answered already; there is no answer, or a text is too long.
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
