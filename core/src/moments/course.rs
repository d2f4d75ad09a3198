//! The course of a moment (binding moment §6, and the state machine of ARCHITECTURE.md): what is done with it, by whom, and
//! what comes of it. A verb takes the moment as it is stored and gives the new one; the version rises with each.
//!
//! Every verb first does what time has done: a question that is due has lapsed, swept or not.

use super::resolution::Resolution;
use super::{Brief, Decider, Hatches, Moment, MomentAsk, MomentState, PROFILE};
use crate::clock::Timestamp;
use crate::ids::MomentId;
use crate::principals::Kind;
use crate::refusal::{Code, Refusal};

/// What came of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// It is the first, and now the moment's own.
    First(Moment),
    /// The same person has given the same answer before: a retry. The moment is as it was.
    Again(Moment),
}

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

/// What the moment's job and intent are like now; `None` when there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Circumstances<'a> {
    /// The job's status.
    pub job_status: Option<&'a str>,
    /// The intent's status.
    pub intent_status: Option<&'a str>,
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
    /// A question is asked. `addressee` and `second` are what kind of being the asked principal and the one to escalate to
    /// are. The veto ([`super::judge`]) is looked at apart.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] and [`Code::Unprocessable`] at the member that is wrong.
    pub fn ask(
        ask: MomentAsk,
        brief: Brief,
        (addressee, second): (Kind, Option<Kind>),
        id: MomentId,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        let _ = (addressee, second, PROFILE);
        let mut moment = Self::blank(ask, id, now);
        moment.digest = Some(brief.digest());
        moment.decision_class = brief.decision_class().map(str::to_owned);
        moment.hatches = brief.question.hatches;
        moment.has_calibration_note = brief.calibration_note().is_some();
        moment.brief = Some(brief);
        Ok(moment)
    }

    /// The agent opens a deliberation instead of a question it is not ready for (binding moment §6.1).
    ///
    /// # Errors
    /// As [`Moment::ask`].
    pub fn deliberate(
        ask: MomentAsk,
        addressee: Kind,
        id: MomentId,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        let _ = addressee;
        let moment = Self::blank(ask, id, now);
        Ok(Self { state: MomentState::Deliberating, deliberated_at: Some(now), expires_at: None, ..moment })
    }

    fn blank(ask: MomentAsk, id: MomentId, now: Timestamp) -> Self {
        Self {
            id,
            agent_id: ask.agent_id,
            principal_id: ask.principal_id,
            escalation: None,
            brief: None,
            digest: None,
            decision_class: None,
            hatches: Hatches::OPEN,
            hatch_justification: ask.hatch_justification,
            has_calibration_note: false,
            valid_while: ask.valid_while,
            job_id: ask.job_id,
            intent_id: ask.intent_id,
            corr: ask.corr,
            fallback_text: ask.fallback_text,
            supersedes: ask.supersedes,
            superseded_by: None,
            objection_response: ask.objection_response,
            state: MomentState::Open,
            created_at: now,
            expires_at: None,
            first_viewed_at: None,
            detail_asked_at: None,
            deliberated_at: None,
            resolution: None,
            ended_at: None,
            end_reason: None,
            acknowledged_at: None,
            scrubbed_at: None,
            version: 1,
        }
    }

    /// The state at this moment: what is due has happened.
    #[must_use]
    pub fn state_at(&self, now: Timestamp) -> MomentState {
        let due = self.state == MomentState::Open && self.expires_at.is_some_and(|at| at <= now);
        if due { MomentState::Expired } else { self.state }
    }

    /// Whether a principal is one of those who are asked, at this moment: the addressed one, and the second one once it is time.
    #[must_use]
    pub fn is_addressed_to(&self, principal_id: &str, now: Timestamp) -> bool {
        let second = |e: &super::Escalation| e.to == principal_id && (e.at <= now || e.told_at.is_some());
        self.principal_id == principal_id || self.escalation.as_ref().is_some_and(second)
    }

    /// Whether somebody may answer, reply and close: a person, with a key of their own, who is asked.
    ///
    /// # Errors
    /// [`Code::NotThePrincipal`].
    pub fn may_decide(&self, by: &Decider<'_>, now: Timestamp) -> Result<(), Refusal> {
        let _ = (by, now);
        Ok(())
    }

    /// Whether this answer is one that the same person has given before.
    #[must_use]
    pub fn is_retry(&self, by: &Decider<'_>, resolution: &Resolution) -> bool {
        let _ = (by, resolution);
        false
    }

    /// The principal answers the question whose digest they saw.
    ///
    /// # Errors
    /// [`Code::NotThePrincipal`], [`Code::DigestMismatch`], [`Code::MomentNotOpen`], [`Code::CircumstancesChanged`], and what
    /// [`Resolution::check`] finds.
    pub fn resolve(
        &self,
        by: &Decider<'_>,
        digest: &str,
        resolution: Resolution,
        found: Circumstances<'_>,
        now: Timestamp,
    ) -> Result<Answered, Refusal> {
        let _ = (by, digest, resolution, found, now);
        Ok(Answered::First(self.clone()))
    }

    /// Something is said on a moment: a request for detail, the detail, a deliberation, a reply. None of it resolves.
    ///
    /// # Errors
    /// [`Code::NotThePrincipal`], [`Code::MomentNotOpen`], [`Code::InvalidTransition`] for detail that nobody asked for.
    pub fn word(&self, by: Speaker<'_>, text: &str, now: Timestamp) -> Result<(Self, WordKind), Refusal> {
        let _ = (by, text, now);
        Ok((self.clone(), WordKind::Deliberation))
    }

    /// Its principal sees it for the first time; `None` when that is known, or the viewer is another.
    #[must_use]
    pub fn view(&self, by: &Decider<'_>, now: Timestamp) -> Option<Self> {
        let _ = (by, now);
        None
    }

    /// The agent takes its question back. A refused question cannot be taken back: that would be a way around the objection.
    ///
    /// # Errors
    /// [`Code::Forbidden`] for another agent; [`Code::MomentNotOpen`], [`Code::InvalidTransition`].
    pub fn withdraw(&self, agent_id: &str, reason: Option<String>, now: Timestamp) -> Result<Self, Refusal> {
        let _ = (agent_id, reason, now);
        Ok(self.clone())
    }

    /// What the moment was about has ended: its job, its intent. `None` when the moment stays as it is: it is over, or was
    /// refused, and an objection outlives the job.
    #[must_use]
    pub fn lose_cause(&self, reason: &str, now: Timestamp) -> Option<Self> {
        let _ = (reason, now);
        None
    }

    /// Writes down that the question has lapsed; `None` when it has not.
    #[must_use]
    pub fn expire(&self, now: Timestamp) -> Option<Self> {
        let _ = now;
        None
    }

    /// Writes down that the second principal is asked as well; `None` when it is not time, known, or too late.
    #[must_use]
    pub fn escalate(&self, now: Timestamp) -> Option<Self> {
        let _ = now;
        None
    }

    /// Another question of the same agent to the same principal takes its place. Whether it may is [`super::judge`]'s.
    ///
    /// # Errors
    /// [`Code::Unprocessable`] when it is not a deliberation between these two.
    pub fn supersede(&self, next: &Self, now: Timestamp) -> Result<Self, Refusal> {
        let _ = (next, now);
        Ok(self.clone())
    }

    /// The principal ends a deliberation, and with it what a refusal keeps the agent from.
    ///
    /// # Errors
    /// [`Code::NotThePrincipal`], [`Code::MomentNotOpen`], [`Code::InvalidTransition`] for a question that waits for its answer.
    pub fn close(&self, by: &Decider<'_>, reason: Option<String>, now: Timestamp) -> Result<Self, Refusal> {
        let _ = (by, reason, now);
        Ok(self.clone())
    }

    /// The agent has the answer, or knows of the end; the contents are no longer needed. `None` when that is known.
    ///
    /// # Errors
    /// [`Code::Forbidden`] for another agent; [`Code::InvalidTransition`] when there is nothing to acknowledge.
    pub fn acknowledge(&self, agent_id: &str, now: Timestamp) -> Result<Option<Self>, Refusal> {
        let _ = (agent_id, now);
        Ok(None)
    }

    /// Takes the contents out: the question, the answer, what was said. Ids, digest, class, hatches, kind and option stay.
    /// `None` when it is not over, or done. After how long is the server's setting; what was said on it goes with it.
    #[must_use]
    pub fn scrub(&self, now: Timestamp) -> Option<Self> {
        let _ = now;
        None
    }

    /// The refusal of what can no longer be answered: what became of it, by whom and when.
    #[must_use]
    pub fn not_open(&self, now: Timestamp) -> Refusal {
        let _ = now;
        Refusal::new(Code::MomentNotOpen, "This moment can no longer be answered.")
    }
}
