//! The course of a moment (binding moment §6): what is done with it, by whom, and what comes of it.
//!
//! ```text
//! open          an option, an own answer    → resolved
//! open          the question is refused     → deliberating    open → withdrawn, expired
//! deliberating  words of both               → deliberating
//! deliberating  a question takes its place  → superseded      deliberating → closed
//! superseded    that one ends, and the objection is not settled → deliberating
//! ```
//!
//! A verb takes the moment as it is stored and gives the new one, whose version is one more. Time counts by itself: a question
//! that is due has lapsed, written down ([`Moment::expire`]) or not. How a moment begins is
//! `asking.rs`, who may answer it and how, `answering.rs`.

use super::resolution::{ResolutionKind, check_text};
use super::{Decider, Escalation, Moment, MomentState, Settled};
use crate::clock::Timestamp;
use crate::refusal::{Code, Refusal};

/// What something said on a moment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WordKind {
    /// The principal asks for more detail; the question stays open.
    DetailAsked,
    /// The agent gives detail that was asked for.
    Detail,
    /// The agent deliberates.
    Deliberation,
    /// The principal replies to that.
    Reply,
}

impl WordKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::DetailAsked, Self::Detail, Self::Deliberation, Self::Reply];

    /// The kind as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DetailAsked => "detail_asked",
            Self::Detail => "detail",
            Self::Deliberation => "deliberation",
            Self::Reply => "reply",
        }
    }

    /// Reads a kind; `None` when there is no such kind.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Who speaks on a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker<'a> {
    /// An agent, by its name.
    Agent(&'a str),
    /// A person, by their right.
    Principal(&'a Decider<'a>),
}

impl Moment {
    /// The moment with one change more.
    pub(super) fn next(&self) -> Self {
        Self { version: self.version + 1, ..self.clone() }
    }

    fn ended(&self, state: MomentState, reason: Option<String>, at: Timestamp) -> Self {
        // What was scrubbed while it was deliberated has new words at its end, and a guard that goes with it.
        Self { state, end_reason: reason, ended_at: Some(at), scrubbed_at: None, ..self.next() }
    }

    /// The state at this moment: what is due has happened.
    #[must_use]
    pub fn state_at(&self, now: Timestamp) -> MomentState {
        let due = self.state == MomentState::Open && self.expires_at.is_some_and(|at| at <= now);
        if due { MomentState::Expired } else { self.state }
    }

    /// Something is said on a moment: a request for detail, the detail, a deliberation, a reply. None of it resolves.
    ///
    /// # Errors
    /// [`Code::NotThePrincipal`], [`Code::Forbidden`] for another agent, [`Code::MomentNotOpen`], [`Code::InvalidTransition`]
    /// for detail that nobody asked for, and what [`check_text`] finds.
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

    /// One of those who are asked sees it for the first time; `None` when that is known, or the viewer is another.
    #[must_use]
    pub fn view(&self, by: &Decider<'_>, now: Timestamp) -> Option<Self> {
        let first = self.first_viewed_at.is_none() && self.may_decide(by, now).is_ok();
        first.then(|| Self { first_viewed_at: Some(now), ..self.next() })
    }

    /// The agent takes its question back, or the deliberation that it began. A refused question cannot be taken back: that
    /// would be a way around the objection.
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

    /// What the moment was about has ended: its job, its intent. `None` when the moment stays as it is: it is over, or was
    /// refused, and an objection outlives the job.
    #[must_use]
    pub fn lose_cause(&self, reason: &str, now: Timestamp) -> Option<Self> {
        let ends = !self.state_at(now).is_terminal() && !self.is_unsettled_veto();
        ends.then(|| self.ended(MomentState::Withdrawn, Some(reason.to_owned()), now))
    }

    /// Writes down that the question has lapsed, as of when it did; `None` when it has not.
    #[must_use]
    pub fn expire(&self, now: Timestamp) -> Option<Self> {
        let due = self.state == MomentState::Open && self.state_at(now) == MomentState::Expired;
        let at = self.expires_at.filter(|_| due)?;
        Some(self.ended(MomentState::Expired, None, at))
    }

    /// Writes down that the second principal is asked as well; `None` when it is not time, known, or too late.
    #[must_use]
    pub fn escalate(&self, now: Timestamp) -> Option<Self> {
        let due = |one: &&Escalation| one.told_at.is_none() && self.is_escalated(one, now);
        let open = self.state_at(now) == MomentState::Open;
        let escalation = self.escalation.as_ref().filter(due).filter(|_| open)?;
        let told = Escalation { told_at: Some(now), ..escalation.clone() };
        Some(Self { escalation: Some(told), ..self.next() })
    }

    /// Another question of the same agent to the same principal takes its place. Whether it may is [`super::judge`]'s.
    ///
    /// # Errors
    /// [`Code::Unprocessable`] when the two are not of the same pair; [`Code::MomentNotOpen`], [`Code::InvalidTransition`] when
    /// it is not deliberated.
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

    /// The principal ends a deliberation, and with it what a refusal keeps the agent from. What somebody else refused is not
    /// closed by who was only asked too.
    ///
    /// # Errors
    /// [`Code::NotThePrincipal`], [`Code::MomentNotOpen`], [`Code::InvalidTransition`] for a question that waits for its answer.
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

    /// Whether it is a refused question whose objection is not settled: what [`super::Vetoed`] is made of.
    #[must_use]
    pub fn is_unsettled_veto(&self) -> bool {
        let refused = |settled: &Settled| settled.kind == ResolutionKind::Dialogue;
        self.veto_settled_at.is_none() && self.resolution.as_ref().is_some_and(refused)
    }

    /// Whether an objection is somebody's to settle: of who was asked first, or of who refused the question. A second person
    /// who is asked something else later has not heard it.
    #[must_use]
    pub fn may_settle(&self, principal_id: &str) -> bool {
        let refused = |settled: &Settled| settled.by == principal_id;
        self.principal_id == principal_id || self.resolution.as_ref().is_some_and(refused)
    }

    /// Somebody has answered ([`MomentState::Resolved`]) or closed what took the place of this refused question: the
    /// objection is settled. For each moment before, along `supersedes` ([`super::after_end`]). `None` when it is no unsettled
    /// veto, is still deliberated, or is not theirs to settle.
    #[must_use]
    pub fn settle_veto(&self, by: &str, now: Timestamp) -> Option<Self> {
        let settles =
            self.is_unsettled_veto() && self.state == MomentState::Superseded && self.may_settle(by);
        settles.then(|| {
            // The question was only kept to be compared with.
            let brief = self.brief.clone().filter(|_| self.scrubbed_at.is_none());
            Self { veto_settled_at: Some(now), brief, ..self.next() }
        })
    }

    /// What took the place of this refused question has ended, and the objection is not settled by that: it is deliberated
    /// again, as if nothing had been asked. `None` when it is no unsettled veto, or is deliberated.
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

    /// The agent has the answer, or knows of the end: the contents are no longer needed. `None` when that is known, or there is
    /// more to come because the question was refused.
    ///
    /// # Errors
    /// [`Code::Forbidden`] for another agent; [`Code::InvalidTransition`] when there is nothing to acknowledge.
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

    /// Takes the contents out: the question, what stands in for it, the answer, the objection, the reasons. Ids, digest, class,
    /// hatches, kind and option stay. A refused question itself is kept until its objection is settled, to be compared with.
    /// `None` when it waits for its answer, or is done. After how long is the server's setting; what was said on it goes with
    /// it. That is no end: what is deliberated goes on, without its words.
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
