//! The route of asking and waiting (RFC-0021 §3).

use actix_web::{HttpRequest, post, web};
use entente_domain::ids::ChannelId;
use entente_domain::keys::Scope;
use entente_domain::limits::{METADATA_BYTES, PAYLOAD_BYTES, WAIT_SECONDS};
use entente_domain::messages::{Draft, MessageType};
use entente_domain::payload::Payload;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::asks::{self, AskEnd, Want};
use entente_kernel::proofs;
use entente_kernel::sends::Command;
use entente_kernel::visits::home;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::body::{Body, id};
use super::caller::Asker;
use super::error::Reply;
use super::messages::MessageBody;
use super::presence::Presence;
use super::{Doors, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(ask);
}

/// How many responses to wait for.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(untagged)]
enum Expect {
    /// This many.
    Count(u32),
    /// `all`: one from each whom the request is for.
    Word(All),
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum All {
    /// All of them.
    All,
}

/// A question.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "to": "agent.data", "payload": { "question": "What schema version?" }, "timeout": 30 }))]
struct AskBody {
    /// Who asks; the acting agent when nothing is said.
    sender: Option<String>,
    /// Whom to ask: an agent, `role:…` or `*`.
    to: Option<String>,
    /// The question: an object of up to 256 KiB.
    #[schema(value_type = Option<Object>)]
    payload: Option<Box<RawValue>>,
    /// Hints for routing and tracing.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Box<RawValue>>,
    /// Seconds to wait, 1 to 120; 30 when nothing is said. The request expires with it.
    #[serde(alias = "timeout_seconds")]
    timeout: Option<u32>,
    /// How many responses to wait for: a number, or `all`; 1 when nothing is said.
    expect: Option<Expect>,
}

/// What an ask has when it ends.
#[derive(Debug, Serialize, ToSchema)]
struct AskReply<'a> {
    /// `complete`; `timeout`, with what there is; `expired`: nobody can answer any more; or `interrupted`: the server is
    /// stopping, the request still waits.
    #[schema(example = "complete")]
    outcome: &'static str,
    /// The request that was sent.
    request: MessageBody<'a>,
    /// The first response, if there is one.
    response: Option<MessageBody<'a>>,
    /// All responses, in their order.
    responses: Vec<MessageBody<'a>>,
}

/// Ask and wait for the answer
///
/// Sends a request and answers with its response, or with `expect` several of them, as soon as they are there, or when the
/// time is up with what is there then. A 200 either way: `outcome` says which.
#[utoipa::path(tag = "messages", request_body = AskBody, params(("channel_id" = String, Path, description = "The channel")),
    responses((status = 200, description = "What there is", body = AskReply)))]
#[post("/channels/{channel_id}/ask")]
async fn ask(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    presence: Presence,
    path: web::Path<String>,
    body: Body<AskBody>,
) -> Reply {
    asker.caller.require(Scope::ChannelsWrite)?;
    asker.caller.require(Scope::ChannelsRead)?;
    let channel_id: ChannelId = id("channel", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let seconds = said.timeout.unwrap_or(30);
    if !(1..=WAIT_SECONDS).contains(&seconds) {
        let message =
            format!("`timeout` must be 1 to {WAIT_SECONDS} seconds. Send a request and poll to wait longer.");
        return Err(Refusal::field(Code::InvalidRequest, "timeout", "range", message).into());
    }
    let want = match said.expect {
        None => Want::Count(1),
        Some(Expect::Count(0)) => {
            let message = "`expect` must be at least 1, or `all`. Send a request to wait for nothing.";
            return Err(Refusal::field(Code::InvalidRequest, "expect", "range", message).into());
        }
        Some(Expect::Count(count)) => Want::Count(count),
        Some(Expect::Word(All::All)) => Want::All,
    };
    let metadata = said.metadata.filter(|raw| raw.get() != "null");
    let draft = Draft {
        sender: asker.caller.speaker("sender", said.sender.as_deref(), doors.ctx.settings.strict)?,
        to: said.to.filter(|to| !to.is_empty()),
        message_type: MessageType::Request,
        correlation_id: None,
        payload: match said.payload {
            None => Payload::empty(),
            Some(raw) => Payload::new("payload", raw, PAYLOAD_BYTES)?,
        },
        metadata: metadata.map(|raw| Payload::new("metadata", raw, METADATA_BYTES)).transpose()?,
        expires_at: None,
    };
    let _place = asker.caller.waits(doors.limits.max_streams_per_key)?;
    let intent_id = home(&doors.ctx, channel_id).await?;
    let objection = proofs::objection(&doors.ctx, channel_id, &draft).await?;
    let command = Command {
        channel_id,
        intent_id,
        draft,
        principal: asker.caller.principal().to_owned(),
        once,
        objection,
        trace: asker.caller.trace,
    };
    let answer =
        asks::ask(&doors.ctx, &doors.sends, &asker.caller, command, want, seconds, presence.over()).await?;
    let responses = || answer.responses.iter().map(|message| MessageBody::new(message, asker.dialect));
    ok(&AskReply {
        outcome: match answer.end {
            AskEnd::Complete => "complete",
            AskEnd::TimedOut => "timeout",
            AskEnd::Expired => "expired",
            AskEnd::Interrupted => "interrupted",
        },
        request: MessageBody::new(&answer.request, asker.dialect),
        response: responses().next(),
        responses: responses().collect(),
    })
}
