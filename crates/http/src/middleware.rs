//! Middleware around every request: answers HEAD as GET, assigns request ids, catches panics, writes error bodies,
//! chooses the form of the response, counts and logs, and closes connections while the server drains.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::InternalError;
use actix_web::http::header::{
    CACHE_CONTROL, HOST, HeaderMap, HeaderName, HeaderValue, STRICT_TRANSPORT_SECURITY,
};
use actix_web::http::{ConnectionType, Method};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage as _, HttpRequest, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::traces::Trace;
use entente_kernel::{AppError, OpenRequest};
use entente_runtime::deadlines::{self, Late};
use entente_runtime::fences;
use entente_runtime::metrics::RequestLabels;
use entente_runtime::spans::{Answered, Span};
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;

use super::caller::RateNote;
use super::error::{Family, Problem};
use super::presence::{UnderWay, Watch};
use super::{Connection, bodies, head, representation, unknown};
use crate::HttpState;

/// The header of a request's id, in requests and responses.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The header of W3C Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Metrics label for requests that match no route.
const UNROUTED: &str = "none";
/// Metrics label for requests whose handler panicked or ran out of time: the match is lost with the request.
const LOST: &str = "lost";
/// The status under which a request is counted if its client disconnected before the response. It is not one of
/// HTTP's own, because it is never sent; proxies count such requests in the same way.
const HUNG_UP: u16 = 499;
/// Maximum length in bytes of a client's request id.
const REQUEST_ID_BYTES: usize = 64;

/// A handler's result: in time or not, with a panic or without, with a response or an error.
type Caught<B> = Result<std::thread::Result<Result<ServiceResponse<B>, Error>>, Late>;

/// Generates request ids: a counter from a random start, so that ids of different servers and runs differ.
#[derive(Debug)]
pub struct RequestIds(AtomicU64);

impl RequestIds {
    /// Creates a generator that starts at `start`, which should be random.
    #[must_use]
    pub fn new(start: u64) -> Self {
        Self(AtomicU64::new(start))
    }

    fn next(&self) -> String {
        format!("req_{:016x}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// The middleware around all handlers. Its future fails if the handler panicked or ran out of time, in which case the
/// error carries the response, or if an inner service failed.
///
/// A connection has room for this future as long as it is open, idle or not: it is a pointer, not the four kilobytes behind
/// it.
#[must_use]
pub fn pass(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> LocalBoxFuture<'static, Result<ServiceResponse<BoxBody>, Error>> {
    handle(request, next).boxed_local()
}

/// Handles a request, as [`pass`] describes.
async fn handle(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let began = Instant::now();
    let method = known_method(request.method());
    let request = head::routed(request);
    let api = request.app_data::<web::Data<HttpState>>().cloned();
    if let Some(connection) = request.conn_data::<Connection>() {
        connection.asked();
    }
    let id = api.as_ref().map_or_else(String::new, |api| request_id(&request, api));
    let span = api.as_ref().and_then(|api| trace(&request, api));
    let request = match &api {
        Some(api) => bodies::within(request, api.limits.body),
        None => request,
    };
    let watch = Watch::default();
    request.extensions_mut().insert(watch.clone());
    let unheard = unheard(api.clone(), id.clone(), began);
    let handler =
        Box::pin(deadlines::request(fences::request(AssertUnwindSafe(next.call(request)).catch_unwind())));
    let caught = UnderWay::new(handler, unheard, watch, api.as_ref().map(|api| api.tasks.clone())).await;
    let mut response = match caught {
        Ok(Ok(passed)) => passed?.map_into_boxed_body(),
        // The panic hook has logged the location.
        Ok(Err(_panic)) => {
            return Err(lost(api.as_ref(), Problem::internal("a handler panicked"), method, &id, began));
        }
        Err(late) => return Err(lost(api.as_ref(), AppError::from(late).into(), method, &id, began)),
    };
    let waited = ends_waiting(response.request());
    let refused = bodies::hold(&mut response).err();
    let problem = response.response().error().and_then(|error| error.as_error::<Problem>());
    let problem = refused.as_ref().or(problem);
    // Set once the caller is known; before that, no response contains a time.
    let dialect = response.request().extensions().get::<Dialect>().copied().unwrap_or(Dialect::Standard);
    let family = Family::of(response.request().method(), response.request().path());
    if let Some(filled) = problem.map(|problem| problem.response(&id, dialect, family)) {
        let (http, _) = response.into_parts();
        response = ServiceResponse::new(http, filled);
    }
    let rate = response.request().extensions().get::<RateNote>().copied();
    adorn(response.headers_mut(), &id, rate);
    response = unknown::announce(response);
    response = representation::chosen(response).await;
    if let Some(api) = api {
        let draining = api.draining.is_cancelled();
        if draining {
            // The next request would meet a closing connection, and not every client retries.
            response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
        }
        if let Some(connection) = response.request().conn_data::<Connection>() {
            connection.answered(draining);
        }
        let status = response.status().as_u16();
        account(&api, response.request(), Ended { status, waited, began }, &id, span);
        pin_to_tls(&mut response, api.limits.hsts_seconds);
        response = bodies::unhurried(response, api.limits.write);
    }
    Ok(head::bodiless(response))
}

/// Counts and logs a request whose client disconnected before the response.
fn unheard<B>(
    api: Option<web::Data<HttpState>>,
    id: String,
    began: Instant,
) -> impl FnOnce(Caught<B>) + Unpin {
    move |done| {
        if let (Some(api), Ok(Ok(Ok(response)))) = (api, done) {
            let waited = ends_waiting(response.request());
            account(&api, response.request(), Ended { status: HUNG_UP, waited, began }, &id, None);
        }
    }
}

/// Records the request's trace (`traceparent`, RFC-0020) for the events it causes, and starts a span if a collector
/// is configured. Only requests to the API, MCP and A2A get spans; health checks, for example, do not.
fn trace(request: &ServiceRequest, api: &HttpState) -> Option<Span> {
    let header = request.headers().get(TRACEPARENT).and_then(|value| value.to_str().ok());
    let came_with = header.and_then(Trace::parse);
    let measured = api.spans.as_ref().filter(|_| {
        let path = request.path();
        path.starts_with("/api/") || path.starts_with("/v1/") || path.starts_with("/a2a/") || path == "/mcp"
    });
    let span = measured.map(|spans| spans.begin(came_with));
    if let Some(trace) = span.as_ref().and_then(Span::trace).or(came_with) {
        request.extensions_mut().insert(trace);
    }
    span
}

/// Returns the client's request id if it is well-formed, else a new one.
fn request_id(request: &ServiceRequest, api: &HttpState) -> String {
    let given = request.headers().get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let decent = |id: &&str| {
        !id.is_empty()
            && id.len() <= REQUEST_ID_BYTES
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
    };
    given.filter(decent).map_or_else(|| api.request_ids.next(), str::to_owned)
}

/// Builds the response to a request that was lost with its handler.
fn lost(
    api: Option<&web::Data<HttpState>>,
    problem: Problem,
    method: &'static str,
    id: &str,
    began: Instant,
) -> Error {
    let mut response = problem.response(id, Dialect::Standard, Family::Entente);
    adorn(response.headers_mut(), id, None);
    if let Some(api) = api {
        if api.draining.is_cancelled() {
            response.head_mut().set_connection_type(ConnectionType::Close);
        }
        let status = response.status().as_u16();
        let labels = RequestLabels { method, route: Arc::from(LOST), status };
        count(api, &labels, id, Ended { status, waited: false, began });
    }
    InternalError::from_response(problem, response).into()
}

fn adorn(headers: &mut HeaderMap, id: &str, rate: Option<RateNote>) {
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    // Responses may contain secrets for one key, such as a new key, a credential or a message, so no cache may store
    // them.
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if let Some(rate) = rate {
        headers.insert(HeaderName::from_static("ratelimit-limit"), rate.limit.into());
        headers.insert(HeaderName::from_static("ratelimit-remaining"), rate.remaining.into());
        headers.insert(HeaderName::from_static("ratelimit-reset"), rate.reset.into());
    }
}

/// Tells browsers to come back with TLS only (RFC 6797), over TLS of this server's own; of a proxy's TLS the proxy speaks.
///
/// The rule of a name is for all its ports: one for `localhost` would break other sites developed on the machine.
fn pin_to_tls(response: &mut ServiceResponse<BoxBody>, seconds: Option<u32>) {
    let Some(seconds) = seconds.filter(|seconds| *seconds > 0) else { return };
    let host = response.request().headers().get(HOST).and_then(|value| value.to_str().ok());
    let name = host.and_then(|host| host.split(':').next()).unwrap_or_default();
    if !name.eq_ignore_ascii_case("localhost")
        && let Ok(value) = HeaderValue::try_from(format!("max-age={seconds}"))
    {
        response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, value);
    }
}

/// Returns the path to report to the collector. Only the pattern is reported if the path ends in a secret, and only
/// `UNROUTED` if no route matched, because a misspelt path may contain one.
fn told_path<'a>(path: &'a str, route: &'a str) -> &'a str {
    if route == UNROUTED || route.contains("{token}") { route } else { path }
}

fn known_method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

/// Ends a request for its key: streams and background work may still hold the caller, but the request is over and no longer
/// counts. Returns whether it waited for an event.
fn ends_waiting(request: &HttpRequest) -> bool {
    let open = request.extensions_mut().remove::<Arc<OpenRequest>>();
    open.is_some_and(|open| !open.end())
}

/// End of a request.
#[derive(Debug, Clone, Copy)]
struct Ended {
    status: u16,
    /// Whether it waited for an event.
    waited: bool,
    began: Instant,
}

fn account(api: &HttpState, request: &HttpRequest, ended: Ended, id: &str, span: Option<Span>) {
    let status = ended.status;
    let route = request.match_pattern();
    let route: Arc<str> = route.map_or_else(|| Arc::from(UNROUTED), Arc::from);
    let method = if head::is_head(request) { "HEAD" } else { known_method(request.method()) };
    if let Some(span) = span {
        let path = told_path(request.path(), &route);
        span.end(&Answered { method, route: &route, path, status, request_id: id });
    }
    count(api, &RequestLabels { method, route, status }, id, ended);
}

/// Logs and counts a finished request.
fn count(api: &HttpState, labels: &RequestLabels, id: &str, ended: Ended) {
    let elapsed = ended.began.elapsed();
    tracing::debug!(
        request.id = id,
        http.method = labels.method,
        http.route = &*labels.route,
        http.status = labels.status,
        elapsed.micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
        "request"
    );
    if labels.status >= 500 {
        tracing::warn!(
            request.id = id,
            http.method = labels.method,
            http.route = &*labels.route,
            http.status = labels.status,
            "failed request"
        );
    }
    api.ctx.metrics.answered(labels, ended.waited, elapsed.as_secs_f64());
}
