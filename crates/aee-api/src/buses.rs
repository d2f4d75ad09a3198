//! Endpoints for buses (AEE §5.2): channels whose envelopes go to all subscribed entities.

use actix_web::{HttpResponse, delete, get, put, web};
use entente_aee::buses;
use entente_aee::buses::Listening;
use entente_domain::identity::keys::Dialect;
use entente_http::body::Query;
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use serde::Serialize;
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(subscribe).service(unsubscribe).service(list);
}

/// An entity's subscription to a bus.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BusSubscription)]
struct ListeningBody {
    /// The bus.
    bus: String,
    /// The subscribed entity.
    entity: String,
    /// When it subscribed.
    #[schema(value_type = String)]
    created_at: WireTime,
}

impl ListeningBody {
    fn new(one: Listening, dialect: Dialect) -> Self {
        Self { bus: one.bus, entity: one.entity, created_at: WireTime::new(one.created_at, dialect) }
    }
}

/// Subscribe to a bus
///
/// From now on, envelopes sent to the `bus.…` are put into the entity's mailbox, except those that the entity sends
/// itself. Repeating the call has no effect.
#[utoipa::path(operation_id = "subscribe_bus", tag = "envelopes",
    params(("bus" = String, Path, description = "The bus: `bus.` followed by a name"),
           ("entity" = String, Path, description = "The subscribing entity")),
    responses((status = 200, description = "The subscription", body = ListeningBody)))]
#[put("/aee/buses/{bus}/subscriptions/{entity}")]
async fn subscribe(api: web::Data<ApiState>, asker: Asker, path: web::Path<(String, String)>) -> Reply {
    let one = buses::subscribe(&api.ctx, &asker.caller, &path.0, &path.1).await?;
    ok(&ListeningBody::new(one, asker.dialect))
}

/// Unsubscribe from a bus
#[utoipa::path(operation_id = "unsubscribe_bus", tag = "envelopes",
    params(("bus" = String, Path, description = "The bus"), ("entity" = String, Path, description = "The subscribing entity")),
    responses((status = 204, description = "Unsubscribed")))]
#[delete("/aee/buses/{bus}/subscriptions/{entity}")]
async fn unsubscribe(api: web::Data<ApiState>, asker: Asker, path: web::Path<(String, String)>) -> Reply {
    buses::unsubscribe(&api.ctx, &asker.caller, &path.0, &path.1).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// List an entity's bus subscriptions
#[utoipa::path(operation_id = "list_bus_subscriptions", tag = "envelopes",
    params(("entity" = Option<String>, Query, description = "Subscribed entity; defaults to the acting agent")),
    responses((status = 200, description = "The subscriptions", body = Vec<ListeningBody>)))]
#[get("/aee/subscriptions")]
async fn list(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let entity = query.text("entity").unwrap_or(&asker.caller.agent).to_owned();
    let all = buses::of(&api.ctx, &asker.caller, &entity).await?;
    ok(&all.into_iter().map(|one| ListeningBody::new(one, asker.dialect)).collect::<Vec<_>>())
}
