//! Identifies the caller of a request: the key in `X-API-Key` or `Authorization: Bearer`, or an access token that stands
//! for one, the agent in `X-Agent-ID`, and the client's dialect. Also enforces the key's rate limit, because the key is
//! known here, and the quotas of its principal.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use actix_web::dev::Payload as Incoming;
use actix_web::{FromRequest, HttpMessage as _, HttpRequest, web};
use entente_domain::identity::epochs::{self, Epoch};
use entente_domain::identity::fences::{CLAIM_HEADER, Fence, LEASE_HEADER};
use entente_domain::identity::keys::Dialect;
use entente_domain::rate::{Allowance, Verdict};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::traces::Trace;
use entente_kernel::identity::authentication;
use entente_kernel::identity::quotas::Exceeded;
use entente_kernel::{Caller, Grant, OpenRequest};
use entente_runtime::fences;

use super::bodies;
use super::error::Problem;
use super::wire::recognise;
use crate::HttpState;

/// An authenticated caller.
#[derive(Debug)]
pub struct Asker {
    /// The key and the agent that it acts as.
    pub caller: Caller,
    /// The dialect to respond in.
    pub dialect: Dialect,
}

/// The values of the rate limit headers, which `middleware` puts on the response.
#[derive(Debug, Clone, Copy)]
pub struct RateNote {
    /// Requests per second.
    pub limit: u32,
    /// Requests that the key may still make immediately.
    pub remaining: u32,
    /// Seconds until more may be made.
    pub reset: u32,
}

impl FromRequest for Asker {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, _: &mut Incoming) -> Self::Future {
        let request = request.clone();
        Box::pin(async move { ask(&request).await })
    }
}

async fn ask(request: &HttpRequest) -> Result<Asker, Problem> {
    let api = state_of::<HttpState>(request)?;
    let Some(key) = presented(request) else {
        return Err(Refusal::new(Code::Unauthenticated, "Invalid or missing API key").into());
    };
    let grant = authentication::of_request(&api.ctx, key, address(request, api)).await?;
    admit(api, &grant, request)?;
    let open = begin(api, &grant, request)?;
    let agent = match request.headers().get("x-agent-id") {
        None => None,
        Some(value) => Some(value.to_str().map_err(|_no_text| {
            Refusal::new(Code::InvalidParameter, "`X-Agent-ID` must be printable ASCII text.")
        })?),
    };
    let dialect = grant.key.dialect.unwrap_or_else(|| recognise(request));
    // For `middleware`, which writes refusals and counts large responses.
    request.extensions_mut().insert(dialect);
    request.extensions_mut().insert(Arc::clone(&grant));
    let caller = Caller::new(grant, agent.filter(|agent| !agent.is_empty()), api.ctx.now())?;
    fence(request, &caller, api)?;
    let caller = caller.traced(request.extensions().get::<Trace>().copied()).within(open);
    Ok(Asker { caller, dialect })
}

/// Sets the fences of the request's writes: the session of the agent that they belong to (`Entente-Epoch`), which has
/// to be named where the agent is strict, a lease and a claim. The transactions of the request require them.
fn fence(request: &HttpRequest, caller: &Caller, api: &HttpState) -> Result<(), Problem> {
    if request.method().is_safe() {
        return Ok(());
    }
    let agent = caller.agent.as_str();
    if let Some(text) = named(request, epochs::HEADER)? {
        fences::add(Fence::Epoch(Epoch::read(agent, text)?));
    }
    if let Some(text) = named(request, LEASE_HEADER)? {
        fences::add(Fence::lease(agent, text)?);
    }
    if let Some(text) = named(request, CLAIM_HEADER)? {
        fences::add(Fence::claim(agent, text)?);
    }
    // A process opens its session before it has an epoch.
    let opens = request.match_pattern().is_some_and(|path| path.ends_with("/agents/{agent_id}/sessions"));
    let objection = api.ctx.strict_agents.objection(&caller.agent).filter(|_| !opens);
    objection.map_or(Ok(()), |refusal| Err(refusal.into()))
}

/// Returns the value of a header that a request may have once: of two, one would not be required.
fn named<'a>(request: &'a HttpRequest, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut values = request.headers().get_all(name);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::new(Code::InvalidParameter, format!("A request may have `{name}` only once.")));
    }
    Ok(Some(value.to_str().unwrap_or_default()))
}

/// Returns the client's network address, by which its authentication attempts are counted.
pub fn address(request: &HttpRequest, api: &HttpState) -> Option<IpAddr> {
    let peer = request.peer_addr().map(|address| address.ip());
    if !api.limits.tls_terminated {
        return peer;
    }
    // The last entry is the one that the proxy itself added, on the same header line or on its own.
    let lines = request.headers().get_all("x-forwarded-for");
    let told = lines.last().and_then(|value| value.to_str().ok());
    told.and_then(|list| read(list.rsplit(',').next()?.trim())).or(peer)
}

/// Parses an address as proxies write it, with or without a port.
fn read(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip())).ok()
}

/// Returns a state that handlers share: the HTTP layer's or a protocol's.
///
/// # Errors
/// The application was assembled without it.
pub fn state_of<S: 'static>(request: &HttpRequest) -> Result<&Arc<S>, Problem> {
    let state = request.app_data::<web::Data<S>>();
    state
        .map(web::Data::get_arc_ref)
        .ok_or_else(|| Problem::internal("the application lacks a state of its handlers"))
}

trait ArcRef<T> {
    fn get_arc_ref(&self) -> &Arc<T>;
}

impl<T> ArcRef<T> for web::Data<T> {
    fn get_arc_ref(&self) -> &Arc<T> {
        self
    }
}

/// Returns the request's API key. Both headers are equivalent (OI-3.2.1).
fn presented(request: &HttpRequest) -> Option<&str> {
    let text = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    // An empty header counts as absent.
    let header = |name: &str| text(name).filter(|value| !value.is_empty());
    let bearer = || {
        let (scheme, key) = header("authorization")?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    };
    header("x-api-key").or_else(bearer).filter(|key| !key.is_empty())
}

/// Counts a request, its body included, as in progress for its key and its principal, until `middleware` has the response.
///
/// # Errors
/// The key, its principal or one of its teams has too many requests in progress, or has sent too many bytes of late.
pub fn begin(
    api: &HttpState,
    grant: &Arc<Grant>,
    request: &HttpRequest,
) -> Result<Arc<OpenRequest>, Problem> {
    let quotas = &api.ctx.quotas;
    let open = grant.open_request(api.limits.max_requests_per_key, quotas);
    let open = Arc::new(open.map_err(|exceeded| beyond(request, *exceeded))?);
    request.extensions_mut().insert(Arc::clone(&open));
    let taken = bodies::count(request, api.limits.max_body_bytes, grant, quotas);
    taken.map_err(|exceeded| beyond(request, *exceeded))?;
    Ok(open)
}

/// Returns the refusal of a request beyond a quota, and records the limit for `middleware`.
fn beyond(request: &HttpRequest, exceeded: Exceeded) -> Problem {
    let Exceeded { refusal, limit } = exceeded;
    if let Some(limit) = limit {
        let (limit, reset) =
            (u32::try_from(limit).unwrap_or(u32::MAX), refusal.retry_after_seconds.unwrap_or(1));
        request.extensions_mut().insert(RateNote { limit, remaining: 0, reset });
    }
    refusal.into()
}

/// Applies the key's rate limit and records the remaining allowance for `middleware`.
///
/// # Errors
/// [`Code::RateLimited`].
pub fn admit(api: &HttpState, grant: &Grant, request: &HttpRequest) -> Result<(), Problem> {
    let since_start = Instant::now().duration_since(api.started);
    match grant.admit(api.limits.rate_per_second, since_start) {
        None => Ok(()),
        Some((Allowance { per_second, .. }, Verdict::Pass { remaining, .. })) => {
            request.extensions_mut().insert(RateNote { limit: per_second, remaining, reset: 1 });
            Ok(())
        }
        Some((Allowance { per_second, .. }, Verdict::Wait { nanos })) => {
            request.extensions_mut().insert(RateNote { limit: per_second, remaining: 0, reset: 1 });
            let mut problem = Problem::from(Refusal::new(
                Code::RateLimited,
                format!(
                    "This key may make {per_second} requests a second. Wait as long as Retry-After says."
                ),
            ));
            problem.retry_after = Some(nanos.div_ceil(1_000_000_000).max(1));
            Err(problem)
        }
    }
}
