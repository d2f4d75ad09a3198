//! The HTTP layer that every interface shares, and the REST resources of the kernel (`kernel`).
//!
//! `caller` authenticates, `body` reads request bodies, `unknown` names members that have no effect, `wire` writes times
//! and names in the client's dialect, `error` turns refusals into responses, `live` and `frames` stream events,
//! `middleware` wraps every request, `head`, `documents` and `representation` decide on the form of its response, `site`
//! and `login_throttle` hold the checks that MCP and the pages use. Names no protocol.

pub mod amounts;
mod bodies;
pub mod body;
pub mod caller;
mod connections;
pub mod documents;
pub mod error;
pub mod event;
pub mod frames;
pub mod head;
pub mod intent;
pub mod kernel;
pub mod lease;
pub mod live;
pub mod login_throttle;
pub mod message;
pub mod middleware;
pub mod presence;
mod representation;
pub mod routes;
pub mod site;
pub mod unknown;
pub mod webhooks;
pub mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::http::header::{ETAG, HeaderName, HeaderValue};
use entente_domain::limits::PAGE_BYTES;
use entente_kernel::{Ctx, LargeAnswer};
use entente_runtime::spans::Spans;
use entente_runtime::tasks::Tasks;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use self::caller::{address, admit, begin, state_of};
pub use self::connections::{Connection, Connections};
use self::login_throttle::LoginThrottle;
use self::site::Site;
pub use crate::kernel::streams::Pace;

/// Limits of the HTTP layer.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests per second and key; 0 means no limit.
    pub rate_per_second: u32,
    /// Maximum size of a request body in bytes.
    pub max_body_bytes: usize,
    /// Whether a proxy in front of the server terminates TLS.
    pub tls_terminated: bool,
    /// Seconds that browsers come back with TLS only; `None` if this server itself speaks no TLS, 0 to say nothing.
    pub hsts_seconds: Option<u32>,
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

impl Limits {
    /// Returns whether nobody between a client elsewhere and this server, or its proxy, can read their connection.
    #[must_use]
    pub const fn encrypted(&self) -> bool {
        self.tls_terminated || self.hsts_seconds.is_some()
    }
}

/// State shared by all request handlers.
pub struct HttpState {
    /// Context of the kernel's operations.
    pub ctx: Ctx,
    /// Limits of the HTTP layer.
    pub limits: Limits,
    /// When the server started, on a monotonic clock.
    pub started: Instant,
    /// Cancelled when the server begins to drain: streams end so that clients reconnect to another server.
    pub draining: CancellationToken,
    /// Owns conversations that outlive their request.
    pub tasks: Tasks,
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

/// Returns a JSON response.
///
/// # Errors
/// The value has no JSON form.
pub fn json(status: actix_web::http::StatusCode, body: &impl Serialize) -> error::Reply {
    let text = serde_json::to_vec(body).map_err(|e| error::Problem::internal(&e.to_string()))?;
    Ok(actix_web::HttpResponse::build(status).content_type("application/json").body(text))
}

/// Returns a 200 with a JSON body.
///
/// # Errors
/// The value has no JSON form.
pub fn ok(body: &impl Serialize) -> error::Reply {
    json(actix_web::http::StatusCode::OK, body)
}

/// Returns a 201 with a JSON body.
///
/// # Errors
/// The value has no JSON form.
pub fn created(body: &impl Serialize) -> error::Reply {
    json(actix_web::http::StatusCode::CREATED, body)
}

/// Returns a 200 with a JSON body, and the version of the described record as `ETag`.
///
/// # Errors
/// The value has no JSON form.
pub fn with_version(version: i64, body: &impl Serialize) -> error::Reply {
    with_header(body, ETAG, Some(format!("\"{version}\"")))
}

/// Returns a 200 with a page of a list, and the cursor of the next page if more items follow.
///
/// # Errors
/// The value has no JSON form.
pub fn with_next(body: &impl Serialize, next: Option<impl ToString>) -> error::Reply {
    with_header(body, HeaderName::from_static("entente-next-cursor"), next.map(|next| next.to_string()))
}

/// Returns a 200 with a JSON body and, if the value is present, a header.
///
/// # Errors
/// The value has no JSON form.
pub fn with_header(body: &impl Serialize, name: HeaderName, value: Option<String>) -> error::Reply {
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
///
/// # Errors
/// The value has no JSON form.
pub fn paged(body: &impl Serialize, cut: bool, large: Option<LargeAnswer>) -> error::Reply {
    let mut response = ok(body)?;
    if cut {
        response.headers_mut().insert(HAS_MORE, HeaderValue::from_static("true"));
    }
    if let Some(large) = large {
        response.extensions_mut().insert(large);
    }
    Ok(response)
}

/// Returns a 200 with a page of a log, like [`paged`]. `Entente-Deleted-Events` says on the last page how many older
/// events retention has deleted.
///
/// # Errors
/// The value has no JSON form.
pub fn paged_log(
    body: &impl Serialize,
    cut: bool,
    large: Option<LargeAnswer>,
    deleted: Option<i64>,
) -> error::Reply {
    let mut response = paged(body, cut, large)?;
    if let Some(deleted) = deleted {
        response.headers_mut().insert(DELETED_EVENTS, HeaderValue::from(deleted));
    }
    Ok(response)
}

/// Returns a 200 with a list, truncated after the item that fills the page's bytes; the client continues
/// after its last item.
///
/// # Errors
/// The value has no JSON form.
pub fn listed<T: Serialize>(items: impl IntoIterator<Item = T>) -> error::Reply {
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

/// Header of the last page of a log whose oldest events were deleted.
const DELETED_EVENTS: HeaderName = HeaderName::from_static("entente-deleted-events");

/// Header of a truncated page.
const HAS_MORE: HeaderName = HeaderName::from_static("entente-has-more");
