//! Lifecycle, JSON-RPC and transport (MCP 2025-06-18, "Lifecycle", "Transports").

use serde_json::json;

use super::{REVISION, Session, hello, path, posting, request, response, without_key};
use crate::check::checks;
use crate::finding::{Outcome, ensure, same, skipped, text};
use crate::site::Site;
use crate::sse::Stream;

checks! {
    "MCP Lifecycle", Must, initialize_is_answered, "`initialize` is answered with a revision, capabilities and the server's name and version.";
    "MCP Lifecycle", Must, known_revision_is_kept, "A revision that the server supports is the one that it answers.";
    "MCP Lifecycle", Must, unknown_revision_is_negotiated, "An unknown revision is answered with one that the server supports, or an error.";
    "MCP Base Protocol", Must, ids_come_back, "A response has the id of its request, a text or a number.";
    "MCP Base Protocol", Must, unknown_method_fails, "An unknown method is the error -32601.";
    "MCP Base Protocol", Must, broken_json_fails, "A body that is no JSON is refused.";
    "MCP Base Protocol", Must, non_request_fails, "A body that is no JSON-RPC message is refused.";
    "MCP Ping", Must, ping_is_answered, "`ping` is answered with an empty result.";
    "MCP Transports", Must, notification_is_202, "A notification is answered with 202 and no body.";
    "MCP Transports", Must, answer_is_json_or_stream, "A request is answered with JSON or a stream of events.";
    "MCP Transports", Must, get_is_a_stream_or_405, "GET is a stream of events, or 405.";
    "MCP Transports", Must, foreign_origin_is_refused, "A request of a page from elsewhere is refused (`Origin`).";
    "MCP Transports", Must, unknown_version_header_is_400, "An unsupported `MCP-Protocol-Version` is 400.";
    "MCP Session Management", Must, session_id_is_visible_ascii, "The id of a session has visible ASCII characters only.";
    "MCP Session Management", Must, unknown_session_is_404, "A session that is not there is 404.";
    "MCP Session Management", Should, missing_session_is_400, "A request without its session's id is 400.";
    "MCP Session Management", May, session_is_deleted, "DELETE ends a session, or is 405.";
    "MCP Authorization", Must, key_is_needed, "A server with keys answers 401 to a request without one.";
}

async fn initialize_is_answered(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    text(&session.server, "/serverInfo/name")?;
    text(&session.server, "/serverInfo/version")?;
    ensure(session.server["capabilities"].is_object(), "`capabilities` that are an object", &session.server)
}

async fn known_revision_is_kept(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    same(&session.server, "/protocolVersion", REVISION)
}

async fn unknown_revision_is_negotiated(site: &Site) -> Outcome {
    let answer = posting(site, &request(1, "initialize", &hello("1900-01-01"))).send().await?;
    let response = response(&answer, &json!(1))?;
    let other = response["result"]["protocolVersion"].as_str().is_some_and(|version| version != "1900-01-01");
    let wanted = "another revision, or an error";
    ensure(other || response["error"]["code"].is_i64(), wanted, &response)
}

async fn ids_come_back(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    for id in [json!("a text"), json!(4_711)] {
        let answer = session.of(posting(site, &request(id.clone(), "ping", &json!({})))).send().await?;
        same(&response(&answer, &id)?, "/jsonrpc", "2.0")?;
    }
    Ok(())
}

async fn unknown_method_fails(site: &Site) -> Outcome {
    Session::open(site).await?.fails("conform/unknown", &json!({}), &[-32601]).await
}

/// 415 is about the body: messages of the same media type are taken.
const BODY: &[u16] = &[415];

async fn broken_json_fails(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    let broken = "{\"jsonrpc\": \"2.0\", \"id\": 1,".to_owned();
    let request = site.request(reqwest::Method::POST, path(site)).raw("application/json", broken);
    let answer = session.of(request).header("accept", "application/json, text/event-stream").send().await?;
    if answer.body["error"]["code"].as_i64() == Some(-32700) { Ok(()) } else { answer.refused_or(BODY) }
}

async fn non_request_fails(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    let answer =
        session.of(posting(site, &json!({ "id": 1, "neither": "a request nor a response" }))).send().await?;
    if answer.body["error"]["code"].is_i64() { Ok(()) } else { answer.refused_or(BODY) }
}

async fn ping_is_answered(site: &Site) -> Outcome {
    let result = Session::open(site).await?.call("ping", &json!({})).await?;
    ensure(result.is_object(), "an empty result", result)
}

async fn notification_is_202(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    let answer = session.notify("notifications/initialized").await?;
    ensure(answer.status == 202 && answer.text.is_empty(), "202 without a body", answer.said())
}

async fn answer_is_json_or_stream(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    let answer = session.of(posting(site, &request(1, "ping", &json!({})))).send().await?;
    let media = answer.media.split(';').next().unwrap_or_default().trim();
    ensure(
        media == "application/json" || media == "text/event-stream",
        "`application/json` or `text/event-stream`",
        &answer.media,
    )
}

async fn get_is_a_stream_or_405(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    let stream = Stream::open(site, session.of(site.get(path(site)))).await?;
    let is_stream = stream.status == 200 && stream.media.starts_with("text/event-stream");
    ensure(
        is_stream || stream.status == 405,
        "a stream or 405",
        format!("{} {}", stream.status, stream.media),
    )
}

async fn foreign_origin_is_refused(site: &Site) -> Outcome {
    let message = request(1, "initialize", &hello(REVISION));
    posting(site, &message).send().await?.twin()?;
    posting(site, &message).header("origin", "http://evil.example").send().await?.refused()
}

async fn unknown_version_header_is_400(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    let request = posting(site, &request(1, "ping", &json!({}))).header("mcp-protocol-version", "1900-01-01");
    let request = match &session.id {
        Some(id) => request.header("mcp-session-id", id),
        None => request,
    };
    request.send().await?.is(&[400]).map(drop)
}

async fn session_id_is_visible_ascii(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    let Some(id) = session.id else { return Err(skipped("the server has no sessions")) };
    ensure(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "visible ASCII", id)
}

async fn unknown_session_is_404(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    if session.id.is_none() {
        return Err(skipped("the server has no sessions"));
    }
    let request =
        posting(site, &request(1, "ping", &json!({}))).header("mcp-session-id", "conform-knows-none");
    request.header("mcp-protocol-version", REVISION).send().await?.is(&[404]).map(drop)
}

async fn missing_session_is_400(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    if session.id.is_none() {
        return Err(skipped("the server has no sessions"));
    }
    let request = posting(site, &request(1, "ping", &json!({}))).header("mcp-protocol-version", REVISION);
    request.send().await?.is(&[400]).map(drop)
}

async fn session_is_deleted(site: &Site) -> Outcome {
    let session = Session::open(site).await?;
    if session.id.is_none() {
        return Err(skipped("the server has no sessions"));
    }
    let gone = session.of(site.request(reqwest::Method::DELETE, path(site))).send().await?;
    if gone.status == 405 {
        return Ok(());
    }
    gone.is(&[200, 202, 204])?;
    session.of(posting(site, &request(1, "ping", &json!({})))).send().await?.is(&[404]).map(drop)
}

async fn key_is_needed(site: &Site) -> Outcome {
    without_key(site).await?.is(&[401]).map(drop)
}
