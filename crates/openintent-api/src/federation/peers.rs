//! Endpoints for other servers. Signed requests need no API key.

use actix_web::{FromRequest as _, HttpRequest, post, web};
use entente_domain::canonical::Unambiguous;
use entente_domain::ids::{DispatchId, IntentId};
use entente_domain::limits::FEDERATED_BYTES;
use entente_domain::openintent::federation::callbacks::{Callback, News};
use entente_domain::openintent::federation::deliveries::Delivery;
use entente_domain::openintent::federation::signing;
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Raw, parse};
use entente_http::caller::Asker;
use entente_http::error::{Problem, Reply};
use entente_http::ok;
use entente_http::routes::Routes;
use entente_kernel::Caller;
use entente_openintent::federation;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(receive).service(hear);
}

/// Parses a peer's request twice: as its type, and as the members that are signed.
fn signed<T: DeserializeOwned>(raw: &Raw) -> Result<(T, Map<String, Value>), Problem> {
    if raw.0.len() > FEDERATED_BYTES * 2 {
        let message = format!("At most {} bytes are taken from another server.", FEDERATED_BYTES * 2);
        return Err(Refusal::new(Code::TooLarge, message).into());
    }
    let said = parse(&raw.0)?;
    match parse::<Unambiguous>(&raw.0)?.0 {
        Value::Object(members) => Ok((said, members)),
        _ => Err(Refusal::new(Code::InvalidRequest, "The body must be a JSON object.").into()),
    }
}

/// Authenticates an unsigned request by its API key, if it has one.
async fn keyed(request: &HttpRequest, members: &Map<String, Value>) -> Result<Option<Caller>, Problem> {
    let has = |name: &str| request.headers().get(name).is_some_and(|value| !value.is_empty());
    if signing::is_signed(members) || !(has("x-api-key") || has("authorization")) {
        return Ok(None);
    }
    Ok(Some(Asker::extract(request).await?.caller))
}

/// The response to a peer's delivery.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FederationReceipt)]
struct ReceivedBody {
    /// The peer's id of the dispatch.
    dispatch_id: String,
    /// Whether the intent was accepted.
    accepted: bool,
    /// The local intent, if it was accepted.
    local_intent_id: Option<IntentId>,
    /// A human-readable explanation.
    message: String,
}

/// Receive an intent from a peer
///
/// Signed with the peer's key, or sent with an API key of the principal whose id is the peer's DID. A repeated
/// delivery is processed once and gets the same response.
#[utoipa::path(operation_id = "federation_receive", tag = "federation", security(()), request_body = Delivery,
    responses((status = 200, description = "Whether the intent was accepted", body = ReceivedBody),
              (status = 401, description = "`unauthenticated`: the API key is unknown, expired or revoked", body = entente_http::error::ProblemBody),
              (status = 403, description = "`signature_required`, `forbidden`: unsigned, or not by a peer that may do this", body = entente_http::error::ProblemBody),
              (status = 404, description = "`not_found`: federation is off", body = entente_http::error::ProblemBody),
              (status = 409, description = "`idempotency_mismatch`, `stale_epoch`: another delivery has this id, or the key's agent has a newer session", body = entente_http::error::ProblemBody),
              (status = 428, description = "`epoch_required`: the key's agent is strict", body = entente_http::error::ProblemBody)))]
#[post("/federation/receive")]
async fn receive(request: HttpRequest, api: web::Data<ApiState>, raw: Raw) -> Reply {
    let (delivery, members) = signed::<Delivery>(&raw)?;
    let caller = keyed(&request, &members).await?;
    let received = federation::receive(&api.ctx, caller.as_ref(), &delivery, &members).await?;
    ok(&ReceivedBody {
        dispatch_id: received.dispatch_id,
        accepted: received.local_intent_id.is_some(),
        local_intent_id: received.local_intent_id,
        message: received.message,
    })
}

/// The response to a peer's callback.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FederationHeard)]
struct HeardBody {
    /// Always true.
    received: bool,
    /// The dispatch it was about.
    dispatch_id: DispatchId,
    /// The event it reported.
    event_type: News,
}

/// Receive a peer's callback about a dispatched intent
///
/// Signed or authenticated like a delivery. A repeated callback is processed once; it becomes an event on the
/// intent's log.
#[utoipa::path(operation_id = "federation_callback", tag = "federation", security(()), request_body = Callback,
    responses((status = 200, description = "The callback was recorded", body = HeardBody),
              (status = 401, description = "`unauthenticated`: the API key is unknown, expired or revoked", body = entente_http::error::ProblemBody),
              (status = 403, description = "`signature_required`, `forbidden`: unsigned, or not by a peer that may do this", body = entente_http::error::ProblemBody),
              (status = 404, description = "`not_found`: federation is off, or the server has no such dispatch", body = entente_http::error::ProblemBody),
              (status = 409, description = "`stale_epoch`: the key's agent has a newer session", body = entente_http::error::ProblemBody),
              (status = 428, description = "`epoch_required`: the key's agent is strict", body = entente_http::error::ProblemBody)))]
#[post("/federation/callbacks")]
async fn hear(request: HttpRequest, api: web::Data<ApiState>, raw: Raw) -> Reply {
    let (callback, members) = signed::<Callback>(&raw)?;
    let caller = keyed(&request, &members).await?;
    let heard = federation::hear(&api.ctx, caller.as_ref(), &callback, &members).await?;
    ok(&HeardBody { received: true, dispatch_id: heard.dispatch_id, event_type: heard.event_type })
}
