//! State transitions of a moment (binding moment §6).
//!
//! ```text
//! open          an option, an own answer    → resolved
//! open          the question is refused     → deliberating    open → withdrawn, expired
//! deliberating  words of both               → deliberating
//! deliberating  a question takes its place  → superseded      deliberating → closed
//! superseded    that one ends, and the objection is not settled → deliberating
//! ```
//!
//! Each operation takes the stored moment and returns the new one with its version incremented. Expiry takes effect
//! by time alone: a due question has expired, whether this is recorded ([`Moment::expire`]) or not. `asking.rs`
//! creates moments; `answering.rs` checks and records answers.

use super::resolution::{ResolutionKind, check_text};
use super::{Decider, Escalation, Moment, MomentState, Settled};
use crate::clock::Timestamp;
use crate::refusal::{Code, Refusal};

/// Kind of a contribution to a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WordKind {
    /// The principal asks for more detail; the question stays open.
    DetailAsked,
    /// The agent gives detail that was asked for.
    Detail,
    /// The agent deliberates.
    Deliberation,
    /// The principal replies to the deliberation.
    Reply,
}

impl WordKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::DetailAsked, Self::Detail, Self::Deliberation, Self::Reply];

    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DetailAsked => "detail_asked",
            Self::Detail => "detail",
            Self::Deliberation => "deliberation",
            Self::Reply => "reply",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Author of a contribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker<'a> {
    /// An agent, by name.
    Agent(&'a str),
    /// A person, with their credentials.
    Principal(&'a Decider<'a>),
}

impl Moment {
    /// Returns a copy with the version incremented.
    pub(super) fn next(&self) -> Self {
        Self { version: self.version + 1, ..self.clone() }
    }

    fn ended(&self, state: MomentState, reason: Option<String>, at: Timestamp) -> Self {
        // A moment scrubbed during deliberation has new texts at its end, so it must be scrubbed again.
        Self { state, end_reason: reason, ended_at: Some(at), scrubbed_at: None, ..self.next() }
    }

    /// Returns the state at this time; a due expiry counts even if not recorded.
    #[must_use]
    pub fn state_at(&self, now: Timestamp) -> MomentState {
        let due = self.state == MomentState::Open && self.expires_at.is_some_and(|at| at <= now);
        if due { MomentState::Expired } else { self.state }
    }

    /// Records a contribution: a request for detail, the detail, a deliberation or a reply; none resolves the moment.
    ///
    /// # Errors
    /// [`Code::NotThePrincipal`], [`Code::Forbidden`] for another agent, [`Code::MomentNotOpen`],
    /// [`Code::InvalidTransition`] for detail that nobody asked for, and errors of [`check_text`].
    pub fn word(&self, by: Speaker<'_>, text: &str, now: Timestamp) -> Result<(Self, WordKind), Refusal> {
        match by {
            Speaker::Agent(agent_id) => self.require_agent(agent_id)?,
            Speaker::Principal(decider) => self.may_decide(decider, now)?,
        }
        check_text("text", text)?;
        let mut next = self.next();
        let kind = match (self.state_at(now), by) {
            (MomentState::Open, Speaker::Principal(_)) => {
                next.detail_asked_at = self.detail_asked_at.or(Some(now));
                WordKind::DetailAsked
            }
            (MomentState::Open, Speaker::Agent(_)) if self.detail_asked_at.is_some() => WordKind::Detail,
            (MomentState::Open, Speaker::Agent(_)) => {
                return Err(Refusal::new(
                    Code::InvalidTransition,
                    "Your principal has not asked for detail: it is there for who wants it, and not pushed (binding moment \
                     §5.4). To put the question otherwise, withdraw it and ask anew.",
                ));
            }
            (MomentState::Deliberating, Speaker::Agent(_)) => {
                next.deliberated_at = self.deliberated_at.or(Some(now));
                WordKind::Deliberation
            }
            (MomentState::Deliberating, Speaker::Principal(_)) => WordKind::Reply,
            _ => return Err(self.not_open(now)),
        };
        if next.state == MomentState::Deliberating {
            (next.quiet_since, next.scrubbed_at) = (Some(now), None);
        }
        Ok((next, kind))
    }

    /// Records the first view by an addressed principal; `None` if already recorded, or for any other viewer.
    #[must_use]
    pub fn view(&self, by: &Decider<'_>, now: Timestamp) -> Option<Self> {
        let first = self.first_viewed_at.is_none() && self.may_decide(by, now).is_ok();
        first.then(|| Self { first_viewed_at: Some(now), ..self.next() })
    }

    /// Withdraws the agent's question, or the deliberation it began; a refused question cannot be withdrawn, because
    /// that would bypass the objection.
    ///
    /// # Errors
    /// [`Code::Forbidden`] for another agent; [`Code::MomentNotOpen`], [`Code::InvalidTransition`] for a refused question.
    pub fn withdraw(&self, agent_id: &str, reason: Option<String>, now: Timestamp) -> Result<Self, Refusal> {
        self.require_agent(agent_id)?;
        reason.as_deref().map_or(Ok(()), |reason| check_text("reason", reason))?;
        match self.state_at(now) {
            MomentState::Deliberating if self.is_unsettled_veto() => Err(Refusal::new(
                Code::InvalidTransition,
                "Your principal has refused this question, and it cannot be taken back: answer the objection. Deliberate, then \
                 ask anew with `supersedes`; your principal can also close it.",
            )),
            MomentState::Open | MomentState::Deliberating => {
                Ok(self.ended(MomentState::Withdrawn, reason, now))
            }
            _ => Err(self.not_open(now)),
        }
    }

    /// Withdraws the moment because its job or intent has ended; `None` if it is over, or was refused: an objection
    /// outlives the job.
    #[must_use]
    pub fn lose_cause(&self, reason: &str, now: Timestamp) -> Option<Self> {
        let ends = !self.state_at(now).is_terminal() && !self.is_unsettled_veto();
        ends.then(|| self.ended(MomentState::Withdrawn, Some(reason.to_owned()), now))
    }

    /// Records that the question has expired, as of its expiry time; `None` if it has not.
    #[must_use]
    pub fn expire(&self, now: Timestamp) -> Option<Self> {
        let due = self.state == MomentState::Open && self.state_at(now) == MomentState::Expired;
        let at = self.expires_at.filter(|_| due)?;
        Some(self.ended(MomentState::Expired, None, at))
    }

    /// Records the escalation to the second principal; `None` if it is not due, already recorded, or too late.
    #[must_use]
    pub fn escalate(&self, now: Timestamp) -> Option<Self> {
        let due = |one: &&Escalation| one.told_at.is_none() && self.is_escalated(one, now);
        let open = self.state_at(now) == MomentState::Open;
        let escalation = self.escalation.as_ref().filter(due).filter(|_| open)?;
        let told = Escalation { told_at: Some(now), ..escalation.clone() };
        Some(Self { escalation: Some(told), ..self.next() })
    }

    /// Replaces the moment by another question of the same agent to the same principal; [`super::judge`] decides if
    /// that is allowed.
    ///
    /// # Errors
    /// [`Code::Unprocessable`] if agent or principal differ; [`Code::MomentNotOpen`], [`Code::InvalidTransition`] if
    /// the moment is not in deliberation.
    pub fn supersede(&self, next: &Self, now: Timestamp) -> Result<Self, Refusal> {
        let refused_by = self.resolution.as_ref().map(|settled| &settled.by);
        let same = self.principal_id == next.principal_id || refused_by == Some(&next.principal_id);
        if self.agent_id != next.agent_id || !same || next.supersedes != Some(self.id) || next.id == self.id {
            return Err(Refusal::field(
                Code::Unprocessable,
                "supersedes",
                "other_pair",
                "`supersedes` names a moment between others. A question takes the place of one of yours, to the same principal.",
            ));
        }
        match self.state_at(now) {
            MomentState::Deliberating => {
                Ok(Self { superseded_by: Some(next.id), ..self.ended(MomentState::Superseded, None, now) })
            }
            MomentState::Open => Err(Refusal::new(
                Code::InvalidTransition,
                "That question still waits for its answer. Withdraw it, then ask anew without `supersedes`.",
            )),
            _ => Err(self.not_open(now)),
        }
    }

    /// Closes a deliberation and settles its objection, if any.
    ///
    /// An objection can be settled only by the person that raised it or the one asked first, not by a second person
    /// asked later.
    ///
    /// # Errors
    /// [`Code::NotThePrincipal`], [`Code::MomentNotOpen`], [`Code::InvalidTransition`] for a question that waits for
    /// its answer.
    pub fn close(&self, by: &Decider<'_>, reason: Option<String>, now: Timestamp) -> Result<Self, Refusal> {
        self.may_decide(by, now)?;
        reason.as_deref().map_or(Ok(()), |reason| check_text("reason", reason))?;
        match self.state_at(now) {
            MomentState::Deliberating if self.is_unsettled_veto() && !self.may_settle(by.principal_id) => {
                Err(Refusal::new(
                    Code::NotThePrincipal,
                    "Somebody else refused this question. Only that person, or who was asked first, can close it.",
                ))
            }
            MomentState::Deliberating => {
                let settled_at = self.is_unsettled_veto().then_some(now);
                Ok(Self { veto_settled_at: settled_at, ..self.ended(MomentState::Closed, reason, now) })
            }
            MomentState::Open => Err(Refusal::new(
                Code::InvalidTransition,
                "This question waits for its answer: answer it, refuse it, or let it lapse, which approves nothing.",
            )),
            _ => Err(self.not_open(now)),
        }
    }

    /// Returns whether this is a refused question with an unsettled objection: the source of a [`super::Vetoed`].
    #[must_use]
    pub fn is_unsettled_veto(&self) -> bool {
        let refused = |settled: &Settled| settled.kind == ResolutionKind::Dialogue;
        self.veto_settled_at.is_none() && self.resolution.as_ref().is_some_and(refused)
    }

    /// Returns whether a principal may settle the objection: the one asked first, or the one that refused the question.
    ///
    /// A second person asked about something else later does not know the objection.
    #[must_use]
    pub fn may_settle(&self, principal_id: &str) -> bool {
        let refused = |settled: &Settled| settled.by == principal_id;
        self.principal_id == principal_id || self.resolution.as_ref().is_some_and(refused)
    }

    /// Settles the objection, because `by` answered ([`MomentState::Resolved`]) or closed the question that replaced this one.
    ///
    /// Applies to each earlier moment along `supersedes` ([`super::after_end`]). `None` if there is no unsettled
    /// veto, the moment is still in deliberation, or `by` may not settle it.
    #[must_use]
    pub fn settle_veto(&self, by: &str, now: Timestamp) -> Option<Self> {
        let settles =
            self.is_unsettled_veto() && self.state == MomentState::Superseded && self.may_settle(by);
        settles.then(|| {
            // The question was kept only for comparison.
            let brief = self.brief.clone().filter(|_| self.scrubbed_at.is_none());
            Self { veto_settled_at: Some(now), brief, ..self.next() }
        })
    }

    /// Returns the refused question to deliberation, because its replacement ended without settling the objection;
    /// `None` if there is no unsettled veto, or the moment is already in deliberation.
    #[must_use]
    pub fn restore_veto(&self, now: Timestamp) -> Option<Self> {
        let restores = self.is_unsettled_veto() && self.state == MomentState::Superseded;
        restores.then(|| Self {
            state: MomentState::Deliberating,
            superseded_by: None,
            ended_at: None,
            acknowledged_at: None,
            scrubbed_at: None,
            quiet_since: Some(now),
            ..self.next()
        })
    }

    /// Records that the agent knows the answer or the end, so that the contents are no longer needed; `None` if
    /// already recorded, or if the moment is in deliberation and continues.
    ///
    /// # Errors
    /// [`Code::Forbidden`] for another agent; [`Code::InvalidTransition`] if there is nothing to acknowledge.
    pub fn acknowledge(&self, agent_id: &str, now: Timestamp) -> Result<Option<Self>, Refusal> {
        self.require_agent(agent_id)?;
        match self.state_at(now) {
            MomentState::Open => Err(Refusal::new(
                Code::InvalidTransition,
                "This question is not answered yet, so there is nothing to acknowledge. Wait for the answer.",
            )),
            MomentState::Deliberating => Ok(None),
            _ if self.acknowledged_at.is_some() => Ok(None),
            _ => {
                let over = self.expire(now).unwrap_or_else(|| self.next());
                Ok(Some(Self { acknowledged_at: Some(now), ..over }))
            }
        }
    }

    /// Removes the contents: the question, its fallback text, the answer, the objection and the reasons.
    ///
    /// Ids, digest, class, hatches, kind and option stay. A refused question is kept for comparison until its objection
    /// is settled. `None` if the moment waits for its answer or is already scrubbed. The server's setting determines
    /// when to scrub; it removes the contributions as well. A deliberation continues, without its earlier texts.
    #[must_use]
    pub fn scrub(&self, now: Timestamp) -> Option<Self> {
        if self.state == MomentState::Open || self.scrubbed_at.is_some() {
            return None;
        }
        let mut bare = self.next();
        bare.brief = bare.brief.filter(|_| self.is_unsettled_veto());
        bare.fallback_text = None;
        bare.objection_response = None;
        bare.end_reason = None;
        if let Some(settled) = &mut bare.resolution {
            settled.answer = None;
            settled.objection = None;
        }
        bare.scrubbed_at = Some(now);
        Some(bare)
    }

    fn require_agent(&self, agent_id: &str) -> Result<(), Refusal> {
        if self.agent_id == agent_id {
            return Ok(());
        }
        let message = "Another agent has asked this; only that one may do so. Check who you act as.";
        Err(Refusal::new(Code::Forbidden, message))
    }
}
