//! Endpoint that sends many messages in one request, each one independently (RFC-0021 §2, OI-10.2).

use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, post, web};
use entente_domain::identity::keys::Scope;
use entente_domain::ids::ChannelId;
use entente_domain::limits::BATCH;
use entente_domain::openintent::messages::{Draft, Message};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, IdempotencyKey, id, read_at};
use entente_http::caller::Asker;
use entente_http::error::{Problem, ProblemBody, Reply};
use entente_http::json;
use entente_http::message::MessageBody;
use entente_http::routes::Routes;
use entente_kernel::audit::proofs;
use entente_kernel::channels::access::home;
use entente_openintent::messages::writer::Command;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::ApiState;
use crate::messages::{SendBody, shown};

pub fn routes(config: &mut Routes<'_>) {
    config.service(send_batch);
}

/// Several messages to send.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "messages": [
    { "sender": "agent.researcher", "payload": { "batch": 1 } }, { "sender": "agent.researcher", "payload": { "batch": 2 } }
] }))]
struct BatchBody {
    /// The messages, up to 1,000, in sending order.
    #[schema(value_type = Vec<SendBody>)]
    messages: Vec<Box<RawValue>>,
}

/// The outcome for one message of a batch.
#[derive(Debug, Serialize, ToSchema)]
struct BatchItem<'a> {
    /// The message's index in the batch, from 0.
    index: usize,
    /// The message, if it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<MessageBody<'a>>,
    /// The error, if it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ProblemBody>,
}

/// The outcome of a batch.
#[derive(Debug, Serialize, ToSchema)]
struct BatchReply<'a> {
    /// Number of messages sent.
    sent: usize,
    /// Number of messages refused.
    refused: usize,
    /// The outcome of each message, in the order of the batch.
    results: Vec<BatchItem<'a>>,
}

/// Parses each message of a batch for itself.
fn drafts(
    request: &HttpRequest,
    api: &ApiState,
    asker: &Asker,
    items: &[Box<RawValue>],
) -> Vec<Result<Draft, Problem>> {
    let read = |index: usize, raw: &RawValue| -> Result<Draft, Problem> {
        let body: SendBody = read_at(request, &["messages", &index.to_string()], raw.get().as_bytes())?;
        Ok(body.draft(api, asker)?)
    };
    items.iter().enumerate().map(|(index, raw)| read(index, raw)).collect()
}

/// Send several messages
///
/// Messages are independent: a refused one does not affect the others. With an `Idempotency-Key`, a retry sends only
/// the messages that were not sent before.
#[utoipa::path(operation_id = "send_messages", tag = "messages", request_body = BatchBody, params(IdempotencyKey),
    responses((status = 201, description = "All messages were sent", body = BatchReply),
              (status = 207, description = "Some messages were refused", body = BatchReply)))]
#[post("/channels/{channel_id}/messages/batch")]
async fn send_batch(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<BatchBody>,
) -> Reply {
    let channel_id: ChannelId = id("channel", &path)?;
    let once = body.once(&request)?;
    let items = body.value.messages;
    if items.is_empty() || items.len() > BATCH {
        let message = format!("A batch has 1 to {BATCH} messages, this one has {}.", items.len());
        return Err(Refusal::field(Code::InvalidRequest, "messages", "length", message).into());
    }
    asker.caller.require(Scope::ChannelsWrite)?;
    let intent_id = home(&api.ctx, channel_id).await?;
    let drafts = drafts(&request, &api, &asker, &items);
    let good: Vec<&Draft> = drafts.iter().flatten().collect();
    let mut objections = proofs::objections(&api.ctx, channel_id, &good).await?.into_iter();
    let mut commands = Vec::with_capacity(items.len());
    let mut outcomes: Vec<Option<Result<Arc<Message>, Problem>>> = Vec::with_capacity(items.len());
    let stopped = |draft: &Draft| api.ctx.objection_to_message(&asker.caller, &draft.sender, intent_id);
    for (index, draft) in drafts.into_iter().enumerate() {
        match draft {
            Ok(draft) => {
                let principal = asker.caller.principal().to_owned();
                let once = once.as_ref().map(|once| once.item(index, items[index].get().as_bytes()));
                let objection = objections.next().flatten().or_else(|| stopped(&draft));
                commands.push(Command {
                    channel_id,
                    intent_id,
                    draft,
                    principal,
                    once,
                    objection,
                    trace: asker.caller.trace,
                    handover: None,
                });
                outcomes.push(None);
            }
            Err(problem) => outcomes.push(Some(Err(problem))),
        }
    }
    let mut sent = api.message_writer.send_all(intent_id, commands).await.into_iter();
    let mut outcomes: Vec<Result<Arc<Message>, Problem>> = outcomes
        .into_iter()
        .filter_map(|outcome| outcome.or_else(|| sent.next().map(|answer| answer.map_err(Problem::from))))
        .collect();
    // The caller can see a channel for all items or for none, so not-found everywhere is the answer to the whole
    // request.
    let unseen = |outcome: &Result<_, Problem>| {
        outcome.as_ref().is_err_and(|problem| problem.code() == Code::NotFound)
    };
    if outcomes.iter().all(unseen)
        && let Some(Err(problem)) = outcomes.pop()
    {
        return Err(problem);
    }
    let refused = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    let results = outcomes.iter().enumerate().map(|(index, outcome)| BatchItem {
        index,
        message: outcome.as_ref().ok().map(|message| shown(message, &api, &asker)),
        error: outcome.as_ref().err().map(Problem::body),
    });
    let reply = BatchReply { sent: outcomes.len() - refused, refused, results: results.collect() };
    json(if refused == 0 { StatusCode::CREATED } else { StatusCode::MULTI_STATUS }, &reply)
}
