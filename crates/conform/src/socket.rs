//! A WebSocket to the server under test (RFC 6455), opened with the HTTP client of all requests, so that TLS is the same.

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::Upgraded;
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::finding::{Finding, failed};
use crate::site::{Site, Who};

/// Largest frame that is taken.
const FRAME: usize = 4 << 20;

/// An open WebSocket.
pub(crate) struct Socket<'a> {
    site: &'a Site,
    wire: WebSocketStream<Upgraded>,
}

impl<'a> Socket<'a> {
    /// Opens a WebSocket.
    pub(crate) async fn open(site: &'a Site, path: &str) -> Result<Self, Finding> {
        let key = generate_key();
        let request = site.get(path).by(Who::Nobody).within(site.check_limit());
        let request = request.header("connection", "Upgrade").header("upgrade", "websocket");
        let request = request.header("sec-websocket-version", "13").header("sec-websocket-key", &key);
        let Ok(opened) = timeout(site.limit, request.open()).await else {
            site.fell_silent();
            return Err(failed(
                "an open WebSocket",
                format!("nothing within {} s", site.limit.as_secs_f32()),
            ));
        };
        let response = opened?;
        let status = response.status().as_u16();
        site.note(&format!("← {status}"));
        let accepted = response.headers().get("sec-websocket-accept").map(|value| value.as_bytes().to_vec());
        if status != 101 || accepted.as_deref() != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
            return Err(failed("an open WebSocket (101)", format!("the status {status}")));
        }
        let wire = response.upgrade().await.map_err(|error| failed("an open WebSocket", error))?;
        let limits = WebSocketConfig::default().max_message_size(Some(FRAME)).max_frame_size(Some(FRAME));
        Ok(Self { site, wire: WebSocketStream::from_raw_socket(wire, Role::Client, Some(limits)).await })
    }

    /// Sends a text.
    pub(crate) async fn send(&mut self, text: &str) -> Result<(), Finding> {
        self.site.note(&format!("→ {text}"));
        match timeout(self.site.limit, self.wire.send(Message::text(text))).await {
            Ok(sent) => sent.map_err(|error| failed("a server that takes a frame", error)),
            Err(_late) => Err(failed("a server that takes a frame", "it does not read")),
        }
    }

    /// Returns the next text frame as JSON; nothing if the server closes instead.
    pub(crate) async fn next(&mut self, end: Instant) -> Result<Option<Value>, Finding> {
        loop {
            let message = match timeout_at(end, self.wire.next()).await {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(error))) => {
                    self.site.note(&format!("← closed: {error}"));
                    return Ok(None);
                }
                Ok(None) => return Ok(None),
                Err(_late) => return Err(failed("a frame", "none in time")),
            };
            match message {
                Message::Text(text) => {
                    self.site.note(&format!("← {text}"));
                    let parsed = serde_json::from_str(&text);
                    return parsed
                        .map(Some)
                        .map_err(|error| failed("a frame of JSON", format!("{error}: {text}")));
                }
                Message::Close(_) => {
                    self.site.note("← close");
                    return Ok(None);
                }
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }
}
