//! Binding moments: an agent asks its human to decide, and the human chooses, answers in their own words, or refuses the
//! question itself (draft-morrison-binding-moment-envelope-00).
//!
//! What is asked is a [`Brief`] (`moments/brief.rs`); how it could be asked better, `lints.rs`; the answer is a [`Resolution`]
//! (`resolution.rs`). A [`Moment`] is one question, or one deliberation, with what has become of it; how it begins is `asking.rs`,
//! its verbs are `course.rs`. What a refused question keeps an agent from is `veto.rs`, how well it asks `rates.rs`, how a
//! question reads without a browser `text.rs`. Who has which key, and how anybody is told, is the server's.

pub mod answering;
mod asking;
pub mod brief;
mod carried;
pub mod course;
pub mod lints;
mod phrases;
pub mod rates;
mod reading;
pub mod resolution;
pub mod text;
pub mod veto;
mod words;

use serde::{Deserialize, Serialize};

use crate::authority::Authority;
use crate::clock::Timestamp;
use crate::ids::{IntentId, JobId, KeyId, MomentId};
use crate::principals::Kind;

pub use self::answering::{Answered, Circumstances};
pub use self::asking::check_room;
pub use self::brief::{Brief, Choice, Hatches, Malformed, Meta, Question};
pub use self::carried::carries_question;
pub use self::course::{Speaker, WordKind};
pub use self::lints::{Level, Lint, lint};
pub use self::resolution::{Resolution, ResolutionKind, check_text};
pub use self::veto::{Vetoed, after_end, is_same, judge, require_new};

/// The revision of the memo that moments are written by; later ones have other options and other answers.
pub const PROFILE: &str = "bm-00";

/// Where a moment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MomentState {
    /// The question waits for its answer.
    Open,
    /// The question was refused, or there is none: agent and principal talk.
    Deliberating,
    /// An option was chosen, or the question answered in the principal's own words.
    Resolved,
    /// The agent took the question back, or what it was about has ended.
    Withdrawn,
    /// Nobody answered in time. That is no consent.
    Expired,
    /// Another question has taken its place, with an answer to the objection.
    Superseded,
    /// The principal has ended the deliberation.
    Closed,
}

impl MomentState {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Open,
        Self::Deliberating,
        Self::Resolved,
        Self::Withdrawn,
        Self::Expired,
        Self::Superseded,
        Self::Closed,
    ];

    /// The state as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Deliberating => "deliberating",
            Self::Resolved => "resolved",
            Self::Withdrawn => "withdrawn",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Closed => "closed",
        }
    }

    /// Reads a state; `None` when there is no such state.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether it is over. Only a refused question comes back, when what took its place ends without settling the objection.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Open | Self::Deliberating)
    }
}

/// Through what a person answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// The page, logged in.
    Web,
    /// A terminal: weaker, because a program of the same user can read what the person reads there.
    Cli,
    /// A key of the person's own, over the API.
    Api,
}

impl Via {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Web, Self::Cli, Self::Api];

    /// The way as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Cli => "cli",
            Self::Api => "api",
        }
    }

    /// Reads a way; `None` when there is no such way.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|via| via.as_str() == text)
    }
}

/// Whoever wants to answer, and by what right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decider<'a> {
    /// The principal whose key it is.
    pub principal_id: &'a str,
    /// What kind of being that principal is.
    pub kind: Kind,
    /// Whether the key speaks for its own principal here, and for no agent (`X-Agent-ID`, `act_as`).
    pub as_itself: bool,
    /// The key.
    pub key_id: KeyId,
    /// Through what.
    pub via: Via,
    /// On what the key rests.
    pub authority: Option<&'a Authority>,
}

/// The answer that a moment has: exactly one, and it stays. Its texts are gone once the moment is scrubbed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// Which of the three.
    pub kind: ResolutionKind,
    /// The option, when one was chosen.
    pub option_idx: Option<usize>,
    /// The answer in the principal's own words.
    pub answer: Option<String>,
    /// Why the question was refused.
    pub objection: Option<String>,
    /// Who answered.
    pub by: String,
    /// With which key.
    pub key_id: KeyId,
    /// Through what.
    pub via: Via,
    /// On what the key rested; `None` where nobody noted that.
    pub authority: Option<Authority>,
    /// When.
    pub at: Timestamp,
}

/// In what state the job or the intent must still be for an answer to count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidWhile {
    /// The status of the moment's job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_status: Option<String>,
    /// The status of the moment's intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent_status: Option<String>,
}

/// Whom else a moment is shown to when its principal does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Escalation {
    /// The second principal.
    pub to: String,
    /// From when on; true on read.
    pub at: Timestamp,
    /// When that was written down and told.
    pub told_at: Option<Timestamp>,
}

/// What an agent asks for besides the question itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MomentAsk {
    /// Who asks.
    pub agent_id: String,
    /// Who is asked: one person, never a group (binding moment §7.4).
    pub principal_id: String,
    /// Why a hatch is closed; needed when one is.
    pub hatch_justification: Option<String>,
    /// The moment whose place it takes.
    pub supersedes: Option<MomentId>,
    /// How the objection to that one was answered; shown above the question.
    pub objection_response: Option<String>,
    /// Seconds that the question stands; a day when nothing is said.
    pub expires_in: Option<u32>,
    /// Whom it is shown to as well when nobody answers in time.
    pub escalate_to: Option<String>,
    /// After how many seconds.
    pub escalate_after: Option<u32>,
    /// The job that waits for the answer.
    pub job_id: Option<JobId>,
    /// The intent that it is about.
    pub intent_id: Option<IntentId>,
    /// A thread of the asker's own.
    pub corr: Option<String>,
    /// When an answer no longer counts.
    pub valid_while: ValidWhile,
    /// What is shown by whoever cannot show the question itself.
    pub fallback_text: Option<String>,
}

/// One question to one person, or one deliberation, and what has become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Its id.
    pub id: MomentId,
    /// Who asks.
    pub agent_id: String,
    /// Who is asked.
    pub principal_id: String,
    /// Who is asked as well, later.
    pub escalation: Option<Escalation>,
    /// The question; `None` once it is scrubbed, and for a deliberation that the agent began without one.
    pub brief: Option<Brief>,
    /// The question's digest; stays when the question is scrubbed.
    pub digest: Option<String>,
    /// Its class, for the rates; stays.
    pub decision_class: Option<String>,
    /// Its hatches, for the rates; they stay.
    pub hatches: Hatches,
    /// Why a hatch is closed.
    pub hatch_justification: Option<String>,
    /// Whether it came with a calibration note; stays.
    pub has_calibration_note: bool,
    /// What the job and the intent must still be like.
    pub valid_while: ValidWhile,
    /// The job that waits.
    pub job_id: Option<JobId>,
    /// The intent that it is about.
    pub intent_id: Option<IntentId>,
    /// The asker's thread.
    pub corr: Option<String>,
    /// What stands in for the question where it cannot be shown.
    pub fallback_text: Option<String>,
    /// The moment whose place it took.
    pub supersedes: Option<MomentId>,
    /// The moment that took its place.
    pub superseded_by: Option<MomentId>,
    /// How the objection to the one before was answered.
    pub objection_response: Option<String>,
    /// Where it stands.
    pub state: MomentState,
    /// When it was asked.
    pub created_at: Timestamp,
    /// When it lapses; a deliberation does not.
    pub expires_at: Option<Timestamp>,
    /// When its principal first saw it.
    pub first_viewed_at: Option<Timestamp>,
    /// When its principal first asked for more detail.
    pub detail_asked_at: Option<Timestamp>,
    /// When the agent first spoke after the objection; without that it may not ask anew.
    pub deliberated_at: Option<Timestamp>,
    /// While it is deliberated: since when nobody has said anything. Its words go some time after.
    pub quiet_since: Option<Timestamp>,
    /// The answer.
    pub resolution: Option<Settled>,
    /// When it came to its end.
    pub ended_at: Option<Timestamp>,
    /// Why it was withdrawn or closed, in words.
    pub end_reason: Option<String>,
    /// When the objection to this question was settled: its principal, or who refused it, closed the deliberation, or answered
    /// the question that took its place. A refused question without this is an unsettled veto.
    pub veto_settled_at: Option<Timestamp>,
    /// When the agent said that it has the answer.
    pub acknowledged_at: Option<Timestamp>,
    /// When its contents were taken out, as far as none came since.
    pub scrubbed_at: Option<Timestamp>,
    /// Rises with each change.
    pub version: i64,
}
