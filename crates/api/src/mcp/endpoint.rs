//! What happens to a request on its way to the protocol and back: it must not come from somebody else's page, it brings a
//! key like every request, and a binding moment in its answer is put where the memo wants it (§7.1).

use std::net::{Ipv4Addr, Ipv6Addr};

use actix_web::body::{BoxBody, to_bytes};
use actix_web::http::Method;
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, HOST, HeaderName, HeaderValue, ORIGIN, VARY,
};
use actix_web::{HttpRequest, HttpResponse, ResponseError as _, web};
use bytes::Bytes;
use entente_domain::refusal::{Code, Refusal};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::handler::{Visitor, protocol};
use super::{EMITS, bridge};
use crate::http::Doors;
use crate::http::body::Raw;
use crate::http::caller::Asker;
use crate::http::error::{Problem, Reply};
use crate::http::presence::Presence;
use crate::http::transport::require_private;

/// Where this server stands for those outside, and from where it may be called.
#[derive(Debug, Clone, Default)]
pub struct Site {
    /// Its own URL, without a slash at the end.
    url: Option<String>,
    /// Names under which it is called, besides its own; `*` for any.
    hosts: Vec<String>,
    /// Pages of others that may call it.
    origins: Vec<String>,
}

impl Site {
    /// A site with its own URL, further names, and pages of others that may call it.
    #[must_use]
    pub fn new(url: Option<String>, hosts: Vec<String>, origins: Vec<String>) -> Self {
        let url = url.map(|url| url.trim_end_matches('/').to_lowercase());
        let origins = origins.into_iter().map(|origin| origin.trim_end_matches('/').to_owned()).collect();
        Self { url, hosts, origins }
    }

    /// The scheme and authority of a URL.
    #[must_use]
    pub fn origin(url: &str) -> Option<&str> {
        let (scheme, rest) = url.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next().filter(|authority| !authority.is_empty())?;
        matches!(scheme, "http" | "https").then(|| &url[..scheme.len() + 3 + authority.len()])
    }

    /// The URL that somebody who called `host` finds this server at.
    pub(super) fn base(&self, host: &str, tls: bool) -> String {
        let scheme = if tls { "https" } else { "http" };
        self.url.clone().unwrap_or_else(|| format!("{scheme}://{host}"))
    }

    /// Whether a request to this name is meant for this server. A page whose name was pointed at this machine (DNS
    /// rebinding) sends its own; addresses cannot be pointed elsewhere.
    fn is_called(&self, host: &str) -> bool {
        let host = host.to_lowercase();
        let name = name(&host);
        let own = self.url.as_deref().and_then(|url| url.split_once("://")).map(|(_, authority)| authority);
        name == "localhost"
            || name.parse::<Ipv4Addr>().is_ok()
            || name.trim_matches(['[', ']']).parse::<Ipv6Addr>().is_ok()
            || own.is_some_and(|own| own == host || crate::mcp::endpoint::name(own) == name)
            || self.hosts.iter().any(|known| known == "*" || *known == host || known == name)
    }

    /// Whether a page may call: one of this server's own, or one that the operator named.
    fn lets_in(&self, origin: &str, host: &str) -> bool {
        let origin = origin.to_lowercase();
        let same = Self::origin(&origin).and_then(|origin| origin.split_once("://"));
        same.is_some_and(|(_, authority)| authority == host.to_lowercase())
            || self.url.as_deref() == Some(origin.as_str())
            || self.origins.contains(&origin)
    }

    /// The origin that a request comes from, when it is a page of others that the operator named: its browser has to be told
    /// that it may.
    fn named(&self, request: &HttpRequest) -> Option<HeaderValue> {
        let origin = request.headers().get(ORIGIN)?;
        let known = self.origins.contains(&origin.to_str().ok()?.to_lowercase());
        known.then(|| origin.clone())
    }

    /// Requires that a request was meant for this server, by somebody who may send it.
    fn check(&self, request: &HttpRequest) -> Result<(), Refusal> {
        let host = text(request, HOST).unwrap_or_default();
        if !self.is_called(host) {
            let message = format!(
                "`{host}` is no name of this server. Its operator sets ENTENTE_PUBLIC_URL or ENTENTE_MCP_HOSTS."
            );
            return Err(Refusal::new(Code::Forbidden, message));
        }
        match text(request, ORIGIN) {
            Some(origin) if !self.lets_in(origin, host) => {
                let message = format!(
                    "Pages of {origin} may not call this. The operator names those that may in ENTENTE_MCP_ORIGINS."
                );
                Err(Refusal::new(Code::Forbidden, message))
            }
            _ => Ok(()),
        }
    }
}

/// A header; one that is no text is none that anybody is known by.
fn text(request: &HttpRequest, name: HeaderName) -> Option<&str> {
    request.headers().get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// An authority without its port.
fn name(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => authority,
    }
}

/// The routes of this door.
pub fn routes(config: &mut web::ServiceConfig) {
    for path in ["/mcp", "/mcp/"] {
        config.route(path, web::post().to(speak));
        config.route(path, web::to(other));
    }
}

/// Lets a request in, and lets the browser of a page that the operator named read the answer.
async fn speak(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Result<Asker, Problem>,
    presence: Presence,
    body: Raw,
) -> Reply {
    let named = doors.site.named(&request);
    let said = spoken(request, doors, asker, presence, body).await;
    let Some(origin) = named else { return said };
    Ok(readable(said.unwrap_or_else(|problem| problem.error_response()), origin))
}

/// Marks an answer as one that this origin's pages may read.
fn readable(mut response: HttpResponse, origin: HeaderValue) -> HttpResponse {
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    response.headers_mut().insert(VARY, HeaderValue::from_static("Origin"));
    response
}

/// What is not a call: a browser that asks first whether a page of others may, and what there is not.
async fn other(request: HttpRequest, doors: web::Data<Doors>) -> Reply {
    match doors.site.named(&request) {
        Some(origin) if request.method() == Method::OPTIONS => {
            let mut response = HttpResponse::NoContent();
            response.insert_header((ACCESS_CONTROL_ALLOW_METHODS, "POST"));
            response.insert_header((ACCESS_CONTROL_ALLOW_HEADERS, HEADERS));
            response.insert_header((ACCESS_CONTROL_MAX_AGE, "3600"));
            Ok(readable(response.finish(), origin))
        }
        _ => only_post(),
    }
}

/// The headers that clients of MCP send.
const HEADERS: &str = "Authorization, Content-Type, Accept, Last-Event-ID, MCP-Protocol-Version, Mcp-Method, Mcp-Name, \
                       Mcp-Session-Id, X-API-Key, X-Agent-ID, traceparent";

/// Lets a request in that brings a key and is of no page of somebody else's, and hands it to the protocol.
async fn spoken(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Result<Asker, Problem>,
    presence: Presence,
    body: Raw,
) -> Reply {
    doors.site.check(&request)?;
    let asker = asker?;
    if let Some(refused) = unreadable(&body.0) {
        return Ok(refused);
    }
    let host = text(&request, HOST).unwrap_or_default();
    let visitor = Visitor {
        base: doors.site.base(host, doors.limits.tls_terminated),
        objection: require_private(&request, &doors, Code::SignatureRequired).err(),
        caller: asker.caller,
        presence,
        doors: doors.into_inner(),
    };
    let protocol = protocol(visitor.doors.limits.max_body_bytes);
    lift(bridge::pass(&protocol, &request, body.0, visitor).await?).await
}

/// What is no message at all: the library would say that it has the wrong type of content.
fn unreadable(body: &[u8]) -> Option<HttpResponse> {
    let (code, message) = match serde_json::from_slice::<IgnoredAny>(body) {
        Err(fault) => (-32700, format!("Parse error: {fault}.")),
        Ok(_) if body.trim_ascii_start().starts_with(b"{") => return None,
        Ok(_) => (-32600, "Invalid request: send one message, an object; there are no batches.".to_owned()),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } });
    Some(HttpResponse::BadRequest().content_type("application/json").body(answer.to_string()))
}

/// What is said to those who would follow a stream or end a session.
fn only_post() -> Reply {
    let message = "MCP is spoken here with POST only: there are no sessions, and no streams to follow.";
    let mut problem = Problem::from(Refusal::new(Code::MethodNotAllowed, message));
    problem.allow = Some("POST".to_owned());
    Err(problem)
}

/// Puts the binding moment of a result at its top (§7.1) and marks tools that emit one (§7.2): the library's own types have
/// no room for either.
async fn lift(response: HttpResponse) -> Reply {
    let (response, body) = response.into_parts();
    let bytes =
        to_bytes(body).await.map_err(|_broken| Problem::internal("an answer of MCP could not be read"))?;
    let bytes = if mentions(&bytes) { lifted(&bytes).map_or(bytes, Bytes::from) } else { bytes };
    Ok(response.set_body(BoxBody::new(bytes)))
}

fn mentions(bytes: &[u8]) -> bool {
    let word = b"binding_moment";
    bytes.windows(word.len()).any(|window| window == word)
}

fn lifted(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut answer: Value = serde_json::from_slice(bytes).ok()?;
    let result = answer.get_mut("result")?.as_object_mut()?;
    let moment = result.get("structuredContent").and_then(|content| content.get("binding_moment")).cloned();
    if let Some(moment) = moment.filter(|moment| !moment.is_null()) {
        result.insert("binding_moment".to_owned(), moment);
    }
    for tool in result.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
        if tool.pointer("/_meta/emits_binding_moment") == Some(&Value::Bool(true)) {
            tool["annotations"][EMITS] = Value::Bool(true);
        }
    }
    serde_json::to_vec(&answer).ok()
}
