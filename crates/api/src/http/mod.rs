//! The door of REST and SSE: parses requests, tells who asks, calls one deed, shapes the reply. It decides nothing.
//!
//! One file per noun; `routes` lists them. What all share: `caller` (who asks), `body` (what is asked), `wire` (times and
//! names for the client at hand), `error` (refusals on the wire), `frontdoor` (what happens to every request).

mod access;
mod access_requests;
mod agents;
mod approvals;
mod arbitration;
mod asks;
mod assignments;
mod attachments;
mod audit;
mod authority;
mod batches;
mod bodies;
pub(crate) mod body;
mod bridges;
mod buses;
pub(crate) mod caller;
pub(crate) mod channels;
mod checkpoints;
mod claims;
mod conformance;
mod connections;
mod coordinator_decisions;
mod coordinators;
mod costs;
mod credentials;
mod deliveries;
mod discovery;
mod envelope_keys;
mod envelope_logs;
pub(crate) mod envelopes;
pub mod error;
mod escalations;
mod events;
mod failures;
mod federation;
pub(crate) mod frames;
pub mod frontdoor;
mod governance;
mod graphs;
mod health;
pub mod hooks;
mod identities;
mod intents;
mod inventory;
mod invocations;
pub(crate) mod job_events;
pub(crate) mod jobs;
mod keys;
mod leases;
mod live;
pub(crate) mod mailboxes;
mod memory;
pub(crate) mod messages;
mod moments;
pub mod openapi;
mod people;
mod permits;
mod plan_verbs;
mod plans;
mod portfolios;
pub(crate) mod presence;
mod principals;
pub(crate) mod reports;
mod retry_policies;
pub(crate) mod routes;
mod rules;
mod schemas;
mod streams;
mod subscriptions;
mod suspensions;
mod task_verbs;
mod tasks;
mod threads;
mod tool_credentials;
mod tool_grants;
mod traces;
pub(crate) mod transport;
mod triggers;
mod vaults;
mod wire;
mod workers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::middleware::from_fn;
use actix_web::{App, web};
use entente_domain::limits::PAGE_BYTES;
use entente_kernel::invocations::Desk;
use entente_kernel::jobs::Works;
use entente_kernel::post::Post;
use entente_kernel::sends::Sends;
use entente_kernel::{Ctx, LargeAnswer};
use entente_runtime::spans::Spans;
use entente_runtime::tasks::Tasks;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub(crate) use self::caller::{address, admit, begin, doors};
pub use self::connections::{Connection, Connections};
pub use self::health::Checkup;
use self::routes::Routes;
pub use self::streams::Pace;
use crate::arcp::socket;
use crate::mcp::{self, Site};
use crate::web::pace::Pace as Logins;

/// What the door itself is limited to.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests per second and key; 0 for no limit.
    pub rate_per_second: u32,
    /// Bytes of a body.
    pub max_body_bytes: usize,
    /// Whether a proxy in front ends TLS.
    pub tls_terminated: bool,
    /// Open streams and waiting requests per key.
    pub max_streams_per_key: usize,
    /// Requests under way per key, besides those.
    pub max_requests_per_key: usize,
    /// How long the body of a request may take to come.
    pub body: Duration,
    /// How long an answer may take to be read, for each page's worth of it.
    pub write: Duration,
    /// How often a silent stream gets a comment.
    pub ping: Duration,
    /// How long a refused subscription is held.
    pub refused_subscribe_hold: Duration,
}

/// What every handler shares.
pub struct Doors {
    /// What deeds are handed.
    pub ctx: Ctx,
    /// Where messages are handed in.
    pub sends: Arc<Sends>,
    /// Where jobs and workers' reports are handed in.
    pub works: Arc<Works>,
    /// Where envelopes are handed in.
    pub post: Post,
    /// Where calls of tools are handed in.
    pub tools: Desk,
    /// What the door is limited to.
    pub limits: Limits,
    /// When the server started, on a steady clock.
    pub started: Instant,
    /// Cancelled when the server begins to drain: streams end so that they come back elsewhere.
    pub draining: CancellationToken,
    /// Where conversations run that outlive their request.
    pub tasks: Tasks,
    /// Whether the server could read and write when that was last asked.
    pub checkup: Checkup,
    /// Who is connected.
    pub connections: Arc<Connections>,
    /// Where requests are measured for a collector, if there is one.
    pub spans: Option<Arc<Spans>>,
    /// How deliveries to streams are spaced.
    pub pace: Pace,
    /// Where request ids come from.
    pub request_ids: frontdoor::RequestIds,
    /// Refused subscriptions that may be held at once; beyond, they are answered without delay.
    pub held: Semaphore,
    /// How often somebody has tried to log in.
    pub logins: Logins,
    /// Where this server stands for those outside.
    pub site: Site,
}

/// The routes outside of those.
fn root(config: &mut Routes<'_>) {
    health::routes(config);
    federation::well_known(config);
    discovery::root(config);
}

/// The routes under `/api/v1` and `/v1`.
fn api(config: &mut Routes<'_>) {
    // The router tries one after the other: what is asked most often comes first.
    messages::routes(config);
    batches::routes(config);
    asks::routes(config);
    jobs::routes(config);
    claims::routes(config);
    reports::routes(config);
    authority::routes(config);
    job_events::routes(config);
    channels::routes(config);
    intents::routes(config);
    graphs::routes(config);
    events::routes(config);
    traces::routes(config);
    assignments::routes(config);
    leases::routes(config);
    arbitration::routes(config);
    attachments::routes(config);
    costs::routes(config);
    retry_policies::routes(config);
    failures::routes(config);
    discovery::routes(config);
    tasks::routes(config);
    task_verbs::routes(config);
    plans::routes(config);
    plan_verbs::routes(config);
    memory::routes(config);
    coordinators::routes(config);
    coordinator_decisions::routes(config);
    suspensions::routes(config);
    access::routes(config);
    access_requests::routes(config);
    governance::routes(config);
    permits::routes(config);
    escalations::routes(config);
    agents::routes(config);
    identities::routes(config);
    checkpoints::routes(config);
    streams::routes(config);
    portfolios::routes(config);
    subscriptions::routes(config);
    deliveries::routes(config);
    principals::routes(config);
    keys::routes(config);
    credentials::routes(config);
    envelope_keys::routes(config);
    envelope_logs::routes(config);
    audit::routes(config);
    workers::routes(config);
    rules::routes(config);
    schemas::routes(config);
    conformance::routes(config);
    inventory::routes(config);
    envelopes::routes(config);
    mailboxes::routes(config);
    threads::routes(config);
    approvals::routes(config);
    buses::routes(config);
    bridges::routes(config);
    moments::routes(config);
    people::routes(config);
    triggers::routes(config);
    federation::routes(config);
    vaults::routes(config);
    tool_credentials::routes(config);
    tool_grants::routes(config);
    invocations::routes(config);
}

/// The application, as the server and the tests run it.
pub fn application(
    doors: web::Data<Doors>,
) -> App<
    impl ServiceFactory<
        ServiceRequest,
        Config = (),
        Response = ServiceResponse,
        Error = actix_web::Error,
        InitError = (),
    >,
> {
    let limit = doors.limits.max_body_bytes;
    App::new()
        .app_data(doors)
        .app_data(web::PayloadConfig::new(limit))
        .configure(|config| root(&mut Routes::Served(config)))
        .configure(|config| socket::routes(&mut Routes::Served(config)))
        .service(web::scope("/api/v1").configure(|config| api(&mut Routes::Served(config))))
        .service(web::scope("/v1").configure(|config| api(&mut Routes::Served(config))))
        .route("/arcp/", web::get().to(socket::slashed))
        .configure(openapi::pages)
        .configure(mcp::routes)
        .configure(crate::web::routes)
        .default_service(web::to(openapi::unknown))
        .wrap(from_fn(frontdoor::pass))
}

/// A JSON reply.
fn json(status: actix_web::http::StatusCode, body: &impl Serialize) -> error::Reply {
    let text = serde_json::to_vec(body).map_err(|e| error::Problem::internal(&e.to_string()))?;
    Ok(actix_web::HttpResponse::build(status).content_type("application/json").body(text))
}

/// A 200 with a JSON body.
fn ok(body: &impl Serialize) -> error::Reply {
    json(actix_web::http::StatusCode::OK, body)
}

/// A 201 with a JSON body.
fn created(body: &impl Serialize) -> error::Reply {
    json(actix_web::http::StatusCode::CREATED, body)
}

/// A 200 with a page of a list that was cut short where it is too large (`kernel/src/pages.rs`). `Entente-Has-More` says so: there may
/// be more although it has fewer than were asked for.
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

/// A 200 with a list, cut short behind the item with which it has a page's bytes. Its reader goes on behind the last one.
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

/// The header of a page that was cut short.
const HAS_MORE: HeaderName = HeaderName::from_static("entente-has-more");
