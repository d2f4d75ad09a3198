//! From actix-web to rmcp and back. The two speak of the same things in types of two generations of the crate `http`.
//!
//! The crate that does this (rmcp-actix-web) makes every JSON object of the whole program keep the order of its members
//! (`serde_json/preserve_order`), which changes what removing a member does, and brings eleven crates more.

use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};

use super::handler::{Protocol, Visitor};
use crate::http::error::{Problem, Reply};

/// Headers that the protocol reads. It sees no others, and with that no key.
const HEADERS: [&str; 7] =
    ["accept", "content-type", "host", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"];

/// Hands a request to the protocol.
///
/// # Errors
/// Neither side can say what the other did: a defect.
pub(super) async fn pass(protocol: &Protocol, request: &HttpRequest, body: Bytes, visitor: Visitor) -> Reply {
    let defect = |fault: http::Error| Problem::internal(&format!("a request to MCP: {fault}"));
    let mut bridged = http::Request::builder().method("POST").uri(request.path());
    for name in HEADERS {
        for value in request.headers().get_all(name) {
            bridged = bridged.header(name, value.as_bytes());
        }
    }
    let mut bridged = bridged.body(Full::new(body)).map_err(defect)?;
    bridged.extensions_mut().insert(visitor);
    let (parts, body) = protocol.handle(bridged).await.into_parts();
    let status = actix_web::http::StatusCode::from_u16(parts.status.as_u16())
        .map_err(|fault| Problem::internal(&fault.to_string()))?;
    let mut response = HttpResponse::build(status);
    for (name, value) in &parts.headers {
        response.append_header((name.as_str(), value.as_bytes()));
    }
    // Always the whole of it: answers are JSON, and nothing here sends one in pieces.
    let Ok(body) = body.collect().await;
    Ok(response.body(body.to_bytes()))
}
