//! Tools for messages (RFC-0021 §2, §3): sending, asking an agent, replying, reading.

use std::sync::Arc;
use std::time::Duration;

use entente_domain::clock::plus_seconds;
use entente_domain::cursors;
use entente_domain::cursors::Since;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::{Dialect, Scope};
use entente_domain::ids::{ChannelId, MessageId};
use entente_domain::limits::{DURATION_SECONDS, METADATA_BYTES, PAGE, PAYLOAD_BYTES};
use entente_domain::openintent::messages::{Draft, Message, MessageStatus, MessageType};
use entente_domain::payload::Payload;
use entente_http::body::id;
use entente_http::error::Problem;
use entente_http::message::MessageBody;
use entente_kernel::AppError;
use entente_kernel::audit::proofs;
use entente_kernel::channels::access::home;
use entente_kernel::messages::MessageFilter;
use entente_openintent::messages;
use entente_openintent::messages::MessagePage;
use entente_openintent::messages::asks::Want;
use entente_openintent::messages::waiting::known;
use entente_openintent::messages::writer::Command;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cursors::Place;
use super::shapes::{
    cursor, flag, free, gives, list, may, must, nullable, retry_key, takes, text, whole, word,
};
use super::{ASK_SECONDS, Answer, Call, Hints, Tool, ToolResult, WAIT_SECONDS, within};

/// Default page size.
const STEP: u32 = 50;
/// Default number of seconds until a question expires.
const OPEN_SECONDS: u32 = 3_600;

/// Names of the operations that these tools name otherwise.
const NAMES: [(&str, &str); 4] = [
    ("since", "after"),
    ("expires_at", "expires_in_s"),
    ("message_type", "type"),
    ("correlation_id", "message_id"),
];

/// Returns the tools of this file.
pub fn tools() -> [Tool; 4] {
    [send_tool(), ask_tool(), reply_tool(), read_tool()]
}

fn send_tool() -> Tool {
    Tool {
        name: "send_message",
        title: "Send a message",
        about: "Sends a message to a channel. To ask for an answer, use ask_agent.",
        takes: takes(vec![
            must("channel", text("The channel, `chan_…`.")),
            must("payload", free("Content: an object of up to 256 KiB.")),
            may("type", word("`notify` (default), or `broadcast` to everybody.", &["notify", "broadcast"])),
            may("to", text("Addressee: an agent, `role:…` or `*`.")),
            may("metadata", free("Hints for routing and tracing.")),
            may("expires_in_s", whole("Seconds until the message expires.", 1, i64::from(DURATION_SECONDS))),
            may("idempotency_key", retry_key("")),
        ]),
        example: json!({ "channel": "chan_…", "to": "agent.bob", "payload": { "done": "step 1" } }),
        gives: sent(),
        hints: Hints::adds(),
        names: &NAMES,
        run: |call| Box::pin(send_message(call)),
    }
}

fn ask_tool() -> Tool {
    Tool {
        name: "ask_agent",
        title: "Ask an agent",
        about: "Sends a question to an agent on a channel and waits for the answer. If none arrives in time, `state` is \
                `pending` and the question stays open: the answer then arrives through wait_for_events, as a message with \
                `correlation_id` equal to `request_id`.",
        takes: takes(vec![
            must("channel", text("The channel, `chan_…`.")),
            must("to", text("Addressee: an agent, or `role:…`.")),
            must("payload", free("The question: an object of up to 256 KiB.")),
            may("metadata", free("Hints for routing and tracing.")),
            may("timeout_s", whole("Seconds to wait; defaults to 25.", 0, i64::from(ASK_SECONDS))),
            may(
                "expires_in_s",
                whole(
                    "Seconds until the question expires; defaults to 3,600.",
                    1,
                    i64::from(DURATION_SECONDS),
                ),
            ),
            may("idempotency_key", retry_key("")),
        ]),
        example: json!({ "channel": "chan_…", "to": "agent.bob", "payload": { "question": "Which version?" } }),
        gives: gives(vec![
            must("state", word("State of the question.", &["answered", "pending"])),
            must("request_id", text("The question, `msg_…`.")),
            must("response", nullable(free("The answer, a message."))),
        ]),
        hints: Hints::adds(),
        names: &NAMES,
        run: |call| Box::pin(ask_agent(call)),
    }
}

fn reply_tool() -> Tool {
    Tool {
        name: "reply_message",
        title: "Answer a message",
        about: "Answers another agent's request.",
        takes: takes(vec![
            must("channel", text("The channel, `chan_…`.")),
            must("message_id", text("The request, `msg_…`.")),
            must("payload", free("The answer: an object of up to 256 KiB.")),
            may("metadata", free("Hints for routing and tracing.")),
            may("idempotency_key", retry_key("")),
        ]),
        example: json!({ "channel": "chan_…", "message_id": "msg_…", "payload": { "version": "2.1" } }),
        gives: sent(),
        hints: Hints::adds(),
        names: &NAMES,
        run: |call| Box::pin(reply_message(call)),
    }
}

fn read_tool() -> Tool {
    Tool {
        name: "read_messages",
        title: "Read a channel's messages",
        about: "Returns the messages of a channel where `cursor` left off or after `after`, or else the newest; oldest first.",
        takes: takes(vec![
            must("channel", text("The channel, `chan_…`.")),
            may("after", text("Only messages after this: `next`, a message's id, or a time.")),
            may("cursor", cursor()),
            may("limit", whole("Maximum number of messages; defaults to 50.", 1, i64::from(PAGE))),
            may("wait_s", whole("Seconds to wait for messages.", 0, i64::from(WAIT_SECONDS))),
            may("ack", flag("Mark the messages to you as read.")),
        ]),
        example: json!({ "channel": "chan_…", "cursor": "c1" }),
        gives: gives(vec![
            must("messages", list(message(), "The messages.")),
            must("next", text("`after` of the next call.")),
            may("cursor", nullable(text("`cursor` of the next call."))),
            must("marked_read", json!({ "type": "integer" })),
        ]),
        hints: Hints::marks(),
        names: &NAMES,
        run: |call| Box::pin(read_messages(call)),
    }
}

/// Returns the schema of a message that was sent, of which its sender knows the rest.
fn sent() -> Value {
    gives(vec![
        must("id", text("The message, `msg_…`.")),
        must("channel_id", text("The message's channel.")),
        must("sender", text("Agent that sent the message.")),
        must("status", text("`delivered`, `read` or `expired`.")),
    ])
}

/// Returns the schema of a message.
pub(super) fn message() -> Value {
    gives(vec![
        must("id", text("The message, `msg_…`.")),
        must("channel_id", text("The message's channel.")),
        must("sender", text("Agent that sent the message.")),
        must("to", nullable(text("Addressee: an agent, `role:…` or `*`; null if not directed."))),
        must("message_type", text("`request`, `response`, `notify` or `broadcast`.")),
        must("correlation_id", nullable(text("The request that this message answers."))),
        must("payload", free("Content of the message.")),
        must("status", text("`delivered`, `read` or `expired`.")),
        must("created_at", text("When the message was sent.")),
    ])
}

/// Returns a message as this server answers it.
fn shown<'a>(call: &Call, message: &'a Message) -> MessageBody<'a> {
    MessageBody::new(message, call.ctx().settings.strict, Dialect::Standard)
}

fn payload(given: Box<RawValue>) -> Result<Payload, Problem> {
    Ok(Payload::new("payload", given, PAYLOAD_BYTES)?)
}

fn metadata(given: Option<Box<RawValue>>) -> Result<Option<Payload>, Problem> {
    let given = given.filter(|raw| raw.get() != "null");
    Ok(given.map(|raw| Payload::new("metadata", raw, METADATA_BYTES)).transpose()?)
}

/// Sends a message to a channel.
async fn deliver(
    call: &Call,
    channel_id: ChannelId,
    draft: Draft,
    once: Option<Idempotency>,
) -> Result<Arc<Message>, Problem> {
    let (ctx, caller) = (call.ctx(), &call.caller);
    caller.require(Scope::ChannelsWrite)?;
    let intent_id = home(ctx, channel_id).await?;
    let objection = proofs::objection(ctx, channel_id, &draft).await?;
    let objection = objection.or_else(|| ctx.objection_to_message(caller, &draft.sender, intent_id));
    let principal = caller.principal().to_owned();
    let command = Command {
        channel_id,
        intent_id,
        draft,
        principal,
        once,
        objection,
        trace: caller.trace,
        handover: None,
    };
    Ok(call.api.openintent.message_writer.send(command).await?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendArgs {
    channel: String,
    payload: Box<RawValue>,
    r#type: Option<OneWayType>,
    to: Option<String>,
    metadata: Option<Box<RawValue>>,
    expires_in_s: Option<u32>,
    idempotency_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum OneWayType {
    Notify,
    Broadcast,
}

async fn send_message(call: Call) -> ToolResult {
    let said: SendArgs = call.read()?;
    let channel_id = id("channel", &said.channel)?;
    let end = said.expires_in_s.map(|_| within("expires_in_s", said.expires_in_s, 1, 1, DURATION_SECONDS));
    let once = call.once(said.idempotency_key.as_deref(), "send_message")?;
    let draft = Draft {
        sender: call.speaker()?,
        to: said.to.filter(|to| !to.is_empty()),
        message_type: match said.r#type {
            Some(OneWayType::Broadcast) => MessageType::Broadcast,
            Some(OneWayType::Notify) | None => MessageType::Notify,
        },
        correlation_id: None,
        payload: payload(said.payload)?,
        metadata: metadata(said.metadata)?,
        expires_at: end.transpose()?.map(|seconds| plus_seconds(call.ctx().now(), seconds)),
    };
    let message = deliver(&call, channel_id, draft, once).await?;
    let summary = format!("Sent {} on {}.", message.id, message.channel_id);
    Answer::new(summary, &shown(&call, &message))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskArgs {
    channel: String,
    to: String,
    payload: Box<RawValue>,
    metadata: Option<Box<RawValue>>,
    timeout_s: Option<u32>,
    expires_in_s: Option<u32>,
    idempotency_key: Option<String>,
}

async fn ask_agent(call: Call) -> ToolResult {
    let said: AskArgs = call.read()?;
    call.caller.require(Scope::ChannelsRead)?;
    let channel_id = id("channel", &said.channel)?;
    let patience = within("timeout_s", said.timeout_s, WAIT_SECONDS, 0, ASK_SECONDS)?;
    let open = within("expires_in_s", said.expires_in_s, OPEN_SECONDS, 1, DURATION_SECONDS)?;
    let once = call.once_besides(said.idempotency_key.as_deref(), "ask_agent", "timeout_s")?;
    let draft = Draft {
        sender: call.speaker()?,
        to: Some(said.to.clone()),
        message_type: MessageType::Request,
        correlation_id: None,
        payload: payload(said.payload)?,
        metadata: metadata(said.metadata)?,
        expires_at: Some(plus_seconds(call.ctx().now(), open)),
    };
    let _place = call.waits()?;
    let request = deliver(&call, channel_id, draft, once).await?;
    let answered = call.unless_stopping(answer(&call, &request, patience));
    let response = Box::pin(known(&call.ctx().openintent, &request, Want::Count(1), answered)).await;
    let response = response.transpose()?.flatten();
    let (state, summary) = match &response {
        Some(response) => ("answered", format!("{} answered {}.", response.sender, request.id)),
        None => (
            "pending",
            format!("No answer yet to {}. It stays open; go on, or call wait_for_events.", request.id),
        ),
    };
    let response = response.as_ref().map(|response| shown(&call, response));
    Answer::new(summary, &json!({ "state": state, "request_id": request.id, "response": response }))
}

/// Waits for the response to a request; `None` if the time runs out.
async fn answer(call: &Call, request: &Message, patience: u32) -> Result<Option<Message>, Problem> {
    let until = Instant::now() + Duration::from_secs(u64::from(patience));
    let mut filter = MessageFilter {
        since: Some(Since::Number(request.number)),
        to: Some(request.sender.clone()),
        limit: PAGE,
    };
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let page =
            messages::wait(&call.ctx().openintent, &call.caller, request.channel_id, &filter, left).await?;
        let MessagePage { messages, next, .. } = page;
        if messages.is_empty() {
            return Ok(None);
        }
        if let Some(found) = messages.into_iter().find(|message| message.correlation_id == Some(request.id)) {
            return Ok(Some(found));
        }
        filter.since = Some(Since::parse(&next)?);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyArgs {
    channel: String,
    message_id: String,
    payload: Box<RawValue>,
    metadata: Option<Box<RawValue>>,
    idempotency_key: Option<String>,
}

async fn reply_message(call: Call) -> ToolResult {
    let said: ReplyArgs = call.read()?;
    let channel_id = id("channel", &said.channel)?;
    let original: MessageId = id("message", &said.message_id)?;
    let once = call.once(said.idempotency_key.as_deref(), "reply_message")?;
    let draft = Draft {
        sender: call.speaker()?,
        to: None,
        message_type: MessageType::Response,
        correlation_id: Some(original),
        payload: payload(said.payload)?,
        metadata: metadata(said.metadata)?,
        expires_at: None,
    };
    let message = deliver(&call, channel_id, draft, once).await?;
    let summary = format!("Answered {original} with {}.", message.id);
    Answer::new(summary, &shown(&call, &message))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArgs {
    channel: String,
    after: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
    wait_s: Option<u32>,
    #[serde(default)]
    ack: bool,
}

async fn read_messages(call: Call) -> ToolResult {
    let said: ReadArgs = call.read()?;
    let channel_id = id("channel", &said.channel)?;
    let subject = format!("channel {channel_id}");
    let mut place = Place::open(&call, subject, said.cursor.as_deref(), said.after.as_deref()).await?;
    let filter = MessageFilter {
        since: Place::from(place.as_ref(), said.after.as_deref()).map(Since::parse).transpose()?,
        to: None,
        limit: within("limit", said.limit, STEP, 1, PAGE)?,
    };
    let patience = within("wait_s", said.wait_s, 0, 0, WAIT_SECONDS)?;
    let now = || messages::list(&call.ctx().openintent, &call.caller, channel_id, &filter);
    let page = if patience == 0 {
        now().await?
    } else {
        let _place = call.waits()?;
        let time = Duration::from_secs(u64::from(patience));
        let waited = messages::wait(&call.ctx().openintent, &call.caller, channel_id, &filter, time);
        match call.unless_stopping(waited).await {
            Some(page) => page?,
            None => now().await?,
        }
    };
    let first = page.messages.first();
    Place::begins(&mut place, || first.map(|message| cursors::after(message.number.saturating_sub(1))));
    let cursor = Place::keep(place, &call, &page.next).await?;
    let marked = if said.ack { mark(&call, &page.messages).await? } else { 0 };
    let bodies: Vec<MessageBody<'_>> = page.messages.iter().map(|message| shown(&call, message)).collect();
    let missed = page.missed.filter(|missed| missed.count > 0);
    let missed = missed.map(|missed| format!(" {} before them were evicted or have expired.", missed.count));
    let (count, missed) = (bodies.len(), missed.unwrap_or_default());
    let summary = match &cursor {
        Some(cursor) => format!("{count} message(s).{missed} Continue with cursor={cursor}."),
        None => format!("{count} message(s).{missed} Continue with after={}.", page.next),
    };
    let next = page.next.as_str();
    let body = json!({ "messages": bodies, "next": next, "cursor": cursor, "marked_read": marked });
    Answer::new(summary, &body)
}

/// Marks the messages addressed to the caller as read, and returns their number.
async fn mark(call: &Call, messages: &[Message]) -> Result<usize, Problem> {
    let agent = &call.caller.agent;
    let unread = messages.iter().filter(|message| {
        message.status == MessageStatus::Delivered
            && message.sender != *agent
            && message.recipients.as_ref().is_none_or(|recipients| recipients.contains(agent))
    });
    let mut marked = 0;
    for message in unread {
        match messages::mark_read(&call.ctx().openintent, &call.caller, message.channel_id, message.id).await
        {
            Ok(_) => marked += 1,
            // The message has expired meanwhile, or is not addressed to this agent after all.
            Err(AppError::Refused(_)) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    Ok(marked)
}
