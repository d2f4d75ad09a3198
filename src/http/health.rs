//! Whether the server lives, whether it should be sent requests, and what it counts. No key is needed: these say nothing
//! about anybody.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, get, web};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_actix_web::service_config::ServiceConfig;

use super::error::Reply;
use super::{Doors, json};

pub fn routes(config: &mut ServiceConfig<'_>) {
    config.service(alive).service(ready).service(simple).service(metrics);
}

/// The state of the server.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    /// `ok`, `draining` or `database_unreachable`.
    #[schema(example = "ok")]
    status: &'static str,
    /// The server's version.
    #[schema(example = "0.1.0")]
    version: &'static str,
}

/// Is the process alive?
///
/// Answers as long as the process does, whatever the database is doing.
#[utoipa::path(tag = "server", security(()), responses((status = 200, description = "It is", body = Health)))]
#[get("/healthz")]
async fn alive() -> Reply {
    json(StatusCode::OK, &Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// That the process is alive, in one word.
#[derive(Debug, Serialize, ToSchema)]
struct Simple {
    /// True.
    ok: bool,
}

/// Is the process alive?
///
/// As `/healthz`, in the form that ARCP's client libraries ask for.
#[utoipa::path(tag = "server", security(()), responses((status = 200, description = "It is", body = Simple)))]
#[get("/health")]
async fn simple() -> Reply {
    json(StatusCode::OK, &Simple { ok: true })
}

/// Should the server be sent requests?
///
/// False while it drains before it stops, and while its database cannot be reached.
#[utoipa::path(tag = "server", security(()), responses(
    (status = 200, description = "It should", body = Health),
    (status = 503, description = "It should not", body = Health)))]
#[get("/readyz")]
async fn ready(doors: web::Data<Doors>) -> Reply {
    let (code, status) = if doors.ready() {
        (StatusCode::OK, "ok")
    } else if doors.draining.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "database_unreachable")
    };
    json(code, &Health { status, version: env!("CARGO_PKG_VERSION") })
}

/// What the server counts
///
/// `OpenMetrics` text, for Prometheus.
#[utoipa::path(tag = "server", security(()), responses(
    (status = 200, description = "The metrics", body = String, content_type = "application/openmetrics-text")))]
#[get("/metrics")]
async fn metrics(doors: web::Data<Doors>) -> HttpResponse {
    HttpResponse::Ok()
        .content_type("application/openmetrics-text; version=1.0.0; charset=utf-8")
        .body(doors.ctx.metrics.text())
}
