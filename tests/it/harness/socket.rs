//! A client of ARCP over WebSocket that speaks raw JSON and answers nothing by itself.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::World;

/// How long something that must come may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it is waited for what must not come.
const QUIET: Duration = Duration::from_millis(150);

/// Every feature that a client may name.
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
    /// The welcome.
    pub welcome: Value,
    features: Value,
    /// Whether pings are answered while something else is waited for.
    pub polite: bool,
}

/// What a client opens a session with.
pub fn hello(token: &str, features: &[&str]) -> Value {
    json!({
        "client": { "name": "probe", "version": "1" }, "auth": { "scheme": "bearer", "token": token },
        "capabilities": { "encodings": ["json"], "features": features },
    })
}

impl Socket {
    /// Connects, and says nothing.
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

    /// Takes this session up on another connection.
    pub async fn resume(&self, world: &World, token: &str, last: i64) -> Self {
        let mut said = hello(token, &[]);
        said["capabilities"]["features"] = self.features.clone();
        said["resume"] = json!({
            "session_id": self.session(), "resume_token": self.welcome["payload"]["resume_token"], "last_event_seq": last,
        });
        Self::open_with(world, "/arcp", said).await
    }

    /// The session's id.
    pub fn session(&self) -> &str {
        self.welcome["session_id"].as_str().unwrap()
    }

    /// Sends an envelope; its id.
    pub async fn say(&mut self, word: &str, payload: Value) -> String {
        self.count += 1;
        let id = format!("r{}", self.count);
        self.raw(
            &json!({ "arcp": "1.1", "id": id, "type": word, "payload": payload, "extra": 1 }).to_string(),
        )
        .await;
        id
    }

    /// Sends a text.
    pub async fn raw(&mut self, text: &str) {
        self.wire.send(Message::text(text)).await.unwrap();
    }

    /// Sends whatever.
    pub async fn send(&mut self, message: Message) -> bool {
        self.wire.send(message).await.is_ok()
    }

    /// Asks something; the frame that names the request.
    pub async fn ask(&mut self, word: &str, payload: Value) -> Value {
        let id = self.say(word, payload).await;
        self.until(|frame| frame["payload"]["request_id"] == id.as_str()).await
    }

    /// Asks something that is refused; the payload of the refusal.
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

    /// Submits a job; the payload of its acceptance.
    pub async fn submit(&mut self, payload: Value) -> Value {
        let told = self.ask("job.submit", payload).await;
        assert_eq!(told["type"], "job.accepted", "{told}");
        told["payload"].clone()
    }

    /// The next frame; `None` when the connection is closed.
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

    /// The next frame that fits. Pings on the way are answered, everything else is passed over.
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

    /// The next frame of a type.
    pub async fn of(&mut self, word: &str) -> Value {
        self.until(|frame| frame["type"] == word).await
    }

    /// The next frames that have a number, so many of them.
    pub async fn numbered(&mut self, count: usize) -> Vec<Value> {
        let mut got = Vec::new();
        while got.len() < count {
            got.push(self.until(|frame| frame.get("event_seq").is_some()).await);
        }
        got
    }

    /// Requires that nothing with a number comes for a while.
    pub async fn silent(&mut self) {
        let waited = tokio::time::timeout(QUIET, self.numbered(1)).await;
        assert!(waited.is_err(), "came all the same: {waited:?}");
    }

    /// Waits for the end of the connection; the close frame, if there was one.
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

/// The numbers of frames.
pub fn seqs(frames: &[Value]) -> Vec<i64> {
    frames.iter().map(|frame| frame["event_seq"].as_i64().unwrap()).collect()
}
