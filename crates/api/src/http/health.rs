//! Whether the server lives, whether it should be sent requests, and what it counts. No key is needed: these say nothing
//! about anybody.

use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, get, web};
use entente_kernel::nodes;
use entente_runtime::deadlines::within;
use futures_util::join;
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;

use super::error::Reply;
use super::{Doors, json};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(alive).service(ready).service(simple).service(metrics);
}

/// How long the server may take to read and to write before it counts as unable to.
const LIMIT: Duration = Duration::from_millis(1_500);

/// How long what was found holds: however many ask, the server looks so often at the most.
const HOLDS: Duration = Duration::from_millis(500);

/// The state of the server.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    /// `ok`, `draining`, `database_unreachable` when it cannot read, or `not_writing` when something is not written that should
    /// be.
    #[schema(example = "ok")]
    status: &'static str,
    /// What is not written: `messages`, `jobs` or `envelopes`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<&'static str>,
    /// The server's version.
    #[schema(example = "0.1.0")]
    version: &'static str,
}

impl Health {
    fn of(status: &'static str) -> Self {
        Self { status, failed: Vec::new(), version: env!("CARGO_PKG_VERSION") }
    }
}

/// What was found when the server last looked whether it can read and write.
#[derive(Debug, Default)]
pub struct Checkup(Mutex<Option<(Instant, Found)>>);

#[derive(Debug, Clone)]
struct Found {
    reads: bool,
    failed: Vec<&'static str>,
}

impl Checkup {
    /// Reads something and has every writer write something, unless that was done just now. Those who ask meanwhile wait for the
    /// same answer.
    async fn look(&self, doors: &Doors) -> Found {
        let mut last = self.0.lock().await;
        if let Some((at, found)) = &*last
            && at.elapsed() < HOLDS
        {
            return found.clone();
        }
        let read = within(LIMIT, nodes::look(&doors.ctx));
        let (read, messages, jobs, envelopes) = join!(
            read,
            within(LIMIT, doors.sends.probe(LIMIT)),
            within(LIMIT, doors.works.probe(LIMIT)),
            within(LIMIT, doors.post.probe(LIMIT))
        );
        let mut found = Found { reads: matches!(read, Ok(Ok(()))), failed: Vec::new() };
        for (what, written) in [("messages", messages), ("jobs", jobs), ("envelopes", envelopes)] {
            if let Err(why) = written.map_err(|late| late.to_string()).flatten() {
                tracing::warn!(what, error = %why, "the server cannot write");
                found.failed.push(what);
            }
        }
        *last = Some((Instant::now(), found.clone()));
        found
    }
}

/// Is the process alive?
///
/// Answers as long as the process does, whatever the database is doing.
#[utoipa::path(tag = "server", security(()), responses((status = 200, description = "It is", body = Health)))]
#[get("/healthz")]
async fn alive() -> Reply {
    json(StatusCode::OK, &Health::of("ok"))
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
/// It should not while it drains before it stops, and while it cannot read or write. It looks by reading from its database, and by
/// writing a row the way messages, jobs and envelopes are written; each has 1.5 seconds. What was found holds for half a second.
#[utoipa::path(tag = "server", security(()), responses(
    (status = 200, description = "It should", body = Health),
    (status = 503, description = "It should not", body = Health)))]
#[get("/readyz")]
async fn ready(doors: web::Data<Doors>) -> Reply {
    if doors.draining.is_cancelled() {
        return json(StatusCode::SERVICE_UNAVAILABLE, &Health::of("draining"));
    }
    let Found { reads, failed } = doors.checkup.look(&doors).await;
    if !reads {
        json(StatusCode::SERVICE_UNAVAILABLE, &Health { failed, ..Health::of("database_unreachable") })
    } else if failed.is_empty() {
        json(StatusCode::OK, &Health::of("ok"))
    } else {
        json(StatusCode::SERVICE_UNAVAILABLE, &Health { failed, ..Health::of("not_writing") })
    }
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
