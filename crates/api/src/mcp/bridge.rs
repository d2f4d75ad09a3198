//! Converts requests and responses between actix-web and rmcp, which use the types of two generations of the
//! crate `http`.
//!
//! The existing crate for this (rmcp-actix-web) would make all JSON objects of the program keep their
//! members' order (`serde_json/preserve_order`), which changes how removing a member behaves, and adds eleven
//! crates.

use actix_web::http::header::HeaderMap;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use entente_http::error::{Problem, Reply};
use http_body_util::{BodyExt as _, Full};
use serde::Deserialize;

use super::handler::{Protocol, Visitor};

/// Headers that the protocol reads; it receives no others, and hence no key.
const HEADERS: [&str; 7] =
    ["accept", "content-type", "host", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"];

/// Media type of a response that is no single object: only a subscription has one (`resources/subscriptions.rs`).
pub(super) const STREAM: &[u8] = b"text/event-stream";

/// Passes a request to the protocol.
///
/// # Errors
/// A request or response cannot be converted, which is a defect.
pub(super) async fn pass(protocol: &Protocol, request: &HttpRequest, body: Bytes, visitor: Visitor) -> Reply {
    let defect = |fault: http::Error| Problem::internal(&format!("a request to MCP: {fault}"));
    let mut bridged = http::Request::builder().method("POST").uri(request.path());
    for name in HEADERS {
        for value in request.headers().get_all(name) {
            bridged = bridged.header(name, value.as_bytes());
        }
    }
    if let Some(task) = unnamed_task(request.headers(), &body) {
        bridged = bridged.header("mcp-name", task);
    }
    let mut bridged = bridged.body(Full::new(body)).map_err(defect)?;
    bridged.extensions_mut().insert(visitor);
    let (parts, body) = protocol.handle(bridged).await.into_parts();
    let status = actix_web::http::StatusCode::from_u16(parts.status.as_u16())
        .map_err(|fault| Problem::internal(&fault.to_string()))?;
    let streams = parts.headers.get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(STREAM));
    let mut response = HttpResponse::build(status);
    for (name, value) in &parts.headers {
        response.append_header((name.as_str(), value.as_bytes()));
    }
    if streams {
        return Ok(response.streaming(body.into_data_stream()));
    }
    let Ok(body) = body.collect().await;
    Ok(response.body(body.to_bytes()))
}

/// Returns the task of a request whose client has not repeated it in `Mcp-Name`.
///
/// The header tells a proxy where the task's state is (SEP-2663), and here every server has it. `FastMCP`'s client never
/// sends it, so the missing one is filled in (MCP-W-10.6); another task's is refused like everywhere.
fn unnamed_task(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Asked {
        params: Named,
    }
    #[derive(Deserialize)]
    struct Named {
        #[serde(rename = "taskId")]
        task: String,
    }
    let method = headers.get("mcp-method")?.to_str().ok()?;
    if headers.contains_key("mcp-name") || !method.starts_with("tasks/") {
        return None;
    }
    let asked: Asked = serde_json::from_slice(body).ok()?;
    let is_plain = asked.params.task.bytes().all(|byte| byte.is_ascii_graphic());
    Some(asked.params.task).filter(|_| is_plain)
}
