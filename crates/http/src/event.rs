//! The wire format of an event (RFC-0001, RFC-0019): in the log routes, and in the frames of streams and webhooks.

use entente_domain::canonical::show;
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{EventId, IntentId};
use entente_domain::log::events::Event;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::wire::{WireTime, event_type};

/// A log entry.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventBody<'a> {
    /// The event's id.
    id: EventId,
    /// The intent; null for the system log.
    intent_id: Option<IntentId>,
    /// The event's type.
    #[schema(example = "state_patched")]
    event_type: &'a str,
    /// The actual type, if the client's library cannot read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    original_event_type: Option<&'a str>,
    /// The agent or principal that caused the event.
    actor: &'a str,
    /// The event's payload.
    #[schema(value_type = Object)]
    payload: &'a Map<String, Value>,
    /// When it happened.
    created_at: WireTime,
    /// The event's position in the chain, from 1.
    sequence: i64,
    /// The hash of the previous event.
    #[schema(example = "sha256:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU")]
    previous_event_hash: Option<String>,
    /// The event's hash, over its canonical form (RFC 8785).
    #[schema(example = "sha256:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU")]
    event_hash: String,
    /// Whether a client posted the event. The server then vouches for its actor and time, but not for its content.
    posted: bool,
    /// The trace it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<&'a str>,
    /// The event that caused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_event_id: Option<&'a str>,
    /// The actor's signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    proof: Option<&'a Value>,
    /// Whether the server has checked the signature; omitted if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    proof_verified: Option<bool>,
}

impl<'a> EventBody<'a> {
    /// Returns the event in the client's dialect.
    #[must_use]
    pub fn new(event: &'a Event, dialect: Dialect) -> Self {
        let shown = event_type(&event.event_type, dialect);
        Self {
            id: event.id,
            intent_id: (event.intent_id != IntentId::SYSTEM).then_some(event.intent_id),
            event_type: shown,
            original_event_type: (shown != event.event_type).then_some(&event.event_type),
            actor: &event.actor,
            payload: &event.payload,
            created_at: WireTime::new(event.created_at, dialect),
            sequence: event.sequence,
            previous_event_hash: event.previous_event_hash.as_ref().map(show),
            event_hash: show(&event.event_hash),
            posted: event.posted,
            trace_id: event.trace_id.as_deref(),
            parent_event_id: event.parent_event_id.as_deref(),
            proof: event.proof.as_ref(),
            proof_verified: event.proof.is_some().then_some(event.proof_verified),
        }
    }
}
