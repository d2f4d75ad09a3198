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
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::Done;
use crate::output::note;
use crate::remote::Api;

/// Maximum size of a message in bytes, above the limit of a server, so that the server refuses it with its own words.
const MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Calls at once; the host's next one is read when one of them ends.
const CALLS: usize = 64;
/// Time that a call which was not delivered is repeated for: a restart of the server, and less than hosts wait for a start.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(250);
/// Time limit of an answer: the longest wait of a tool is 50 s.
const ANSWER: Duration = Duration::from_mins(2);
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

/// Reason why a message has no answer of MCP.
#[derive(Debug)]
struct Lost {
    message: String,
    fate: Fate,
}

/// Fate of a message without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The server certainly has not acted on it, and may take it later.
    Undelivered,
    /// The server may have acted on it.
    Unknown,
    /// The server refused it.
    Refused,
}

/// Passes messages on until the host's input ends.
///
/// # Errors
/// The HTTP client cannot be set up.
pub(super) async fn run(api: Api, tools: &str) -> Done {
    let mut signals = Signals::listen()?;
    let (lines, answers) = mpsc::channel(CALLS);
    let relay =
        Relay { api: api.without_reuse()?, tools: tools.to_owned(), version: RefCell::default(), lines };
    tokio::select! {
        // The host reads no more.
        _closed = relay.run(answers) => {}
        () = signals.told() => {}
    }
    Ok(())
}

struct Relay {
    api: Api,
    tools: String,
    /// The version that `initialize` negotiated.
    version: RefCell<Option<String>>,
    /// Lines to write. A call that is cancelled leaves no half of one.
    lines: mpsc::Sender<String>,
}

impl Relay {
    /// Reads messages, each of which is passed on at once; answers come in any order.
    async fn run(&self, mut answers: mpsc::Receiver<String>) -> io::Result<()> {
        let mut input = Lines::new(BufReader::new(stdin()), MESSAGE_BYTES);
        let mut output = stdout();
        let mut calls = FuturesUnordered::new();
        let mut handles: HashMap<String, AbortHandle> = HashMap::new();
        loop {
            tokio::select! {
                line = input.next(), if calls.len() < CALLS => {
                    let text = match line {
                        Line::Text(text) => text,
                        Line::End => break,
                        Line::TooLong | Line::NotText => String::new(),
                    };
                    let message = serde_json::from_str::<Message>(&text).ok();
                    let given_up = message.as_ref().and_then(cancelled).and_then(|id| handles.remove(&id));
                    if let Some(handle) = given_up {
                        handle.abort();
                    }
                    let id = message.as_ref().and_then(|message| Some(message.id.as_ref()?.to_string()));
                    let (handle, registration) = AbortHandle::new_pair();
                    handles.extend(id.clone().map(|id| (id, handle)));
                    let call = Abortable::new(self.call(message, text), registration);
                    calls.push(async move {
                        let _given_up = call.await;
                        id
                    });
                }
                Some(id) = calls.next() => {
                    id.and_then(|id| handles.remove(&id));
                }
                Some(line) = answers.recv() => write(&mut output, &line).await?,
            }
        }
        let finish = async {
            loop {
                tokio::select! {
                    biased;
                    Some(line) = answers.recv() => write(&mut output, &line).await?,
                    ended = calls.next() => if ended.is_none() { return io::Result::Ok(()) },
                }
            }
        };
        timeout(FINISH, finish).await.unwrap_or(Ok(()))?;
        while let Ok(line) = answers.try_recv() {
            write(&mut output, &line).await?;
        }
        Ok(())
    }

    /// Passes a message on, and its answer back.
    async fn call(&self, message: Option<Message>, text: String) {
        let Some(message) = message else {
            return self
                .say(failed(&Value::Null, -32700, "Parse error: send one JSON object per line."))
                .await;
        };
        let began = Instant::now();
        let lost = loop {
            match self.exchange(&message, &text).await {
                Ok(()) => return,
                Err(lost) if !repeats(&message, &lost) || began.elapsed() >= PATIENCE => break lost,
                Err(_restart) => sleep(PAUSE).await,
            }
        };
        match (&message.id, &message.method) {
            (Some(id), Some(method)) => self.say(told(id, method, &lost)).await,
            _ => note(&format!("entente: a message of the host was lost: {}", lost.message)),
        }
    }

    /// Sends a message once, and passes on the server's answer.
    async fn exchange(&self, message: &Message, text: &str) -> Result<(), Lost> {
        let mut request = self.api.mcp(&self.tools);
        for (name, value) in self.headers(message) {
            request = request.header(name, value);
        }
        let base = self.api.base();
        let lost = |message: String, fate| Err(Lost { message, fate });
        let response = match timeout(ANSWER, request.body(text.to_owned()).send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(failure)) => {
                let fate = match failure {
                    _ if failure.is_connect() => Fate::Undelivered,
                    // A name that fits into no header.
                    _ if failure.is_builder() => Fate::Refused,
                    _ => Fate::Unknown,
                };
                return lost(format!("no answer from {base} ({failure})"), fate);
            }
            Err(_late) => {
                return lost(format!("no answer from {base} in {} s", ANSWER.as_secs()), Fate::Unknown);
            }
        };
        if is_stream(&response) {
            self.follow(response).await;
            return Ok(());
        }
        let status = response.status();
        let Ok(Ok(body)) = timeout(ANSWER, response.text()).await else {
            return lost(format!("the answer of {base} broke off"), Fate::Unknown);
        };
        if body.trim().is_empty() && (status.is_success() || message.id.is_none()) {
            return Ok(());
        }
        let answer: Value = serde_json::from_str(&body).unwrap_or_default();
        if answer["jsonrpc"].is_string() {
            self.learn(message, &answer);
            // Line breaks in JSON are outside of strings.
            self.say(body.replace(['\n', '\r'], " ")).await;
            return Ok(());
        }
        // A call that Entente itself refuses is not begun, and a 503 of it passes. A proxy knows neither.
        let fate = match (answer["code"].is_string(), status) {
            (true, StatusCode::SERVICE_UNAVAILABLE) => Fate::Undelivered,
            (false, _) if status.is_server_error() => Fate::Unknown,
            _ => Fate::Refused,
        };
        lost(refusal(base, status, &answer), fate)
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

    /// Passes on the messages of a stream as they come.
    async fn follow(&self, mut response: Response) {
        let mut buffer: Vec<u8> = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            buffer.extend_from_slice(&chunk);
            while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
                let frame: Vec<u8> = buffer.drain(..end + 2).collect();
                let frame = String::from_utf8_lossy(&frame);
                let data: Vec<&str> = frame.lines().filter_map(|line| line.strip_prefix("data:")).collect();
                let data = data.join(" ");
                if !data.trim().is_empty() {
                    self.say(data.trim().to_owned()).await;
                }
            }
        }
    }

    async fn say(&self, line: String) {
        // Whoever receives lines outlives the calls.
        let _ended = self.lines.send(line).await;
    }
}

async fn write(output: &mut Stdout, line: &str) -> io::Result<()> {
    output.write_all(format!("{line}\n").as_bytes()).await?;
    output.flush().await
}

/// Returns the message of a refusal, or that it is none of Entente.
fn refusal(base: &str, status: StatusCode, answer: &Value) -> String {
    let Some(message) = answer["message"].as_str() else {
        return format!(
            "{base} answered {status} with what is no answer of Entente. Check --url or ENTENTE_URL"
        );
    };
    format!("{message} ({} {})", status.as_u16(), answer["code"].as_str().unwrap_or_default())
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
    match lost.fate {
        Fate::Undelivered => true,
        Fate::Unknown => message.method.as_deref().is_some_and(|method| reads.contains(&method)),
        Fate::Refused => false,
    }
}

/// Returns the answer to a request that has none: models read the results of tools, hosts read errors.
fn told(id: &Value, method: &str, lost: &Lost) -> String {
    if method != "tools/call" {
        return failed(id, -32603, &lost.message);
    }
    let doubt = match lost.fate {
        Fate::Unknown => " It may have taken effect: look before you repeat it.",
        Fate::Undelivered | Fate::Refused => "",
    };
    let text = format!("{}.{doubt}", lost.message.trim_end_matches('.'));
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

fn failed(id: &Value, code: i32, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }).to_string()
}
