//! An operator's upstream on a real socket: it mints credentials as `LiteLLM` or another broker does, records its
//! requests and valid values, and simulates failures.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The API key that it requires.
pub const ADMIN_KEY: &str = "sk-admin-0123456789";

/// Simulated failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProvisionerError {
    /// Responds with a status and a body.
    Says(u16, &'static str),
    /// Processes the request and closes the connection without a response.
    Dies,
    /// Never responds.
    Hangs,
    /// Mints the same value each time.
    Repeats,
}

/// A received request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub authorization: String,
    pub body: Value,
}

#[derive(Default)]
struct State {
    /// Unique, so that no two upstreams mint equal values.
    name: String,
    asked: Mutex<Vec<Asked>>,
    /// Valid values by their alias.
    out: Mutex<BTreeMap<String, String>>,
    made: AtomicU64,
    minting: Mutex<Option<ProvisionerError>>,
    revoking: Mutex<Option<ProvisionerError>>,
}

pub struct Upstream {
    pub address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Upstream {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State { name: address.port().to_string(), ..State::default() });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let shared = Arc::clone(&shared);
                tokio::spawn(async move { serve(stream, shared).await });
            }
        });
        Self { address, state, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the failure for requests that mint a value.
    pub fn minting(&self, trouble: Option<ProvisionerError>) {
        *self.state.minting.lock().unwrap() = trouble;
    }

    /// Sets the failure for requests that revoke a value.
    pub fn revoking(&self, trouble: Option<ProvisionerError>) {
        *self.state.revoking.lock().unwrap() = trouble;
    }

    /// Returns the requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.state.asked.lock().unwrap().clone()
    }

    /// Returns the requests so far whose path begins with `path`.
    pub fn asked_on(&self, path: &str) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| asked.path.starts_with(path)).collect()
    }

    /// Returns the valid values.
    pub fn out(&self) -> Vec<String> {
        self.state.out.lock().unwrap().values().cloned().collect()
    }

    /// Mints a value without a request of the server, as a worker does that renews its own.
    pub fn make(&self, alias: &str) -> String {
        self.state.make(alias, None)
    }
}

impl State {
    fn make(&self, alias: &str, trouble: Option<ProvisionerError>) -> String {
        let n = self.made.fetch_add(1, Ordering::Relaxed);
        let n = if trouble == Some(ProvisionerError::Repeats) { 0 } else { n };
        let value = format!("sk-virtual-{}-{n:08}-secret", self.name);
        self.out.lock().unwrap().insert(alias.to_owned(), value.clone());
        value
    }

    fn end(&self, which: impl Fn(&str, &str) -> bool) -> usize {
        let mut out = self.out.lock().unwrap();
        let before = out.len();
        out.retain(|alias, value| !which(alias, value));
        before - out.len()
    }

    fn answer(&self, asked: &Asked) -> Result<(u16, Value), ProvisionerError> {
        let making = asked.method == "POST" && !asked.path.ends_with("/delete");
        let trouble = if making { &self.minting } else { &self.revoking };
        let trouble = *trouble.lock().unwrap();
        if let Some(one @ (ProvisionerError::Says(..) | ProvisionerError::Hangs)) = trouble {
            return Err(one);
        }
        let done = match (asked.method.as_str(), asked.path.as_str()) {
            ("POST", "/key/generate") => self.generate(asked, trouble),
            ("POST", "/key/delete") => self.delete(asked),
            ("POST", "/tokens") => {
                let name = asked.body["name"].as_str().unwrap();
                let secret = self.make(name, trouble);
                (
                    201,
                    json!({ "data": { "id": format!("t.{name}"), "secret": secret, "url": "https://search.example/v2" } }),
                )
            }
            ("GET", path) => {
                let name = path.strip_prefix("/tokens?name=").unwrap();
                let there = self.out.lock().unwrap().contains_key(name);
                if there { (200, json!({ "data": { "id": format!("t.{name}") } })) } else { (404, json!({})) }
            }
            ("DELETE", path) => {
                let id = path.strip_prefix("/tokens/").unwrap().replace("%2E", ".");
                let gone = self.end(|alias, _| format!("t.{alias}") == id);
                (if gone == 1 { 204 } else { 410 }, Value::Null)
            }
            other => panic!("nobody asks for {other:?}"),
        };
        if trouble == Some(ProvisionerError::Dies) { Err(ProvisionerError::Dies) } else { Ok(done) }
    }

    fn generate(&self, asked: &Asked, trouble: Option<ProvisionerError>) -> (u16, Value) {
        let alias = asked.body["key_alias"].as_str().unwrap();
        if self.out.lock().unwrap().contains_key(alias) {
            return (400, json!({ "error": { "message": "Unique key aliases are required" } }));
        }
        (200, json!({ "key": self.make(alias, trouble), "key_name": "sk-...cret", "expires": null }))
    }

    fn delete(&self, asked: &Asked) -> (u16, Value) {
        let named = |member: &str, text: &str| {
            asked.body[member].as_array().is_some_and(|list| list.iter().any(|item| item == text))
        };
        match self.end(|alias, value| named("key_aliases", alias) || named("keys", value)) {
            0 => (404, json!({ "error": { "message": "{'error': 'No keys found'}", "code": "404" } })),
            _ => (200, json!({ "deleted_keys": asked.body["key_aliases"] })),
        }
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    let mut buffer = Vec::new();
    while let Some(asked) = request(&mut stream, &mut buffer).await {
        state.asked.lock().unwrap().push(asked.clone());
        let known = asked.authorization == format!("Bearer {ADMIN_KEY}");
        let answer = if known { state.answer(&asked) } else { Ok((401, json!({ "error": "who are you" }))) };
        let (status, body) = match answer {
            Ok((204, _)) => (204, String::new()),
            Ok((status, body)) => (status, body.to_string()),
            Err(ProvisionerError::Says(status, body)) => (status, body.to_owned()),
            Err(ProvisionerError::Hangs) => return std::future::pending().await,
            Err(ProvisionerError::Dies | ProvisionerError::Repeats) => return,
        };
        let said = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(said.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Asked> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer.drain(..end).collect()).unwrap();
    let header = |name: &str| {
        let pairs = head.lines().filter_map(|line| line.split_once(": "));
        pairs.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    };
    let length: usize = header("content-length").map_or(0, |text| text.parse().unwrap());
    while buffer.len() < length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let text: Vec<u8> = buffer.drain(..length).collect();
    let mut words = head.split(' ');
    Some(Asked {
        method: words.next()?.to_owned(),
        path: words.next()?.to_owned(),
        authorization: header("authorization").unwrap_or_default(),
        body: serde_json::from_slice(&text).unwrap_or(Value::Null),
    })
}
