//! Endpoints for bridges, which carry traffic between envelopes, jobs and messages. For operators.

use actix_web::{HttpResponse, delete, get, put, web};
use entente_bridges::envelope_bridges;
use entente_bridges::envelope_bridges::BridgeRecord;
use entente_domain::bridges::Bridge;
use entente_domain::identity::keys::Dialect;
use entente_http::body::Body;
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use serde::Serialize;
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(set).service(remove);
}

/// A bridge.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = KeptBridge)]
struct BridgeBody {
    /// The bridge's name.
    name: String,
    /// The traffic it carries.
    bridge: Bridge,
    /// The principal whose key gives the bridge its permissions.
    created_by: String,
    /// The agent or entity the bridge acts as.
    acts_as: String,
    /// When it was set up.
    #[schema(value_type = String)]
    created_at: WireTime,
    /// Number of the last item processed in the bridge's mailbox or channel; for a bus, the transaction's number.
    place: i64,
    /// Why the bridge is paused; null while it runs.
    problem: Option<String>,
}

impl BridgeBody {
    fn new(kept: BridgeRecord, dialect: Dialect) -> Self {
        Self {
            name: kept.name,
            bridge: kept.bridge,
            created_by: kept.created_by,
            acts_as: kept.agent,
            created_at: WireTime::new(kept.created_at, dialect),
            place: kept.place,
            problem: kept.problem,
        }
    }
}

/// List bridges
///
/// With the position each has reached. Requires the scope `admin`.
#[utoipa::path(operation_id = "list_bridges", tag = "envelopes",
    responses((status = 200, description = "The bridges", body = Vec<BridgeBody>)))]
#[get("/aee/bridges")]
async fn list(api: web::Data<ApiState>, asker: Asker) -> Reply {
    let all = envelope_bridges::list(&api.ctx, &asker.caller).await?;
    ok(&all.into_iter().map(|kept| BridgeBody::new(kept, asker.dialect)).collect::<Vec<_>>())
}

/// Set up a bridge
///
/// `jobs` turns tasks for an entity into jobs; their events come back as `stream`, `result` and `error`. The jobs work
/// for the bridge's `intent_id`, or for the intent that a task names in `entente.intent_id`; the bridge's agent needs
/// write access to it, and to an intent that a task names its sender too. `mirror` posts envelopes for an entity or a `bus.…` on a channel, with their senders in
/// `metadata.envelope`, and of an entity also the answers that end its tasks. `export` sends the messages of a channel
/// on as envelopes.
/// A bridge has the permissions of the key that set it up, and pauses when that key ends. It carries each item once,
/// and skips items that a bridge created.
#[utoipa::path(operation_id = "put_bridge", tag = "envelopes", request_body = Bridge,
    params(("name" = String, Path, description = "Name of the bridge: lowercase letters, digits, `.`, `_` and `-`")),
    responses((status = 200, description = "The bridge", body = BridgeBody)))]
#[put("/aee/bridges/{name}")]
async fn set(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, body: Body<Bridge>) -> Reply {
    let kept = envelope_bridges::put(&api.ctx, &asker.caller, &path, body.value).await?;
    ok(&BridgeBody::new(kept, asker.dialect))
}

/// Remove a bridge
///
/// Items that it already carried stay. Jobs that it created go on, but their events are no longer forwarded.
#[utoipa::path(operation_id = "delete_bridge", tag = "envelopes",
    params(("name" = String, Path, description = "Name of the bridge")),
    responses((status = 204, description = "Removed")))]
#[delete("/aee/bridges/{name}")]
async fn remove(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    envelope_bridges::remove(&api.ctx, &asker.caller, &path).await?;
    Ok(HttpResponse::NoContent().finish())
}
