//! Checks of MCP over streamable HTTP, in the revisions that open with `initialize` (2025-06-18, as most servers speak).

mod features;
mod transport;

use std::time::Duration;

use serde_json::{Value, json};

use crate::check::Check;
use crate::finding::{Finding, failed, skipped};
use crate::site::{Answer, Request, Site, Who};
use crate::sse::parsed_events;

/// All checks.
pub(crate) const CHECKS: &[&[Check]] = &[transport::CHECKS, features::CHECKS];

/// The revision that the kit speaks.
pub(crate) const REVISION: &str = "2025-06-18";

/// Returns the path of the endpoint: `/mcp`, unless the URL has one.
fn path(site: &Site) -> &'static str {
    let has_path = site.base.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    if has_path { "" } else { "/mcp" }
}

/// Begins a POST of a message.
fn posting<'a>(site: &'a Site, message: &Value) -> Request<'a> {
    site.post(path(site), message).header("accept", "application/json, text/event-stream")
}

/// Returns a request.
fn request(id: impl Into<Value>, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

/// Returns the parameters of `initialize` in a revision.
fn hello(revision: &str) -> Value {
    let client = json!({ "name": "conform", "version": "1.0.0" });
    json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": client })
}

/// Returns the JSON-RPC response with this id in an answer, which is JSON or a stream of events.
fn response(answer: &Answer, id: &Value) -> Result<Value, Finding> {
    let is_it = |one: &Value| one["id"] == *id && (one.get("result").is_some() || one.get("error").is_some());
    let found = if answer.media.starts_with("text/event-stream") {
        parsed_events(&answer.text).into_iter().find(is_it)
    } else {
        Some(answer.body.clone()).filter(is_it)
    };
    let found = found.filter(|_| answer.status != 429);
    found.ok_or_else(|| answer.otherwise(&format!("a JSON-RPC response with the id {id}")))
}

/// A session after its initialization.
pub(crate) struct Session<'a> {
    site: &'a Site,
    /// The id that the server gave the session, if it gave one.
    id: Option<String>,
    /// The result of `initialize`.
    pub(crate) server: Value,
    revision: String,
}

impl<'a> Session<'a> {
    /// Initializes a session of the first agent.
    pub(crate) async fn open(site: &'a Site) -> Result<Self, Finding> {
        let answer = posting(site, &request(1, "initialize", &hello(REVISION))).send().await?;
        let (id, response) = (answer.session.clone(), response(&answer, &json!(1))?);
        let server = response["result"].clone();
        let Some(revision) = server["protocolVersion"].as_str().map(str::to_owned) else {
            return Err(failed("the result of `initialize`", &response));
        };
        let session = Self { site, id: Some(id).filter(|id| !id.is_empty()), server, revision };
        session.notify("notifications/initialized").await?;
        Ok(session)
    }

    /// Adds the session's headers.
    fn of<'b>(&self, request: Request<'b>) -> Request<'b> {
        let request = request.header("mcp-protocol-version", &self.revision);
        match &self.id {
            Some(id) => request.header("mcp-session-id", id),
            None => request,
        }
    }

    /// Sends a notification.
    async fn notify(&self, method: &str) -> Result<Answer, Finding> {
        let message = json!({ "jsonrpc": "2.0", "method": method });
        self.of(posting(self.site, &message)).send().await
    }

    /// Calls a method, and returns the whole response.
    pub(crate) async fn ask(&self, method: &str, params: &Value) -> Result<Value, Finding> {
        let request = self.of(posting(self.site, &request(7, method, params)));
        let answer = request.within(self.site.limit + Duration::from_secs(5)).send().await?;
        response(&answer, &json!(7))
    }

    /// Calls a method, and returns its result.
    pub(crate) async fn call(&self, method: &str, params: &Value) -> Result<Value, Finding> {
        let response = self.ask(method, params).await?;
        let result = response.get("result").cloned();
        result.ok_or_else(|| failed(format!("a result of `{method}`"), &response))
    }

    /// Calls a method that fails with one of these codes.
    async fn fails(&self, method: &str, params: &Value, codes: &[i64]) -> Result<(), Finding> {
        let response = self.ask(method, params).await?;
        let code = response["error"]["code"].as_i64();
        if code.is_some_and(|code| codes.contains(&code)) && response["error"]["message"].is_string() {
            return Ok(());
        }
        let wanted: Vec<String> = codes.iter().map(i64::to_string).collect();
        Err(failed(format!("the error {}", wanted.join(" or ")), &response))
    }

    /// Skips the check unless the server has a capability.
    fn needs(&self, capability: &str) -> Result<(), Finding> {
        if self.server["capabilities"].get(capability).is_some() {
            return Ok(());
        }
        Err(skipped(format!("the server does not have the capability `{capability}`")))
    }

    /// Returns all tools, page by page.
    pub(crate) async fn tools(&self) -> Result<Vec<Value>, Finding> {
        self.needs("tools")?;
        let mut all = Vec::new();
        let mut params = json!({});
        for _ in 0..50 {
            let page = self.call("tools/list", &params).await?;
            all.extend(crate::finding::list(&page["tools"])?.iter().cloned());
            match page["nextCursor"].as_str() {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => return Ok(all),
            }
        }
        Err(failed("an end of the list of tools", "50 pages"))
    }
}

/// Skips a check of a server that is called without a key, or sends a request without one.
async fn without_key(site: &Site) -> Result<Answer, Finding> {
    site.needs_key()?;
    posting(site, &request(1, "initialize", &hello(REVISION))).by(Who::Nobody).send().await
}
