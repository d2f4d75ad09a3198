//! REST and SSE endpoints. Each handler parses the request, identifies the caller, calls one operation
//! and shapes the response; the handlers contain no domain decisions.
//!
//! One file per resource; `api_routes` and `root` list them. Shared modules: `caller` (authentication), `body`
//! (request bodies), `wire` (times and names in the client's dialect), `error` (refusals as responses), `middleware`
//! (middleware for every request), `site` and `login_throttle` (checks that MCP and the pages use).

pub(crate) mod aee;
pub(crate) mod arcp;
mod bodies;
pub(crate) mod body;
mod bridges;
pub(crate) mod caller;
mod connections;
pub mod error;
pub(crate) mod frames;
pub mod hooks;
pub(crate) mod kernel;
mod lease;
pub(crate) mod live;
pub mod login_throttle;
pub mod middleware;
mod moments;
pub mod openapi;
pub(crate) mod openintent;
pub(crate) mod presence;
pub(crate) mod routes;
pub mod site;
mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::http::header::{ETAG, HeaderName, HeaderValue};
use entente_aee::ingest::Ingest;
use entente_arcp::jobs::JobWriter;
use entente_bridges::Ctx;
use entente_domain::limits::PAGE_BYTES;
use entente_kernel::LargeAnswer;
use entente_openintent::messages::writer::MessageWriter;
use entente_openintent::tools::invocations::CallQueue;
use entente_runtime::spans::Spans;
use entente_runtime::tasks::Tasks;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub(crate) use self::caller::{address, admit, begin, state_of};
pub use self::connections::{Connection, Connections};
use self::login_throttle::LoginThrottle;
use self::routes::Routes;
use self::site::Site;
pub use crate::http::kernel::health::Checkup;
pub use crate::http::kernel::streams::Pace;

/// Limits of the HTTP layer.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests per second and key; 0 means no limit.
    pub rate_per_second: u32,
    /// Maximum size of a request body in bytes.
    pub max_body_bytes: usize,
    /// Whether a proxy in front of the server terminates TLS.
    pub tls_terminated: bool,
    /// Maximum number of open streams and waiting requests per key.
    pub max_streams_per_key: usize,
    /// Maximum number of other requests in progress per key.
    pub max_requests_per_key: usize,
    /// Time limit for receiving a request body.
    pub body: Duration,
    /// Time limit for the client to read each page's worth of a response.
    pub write: Duration,
    /// Interval after which a silent stream sends a comment.
    pub ping: Duration,
    /// How long a refused subscription is delayed before its response.
    pub refused_subscribe_hold: Duration,
}

/// State shared by all request handlers.
pub struct ApiState {
    /// Context of all protocols, which operations receive.
    pub ctx: Ctx,
    /// Group commit of messages.
    pub message_writer: Arc<MessageWriter>,
    /// Group commit of jobs and of workers' reports.
    pub job_writer: Arc<JobWriter>,
    /// Ingest of envelopes.
    pub ingest: Ingest,
    /// Executes tool calls.
    pub tools: CallQueue,
    /// Limits of the HTTP layer.
    pub limits: Limits,
    /// When the server started, on a monotonic clock.
    pub started: Instant,
    /// Cancelled when the server begins to drain: streams end so that clients reconnect to another server.
    pub draining: CancellationToken,
    /// Owns conversations that outlive their request.
    pub tasks: Tasks,
    /// Cached result of the last readiness check.
    pub checkup: Checkup,
    /// The open connections.
    pub connections: Arc<Connections>,
    /// Exporter of request spans, if a collector is configured.
    pub spans: Option<Arc<Spans>>,
    /// Spacing of deliveries to streams.
    pub pace: Pace,
    /// Generator of request ids.
    pub request_ids: middleware::RequestIds,
    /// Bounds the refused subscriptions that are delayed at once; beyond that, they are refused without
    /// delay.
    pub held: Semaphore,
    /// Rate limiter of login attempts.
    pub logins: LoginThrottle,
    /// The server's public URL, and the hosts and origins that it accepts.
    pub site: Site,
}

/// Routes outside the API prefixes.
pub(crate) fn root(config: &mut Routes<'_>) {
    kernel::health::routes(config);
    openintent::federation::well_known(config);
    kernel::discovery::root(config);
}

/// Routes under `/api/v1` and `/v1`.
pub(crate) fn api_routes(config: &mut Routes<'_>) {
    // The router tries services in order, so the most frequent requests come first.
    openintent::messages::routes(config);
    openintent::messages::batches::routes(config);
    openintent::messages::asks::routes(config);
    arcp::jobs::routes(config);
    arcp::claims::routes(config);
    arcp::reports::routes(config);
    arcp::authority::routes(config);
    arcp::job_events::routes(config);
    openintent::channels::routes(config);
    openintent::intents::routes(config);
    openintent::graphs::routes(config);
    kernel::events::routes(config);
    kernel::traces::routes(config);
    kernel::assignments::routes(config);
    openintent::leases::routes(config);
    openintent::arbitration::routes(config);
    openintent::attachments::routes(config);
    openintent::costs::routes(config);
    openintent::retry_policies::routes(config);
    openintent::failures::routes(config);
    kernel::discovery::routes(config);
    openintent::tasks::routes(config);
    openintent::task_verbs::routes(config);
    openintent::plans::routes(config);
    openintent::plan_verbs::routes(config);
    openintent::memory::routes(config);
    openintent::coordinators::routes(config);
    openintent::coordinator_decisions::routes(config);
    openintent::suspensions::routes(config);
    kernel::access::routes(config);
    kernel::access_requests::routes(config);
    openintent::governance::routes(config);
    openintent::approvals::routes(config);
    openintent::escalations::routes(config);
    kernel::agents::routes(config);
    kernel::identities::routes(config);
    kernel::checkpoints::routes(config);
    kernel::streams::routes(config);
    openintent::portfolios::routes(config);
    kernel::subscriptions::routes(config);
    kernel::deliveries::routes(config);
    kernel::principals::routes(config);
    kernel::keys::routes(config);
    arcp::credentials::routes(config);
    aee::envelope_keys::routes(config);
    aee::envelope_logs::routes(config);
    kernel::audit::routes(config);
    arcp::workers::routes(config);
    aee::rules::routes(config);
    aee::schemas::routes(config);
    aee::conformance::routes(config);
    arcp::inventory::routes(config);
    aee::envelopes::routes(config);
    aee::mailboxes::routes(config);
    aee::threads::routes(config);
    aee::approvals::routes(config);
    aee::buses::routes(config);
    bridges::routes(config);
    moments::routes(config);
    kernel::people::routes(config);
    openintent::triggers::routes(config);
    openintent::federation::routes(config);
    openintent::tools::vaults::routes(config);
    openintent::tools::tool_credentials::routes(config);
    openintent::tools::tool_grants::routes(config);
    openintent::tools::invocations::routes(config);
}

/// Returns a JSON response.
fn json(status: actix_web::http::StatusCode, body: &impl Serialize) -> error::Reply {
    let text = serde_json::to_vec(body).map_err(|e| error::Problem::internal(&e.to_string()))?;
    Ok(actix_web::HttpResponse::build(status).content_type("application/json").body(text))
}

/// Returns a 200 with a JSON body.
fn ok(body: &impl Serialize) -> error::Reply {
    json(actix_web::http::StatusCode::OK, body)
}

/// Returns a 201 with a JSON body.
fn created(body: &impl Serialize) -> error::Reply {
    json(actix_web::http::StatusCode::CREATED, body)
}

/// Returns a 200 with a JSON body, and the version of what it describes as `ETag`.
fn with_version(version: i64, body: &impl Serialize) -> error::Reply {
    with_header(body, ETAG, Some(format!("\"{version}\"")))
}

/// Returns a 200 with a page of a list, and the cursor of the next page if more items follow.
fn with_next(body: &impl Serialize, next: Option<impl ToString>) -> error::Reply {
    with_header(body, HeaderName::from_static("entente-next-cursor"), next.map(|next| next.to_string()))
}

/// Returns a 200 with a JSON body and, if the value is present, a header.
fn with_header(body: &impl Serialize, name: HeaderName, value: Option<String>) -> error::Reply {
    let mut response = ok(body)?;
    if let Some(value) = value {
        let value = HeaderValue::try_from(value).map_err(|e| error::Problem::internal(&e.to_string()))?;
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}

/// Returns a 200 with a page of a list, truncated if it was too large (`kernel/src/pages.rs`).
///
/// `Entente-Has-More` marks a truncated page: there may be more items although it has fewer than requested.
fn paged(body: &impl Serialize, cut: bool, large: Option<LargeAnswer>) -> error::Reply {
    let mut response = ok(body)?;
    if cut {
        response.headers_mut().insert(HAS_MORE, HeaderValue::from_static("true"));
    }
    if let Some(large) = large {
        response.extensions_mut().insert(large);
    }
    Ok(response)
}

/// Returns a 200 with a list, truncated after the item that fills the page's bytes; the client continues
/// after its last item.
fn listed<T: Serialize>(items: impl IntoIterator<Item = T>) -> error::Reply {
    let (mut text, mut items) = (vec![b'['], items.into_iter().peekable());
    let room = usize::try_from(PAGE_BYTES).unwrap_or(usize::MAX);
    while text.len() < room
        && let Some(item) = items.next()
    {
        if text.len() > 1 {
            text.push(b',');
        }
        serde_json::to_writer(&mut text, &item).map_err(|e| error::Problem::internal(&e.to_string()))?;
    }
    text.push(b']');
    let mut response = actix_web::HttpResponse::Ok();
    if items.peek().is_some() {
        response.insert_header((HAS_MORE, "true"));
    }
    Ok(response.content_type("application/json").body(text))
}

/// Header of a truncated page.
const HAS_MORE: HeaderName = HeaderName::from_static("entente-has-more");
