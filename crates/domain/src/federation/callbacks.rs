//! Callbacks (RFC-0022): how work for a peer goes on, told by who does it to who asked for it. They are facts for the log of
//! the intent there; they change no state of it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::dispatches::State;
use super::signing;
use crate::canonical::{exact, hex, sha256};
use crate::events::{Event, check_trace_id};
use crate::intents::{Intent, IntentStatus};
use crate::kinds::Kind;
use crate::limits::{IDEMPOTENCY_KEY_BYTES, PAYLOAD_BYTES};
use crate::patch::Change;
use crate::refusal::{Code, Refusal};
use crate::suspensions;

/// The member that says when a callback was signed.
pub const STAMP: &str = "timestamp";

/// What a callback tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = FederationNews)]
pub enum News {
    /// Members of the state have changed.
    StateDelta,
    /// The status has changed.
    StatusChanged,
    /// The peer's word on what was used, and that its rules were kept.
    Attestation,
    /// The budget is nearly spent.
    BudgetWarning,
    /// It is done.
    Completed,
    /// It came to nothing.
    Failed,
}

impl News {
    /// The event that it is on the log of the intent that was dispatched.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::StateDelta | Self::StatusChanged | Self::Attestation => Kind::FederationCallback,
            Self::BudgetWarning => Kind::FederationBudgetWarning,
            Self::Completed => Kind::FederationCompleted,
            Self::Failed => Kind::FederationFailed,
        }
    }

    /// Where the dispatch is after it. Whoever tells anything has taken it.
    #[must_use]
    pub fn state(self) -> State {
        match self {
            Self::Completed => State::Completed,
            Self::Failed => State::Failed,
            _ => State::Accepted,
        }
    }
}

/// What a peer tells.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[schema(as = FederationCallback)]
#[schema(example = json!({
    "dispatch_id": "disp_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "event_type": "state_delta", "state_delta": { "progress": 0.5 },
    "idempotency_key": "k1", "timestamp": "2026-11-21T08:00:00+00:00", "signature": "…"
}))]
pub struct Callback {
    /// Of which dispatch.
    pub dispatch_id: String,
    /// What.
    pub event_type: News,
    /// The particulars.
    #[schema(value_type = Option<Object>)]
    pub state_delta: Option<Map<String, Value>>,
    /// The peer's word on how it was done.
    #[schema(value_type = Option<Object>)]
    pub attestation: Option<Map<String, Value>>,
    /// The trace that it belongs to.
    pub trace_id: Option<String>,
    /// The same is heard once; without it, what says the same is.
    pub idempotency_key: Option<String>,
    /// Members of the state that were too large to be told.
    pub omitted: Option<u64>,
}

impl Callback {
    /// Checks what is told.
    ///
    /// # Errors
    /// A member that is too large, or has numbers that do not survive hashing.
    pub fn check(&self) -> Result<(), Refusal> {
        for (member, object) in [("state_delta", &self.state_delta), ("attestation", &self.attestation)] {
            let Some(object) = object else { continue };
            object.values().try_for_each(exact)?;
            let bytes = serde_json::to_string(object).map_or(0, |text| text.len());
            if bytes > PAYLOAD_BYTES / 2 {
                let message =
                    format!("`{member}` has {bytes} bytes, at most {} are allowed.", PAYLOAD_BYTES / 2);
                return Err(Refusal::field(Code::TooLarge, member, "too_large", message));
            }
        }
        self.omitted.map_or(Ok(()), |count| exact(&json!(count)))?;
        let lawful = |key: &String| {
            (1..=IDEMPOTENCY_KEY_BYTES).contains(&key.len())
                && key.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if !self.idempotency_key.as_ref().is_none_or(lawful) {
            let message = format!(
                "`idempotency_key` must have 1 to {IDEMPOTENCY_KEY_BYTES} printable ASCII characters."
            );
            return Err(Refusal::field(Code::InvalidRequest, "idempotency_key", "value", message));
        }
        Ok(())
    }

    /// What makes it the same as another one.
    #[must_use]
    pub fn key(&self, body: &Map<String, Value>) -> String {
        self.idempotency_key.clone().unwrap_or_else(|| {
            let mut bare = body.clone();
            bare.remove(STAMP);
            format!("sha256:{}", hex(&sha256(signing::canonical(&bare))))
        })
    }

    /// The trace that it names, if it can be one.
    #[must_use]
    pub fn trace(&self) -> Option<String> {
        self.trace_id.clone().filter(|id| check_trace_id(id).is_ok())
    }

    /// What the log says of it.
    #[must_use]
    pub fn payload(&self, peer: &str, remote_intent_id: Option<&str>) -> Value {
        json!({
            "dispatch_id": self.dispatch_id, "peer": peer, "remote_intent_id": remote_intent_id,
            "event_type": self.event_type, "state_delta": self.state_delta.clone().unwrap_or_default(),
            "attestation": self.attestation, "omitted": self.omitted.unwrap_or(0),
        })
    }
}

/// What there is to tell a peer about its intent here, from what has happened on its log: changes of the state together, with
/// the values that are there now, each change of the status by itself, and the end once, after which nothing is told.
/// `state` is whether the peer hears of the state at all.
#[must_use]
pub fn news(dispatch_id: &str, events: &[Event], intent: &Intent, state: bool) -> Vec<Map<String, Value>> {
    let mut told = Vec::new();
    let mut changed = BTreeSet::new();
    let mut patched = None;
    let mut statuses = Vec::new();
    for event in events.iter().filter(|event| !event.posted) {
        if event.event_type == Kind::StatePatched.wire() {
            // A question that is put before people here is no part of the work.
            let mut names = touched(event);
            names.retain(|name| name != suspensions::MEMBER);
            if !names.is_empty() {
                changed.extend(names);
                patched = Some(event.sequence);
            }
        } else if event.event_type == Kind::StatusChanged.wire() {
            let status = event.payload.get("status").and_then(Value::as_str).and_then(IntentStatus::parse);
            let Some(status) = status else { continue };
            let news = match status {
                IntentStatus::Completed => News::Completed,
                IntentStatus::Abandoned => News::Failed,
                _ => News::StatusChanged,
            };
            statuses.push((event.sequence, news, status));
            if status.is_terminal() {
                break;
            }
        }
    }
    let mut tell = |sequence: i64, news: News, delta: Value, omitted: usize| {
        let mut callback = Map::new();
        callback.insert("dispatch_id".to_owned(), json!(dispatch_id));
        callback.insert("event_type".to_owned(), json!(news));
        callback.insert("state_delta".to_owned(), delta);
        callback.insert("idempotency_key".to_owned(), json!(format!("{}-{sequence}", intent.id)));
        if omitted > 0 {
            callback.insert("omitted".to_owned(), json!(omitted));
        }
        told.push(callback);
    };
    if let Some(sequence) = patched.filter(|_| state) {
        let (delta, omitted) = delta(intent, &changed);
        tell(sequence, News::StateDelta, delta, omitted);
    }
    for (sequence, news, status) in statuses {
        tell(sequence, news, json!({ "status": status }), 0);
    }
    told
}

/// Whether a callback is the last one of its dispatch.
#[must_use]
pub fn is_last(callback: &Map<String, Value>) -> bool {
    let said = callback.get("event_type");
    [News::Completed, News::Failed].iter().any(|news| said == Some(&json!(news)))
}

/// The state's members that an event changed.
fn touched(event: &Event) -> Vec<String> {
    match serde_json::from_value(Value::Object(event.payload.clone())) {
        Ok(Change::Patches { patches }) => {
            let first = |path: &str| path.split('/').find(|part| !part.is_empty()).map(str::to_owned);
            patches.iter().filter_map(|patch| first(&patch.path)).collect()
        }
        Ok(Change::Merge { state }) => state.into_iter().map(|(name, _)| name).collect(),
        Err(_no_change) => Vec::new(),
    }
}

/// The members with their values, null for those that are gone; and how many are too large to be told.
fn delta(intent: &Intent, changed: &BTreeSet<String>) -> (Value, usize) {
    let (mut delta, mut omitted, mut bytes) = (Map::new(), 0, 0);
    for name in changed {
        let value = intent.state.get(name).cloned().unwrap_or(Value::Null);
        let size = name.len() + value.to_string().len() + 8;
        if bytes + size <= PAYLOAD_BYTES / 4 {
            bytes += size;
            delta.insert(name.clone(), value);
        } else {
            omitted += 1;
        }
    }
    (Value::Object(delta), omitted)
}
