//! Encodes records as webhooks: `{"type", "timestamp", "data"}` as in Standard Webhooks. The data is the same as in a
//! stream's frame; for an event it is the event itself, so that the receiver needs nothing else.

use entente_domain::clock::{Timestamp, rfc3339};
use entente_domain::identity::keys::Dialect;
use entente_domain::log::events::check_trace_id;
use entente_domain::webhooks::{MESSAGE, receipt_id};
use entente_kernel::log::Record;
use entente_kernel::webhooks::Post;
use serde::Serialize;
use serde_json::Value;

use crate::event::EventBody;
use crate::frames::{MessageFrame, ReceiptFrame, is_audited_message};

/// A webhook's body.
#[derive(Serialize)]
pub struct HookBody<'a, T> {
    /// Type of the event.
    pub r#type: &'a str,
    /// When it happened (RFC 3339).
    pub timestamp: String,
    /// The record.
    pub data: &'a T,
}

/// Encodes a record, in strict mode or not; `None` for the log's copy of an audited message, which the message itself represents.
#[must_use]
pub fn encode(record: &Record, strict: bool) -> Option<Post> {
    let told = Some((record.intent_id(), record.seq()));
    match record {
        Record::Event { event, .. } if is_audited_message(event) => None,
        Record::Event { event, .. } => {
            let (kind, at) = (event.event_type.clone(), event.created_at);
            let body = write(&kind, at, &EventBody::new(event, Dialect::Standard))?;
            let webhook_id = event.id.to_string();
            Some(Post {
                webhook_id,
                kind,
                body,
                told,
                channel_id: None,
                trace_id: event.trace_id.clone(),
                at,
            })
        }
        Record::Message { message, channel } => {
            let (kind, at) = (MESSAGE[0].to_owned(), message.created_at);
            let body = write(&kind, at, &MessageFrame::new(message, channel, strict, Dialect::Standard))?;
            let hints = message.metadata.as_ref();
            let hints = hints.and_then(|hints| serde_json::from_str::<Value>(hints.as_str()).ok());
            let trace_id = hints.and_then(|hints| hints["trace_id"].as_str().map(str::to_owned));
            let trace_id = trace_id.filter(|id| check_trace_id(id).is_ok());
            let (webhook_id, channel_id) = (message.id.to_string(), Some(channel.id));
            Some(Post { webhook_id, kind, body, told, channel_id, trace_id, at })
        }
        Record::Receipt { receipt, channel, .. } => {
            let (name, data) = ReceiptFrame::new(receipt, channel, Dialect::Standard);
            let (kind, at) = (name.to_owned(), receipt.at);
            let body = write(&kind, at, &data)?;
            let webhook_id = receipt_id(receipt.intent_id, receipt.seq);
            Some(Post { webhook_id, kind, body, told, channel_id: Some(channel.id), trace_id: None, at })
        }
    }
}

fn write(kind: &str, at: Timestamp, data: &impl Serialize) -> Option<String> {
    let body = HookBody { r#type: kind, timestamp: rfc3339(at), data };
    let written = serde_json::to_string(&body);
    written.inspect_err(|e| tracing::error!(error = %e, "a webhook could not be written")).ok()
}
