//! Suspensions (RFC-0025): an intent waits for a person's answer, for as long as the asking agent specifies.
//!
//! The question is in the intent's state, under [`SUSPENSION`], where the OpenIntent SDK writes it and looks for the outcome.
//! [`Asked`] (`reading.rs`) is the parsed question; `moments/suspensions.rs` converts it to a binding moment and the
//! moment's answer back. A [`Suspension`] records the course of a question; [`Suspension::after`] computes the intent
//! after its end.

pub(crate) mod reading;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::clock::{Timestamp, naive};
use crate::identity::authority::Authority;
use crate::identity::principals::Author;
use crate::ids::{IntentId, MomentId};
use crate::limits::{STATE_BYTES, SUSPENSION_ROOM};
use crate::openintent::intents::{Intent, IntentStatus, SUSPENSION};
use crate::openintent::patch::{Change, Op, Patch};
use crate::refusal::{Code, Refusal};

pub use crate::openintent::suspensions::reading::{Asked, ResponseType, SuspensionChoice};

/// Reaction if nobody answers in time (RFC-0025 §6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SuspensionFallback)]
pub enum FallbackPolicy {
    /// The asking agent is notified; the intent stays suspended until somebody changes its status.
    #[default]
    Fail,
    /// The agent continues with the fallback value it provided.
    CompleteWithFallback,
    /// The same, under another name.
    UseDefaultAndContinue,
}

impl FallbackPolicy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Fail, Self::CompleteWithFallback, Self::UseDefaultAndContinue];

    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::CompleteWithFallback => "complete_with_fallback",
            Self::UseDefaultAndContinue => "use_default_and_continue",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}

/// State of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SuspensionState {
    /// It waits for its answer.
    Open,
    /// It was answered.
    Responded,
    /// Nobody answered in time.
    Expired,
    /// It was called off: refused, withdrawn, or obsolete.
    Cancelled,
}

impl SuspensionState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Open, Self::Responded, Self::Expired, Self::Cancelled];

    /// Returns the wire name; after the end it is the SDK's `resolution`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Responded => "responded",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}

/// A current or past question of a suspended intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspension {
    /// Intent.
    pub intent_id: IntentId,
    /// Id assigned by the asking agent.
    pub id: String,
    /// Number among the intent's questions, starting at 1.
    pub n: i64,
    /// Asking agent.
    pub asked_by: String,
    /// Principal that owned the key of the request; `None` if it was not recorded.
    pub asked_by_principal: Option<String>,
    /// Moment that presents the question to a person.
    pub moment_id: Option<MomentId>,
    /// Reason why it was presented to nobody.
    pub unasked: Option<String>,
    /// Stored state.
    pub state: SuspensionState,
    /// Reaction if nobody answers.
    pub fallback: FallbackPolicy,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time when the fallback applies.
    pub expires_at: Option<Timestamp>,
    /// End time.
    pub ended_at: Option<Timestamp>,
    /// Principal that answered.
    pub responded_by: Option<String>,
    /// Reason for calling it off.
    pub end_reason: Option<String>,
}

/// End of a question.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// It was answered.
    Responded {
        /// Answer for the asking agent.
        value: Value,
        /// Principal that answered.
        by: String,
        /// Additional data from the answering surface.
        metadata: Option<Map<String, Value>>,
        /// Origin of the key used to answer.
        authority: Option<Authority>,
    },
    /// Nobody answered in time.
    Expired,
    /// It was called off, with a stable reason code.
    Cancelled(&'static str),
    /// It was called off by a change of the intent's status.
    Overtaken,
}

impl End {
    /// Returns the resulting state of the question.
    #[must_use]
    pub fn state(&self) -> SuspensionState {
        match self {
            Self::Responded { .. } => SuspensionState::Responded,
            Self::Expired => SuspensionState::Expired,
            Self::Cancelled(_) | Self::Overtaken => SuspensionState::Cancelled,
        }
    }

    /// Returns the reason code for calling it off.
    #[must_use]
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Responded { .. } | Self::Expired => None,
            Self::Cancelled(reason) => Some(reason),
            Self::Overtaken => Some("status_changed"),
        }
    }
}

/// An intent after the end of its question: first its state changes, then possibly its status.
#[derive(Debug, Clone, PartialEq)]
pub struct After {
    /// Change of its state.
    pub change: Change,
    /// Intent with that change.
    pub patched: Intent,
    /// Intent with its new status; `None` if it stays suspended, or was not.
    pub resumed: Option<Intent>,
}

impl After {
    /// Returns the final intent.
    #[must_use]
    pub fn intent(&self) -> &Intent {
        self.resumed.as_ref().unwrap_or(&self.patched)
    }
}

impl Suspension {
    /// Creates the `n`th question of an intent.
    #[must_use]
    pub fn new(asked: &Asked, intent_id: IntentId, n: i64, by: Author<'_>, now: Timestamp) -> Self {
        Self {
            intent_id,
            id: asked.id.clone(),
            n,
            asked_by: by.agent.to_owned(),
            asked_by_principal: Some(by.principal.to_owned()),
            moment_id: None,
            unasked: None,
            state: SuspensionState::Open,
            fallback: asked.fallback,
            created_at: now,
            expires_at: asked
                .seconds
                .and_then(|seconds| now.checked_add_signed(TimeDelta::seconds(seconds.into()))),
            ended_at: None,
            responded_by: None,
            end_reason: None,
        }
    }

    /// Returns whether `name` asks it, as agent or as the principal of the key used.
    #[must_use]
    pub fn is_asked_by(&self, name: &str) -> bool {
        self.asked_by == name || self.asked_by_principal.as_deref() == Some(name)
    }

    /// Returns whether it has expired and this is not yet recorded.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.state == SuspensionState::Open && self.expires_at.is_some_and(|at| at <= now)
    }

    /// Returns the state at this time.
    #[must_use]
    pub fn state_at(&self, now: Timestamp) -> SuspensionState {
        if self.is_due(now) { SuspensionState::Expired } else { self.state }
    }

    /// Returns the suspension as recorded at its end.
    #[must_use]
    pub fn ended(&self, end: &End, now: Timestamp) -> Self {
        let (responded_by, end_reason) = match end {
            End::Responded { by, .. } => (Some(by.clone()), None),
            End::Expired => (None, None),
            End::Cancelled(_) | End::Overtaken => (None, end.reason().map(str::to_owned)),
        };
        // An expiry takes effect when it was due.
        let at = self.expires_at.filter(|_| *end == End::Expired).unwrap_or(now);
        Self { state: end.state(), ended_at: Some(at), responded_by, end_reason, ..self.clone() }
    }

    /// Returns the intent after the end of its question, with the answer in its state, where the agent looks for it.
    ///
    /// # Errors
    /// As [`Intent::patched`] and [`Intent::moved`].
    pub fn after(&self, intent: &Intent, end: &End, strict: bool, now: Timestamp) -> Result<After, Refusal> {
        let mut record = match intent.state.get(SUSPENSION) {
            Some(Value::Object(record)) => record.clone(),
            _ => Map::from_iter([("id".to_owned(), json!(self.id))]),
        };
        let mut put = |member: &str, value: Value| record.insert(member.to_owned(), value);
        put("resolution", json!(end.state().as_str()));
        match end {
            End::Responded { value, by, metadata, .. } => {
                put("response", value.clone());
                put("responded_by", json!(by));
                // In the form used by the SDK, which parses it as is (OI-3.6.3).
                put("responded_at", json!(naive(now)));
                if let Some(metadata) = metadata {
                    put("metadata", json!(metadata));
                }
            }
            End::Expired if self.fallback != FallbackPolicy::Fail => {
                let value = record.get("fallback_value").cloned().unwrap_or(Value::Null);
                record.insert("response".to_owned(), value);
            }
            End::Expired => {}
            End::Cancelled(_) | End::Overtaken => {
                put("cancelled_because", json!(end.reason()));
            }
        }
        let patch = Patch { op: Op::Set, path: SUSPENSION.to_owned(), value: Value::Object(record) };
        let change = Change::Patches { patches: vec![patch] };
        let patched = intent.patched(&change, now)?;
        let stays = *end == End::Overtaken || *end == End::Expired && self.fallback == FallbackPolicy::Fail;
        let goes_on = !stays && intent.status == IntentStatus::SuspendedAwaitingInput;
        let resumed = goes_on.then(|| patched.moved(IntentStatus::Active, strict, now)).transpose()?;
        Ok(After { change, patched, resumed })
    }

    /// Returns the intent as readers see it: a due expiry is applied even if not recorded; `None` if the stored intent applies.
    #[must_use]
    pub fn seen(&self, intent: &Intent, strict: bool, now: Timestamp) -> Option<Intent> {
        let at = self.expires_at.filter(|_| self.is_due(now))?;
        let after = self.after(intent, &End::Expired, strict, at.max(intent.updated_at)).ok()?;
        Some(after.intent().clone())
    }
}

/// Returns the question that a state change adds in the way of the SDK: the whole member, without an answer.
#[must_use]
pub fn question_in(change: &Change) -> Option<&Map<String, Value>> {
    let value = match change {
        Change::Patches { patches } => patches.iter().rev().find_map(|patch| {
            let whole = patch.path.split('/').filter(|part| !part.is_empty()).eq([SUSPENSION]);
            (patch.op == Op::Set && whole).then_some(&patch.value)
        }),
        Change::Merge { state } => state.get(SUSPENSION),
    };
    value?.as_object().filter(|record| is_open(record))
}

/// Returns whether a record is a question without an answer.
fn is_open(record: &Map<String, Value>) -> bool {
    record.contains_key("question") && !record.contains_key("resolution")
}

/// Returns whether the state has a question that waits for its answer.
#[must_use]
pub fn waits(state: &Map<String, Value>) -> bool {
    state.get(SUSPENSION).and_then(Value::as_object).is_some_and(is_open)
}

/// Requires that a change which asks nothing leaves the question and its outcome alone.
///
/// Only the server writes an answer, because only it knows the author. A finished question may be removed. While a
/// question waits, room for its answer is reserved.
///
/// # Errors
/// [`Code::InvalidTransition`]; [`Code::TooLarge`].
pub fn check_left_alone(before: &Map<String, Value>, after: &Map<String, Value>) -> Result<(), Refusal> {
    let waits = waits(before);
    if before.get(SUSPENSION) != after.get(SUSPENSION) && (waits || after.contains_key(SUSPENSION)) {
        return Err(Refusal::new(
            Code::InvalidTransition,
            format!(
                "`{SUSPENSION}` is the question that the intent waits with and what came of it, which the server writes. Answer with \
                 POST …/suspend/respond; ask by putting a whole question there while the intent is suspended, or with \
                 POST …/suspend."
            ),
        ));
    }
    if waits { check_room(after) } else { Ok(()) }
}

/// Requires that the state has room for the answer to a question.
///
/// # Errors
/// [`Code::TooLarge`].
pub fn check_room(state: &Map<String, Value>) -> Result<(), Refusal> {
    let bytes = serde_json::to_string(state).map_or(0, |text| text.len());
    if bytes + SUSPENSION_ROOM <= STATE_BYTES {
        return Ok(());
    }
    let most = STATE_BYTES - SUSPENSION_ROOM;
    let message = format!(
        "The state would have {bytes} bytes. While the intent waits for an answer, which is written there, it has at most {most}."
    );
    Err(Refusal::field(Code::TooLarge, "state", "too_large", message))
}
