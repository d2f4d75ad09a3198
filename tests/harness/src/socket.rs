//! ARCP client over WebSocket that speaks raw JSON and sends nothing by itself, except pongs while it waits.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::World;

/// Upper bound for a frame that must arrive.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a test waits to see that no frame arrives.
const QUIET: Duration = Duration::from_millis(150);

/// All features that a client may name.
pub const FEATURES: [&str; 11] = [
    "heartbeat",
    "ack",
    "list_jobs",
    "subscribe",
    "lease_expires_at",
    "cost.budget",
    "model.use",
    "provisioned_credentials",
    "progress",
    "result_chunk",
    "agent_versions",
];

/// A connection.
pub struct Socket {
    wire: WebSocketStream<MaybeTlsStream<TcpStream>>,
    count: u32,
    /// The `session.welcome` envelope.
    pub welcome: Value,
    features: Value,
    /// Whether pings are answered while waiting for another frame.
    pub polite: bool,
}

/// Returns the payload of `session.hello`.
pub fn hello(token: &str, features: &[&str]) -> Value {
    json!({
        "client": { "name": "probe", "version": "1" }, "auth": { "scheme": "bearer", "token": token },
        "capabilities": { "encodings": ["json"], "features": features },
    })
}

impl Socket {
    /// Connects without sending anything.
    pub async fn connect(address: SocketAddr, path: &str) -> Self {
        let (wire, response) = connect_async(format!("ws://{address}{path}")).await.unwrap();
        assert!(response.headers().get("sec-websocket-protocol").is_none());
        Self { wire, count: 0, welcome: Value::Null, features: json!(FEATURES), polite: true }
    }

    /// Opens a session with every feature.
    pub async fn open(world: &World, token: &str) -> Self {
        Self::open_with(world, "/arcp", hello(token, &FEATURES)).await
    }

    /// Opens a session.
    pub async fn open_with(world: &World, path: &str, hello: Value) -> Self {
        Self::open_at(world.address, path, hello).await
    }

    /// Opens a session at an address.
    pub async fn open_at(address: SocketAddr, path: &str, hello: Value) -> Self {
        let mut socket = Self::connect(address, path).await;
        socket.features = hello["capabilities"]["features"].clone();
        socket.say("session.hello", hello).await;
        socket.welcome = socket.of("session.welcome").await;
        socket
    }

    /// Resumes this session on a new connection.
    pub async fn resume(&self, world: &World, token: &str, last: i64) -> Self {
        let mut said = hello(token, &[]);
        said["capabilities"]["features"] = self.features.clone();
        said["resume"] = json!({
            "session_id": self.session(), "resume_token": self.welcome["payload"]["resume_token"], "last_event_seq": last,
        });
        Self::open_with(world, "/arcp", said).await
    }

    /// Returns the session's id.
    pub fn session(&self) -> &str {
        self.welcome["session_id"].as_str().unwrap()
    }

    /// Sends an envelope and returns its id.
    pub async fn say(&mut self, word: &str, payload: Value) -> String {
        self.count += 1;
        let id = format!("r{}", self.count);
        self.raw(
            &json!({ "arcp": "1.1", "id": id, "type": word, "payload": payload, "extra": 1 }).to_string(),
        )
        .await;
        id
    }

    /// Sends a text frame.
    pub async fn raw(&mut self, text: &str) {
        self.wire.send(Message::text(text)).await.unwrap();
    }

    /// Sends any WebSocket message; returns whether that succeeded.
    pub async fn send(&mut self, message: Message) -> bool {
        self.wire.send(message).await.is_ok()
    }

    /// Sends a request and returns the frame that names it.
    pub async fn ask(&mut self, word: &str, payload: Value) -> Value {
        let id = self.say(word, payload).await;
        self.until(|frame| frame["payload"]["request_id"] == id.as_str()).await
    }

    /// Sends a request that must be refused and returns the payload of the refusal.
    #[track_caller]
    pub fn refused(&mut self, word: &str, payload: Value, code: &str) -> impl Future<Output = Value> {
        let place = std::panic::Location::caller();
        async move {
            let told = self.ask(word, payload).await;
            assert_eq!(told["type"], "session.error", "{told} at {place}");
            assert_eq!(told["payload"]["code"], code, "{told} at {place}");
            told["payload"].clone()
        }
    }

    /// Submits a job and returns the payload of `job.accepted`.
    pub async fn submit(&mut self, payload: Value) -> Value {
        let told = self.ask("job.submit", payload).await;
        assert_eq!(told["type"], "job.accepted", "{told}");
        told["payload"].clone()
    }

    /// Returns the next frame; `None` when the connection is closed.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.wire.next()).await.expect("nothing came");
            match message {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    assert_eq!(frame["arcp"], "1.1");
                    assert!(frame["session_id"].as_str().unwrap().starts_with("sess_"), "{frame}");
                    return Some(frame);
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// Returns the next frame that matches. It answers pings on the way and skips all other frames.
    pub async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = self.next().await.expect("the connection was closed");
            if fits(&frame) {
                return frame;
            }
            if self.polite && frame["type"] == "session.ping" {
                let nonce = frame["payload"]["nonce"].clone();
                self.say("session.pong", json!({ "ping_nonce": nonce })).await;
            }
        }
    }

    /// Returns the next frame of this type.
    pub async fn of(&mut self, word: &str) -> Value {
        self.until(|frame| frame["type"] == word).await
    }

    /// Returns the next `count` frames with a sequence number.
    pub async fn numbered(&mut self, count: usize) -> Vec<Value> {
        let mut got = Vec::new();
        while got.len() < count {
            got.push(self.until(|frame| frame.get("event_seq").is_some()).await);
        }
        got
    }

    /// Asserts that no numbered frame arrives for a while.
    pub async fn silent(&mut self) {
        let waited = tokio::time::timeout(QUIET, self.numbered(1)).await;
        assert!(waited.is_err(), "came all the same: {waited:?}");
    }

    /// Waits for the end of the connection and returns the close frame, if there was one.
    pub async fn closed(&mut self) -> Option<CloseFrame> {
        loop {
            match tokio::time::timeout(PATIENCE, self.wire.next()).await.expect("the connection stays open") {
                Some(Ok(Message::Close(frame))) => return frame,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }
}

/// Returns the sequence numbers of frames.
pub fn seqs(frames: &[Value]) -> Vec<i64> {
    frames.iter().map(|frame| frame["event_seq"].as_i64().unwrap()).collect()
}
