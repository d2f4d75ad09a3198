//! Permits: what an agent asks to be approved before it does it (RFC-0013 calls it an approval), and who has approved.
//! A permit names an action. One action is enforced: `complete`, by policies that say so; such a permit is used up by the
//! completion. Others are records that agents go by.
//!
//! Not the approvals of envelopes' tasks (`envelopes::approvals`), nor requests for access.

mod ballot;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::check_reason;
use crate::canonical::exact;
use crate::clock::Timestamp;
use crate::governance::{CompletionMode, GovernancePolicy, Rule, Violation, refused};
use crate::ids::{IntentId, PermitId};
use crate::limits::{METADATA_BYTES, PERMIT_APPROVERS, PERMITS_WAITING, TITLE_BYTES};
use crate::refusal::{Code, Refusal};

pub use self::ballot::Ballot;

/// The action that the completion of an intent uses up.
pub const COMPLETE: &str = "complete";

/// What has become of a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = GovernanceApprovalStatus)]
pub enum PermitStatus {
    /// Not enough have approved yet.
    Pending,
    /// Enough have.
    Approved,
    /// Somebody who might have approved said no.
    Denied,
    /// Its intent ended before it was used.
    Expired,
}

impl PermitStatus {
    /// The status as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
        }
    }

    /// Reads a status; `None` when there is no such status.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Approved, Self::Denied, Self::Expired]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

/// A permit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Permit {
    /// Its id.
    pub id: PermitId,
    /// The intent.
    pub intent_id: IntentId,
    /// Who asks for it.
    pub requested_by: String,
    /// Whose key it did so with; `None` where nobody noted that.
    #[serde(default)]
    pub requested_by_principal: Option<String>,
    /// What for.
    pub action: String,
    /// Why.
    pub reason: String,
    /// What helps whoever decides; the client's own object.
    pub context: Map<String, Value>,
    /// What has become of it.
    pub status: PermitStatus,
    /// Who has approved, each once, in that order.
    pub approved_by: Vec<String>,
    /// Who decided: the last who approved, or who said no.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<Timestamp>,
    /// What it said about that.
    pub decision_notes: Option<String>,
    /// Who has used it.
    pub used_by: Option<String>,
    /// When.
    pub used_at: Option<Timestamp>,
    /// When it was asked for.
    pub created_at: Timestamp,
}

/// What is asked for in a permit.
#[derive(Debug, Clone, Default)]
pub struct PermitAsk {
    /// What for.
    pub action: String,
    /// Why.
    pub reason: String,
    /// What helps whoever decides.
    pub context: Map<String, Value>,
}

/// Asks for a permit; `waiting` are those of the intent that nobody has decided about.
///
/// # Errors
/// No action, or one that is too long; a reason or a context over its limit; too many that wait.
pub fn request(
    ask: PermitAsk,
    intent_id: IntentId,
    (by, principal): (&str, &str),
    id: PermitId,
    waiting: usize,
    now: Timestamp,
) -> Result<Permit, Refusal> {
    let action = ask.action.trim();
    if action.is_empty() || action.len() > TITLE_BYTES {
        let message = format!("`action` must have 1 to {TITLE_BYTES} bytes: what is to be approved.");
        return Err(Refusal::field(Code::InvalidRequest, "action", "length", message));
    }
    check_reason(Some(&ask.reason))?;
    check_context(&ask.context)?;
    if waiting >= PERMITS_WAITING {
        let message = format!(
            "{PERMITS_WAITING} requests for approval of this intent wait or were approved and not used, as many as may. Have some of \
             them decided or used first."
        );
        return Err(Refusal::field(Code::TooLarge, "action", "too_many", message));
    }
    Ok(Permit {
        id,
        intent_id,
        requested_by: by.to_owned(),
        requested_by_principal: Some(principal.to_owned()),
        action: action.to_owned(),
        reason: ask.reason,
        context: ask.context,
        status: PermitStatus::Pending,
        approved_by: Vec::new(),
        decided_by: None,
        decided_at: None,
        decision_notes: None,
        used_by: None,
        used_at: None,
        created_at: now,
    })
}

/// Checks what a client hands to whoever decides.
///
/// # Errors
/// It is over its limit, or has numbers that do not survive hashing.
pub fn check_context(context: &Map<String, Value>) -> Result<(), Refusal> {
    context.values().try_for_each(exact)?;
    let bytes = serde_json::to_string(context).map_or(0, |text| text.len());
    if bytes <= METADATA_BYTES {
        return Ok(());
    }
    let message = format!("`context` has {bytes} bytes, at most {METADATA_BYTES} are allowed.");
    Err(Refusal::field(Code::TooLarge, "context", "too_large", message))
}

/// Who decides about a permit, and what else decides.
#[derive(Debug, Clone, Copy)]
pub struct Judge<'a> {
    /// The agent.
    pub agent: &'a str,
    /// Whether it has admin access to the intent.
    pub admin: bool,
    /// The policy, if the intent has one.
    pub policy: &'a GovernancePolicy,
    /// Those who are assigned to the intent.
    pub assigned: &'a [String],
}

impl Judge<'_> {
    /// Requires that the judge may decide about a permit. It is one of those whom the policy names; where the policy
    /// names none, one of those who vote (with a quorum, for a completion) or an admin. Nobody approves what it has
    /// asked for itself, unless the policy says so; taking it back is not approving.
    ///
    /// # Errors
    /// [`Code::Forbidden`].
    pub fn require(&self, permit: &Permit, approves: bool) -> Result<(), Refusal> {
        let policy = self.policy;
        if !approves && permit.requested_by == self.agent {
            return Ok(());
        }
        if !policy.approvers.is_empty() {
            if !policy.approvers.iter().any(|name| name == self.agent) {
                return no("The governance policy names who approves here, and you are not among them.");
            }
        } else if votes(permit, policy) {
            if !self.assigned.iter().any(|name| name == self.agent) && (approves || !self.admin) {
                return no(
                    "The governance policy wants a quorum of those who are assigned to the intent, and you are not.",
                );
            }
        } else if !self.admin {
            return no("This needs admin access to the intent. Ask an admin of it to approve.");
        }
        if approves && permit.is_requested_by(self.agent) && !policy.allow_self_approval {
            return no(
                "Nobody approves what it has asked for itself. Have another one approve it, or ask for it to be done by \
                 somebody else.",
            );
        }
        Ok(())
    }
}

fn no(message: &str) -> Result<(), Refusal> {
    Err(Refusal::new(Code::Forbidden, message))
}

/// Whether a permit is decided by votes.
fn votes(permit: &Permit, policy: &GovernancePolicy) -> bool {
    policy.completion_mode == CompletionMode::Quorum && permit.action == COMPLETE
}

impl Permit {
    /// Whether it can be used, or become so.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.status, PermitStatus::Pending | PermitStatus::Approved) && self.used_at.is_none()
    }

    /// Whether somebody has asked for it, by this name or with a key of its own under another.
    fn is_requested_by(&self, name: &str) -> bool {
        self.requested_by == name || self.requested_by_principal.as_deref() == Some(name)
    }

    /// The approvals of it that count by this policy.
    fn counted<'a>(&'a self, policy: &'a GovernancePolicy) -> impl Iterator<Item = &'a str> {
        self.approved_by.iter().map(String::as_str).filter(move |name| {
            let named =
                policy.approvers.is_empty() || policy.approvers.iter().any(|approver| approver == name);
            named && (policy.allow_self_approval || !self.is_requested_by(name))
        })
    }

    /// Requires that nobody has decided about it.
    ///
    /// # Errors
    /// [`Code::AlreadyDecided`].
    pub fn require_pending(&self) -> Result<(), Refusal> {
        if self.status == PermitStatus::Pending {
            return Ok(());
        }
        let message =
            format!("The request is {} already; ask for approval anew if you need to.", self.status.as_str());
        Err(Refusal::new(Code::AlreadyDecided, message))
    }

    /// The permit with one more approval. Who has approved already approves only once. `others` are those of the same
    /// action that are open: with a quorum the approvals of all of them count, each agent once.
    ///
    /// # Errors
    /// It is decided; the judge may not; it has as many approvals as it can.
    pub fn approve(
        mut self,
        judge: Judge<'_>,
        others: &[Self],
        notes: Option<String>,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        judge.require(&self, true)?;
        self.require_pending()?;
        if !self.approved_by.iter().any(|name| name == judge.agent) {
            if self.approved_by.len() >= PERMIT_APPROVERS {
                let message = format!("A request has at most {PERMIT_APPROVERS} approvals.");
                return Err(Refusal::new(Code::TooLarge, message));
            }
            self.approved_by.push(judge.agent.to_owned());
            self.decided_by = Some(judge.agent.to_owned());
            self.decided_at = Some(now);
            self.decision_notes = notes;
        }
        let open = others.iter().filter(|other| other.id != self.id).chain([&self]);
        let ballot = Ballot::of(open, judge.policy, judge.assigned);
        if !votes(&self, judge.policy) || ballot.granted >= ballot.required {
            self.status = PermitStatus::Approved;
        }
        Ok(self)
    }

    /// The permit, denied.
    ///
    /// # Errors
    /// It is decided; the judge may not.
    pub fn deny(mut self, judge: Judge<'_>, notes: Option<String>, now: Timestamp) -> Result<Self, Refusal> {
        judge.require(&self, false)?;
        self.require_pending()?;
        self.status = PermitStatus::Denied;
        self.decided_by = Some(judge.agent.to_owned());
        self.decided_at = Some(now);
        self.decision_notes = notes;
        Ok(self)
    }
}

/// The permits that a completion uses up: none where the policy asks for none. `open` are the open ones of the intent for
/// the action `complete`, the oldest first.
///
/// # Errors
/// [`Code::GovernanceViolation`] by `completion_mode`.
pub fn judge_completion(
    policy: &GovernancePolicy,
    open: &[Permit],
    assigned: &[String],
) -> Result<Vec<PermitId>, Refusal> {
    match policy.completion_mode {
        CompletionMode::Auto => Ok(Vec::new()),
        CompletionMode::RequireApproval => {
            let good = open.iter().find(|permit| {
                permit.is_open()
                    && permit.action == COMPLETE
                    && permit.status == PermitStatus::Approved
                    && permit.counted(policy).next().is_some()
            });
            good.map(|permit| vec![permit.id]).ok_or_else(|| {
                unapproved(
                    policy,
                    (1, 0),
                    "The governance policy wants the completion approved. Ask with POST …/approvals and the action \
                     `complete`, and complete the intent when somebody has approved it."
                        .to_owned(),
                )
            })
        }
        CompletionMode::Quorum => {
            let ballot = Ballot::of(open, policy, assigned);
            if ballot.granted >= ballot.required {
                return Ok(ballot.permits);
            }
            let message = format!(
                "The governance policy wants the completion approved by a quorum: {} of {} have. Ask with POST …/approvals \
                 and the action `complete`; those who vote approve it, each once.",
                ballot.granted, ballot.required
            );
            Err(unapproved(policy, (ballot.required, ballot.granted), message))
        }
    }
}

fn unapproved(policy: &GovernancePolicy, (required, granted): (usize, usize), message: String) -> Refusal {
    let violation = Violation {
        rule: Rule::CompletionMode,
        mode: Some(policy.completion_mode),
        required: Some(required),
        granted: Some(granted),
    };
    refused(violation, message)
}
