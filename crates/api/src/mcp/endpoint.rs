//! Middleware around the MCP protocol: refuses requests of foreign web pages, requires a key as on every
//! request, and places a binding moment in a response where the specification requires it (§7.1).

use actix_web::body::{BoxBody, to_bytes};
use actix_web::http::Method;
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CONTENT_TYPE, HeaderValue, VARY,
};
use actix_web::{HttpRequest, HttpResponse, ResponseError as _, web};
use bytes::Bytes;
use entente_aee_api::transport::require_private;
use entente_domain::canonical::{inexact, numbers};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::Raw;
use entente_http::caller::Asker;
use entente_http::error::{Problem, Reply};
use entente_http::presence::Presence;
use entente_http::site::host;
use entente_runtime::fences;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::handler::{Visitor, protocol};
use super::resources::subscriptions::{SUBSCRIBED, Subscriptions};
use super::task_calls::{MOMENT, handshake};
use super::toolsets::Toolset;
use super::{EMITS, bridge, contains, task_calls};
use crate::ApiState;

/// Registers the routes of MCP.
pub fn routes(config: &mut web::ServiceConfig) {
    for path in ["/mcp", "/mcp/"] {
        config.route(path, web::post().to(speak));
        config.route(path, web::to(other));
    }
}

/// Handles a call, and allows the pages of a configured origin to read the response.
async fn speak(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Result<Asker, Problem>,
    presence: Presence,
    body: Raw,
) -> Reply {
    let named = api.site.named(&request);
    let said = spoken(request, api, asker, presence, body).await;
    let Some(origin) = named else { return said };
    Ok(readable(said.unwrap_or_else(|problem| problem.error_response()), origin))
}

/// Allows pages of this origin to read the response.
fn readable(mut response: HttpResponse, origin: HeaderValue) -> HttpResponse {
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    // The challenge of a 401 names the metadata of OAuth.
    response
        .headers_mut()
        .insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("WWW-Authenticate"));
    response.headers_mut().insert(VARY, HeaderValue::from_static("Origin"));
    response
}

/// Handles other methods: CORS preflights of configured origins; the rest get a 405.
async fn other(request: HttpRequest, api: web::Data<ApiState>) -> Reply {
    match api.site.named(&request) {
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

/// Headers that MCP clients send.
const HEADERS: &str = "Authorization, Content-Type, Accept, Last-Event-ID, MCP-Protocol-Version, Mcp-Method, Mcp-Name, \
                       Mcp-Session-Id, X-API-Key, X-Agent-ID, Entente-Epoch, traceparent";

/// Checks the request's host, origin and key, and passes it to the protocol.
async fn spoken(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Result<Asker, Problem>,
    presence: Presence,
    body: Raw,
) -> Reply {
    api.site.check(&request)?;
    let asker = asker.map_err(|problem| challenged(problem, &request, &api))?;
    if let Some(refused) = unreadable(&body.0) {
        return Ok(refused);
    }
    let visitor = Visitor {
        base: api.site.base(host(&request), api.limits.encrypted()),
        objection: require_private(&request, &api, Code::SignatureRequired).err(),
        toolset: Toolset::of_query(request.query_string())?,
        caller: asker.caller,
        fences: fences::current(),
        presence,
        api: api.into_inner(),
    };
    if let Some(answer) = handshake::answered(&visitor, &request, &body.0).await {
        return lift(answer).await;
    }
    let subscriptions = match Subscriptions::open(&visitor.api, &visitor.caller, &body.0).await? {
        Ok(subscriptions) => subscriptions,
        Err(count) => return Ok(too_many(&body.0, count)),
    };
    let protocol = protocol(visitor.api.limits.max_body_bytes, subscriptions);
    lift(bridge::pass(&protocol, &request, body.0, visitor).await?).await
}

/// Tells a client without a valid key where OAuth begins (RFC 9728 §5.1).
fn challenged(mut problem: Problem, request: &HttpRequest, api: &ApiState) -> Problem {
    let base = api.site.base(host(request), api.limits.encrypted());
    problem.resource_metadata = Some(format!("{base}/.well-known/oauth-protected-resource/mcp"));
    problem
}

/// Returns the JSON-RPC error for a subscription to too many resources.
fn too_many(body: &[u8], count: usize) -> HttpResponse {
    let id = serde_json::from_slice::<Value>(body).map_or(Value::Null, |request| request["id"].clone());
    let message =
        format!("{count} resources are too many: subscribe to at most {SUBSCRIBED} in one request.");
    let answer = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32602, "message": message } });
    HttpResponse::Ok().content_type("application/json").body(answer.to_string())
}

/// Returns the JSON-RPC error for a body that is not a message, where the library would report a wrong content type,
/// and for one with a number that the library would change (AEE-W-6.2).
fn unreadable(body: &[u8]) -> Option<HttpResponse> {
    let (code, message) = match serde_json::from_slice::<IgnoredAny>(body) {
        Err(fault) => (-32700, format!("Parse error: {fault}.")),
        Ok(_) if body.trim_ascii_start().starts_with(b"{") => {
            (-32602, format!("Invalid params: {}", inexact(numbers::rounded(body)?).message))
        }
        Ok(_) => (-32600, "Invalid request: send one message, an object; there are no batches.".to_owned()),
    };
    let id = serde_json::from_slice::<Value>(body).ok().and_then(|message| message.get("id").cloned());
    let answer = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
    Some(HttpResponse::BadRequest().content_type("application/json").body(answer.to_string()))
}

/// Refuses attempts to follow a stream or end a session.
fn only_post() -> Reply {
    let message = "MCP is spoken here with POST only: there are no sessions, and no streams to follow.";
    let mut problem = Problem::from(Refusal::new(Code::MethodNotAllowed, message));
    problem.allow = Some("POST".to_owned());
    Err(problem)
}

/// Copies the binding moment of a result to its top level (§7.1), marks tools that emit one (§7.2) or can be called as
/// tasks, and announces the tasks of 2025-11-25, because the library's types support none of this. Streams pass.
async fn lift(response: HttpResponse) -> Reply {
    let kind = response.headers().get(CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(bridge::STREAM)) {
        return Ok(response);
    }
    let (response, body) = response.into_parts();
    let bytes =
        to_bytes(body).await.map_err(|_broken| Problem::internal("an answer of MCP could not be read"))?;
    let bytes = if mentions(&bytes) { lifted(&bytes).map_or(bytes, Bytes::from) } else { bytes };
    Ok(response.set_body(BoxBody::new(bytes)))
}

fn mentions(bytes: &[u8]) -> bool {
    contains(bytes, b"binding_moment") || contains(bytes, b"protocolVersion")
}

fn lifted(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut answer: Value = serde_json::from_slice(bytes).ok()?;
    let result = answer.get_mut("result")?.as_object_mut()?;
    let moment = result.get("structuredContent").and_then(|content| content.get("binding_moment"));
    let begun = result.get("_meta").and_then(|meta| meta.get(MOMENT));
    let moment = moment.or(begun).cloned();
    if let Some(moment) = moment.filter(|moment| !moment.is_null()) {
        result.insert("binding_moment".to_owned(), moment);
    }
    for tool in result.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
        if tool.pointer("/_meta/emits_binding_moment") == Some(&Value::Bool(true)) {
            tool["annotations"][EMITS] = Value::Bool(true);
        }
        if tool["name"].as_str().is_some_and(|name| task_calls::TOOLS.contains(&name)) {
            tool["execution"] = json!({ "taskSupport": "optional" });
        }
    }
    if result.get("protocolVersion").is_some_and(|version| version == handshake::VERSION)
        && let Some(capabilities) = result.get_mut("capabilities").and_then(Value::as_object_mut)
    {
        let tasks = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
        capabilities.insert("tasks".to_owned(), tasks);
    }
    serde_json::to_vec(&answer).ok()
}
