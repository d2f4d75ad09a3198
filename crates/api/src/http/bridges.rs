//! Routes of bridges: what is carried between envelopes, jobs and messages. An operator's affair.

use actix_web::{HttpResponse, delete, get, put, web};
use entente_domain::bridges::Bridge;
use entente_domain::keys::Dialect;
use entente_kernel::bridges::{self, Kept};
use serde::Serialize;
use utoipa::ToSchema;

use super::body::Body;
use super::caller::Asker;
use super::error::Reply;
use super::wire::WireTime;
use super::{Doors, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(set).service(remove);
}

/// A bridge.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = KeptBridge)]
struct BridgeBody {
    /// Its name.
    name: String,
    /// What it carries.
    bridge: Bridge,
    /// The principal whose key it has the powers of.
    created_by: String,
    /// As whom it acts.
    acts_as: String,
    /// When it was set up.
    #[schema(value_type = String)]
    created_at: WireTime,
    /// The number in its mailbox or channel up to which everything was dealt with.
    place: i64,
    /// Why it rests; null while it does not.
    problem: Option<String>,
}

impl BridgeBody {
    fn new(kept: Kept, dialect: Dialect) -> Self {
        Self {
            name: kept.name,
            bridge: kept.bridge,
            created_by: kept.created_by,
            acts_as: kept.agent,
            created_at: WireTime::new(kept.created_at, dialect),
            place: kept.place.number,
            problem: kept.problem,
        }
    }
}

/// Bridges
///
/// What is carried between envelopes, jobs and messages, and how far each is. For the scope `admin`.
#[utoipa::path(operation_id = "list_bridges", tag = "envelopes",
    responses((status = 200, description = "The bridges", body = Vec<BridgeBody>)))]
#[get("/aee/bridges")]
async fn list(doors: web::Data<Doors>, asker: Asker) -> Reply {
    let all = bridges::list(&doors.ctx, &asker.caller).await?;
    ok(&all.into_iter().map(|kept| BridgeBody::new(kept, asker.dialect)).collect::<Vec<_>>())
}

/// Set up a bridge
///
/// `jobs`: tasks for an entity become jobs, whose events come back as `stream`, `result` and `error`. `mirror`: envelopes to an
/// entity or a `bus.…` are posted on a channel. `export`: messages of a channel are sent on as envelopes. It acts with the
/// powers of the key that set it up, and rests when that ends. It carries each thing once, and nothing that a bridge has made.
#[utoipa::path(operation_id = "put_bridge", tag = "envelopes", request_body = Bridge,
    params(("name" = String, Path, description = "Its name: small letters, digits, `.`, `_` and `-`")),
    responses((status = 200, description = "It carries", body = BridgeBody)))]
#[put("/aee/bridges/{name}")]
async fn set(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>, body: Body<Bridge>) -> Reply {
    let kept = bridges::put(&doors.ctx, &asker.caller, &path, body.value).await?;
    ok(&BridgeBody::new(kept, asker.dialect))
}

/// Take a bridge away
///
/// What it has carried stays. Jobs that it has made go on; nobody is told of them any more.
#[utoipa::path(operation_id = "delete_bridge", tag = "envelopes",
    params(("name" = String, Path, description = "Its name")),
    responses((status = 204, description = "It carries no more")))]
#[delete("/aee/bridges/{name}")]
async fn remove(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    bridges::remove(&doors.ctx, &asker.caller, &path).await?;
    Ok(HttpResponse::NoContent().finish())
}
