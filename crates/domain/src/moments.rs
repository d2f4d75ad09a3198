//! Binding moments: an agent asks its human to decide, and the human chooses, answers in their own words, or refuses
//! the question itself (draft-morrison-binding-moment-envelope-00).
//!
//! A question is a [`Brief`] (`moments/brief.rs`), checked for style by `lints.rs`; an answer is a [`Resolution`]
//! (`resolution.rs`). A [`Moment`] is one question or one deliberation with its current state; `asking.rs` creates it and
//! `course.rs` has its state transitions. `veto.rs` restricts questions after a refusal (and
//! `look_alikes.rs` sees through disguised ones), `rates.rs` measures how well an
//! agent asks, `text.rs` renders a question as plain text, `suspensions.rs` converts the questions of suspended intents.
//! Keys and notifications are the server's responsibility.

pub mod answering;
mod asking;
pub mod brief;
pub mod course;
pub mod lints;
pub mod look_alikes;
mod phrases;
pub mod rates;
mod reading;
pub mod receipts;
pub mod resolution;
pub mod suspensions;
pub mod text;
pub mod veto;
mod words;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::identity::authority::Authority;
use crate::identity::principals::PrincipalKind;
use crate::ids::{IntentId, JobId, KeyId, MomentId};

pub use self::answering::{Answered, Circumstances};
pub use self::asking::check_room;
pub use self::brief::{Brief, Choice, Hatches, Malformed, Meta, Question};
pub use self::course::{Speaker, WordKind};
pub use self::lints::{Level, Lint, lint};
pub use self::resolution::{Resolution, ResolutionKind, check_text};
pub use self::veto::{Vetoed, after_end, is_same, judge, require_new};

/// Revision of the memo that moments follow; later revisions have different options and answers.
pub const PROFILE: &str = "bm-00";

/// State of a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MomentState {
    /// The question waits for its answer.
    Open,
    /// The question was refused, or there is none: agent and principal deliberate.
    Deliberating,
    /// An option was chosen, or the question was answered in the principal's own words.
    Resolved,
    /// The agent withdrew the question, or its job or intent has ended.
    Withdrawn,
    /// Nobody answered in time; this is not consent.
    Expired,
    /// Another question replaced it, with an answer to the objection.
    Superseded,
    /// The principal ended the deliberation.
    Closed,
}

impl MomentState {
    /// All states.
    pub const ALL: [Self; 7] = [
        Self::Open,
        Self::Deliberating,
        Self::Resolved,
        Self::Withdrawn,
        Self::Expired,
        Self::Superseded,
        Self::Closed,
    ];

    /// Returns the wire name.
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

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Returns whether the moment is over.
    ///
    /// Only a superseded refused question can be reopened: when its replacement ends without settling the objection.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Open | Self::Deliberating)
    }
}

/// Channel through which a person answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// The web page, logged in.
    Web,
    /// A terminal: weaker, because another program of the same user can read its output.
    Cli,
    /// A key of the person's own, over the API.
    Api,
}

impl Via {
    /// All channels.
    pub const ALL: [Self; 3] = [Self::Web, Self::Cli, Self::Api];

    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Cli => "cli",
            Self::Api => "api",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|via| via.as_str() == text)
    }
}

/// A principal that wants to answer, with its credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decider<'a> {
    /// Principal that the key belongs to.
    pub principal_id: &'a str,
    /// Kind of that principal.
    pub kind: PrincipalKind,
    /// Whether the key acts as its own principal here, and not as an agent (`X-Agent-ID`, `act_as`).
    pub as_itself: bool,
    /// Key of the request.
    pub key_id: KeyId,
    /// Channel of the request.
    pub via: Via,
    /// Origin of the key.
    pub authority: Option<&'a Authority>,
}

/// The answer to a moment: final and at most one; its texts are removed when the moment is scrubbed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// Kind of answer.
    pub kind: ResolutionKind,
    /// Index of the chosen option, if one was chosen.
    pub option_idx: Option<usize>,
    /// Answer in the principal's own words.
    pub answer: Option<String>,
    /// Objection, if the question was refused.
    pub objection: Option<String>,
    /// Principal that answered.
    pub by: String,
    /// Key used to answer.
    pub key_id: KeyId,
    /// Channel used to answer.
    pub via: Via,
    /// Origin of the key; `None` if it was not recorded.
    pub authority: Option<Authority>,
    /// Time of the answer.
    pub at: Timestamp,
}

/// Conditions on the job or the intent that must still hold for an answer to count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidWhile {
    /// Required status of the moment's job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_status: Option<String>,
    /// Required status of the moment's intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent_status: Option<String>,
}

/// Second principal to ask if the first does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Escalation {
    /// The second principal.
    pub to: String,
    /// Time of the escalation; takes effect on read.
    pub at: Timestamp,
    /// Time when the escalation was recorded and announced.
    pub told_at: Option<Timestamp>,
}

/// An agent's request, apart from the question itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MomentAsk {
    /// Asking agent.
    pub agent_id: String,
    /// Principal asked: one person, never a group (binding moment §7.4).
    pub principal_id: String,
    /// Reason for closing a hatch; required if one is closed.
    pub hatch_justification: Option<String>,
    /// Moment that the question replaces.
    pub supersedes: Option<MomentId>,
    /// Answer to the objection against that moment; shown above the question.
    pub objection_response: Option<String>,
    /// Lifetime of the question in seconds; defaults to one day.
    pub expires_in: Option<u32>,
    /// Second principal to ask if nobody answers in time.
    pub escalate_to: Option<String>,
    /// Delay before the escalation, in seconds.
    pub escalate_after: Option<u32>,
    /// Job that waits for the answer.
    pub job_id: Option<JobId>,
    /// Intent that the question concerns.
    pub intent_id: Option<IntentId>,
    /// Correlation id chosen by the agent.
    pub corr: Option<String>,
    /// Conditions for an answer to count.
    pub valid_while: ValidWhile,
    /// Text for clients that cannot show the question itself.
    pub fallback_text: Option<String>,
}

/// One question to one person, or one deliberation, with its current state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Identifier.
    pub id: MomentId,
    /// Asking agent.
    pub agent_id: String,
    /// Principal asked.
    pub principal_id: String,
    /// Escalation to a second principal.
    pub escalation: Option<Escalation>,
    /// The question; `None` once scrubbed, and for a deliberation that the agent began without one.
    pub brief: Option<Brief>,
    /// Digest of the question; kept when the question is scrubbed.
    pub digest: Option<String>,
    /// Decision class for the rates; kept.
    pub decision_class: Option<String>,
    /// Hatches for the rates; kept.
    pub hatches: Hatches,
    /// Reason for closing a hatch.
    pub hatch_justification: Option<String>,
    /// Whether the question has a calibration note; kept.
    pub has_calibration_note: bool,
    /// Conditions on the job and the intent.
    pub valid_while: ValidWhile,
    /// Job that waits for the answer.
    pub job_id: Option<JobId>,
    /// Intent that the moment concerns.
    pub intent_id: Option<IntentId>,
    /// Correlation id chosen by the agent.
    pub corr: Option<String>,
    /// Text shown where the question cannot be.
    pub fallback_text: Option<String>,
    /// Moment that this one replaced.
    pub supersedes: Option<MomentId>,
    /// Moment that replaced this one.
    pub superseded_by: Option<MomentId>,
    /// Answer to the objection against the replaced moment.
    pub objection_response: Option<String>,
    /// Stored state.
    pub state: MomentState,
    /// Creation time.
    pub created_at: Timestamp,
    /// Expiry time; a deliberation has none.
    pub expires_at: Option<Timestamp>,
    /// Time of the first view by an addressed principal.
    pub first_viewed_at: Option<Timestamp>,
    /// Time of the principal's first request for detail.
    pub detail_asked_at: Option<Timestamp>,
    /// Time of the agent's first contribution after the objection; required before it may ask again.
    pub deliberated_at: Option<Timestamp>,
    /// Time of the last contribution while deliberating; the texts are removed some time after it.
    pub quiet_since: Option<Timestamp>,
    /// The answer.
    pub resolution: Option<Settled>,
    /// End time.
    pub ended_at: Option<Timestamp>,
    /// Reason for withdrawing or closing, as text.
    pub end_reason: Option<String>,
    /// Time when the objection to this question was settled; a refused question without it is an unsettled veto.
    ///
    /// Its principal, or the person that refused it, settles it by closing the deliberation or answering the replacement.
    pub veto_settled_at: Option<Timestamp>,
    /// Time when the agent acknowledged the answer.
    pub acknowledged_at: Option<Timestamp>,
    /// Time when the contents were removed, unless new ones were added since.
    pub scrubbed_at: Option<Timestamp>,
    /// Version, incremented by each change.
    pub version: i64,
}
