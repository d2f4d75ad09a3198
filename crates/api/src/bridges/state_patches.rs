//! The route that changes an intent's state (RFC-0001). It belongs to a bridge because the SDK suspends an intent by
//! putting a question into its state (RFC-0025 §5).

use actix_web::{HttpRequest, post, web};
use entente_bridges::suspensions;
use entente_domain::ids::IntentId;
use entente_domain::openintent::patch::{Change, Patch};
use entente_domain::openintent::suspensions::question_in;
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, IfMatch, id, if_match};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::intent::IntentBody;
use entente_http::routes::Routes;
use entente_openintent::intents;
use entente_openintent_api::intents::response;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(patch_state);
}

/// A state change: patches, or members to merge.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "patches": [{ "op": "set", "path": "progress/percent", "value": 40 }] }))]
struct StateBody {
    /// Patches, applied in order.
    patches: Option<Vec<Patch>>,
    /// Members to set in the state as they are.
    #[schema(value_type = Option<Object>)]
    state: Option<Map<String, Value>>,
    /// A lease's fencing token: the change is refused unless the acting agent still holds that lease.
    fencing_token: Option<i64>,
}

/// Change an intent's state
///
/// Under its version: send the one you last read in `If-Match`. Send either patches or members to merge; they apply
/// all or not at all. Parts under another agent's lease cannot be changed (RFC-0003).
#[utoipa::path(operation_id = "patch_state", tag = "intents", request_body = StateBody, params(IfMatch),
    responses((status = 200, description = "The intent", body = IntentBody),
              (status = 400, description = "`if_match_required`", body = entente_http::error::ProblemBody),
              (status = 409, description = "`version_conflict`, with `current_version`; `lease_held`, with `existing_lease`; `lease_ended`", body = entente_http::error::ProblemBody)))]
#[post("/intents/{intent_id}/state")]
async fn patch_state(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<StateBody>,
) -> Reply {
    let id: IntentId = id("intent", &path)?;
    let seen = if_match(&request)?;
    let change = match (body.value.patches, body.value.state) {
        (Some(patches), None) => Change::Patches { patches },
        (None, Some(state)) => Change::Merge { state },
        (None, None) | (Some(_), Some(_)) => {
            let message = "Send either `patches` or `state`.";
            return Err(Refusal::field(Code::InvalidRequest, "patches", "missing", message).into());
        }
    };
    let token = body.value.fencing_token;
    // The SDK suspends an intent by putting a question into its state (RFC-0025 §5).
    let intent = if question_in(&change).is_some() {
        suspensions::put(&api.ctx, &asker.caller, id, seen, change, token).await?
    } else {
        intents::patch_state(&api.ctx.openintent, &asker.caller, id, seen, change, token).await?
    };
    response(&intent, &asker)
}
