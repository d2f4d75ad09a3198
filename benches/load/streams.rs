//! Scenes of streams: the cost of a thousand subscribers for senders, the memory of an idle stream, and the
//! delay from one server's message to another's stream.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::client::closed;
use super::report::{Report, median};
use super::scale::{rounds, scaled, spell};
use super::stage::{KEY, Stage};

/// Idle connections of R10, and connections opened before them.
const IDLE: usize = 5_000;
const FIRST: usize = 100;

async fn subscribe(address: SocketAddr, intent: &str) -> TcpStream {
    follow(address, &format!("/subscribe/intents/{intent}")).await
}

async fn follow(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let ask = format!("GET /api/v1{path} HTTP/1.1\r\nhost: bench\r\nx-api-key: {KEY}\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut greeting = Vec::new();
    while !greeting.windows(5).any(|part| part == b"retry") {
        assert!(stream.read_buf(&mut greeting).await.unwrap() > 0, "a stream was refused");
    }
    assert!(greeting.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&greeting));
    stream
}

/// Streams read by tasks, and the number of frames received.
struct Audience {
    tasks: Vec<JoinHandle<()>>,
    frames: Arc<AtomicU64>,
}

impl Audience {
    async fn gather(address: SocketAddr, intents: &[String], count: usize) -> Self {
        let frames = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for index in 0..count {
            let mut stream = subscribe(address, &intents[index % intents.len()]).await;
            let frames = Arc::clone(&frames);
            tasks.push(tokio::spawn(async move {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    let seen = buffer[..read].windows(4).filter(|part| part == b"\nid:").count();
                    let first = usize::from(buffer.starts_with(b"id:"));
                    frames.fetch_add((seen + first) as u64, Ordering::Relaxed);
                }
            }));
        }
        Self { tasks, frames }
    }

    async fn leave(self) {
        for task in self.tasks {
            task.abort();
            let _cancelled = task.await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// R7: sends per second with 1,000 subscribers spread over 100 intents, beside sends without subscribers.
pub async fn subscribers(stage: &Stage, report: &mut Report) {
    let talks = stage.talks(scaled(100, 10), &json!({ "max_messages": 1_000_000 })).await;
    let (intents, channels): (Vec<String>, Vec<String>) = talks.into_iter().unzip();
    let address = stage.server.address;
    let send = async || {
        let to = channels.clone();
        let load = closed(address, 32, spell(), move |client, n| {
            let channel = (client * 7_919 + n * 31) % to.len();
            (channel, Stage::message(&to[channel], client, ""))
        })
        .await;
        stage.check(&load, &channels).await;
        load.rate()
    };
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let (mut delivered, mut processor) = (0, 0.0);
    for _ in 0..rounds() {
        without.push(send().await);
        let audience = Audience::gather(address, &intents, scaled(1_000, 50)).await;
        let before = stage.server.processor();
        with.push(send().await);
        processor += stage.server.processor() - before;
        tokio::time::sleep(Duration::from_millis(500)).await;
        delivered += audience.frames.load(Ordering::Relaxed);
        audience.leave().await;
    }
    let (without, with) = (median(without), median(with));
    let detail = format!(
        "{with:.0} sends/s with 1,000 subscribers on 100 intents, {without:.0} with none; {:.0} deliveries per second \
         of the server's processor time, sending included",
        delivered as f64 / processor
    );
    report.add("R7 subscribers", format!("{:.2}", with / without), "≥ 0.8", with >= 0.8 * without, detail);
}

/// R10: memory of an idle stream.
pub async fn idle(stage: &Stage, report: &mut Report) {
    let (first, idle) = (scaled(FIRST, 10), scaled(IDLE, 50));
    let talks = stage.talks(scaled(100, 10), &json!({})).await;
    // The first streams make the server allocate shared memory.
    let mut held = Vec::new();
    for index in 0..first {
        held.push(subscribe(stage.server.address, &talks[index % talks.len()].0).await);
    }
    let before = stage.server.memory();
    for index in 0..idle {
        held.push(subscribe(stage.server.address, &talks[index % talks.len()].0).await);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let each = stage.server.memory().saturating_sub(before) as f64 / idle as f64 / 1024.0;
    let detail = format!("resident memory that {idle} idle streams on 100 intents add");
    report.add("R10 idle stream", format!("{each:.1} KB"), "≤ 12 KB", each <= 12.0, detail);
}

/// Delay from a message sent to one server until it is on the other's stream, of its intent and of everything, without
/// other load.
pub async fn two_servers(stage: &Stage, report: &mut Report) {
    let other = stage.second_server();
    let (intent, channel) = stage.talks(1, &json!({})).await.remove(0);
    // The servers detect each other within the interval of their presence signal.
    tokio::time::sleep(Duration::from_secs(3)).await;
    for (name, path, aim, most) in [
        ("Two servers", format!("/subscribe/intents/{intent}"), "≤ 30 ms", 30.0),
        ("Two servers, everything", "/subscribe".to_owned(), "≤ 50 ms", 50.0),
    ] {
        let stream = follow(other.address, &path).await;
        let mut micros = delays(stage, &channel, stream).await;
        let count = micros.len();
        micros.sort_by(f64::total_cmp);
        let p99 = micros[count * 99 / 100 - 1] / 1e3;
        let detail = format!(
            "from the request on one server to the frame of `{}` on the other; p50 {:.1} ms",
            path.replace(&intent, "…"),
            median(micros) / 1e3
        );
        report.add(name, format!("p99 {p99:.1} ms"), aim, p99 <= most, detail);
    }
    other.stop();
}

/// Sends messages to the stage's server, and returns the microseconds until each is on a stream.
async fn delays(stage: &Stage, channel: &str, mut stream: TcpStream) -> Vec<f64> {
    let mut sender = super::client::Connection::open(stage.server.address).await.unwrap();
    let (count, mut micros) = (scaled(300, 20), Vec::new());
    for n in 0..count {
        let body = json!({ "sender": "agent-0", "payload": { "mark": format!("mark-{n}-") } });
        let path = format!("/api/v1/channels/{channel}/messages");
        let bytes = super::client::request("POST", &path, KEY, "", &body.to_string());
        let begun = Instant::now();
        let (status, _) = sender.exchange(&bytes).await.unwrap();
        assert_eq!(status, 201);
        let (mark, mut heard) = (format!("mark-{n}-"), Vec::new());
        while !heard.windows(mark.len()).any(|part| part == mark.as_bytes()) {
            let read = tokio::time::timeout(Duration::from_secs(10), stream.read_buf(&mut heard)).await;
            assert!(read.expect("the other server never told").unwrap() > 0, "the stream broke");
        }
        micros.push(begun.elapsed().as_secs_f64() * 1e6);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    micros
}
