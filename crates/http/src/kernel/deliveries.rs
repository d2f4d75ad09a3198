//! Endpoints for webhook deliveries: listing them with their attempts, testing a receiver, and replaying past events.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::{get, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{AttemptId, EndpointId};
use entente_domain::limits::WAIT_SECONDS;
use entente_domain::webhooks::DeliveryStatus;
use entente_kernel::webhooks::deliveries::{Attempt, Delivery, DeliveryFilter};
use entente_kernel::webhooks::{deliveries, replays};
use entente_runtime::deadlines::extend;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Body, Limit100, Query, id};
use crate::caller::Asker;
use crate::error::Reply;
use crate::routes::Routes;
use crate::wire::{GivenTime, WireTime};
use crate::{HttpState, json, listed};

/// Default page size.
const USUAL_PAGE: u32 = 100;

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(ping).service(replay);
}

/// A delivery attempt.
#[derive(Debug, Serialize, ToSchema)]
struct AttemptBody {
    /// The attempt's id.
    id: AttemptId,
    /// When it was made.
    at: WireTime,
    /// The receiver's HTTP status; null if it did not respond.
    #[schema(example = 503)]
    status: Option<u16>,
    /// The reason for a failed attempt.
    #[schema(example = "it answered 503")]
    error: Option<String>,
    /// Duration in milliseconds.
    milliseconds: u32,
    /// The beginning of the response body.
    response: Option<String>,
}

impl AttemptBody {
    fn new(attempt: Attempt, dialect: Dialect) -> Self {
        Self {
            id: attempt.id,
            at: WireTime::new(attempt.at, dialect),
            status: attempt.status,
            error: attempt.error,
            milliseconds: attempt.millis,
            response: attempt.response,
        }
    }
}

/// A webhook delivery.
#[derive(Debug, Serialize, ToSchema)]
struct DeliveryBody {
    /// The header `webhook-id`: the id of the delivered item.
    #[schema(example = "msg_01J9ZK4T6Q8R2V5X7Y9B1C3D5F")]
    webhook_id: String,
    /// The type of the delivered item.
    #[schema(example = "channel_message")]
    event_type: String,
    /// The delivery's status.
    status: DeliveryStatus,
    /// When it was queued.
    created_at: WireTime,
    /// When the next attempt is due.
    next_attempt_at: Option<WireTime>,
    /// When it was delivered, failed or dropped.
    finished_at: Option<WireTime>,
    /// The attempts, oldest first.
    attempts: Vec<AttemptBody>,
}

impl DeliveryBody {
    fn new(delivery: Delivery, dialect: Dialect) -> Self {
        let time = |at| WireTime::new(at, dialect);
        Self {
            webhook_id: delivery.webhook_id,
            event_type: delivery.kind,
            status: delivery.status,
            created_at: time(delivery.created_at),
            next_attempt_at: delivery.next_attempt_at.map(time),
            finished_at: delivery.finished_at.map(time),
            attempts: delivery.attempts.into_iter().map(|one| AttemptBody::new(one, dialect)).collect(),
        }
    }
}

/// List a subscription's deliveries
///
/// Newest first, each with its attempts.
#[utoipa::path(operation_id = "list_deliveries", tag = "webhooks",
    params(("status" = Option<DeliveryStatus>, Query, description = "Only deliveries in this status"),
           ("before" = Option<String>, Query, description = "`webhook_id` of the last delivery of the previous page"), Limit100),
    responses((status = 200, description = "The deliveries", body = [DeliveryBody])))]
#[get("/subscriptions/{subscription_id}/deliveries")]
async fn list(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let filter = DeliveryFilter {
        status: query.parsed("status", "waiting, delivered, failed or dropped", DeliveryStatus::parse)?,
        before: query.text("before").map(str::to_owned),
        limit: query.limit(USUAL_PAGE)?,
    };
    let endpoint: EndpointId = id("subscription", &path)?;
    let found = deliveries::list(&api.ctx, &asker.caller, endpoint, &filter).await?;
    listed(found.into_iter().map(|one| DeliveryBody::new(one, asker.dialect)))
}

/// Test a subscription
///
/// Sends a signed `ping`. With `wait`, responds after the first attempt, or after that many seconds.
#[utoipa::path(operation_id = "ping_subscription", tag = "webhooks",
    params(("wait" = Option<u32>, Query, description = "Seconds to wait for the first attempt, 0 to 120; defaults to 0", maximum = 120)),
    responses((status = 200, description = "The delivery, after its first attempt", body = DeliveryBody),
              (status = 202, description = "The delivery, before its first attempt", body = DeliveryBody)))]
#[post("/subscriptions/{subscription_id}/ping")]
async fn ping(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let endpoint: EndpointId = id("subscription", &path)?;
    let wait = Duration::from_secs(query.wait(WAIT_SECONDS)?.into());
    extend(wait);
    let webhook_id = deliveries::ping(&api.ctx, &asker.caller, endpoint).await?;
    let delivery = deliveries::wait(&api.ctx, endpoint, &webhook_id, wait).await?;
    let tried = !delivery.attempts.is_empty();
    let status = if tried { StatusCode::OK } else { StatusCode::ACCEPTED };
    json(status, &DeliveryBody::new(delivery, asker.dialect))
}

/// The start of a replay.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewReplay)]
#[schema(example = json!({ "since": "2026-11-21T08:00:00Z" }))]
struct ReplayBody {
    /// The time from which events are sent again.
    since: GivenTime,
}

/// A replay that was started.
#[derive(Debug, Serialize, ToSchema)]
struct ReplayBegun {
    /// The subscription.
    subscription_id: EndpointId,
    /// The time from which events are sent again.
    since: WireTime,
}

/// Replay past events
///
/// Queues again everything since a time that the subscriber may see now, under the same ids: the receiver recognises
/// items it already has by `webhook-id`. Events that retention has deleted are not sent. Runs in the background.
#[utoipa::path(operation_id = "replay_subscription", tag = "webhooks", request_body = ReplayBody,
    responses((status = 202, description = "The replay has started", body = ReplayBegun)))]
#[post("/subscriptions/{subscription_id}/replay")]
async fn replay(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ReplayBody>,
) -> Reply {
    let endpoint: EndpointId = id("subscription", &path)?;
    let since = body.value.since.0;
    replays::begin(&api.ctx, &asker.caller, endpoint, since).await?;
    let begun = ReplayBegun { subscription_id: endpoint, since: WireTime::new(since, asker.dialect) };
    json(StatusCode::ACCEPTED, &begun)
}
