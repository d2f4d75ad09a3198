//! Envelopes written by the gateway itself: answers, errors and notices.
//!
//! They are as complete as AEE requires of everybody (§7.1), and pass the same checks as all others.

use serde_json::{Map, Value, json};

use super::{Envelope, EnvelopeType, Priority, VERSION, check};
use crate::clock::{Timestamp, rfc3339};
use crate::ids::Chance;
use crate::refusal::Refusal;
use crate::traces::Trace;

/// An envelope to be written by the gateway.
#[derive(Debug, Clone)]
pub struct EnvelopeDraft<'a> {
    /// Its type.
    pub kind: EnvelopeType,
    /// The sender: the gateway's own name.
    pub sender: &'a str,
    /// The recipient.
    pub recipient: &'a str,
    /// The purpose.
    pub purpose: &'a str,
    /// The thread that it belongs to.
    pub corr: &'a str,
    /// The envelope that it answers.
    pub reply_to: Option<&'a str>,
    /// The priority.
    pub priority: Priority,
    /// The payload.
    pub payload: Value,
    /// The trace that it belongs to.
    pub trace: Option<Trace>,
}

impl<'a> EnvelopeDraft<'a> {
    /// Creates the answer to an envelope, from `sender`, the entity that the envelope was sent to.
    #[must_use]
    pub fn answering(asked: &'a Envelope, sender: &'a str, kind: EnvelopeType, payload: Value) -> Self {
        Self {
            kind,
            sender,
            recipient: &asked.sender,
            purpose: &asked.purpose,
            corr: &asked.corr,
            reply_to: Some(&asked.id),
            priority: asked.priority,
            payload,
            trace: None,
        }
    }

    /// Writes the envelope with an id that sorts by age and cannot be guessed (AEE §11.1).
    ///
    /// # Errors
    /// A member has a value that an envelope may not have.
    pub fn write(self, at: Timestamp, chance: &dyn Chance) -> Result<Envelope, Refusal> {
        self.write_as(crate::ids::envelope_id(at, chance), at)
    }

    /// Writes the envelope with an id that is derived from its subject.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_as(self, id: String, at: Timestamp) -> Result<Envelope, Refusal> {
        let mut members = Map::new();
        let trace = self.trace.map(|trace| json!({ "trace_id": trace.id(), "span_id": trace.span_id() }));
        let parts = [
            ("v", json!(VERSION)),
            ("id", Value::String(id)),
            ("ts", json!(rfc3339(at))),
            ("type", json!(self.kind)),
            ("from", json!(self.sender)),
            ("to", json!(self.recipient)),
            ("intent", json!(self.purpose)),
            ("corr", json!(self.corr)),
            ("reply_to", json!(self.reply_to)),
            ("trace", json!(trace)),
            ("priority", json!(self.priority)),
            ("requires", Value::Null),
            ("payload", self.payload),
            ("sig", Value::Null),
        ];
        members.extend(parts.map(|(name, value)| (name.to_owned(), value)));
        check(members)
    }
}

/// Returns the payload of an error (AEE §4), always complete.
#[must_use]
pub fn failure(code: &str, message: &str, retryable: bool) -> Value {
    json!({ "code": code, "message": message, "retryable": retryable })
}
