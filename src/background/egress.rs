//! Egress: the only HTTP client of the server. It follows no redirects, uses no proxy, reads only a limited
//! part of an answer, and connects to no address that `entente_domain::egress` closes.
//!
//! The guard sits in the resolver, so the checked address is the one that is connected to: a name that
//! resolves to a public address for the check and to an internal one for the connection gains nothing.
//! Literal addresses in a URL are not resolved, so the URL is checked before every request.
//!
//! Destinations that the operator configures ([`Upstreams`] for provisioning credentials) have no closed
//! addresses, because they often lie in the internal network; no client input gets into these destinations.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use entente_domain::clock::Timestamp;
use entente_domain::egress::{Allowed, judge, judge_secret};
use entente_domain::openintent::tools::tool_calls::Call;
use entente_domain::webhooks::retries::{Failed, Failure};
use entente_kernel::WebhookSettings;
use entente_runtime::tls::{self, Authorities};
use reqwest::Method;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use tokio::time::{Instant, timeout, timeout_at};

/// Name of the header `Content-Type`.
const CONTENT_TYPE_NAME: &str = "content-type";

/// Bytes read of an answer; beyond that the connection is closed.
const READ_BYTES: usize = 20_000;

/// Bytes of an answer kept for the endpoint's owner.
const KEPT_BYTES: usize = 2_048;

/// Time to read the rest of an answer after its status, which alone decides the outcome.
const READ_TIME: Duration = Duration::from_secs(1);

/// Time that an idle connection to a receiver is kept: shorter than on most servers.
const IDLE: Duration = Duration::from_secs(4);

/// Idle connections kept per receiver, since each endpoint has only one sender at a time.
const IDLE_PER_HOST: usize = 2;

/// Error for every name without an allowed address, whatever the reason.
const UNKNOWN: &str = "its name stands for no public address";

/// Result of a name look-up.
pub type Found = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Name resolution: the system's in the server, a fake in tests.
pub trait Names: Send + Sync {
    /// Looks up the addresses of a name.
    fn look_up(&self, name: &str) -> Found;
}

/// The system's name resolution.
#[derive(Debug)]
pub struct SystemNames;

impl Names for SystemNames {
    fn look_up(&self, name: &str) -> Found {
        let name = name.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// The resolver of names that outgoing connections use, and the authorities of certificates that they trust besides
/// those of the public web.
#[derive(Clone)]
pub struct Trust {
    /// Resolves names.
    pub names: Arc<dyn Names>,
    /// Authorities that the operator adds.
    pub authorities: Authorities,
}

/// Resolver that returns only allowed addresses.
struct Guard {
    names: Arc<dyn Names>,
    allowed: Arc<Allowed>,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let (found, allowed) = (self.names.look_up(name.as_str()), Arc::clone(&self.allowed));
        let exempt = allowed.names(name.as_str());
        Box::pin(async move {
            // The same answer for unknown and for internal names: authors of URLs must not be able to probe
            // the internal network.
            let found = found.await.unwrap_or_else(|unknown| {
                tracing::debug!(error = %unknown, "a name that is to be sent to was not found");
                Vec::new()
            });
            let open: Vec<SocketAddr> = found
                .into_iter()
                .filter(|address| exempt || allowed.admits(*address))
                .map(|address| SocketAddr::new(address, 0))
                .collect();
            if open.is_empty() {
                return Err(io::Error::other(UNKNOWN).into());
            }
            Ok(Box::new(open.into_iter()) as Addrs)
        })
    }
}

/// Answer of a receiver.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
    /// Beginning of the body.
    pub body: String,
}

/// Reason for a missing answer.
#[derive(Debug)]
pub enum RequestFailure {
    /// The request timed out.
    TimedOut,
    /// The connection failed or broke, for this reason.
    Unreachable(String),
}

/// Judges the answer of a receiver: it has the message if it says so.
///
/// # Errors
/// It does not have it.
pub fn judged(answer: &Result<Answer, RequestFailure>) -> Result<(), Failed> {
    match answer {
        Ok(answer) if (200..300).contains(&answer.status) => Ok(()),
        Ok(Answer { status, retry_after, .. }) => Err(Failed {
            failure: Failure::Status(*status),
            error: format!("it answered {status}"),
            retry_after: *retry_after,
        }),
        Err(RequestFailure::TimedOut) => Err(Failed::timed_out()),
        Err(RequestFailure::Unreachable(why)) => Err(Failed::silent(Failure::Unreachable, why.clone())),
    }
}

/// HTTP client for webhooks, federation, tools and the provider of people's accounts.
pub struct Egress {
    http: reqwest::Client,
    allowed: Arc<Allowed>,
    https_only: bool,
    timeout: Duration,
}

impl Egress {
    /// Creates a client with these settings.
    ///
    /// # Errors
    /// The client cannot be set up.
    pub fn new(settings: &WebhookSettings, trust: &Trust) -> Result<Self, String> {
        let allowed = Arc::new(settings.allowed.clone());
        let http = guarded(trust, &allowed)?;
        Ok(Self { http, allowed, https_only: settings.https_only, timeout: settings.timeout })
    }

    /// Sends a JSON body.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn post(&self, url: &str, body: String, now: Timestamp) -> Result<Answer, RequestFailure> {
        let headers = [(CONTENT_TYPE_NAME, "application/json".to_owned())];
        self.send(url, &headers, body.into_bytes(), now).await
    }

    /// Sends any body; its headers name the content type.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn send(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
        now: Timestamp,
    ) -> Result<Answer, RequestFailure> {
        let url = judge(url, &self.allowed, self.https_only)
            .map_err(|fault| RequestFailure::Unreachable(format!("the URL cannot be used: {fault}")))?;
        let mut request = self.http.post(url).body(body);
        for (name, value) in headers {
            let mut value = HeaderValue::from_str(value)
                .map_err(|e| RequestFailure::Unreachable(format!("the request cannot be made: {e}")))?;
            // They may be secrets, which no protocol and no log need keep.
            value.set_sensitive(*name != CONTENT_TYPE_NAME);
            request = request.header(*name, value);
        }
        let response =
            timeout(self.timeout, request.send()).await.map_err(|_late| RequestFailure::TimedOut)?;
        Ok(answer(response.map_err(|e| RequestFailure::Unreachable(reason(&e)))?, now).await)
    }
}

/// Builds a client that connects to no closed address.
fn guarded(trust: &Trust, allowed: &Arc<Allowed>) -> Result<reqwest::Client, String> {
    let names = Arc::clone(&trust.names);
    let tls = tls::client(&trust.authorities).map_err(|e| e.to_string())?;
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .dns_resolver(Arc::new(Guard { names, allowed: Arc::clone(allowed) }))
        .redirect(Policy::none())
        .no_proxy()
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        .user_agent(concat!("entente/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|e| e.to_string())
}

/// Answer of a tool.
pub struct ToolResponse {
    /// HTTP status.
    pub status: u16,
    /// The whole body.
    pub body: String,
    /// Length of the body in bytes.
    pub bytes: usize,
}

/// Reason for a missing answer of a tool.
#[derive(Debug)]
pub enum ToolFailure {
    /// The destination is not allowed, for this reason.
    Blocked(String),
    /// The request timed out.
    TimedOut,
    /// The connection failed or broke, for this reason.
    Unreachable(String),
    /// The answer exceeds the limit.
    TooLong,
}

impl Egress {
    /// Creates a client for tools that may reach these addresses besides the public ones.
    ///
    /// # Errors
    /// The client cannot be set up.
    pub fn to_tools(allowed: &Allowed, trust: &Trust) -> Result<Self, String> {
        let allowed = Arc::new(allowed.clone());
        let http = guarded(trust, &allowed)?;
        // Each call has its own time limit.
        Ok(Self { http, allowed, https_only: true, timeout: Duration::MAX })
    }

    /// Calls a tool and reads its whole answer.
    ///
    /// Calls without TLS are limited to hosts that the operator has listed.
    ///
    /// # Errors
    /// There is no complete answer.
    pub async fn call(&self, call: Call, most: usize) -> Result<ToolResponse, ToolFailure> {
        let url = judge_secret(call.url.as_str(), &self.allowed)
            .map_err(|fault| ToolFailure::Blocked(fault.to_string()))?;
        let unsent =
            |e: &dyn std::fmt::Display| ToolFailure::Unreachable(format!("the request cannot be made: {e}"));
        let method = Method::from_bytes(call.method.as_str().as_bytes()).map_err(|e| unsent(&e))?;
        let mut request = self.http.request(method, url);
        for (name, value) in &call.headers {
            let mut value = HeaderValue::from_str(value).map_err(|e| unsent(&e))?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        if let Some((kind, body)) = &call.body {
            request = request.header(CONTENT_TYPE, *kind).body(body.to_string());
        }
        let time = Duration::from_millis(u64::from(call.timeout_millis));
        timeout(time, tool_response(request, most)).await.map_err(|_late| ToolFailure::TimedOut)?
    }
}

async fn tool_response(request: reqwest::RequestBuilder, most: usize) -> Result<ToolResponse, ToolFailure> {
    // The URL may contain a secret.
    let silent = |e: reqwest::Error| ToolFailure::Unreachable(reason(&e.without_url()));
    let mut response = request.send().await.map_err(silent)?;
    let status = response.status().as_u16();
    let mut read = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(silent)? {
        read.extend_from_slice(&chunk);
        if read.len() > most {
            return Err(ToolFailure::TooLong);
        }
    }
    Ok(ToolResponse { status, bytes: read.len(), body: String::from_utf8_lossy(&read).into_owned() })
}

impl Egress {
    /// Sends a request and reads the whole answer, with its headers.
    ///
    /// Requests without TLS are limited to hosts that the operator has listed.
    ///
    /// # Errors
    /// There is no complete answer.
    pub async fn fetch(
        &self,
        request: http::Request<Vec<u8>>,
        time: Duration,
        most: usize,
    ) -> Result<http::Response<Vec<u8>>, ToolFailure> {
        let (parts, body) = request.into_parts();
        let url = judge_secret(&parts.uri.to_string(), &self.allowed)
            .map_err(|fault| ToolFailure::Blocked(fault.to_string()))?;
        let request = self.http.request(parts.method, url).headers(parts.headers).body(body);
        timeout(time, fetched(request, most)).await.map_err(|_late| ToolFailure::TimedOut)?
    }
}

async fn fetched(
    request: reqwest::RequestBuilder,
    most: usize,
) -> Result<http::Response<Vec<u8>>, ToolFailure> {
    let silent = |e: reqwest::Error| ToolFailure::Unreachable(reason(&e.without_url()));
    let mut response = request.send().await.map_err(silent)?;
    let mut read = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(silent)? {
        read.extend_from_slice(&chunk);
        if read.len() > most {
            return Err(ToolFailure::TooLong);
        }
    }
    let mut answer = http::Response::new(read);
    *answer.status_mut() = response.status();
    *answer.headers_mut() = response.headers().clone();
    Ok(answer)
}

/// Bytes read of an upstream's answer: a credential and its metadata.
const UPSTREAM_BYTES: usize = 64 * 1024;

/// A request to an upstream that the operator configured.
#[derive(Clone)]
pub struct Ask {
    /// The HTTP method.
    pub method: String,
    /// The URL.
    pub url: String,
    /// Header names and values, including secrets.
    pub headers: Vec<(String, String)>,
    /// A JSON text.
    pub body: Option<String>,
    /// Time limit of the request, including its answer.
    pub timeout: Duration,
}

/// Reason for a missing answer of an upstream.
#[derive(Debug)]
pub struct Unanswered {
    /// Message for people.
    pub why: String,
    /// Whether the upstream may have processed the request.
    pub perhaps: bool,
}

/// Client for upstreams that the operator configured.
#[derive(Clone)]
pub struct Upstreams {
    http: reqwest::Client,
}

impl Upstreams {
    /// Creates a client without closed addresses.
    ///
    /// # Errors
    /// The client cannot be set up.
    pub fn new(authorities: &Authorities) -> Result<Self, String> {
        let tls = tls::client(authorities).map_err(|e| e.to_string())?;
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(Policy::none())
            .no_proxy()
            .pool_idle_timeout(IDLE)
            .user_agent(concat!("entente/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| e.to_string())?;
        Ok(Self { http })
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// There is no answer, or it exceeds the limit.
    pub async fn ask(&self, ask: Ask, now: Timestamp) -> Result<Answer, Unanswered> {
        let unsent = |why: String| Unanswered { why, perhaps: false };
        let method = Method::from_bytes(ask.method.as_bytes()).map_err(|e| unsent(e.to_string()))?;
        let mut request = self.http.request(method, ask.url);
        for (name, value) in &ask.headers {
            request = request.header(name, value);
        }
        if let Some(body) = ask.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let late = |_late| Unanswered { why: "it did not answer in time".to_owned(), perhaps: true };
        timeout(ask.timeout, whole(request, now)).await.map_err(late)?
    }
}

async fn whole(request: reqwest::RequestBuilder, now: Timestamp) -> Result<Answer, Unanswered> {
    // A request that was not built, or not connected, was not processed.
    let silent = |e: reqwest::Error| {
        let perhaps = !(e.is_connect() || e.is_builder());
        // The URL may contain a secret.
        Unanswered { why: reason(&e.without_url()), perhaps }
    };
    let mut response = request.send().await.map_err(silent)?;
    let status = response.status().as_u16();
    let retry_after =
        response.headers().get(RETRY_AFTER).and_then(|value| seconds(value.to_str().ok()?, now));
    let mut read = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(silent)? {
        read.extend_from_slice(&chunk);
        if read.len() > UPSTREAM_BYTES {
            return Err(Unanswered { why: "its answer has no end".to_owned(), perhaps: true });
        }
    }
    Ok(Answer { status, retry_after, body: String::from_utf8_lossy(&read).into_owned() })
}

async fn answer(mut response: reqwest::Response, now: Timestamp) -> Answer {
    let status = response.status().as_u16();
    let retry_after =
        response.headers().get(RETRY_AFTER).and_then(|value| seconds(value.to_str().ok()?, now));
    let (mut read, mut kept) = (0, Vec::new());
    // The body is only shown to the owner; a body that cannot be read completely does not change the outcome.
    let over = Instant::now() + READ_TIME;
    while let Ok(Ok(Some(chunk))) = timeout_at(over, response.chunk()).await {
        read += chunk.len();
        let room = KEPT_BYTES.saturating_sub(kept.len()).min(chunk.len());
        kept.extend_from_slice(chunk.get(..room).unwrap_or_default());
        if read >= READ_BYTES {
            break;
        }
    }
    let body = String::from_utf8_lossy(&kept).replace('\0', "\u{fffd}");
    Answer { status, retry_after, body }
}

/// Parses `Retry-After`: seconds or a date.
fn seconds(text: &str, now: Timestamp) -> Option<u32> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let at = DateTime::parse_from_rfc2822(text).ok()?;
    u32::try_from((at.to_utc() - now).num_seconds().max(0)).ok()
}

/// Returns the message of the innermost cause, because the outer ones only say that there is no answer.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    // A receiver can influence the text (a name in its certificate), and NUL cannot be stored.
    cause.to_string().replace('\0', "\u{fffd}").chars().take(300).collect()
}
