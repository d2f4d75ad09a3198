//! Message routes (RFC-0021 §2 to §4).

pub(crate) mod asks;
pub(crate) mod batches;
pub mod turns;

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::{HttpRequest, get, patch, post, web};
use entente_domain::cursors::Since;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{ChannelId, IntentId, MessageId};
use entente_domain::limits::{METADATA_BYTES, PAGE, PAYLOAD_BYTES, WAIT_SECONDS};
use entente_domain::openintent::messages::{Draft, Message, MessageStatus, MessageType};
use entente_domain::payload::Payload;
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, IdempotencyKey, Limit1000, Query, id};
use entente_http::caller::Asker;
use entente_http::error::{Problem, ProblemBody, Reply};
use entente_http::message::MessageBody;
use entente_http::presence::Presence;
use entente_http::routes::Routes;
use entente_http::wire::GivenTime;
use entente_http::{created, ok, paged};
use entente_kernel::audit::proofs;
use entente_kernel::channels::access::home;
use entente_kernel::messages::MessageFilter;
use entente_openintent::messages;
use entente_openintent::messages::MessagePage;
use entente_openintent::messages::writer::Command;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::ApiState;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(send).service(send_by_name).service(list).service(get).service(respond).service(mark_read);
}

/// A message to send.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({
    "sender": "agent.researcher", "to": "agent.data", "message_type": "request",
    "payload": { "question": "What schema version does the Q1 dataset use?" }
}))]
pub(crate) struct SendBody {
    /// Agent that sends the message; the key must be allowed to act as it.
    sender: String,
    /// Addressee: an agent, `role:…` or `*`.
    to: Option<String>,
    /// `request`, `response`, `notify` or `broadcast`; defaults to `notify`.
    message_type: Option<String>,
    /// For a response: the id of the request.
    correlation_id: Option<String>,
    /// Content: an object of up to 256 KiB; defaults to `{}`, required in strict mode.
    #[schema(value_type = Option<Object>)]
    payload: Option<Box<RawValue>>,
    /// Hints for routing and tracing: an object of up to 16 KiB; a `proof` in it is verified if its type is
    /// `Ed25519Signature2026` and the sender has an identity.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Box<RawValue>>,
    /// When the message expires.
    expires_at: Option<GivenTime>,
}

/// Parses a message's payload; without one it is empty, which strict mode refuses (RFC-0021 §2.2, OI-2.10).
pub(crate) fn payload(given: Option<Box<RawValue>>, strict: bool) -> Result<Payload, Refusal> {
    match given {
        Some(raw) => Payload::new("payload", raw, PAYLOAD_BYTES),
        None if strict => {
            let message = "`payload` is missing. Send the content as a JSON object, `{}` if there is none.";
            Err(Refusal::field(Code::InvalidRequest, "payload", "missing", message))
        }
        None => Ok(Payload::empty()),
    }
}

fn metadata(given: Option<Box<RawValue>>) -> Result<Option<Payload>, Refusal> {
    let given = given.filter(|raw| raw.get() != "null");
    given.map(|raw| Payload::new("metadata", raw, METADATA_BYTES)).transpose()
}

impl SendBody {
    pub(crate) fn draft(self, api: &ApiState, asker: &Asker) -> Result<Draft, Refusal> {
        let sender = asker.caller.speaker("sender", Some(&self.sender), api.ctx.settings.strict)?;
        self.draft_of(sender, api.ctx.settings.strict)
    }

    fn draft_of(self, sender: String, strict: bool) -> Result<Draft, Refusal> {
        let correlation_id = self.correlation_id.filter(|text| !text.is_empty()).map(|text| {
            text.parse::<MessageId>().map_err(|_no_id| {
                let message = format!("`{text}` is no message's id.");
                Refusal::field(Code::NotARequest, "correlation_id", "unknown", message)
            })
        });
        Ok(Draft {
            sender,
            to: self.to.filter(|to| !to.is_empty()),
            message_type: message_type(self.message_type.as_deref(), strict)?,
            correlation_id: correlation_id.transpose()?,
            payload: payload(self.payload, strict)?,
            metadata: metadata(self.metadata)?,
            expires_at: self.expires_at.map(|end| end.0),
        })
    }
}

/// Parses the type of a message; some deployed clients send `message` for a notify (OI-2.5).
fn message_type(word: Option<&str>, strict: bool) -> Result<MessageType, Refusal> {
    match word {
        None => Ok(MessageType::Notify),
        Some("message") if !strict => Ok(MessageType::Notify),
        Some(word) => MessageType::parse(word).ok_or_else(|| {
            let message = format!("`{word}` is no message type: use request, response, notify or broadcast.");
            Refusal::field(Code::InvalidRequest, "message_type", "enum", message)
        }),
    }
}

/// Sends a message to a channel.
async fn deliver(
    api: &ApiState,
    asker: &Asker,
    channel_id: ChannelId,
    draft: Draft,
    once: Option<Idempotency>,
) -> Result<Arc<Message>, Problem> {
    asker.caller.require(Scope::ChannelsWrite)?;
    let intent_id = home(&api.ctx, channel_id).await?;
    let objection = proofs::objection(&api.ctx, channel_id, &draft).await?;
    let objection =
        objection.or_else(|| api.ctx.objection_to_message(&asker.caller, &draft.sender, intent_id));
    let principal = asker.caller.principal().to_owned();
    Ok(api
        .message_writer
        .send(Command {
            channel_id,
            intent_id,
            draft,
            principal,
            once,
            objection,
            trace: asker.caller.trace,
            handover: None,
        })
        .await?)
}

/// Send a message
///
/// Responds once the message is durably stored. A directed message is visible only to its sender, its addressees and the
/// channel's managers.
#[utoipa::path(operation_id = "send_message", tag = "messages", request_body = SendBody, params(IdempotencyKey),
    responses((status = 201, description = "The message", body = MessageBody),
              (status = 403, description = "`may_not_act_as`, `not_a_member` or `forbidden`", body = ProblemBody),
              (status = 409, description = "`channel_closed` or `idempotency_mismatch`", body = ProblemBody)))]
#[post("/channels/{channel_id}/messages")]
async fn send(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<SendBody>,
) -> Reply {
    let channel_id: ChannelId = id("channel", &path)?;
    let once = body.once(&request)?;
    let draft = body.value.draft(&api, &asker)?;
    let message = deliver(&api, &asker, channel_id, draft, once).await?;
    created(&shown(&message, &api, &asker))
}

/// Send a message to a channel by its name
///
/// Opens the channel for everyone with access to the intent if no open channel has the name (RFC-0021 §1.4).
#[utoipa::path(operation_id = "send_message_by_name", tag = "messages", request_body = SendBody,
    params(("name" = String, Path, description = "Name of the channel"), IdempotencyKey),
    responses((status = 201, description = "The message", body = MessageBody)))]
#[post("/intents/{intent_id}/channels/{name}/messages")]
async fn send_by_name(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: Body<SendBody>,
) -> Reply {
    asker.caller.require(Scope::ChannelsWrite)?;
    let intent_id: IntentId = id("intent", &path.0)?;
    let once = body.once(&request)?;
    let draft = body.value.draft(&api, &asker)?;
    proofs::refuse_unplaced(&api.ctx, &draft).await?;
    let message =
        api.message_writer.send_by_name(&api.ctx, &asker.caller, intent_id, &path.1, draft, once).await?;
    created(&shown(&message, &api, &asker))
}

/// List a channel's messages
///
/// Returns the messages after `since`, or else the newest; oldest first in both cases. With `wait`, responds as soon as there
/// is a message, or with an empty list when the time is over. Pass the header `Entente-Next-Cursor` as `since` to continue. A
/// page holds at most 4 MiB of messages, or 256 KiB while other large responses to the same key are still unread;
/// `Entente-Has-More` marks a truncated page. Without `since`, truncation drops the older messages. With a message id or a
/// cursor as `since`, `Entente-Missed` tells how many messages were evicted or expired before this reader came.
#[utoipa::path(operation_id = "list_messages", tag = "messages",
    params(("since" = Option<String>, Query, description = "Only messages after this message id, cursor or time; defaults to the newest"),
           ("to" = Option<String>, Query, description = "Only messages to this agent (including its roles and broadcasts), `role:…` or `*`"),
           Limit1000, ("wait" = Option<u32>, Query, description = "Seconds to wait if there is no message, up to 120; defaults to 0", maximum = 120)),
    responses((status = 200, description = "The messages", body = [MessageBody],
               headers(("Entente-Next-Cursor" = String, description = "The `since` of the next page"),
                       ("Entente-Has-More" = Option<String>, description = "`true` if the page was cut short because of its size"),
                       ("Entente-Missed" = Option<i64>, description = "Number of messages after `since` that the channel has evicted, or that have expired unread; absent if there is none"),
                       ("Entente-Oldest" = Option<i64>, description = "With `Entente-Missed`: number of the oldest message that the channel still has"),
                       ("Entente-Newest" = Option<i64>, description = "With `Entente-Missed`: number of the newest message")))))]
#[get("/channels/{channel_id}/messages")]
async fn list(
    api: web::Data<ApiState>,
    asker: Asker,
    presence: Presence,
    path: web::Path<String>,
    query: Query,
) -> Reply {
    let channel_id: ChannelId = id("channel", &path)?;
    let since = query.text("since").map(Since::parse).transpose()?;
    let filter = MessageFilter { since, to: query.text("to").map(str::to_owned), limit: query.limit(PAGE)? };
    let wait = query.wait(WAIT_SECONDS)?;
    let page = if wait == 0 {
        messages::list(&api.ctx, &asker.caller, channel_id, &filter).await?
    } else {
        let _place = asker.caller.waits(api.limits.max_streams_per_key)?;
        let time = Duration::from_secs(u64::from(wait));
        tokio::select! {
            page = messages::wait(&api.ctx, &asker.caller, channel_id, &filter, time) => page?,
            // The server is stopping: return the messages that exist now.
            () = presence.over().cancelled() => messages::list(&api.ctx, &asker.caller, channel_id, &filter).await?,
        }
    };
    response(page, &api, &asker)
}

/// Returns a message as this server answers it to the caller.
pub(crate) fn shown<'a>(message: &'a Message, api: &ApiState, asker: &Asker) -> MessageBody<'a> {
    MessageBody::new(message, api.ctx.settings.strict, asker.dialect)
}

fn response(page: MessagePage, api: &ApiState, asker: &Asker) -> Reply {
    let bodies: Vec<MessageBody<'_>> =
        page.messages.iter().map(|message| shown(message, api, asker)).collect();
    let next = HeaderValue::try_from(page.next).map_err(|e| Problem::internal(&e.to_string()))?;
    let mut response = paged(&bodies, page.cut, page.large)?;
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("entente-next-cursor"), next);
    if let Some(missed) = page.missed.filter(|missed| missed.count > 0) {
        headers.insert(HeaderName::from_static("entente-missed"), HeaderValue::from(missed.count));
        headers.insert(HeaderName::from_static("entente-oldest"), HeaderValue::from(missed.oldest));
        headers.insert(HeaderName::from_static("entente-newest"), HeaderValue::from(missed.newest));
    }
    Ok(response)
}

/// Get a message
#[utoipa::path(operation_id = "get_message", tag = "messages",
    responses((status = 200, description = "The message", body = MessageBody)))]
#[get("/channels/{channel_id}/messages/{message_id}")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<(String, String)>) -> Reply {
    let message: MessageId = id("message", &path.1)?;
    let message = messages::get(&api.ctx, &asker.caller, id("channel", &path.0)?, message).await?;
    ok(&shown(&message, &api, &asker))
}

/// A reply to a request.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "sender": "agent.data", "payload": { "answer": "v2.3" } }))]
struct ReplyBody {
    /// Agent that replies; the key must be allowed to act as it.
    sender: String,
    /// Content: an object of up to 256 KiB; defaults to `{}`, required in strict mode.
    #[schema(value_type = Option<Object>)]
    payload: Option<Box<RawValue>>,
    /// Hints for routing and tracing.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Box<RawValue>>,
}

/// Reply to a message
///
/// Sends a response to the request's sender, with the request's id as `correlation_id` (RFC-0021 §3). Only the addressees of
/// a directed request can reply to it.
#[utoipa::path(operation_id = "reply_to_message", tag = "messages", request_body = ReplyBody,
    params(("message_id" = String, Path, description = "The request"), IdempotencyKey),
    responses((status = 201, description = "The response", body = MessageBody),
              (status = 409, description = "`channel_closed` or `message_expired`", body = ProblemBody)))]
#[post("/channels/{channel_id}/messages/{message_id}/reply")]
async fn respond(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: Body<ReplyBody>,
) -> Reply {
    let channel_id: ChannelId = id("channel", &path.0)?;
    let original: MessageId = id("message", &path.1)?;
    let once = body.once(&request)?;
    let (said, strict) = (body.value, api.ctx.settings.strict);
    let draft = Draft {
        sender: asker.caller.speaker("sender", Some(&said.sender), strict)?,
        to: None,
        message_type: MessageType::Response,
        correlation_id: Some(original),
        payload: payload(said.payload, strict)?,
        metadata: metadata(said.metadata)?,
        expires_at: None,
    };
    let sent = deliver(&api, &asker, channel_id, draft, once).await;
    // Here the path names the request, not the body: an unknown request is a 404.
    let unknown = |problem: Problem| -> Problem {
        if problem.is_about("correlation_id", "unknown") {
            Refusal::not_found("message").into()
        } else {
            problem
        }
    };
    let message = sent.map_err(unknown)?;
    created(&shown(&message, &api, &asker))
}

/// A new status of a message.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = MessageStatusChange)]
#[schema(example = json!({ "status": "read" }))]
struct StatusBody {
    /// New status; only `read` can be set.
    status: MessageStatus,
}

/// Mark a message read
///
/// Allowed for the message's addressees. Idempotent.
#[utoipa::path(operation_id = "mark_message_read", tag = "messages", request_body = StatusBody,
    responses((status = 200, description = "The message", body = MessageBody),
              (status = 409, description = "`message_expired`", body = ProblemBody)))]
#[patch("/channels/{channel_id}/messages/{message_id}")]
async fn mark_read(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: Body<StatusBody>,
) -> Reply {
    let message: MessageId = id("message", &path.1)?;
    if body.value.status != MessageStatus::Read {
        let message = "Only `read` can be set; the other statuses are the server's to give.";
        return Err(Refusal::field(Code::InvalidRequest, "status", "enum", message).into());
    }
    let message = messages::mark_read(&api.ctx, &asker.caller, id("channel", &path.0)?, message).await?;
    ok(&shown(&message, &api, &asker))
}
