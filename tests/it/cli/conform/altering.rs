//! A proxy before this server that alters what passes: HTTP requests and their answers, and frames of a WebSocket.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{accept_async, connect_async};

use entente_harness::{Value, http, json};

/// A request, as it is altered.
pub(super) struct Asked {
    pub method: String,
    pub path: String,
    headers: Vec<(String, String)>,
    pub body: Value,
}

/// What is wrong with a server.
#[derive(Clone, Copy)]
pub(super) struct Wrong {
    /// Alters a request.
    request: fn(&mut Asked),
    /// Alters an answer: its status and its body.
    answer: fn(&Asked, &mut u16, &mut Value),
    /// Alters a frame of a WebSocket.
    frame: fn(&mut Value),
}

const RIGHT: Wrong = Wrong { request: |_| (), answer: |_, _, _| (), frame: |_| () };

/// A running proxy.
pub(super) struct Altering {
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Altering {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Altering {
    /// Starts a proxy before a server.
    pub(super) async fn start(target: SocketAddr, wrong: Wrong) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    // A client that goes away ends its connection only.
                    let _gone = Box::pin(pass(stream, target, wrong)).await;
                });
            }
        });
        Self { address, task }
    }
}

/// Passes one connection on.
async fn pass(mut stream: TcpStream, target: SocketAddr, wrong: Wrong) -> Option<()> {
    let mut head = [0; 16_384];
    loop {
        let seen = stream.peek(&mut head).await.ok().filter(|seen| *seen > 0)?;
        if head[..seen].windows(4).any(|end| end == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&head[..seen]).to_lowercase();
            if text.contains("upgrade: websocket") {
                let path = text.split(' ').nth(1)?.to_owned();
                return relay(stream, &format!("ws://{target}{path}"), wrong).await;
            }
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let mut asked = read(&mut stream).await?;
    (wrong.request)(&mut asked);
    let method = reqwest::Method::from_bytes(asked.method.as_bytes()).ok()?;
    let mut request = http().request(method, format!("http://{target}{}", asked.path));
    for (name, value) in &asked.headers {
        request = request.header(name, value);
    }
    if !asked.body.is_null() {
        request = request.body(asked.body.as_str().map_or_else(|| asked.body.to_string(), str::to_owned));
    }
    answer(stream, &asked, request.send().await.ok()?, wrong).await
}

/// Passes an answer on, altered; a stream of events as it is.
async fn answer(
    mut stream: TcpStream,
    asked: &Asked,
    mut response: reqwest::Response,
    wrong: Wrong,
) -> Option<()> {
    let mut status = response.status().as_u16();
    let kept = ["content-type", "cache-control", "etag"].map(|name| {
        let value = response.headers().get(name).and_then(|value| value.to_str().ok());
        value.map_or(String::new(), |value| format!("{name}: {value}\r\n"))
    });
    let kept = kept.concat();
    if kept.contains("text/event-stream") {
        let head = format!("HTTP/1.1 {status} Said\r\n{kept}connection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.ok()?;
        while let Ok(Some(part)) = response.chunk().await {
            stream.write_all(&part).await.ok()?;
        }
        return Some(());
    }
    let text = response.text().await.ok()?;
    let parsed = serde_json::from_str::<Value>(&text);
    let is_json = parsed.is_ok();
    let mut body = parsed.unwrap_or_default();
    (wrong.answer)(asked, &mut status, &mut body);
    let text = if is_json { body.to_string() } else { text };
    let length = text.len();
    let head =
        format!("HTTP/1.1 {status} Said\r\n{kept}content-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    stream.write_all(text.as_bytes()).await.ok()
}

/// Reads one request.
async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let at = loop {
        stream.read_buf(&mut bytes).await.ok().filter(|read| *read > 0)?;
        if let Some(at) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break at;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .map_or(0, |(_, value)| value.parse().unwrap());
    while bytes.len() < at + 4 + length {
        stream.read_buf(&mut bytes).await.ok().filter(|read| *read > 0)?;
    }
    let text = String::from_utf8_lossy(&bytes[at + 4..]).into_owned();
    let body = if text.is_empty() {
        Value::Null
    } else {
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    };
    let headers =
        headers.into_iter().filter(|(name, _)| name != "content-length" && name != "host").collect();
    Some(Asked { method, path, headers, body })
}

/// Passes the frames of a WebSocket on.
async fn relay(stream: TcpStream, url: &str, wrong: Wrong) -> Option<()> {
    let (mut client_out, mut client_in) = accept_async(stream).await.ok()?.split();
    let (mut server_out, mut server_in) = connect_async(url).await.ok()?.0.split();
    let up = async {
        while let Some(Ok(message)) = client_in.next().await {
            server_out.send(message).await.ok()?;
        }
        server_out.close().await.ok()
    };
    let down = async {
        while let Some(Ok(message)) = server_in.next().await {
            let altered = match &message {
                Message::Text(text) => {
                    let mut frame: Value = serde_json::from_str(text).ok()?;
                    (wrong.frame)(&mut frame);
                    Message::text(frame.to_string())
                }
                _ => message,
            };
            client_out.send(altered).await.ok()?;
        }
        client_out.close().await.ok()
    };
    tokio::join!(up, down);
    Some(())
}

/// Forgets where a list begins, counts no messages, addresses nobody, loses metadata and correlations, lets two
/// channels have one name, and gives anybody everything.
pub(super) fn openintent() -> Wrong {
    fn answer(asked: &Asked, status: &mut u16, body: &mut Value) {
        if body["message_type"] == "broadcast" {
            body["to"] = Value::Null;
        }
        if body.get("message_count").is_some() {
            body["message_count"] = json!(0);
        }
        if body["metadata"]["tags"].is_array() {
            body["metadata"] = json!({});
        }
        if asked.path.ends_with("/reply") && *status == 201 {
            body["correlation_id"] = Value::Null;
        }
        if asked.body["name"] == "twice" && *status == 409 || *status == 401 {
            *status = 201;
        }
    }
    let request = |asked: &mut Asked| asked.path = asked.path.replace("?since=", "?x=");
    Wrong { request, answer, ..RIGHT }
}

/// Answers pings with another nonce, numbers events with gaps, and does not say what may be retried.
pub(super) fn arcp() -> Wrong {
    fn frame(frame: &mut Value) {
        match frame["type"].as_str().unwrap_or_default() {
            "session.pong" => frame["payload"]["ping_nonce"] = json!("another"),
            "session.error" => drop(frame["payload"].as_object_mut().unwrap().remove("retryable")),
            _ => {}
        }
        if let Some(number) = frame["event_seq"].as_u64() {
            frame["event_seq"] = json!(number * 2);
        }
    }
    Wrong { frame, ..RIGHT }
}

/// Always shows a task's history, has skills without tags, and another code for unknown methods.
pub(super) fn a2a() -> Wrong {
    fn answer(_: &Asked, _: &mut u16, body: &mut Value) {
        for skill in body.pointer_mut("/skills").and_then(Value::as_array_mut).into_iter().flatten() {
            skill.as_object_mut().unwrap().remove("tags");
        }
        if body["error"]["code"] == -32601 {
            body["error"]["code"] = json!(-32603);
        }
        if body["result"].get("contextId").is_some() {
            body["result"]["history"] = json!([{ "messageId": "one" }]);
        }
    }
    Wrong { answer, ..RIGHT }
}

/// Answers notifications with 200, has a tool twice, and another code for unknown methods.
pub(super) fn mcp() -> Wrong {
    fn answer(asked: &Asked, status: &mut u16, body: &mut Value) {
        if asked.body["method"] == "notifications/initialized" {
            *status = 200;
        }
        if let Some(tools) = body.pointer_mut("/result/tools").and_then(Value::as_array_mut) {
            tools.push(tools[0].clone());
        }
        if body["error"]["code"] == -32601 {
            body["error"]["code"] = json!(-32603);
        }
    }
    Wrong { answer, ..RIGHT }
}

/// Emits moments without an offer, which recommend what is not there.
pub(super) fn moments() -> Wrong {
    fn answer(_: &Asked, _: &mut u16, body: &mut Value) {
        if let Some(moment) = body.pointer_mut("/result/binding_moment").and_then(Value::as_object_mut) {
            moment.remove("offer");
            moment["question"]["recommended_idx"] = json!(7);
        }
    }
    Wrong { answer, ..RIGHT }
}

/// The payload that answers a ping, as it stands in an answer.
const PONG: &str = "\"pong\":true";

/// Takes any priority, needs no `corr`, and answers pings with something else.
pub(super) fn aee() -> Wrong {
    fn answer(asked: &Asked, status: &mut u16, body: &mut Value) {
        if asked.body["priority"] == "immediate" || asked.body["v"] == "1" && asked.body.get("corr").is_none()
        {
            *status = 202;
        }
        let text = body.to_string();
        if text.contains(PONG) {
            *body = serde_json::from_str(&text.replace(PONG, "\"pong\":\"no\"")).unwrap();
        }
    }
    Wrong { answer, ..RIGHT }
}
