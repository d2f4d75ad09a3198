//! Encodes records as server-sent events, for each family of paths (OI-11), and reads the `Last-Event-ID` of a resumed stream, also in
//! the form of before the order of all logs (`parse_resume_token`), which `crates/kernel/src/feed/streams.rs` translates. Streams of
//! jobs have theirs in `crates/arcp-api/src/job_events.rs`.

use bytes::Bytes;
use entente_domain::clock::Timestamp;
use entente_domain::cursors::after;
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{ChannelId, IntentId, MessageId};
use entente_domain::log::events::{Event, Kind};
use entente_domain::log::kinds::MESSAGE_EVENTS;
use entente_domain::log::receipts::{Receipt, ReceiptKind};
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::intents::StateChange;
use entente_domain::openintent::messages::{Message, MessageStatus};
use entente_kernel::feed::{Family, Frame, Opening, ResumeToken, Wire};
use entente_kernel::log::{FormerPosition, GlobalPosition, Record};
use serde::Serialize;
use serde_json::{Map, Value, json};
use ulid::Ulid;
use uuid::Uuid;

use super::wire::WireTime;
use crate::event::EventBody;
use crate::intent::IntentBody;
use crate::message::MessageBody;

/// A message on a stream, with its intent and channel.
#[derive(Debug, Serialize)]
pub(crate) struct MessageFrame<'a> {
    #[serde(flatten)]
    message: MessageBody<'a>,
    intent_id: IntentId,
    channel_name: &'a str,
}

impl<'a> MessageFrame<'a> {
    pub fn new(message: &'a Message, channel: &'a Channel, strict: bool, dialect: Dialect) -> Self {
        let (intent_id, channel_name) = (message.intent_id, channel.name.as_str());
        Self { message: MessageBody::new(message, strict, dialect), intent_id, channel_name }
    }
}

/// A receipt on a stream: a change of a message's status.
#[derive(Debug, Serialize)]
pub(crate) struct ReceiptFrame<'a> {
    intent_id: IntentId,
    channel_id: ChannelId,
    channel_name: &'a str,
    message_id: MessageId,
    status: MessageStatus,
    agent_id: Option<&'a str>,
    at: WireTime,
}

impl<'a> ReceiptFrame<'a> {
    /// Returns the event's name and its frame.
    pub fn new(receipt: &'a Receipt, channel: &'a Channel, dialect: Dialect) -> (&'static str, Self) {
        let (name, status) = match receipt.kind {
            ReceiptKind::Read => ("message_read", MessageStatus::Read),
            ReceiptKind::Expired => ("message_expired", MessageStatus::Expired),
        };
        let frame = Self {
            intent_id: receipt.intent_id,
            channel_id: receipt.channel_id,
            channel_name: &channel.name,
            message_id: receipt.message_id,
            status,
            agent_id: Some(receipt.agent.as_str()).filter(|agent| !agent.is_empty()),
            at: WireTime::new(receipt.at, dialect),
        };
        (name, frame)
    }
}

/// Encodes a frame; `strict` is the server's setting, the same for all its frames.
///
/// Returns nothing for a record without a frame of its own: the log's copy of an audited message, which the message
/// itself represents.
pub fn encode(frame: &Frame, wire: Wire, strict: bool) -> Bytes {
    let written = match &frame.record {
        Record::Message { message, channel } => {
            write(frame.mark, "channel_message", &MessageFrame::new(message, channel, strict, wire.dialect))
        }
        Record::Receipt { receipt, channel, .. } => {
            let (name, data) = ReceiptFrame::new(receipt, channel, wire.dialect);
            write(frame.mark, name, &data)
        }
        Record::Event { event, .. } if is_audited_message(event) => Ok(Bytes::new()),
        Record::Event { event, change } => match wire.family {
            Family::Reference => reference(frame.mark, event, change.as_deref(), wire.dialect),
            Family::Sdk => sdk(frame.mark, event, change.as_deref(), wire.dialect),
        },
    };
    written.unwrap_or_else(|e| {
        tracing::error!(error = %e, "a frame could not be written");
        Bytes::new()
    })
}

/// Whether an event is the log's copy of a message, which the message itself represents.
pub(crate) fn is_audited_message(event: &Event) -> bool {
    !event.posted && MESSAGE_EVENTS.contains(&event.event_type.as_str())
}

fn is(event: &Event, kind: Kind) -> bool {
    !event.posted && event.event_type == kind.wire()
}

/// Whether an event is about a suspension: its payload is written as the data itself (OI-11.2.2).
fn is_suspension(event: &Event) -> bool {
    [Kind::IntentSuspended, Kind::IntentResumed, Kind::IntentSuspensionExpired]
        .into_iter()
        .any(|kind| is(event, kind))
}

/// Writes the reference server's names and data: the whole intent for a change of it, the assignment itself, else the
/// event.
fn reference(
    mark: ResumeToken,
    event: &Event,
    change: Option<&StateChange>,
    dialect: Dialect,
) -> serde_json::Result<Bytes> {
    if let Some(change) = change
        && (is(event, Kind::StatePatched) || is(event, Kind::StatusChanged))
    {
        return write(mark, &event.event_type, &IntentBody::new(&change.intent, dialect));
    }
    if is(event, Kind::AgentAssigned) || is_suspension(event) {
        return write(mark, &event.event_type, &with_intent(event));
    }
    write(mark, &event.event_type, &EventBody::new(event, dialect))
}

/// Writes the SDK's names and data for the events its agents act on, else the event under its own name.
fn sdk(
    mark: ResumeToken,
    event: &Event,
    change: Option<&StateChange>,
    dialect: Dialect,
) -> serde_json::Result<Bytes> {
    if is(event, Kind::StatePatched)
        && let Some(change) = change
    {
        let mut data = with_intent(event);
        data.insert("old_state".to_owned(), json!(change.old_state));
        data.insert("new_state".to_owned(), json!(change.intent.state));
        return write(mark, "STATE_CHANGED", &data);
    }
    let name = match event.event_type.as_str() {
        _ if event.posted => event.event_type.as_str(),
        "agent_assigned" => "AGENT_ASSIGNED",
        "status_changed" => "STATUS_CHANGED",
        "lease_released" => "LEASE_RELEASED",
        other if is_suspension(event) => other,
        other => return write(mark, other, &EventBody::new(event, dialect)),
    };
    if event.posted {
        return write(mark, name, &EventBody::new(event, dialect));
    }
    write(mark, name, &with_intent(event))
}

/// Returns an event's payload with its intent and actor.
fn with_intent(event: &Event) -> Map<String, Value> {
    let mut data = event.payload.clone();
    data.insert("intent_id".to_owned(), json!(event.intent_id));
    data.insert("actor".to_owned(), json!(event.actor));
    data
}

fn write(mark: ResumeToken, name: &str, data: &impl Serialize) -> serde_json::Result<Bytes> {
    let mut text = format!("id: {}\nevent: ", show(mark)).into_bytes();
    // Client-defined event types have no line breaks (`check_name`), so they cannot start a line of their own.
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b"\ndata: ");
    let start = text.len();
    serde_json::to_writer(&mut text, data)?;
    // Payloads keep the line breaks between their members, but an SSE line ends at a line break. Replacing them is
    // safe, because JSON has no line breaks inside strings.
    text.iter_mut().skip(start).filter(|byte| matches!(**byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    text.extend_from_slice(b"\n\n");
    Ok(Bytes::from(text))
}

/// Formats a resume token for a stream's `id:`.
#[must_use]
pub fn show(mark: ResumeToken) -> String {
    match mark {
        ResumeToken::IntentLog(seq) => seq.to_string(),
        ResumeToken::Message(number) => after(number),
        ResumeToken::Global(place) => show_place(place),
        ResumeToken::Opening(Opening { start, shown: (at, intent) }) => {
            format!("{}.{}.{}", show_place(start), at.timestamp_micros(), ulid(intent))
        }
        ResumeToken::Former(place) => show_former(place),
        ResumeToken::FormerOpening { start, shown } => {
            format!("{}.{}", show_former(start), show_former(shown))
        }
    }
}

fn show_place(place: GlobalPosition) -> String {
    format!("{}.{}", place.global, place.seq)
}

fn show_former(place: FormerPosition) -> String {
    format!("{}.{}.{}", place.xid, place.seq, ulid(place.intent_id))
}

fn ulid(intent: IntentId) -> Ulid {
    Ulid::from_bytes(intent.uuid().into_bytes())
}

/// Parses a `Last-Event-ID`; `None` if it is malformed.
///
/// The forms differ in their number of parts: two and four today, three and six before.
#[must_use]
pub fn parse_resume_token(text: &str) -> Option<ResumeToken> {
    let parts: Vec<&str> = text.trim().splitn(7, '.').collect();
    match parts[..] {
        [seq] => seq.parse().ok().map(ResumeToken::IntentLog),
        [global, seq] => read_place(global, seq).map(ResumeToken::Global),
        [global, seq, at, intent] => {
            let start = read_place(global, seq)?;
            let shown = (Timestamp::from_timestamp_micros(at.parse().ok()?)?, read_intent(intent)?);
            Some(ResumeToken::Opening(Opening { start, shown }))
        }
        [xid, seq, intent] => read_former(xid, seq, intent).map(ResumeToken::Former),
        [xid, seq, intent, shown_xid, shown_seq, shown_intent] => Some(ResumeToken::FormerOpening {
            start: read_former(xid, seq, intent)?,
            shown: read_former(shown_xid, shown_seq, shown_intent)?,
        }),
        _ => None,
    }
}

fn read_place(global: &str, seq: &str) -> Option<GlobalPosition> {
    Some(GlobalPosition { global: global.parse().ok()?, seq: seq.parse().ok()? })
}

fn read_former(xid: &str, seq: &str, intent: &str) -> Option<FormerPosition> {
    Some(FormerPosition { xid: xid.parse().ok()?, intent_id: read_intent(intent)?, seq: seq.parse().ok()? })
}

fn read_intent(text: &str) -> Option<IntentId> {
    Ulid::from_string(text).ok().map(|id| Uuid::from_bytes(id.to_bytes()).into())
}
