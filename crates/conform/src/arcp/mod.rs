//! Checks of ARCP 1.1 over WebSocket: sessions, jobs, subscriptions, leases.

mod jobs;
mod leases;
mod resuming;
mod sessions;
mod sharing;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::check::Check;
use crate::finding::{Finding, failed, skipped, text};
use crate::site::{Site, Who};
use crate::socket::Socket;

/// All checks.
pub(crate) const CHECKS: &[&[Check]] =
    &[sessions::CHECKS, resuming::CHECKS, jobs::CHECKS, sharing::CHECKS, leases::CHECKS];

/// Features of a client that knows the whole protocol (§6.2), but for credentials, which few servers have.
const FEATURES: [&str; 10] = [
    "heartbeat",
    "ack",
    "list_jobs",
    "subscribe",
    "lease_expires_at",
    "cost.budget",
    "model.use",
    "progress",
    "result_chunk",
    "agent_versions",
];

/// Returns the path of the WebSocket: `/arcp`, unless the URL has one.
fn path(site: &Site) -> &'static str {
    let has_path = site.base.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    if has_path { "" } else { "/arcp" }
}

/// Opens a WebSocket, which every server of the protocol has (§4).
pub(crate) async fn reach(site: &Site) -> Result<(), Finding> {
    Socket::open(site, path(site)).await.map(drop)
}

/// Returns an envelope (§5).
fn envelope(site: &Site, kind: &str, payload: &Value) -> Value {
    json!({ "arcp": "1.1", "id": format!("msg_{}", site.ulid()), "type": kind, "payload": payload })
}

/// Returns the payload of a client's first message.
fn hello(site: &Site, who: Who) -> Value {
    let token = site.agent(who).and_then(|agent| agent.key.clone()).unwrap_or_default();
    json!({
        "client": { "name": "conform", "version": "1.0.0" },
        "auth": { "scheme": "bearer", "token": token },
        "capabilities": { "encodings": ["json"], "features": FEATURES },
    })
}

/// A session.
struct Session<'a> {
    site: &'a Site,
    socket: Socket<'a>,
    id: String,
    welcome: Value,
    /// Frames with an `event_seq`, as they came.
    events: Vec<Value>,
}

impl<'a> Session<'a> {
    /// Opens a session of somebody.
    async fn open(site: &'a Site, who: Who) -> Result<Self, Finding> {
        if who == Who::Second {
            site.second_id()?;
        }
        site.needs_key()?;
        Self::with(site, &envelope(site, "session.hello", &hello(site, who))).await
    }

    /// Opens a session with this first message.
    async fn with(site: &'a Site, first: &Value) -> Result<Self, Finding> {
        let mut socket = Socket::open(site, path(site)).await?;
        socket.send(&first.to_string()).await?;
        let welcome = socket.next(Instant::now() + site.limit).await?;
        let welcome = welcome.ok_or_else(|| failed("`session.welcome`", "the connection was closed"))?;
        if welcome["type"] != json!("session.welcome") {
            return Err(failed("`session.welcome`", &welcome));
        }
        let id = text(&welcome, "/session_id")?;
        Ok(Self { site, socket, id, welcome, events: Vec::new() })
    }

    /// Skips the check unless the server offers a feature.
    fn needs(&self, feature: &str) -> Result<(), Finding> {
        let offered = &self.welcome["payload"]["capabilities"]["features"];
        let is_there = offered.as_array().into_iter().flatten().any(|one| one == feature);
        if is_there { Ok(()) } else { Err(skipped(format!("the server does not offer `{feature}`"))) }
    }

    /// Returns the agents of the server, each with its default version.
    fn agents(&self) -> Vec<(String, Option<String>)> {
        let agents = self.welcome["payload"]["capabilities"]["agents"].as_array().into_iter().flatten();
        let one = |agent: &Value| {
            let name = agent["name"].as_str().or(agent.as_str())?;
            Some((name.to_owned(), agent["default"].as_str().map(str::to_owned)))
        };
        agents.filter_map(one).collect()
    }

    /// Returns the agent that ends its jobs with a result at once.
    fn worker(&self) -> Result<String, Finding> {
        let agents = self.agents();
        let first =
            agents.iter().find(|(name, _)| name == "echo").or(agents.first()).map(|(name, _)| name.clone());
        let named = self.site.options.worker.clone();
        named.or(first).ok_or_else(|| skipped("the server names no agent: --worker"))
    }

    /// Returns the agent that works until it is cancelled.
    fn slow(&self) -> Result<String, Finding> {
        let is_there = self.agents().iter().any(|(name, _)| name == "slow");
        let named = self.site.options.slow.clone().or(is_there.then(|| "slow".to_owned()));
        named.ok_or_else(|| skipped("it needs an agent that works until it is cancelled: --slow-worker"))
    }

    /// Sends a message of the session, and returns its id.
    async fn send(&mut self, kind: &str, payload: &Value) -> Result<String, Finding> {
        self.send_with(kind, payload, &json!({})).await
    }

    /// Sends a message with further members of its envelope.
    async fn send_with(&mut self, kind: &str, payload: &Value, members: &Value) -> Result<String, Finding> {
        let mut message = envelope(self.site, kind, payload);
        message["session_id"] = json!(self.id);
        for (name, value) in members.as_object().into_iter().flatten() {
            message[name] = value.clone();
        }
        self.socket.send(&message.to_string()).await?;
        text(&message, "/id")
    }

    /// Returns the first frame that satisfies a condition.
    async fn until(&mut self, wanted: &str, is_it: impl Fn(&Value) -> bool) -> Result<Value, Finding> {
        self.within(self.site.limit, wanted, is_it).await
    }

    /// Returns the first frame that satisfies a condition, within a time limit. It answers pings meanwhile (§6.4).
    async fn within(
        &mut self,
        limit: Duration,
        wanted: &str,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<Value, Finding> {
        let end = Instant::now() + limit;
        loop {
            let frame = match self.socket.next(end).await {
                Ok(Some(frame)) => frame,
                Ok(None) => return Err(failed(wanted, "the connection was closed")),
                Err(_) => {
                    return Err(failed(wanted, format!("nothing of it within {} s", limit.as_secs_f32())));
                }
            };
            if frame.get("event_seq").is_some() {
                self.events.push(frame.clone());
            }
            if is_it(&frame) {
                return Ok(frame);
            }
            if frame["type"] == json!("session.ping") {
                let pong = json!({
                    "ping_nonce": frame["payload"]["nonce"], "received_at": crate::site::in_seconds(0),
                });
                self.send("session.pong", &pong).await?;
            }
        }
    }

    /// Sends a request, and returns its answer of this type.
    async fn ask(&mut self, kind: &str, payload: &Value, wanted: &str) -> Result<Value, Finding> {
        let id = self.send(kind, payload).await?;
        self.answer(&id, wanted).await
    }

    /// Returns the answer of this type to a request.
    async fn answer(&mut self, id: &str, wanted: &str) -> Result<Value, Finding> {
        let is_of =
            |frame: &Value| frame["payload"]["request_id"].as_str().is_none_or(|request| request == id);
        let is_answer =
            |frame: &Value| frame["type"] == json!(wanted) || frame["type"] == json!("session.error");
        let answer = self.until(&format!("`{wanted}`"), |frame| is_answer(frame) && is_of(frame)).await?;
        if answer["type"] != json!(wanted) {
            return Err(failed(format!("`{wanted}`"), &answer));
        }
        Ok(answer)
    }

    /// Sends a request that is refused with one of these codes (§12).
    async fn refused(&mut self, kind: &str, payload: &Value, codes: &[&str]) -> Result<Value, Finding> {
        self.send(kind, payload).await?;
        self.refusal(codes).await
    }

    /// Returns the refusal of the last request. Events of other jobs are passed over.
    async fn refusal(&mut self, codes: &[&str]) -> Result<Value, Finding> {
        let wanted = format!("an error with the code {}", codes.join(" or "));
        let is_end = |frame: &Value| {
            let kind = frame["type"].as_str().unwrap_or_default();
            let is_answer =
                matches!(kind, "job.accepted" | "job.subscribed" | "job.cancelled" | "session.jobs");
            is_answer || kind == "session.error" || kind == "job.error"
        };
        let answer = self.until(&wanted, is_end).await?;
        let code = answer["payload"]["code"].as_str().unwrap_or_default();
        if codes.contains(&code) { Ok(answer) } else { Err(failed(wanted, &answer)) }
    }

    /// Submits a job, and returns its `job.accepted`.
    async fn submit(&mut self, agent: &str, more: &Value) -> Result<Value, Finding> {
        let mut payload = json!({ "agent": agent, "input": { "text": "conform" } });
        for (name, value) in more.as_object().into_iter().flatten() {
            payload[name] = value.clone();
        }
        self.ask("job.submit", &payload, "job.accepted").await
    }

    /// Submits a job for the agent that ends its jobs, and returns the job's id.
    async fn echo(&mut self) -> Result<String, Finding> {
        let worker = self.worker()?;
        job_id(&self.submit(&worker, &json!({})).await?)
    }

    /// Returns the end of a job.
    async fn end(&mut self, job: &str) -> Result<Value, Finding> {
        let is_end =
            |frame: &Value| frame["type"] == json!("job.result") || frame["type"] == json!("job.error");
        // It may have come before the answer that named the job.
        if let Some(end) = self.events.iter().find(|frame| is_end(frame) && is_of(frame, job)) {
            return Ok(end.clone());
        }
        let limit = self.site.limit + Duration::from_secs(5);
        self.within(limit, &format!("the end of {job}"), |frame| is_end(frame) && is_of(frame, job)).await
    }
}

/// Returns the id of an accepted job.
fn job_id(accepted: &Value) -> Result<String, Finding> {
    text(accepted, "/payload/job_id").or_else(|_| text(accepted, "/job_id"))
}

/// Whether a frame belongs to a job.
fn is_of(frame: &Value, job: &str) -> bool {
    frame["job_id"] == json!(job)
}
