//! Load clients: each has one connection and one request at a time, like a client library. They do as little
//! work per request as possible, because they run on the measured machine.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Result of a load.
#[derive(Debug, Default)]
pub struct Load {
    /// Acknowledged ids: client, channel, id, in each client's order.
    pub acked: Vec<(usize, usize, String)>,
    /// Microseconds from each request's due time to its answer.
    pub micros: Vec<u32>,
    /// Requests without a 2xx answer.
    pub failures: usize,
    /// Duration of the load.
    pub seconds: f64,
}

impl Load {
    /// Returns the acknowledged requests per second.
    pub fn rate(&self) -> f64 {
        self.acked.len() as f64 / self.seconds
    }

    /// Returns a quantile of the latencies, in microseconds.
    pub fn quantile(&mut self, q: f64) -> f64 {
        self.micros.sort_unstable();
        let index = ((self.micros.len() as f64 * q) as usize).min(self.micros.len().saturating_sub(1));
        self.micros.get(index).map_or(f64::NAN, |micros| f64::from(*micros))
    }

    fn absorb(&mut self, other: Self) {
        self.acked.extend(other.acked);
        self.micros.extend(other.micros);
        self.failures += other.failures;
    }
}

/// A connection with its read buffer.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Sends a request; returns the status and body of its answer.
    pub async fn exchange(&mut self, request: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(head) = find(&self.buffer, b"\r\n\r\n") {
                let length = content_length(&self.buffer[..head]);
                while self.buffer.len() < head + 4 + length {
                    if self.stream.read_buf(&mut self.buffer).await? == 0 {
                        return Err(std::io::ErrorKind::UnexpectedEof.into());
                    }
                }
                let status =
                    std::str::from_utf8(&self.buffer[9..12]).ok().and_then(|s| s.parse().ok()).unwrap_or(0);
                return Ok((status, self.buffer[head + 4..head + 4 + length].to_vec()));
            }
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn content_length(head: &[u8]) -> usize {
    let head = std::str::from_utf8(head).unwrap_or("");
    head.lines()
        .find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length:").and_then(|n| n.trim().parse().ok())
        })
        .unwrap_or(0)
}

/// Returns the id in an acknowledgement: the first one in the body is the message's own.
fn id(body: &[u8]) -> Option<String> {
    let at = find(body, b"\"id\":\"")? + 6;
    let end = body[at..].iter().position(|byte| *byte == b'"')?;
    String::from_utf8(body[at..at + end].to_vec()).ok()
}

/// Builds a request.
pub fn request(method: &str, path: &str, key: &str, extra: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: bench\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n{extra}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Runs `clients` closed-loop clients for `time`; `make` builds the nth request of a client and names its
/// channel.
pub async fn closed(
    address: SocketAddr,
    clients: usize,
    time: Duration,
    make: impl Fn(usize, usize) -> (usize, Vec<u8>) + Clone + Send + 'static,
) -> Load {
    run(address, clients, time, None, make).await
}

/// As [`closed`], but each client sends at its own steady pace, whether or not the server keeps up: latency
/// counts from a request's due time, so that delayed requests do not hide a stall.
pub async fn paced(
    address: SocketAddr,
    clients: usize,
    time: Duration,
    per_second: f64,
    make: impl Fn(usize, usize) -> (usize, Vec<u8>) + Clone + Send + 'static,
) -> Load {
    let pause = Duration::from_secs_f64(clients as f64 / per_second);
    run(address, clients, time, Some(pause), make).await
}

async fn run(
    address: SocketAddr,
    clients: usize,
    time: Duration,
    pause: Option<Duration>,
    make: impl Fn(usize, usize) -> (usize, Vec<u8>) + Clone + Send + 'static,
) -> Load {
    let began = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let make = make.clone();
            tokio::spawn(async move {
                let mut load = Load::default();
                let mut connection = Connection::open(address).await.expect("the server accepts");
                let offset =
                    pause.map_or(Duration::ZERO, |pause| pause.mul_f64(client as f64 / clients as f64));
                let start = Instant::now() + offset;
                for n in 0.. {
                    let mut due = pause.map_or_else(Instant::now, |pause| start + pause.mul_f64(n as f64));
                    if pause.is_some() && Instant::now() < due {
                        tokio::time::sleep_until(due.into()).await;
                        // The client was idle: a late timer is not the server's fault.
                        due = Instant::now();
                    }
                    if began.elapsed() >= time {
                        break;
                    }
                    let (channel, bytes) = make(client, n);
                    match connection.exchange(&bytes).await {
                        Ok((200..=299, body)) => {
                            load.micros.push(u32::try_from(due.elapsed().as_micros()).unwrap_or(u32::MAX));
                            load.acked.push((client, channel, id(&body).unwrap_or_default()));
                        }
                        Ok((status, body)) => {
                            if load.failures == 0 {
                                eprintln!("a request failed: {status} {}", String::from_utf8_lossy(&body));
                            }
                            load.failures += 1;
                        }
                        Err(e) => {
                            eprintln!("a connection failed: {e}");
                            load.failures += 1;
                            break;
                        }
                    }
                }
                load
            })
        })
        .collect();
    let mut total = Load::default();
    for task in tasks {
        total.absorb(task.await.expect("a client ends"));
    }
    total.seconds = began.elapsed().as_secs_f64();
    total
}
