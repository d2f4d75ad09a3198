//! Approvals that an agent requests before an action (RFC-0013). An approval names an
//! action. Only `complete` is enforced, if the policy demands it; the completion uses up the approval. Other approvals
//! are records for agents.
//!
//! They are unrelated to the approvals of envelopes' tasks (`envelopes::approvals`) and to requests for access.

mod ballot;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::check_reason;
use crate::canonical::exact;
use crate::clock::Timestamp;
use crate::identity::principals::Author;
use crate::ids::{ApprovalId, IntentId};
use crate::limits::{METADATA_BYTES, PERMIT_APPROVERS, PERMITS_WAITING, TITLE_BYTES};
use crate::openintent::governance::{GovernancePolicy, refused};
use crate::refusal::violation::{CompletionMode, Rule, Violation};
use crate::refusal::{Code, Refusal};

pub use crate::openintent::approvals::ballot::Ballot;

/// The action that an approval must name to be used up by the completion of an intent.
pub const COMPLETE: &str = "complete";

/// Status of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = GovernanceApprovalStatus)]
pub enum ApprovalStatus {
    /// More approvals are needed.
    Pending,
    /// Approved.
    Approved,
    /// Denied by an eligible approver.
    Denied,
    /// Its intent ended before it was used.
    Expired,
}

impl ApprovalStatus {
    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Approved, Self::Denied, Self::Expired]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

/// An approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Identifier.
    pub id: ApprovalId,
    /// Intent of the approval.
    pub intent_id: IntentId,
    /// Requesting agent.
    pub requested_by: String,
    /// Principal that owned the key of the request; `None` if it was not recorded.
    #[serde(default)]
    pub requested_by_principal: Option<String>,
    /// Action to be approved.
    pub action: String,
    /// Reason.
    pub reason: String,
    /// Context for the approvers; a client-defined object.
    pub context: Map<String, Value>,
    /// Status.
    pub status: ApprovalStatus,
    /// Agents that approved, each once, in order.
    pub approved_by: Vec<String>,
    /// Agent that decided: the last to approve, or the one to deny.
    pub decided_by: Option<String>,
    /// Time of that decision.
    pub decided_at: Option<Timestamp>,
    /// Notes on that decision.
    pub decision_notes: Option<String>,
    /// Agent that used the approval.
    pub used_by: Option<String>,
    /// Time of use.
    pub used_at: Option<Timestamp>,
    /// Creation time.
    pub created_at: Timestamp,
}

/// Request for an approval.
#[derive(Debug, Clone, Default)]
pub struct ApprovalAsk {
    /// Action to be approved.
    pub action: String,
    /// Reason.
    pub reason: String,
    /// Context for the approvers.
    pub context: Map<String, Value>,
}

/// Requests an approval; `waiting` is the number of the intent's approvals that are pending, or approved and unused.
///
/// # Errors
/// A missing or too long action, a reason or context over its limit, or too many such approvals.
pub fn request(
    ask: ApprovalAsk,
    intent_id: IntentId,
    by: Author<'_>,
    id: ApprovalId,
    waiting: usize,
    now: Timestamp,
) -> Result<Approval, Refusal> {
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
    Ok(Approval {
        id,
        intent_id,
        requested_by: by.agent.to_owned(),
        requested_by_principal: Some(by.principal.to_owned()),
        action: action.to_owned(),
        reason: ask.reason,
        context: ask.context,
        status: ApprovalStatus::Pending,
        approved_by: Vec::new(),
        decided_by: None,
        decided_at: None,
        decision_notes: None,
        used_by: None,
        used_at: None,
        created_at: now,
    })
}

/// Checks a client's context for approvers.
///
/// # Errors
/// It exceeds its limit, or has numbers that do not survive hashing.
pub fn check_context(context: &Map<String, Value>) -> Result<(), Refusal> {
    context.values().try_for_each(exact)?;
    let bytes = serde_json::to_string(context).map_or(0, |text| text.len());
    if bytes <= METADATA_BYTES {
        return Ok(());
    }
    let message = format!("`context` has {bytes} bytes, at most {METADATA_BYTES} are allowed.");
    Err(Refusal::field(Code::TooLarge, "context", "too_large", message))
}

/// Agent that decides about an approval, with the facts that its right depends on.
#[derive(Debug, Clone, Copy)]
pub struct Judge<'a> {
    /// The agent.
    pub agent: &'a str,
    /// Whether it has admin access to the intent.
    pub admin: bool,
    /// The intent's policy.
    pub policy: &'a GovernancePolicy,
    /// Agents assigned to the intent.
    pub assigned: &'a [String],
}

impl Judge<'_> {
    /// Requires that the judge may decide about an approval.
    ///
    /// Eligible are the approvers named by the policy; if it names none, the assigned agents (quorum for a
    /// completion; admins may deny too) or admins. The requester may not approve its own approval unless the policy
    /// allows it, but may always deny it.
    ///
    /// # Errors
    /// [`Code::Forbidden`].
    pub fn require(&self, approval: &Approval, approves: bool) -> Result<(), Refusal> {
        let policy = self.policy;
        if !approves && approval.requested_by == self.agent {
            return Ok(());
        }
        if !policy.approvers.is_empty() {
            if !policy.approvers.iter().any(|name| name == self.agent) {
                return no("The governance policy names who approves here, and you are not among them.");
            }
        } else if votes(approval, policy) {
            if !self.assigned.iter().any(|name| name == self.agent) && (approves || !self.admin) {
                return no(
                    "The governance policy wants a quorum of those who are assigned to the intent, and you are not.",
                );
            }
        } else if !self.admin {
            return no("This needs admin access to the intent. Ask an admin of it to approve.");
        }
        if approves && approval.is_requested_by(self.agent) && !policy.allow_self_approval {
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

/// Returns whether an approval is decided by votes.
fn votes(approval: &Approval, policy: &GovernancePolicy) -> bool {
    policy.completion_mode == CompletionMode::Quorum && approval.action == COMPLETE
}

impl Approval {
    /// Returns whether the approval can be used, or may still be approved.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.status, ApprovalStatus::Pending | ApprovalStatus::Approved) && self.used_at.is_none()
    }

    /// Returns whether `name` requested it, as agent or as the principal of the key used.
    fn is_requested_by(&self, name: &str) -> bool {
        self.requested_by == name || self.requested_by_principal.as_deref() == Some(name)
    }

    /// Returns the approvals that count under this policy.
    fn counted<'a>(&'a self, policy: &'a GovernancePolicy) -> impl Iterator<Item = &'a str> {
        self.approved_by.iter().map(String::as_str).filter(move |name| {
            let named =
                policy.approvers.is_empty() || policy.approvers.iter().any(|approver| approver == name);
            named && (policy.allow_self_approval || !self.is_requested_by(name))
        })
    }

    /// Requires that the approval is undecided.
    ///
    /// # Errors
    /// [`Code::AlreadyDecided`].
    pub fn require_pending(&self) -> Result<(), Refusal> {
        if self.status == ApprovalStatus::Pending {
            return Ok(());
        }
        let message =
            format!("The request is {} already; ask for approval anew if you need to.", self.status.as_str());
        Err(Refusal::new(Code::AlreadyDecided, message))
    }

    /// Adds the judge's approval; repeating it has no effect.
    ///
    /// `others` are the open approvals for the same action: with a quorum the approvals of all of them count, each agent once.
    ///
    /// # Errors
    /// The approval is decided, the judge may not approve, or the approval has the maximum number of approvals.
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
            self.status = ApprovalStatus::Approved;
        }
        Ok(self)
    }

    /// Denies the approval.
    ///
    /// # Errors
    /// The approval is decided, or the judge may not deny it.
    pub fn deny(mut self, judge: Judge<'_>, notes: Option<String>, now: Timestamp) -> Result<Self, Refusal> {
        judge.require(&self, false)?;
        self.require_pending()?;
        self.status = ApprovalStatus::Denied;
        self.decided_by = Some(judge.agent.to_owned());
        self.decided_at = Some(now);
        self.decision_notes = notes;
        Ok(self)
    }
}

/// Returns the approvals that a completion uses up; none if the policy requires none.
///
/// `open` are the intent's open approvals for the action `complete`, oldest first.
///
/// # Errors
/// [`Code::GovernanceViolation`] by `completion_mode`.
pub fn judge_completion(
    policy: &GovernancePolicy,
    open: &[Approval],
    assigned: &[String],
) -> Result<Vec<ApprovalId>, Refusal> {
    match policy.completion_mode {
        CompletionMode::Auto => Ok(Vec::new()),
        CompletionMode::RequireApproval => {
            let good = open.iter().find(|approval| {
                approval.is_open()
                    && approval.action == COMPLETE
                    && approval.status == ApprovalStatus::Approved
                    && approval.counted(policy).next().is_some()
            });
            good.map(|approval| vec![approval.id]).ok_or_else(|| {
                unapproved(
                    policy,
                    1,
                    0,
                    "The governance policy wants the completion approved. Ask with POST …/approvals and the action \
                     `complete`, and complete the intent when somebody has approved it."
                        .to_owned(),
                )
            })
        }
        CompletionMode::Quorum => {
            let ballot = Ballot::of(open, policy, assigned);
            if ballot.granted >= ballot.required {
                return Ok(ballot.approvals);
            }
            let message = format!(
                "The governance policy wants the completion approved by a quorum: {} of {} have. Ask with POST …/approvals \
                 and the action `complete`; those who vote approve it, each once.",
                ballot.granted, ballot.required
            );
            Err(unapproved(policy, ballot.required, ballot.granted, message))
        }
    }
}

fn unapproved(policy: &GovernancePolicy, required: usize, granted: usize, message: String) -> Refusal {
    let violation = Violation {
        rule: Rule::CompletionMode,
        mode: Some(policy.completion_mode),
        required: Some(required),
        granted: Some(granted),
    };
    refused(violation, message)
}
