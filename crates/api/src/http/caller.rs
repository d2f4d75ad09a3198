//! Who asks, read from a request: the key in `X-API-Key` or `Authorization: Bearer`, the agent in `X-Agent-ID`, the
//! client's dialect. The rate of the key is judged here, because here is where it is known.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use actix_web::dev::Payload as Incoming;
use actix_web::{FromRequest, HttpMessage as _, HttpRequest, web};
use entente_domain::keys::Dialect;
use entente_domain::rate::{Allowance, Verdict};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::traces::Trace;
use entente_kernel::{Caller, Grant, OpenRequest, authentication};

use super::Doors;
use super::error::Problem;
use super::wire::recognise;

/// Whoever asks.
#[derive(Debug)]
pub struct Asker {
    /// Its key and the agent that it acts as.
    pub caller: Caller,
    /// How to write for it.
    pub dialect: Dialect,
}

/// What the rate headers say; the front door puts them on the response.
#[derive(Debug, Clone, Copy)]
pub struct RateNote {
    /// Requests per second.
    pub limit: u32,
    /// Requests that may follow at once.
    pub remaining: u32,
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
    let doors = doors(request)?;
    let Some(key) = presented(request) else {
        return Err(Refusal::new(Code::Unauthenticated, "Invalid or missing API key").into());
    };
    let grant = authentication::authenticate(&doors.ctx, key, address(request, doors)).await?;
    admit(doors, &grant, request)?;
    let open = begin(doors, &grant, request)?;
    let agent = match request.headers().get("x-agent-id") {
        None => None,
        Some(value) => Some(value.to_str().map_err(|_no_text| {
            Refusal::new(Code::InvalidParameter, "`X-Agent-ID` must be printable ASCII text.")
        })?),
    };
    let dialect = grant.key.dialect.unwrap_or_else(|| recognise(request));
    // For the front door, which writes refusals, and counts large answers.
    request.extensions_mut().insert(dialect);
    request.extensions_mut().insert(Arc::clone(&grant));
    let caller = Caller::new(grant, agent.filter(|agent| !agent.is_empty()), doors.ctx.now())?;
    let caller = caller.traced(request.extensions().get::<Trace>().copied()).within(open);
    Ok(Asker { caller, dialect })
}

/// Who asks, as far as the network tells: whose tries are counted together.
pub fn address(request: &HttpRequest, doors: &Doors) -> Option<IpAddr> {
    let peer = request.peer_addr().map(|address| address.ip());
    if !doors.limits.tls_terminated {
        return peer;
    }
    // What the proxy itself has put behind what it was told, on the same line or on one of its own.
    let lines = request.headers().get_all("x-forwarded-for");
    let told = lines.last().and_then(|value| value.to_str().ok());
    told.and_then(|list| read(list.rsplit(',').next()?.trim())).or(peer)
}

/// An address as proxies write it: alone, or with a port.
fn read(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip())).ok()
}

/// What every handler shares. Missing only if the application was put together wrongly.
pub fn doors(request: &HttpRequest) -> Result<&Arc<Doors>, Problem> {
    let doors = request.app_data::<web::Data<Doors>>();
    doors.map(web::Data::get_arc_ref).ok_or_else(|| Problem::internal("the application has no doors"))
}

trait ArcRef<T> {
    fn get_arc_ref(&self) -> &Arc<T>;
}

impl<T> ArcRef<T> for web::Data<T> {
    fn get_arc_ref(&self) -> &Arc<T> {
        self
    }
}

/// The key of a request. Both headers are equal (design §3).
fn presented(request: &HttpRequest) -> Option<&str> {
    let text = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    // An empty header is as good as none.
    let header = |name: &str| text(name).filter(|value| !value.is_empty());
    let bearer = || {
        let (scheme, key) = header("authorization")?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    };
    header("x-api-key").or_else(bearer).filter(|key| !key.is_empty())
}

/// Counts a request among those that its key has under way, its body included, until the front door has its answer.
///
/// # Errors
/// The key has too many.
pub fn begin(doors: &Doors, grant: &Arc<Grant>, request: &HttpRequest) -> Result<Arc<OpenRequest>, Problem> {
    let open = Arc::new(grant.open_request(doors.limits.max_requests_per_key)?);
    request.extensions_mut().insert(Arc::clone(&open));
    Ok(open)
}

/// Judges a key's rate, and notes what is left of it for the front door.
///
/// # Errors
/// [`Code::RateLimited`].
pub fn admit(doors: &Doors, grant: &Grant, request: &HttpRequest) -> Result<(), Problem> {
    let since_start = Instant::now().duration_since(doors.started);
    match grant.admit(doors.limits.rate_per_second, since_start) {
        None => Ok(()),
        Some((Allowance { per_second, .. }, Verdict::Pass { remaining, .. })) => {
            request.extensions_mut().insert(RateNote { limit: per_second, remaining });
            Ok(())
        }
        Some((Allowance { per_second, .. }, Verdict::Wait { nanos })) => {
            request.extensions_mut().insert(RateNote { limit: per_second, remaining: 0 });
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
