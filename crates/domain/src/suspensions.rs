//! Suspensions (RFC-0025): an intent waits for a person's answer, for as long as its asker says.
//!
//! The question stands in the intent's state, under [`MEMBER`]: there the OpenIntent SDK writes it, and there it looks for what
//! came of it. What it says is [`Asked`] (`reading.rs`); how it is put before a person, as a binding moment, and what an answer to
//! that is worth, `answers.rs`. A [`Suspension`] is what has become of it, and [`Suspension::after`] the intent afterwards.

mod answers;
mod reading;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::authority::Authority;
use crate::clock::{Timestamp, naive};
use crate::ids::{IntentId, MomentId};
use crate::intents::{Intent, IntentStatus};
use crate::limits::{STATE_BYTES, SUSPENSION_ROOM};
use crate::patch::{Change, Op, Patch};
use crate::refusal::{Code, Refusal};

pub use self::answers::Answer;
pub use self::reading::{Asked, ResponseType, SuspensionChoice};

/// The member of an intent's state that a question stands under.
pub const MEMBER: &str = "_suspension";

/// What follows when nobody answers in time (RFC-0025 §6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SuspensionFallback)]
pub enum FallbackPolicy {
    /// The asker hears that nobody answered; the intent stays suspended until somebody decides what becomes of it.
    #[default]
    Fail,
    /// The asker goes on with the value that it has brought.
    CompleteWithFallback,
    /// The same, under another name.
    UseDefaultAndContinue,
}

impl FallbackPolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Fail, Self::CompleteWithFallback, Self::UseDefaultAndContinue];

    /// The policy as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::CompleteWithFallback => "complete_with_fallback",
            Self::UseDefaultAndContinue => "use_default_and_continue",
        }
    }

    /// Reads a policy; `None` when there is no such policy.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}

/// What has become of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SuspensionState {
    /// It waits for its answer.
    Open,
    /// It was answered.
    Responded,
    /// Nobody answered in time.
    Expired,
    /// It was called off: refused, taken back, or no longer of use.
    Cancelled,
}

impl SuspensionState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Open, Self::Responded, Self::Expired, Self::Cancelled];

    /// The state as it is written; after the end it is the SDK's `resolution`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Responded => "responded",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads a state; `None` when there is no such state.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}

/// A question that an intent waits with, or has waited with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspension {
    /// The intent.
    pub intent_id: IntentId,
    /// The asker's id of it.
    pub id: String,
    /// Its place among the intent's, from 1.
    pub n: i64,
    /// Who asks.
    pub asked_by: String,
    /// Whose key it does so with; `None` where nobody noted that.
    pub asked_by_principal: Option<String>,
    /// The question as it was put before a person.
    pub moment_id: Option<MomentId>,
    /// Why it was put before nobody.
    pub unasked: Option<String>,
    /// What became of it when that was last written down.
    pub state: SuspensionState,
    /// What follows when nobody answers.
    pub fallback: FallbackPolicy,
    /// When it was asked.
    pub created_at: Timestamp,
    /// When the fallback counts.
    pub expires_at: Option<Timestamp>,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
    /// Who answered.
    pub responded_by: Option<String>,
    /// Why it was called off.
    pub end_reason: Option<String>,
}

/// How a question ends.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// With an answer.
    Responded {
        /// The answer, as the asker gets it.
        value: Value,
        /// Whose.
        by: String,
        /// What else its surface says.
        metadata: Option<Map<String, Value>>,
        /// On what the key of the answer rested.
        authority: Option<Authority>,
    },
    /// Nobody answered in time.
    Expired,
    /// It was called off; a stable word says why.
    Cancelled(&'static str),
    /// Somebody gives the intent another status, and with that calls the question off.
    Overtaken,
}

impl End {
    /// What the question is then.
    #[must_use]
    pub fn state(&self) -> SuspensionState {
        match self {
            Self::Responded { .. } => SuspensionState::Responded,
            Self::Expired => SuspensionState::Expired,
            Self::Cancelled(_) | Self::Overtaken => SuspensionState::Cancelled,
        }
    }

    /// Why it was called off.
    #[must_use]
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Responded { .. } | Self::Expired => None,
            Self::Cancelled(reason) => Some(reason),
            Self::Overtaken => Some("status_changed"),
        }
    }
}

/// An intent after the end of its question: first its state changes, then, unless it stays as it is, its status.
#[derive(Debug, Clone, PartialEq)]
pub struct After {
    /// The change of its state.
    pub change: Change,
    /// The intent with that.
    pub patched: Intent,
    /// The intent as it goes on; `None` when it stays suspended, or was not.
    pub resumed: Option<Intent>,
}

impl After {
    /// The intent at the end of it.
    #[must_use]
    pub fn intent(&self) -> &Intent {
        self.resumed.as_ref().unwrap_or(&self.patched)
    }
}

impl Suspension {
    /// A new question of an intent, its `n`th.
    #[must_use]
    pub fn new(
        asked: &Asked,
        (intent_id, n): (IntentId, i64),
        (by, principal): (&str, &str),
        now: Timestamp,
    ) -> Self {
        Self {
            intent_id,
            id: asked.id.clone(),
            n,
            asked_by: by.to_owned(),
            asked_by_principal: Some(principal.to_owned()),
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

    /// Whether somebody asks it, by this name or with a key of its own under another.
    #[must_use]
    pub fn is_asked_by(&self, name: &str) -> bool {
        self.asked_by == name || self.asked_by_principal.as_deref() == Some(name)
    }

    /// Whether its time is over and nobody has written that down yet.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.state == SuspensionState::Open && self.expires_at.is_some_and(|at| at <= now)
    }

    /// What has become of it at this moment.
    #[must_use]
    pub fn state_at(&self, now: Timestamp) -> SuspensionState {
        if self.is_due(now) { SuspensionState::Expired } else { self.state }
    }

    /// As it is written down at its end.
    #[must_use]
    pub fn ended(&self, end: &End, now: Timestamp) -> Self {
        let (responded_by, end_reason) = match end {
            End::Responded { by, .. } => (Some(by.clone()), None),
            End::Expired => (None, None),
            End::Cancelled(_) | End::Overtaken => (None, end.reason().map(str::to_owned)),
        };
        // What time did was true when it was due.
        let at = self.expires_at.filter(|_| *end == End::Expired).unwrap_or(now);
        Self { state: end.state(), ended_at: Some(at), responded_by, end_reason, ..self.clone() }
    }

    /// The intent after the end of its question. The answer goes into its state, where the asker looks for it.
    ///
    /// # Errors
    /// As [`Intent::patched`] and [`Intent::moved`].
    pub fn after(&self, intent: &Intent, end: &End, strict: bool, now: Timestamp) -> Result<After, Refusal> {
        let mut record = match intent.state.get(MEMBER) {
            Some(Value::Object(record)) => record.clone(),
            _ => Map::from_iter([("id".to_owned(), json!(self.id))]),
        };
        let mut put = |member: &str, value: Value| record.insert(member.to_owned(), value);
        put("resolution", json!(end.state().as_str()));
        match end {
            End::Responded { value, by, metadata, .. } => {
                put("response", value.clone());
                put("responded_by", json!(by));
                // In the asker's own form: the SDK reads it as it stands (contract 3.6).
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
        let patch = Patch { op: Op::Set, path: MEMBER.to_owned(), value: Value::Object(record) };
        let change = Change::Patches { patches: vec![patch] };
        let patched = intent.patched(&change, now)?;
        let stays = *end == End::Overtaken || *end == End::Expired && self.fallback == FallbackPolicy::Fail;
        let goes_on = !stays && intent.status == IntentStatus::SuspendedAwaitingInput;
        let resumed = goes_on.then(|| patched.moved(IntentStatus::Active, strict, now)).transpose()?;
        Ok(After { change, patched, resumed })
    }

    /// The intent as who reads it finds it: the instant the question's time is over, what follows has happened. `None`: as it is
    /// stored.
    #[must_use]
    pub fn seen(&self, intent: &Intent, strict: bool, now: Timestamp) -> Option<Intent> {
        let at = self.expires_at.filter(|_| self.is_due(now))?;
        let after = self.after(intent, &End::Expired, strict, at.max(intent.updated_at)).ok()?;
        Some(after.intent().clone())
    }
}

/// The question that a change of a state puts there, in the way in which the SDK does: the whole of it, without an answer.
#[must_use]
pub fn question_in(change: &Change) -> Option<&Map<String, Value>> {
    let value = match change {
        Change::Patches { patches } => patches.iter().rev().find_map(|patch| {
            let whole = patch.path.split('/').filter(|part| !part.is_empty()).eq([MEMBER]);
            (patch.op == Op::Set && whole).then_some(&patch.value)
        }),
        Change::Merge { state } => state.get(MEMBER),
    };
    value?.as_object().filter(|record| is_open(record))
}

/// Whether a record is a question without an answer.
fn is_open(record: &Map<String, Value>) -> bool {
    record.contains_key("question") && !record.contains_key("resolution")
}

/// Whether the state has a question that waits for its answer.
#[must_use]
pub fn waits(state: &Map<String, Value>) -> bool {
    state.get(MEMBER).and_then(Value::as_object).is_some_and(is_open)
}

/// Requires that a change which asks nothing leaves the question and what came of it alone: only the server writes an answer,
/// because only it knows whose it is. What is over may be taken away. While a question waits, room for its answer stays free.
///
/// # Errors
/// [`Code::InvalidTransition`]; [`Code::TooLarge`].
pub fn check_left_alone(before: &Map<String, Value>, after: &Map<String, Value>) -> Result<(), Refusal> {
    let waits = waits(before);
    if before.get(MEMBER) != after.get(MEMBER) && (waits || after.contains_key(MEMBER)) {
        return Err(Refusal::new(
            Code::InvalidTransition,
            format!(
                "`{MEMBER}` is the question that the intent waits with and what came of it, which the server writes. Answer with \
                 POST …/suspend/respond; ask by putting a whole question there while the intent is suspended, or with \
                 POST …/suspend."
            ),
        ));
    }
    if waits { check_room(after) } else { Ok(()) }
}

/// Requires that the answer to a question will have room in the state.
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
