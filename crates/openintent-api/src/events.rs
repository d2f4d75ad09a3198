//! Route that appends to an intent's log (RFC-0001), and the event of a turn; the HTTP layer has the routes that read logs.

use actix_web::{HttpRequest, post, web};
use entente_domain::ids::IntentId;
use entente_domain::log::events::Draft;
use entente_domain::refusal::Refusal;
use entente_http::body::{Body, IdempotencyKey, id, id_of_item};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::event::EventBody;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_kernel::Caller;
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

impl AppendBody {
    fn draft(self, caller: &Caller, strict: bool) -> Result<Draft, Refusal> {
        Ok(Draft {
            event_type: self.event_type,
            actor: caller.speaker("actor", self.actor.as_deref(), strict)?,
            payload: self.payload,
            posted: true,
            trace_id: self.trace_id,
            parent_event_id: self.parent_event_id,
            proof: self.proof.map(Value::Object),
            proof_verified: false,
        })
    }
}

/// An event that a turn appends.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TurnEvent)]
pub struct TurnEventBody {
    /// The intent.
    intent_id: String,
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
    /// The actor's signature (RFC-0018).
    #[schema(value_type = Option<Object>)]
    proof: Option<Map<String, Value>>,
}

impl TurnEventBody {
    /// Checks the event; returns its intent, too.
    ///
    /// # Errors
    /// The intent's id is none; the key may not act as the actor.
    pub fn draft(self, caller: &Caller, strict: bool) -> Result<(IntentId, Draft), Refusal> {
        let Self { intent_id, event_type, actor, payload, trace_id, parent_event_id, proof } = self;
        let body = AppendBody { event_type, actor, payload, trace_id, parent_event_id, proof };
        Ok((id_of_item("intent", &intent_id)?, body.draft(caller, strict)?))
    }
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
    let draft = body.value.draft(&asker.caller, api.ctx.settings.strict)?;
    let event = api.message_writer.append_event(&api.ctx, &asker.caller, intent_id, draft, once).await?;
    ok(&EventBody::new(&event, asker.dialect))
}
