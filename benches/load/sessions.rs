//! Scenes of ARCP's sessions over WebSocket: latency of a submission, and memory of an idle session.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use super::jobs::register;
use super::report::Report;
use super::scale::scaled;
use super::stage::{KEY, Stage};

/// Measured idle sessions, and sessions opened before them so that shared memory is already allocated.
const IDLE: usize = 2_000;
const FIRST: usize = 100;

/// Measured submissions.
const SUBMITS: usize = 1_000;

/// A session.
struct Session(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Session {
    /// Opens a session with the capabilities that the client libraries request.
    async fn open(address: SocketAddr) -> Self {
        // A client's default buffers for two thousand sessions would take a quarter of a gigabyte.
        let config = WebSocketConfig::default().read_buffer_size(4 * 1024);
        let (wire, _) =
            connect_async_with_config(format!("ws://{address}/arcp"), Some(config), true).await.unwrap();
        let mut session = Self(wire);
        let hello = json!({
            "client": { "name": "bench", "version": "1" }, "auth": { "scheme": "bearer", "token": KEY },
            "capabilities": { "encodings": ["json"], "features": ["heartbeat", "ack", "list_jobs", "subscribe"] },
        });
        session.say("hello", "session.hello", &hello).await;
        session.until("session.welcome").await;
        session
    }

    async fn say(&mut self, id: &str, word: &str, payload: &Value) {
        let text = json!({ "arcp": "1.1", "id": id, "type": word, "payload": payload }).to_string();
        self.0.send(Message::text(text)).await.unwrap();
    }

    /// Returns the next frame of this type; answers pings that come before it.
    async fn until(&mut self, word: &str) -> Value {
        loop {
            let Message::Text(text) = self.0.next().await.expect("the session lives").unwrap() else {
                continue;
            };
            let frame: Value = serde_json::from_str(&text).unwrap();
            if frame["type"] == word {
                return frame;
            }
            assert_eq!(frame["type"], "session.ping", "{frame}");
            let pong = json!({ "ping_nonce": frame["payload"]["nonce"] });
            self.say("pong", "session.pong", &pong).await;
        }
    }
}

/// Time from a submission to its acceptance, which is durable by then: one session, one job at a time.
pub async fn submit(stage: &Stage, report: &mut Report) {
    register(stage.server.address).await;
    let mut session = Session::open(stage.server.address).await;
    let ask = json!({ "agent": "echo", "input": { "x": 1 } });
    let submits = scaled(SUBMITS, 50);
    let mut millis = Vec::with_capacity(submits);
    for n in 0..submits {
        let id = format!("submit-{n}");
        let begun = Instant::now();
        session.say(&id, "job.submit", &ask).await;
        let told = session.until("job.accepted").await;
        millis.push(begun.elapsed().as_secs_f64() * 1e3);
        assert_eq!(told["payload"]["request_id"], id.as_str());
    }
    millis.sort_by(f64::total_cmp);
    let (p50, p99) = (millis[submits / 2], millis[submits * 99 / 100]);
    let detail = format!("from `job.submit` to `job.accepted`, one session, one at a time; p99 {p99:.1} ms");
    report.add("Submit over WebSocket", format!("p50 {p50:.2} ms"), "< 2 ms", p50 < 2.0, detail);
}

/// Memory of an open, idle session.
pub async fn idle(stage: &Stage, report: &mut Report) {
    let (first, idle) = (scaled(FIRST, 10), scaled(IDLE, 50));
    let mut held = Vec::with_capacity(first + idle);
    for _ in 0..first {
        held.push(Session::open(stage.server.address).await);
    }
    let before = stage.server.memory();
    for _ in 0..idle {
        held.push(Session::open(stage.server.address).await);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let each = stage.server.memory().saturating_sub(before) as f64 / idle as f64;
    let detail = format!("{each:.0} bytes of resident memory each, of {idle} that are open and do nothing");
    let figure = format!("{:.1} KB", each / 1024.0);
    report.add("Idle session", figure, "≤ 32 KB", each <= 32.0 * 1024.0, detail);
}
