//! Liveness, readiness and metrics endpoints. They require no key, because they reveal nothing about any user.

use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, get, web};
use entente_http::error::Reply;
use entente_http::json;
use entente_http::routes::Routes;
use entente_kernel::{nodes, overview};
use entente_runtime::deadlines::within;
use futures_util::join;
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;

use crate::ApiState;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(alive).service(ready).service(simple).service(metrics);
}

/// Time limit for each read and write of a readiness check.
const LIMIT: Duration = Duration::from_millis(1_500);

/// How long a readiness result is reused, so that frequent requests cause no more checks than this.
const HOLDS: Duration = Duration::from_millis(500);

/// The server's state.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    /// `ok`, `draining`, `database_unreachable` if the server cannot read, or `not_writing` if a writer fails.
    #[schema(example = "ok")]
    status: &'static str,
    /// The writers that fail: `messages`, `jobs` or `envelopes`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<&'static str>,
    /// Parts that are away without a loss: `bus` if other servers' changes are found by polling instead of wake-ups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    degraded: Vec<&'static str>,
    /// The server's version.
    #[schema(example = "0.1.0")]
    version: &'static str,
}

impl Health {
    fn of(status: &'static str) -> Self {
        Self { status, failed: Vec::new(), degraded: Vec::new(), version: env!("CARGO_PKG_VERSION") }
    }
}

/// How long levels of the whole system are reused, so that frequent scrapes count no more often than this.
const LEVELS_HOLD: Duration = Duration::from_secs(5);

/// The result of the last readiness check, and when levels were last read for the metrics.
#[derive(Debug, Default)]
pub struct Checkup {
    last: Mutex<Option<(Instant, Found)>>,
    levels: Mutex<Option<Instant>>,
}

#[derive(Debug, Clone)]
struct Found {
    reads: bool,
    failed: Vec<&'static str>,
}

impl Checkup {
    /// Reads from the database and lets every writer write, unless a recent result exists. Concurrent callers wait
    /// for the same result.
    async fn look(&self, api: &ApiState) -> Found {
        let mut last = self.last.lock().await;
        if let Some((at, found)) = &*last
            && at.elapsed() < HOLDS
        {
            return found.clone();
        }
        let read = within(LIMIT, nodes::look(&api.ctx));
        let (read, messages, jobs, envelopes) = join!(
            read,
            within(LIMIT, api.openintent.message_writer.probe(LIMIT)),
            within(LIMIT, api.arcp.job_writer.probe(LIMIT)),
            within(LIMIT, api.aee.ingest.probe(LIMIT))
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

    /// Reads the levels of the whole system into the metrics, unless it was done recently. While the database does not answer,
    /// the metrics have none.
    async fn read_levels(&self, api: &ApiState) {
        let mut last = self.levels.lock().await;
        if last.is_some_and(|at| at.elapsed() < LEVELS_HOLD) {
            return;
        }
        let read = within(LIMIT, overview::levels(&api.ctx)).await.map_err(|late| late.to_string());
        let levels = read.and_then(|read| read.map_err(|failure| failure.to_string()));
        if let Err(why) = &levels {
            tracing::warn!(error = %why, "the levels for the metrics could not be read");
        }
        api.ctx.metrics.set_levels(levels.ok());
        *last = Some(Instant::now());
    }
}

/// Check that the process is alive
///
/// Responds as long as the process runs, whatever the state of the database.
#[utoipa::path(tag = "server", security(()), responses((status = 200, description = "The process is alive", body = Health)))]
#[get("/healthz")]
async fn alive() -> Reply {
    json(StatusCode::OK, &Health::of("ok"))
}

/// The liveness of the process in its shortest form.
#[derive(Debug, Serialize, ToSchema)]
struct Simple {
    /// Always true.
    ok: bool,
}

/// Check that the process is alive (ARCP form)
///
/// As `/healthz`, in the form that ARCP's client libraries expect.
#[utoipa::path(tag = "server", security(()), responses((status = 200, description = "The process is alive", body = Simple)))]
#[get("/health")]
async fn simple() -> Reply {
    json(StatusCode::OK, &Simple { ok: true })
}

/// Check that the server is ready for requests
///
/// It is not ready while it drains before stopping, and while it cannot read or write. The check reads from the
/// database and writes a row the way messages, jobs and envelopes are written; each has 1.5 seconds. A result is
/// reused for half a second.
#[utoipa::path(tag = "server", security(()), responses(
    (status = 200, description = "The server is ready", body = Health),
    (status = 503, description = "The server is not ready", body = Health)))]
#[get("/readyz")]
async fn ready(api: web::Data<ApiState>) -> Reply {
    if api.draining.is_cancelled() {
        return json(StatusCode::SERVICE_UNAVAILABLE, &Health::of("draining"));
    }
    let Found { reads, failed } = api.checkup.look(&api).await;
    if !reads {
        json(StatusCode::SERVICE_UNAVAILABLE, &Health { failed, ..Health::of("database_unreachable") })
    } else if failed.is_empty() {
        let degraded = if api.ctx.feed.is_bus_away() { vec!["bus"] } else { Vec::new() };
        json(StatusCode::OK, &Health { degraded, ..Health::of("ok") })
    } else {
        json(StatusCode::SERVICE_UNAVAILABLE, &Health { failed, ..Health::of("not_writing") })
    }
}

/// Get the metrics
///
/// `OpenMetrics` text, for Prometheus.
#[utoipa::path(tag = "server", security(()), responses(
    (status = 200, description = "The metrics", body = String, content_type = "application/openmetrics-text")))]
#[get("/metrics")]
async fn metrics(api: web::Data<ApiState>) -> HttpResponse {
    api.checkup.read_levels(&api).await;
    HttpResponse::Ok()
        .content_type("application/openmetrics-text; version=1.0.0; charset=utf-8")
        .body(api.ctx.metrics.text())
}
