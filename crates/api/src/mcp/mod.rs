//! Interface for LLM agents: the Model Context Protocol at `/mcp`, in both of its eras (2025-11-25 and
//! before, 2026-07-28).
//!
//! Every tool calls the operations that REST calls, with an agent's key like any REST request. There is one file of
//! tools per resource: `whoami.rs`, `directory.rs`, `intents.rs`, `channels.rs`, `messages.rs`, `tasks.rs`, `leases.rs`,
//! `costs.rs`, `memory.rs`, `jobs.rs`, `job_control.rs`, `claims.rs` and `work.rs` (running jobs), `mail.rs`, `moments.rs` (asking:
//! `asking.rs`), `events.rs`. `handler.rs` answers the protocol's requests, `endpoint.rs` is the middleware around it,
//! `shapes.rs` builds the schemas of tools, `arguments.rs` reads arguments and explains their faults, `cursors.rs` keeps
//! the positions of readers, `toolsets.rs` says which tools a host lists. `resources/` has intents and channels by URI, `task_calls/` calls of tools as tasks.
//!
//! No tool resolves a decision: a human decides with their own key (binding moment §11.4), and these tools
//! are called by agents.

mod arguments;
mod asking;
mod attention;
mod bridge;
mod channels;
mod claims;
mod costs;
mod cursors;
mod directory;
mod endpoint;
mod events;
mod handler;
mod intents;
mod job_control;
mod jobs;
mod leases;
mod mail;
mod memory;
mod messages;
mod moments;
mod resources;
mod shapes;
mod task_calls;
mod tasks;
mod toolsets;
mod whoami;
mod work;

use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use entente_bridges::Ctx;
use entente_domain::aee::envelopes::is_signed;
use entente_domain::idempotency::Idempotency;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Caller, StreamPermit};
use rmcp::model::ErrorData;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub use self::endpoint::routes;
use crate::ApiState;
use entente_http::body::parse;
use entente_http::error::Problem;
use entente_http::presence::Presence;

/// Maximum seconds that a tool waits: hosts abandon a call soon after.
const WAIT_SECONDS: u32 = 25;
/// Maximum seconds that `ask_agent` waits for its answer.
const ASK_SECONDS: u32 = 50;

/// Member of a result's `_meta` with the machine-readable error.
const PROBLEM: &str = "entente/problem";

/// A call of a tool.
struct Call {
    api: Arc<ApiState>,
    caller: Caller,
    /// The called tool.
    tool: &'static Tool,
    /// Refusal for an unsigned envelope, if this connection does not accept one.
    objection: Option<Refusal>,
    /// Public URL of this server, for people.
    base: String,
    /// Whether the host declares that it can open a page for its person.
    opens_pages: bool,
    /// State that the host returns from such a page (`requestState`).
    brought_back: Option<String>,
    /// Whether the client still waits for the response.
    presence: Presence,
    /// Whether the host waits for the result as a task.
    as_task: bool,
    /// Arguments as JSON.
    arguments: Vec<u8>,
}

impl Call {
    fn ctx(&self) -> &Ctx {
        &self.api.ctx
    }

    /// Parses the arguments into the tool's own type; a fault is explained by the tool's schema.
    fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        parse(&self.arguments).map_err(|fault| arguments::explained(self.tool, &self.arguments, fault))
    }

    /// Returns the agent that the call acts as.
    fn speaker(&self) -> Result<String, Refusal> {
        self.caller.speaker("X-Agent-ID", None, self.ctx().settings.strict)
    }

    /// Builds the call's idempotency claim from its key, tool and arguments.
    fn once(&self, key: Option<&str>, tool: &str) -> Result<Option<Idempotency>, Refusal> {
        key.map(|key| Idempotency::new(key, &format!("MCP {tool}"), &self.arguments)).transpose()
    }

    /// Builds the claim as [`Self::once`] does, but ignores the waiting time in the argument `patience`,
    /// which does not change the request.
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

    /// Takes one of the key's permits for waiting requests.
    fn waits(&self) -> Result<StreamPermit, Refusal> {
        self.caller.waits(self.api.limits.max_streams_per_key)
    }

    /// Takes a permit for a wait of this many seconds; none if it is zero.
    fn waits_for(&self, patience: u32) -> Result<Option<StreamPermit>, Refusal> {
        (patience > 0).then(|| self.waits()).transpose()
    }

    /// Awaits a future, unless the server stops or the client disconnects first.
    async fn unless_stopping<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        self.presence.over().run_until_cancelled(what).await
    }

    /// Requires that an unsigned envelope arrived over a connection that can replace a signature (AEE §11.3).
    fn require_private(&self, envelope: &[u8]) -> Result<(), Refusal> {
        // A signature that cannot be verified protects nothing on the way.
        let signed =
            serde_json::from_slice::<Map<String, Value>>(envelope).is_ok_and(|envelope| is_signed(&envelope));
        match &self.objection {
            Some(objection) if !signed => Err(objection.clone()),
            _ => Ok(()),
        }
    }
}

/// Returns a whole number within bounds, or its default.
fn within(name: &str, said: Option<u32>, usual: u32, least: u32, most: u32) -> Result<u32, Refusal> {
    let number = said.unwrap_or(usual);
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    let message = format!("`{name}` must be a whole number from {least} to {most}.");
    Err(Refusal::field(Code::InvalidRequest, name, "range", message))
}

/// Returns whether a body contains a word: a quick look that spares most bodies from being parsed again.
fn contains(body: &[u8], word: &[u8]) -> bool {
    body.windows(word.len()).any(|window| window == word)
}

/// Returns an argument that an action needs.
fn needed<T>(name: &str, said: Option<T>) -> Result<T, Refusal> {
    said.ok_or_else(|| {
        let message = format!("`{name}` is missing: this action needs it.");
        Refusal::field(Code::InvalidRequest, name, "missing", message)
    })
}

/// The answer of a tool.
struct Answer {
    /// Text for the model: a summary, and the complete result.
    text: String,
    /// The same result for programs.
    body: Value,
    /// A page that the host opens first; it then repeats the call.
    page: Option<PersonPage>,
}

/// A page for the host's person.
struct PersonPage {
    url: String,
    /// Message about the page.
    message: String,
    /// State that the host returns.
    brought_back: String,
}

impl Answer {
    /// Builds an answer from a summary and its result as JSON.
    fn new(summary: impl Into<String>, body: &impl Serialize) -> ToolResult {
        let body = serde_json::to_value(body).map_err(|e| Problem::internal(&e.to_string()))?;
        let mut text = summary.into();
        let _never_fails = write!(text, "\n{body}");
        Ok(Self { text, body, page: None })
    }

    /// Returns the protocol's result of the call.
    fn result(&self) -> Value {
        if let Some(PersonPage { url, message, brought_back }) = &self.page {
            let params = json!({ "mode": "url", "message": message, "url": url, "elicitationId": self.body["moment_id"] });
            return json!({
                "resultType": "input_required", "requestState": brought_back,
                "inputRequests": { "decision": { "method": "elicitation/create", "params": params } },
            });
        }
        json!({ "content": [{ "type": "text", "text": self.text }], "structuredContent": self.body, "isError": false, "resultType": "complete" })
    }
}

/// Returns the result of a refused call: the model reads the error, in terms of the tool's arguments, and how to
/// continue.
fn refused(tool: &Tool, problem: &Problem) -> Value {
    let body = arguments::renamed(tool, problem.body());
    let mut text = format!("{}: {}", body.code, body.message);
    for fault in body.errors.iter().filter(|fault| fault.msg != body.message) {
        let place = fault.loc.iter().skip(1).map(String::as_str).collect::<Vec<_>>().join(".");
        let _never_fails = write!(text, "\n- {place}: {}", fault.msg);
    }
    text.push_str(&arguments::hints(tool, &body));
    if let Some(seconds) = problem.retry_after {
        let _never_fails = write!(text, "\nTry again after {seconds} second(s).");
    }
    json!({
        "content": [{ "type": "text", "text": text }], "isError": true, "resultType": "complete",
        "_meta": { PROBLEM: serde_json::to_value(&body).unwrap_or_default() },
    })
}

/// Returns the protocol's error for a refused request that is no call of a tool, with the problem in `data`.
fn fault(problem: &Problem) -> ErrorData {
    let body = problem.body();
    let message = format!("{}: {}", body.code, body.message);
    let data = json!({ PROBLEM: serde_json::to_value(&body).unwrap_or_default() });
    match problem.code() {
        Code::Internal | Code::Unavailable => ErrorData::internal_error(message, Some(data)),
        _ => ErrorData::invalid_params(message, Some(data)),
    }
}

/// Outcome of a call.
type ToolResult = Result<Answer, Problem>;

/// A call in progress.
type Run = Pin<Box<dyn Future<Output = ToolResult> + Send>>;

/// Effect of a tool on the server's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Changes nothing.
    Reads,
    /// Adds something.
    Adds,
    /// Ends something.
    Ends,
}

/// Properties that a host may rely on; no tool reaches beyond this server.
#[derive(Debug, Clone, Copy)]
struct Hints {
    effect: Effect,
    /// Whether repeating a call has no further effect.
    idempotent: bool,
    /// Whether the result may contain a binding moment.
    emits_moments: bool,
}

impl Hints {
    fn reads() -> Self {
        Self { effect: Effect::Reads, idempotent: true, emits_moments: false }
    }

    fn adds() -> Self {
        Self { effect: Effect::Adds, idempotent: false, emits_moments: false }
    }

    /// Hints of a tool that can mark the entries that it reads.
    fn marks() -> Self {
        Self { idempotent: true, ..Self::adds() }
    }

    /// Hints of a tool whose actions can also replace or end something.
    fn changes() -> Self {
        Self { idempotent: false, ..Self::ends() }
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
    /// Arguments of a typical call.
    example: Value,
    gives: Value,
    hints: Hints,
    /// Names of the operation that the tool's arguments name otherwise, each with the argument.
    names: &'static [(&'static str, &'static str)],
    run: fn(Call) -> Run,
}

impl Tool {
    /// Returns the tool's entry in the list of tools.
    fn listed(&self) -> Value {
        let Hints { effect, idempotent, emits_moments } = self.hints;
        let (read_only, destructive) = (effect == Effect::Reads, effect == Effect::Ends);
        let mut takes = self.takes.clone();
        takes["examples"] = json!([self.example]);
        let mut gives = self.gives.clone();
        shapes::strip(&mut gives);
        let mut tool = json!({
            "name": self.name, "title": self.title, "description": self.about,
            "inputSchema": takes, "outputSchema": gives,
            "annotations": {
                "readOnlyHint": read_only, "destructiveHint": destructive,
                "idempotentHint": idempotent, "openWorldHint": false,
            },
        });
        if emits_moments {
            tool["_meta"] = json!({ EMITS: true });
        }
        tool
    }
}

/// Mark of tools whose result may contain a binding moment (§7.2), in `_meta` and, by `endpoint.rs`, in the
/// annotations.
const EMITS: &str = "emits_binding_moment";

/// Returns the tools of the core.
fn core() -> Vec<Tool> {
    whoami::tools()
        .into_iter()
        .chain(directory::tools())
        .chain(intents::tools())
        .chain(channels::tools())
        .chain(messages::tools())
        .chain(tasks::tools())
        .chain(leases::tools())
        .chain(costs::tools())
        .chain(memory::tools())
        .chain(jobs::tools())
        .chain(job_control::tools())
        .chain(claims::tools())
        .chain(work::tools())
        .chain(mail::tools())
        .chain(moments::tools())
        .chain(events::tools())
        .collect()
}
