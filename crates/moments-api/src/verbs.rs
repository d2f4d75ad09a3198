//! Actions on a moment: answer, comment, withdraw, close, acknowledge, view.

use actix_web::{HttpRequest, post, web};
use entente_domain::moments::Resolution;
use entente_http::body::{Body, OptionalBody, once_of};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_moments as moments;
use serde::Deserialize;
use utoipa::ToSchema;

use super::moment_id;
use super::shape::MomentBody;
use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(resolve).service(word).service(withdraw).service(close).service(acknowledge).service(view);
}

/// An answer.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = MomentAnswer, example = json!({ "envelope_digest": "sha256:…", "resolution": { "kind": "option", "option_idx": 0 } }))]
#[serde(deny_unknown_fields)]
struct ResolveBody {
    /// Digest of the question that the person saw.
    #[serde(alias = "digest")]
    envelope_digest: String,
    /// One of the three kinds of resolution.
    resolution: Resolution,
}

/// Answer a question
///
/// Allowed only for the addressed person, with a key of their own. The first answer counts; repeating it is
/// treated as a retry.
#[utoipa::path(operation_id = "resolve_moment", tag = "moments", request_body = ResolveBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Idempotency key: a retry with the same key returns the first answer")),
    responses((status = 200, description = "The moment", body = MomentBody)))]
#[post("/moments/{moment_id}/resolution")]
async fn resolve(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ResolveBody>,
) -> Reply {
    let moment_id = moment_id(&path)?;
    // Neither the body nor its hash is stored under the idempotency key: a short answer could be guessed.
    let once = once_of(&request)?;
    let ResolveBody { envelope_digest, resolution } = body.value;
    let (ctx, caller) = (&api.ctx, &asker.caller);
    let shown = moments::resolve(ctx, caller, moment_id, &envelope_digest, resolution, once.as_ref()).await?;
    ok(&MomentBody::new(&shown, asker.dialect))
}

/// A message to add to a moment.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewMomentWord, example = json!({ "text": "Who is the third reviewer?" }))]
#[serde(deny_unknown_fields)]
struct WordBody {
    /// Text of the message.
    text: String,
}

/// Add a message to a moment
///
/// The author and the moment's state determine the kind of message: a person asks for detail while the
/// question is open, and replies during a deliberation; the agent provides detail, or deliberates. No message
/// is an answer.
#[utoipa::path(operation_id = "say_about_moment", tag = "moments", request_body = WordBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Idempotency key: a retry with the same key adds one message")),
    responses((status = 200, description = "The moment", body = MomentBody)))]
#[post("/moments/{moment_id}/words")]
async fn word(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<WordBody>,
) -> Reply {
    let moment_id = moment_id(&path)?;
    let once = once_of(&request)?;
    let shown = moments::word(&api.ctx, &asker.caller, moment_id, &body.value.text, once.as_ref()).await?;
    ok(&MomentBody::new(&shown, asker.dialect))
}

/// Reason for withdrawing or closing a moment.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = MomentReason, example = json!({ "reason": "no longer needed" }))]
#[serde(deny_unknown_fields)]
struct ReasonBody {
    /// The reason, as free text.
    reason: Option<String>,
}

/// Withdraw a question
///
/// Allowed for the agent that asked. A refused question cannot be withdrawn.
#[utoipa::path(operation_id = "withdraw_moment", tag = "moments", request_body = Option<ReasonBody>,
    responses((status = 200, description = "The moment", body = MomentBody)))]
#[post("/moments/{moment_id}/withdraw")]
async fn withdraw(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<ReasonBody>,
) -> Reply {
    let shown = moments::withdraw(&api.ctx, &asker.caller, moment_id(&path)?, body.0.value.reason).await?;
    ok(&MomentBody::new(&shown, asker.dialect))
}

/// Close a deliberation
///
/// Allowed for the addressed person. Closing also lifts the restrictions that the refusal placed on the
/// agent.
#[utoipa::path(operation_id = "close_moment", tag = "moments", request_body = Option<ReasonBody>,
    responses((status = 200, description = "The moment", body = MomentBody)))]
#[post("/moments/{moment_id}/close")]
async fn close(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<ReasonBody>,
) -> Reply {
    let shown = moments::close(&api.ctx, &asker.caller, moment_id(&path)?, body.0.value.reason).await?;
    ok(&MomentBody::new(&shown, asker.dialect))
}

/// Acknowledge an answer
///
/// Allowed for the agent that asked. Confirms that it has received the answer; from then on, the texts of
/// both are retained only for the period that the server's operator has configured.
#[utoipa::path(operation_id = "acknowledge_moment", tag = "moments",
    responses((status = 200, description = "The moment", body = MomentBody)))]
#[post("/moments/{moment_id}/ack")]
async fn acknowledge(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let shown = moments::acknowledge(&api.ctx, &asker.caller, moment_id(&path)?).await?;
    ok(&MomentBody::new(&shown, asker.dialect))
}

/// Record that a question was viewed
///
/// Records the first view by the addressed person; repeated views, and views by other readers, change
/// nothing.
#[utoipa::path(operation_id = "view_moment", tag = "moments",
    responses((status = 200, description = "The moment", body = MomentBody)))]
#[post("/moments/{moment_id}/view")]
async fn view(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let shown = moments::view(&api.ctx, &asker.caller, moment_id(&path)?).await?;
    ok(&MomentBody::new(&shown, asker.dialect))
}
