//! The door of LLM agents: the Model Context Protocol at `/mcp`, in both of its eras (2025-11-25 and before, 2026-07-28).
//!
//! Every tool is one deed, called with an agent's key like any request of REST. One file per noun lists its tools:
//! `whoami.rs`, `channels.rs`, `messages.rs`, `jobs.rs`, `work.rs`, `mail.rs`, `moments.rs` (asking: `asking.rs`), `events.rs`. `handler.rs` speaks the protocol,
//! `endpoint.rs` is what happens to every request on its way to it, `shapes.rs` says what tools take and give.
//!
//! There is no tool that resolves a decision: what a human decides is decided with the human's own key (binding moment
//! §11.4), and what stands here is called by agents.

mod asking;
mod bridge;
mod channels;
mod endpoint;
mod events;
mod handler;
mod jobs;
mod mail;
mod messages;
mod moments;
mod shapes;
mod whoami;
mod work;

use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use entente_domain::idempotency::Idempotency;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Caller, Ctx, StreamPermit};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub use self::endpoint::{Site, routes};
use crate::http::Doors;
use crate::http::body::parse;
use crate::http::error::Problem;
use crate::http::presence::Presence;

/// Seconds that a tool waits at the most: hosts give up on a call soon after.
const WAIT_SECONDS: u32 = 25;
/// Seconds that a question waits for its answer at the most.
const ASK_SECONDS: u32 = 50;

/// The member of a result's `_meta` that has what was wrong, for programs.
const PROBLEM: &str = "entente/problem";

/// One call of a tool.
struct Call {
    doors: Arc<Doors>,
    caller: Caller,
    /// Why an unsigned envelope is not taken from this connection, if it is not.
    objection: Option<Refusal>,
    /// The URL that people find this server at.
    base: String,
    /// Whether the host says that it can open a page for its person.
    opens_pages: bool,
    /// What the host brings back from such a page (`requestState`).
    brought_back: Option<String>,
    /// Whether whoever calls still waits for the answer.
    presence: Presence,
    /// The arguments as JSON.
    arguments: Vec<u8>,
}

impl Call {
    fn ctx(&self) -> &Ctx {
        &self.doors.ctx
    }

    /// The arguments, of the tool's own form.
    fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        parse(&self.arguments)
    }

    /// Who speaks.
    fn speaker(&self) -> Result<String, Refusal> {
        self.caller.speaker("X-Agent-ID", None, self.ctx().settings.strict)
    }

    /// The agent's claim that this call is the same as any other with its key.
    fn once(&self, key: Option<&str>, tool: &str) -> Result<Option<Idempotency>, Refusal> {
        key.map(|key| Idempotency::new(key, &format!("MCP {tool}"), &self.arguments)).transpose()
    }

    /// As [`Self::once`], however long the call waits, which is said in `patience`: that is no part of what it asks.
    fn once_besides(
        &self,
        key: Option<&str>,
        tool: &str,
        patience: &str,
    ) -> Result<Option<Idempotency>, Problem> {
        let mut arguments: Map<String, Value> = self.read()?;
        arguments.remove(patience);
        let arguments = Value::Object(arguments).to_string();
        let claim = |key| Idempotency::new(key, &format!("MCP {tool}"), arguments.as_bytes());
        Ok(key.map(claim).transpose()?)
    }

    /// Takes one of the key's places for those who wait.
    fn waits(&self) -> Result<StreamPermit, Refusal> {
        self.caller.waits(self.doors.limits.max_streams_per_key)
    }

    /// A place for a wait of so many seconds; none for no wait.
    fn waits_for(&self, patience: u32) -> Result<Option<StreamPermit>, Refusal> {
        (patience > 0).then(|| self.waits()).transpose()
    }

    /// Waits for something unless the server stops first, or whoever calls hangs up.
    async fn unless_stopping<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        self.presence.over().run_until_cancelled(what).await
    }

    /// Requires that an envelope that nobody signed came over a connection that stands in for a signature (AEE §11.3).
    fn require_private(&self, envelope: &[u8]) -> Result<(), Refusal> {
        let signed = serde_json::from_slice::<Value>(envelope)
            .is_ok_and(|envelope| envelope.get("sig").is_some_and(|sig| !sig.is_null()));
        match &self.objection {
            Some(objection) if !signed => Err(objection.clone()),
            _ => Ok(()),
        }
    }
}

/// A whole number within bounds, or its default.
fn within(name: &str, said: Option<u32>, usual: u32, least: u32, most: u32) -> Result<u32, Refusal> {
    let number = said.unwrap_or(usual);
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    let message = format!("`{name}` must be a whole number from {least} to {most}.");
    Err(Refusal::field(Code::InvalidRequest, name, "range", message))
}

/// What a tool answers with.
struct Answer {
    /// For a model that sees nothing else: what happened, and the whole of it.
    text: String,
    /// The same for programs.
    body: Value,
    /// The page that the host is to open first; the call is then repeated.
    page: Option<Page>,
}

/// A page for the host's person.
struct Page {
    url: String,
    /// What it is about.
    message: String,
    /// What the host brings back.
    brought_back: String,
}

impl Answer {
    /// A sentence that says what happened, and what it is about as JSON.
    fn new(summary: impl Into<String>, body: &impl Serialize) -> Said {
        let body = serde_json::to_value(body).map_err(|e| Problem::internal(&e.to_string()))?;
        let mut text = summary.into();
        let _never_fails = write!(text, "\n{body}");
        Ok(Self { text, body, page: None })
    }

    /// The result of a call.
    fn result(&self) -> Value {
        if let Some(Page { url, message, brought_back }) = &self.page {
            let params = json!({ "mode": "url", "message": message, "url": url, "elicitationId": self.body["moment_id"] });
            return json!({
                "resultType": "input_required", "requestState": brought_back,
                "inputRequests": { "decision": { "method": "elicitation/create", "params": params } },
            });
        }
        json!({ "content": [{ "type": "text", "text": self.text }], "structuredContent": self.body, "isError": false, "resultType": "complete" })
    }
}

/// The result of a call that was refused: a model reads what was wrong and what to do next.
fn refused(problem: &Problem) -> Value {
    let body = problem.body();
    let mut text = format!("{}: {}", body.code, body.message);
    for fault in &body.errors {
        let place = fault.loc.iter().skip(1).map(String::as_str).collect::<Vec<_>>().join(".");
        let _never_fails = write!(text, "\n- {place}: {}", fault.msg);
    }
    if let Some(seconds) = problem.retry_after {
        let _never_fails = write!(text, "\nTry again after {seconds} second(s).");
    }
    json!({
        "content": [{ "type": "text", "text": text }], "isError": true, "resultType": "complete",
        "_meta": { PROBLEM: serde_json::to_value(&body).unwrap_or_default() },
    })
}

/// What came of a call.
type Said = Result<Answer, Problem>;

/// A call that is under way.
type Run = Pin<Box<dyn Future<Output = Said> + Send>>;

/// What a tool does to what is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing.
    Reads,
    /// It adds something.
    Adds,
    /// It ends something.
    Ends,
}

/// What a host may take for granted of a tool. None of them reaches beyond this server.
#[derive(Debug, Clone, Copy)]
struct Hints {
    effect: Effect,
    /// Whether again is the same.
    idempotent: bool,
    /// Whether its result may have a binding moment.
    emits_moments: bool,
}

impl Hints {
    fn reads() -> Self {
        Self { effect: Effect::Reads, idempotent: true, emits_moments: false }
    }

    fn adds() -> Self {
        Self { effect: Effect::Adds, idempotent: false, emits_moments: false }
    }

    /// It marks what it read, if it is told to.
    fn marks() -> Self {
        Self { idempotent: true, ..Self::adds() }
    }

    fn ends() -> Self {
        Self { effect: Effect::Ends, idempotent: true, emits_moments: false }
    }
}

/// A tool.
struct Tool {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    takes: Value,
    gives: Value,
    hints: Hints,
    run: fn(Call) -> Run,
}

impl Tool {
    /// As it is listed.
    fn listed(&self) -> Value {
        let Hints { effect, idempotent, emits_moments } = self.hints;
        let (read_only, destructive) = (effect == Effect::Reads, effect == Effect::Ends);
        let mut tool = json!({
            "name": self.name, "title": self.title, "description": self.about,
            "inputSchema": self.takes, "outputSchema": self.gives,
            "annotations": {
                "title": self.title, "readOnlyHint": read_only, "destructiveHint": destructive,
                "idempotentHint": idempotent, "openWorldHint": false,
            },
        });
        if emits_moments {
            tool["_meta"] = json!({ EMITS: true });
        }
        tool
    }
}

/// What a tool is marked with whose result may have a binding moment (§7.2), in `_meta` and, by `endpoint.rs`, in its
/// annotations.
const EMITS: &str = "emits_binding_moment";

/// Every tool, in the order of their names.
fn all() -> Vec<Tool> {
    let mut tools: Vec<Tool> = whoami::tools()
        .into_iter()
        .chain(channels::tools())
        .chain(messages::tools())
        .chain(jobs::tools())
        .chain(work::tools())
        .chain(mail::tools())
        .chain(moments::tools())
        .chain(events::tools())
        .collect();
    tools.sort_by_key(|tool| tool.name);
    tools
}
