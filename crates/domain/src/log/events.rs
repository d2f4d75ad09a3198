//! Events and the hash chain they form (RFC-0001, RFC-0019): the entries of a log, and how they are sealed.
//!
//! Every intent has one log, numbered consecutively ([`Tail`]), for its messages, events and receipts. The
//! events among them also form a hash chain with its own count, from 1 and without gaps; [`crate::log::chains`]
//! verifies it.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::canonical::{self, Digest, exact, sha256};
use crate::clock::{Timestamp, rfc3339};
use crate::identity::principals::check_name;
use crate::ids::{EventId, IntentId};
use crate::limits::PAYLOAD_BYTES;
use crate::refusal::{Code, Refusal};

pub use crate::log::kinds::Kind;

/// The end of an intent's log, which the next entry follows; stored as one row, written under the intent's
/// lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// The last number assigned in the intent's log; 0 if there is none.
    pub seq: i64,
    /// Number of events in the chain.
    pub sequence: i64,
    /// The hash of the last event.
    pub head: Option<Digest>,
    /// The time of the last entry; time never goes back within the log, whatever a server's clock does.
    pub at: Timestamp,
}

impl Tail {
    /// Creates the tail of an empty log.
    #[must_use]
    pub fn empty(now: Timestamp) -> Self {
        Self { seq: 0, sequence: 0, head: None, at: now }
    }

    /// Assigns the next number and its time.
    pub fn advance(&mut self, now: Timestamp) -> (i64, Timestamp) {
        self.seq += 1;
        self.at = self.at.max(now);
        (self.seq, self.at)
    }
}

/// One entry of an intent's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// The intent.
    pub intent_id: IntentId,
    /// The type: a [`Kind`], or a name defined by the client.
    pub event_type: String,
    /// The agent or principal that caused it.
    pub actor: String,
    /// The details.
    pub payload: Map<String, Value>,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// Its position in the chain, from 1.
    pub sequence: i64,
    /// Its position in the intent's log.
    pub seq: i64,
    /// The hash of the event before it; `None` for the first.
    pub previous_event_hash: Option<Digest>,
    /// The hash of this event.
    pub event_hash: Digest,
    /// Whether a client posted it; the server then vouches for author and time, not for the contents.
    pub posted: bool,
    /// RFC-0020: the trace it belongs to.
    pub trace_id: Option<String>,
    /// RFC-0020: the event that caused it.
    pub parent_event_id: Option<String>,
    /// RFC-0018: the actor's signature.
    pub proof: Option<Value>,
    /// Whether the server verified that signature when the event arrived; absent in stored responses of older
    /// servers.
    #[serde(default)]
    pub proof_verified: bool,
}

/// An event to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The event type.
    pub event_type: String,
    /// The agent or principal that caused it.
    pub actor: String,
    /// The details.
    pub payload: Map<String, Value>,
    /// Whether a client posts it.
    pub posted: bool,
    /// RFC-0020: the trace it belongs to.
    pub trace_id: Option<String>,
    /// RFC-0020: the event that caused it.
    pub parent_event_id: Option<String>,
    /// RFC-0018: the actor's signature.
    pub proof: Option<Value>,
    /// Whether that signature was verified.
    pub proof_verified: bool,
}

impl Draft {
    /// Creates a draft of one of the server's own events; a `payload` that is not an object is wrapped as
    /// `value`.
    #[must_use]
    pub fn of(kind: Kind, actor: &str, payload: Value) -> Self {
        let payload = match payload {
            Value::Object(members) => members,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        Self {
            event_type: kind.wire().to_owned(),
            actor: actor.to_owned(),
            payload,
            posted: false,
            trace_id: None,
            parent_event_id: None,
            proof: None,
            proof_verified: false,
        }
    }
}

/// Checks an event that a client wants to append.
///
/// # Errors
/// An invalid type name, a payload or proof that is too large or has numbers that do not survive hashing, or
/// a trace id that is not 32 hexadecimal digits (RFC-0020).
pub fn check_posted(draft: &Draft) -> Result<(), Refusal> {
    check_name("event_type", &draft.event_type)?;
    for value in draft.payload.values() {
        exact(value)?;
    }
    draft.proof.as_ref().map_or(Ok(()), exact)?;
    check_size("payload", &draft.payload)?;
    check_size("proof", &draft.proof)?;
    if let Some(trace) = &draft.trace_id {
        check_trace_id(trace)?;
    }
    if let Some(parent) = &draft.parent_event_id {
        check_name("parent_event_id", parent)?;
    }
    Ok(())
}

fn check_size(member: &str, value: &impl Serialize) -> Result<(), Refusal> {
    let bytes = serde_json::to_string(value).map_or(0, |text| text.len());
    if bytes <= PAYLOAD_BYTES {
        return Ok(());
    }
    let message = format!("`{member}` has {bytes} bytes, at most {PAYLOAD_BYTES} are allowed.");
    Err(Refusal::field(Code::TooLarge, member, "too_large", message))
}

/// Checks a trace id: 32 hexadecimal digits, RFC-0020.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn check_trace_id(trace: &str) -> Result<(), Refusal> {
    if trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(());
    }
    Err(Refusal::field(
        Code::InvalidRequest,
        "trace_id",
        "trace_id",
        "`trace_id` must have 32 hexadecimal digits (RFC-0020, W3C Trace Context).",
    ))
}

/// Seals a draft: assigns its positions in the log and in the chain, and its hash.
#[must_use]
pub fn seal(draft: Draft, tail: &mut Tail, intent_id: IntentId, id: EventId, now: Timestamp) -> Event {
    let (seq, created_at) = tail.advance(now);
    tail.sequence += 1;
    let mut event = Event {
        id,
        intent_id,
        event_type: draft.event_type,
        actor: draft.actor,
        payload: draft.payload,
        created_at,
        sequence: tail.sequence,
        seq,
        previous_event_hash: tail.head,
        event_hash: Digest::default(),
        posted: draft.posted,
        trace_id: draft.trace_id,
        parent_event_id: draft.parent_event_id,
        proof: draft.proof,
        proof_verified: draft.proof_verified,
    };
    event.event_hash = hash(&event);
    tail.head = Some(event.event_hash);
    event
}

/// The form in which an event is exported and, without `event_hash`, hashed (OI-13.2).
///
/// Members that do not apply are left out, except `previous_event_hash`, which is null on the first event.
/// Parsing is as strict as writing: an extra member, a null for an omitted member or an omission for a null
/// would be a text that the hash does not cover.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    /// As [`Event::id`].
    pub id: EventId,
    /// As [`Event::intent_id`].
    pub intent_id: IntentId,
    /// As [`Event::event_type`].
    pub event_type: String,
    /// As [`Event::actor`].
    pub actor: String,
    /// As [`Event::payload`].
    pub payload: Map<String, Value>,
    /// RFC 3339 with `Z` and six digits, whatever dialect a list was served in.
    pub created_at: String,
    /// As [`Event::sequence`].
    pub sequence: i64,
    /// `sha256:…`, or null.
    #[serde(deserialize_with = "Option::deserialize")]
    pub previous_event_hash: Option<String>,
    /// `sha256:…`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub event_hash: Option<String>,
    /// Present and true if a client posted it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", deserialize_with = "given_true")]
    pub posted: bool,
    /// As [`Event::trace_id`].
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub trace_id: Option<String>,
    /// As [`Event::parent_event_id`].
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub parent_event_id: Option<String>,
    /// As [`Event::proof`].
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub proof: Option<Value>,
    /// Present and true if the server has verified the proof.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", deserialize_with = "given_true")]
    pub proof_verified: bool,
}

/// Reads an optional member, which may be left out but not null.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(member: D) -> Result<Option<T>, D::Error> {
    T::deserialize(member).map(Some)
}

/// Reads a flag that is left out unless it is true.
fn given_true<'de, D: Deserializer<'de>>(member: D) -> Result<bool, D::Error> {
    let said = bool::deserialize(member)?;
    if said { Ok(true) } else { Err(D::Error::custom("is left out unless it is true")) }
}

impl From<&Event> for Sealed {
    fn from(event: &Event) -> Self {
        Self {
            id: event.id,
            intent_id: event.intent_id,
            event_type: event.event_type.clone(),
            actor: event.actor.clone(),
            payload: event.payload.clone(),
            created_at: rfc3339(event.created_at),
            sequence: event.sequence,
            previous_event_hash: event.previous_event_hash.as_ref().map(canonical::show),
            event_hash: Some(canonical::show(&event.event_hash)),
            posted: event.posted,
            trace_id: event.trace_id.clone(),
            parent_event_id: event.parent_event_id.clone(),
            proof: event.proof.clone(),
            proof_verified: event.proof_verified,
        }
    }
}

/// Returns the hash that an event should have.
#[must_use]
pub fn hash(event: &Event) -> Digest {
    sealed_hash(&Sealed { event_hash: None, ..Sealed::from(event) })
}

/// Returns the hash of an event in the form without one.
pub(crate) fn sealed_hash(bare: &Sealed) -> Digest {
    // A `Sealed` is made of strings, numbers and JSON values: it always has a canonical form.
    sha256(canonical::text(bare).unwrap_or_default())
}
