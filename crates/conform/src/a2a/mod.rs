//! Checks of A2A 1.0 over JSON-RPC: the agent card, messages, tasks, streams.

mod cards;
mod messages;
mod rpc;
mod tasks;

use reqwest::Url;
use serde_json::{Value, json};

use crate::check::Check;
use crate::finding::{Finding, failed, list, skipped, text};
use crate::site::{Answer, Request, Site, Who};

/// All checks.
pub(crate) const CHECKS: &[&[Check]] = &[cards::CHECKS, rpc::CHECKS, messages::CHECKS, tasks::CHECKS];

/// The path of an agent's card, under the URL of the agent (§8.2).
const CARD: &str = "/.well-known/agent-card.json";

/// States in which a task is over (§4.1.3).
const ENDS: [&str; 4] =
    ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"];

/// Error codes of A2A (§5.4).
const TASK_NOT_FOUND: i64 = -32001;
const TASK_NOT_CANCELABLE: i64 = -32002;
const PUSH_NOT_SUPPORTED: i64 = -32003;
const UNSUPPORTED: i64 = -32004;
const NO_EXTENDED_CARD: i64 = -32007;
const VERSION_NOT_SUPPORTED: i64 = -32009;

/// Returns the agent's card.
async fn card(site: &Site) -> Result<Value, Finding> {
    site.get(CARD).header("a2a-version", "1.0").send().await?.ok()
}

/// An agent, as its card describes it.
struct Agent<'a> {
    site: &'a Site,
    /// URL of its JSON-RPC interface.
    url: String,
    card: Value,
}

impl<'a> Agent<'a> {
    /// Reads the card, and finds the interface.
    async fn find(site: &'a Site) -> Result<Self, Finding> {
        let card = card(site).await?;
        let interfaces = list(&card["supportedInterfaces"])?;
        let is_ours = |one: &&Value| {
            one["protocolBinding"] == json!("JSONRPC")
                && one["protocolVersion"].as_str().is_none_or(|version| version.starts_with("1."))
        };
        let found = interfaces.iter().filter(is_ours).map(interface_url).collect::<Result<Vec<Url>, _>>()?;
        let Some(first) = found.first() else {
            return Err(skipped("the card has no interface of A2A 1.0 over JSON-RPC"));
        };
        let url = match found.iter().find(|url| site.is_own(url)) {
            Some(own) => own.clone(),
            None if site.options.rebase => under(site, first),
            // An agent may be anywhere, so that is no fault. But it is not the server that is to be checked.
            None => {
                return Err(skipped(format!(
                    "the card's interface is {first}, not on the server under test: --rebase"
                )));
            }
        };
        Ok(Self { site, url: url.into(), card })
    }

    /// Whether the card has a capability.
    fn can(&self, capability: &str) -> bool {
        self.card["capabilities"][capability] == json!(true)
    }

    /// Begins a call.
    fn calling(&self, method: &str, params: &Value) -> Request<'a> {
        let body = json!({ "jsonrpc": "2.0", "id": "conform-1", "method": method, "params": params });
        self.posting(&body)
    }

    /// Begins a POST.
    fn posting(&self, body: &Value) -> Request<'a> {
        self.site.post(&self.url, body).header("a2a-version", "1.0").within(self.site.limit * 2)
    }

    /// Calls a method, and returns the response.
    async fn ask(&self, method: &str, params: &Value) -> Result<Value, Finding> {
        let answer = self.calling(method, params).send().await?;
        response(&answer)
    }

    /// Calls a method, and returns its result.
    async fn call(&self, method: &str, params: &Value) -> Result<Value, Finding> {
        let response = self.ask(method, params).await?;
        let result = response.get("result").cloned();
        result.ok_or_else(|| failed(format!("a result of `{method}`"), &response))
    }

    /// Calls a method that fails with one of these codes.
    async fn fails(&self, method: &str, params: &Value, codes: &[i64]) -> Result<(), Finding> {
        failure(&self.ask(method, params).await?, codes)
    }

    /// Sends a message with this text, and returns the task.
    async fn task(&self, words: &str) -> Result<Value, Finding> {
        let result = self.call("SendMessage", &message(self.site, words)).await?;
        match result.get("task") {
            Some(task) => Ok(task.clone()),
            None => Err(skipped("the agent answers with a message, not with a task")),
        }
    }

    /// Sends a message, and returns the task once it is over.
    async fn ended(&self) -> Result<Value, Finding> {
        let task = self.task("echo conform").await?;
        if is_over(&task) {
            return Ok(task);
        }
        for _ in 0..20 {
            let task = self.call("GetTask", &json!({ "id": task["id"] })).await?;
            if is_over(&task) {
                return Ok(task);
            }
            tokio::time::sleep(self.site.limit / 20).await;
        }
        Err(skipped("the agent does not end a task that it was sent"))
    }
}

/// Returns the URL of an interface.
fn interface_url(interface: &Value) -> Result<Url, Finding> {
    let url = Url::parse(&text(interface, "/url")?).ok().filter(Url::has_host);
    url.ok_or_else(|| failed("an absolute URL", interface))
}

/// Returns a URL with the server under test in it.
fn under(site: &Site, url: &Url) -> Url {
    let mut moved = site.own.clone();
    moved.set_path(url.path());
    moved.set_query(url.query());
    site.note(&format!("the card's interface {url} is taken for {moved} (--rebase)"));
    moved
}

/// Returns the JSON-RPC response of an answer.
fn response(answer: &Answer) -> Result<Value, Finding> {
    let is_one = answer.body.get("result").is_some() || answer.body.get("error").is_some();
    let is_one = is_one && answer.status != 429;
    if is_one { Ok(answer.body.clone()) } else { Err(answer.otherwise("a JSON-RPC response")) }
}

/// Fails unless a response is an error with one of these codes.
fn failure(response: &Value, codes: &[i64]) -> Result<(), Finding> {
    let code = response["error"]["code"].as_i64();
    if code.is_some_and(|code| codes.contains(&code)) && response["error"]["message"].is_string() {
        return Ok(());
    }
    let wanted: Vec<String> = codes.iter().map(i64::to_string).collect();
    Err(failed(format!("the error {}", wanted.join(" or ")), response))
}

/// Returns the parameters of a message.
fn message(site: &Site, words: &str) -> Value {
    json!({ "message": { "messageId": site.uuid(), "role": "ROLE_USER", "parts": [{ "text": words }] } })
}

/// Whether a task is over.
fn is_over(task: &Value) -> bool {
    task["status"]["state"].as_str().is_some_and(|state| ENDS.contains(&state))
}

/// Sends a request without a key.
async fn without_key(site: &Site) -> Result<Answer, Finding> {
    site.needs_key()?;
    let agent = Agent::find(site).await?;
    agent.calling("GetTask", &json!({ "id": site.uuid() })).by(Who::Nobody).send().await
}
