//! Route that appends to an intent's log (RFC-0001); the HTTP layer has those that read it.

use actix_web::{HttpRequest, post, web};
use entente_domain::ids::IntentId;
use entente_domain::log::events::Draft;
use entente_http::body::{Body, IdempotencyKey, id};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::event::EventBody;
use entente_http::ok;
use entente_http::routes::Routes;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(append);
}

/// An event to append.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "event_type": "comment", "payload": { "note": "starting" } }))]
struct AppendBody {
    /// The event's type: one of the protocol's or a client-defined one.
    event_type: String,
    /// The agent that caused the event; defaults to the acting agent.
    actor: Option<String>,
    /// The event's payload.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    payload: Map<String, Value>,
    /// The trace it belongs to: 32 hexadecimal digits.
    trace_id: Option<String>,
    /// The event that caused it.
    parent_event_id: Option<String>,
    /// The actor's signature (RFC-0018); checked if its type is `Ed25519Signature2026` and the actor has an identity.
    #[schema(value_type = Option<Object>)]
    proof: Option<Map<String, Value>>,
}

/// Append an event
///
/// Of any type. The event is marked as `posted` to distinguish it from the server's own.
#[utoipa::path(operation_id = "append_event", tag = "intents", request_body = AppendBody, params(IdempotencyKey),
    responses((status = 200, description = "The event", body = EventBody)))]
#[post("/intents/{intent_id}/events")]
async fn append(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<AppendBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let actor = asker.caller.speaker("actor", said.actor.as_deref(), api.ctx.settings.strict)?;
    let draft = Draft {
        event_type: said.event_type,
        actor,
        payload: said.payload,
        posted: true,
        trace_id: said.trace_id,
        parent_event_id: said.parent_event_id,
        proof: said.proof.map(Value::Object),
        proof_verified: false,
    };
    let event = api.message_writer.append_event(&api.ctx, &asker.caller, intent_id, draft, once).await?;
    ok(&EventBody::new(&event, asker.dialect))
}
