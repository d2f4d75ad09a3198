//! Answering a moment (binding moment §6.3, §11.4): permission, at most one answer, and the refusals for late answers.

use super::resolution::{Resolution, ResolutionKind};
use super::{Decider, Escalation, Moment, MomentState, Settled};
use crate::clock::{Timestamp, rfc3339};
use crate::identity::authority;
use crate::identity::principals::PrincipalKind;
use crate::refusal::{Code, Refusal};

/// Outcome of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// The first answer: it settles the moment.
    First(Moment),
    /// A retry: the same person gave the same answer before, and the moment is unchanged.
    Again(Moment),
}

/// Current state of the moment's job and intent; `None` if it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Circumstances<'a> {
    /// Status of the job.
    pub job_status: Option<&'a str>,
    /// Status of the intent.
    pub intent_status: Option<&'a str>,
}

impl Moment {
    /// Returns whether a principal is asked at this time: the addressed one, or the second one if the escalation came
    /// due before the question was settled.
    #[must_use]
    pub fn is_addressed_to(&self, principal_id: &str, now: Timestamp) -> bool {
        let second =
            |escalation: &Escalation| escalation.to == principal_id && self.is_escalated(escalation, now);
        self.principal_id == principal_id || self.escalation.as_ref().is_some_and(second)
    }

    pub(super) fn is_escalated(&self, escalation: &Escalation, now: Timestamp) -> bool {
        let settled_at = self.resolution.as_ref().map(|settled| settled.at).or(self.ended_at);
        escalation.at <= now && settled_at.is_none_or(|at| escalation.at <= at)
    }

    /// Requires that the caller may answer, reply and close: a person asked, with a key of their own that acts for nobody else.
    ///
    /// Agents, services and admins may not (binding moment §11.4), nor may a third party that made the person's key.
    ///
    /// # Errors
    /// [`Code::NotThePrincipal`].
    pub fn may_decide(&self, by: &Decider<'_>, now: Timestamp) -> Result<(), Refusal> {
        let not_own = authority::fault(by.authority);
        let fault = if by.kind != PrincipalKind::Human {
            "this key is not a person's. Agents and services cannot decide, whatever their scopes"
        } else if !by.as_itself {
            "this request speaks for an agent. Decide as yourself: with your own key, and without X-Agent-ID"
        } else if !self.is_addressed_to(by.principal_id, now) {
            "somebody else is asked. Nobody can decide in another's place"
        } else if let Some(fault) = &not_own {
            fault
        } else {
            return Ok(());
        };
        Err(Refusal::new(
            Code::NotThePrincipal,
            format!("Only the person who is asked may do that, and {fault} (binding moment §11.4)."),
        ))
    }

    /// Returns whether the same person gave this answer before.
    ///
    /// A scrubbed moment only keeps the option; an answer in words is then not recognised as a retry.
    #[must_use]
    pub fn is_retry(&self, by: &Decider<'_>, resolution: &Resolution) -> bool {
        self.resolution.as_ref().is_some_and(|settled| {
            let same = match resolution {
                Resolution::Option { option_idx } => settled.option_idx == Some(*option_idx),
                Resolution::FreeText { answer } => settled.answer.as_ref() == Some(answer),
                Resolution::Dialogue { objection } => settled.objection.as_ref() == Some(objection),
            };
            settled.by == by.principal_id && settled.kind == resolution.kind() && same
        })
    }

    /// Records the principal's answer to the question with the digest they saw.
    ///
    /// An option or an own answer resolves it; refusing the question starts deliberation, even if circumstances have changed.
    ///
    /// # Errors
    /// [`Code::NotThePrincipal`], [`Code::DigestMismatch`], [`Code::MomentNotOpen`], [`Code::CircumstancesChanged`],
    /// and errors of [`Resolution::check`].
    pub fn resolve(
        &self,
        by: &Decider<'_>,
        digest: &str,
        resolution: Resolution,
        found: Circumstances<'_>,
        now: Timestamp,
    ) -> Result<Answered, Refusal> {
        self.may_decide(by, now)?;
        if self.digest.as_deref().is_some_and(|own| own != digest) {
            return Err(Refusal::new(
                Code::DigestMismatch,
                "The digest is not that of this question, so it is not the one that was shown. Read it again, and answer with \
                 the digest that it has.",
            ));
        }
        if self.is_retry(by, &resolution) {
            return Ok(Answered::Again(self.clone()));
        }
        let Some(brief) = self.brief.as_ref().filter(|_| self.state_at(now) == MomentState::Open) else {
            return Err(self.not_open(now));
        };
        resolution.check(brief)?;
        let kind = resolution.kind();
        if kind != ResolutionKind::Dialogue {
            self.require_fresh(found)?;
        }
        let (option_idx, answer, objection) = match resolution {
            Resolution::Option { option_idx } => (Some(option_idx), None, None),
            Resolution::FreeText { answer } => (None, Some(answer), None),
            Resolution::Dialogue { objection } => (None, None, Some(objection)),
        };
        let (authority, key_id, via) = (by.authority.cloned(), by.key_id, by.via);
        let by = by.principal_id.to_owned();
        let settled = Settled { kind, option_idx, answer, objection, by, key_id, via, authority, at: now };
        let refused = kind == ResolutionKind::Dialogue;
        let state = if refused { MomentState::Deliberating } else { MomentState::Resolved };
        let ended_at = (!refused).then_some(now);
        let quiet_since = refused.then_some(now);
        Ok(Answered::First(Self { state, resolution: Some(settled), ended_at, quiet_since, ..self.next() }))
    }

    /// Requires that job and intent still have the statuses that the question depends on.
    fn require_fresh(&self, found: Circumstances<'_>) -> Result<(), Refusal> {
        let stale =
            |needed: &Option<String>, is: Option<&str>| needed.as_deref().is_some_and(|one| is != Some(one));
        let noun = if stale(&self.valid_while.job_status, found.job_status) {
            "job"
        } else if stale(&self.valid_while.intent_status, found.intent_status) {
            "intent"
        } else {
            return Ok(());
        };
        Err(Refusal::new(
            Code::CircumstancesChanged,
            format!(
                "The {noun} is no longer in the state that this question was asked for, so an answer would not fit. Refuse the \
                 question, or let the agent ask anew."
            ),
        ))
    }

    /// Builds the refusal of an answer to a moment that is not open, with its state, time and principal.
    #[must_use]
    pub fn not_open(&self, now: Timestamp) -> Refusal {
        let answer = self.resolution.as_ref().map(|settled| (named(&settled.by), rfc3339(settled.at)));
        let (who, when) = answer.unwrap_or_else(|| {
            let at = self.ended_at.or(self.expires_at).unwrap_or(self.created_at);
            ("its principal".to_owned(), rfc3339(at))
        });
        let ended = rfc3339(self.ended_at.unwrap_or(now));
        let what = match self.state_at(now) {
            // The moment is open but cannot be answered: its question could not be shown to anybody.
            MomentState::Open if self.brief.is_none() => {
                "This question cannot be read as it is stored, so it takes no answer. Let it lapse, which approves nothing; the \
                 agent can withdraw it and ask anew."
                    .to_owned()
            }
            MomentState::Open => "This question waits for its answer.".to_owned(),
            MomentState::Deliberating if self.resolution.is_some() => {
                format!(
                    "{who} refused this question at {when}. Deliberate, or close it; it takes no second answer."
                )
            }
            MomentState::Deliberating => {
                "This is a deliberation without a question: there is nothing to answer. Reply, or close it."
                    .to_owned()
            }
            MomentState::Resolved => {
                format!(
                    "{who} answered this question at {when}. It takes no second answer; read it to see the first."
                )
            }
            MomentState::Withdrawn => format!("This was withdrawn at {ended}. Nothing need be done."),
            MomentState::Expired => {
                format!(
                    "This question lapsed at {when} without an answer, which approves nothing. The agent can ask anew."
                )
            }
            MomentState::Superseded => {
                let next =
                    self.superseded_by.map_or_else(|| "another question".to_owned(), |id| id.to_string());
                format!("{next} took its place at {ended}. Go on there.")
            }
            MomentState::Closed => {
                format!("This deliberation was closed at {ended}. It takes no more words.")
            }
        };
        Refusal::new(Code::MomentNotOpen, what)
    }
}

/// Returns a name that is safe in a conflict message: clients match the text `lease` to detect another conflict (OI-3.5.3).
fn named(principal_id: &str) -> String {
    let odd = principal_id.to_lowercase().contains("lease");
    if odd { "Its principal".to_owned() } else { principal_id.to_owned() }
}
