//! Callbacks (RFC-0022): progress reports from the server that does the work to the one that dispatched it.
//! They are recorded in the log of the intent there, and do not change its state.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::dispatches::State;
use super::signing;
use crate::canonical::{exact, hex, sha256};
use crate::limits::{IDEMPOTENCY_KEY_BYTES, PAYLOAD_BYTES};
use crate::log::events::{Event, check_trace_id};
use crate::log::kinds::Kind;
use crate::openintent::intents::{Intent, IntentStatus, SUSPENSION};
use crate::openintent::patch::Change;
use crate::refusal::{Code, Refusal};

/// The member with the time of a callback's signature.
pub const STAMP: &str = "timestamp";

/// The kind of news in a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = FederationNews)]
pub enum News {
    /// Members of the state have changed.
    StateDelta,
    /// The status has changed.
    StatusChanged,
    /// The peer's statement on resources used and rules observed.
    Attestation,
    /// The budget is nearly spent.
    BudgetWarning,
    /// The work is completed.
    Completed,
    /// The work has failed.
    Failed,
}

impl News {
    /// Returns the event kind under which it is recorded in the log of the dispatched intent.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::StateDelta | Self::StatusChanged | Self::Attestation => Kind::FederationCallback,
            Self::BudgetWarning => Kind::FederationBudgetWarning,
            Self::Completed => Kind::FederationCompleted,
            Self::Failed => Kind::FederationFailed,
        }
    }

    /// Returns the state of the dispatch after it; any news implies that the peer has accepted the dispatch.
    #[must_use]
    pub fn state(self) -> State {
        match self {
            Self::Completed => State::Completed,
            Self::Failed => State::Failed,
            _ => State::Accepted,
        }
    }
}

/// A progress report of a peer.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[schema(as = FederationCallback)]
#[schema(example = json!({
    "dispatch_id": "disp_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "event_type": "state_delta", "state_delta": { "progress": 0.5 },
    "idempotency_key": "k1", "timestamp": "2026-11-21T08:00:00+00:00", "signature": "…"
}))]
pub struct Callback {
    /// The dispatch.
    pub dispatch_id: String,
    /// The kind of news.
    pub event_type: News,
    /// The details.
    #[schema(value_type = Option<Object>)]
    pub state_delta: Option<Map<String, Value>>,
    /// The peer's statement on how the work was done.
    #[schema(value_type = Option<Object>)]
    pub attestation: Option<Map<String, Value>>,
    /// The trace that it belongs to.
    pub trace_id: Option<String>,
    /// Repeated callbacks with the same key are recorded once; defaults to a hash of the contents.
    pub idempotency_key: Option<String>,
    /// Number of state members left out because they were too large.
    pub omitted: Option<u64>,
}

impl Callback {
    /// Checks the contents.
    ///
    /// # Errors
    /// A member that is too large, has numbers that do not survive hashing, or an invalid key.
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

    /// Returns the idempotency key: the peer's own, or a hash of the body without its time.
    #[must_use]
    pub fn key(&self, body: &Map<String, Value>) -> String {
        self.idempotency_key.clone().unwrap_or_else(|| {
            let mut bare = body.clone();
            bare.remove(STAMP);
            format!("sha256:{}", hex(&sha256(signing::canonical(&bare))))
        })
    }

    /// Returns the trace id, if it is valid.
    #[must_use]
    pub fn trace(&self) -> Option<String> {
        self.trace_id.clone().filter(|id| check_trace_id(id).is_ok())
    }

    /// Returns the payload for the log.
    #[must_use]
    pub fn payload(&self, peer: &str, remote_intent_id: Option<&str>) -> Value {
        json!({
            "dispatch_id": self.dispatch_id, "peer": peer, "remote_intent_id": remote_intent_id,
            "event_type": self.event_type, "state_delta": self.state_delta.clone().unwrap_or_default(),
            "attestation": self.attestation, "omitted": self.omitted.unwrap_or(0),
        })
    }
}

/// Returns the callbacks for a peer about its intent here, derived from new events of its log.
///
/// State changes are combined, with the current values; each change of the status is reported separately;
/// after the final status nothing more is reported. `state` tells whether the peer receives the state at all.
#[must_use]
pub fn news(dispatch_id: &str, events: &[Event], intent: &Intent, state: bool) -> Vec<Map<String, Value>> {
    let mut told = Vec::new();
    let mut changed = BTreeSet::new();
    let mut patched = None;
    let mut statuses = Vec::new();
    for event in events.iter().filter(|event| !event.posted) {
        if event.event_type == Kind::StatePatched.wire() {
            // A suspension (a question to people of this server) is not part of the work.
            let mut names = touched(event);
            names.retain(|name| name != SUSPENSION);
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

/// Returns the members of the state that an event changed.
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

/// Returns the members with their values (null if removed), and the number of members that are too large to
/// send.
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
