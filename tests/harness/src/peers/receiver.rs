//! Webhook receiver on a real socket: it records its requests and responds as the test configures it.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use entente_domain::webhooks::signing::Secret;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Upper bound for anything that a receiver waits for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Response behaviour of a receiver.
#[derive(Debug, Clone)]
pub enum Act {
    /// A status with a body.
    Say(u16, &'static str),
    /// A status with a header.
    Header(u16, &'static str, String),
    /// A status, after this time.
    Late(Duration, u16),
    /// Never responds.
    Hang,
    /// Closes the connection.
    Close,
    /// Sends an endless body.
    Flood,
    /// Sends a status, but never the body.
    Drip(u16),
    /// Responds 200 to requests with this authorization and 401 to all others.
    Admit(&'static str),
}

/// A received request.
#[derive(Debug, Clone)]
pub struct Got {
    pub path: String,
    pub headers: HashMap<String, String>,
    pub text: String,
}

impl Got {
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    pub fn id(&self) -> &str {
        &self.headers["webhook-id"]
    }

    /// Whether one of its signatures was made with this secret.
    pub fn signed_by(&self, secret: &str) -> bool {
        let at: i64 = self.headers["webhook-timestamp"].parse().unwrap();
        let expected = Secret::parse(secret).unwrap().sign(self.id(), at, self.text.as_bytes());
        self.headers["webhook-signature"].split(' ').any(|signature| signature == expected)
    }
}

#[derive(Default)]
struct State {
    got: Mutex<Vec<Got>>,
    /// The next behaviours; the last one repeats.
    acts: Mutex<VecDeque<Act>>,
    connections: AtomicUsize,
}

pub struct Receiver {
    pub address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    /// Starts a receiver that accepts everything.
    pub async fn start() -> Self {
        Self::on("127.0.0.1:0").await
    }

    /// Starts a receiver at an address.
    pub async fn on(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                shared.connections.fetch_add(1, Ordering::Relaxed);
                let shared = Arc::clone(&shared);
                tokio::spawn(async move { serve(stream, shared).await });
            }
        });
        Self { address, state, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Sets the behaviours, one per request; the last one repeats.
    pub fn does(&self, acts: impl IntoIterator<Item = Act>) {
        *self.state.acts.lock().unwrap() = acts.into_iter().collect();
    }

    /// Returns the requests so far.
    pub fn got(&self) -> Vec<Got> {
        self.state.got.lock().unwrap().clone()
    }

    /// Returns the number of requests so far.
    pub fn count(&self) -> usize {
        self.state.got.lock().unwrap().len()
    }

    /// Returns the ids of the requests so far.
    pub fn ids(&self) -> Vec<String> {
        self.state.got.lock().unwrap().iter().map(|got| got.id().to_owned()).collect()
    }

    /// Returns the requests so far and clears them.
    pub fn take(&self) -> Vec<Got> {
        std::mem::take(&mut self.state.got.lock().unwrap())
    }

    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// Waits for at least `count` requests.
    pub async fn until(&self, count: usize) -> Vec<Got> {
        let began = Instant::now();
        loop {
            if self.count() >= count {
                return self.got();
            }
            assert!(began.elapsed() < PATIENCE, "only {} of {count} came", self.count());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    let mut buffer = Vec::new();
    while let Some(got) = request(&mut stream, &mut buffer).await {
        let authorization = got.headers.get("authorization").cloned();
        state.got.lock().unwrap().push(got);
        let act = {
            let mut acts = state.acts.lock().unwrap();
            let next = if acts.len() > 1 { acts.pop_front() } else { acts.front().cloned() };
            next.unwrap_or(Act::Say(200, ""))
        };
        let head = |status: u16, more: &str, length: usize| {
            format!("HTTP/1.1 {status} Said\r\n{more}content-length: {length}\r\n\r\n")
        };
        let said = match act {
            Act::Say(status, body) => head(status, "", body.len()) + body,
            Act::Header(status, name, value) => head(status, &format!("{name}: {value}\r\n"), 0),
            Act::Admit(one) => head(if authorization.as_deref() == Some(one) { 200 } else { 401 }, "", 0),
            Act::Late(time, status) => {
                tokio::time::sleep(time).await;
                head(status, "", 0)
            }
            Act::Hang => return std::future::pending().await,
            Act::Close => return,
            Act::Drip(status) => {
                let _gone = stream.write_all(head(status, "", 9).as_bytes()).await;
                return std::future::pending().await;
            }
            Act::Flood => {
                let _gone = stream.write_all(head(200, "", 1 << 40).as_bytes()).await;
                while stream.write_all(&[b'x'; 8_192]).await.is_ok() {}
                return;
            }
        };
        if stream.write_all(said.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads one request; `None` at the end of the connection.
async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Got> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer.drain(..end).collect()).unwrap();
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    // A request without a body may have no `Content-Length`.
    let length: usize = headers.get("content-length").map_or(Some(0), |length| length.parse().ok())?;
    while buffer.len() < length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let text = String::from_utf8(buffer.drain(..length).collect()).unwrap();
    Some(Got { path, headers, text })
}
