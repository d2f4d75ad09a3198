//! Endpoint that sends a request and waits for its responses (RFC-0021 §3).

use actix_web::{HttpRequest, post, web};
use entente_domain::identity::keys::Scope;
use entente_domain::ids::ChannelId;
use entente_domain::limits::{METADATA_BYTES, WAIT_SECONDS};
use entente_domain::openintent::messages::{Draft, MessageType};
use entente_domain::payload::Payload;
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, id};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::message::MessageBody;
use entente_http::ok;
use entente_http::presence::Presence;
use entente_http::routes::Routes;
use entente_kernel::audit::proofs;
use entente_kernel::channels::access::home;
use entente_openintent::messages::asks;
use entente_openintent::messages::asks::{AskEnd, Want};
use entente_openintent::messages::writer::Command;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::ApiState;
use crate::messages::{payload, shown};

pub fn routes(config: &mut Routes<'_>) {
    config.service(ask);
}

/// How many responses to wait for.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(untagged)]
enum Expect {
    /// Exactly this number.
    Count(u32),
    /// `all`: one response from each recipient of the request.
    Word(All),
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum All {
    /// One response from each recipient.
    All,
}

/// A question to ask.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "to": "agent.data", "payload": { "question": "What schema version?" }, "timeout": 30 }))]
struct AskBody {
    /// The agent that asks; defaults to the acting agent.
    sender: Option<String>,
    /// The recipient: an agent, `role:…` or `*`.
    to: Option<String>,
    /// The question: an object of up to 256 KiB; defaults to `{}`, required in strict mode.
    #[schema(value_type = Option<Object>)]
    payload: Option<Box<RawValue>>,
    /// Hints for routing and tracing.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Box<RawValue>>,
    /// Seconds to wait, 1 to 120; defaults to 30. The request expires when the wait ends.
    #[serde(alias = "timeout_seconds")]
    timeout: Option<u32>,
    /// Number of responses to wait for, or `all`; defaults to 1.
    expect: Option<Expect>,
}

/// The result of an ask.
#[derive(Debug, Serialize, ToSchema)]
struct AskReply<'a> {
    /// `complete`; `timeout`, with the responses so far; `expired` if nobody can respond any more; or `interrupted`
    /// if the server is stopping, in which case the request stays pending.
    #[schema(example = "complete")]
    outcome: &'static str,
    /// The request that was sent.
    request: MessageBody<'a>,
    /// The first response, if there is one.
    response: Option<MessageBody<'a>>,
    /// All responses, in order of arrival.
    responses: Vec<MessageBody<'a>>,
}

/// Ask and wait for the answer
///
/// Sends a request and returns its response, or several of them with `expect`, as soon as they have arrived; at the
/// timeout it returns the responses so far. The status is 200 in each case: `outcome` tells them apart.
#[utoipa::path(tag = "messages", request_body = AskBody,
    responses((status = 200, description = "The result: all responses, or those so far", body = AskReply)))]
#[post("/channels/{channel_id}/ask")]
async fn ask(
    request: HttpRequest,
    api: web::Data<ApiState>,
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
        sender: asker.caller.speaker("sender", said.sender.as_deref(), api.ctx.settings.strict)?,
        to: said.to.filter(|to| !to.is_empty()),
        message_type: MessageType::Request,
        correlation_id: None,
        payload: payload(said.payload, api.ctx.settings.strict)?,
        metadata: metadata.map(|raw| Payload::new("metadata", raw, METADATA_BYTES)).transpose()?,
        expires_at: None,
    };
    let _place = asker.caller.waits(api.limits.max_streams_per_key)?;
    let intent_id = home(&api.ctx, channel_id).await?;
    let objection = proofs::objection(&api.ctx, channel_id, &draft).await?;
    let objection =
        objection.or_else(|| api.ctx.objection_to_message(&asker.caller, &draft.sender, intent_id));
    let command = Command {
        channel_id,
        intent_id,
        draft,
        principal: asker.caller.principal().to_owned(),
        once,
        objection,
        trace: asker.caller.trace,
        handover: None,
    };
    let (ctx, over) = (&api.ctx, presence.over());
    let answer = asks::ask(ctx, &api.message_writer, &asker.caller, command, want, seconds, over).await?;
    let responses = || answer.responses.iter().map(|message| shown(message, &api, &asker));
    ok(&AskReply {
        outcome: match answer.end {
            AskEnd::Complete => "complete",
            AskEnd::TimedOut => "timeout",
            AskEnd::Expired => "expired",
            AskEnd::Interrupted => "interrupted",
        },
        request: shown(&answer.request, &api, &asker),
        response: responses().next(),
        responses: responses().collect(),
    })
}
