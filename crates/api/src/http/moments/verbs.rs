//! What is done with a moment: it is answered, spoken about, taken back, closed, acknowledged, seen.

use actix_web::{HttpRequest, post, web};
use entente_domain::moments::Resolution;
use entente_kernel::moments;
use serde::Deserialize;
use utoipa::ToSchema;

use super::moment_id;
use super::shape::MomentBody;
use crate::http::body::{Body, OptionalBody, once_of};
use crate::http::caller::Asker;
use crate::http::error::Reply;
use crate::http::routes::Routes;
use crate::http::{Doors, ok};

pub fn routes(config: &mut Routes<'_>) {
    config.service(resolve).service(word).service(withdraw).service(close).service(acknowledge).service(view);
}

/// An answer.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = MomentAnswer, example = json!({ "envelope_digest": "sha256:…", "resolution": { "kind": "option", "option_idx": 0 } }))]
#[serde(deny_unknown_fields)]
struct ResolveBody {
    /// The digest of the question that you saw.
    #[serde(alias = "digest")]
    envelope_digest: String,
    /// One of three.
    resolution: Resolution,
}

/// Answer a question
///
/// Only the person who is asked may, with a key of its own. The first answer counts; the same again is a retry.
#[utoipa::path(operation_id = "resolve_moment", tag = "moments", request_body = ResolveBody,
    params(("moment_id" = String, Path, description = "The moment"),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key gets the first answer")),
    responses((status = 200, description = "The moment", body = MomentBody)))]
#[post("/moments/{moment_id}/resolution")]
async fn resolve(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ResolveBody>,
) -> Reply {
    let moment_id = moment_id(&path)?;
    // Nothing is kept of the body under the key, no hash either: a short answer could be guessed.
    let once = once_of(&request)?;
    let ResolveBody { envelope_digest, resolution } = body.value;
    let (ctx, caller) = (&doors.ctx, &asker.caller);
    let shown = moments::resolve(ctx, caller, moment_id, &envelope_digest, resolution, once.as_ref()).await?;
    ok(&MomentBody::new(&shown, asker.dialect))
}

/// Something that is said.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewMomentWord, example = json!({ "text": "Who is the third reviewer?" }))]
#[serde(deny_unknown_fields)]
struct WordBody {
    /// The text.
    text: String,
}

/// Say something about a moment
///
/// Who says it, and where the moment stands, tell what it is: a person asks for detail while the question is open, and replies
/// while it is deliberated; the agent gives detail, or deliberates. None of it is an answer.
#[utoipa::path(operation_id = "say_about_moment", tag = "moments", request_body = WordBody,
    params(("moment_id" = String, Path, description = "The moment"),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is said once")),
    responses((status = 200, description = "The moment", body = MomentBody)))]
#[post("/moments/{moment_id}/words")]
async fn word(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<WordBody>,
) -> Reply {
    let moment_id = moment_id(&path)?;
    let once = once_of(&request)?;
    let shown = moments::word(&doors.ctx, &asker.caller, moment_id, &body.value.text, once.as_ref()).await?;
    ok(&MomentBody::new(&shown, asker.dialect))
}

/// Why.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = MomentReason, example = json!({ "reason": "no longer needed" }))]
#[serde(deny_unknown_fields)]
struct ReasonBody {
    /// In your words.
    reason: Option<String>,
}

/// Take a question back
///
/// The agent's. One that was refused cannot be taken back.
#[utoipa::path(operation_id = "withdraw_moment", tag = "moments", request_body = Option<ReasonBody>,
    params(("moment_id" = String, Path, description = "The moment")),
    responses((status = 200, description = "The moment", body = MomentBody)))]
#[post("/moments/{moment_id}/withdraw")]
async fn withdraw(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<ReasonBody>,
) -> Reply {
    let shown = moments::withdraw(&doors.ctx, &asker.caller, moment_id(&path)?, body.0.value.reason).await?;
    ok(&MomentBody::new(&shown, asker.dialect))
}

/// End a deliberation
///
/// The person's. With it ends what the refusal keeps the agent from.
#[utoipa::path(operation_id = "close_moment", tag = "moments", request_body = Option<ReasonBody>,
    params(("moment_id" = String, Path, description = "The moment")),
    responses((status = 200, description = "The moment", body = MomentBody)))]
#[post("/moments/{moment_id}/close")]
async fn close(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<ReasonBody>,
) -> Reply {
    let shown = moments::close(&doors.ctx, &asker.caller, moment_id(&path)?, body.0.value.reason).await?;
    ok(&MomentBody::new(&shown, asker.dialect))
}

/// Acknowledge an answer
///
/// The agent's: it has the answer, and the words of both are kept only for as long as the server's operator says.
#[utoipa::path(operation_id = "acknowledge_moment", tag = "moments",
    params(("moment_id" = String, Path, description = "The moment")),
    responses((status = 200, description = "The moment", body = MomentBody)))]
#[post("/moments/{moment_id}/ack")]
async fn acknowledge(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    let shown = moments::acknowledge(&doors.ctx, &asker.caller, moment_id(&path)?).await?;
    ok(&MomentBody::new(&shown, asker.dialect))
}

/// Note that a question is before your eyes
///
/// The person's; the first time counts. By anybody else who may see it, it changes nothing.
#[utoipa::path(operation_id = "view_moment", tag = "moments",
    params(("moment_id" = String, Path, description = "The moment")),
    responses((status = 200, description = "The moment", body = MomentBody)))]
#[post("/moments/{moment_id}/view")]
async fn view(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    let shown = moments::view(&doors.ctx, &asker.caller, moment_id(&path)?).await?;
    ok(&MomentBody::new(&shown, asker.dialect))
}
