//! `entente attach mcp`: an MCP server on stdin and stdout that passes each message on to the server's `/mcp`, and each
//! answer back. It knows of the protocol only the headers that HTTP needs, and keeps no state but the negotiated version.
//!
//! A call that certainly was not delivered is repeated while the server restarts. One that may have been is not: the model
//! is told so, because only it can look.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::time::Duration;

use entente_runtime::lines::{Line, Lines};
use entente_runtime::signals::Signals;
use futures_util::StreamExt as _;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::FuturesUnordered;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader, Stdout, stdin, stdout};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use crate::Done;
use crate::output::note;
use crate::remote::Api;

/// Maximum size of a message in bytes, above what a server takes, so that the server refuses it with its own words.
const MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Calls at once; the host's next one is read when one of them ends.
const CALLS: usize = 64;
/// Time that a call which was not delivered is repeated for: a restart of the server, and less than hosts wait for a start.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(250);
/// Time limit of an answer: the longest wait of a tool is 50 s.
const ANSWER: Duration = Duration::from_secs(120);
/// Time for open calls to be answered after the end of the input.
const FINISH: Duration = Duration::from_secs(5);
/// Member of `_meta` with the version of a request (MCP 2026-07-28).
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A message of the host, as far as it is read.
#[derive(Debug, Deserialize)]
struct Message {
    /// Id of a request; absent in notifications.
    id: Option<Value>,
    /// Method of a request or a notification; absent in answers.
    method: Option<String>,
    #[serde(default)]
    params: Value,
}

/// Reason why a message has no answer.
#[derive(Debug)]
struct Lost {
    message: String,
    /// Whether the server certainly has not acted on it.
    is_undelivered: bool,
}

/// Passes messages on until the host's input ends.
///
/// # Errors
/// The HTTP client cannot be set up.
pub(super) async fn run(api: Api, tools: &str) -> Done {
    let mut signals = Signals::listen()?;
    let relay = Relay {
        api: api.without_reuse()?,
        tools: tools.to_owned(),
        version: RefCell::default(),
        output: Mutex::new(stdout()),
    };
    tokio::select! {
        () = relay.run() => {}
        () = signals.told() => {}
    }
    Ok(())
}

struct Relay {
    api: Api,
    tools: String,
    /// The version that `initialize` negotiated.
    version: RefCell<Option<String>>,
    output: Mutex<Stdout>,
}

impl Relay {
    /// Reads messages, each of which is passed on at once; answers come in any order.
    async fn run(&self) {
        let mut input = Lines::new(BufReader::new(stdin()), MESSAGE_BYTES);
        let mut calls = FuturesUnordered::new();
        let mut handles: HashMap<String, AbortHandle> = HashMap::new();
        loop {
            tokio::select! {
                line = input.next(), if calls.len() < CALLS => {
                    let text = match line {
                        Line::Text(text) => text,
                        Line::End => break,
                        Line::TooLong => String::from("too long"),
                        Line::NotText => String::from("no text"),
                    };
                    let Ok(message) = serde_json::from_str::<Message>(&text) else {
                        let error = failed(&Value::Null, -32700, "Parse error: send one JSON object per line.");
                        if self.write(&error).await.is_err() {
                            return;
                        }
                        continue;
                    };
                    if let Some(handle) = cancelled(&message).and_then(|id| handles.remove(&id)) {
                        handle.abort();
                    }
                    let id = message.id.as_ref().map(Value::to_string);
                    let (handle, registration) = AbortHandle::new_pair();
                    handles.extend(id.clone().map(|id| (id, handle)));
                    let call = Abortable::new(self.call(message, text), registration);
                    calls.push(async move { (id, call.await) });
                }
                Some((id, done)) = calls.next() => {
                    if let Some(id) = id {
                        handles.remove(&id);
                    }
                    // The host reads no more.
                    if matches!(done, Ok(Err(_))) {
                        return;
                    }
                }
            }
        }
        let _late = timeout(FINISH, async { while calls.next().await.is_some() {} }).await;
    }

    /// Passes a message on, and its answer back.
    async fn call(&self, message: Message, text: String) -> io::Result<()> {
        let began = Instant::now();
        let lost = loop {
            match self.exchange(&message, &text).await? {
                Ok(()) => return Ok(()),
                Err(lost) if !repeats(&message, &lost) || began.elapsed() >= PATIENCE => break lost,
                Err(_restart) => sleep(PAUSE).await,
            }
        };
        match (&message.id, &message.method) {
            (Some(id), Some(method)) => self.write(&told(id, method, &lost)).await,
            _ => {
                note(&format!("entente: a message of the host was lost: {}", lost.message));
                Ok(())
            }
        }
    }

    /// Sends a message once, and writes what the server answers.
    async fn exchange(&self, message: &Message, text: &str) -> io::Result<Result<(), Lost>> {
        let mut request = self.api.mcp(&self.tools);
        for (name, value) in self.headers(message) {
            request = request.header(name, value);
        }
        let sent = timeout(ANSWER, request.body(text.to_owned()).send()).await;
        let lost = |message: String, is_undelivered| Ok(Err(Lost { message, is_undelivered }));
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(failure)) => {
                let is_undelivered = failure.is_connect() || failure.is_builder();
                return lost(format!("no answer from {} ({failure})", self.api.base()), is_undelivered);
            }
            Err(_late) => {
                return lost(format!("no answer from {} in {} s", self.api.base(), ANSWER.as_secs()), false);
            }
        };
        if is_stream(&response) {
            return self.follow(response).await;
        }
        let status = response.status();
        let Ok(body) = response.text().await else {
            return lost(format!("the answer of {} broke off", self.api.base()), false);
        };
        if body.trim().is_empty() && (status.is_success() || message.id.is_none()) {
            return Ok(Ok(()));
        }
        let answer: Value = serde_json::from_str(&body).unwrap_or_default();
        if answer["jsonrpc"].is_string() {
            self.learn(message, &answer);
            // Line breaks in JSON are outside of strings.
            return self.write(&body.replace(['\n', '\r'], " ")).await.map(Ok);
        }
        let code = answer["code"].as_str();
        let said = answer["message"].as_str().map_or_else(
            || {
                let base = self.api.base();
                format!(
                    "{base} answered {status} with what is no answer of Entente. Check --url or ENTENTE_URL"
                )
            },
            |message| format!("{message} ({} {})", status.as_u16(), code.unwrap_or_default()),
        );
        // What Entente refuses itself it has not begun.
        lost(said, code.is_some() && status == StatusCode::SERVICE_UNAVAILABLE)
    }

    /// Returns the headers that repeat the message's version, method and subject (MCP, streamable HTTP).
    fn headers(&self, message: &Message) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            (CONTENT_TYPE.as_str(), "application/json".to_owned()),
            (ACCEPT.as_str(), "application/json, text/event-stream".to_owned()),
        ];
        let own = message.params["_meta"][VERSION].as_str().map(str::to_owned);
        let version = own.or_else(|| self.version.borrow().clone());
        headers.extend(version.map(|version| ("MCP-Protocol-Version", version)));
        let Some(method) = &message.method else { return headers };
        let member = match method.as_str() {
            "tools/call" | "prompts/get" => "name",
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => "",
        };
        let subject = message.params[member].as_str().map(str::to_owned);
        headers.push(("Mcp-Method", method.clone()));
        headers.extend(subject.map(|subject| ("Mcp-Name", subject)));
        headers
    }

    /// Keeps the version that the server agreed to, which later requests name.
    fn learn(&self, message: &Message, answer: &Value) {
        if message.method.as_deref() == Some("initialize") {
            let agreed = answer["result"]["protocolVersion"].as_str();
            *self.version.borrow_mut() = agreed.map(str::to_owned);
        }
    }

    /// Writes the messages of a stream as they come.
    async fn follow(&self, mut response: Response) -> io::Result<Result<(), Lost>> {
        let mut buffer: Vec<u8> = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            buffer.extend_from_slice(&chunk);
            while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
                let frame: Vec<u8> = buffer.drain(..end + 2).collect();
                let frame = String::from_utf8_lossy(&frame);
                let data: Vec<&str> = frame.lines().filter_map(|line| line.strip_prefix("data:")).collect();
                let data = data.join(" ");
                if !data.trim().is_empty() {
                    self.write(data.trim()).await?;
                }
            }
        }
        Ok(Ok(()))
    }

    async fn write(&self, line: &str) -> io::Result<()> {
        let mut output = self.output.lock().await;
        output.write_all(format!("{line}\n").as_bytes()).await?;
        output.flush().await
    }
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_vec()).unwrap_or_default();
    response.status().is_success() && kind.starts_with(b"text/event-stream")
}

/// Returns the id of the request that a notification cancels.
fn cancelled(message: &Message) -> Option<String> {
    let cancels = message.method.as_deref() == Some("notifications/cancelled");
    cancels.then(|| message.params["requestId"].to_string())
}

/// Returns whether sending a message again does nothing twice: it was not delivered, or it only reads.
fn repeats(message: &Message, lost: &Lost) -> bool {
    let reads = ["initialize", "ping", "tools/list", "resources/list", "resources/read", "prompts/list"];
    lost.is_undelivered || message.method.as_deref().is_some_and(|method| reads.contains(&method))
}

/// Returns the answer to a request that has none: models read the results of tools, hosts read errors.
fn told(id: &Value, method: &str, lost: &Lost) -> String {
    if method != "tools/call" {
        return failed(id, -32603, &lost.message);
    }
    let doubt =
        if lost.is_undelivered { "" } else { " It may have taken effect: look before you repeat it." };
    let content =
        json!([{ "type": "text", "text": format!("{}.{doubt}", lost.message.trim_end_matches('.')) }]);
    json!({ "jsonrpc": "2.0", "id": id, "result": { "content": content, "isError": true } }).to_string()
}

fn failed(id: &Value, code: i32, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }).to_string()
}
