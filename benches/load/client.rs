//! Load clients: each has one connection and one request at a time, like a client library. They do as little
//! work per request as possible, because they run on the measured machine; a load says how much it was.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Time after the end of a load within which its last answers come.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

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
    /// Processor time in seconds that the clients used.
    pub processor: f64,
    /// What each request has cost, in words, if it was measured.
    pub costs: String,
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

    /// Returns the clients' share of the machine's processor time, in percent.
    pub fn share(&self) -> f64 {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        100.0 * self.processor / (self.seconds * cores as f64)
    }

    fn fail(&mut self, why: &str) {
        if self.failures == 0 {
            eprintln!("{why}");
        }
        self.failures += 1;
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
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if let Some((status, body)) = whole(&self.buffer) {
                return Ok((status, self.buffer[body].to_vec()));
            }
        }
    }
}

/// Returns the status of an answer and the place of its body, when it is whole.
fn whole(answer: &[u8]) -> Option<(u16, Range<usize>)> {
    let head = find(answer, b"\r\n\r\n")?;
    let body = head + 4..head + 4 + content_length(&answer[..head]);
    let status = std::str::from_utf8(answer.get(9..12)?).ok()?.parse().unwrap_or(0);
    (answer.len() >= body.end).then_some((status, body))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Returns the length of a body; Entente writes names of header fields in small letters.
fn content_length(head: &[u8]) -> usize {
    let name = b"content-length: ";
    let other = || head.windows(name.len()).position(|window| window.eq_ignore_ascii_case(name));
    let Some(at) = find(head, name).or_else(other) else { return 0 };
    let digits = head[at + name.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
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

/// Sends a request on a connection of its own; returns the answer's body, which must be of a success.
pub async fn ask(address: SocketAddr, method: &str, path: &str, key: &str, body: &Value) -> Value {
    let mut connection = Connection::open(address).await.unwrap();
    let bytes = request(method, &format!("/api/v1{path}"), key, "", &body.to_string());
    let (status, body) = connection.exchange(&bytes).await.unwrap();
    assert!((200..300).contains(&status), "{path}: {status} {}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).unwrap()
}

/// Runs `clients` closed-loop clients for `time`; `make` builds the nth request of a client and names its
/// channel.
pub async fn closed(
    address: SocketAddr,
    clients: usize,
    time: Duration,
    make: impl Fn(usize, usize) -> (usize, Vec<u8>) + Clone + Send + 'static,
) -> Load {
    run(address, clients, time, &Talk::Http, None, make).await
}

/// As [`closed`], in another protocol.
pub async fn closed_in(
    talk: &Talk,
    address: SocketAddr,
    clients: usize,
    time: Duration,
    make: impl Fn(usize, usize) -> (usize, Vec<u8>) + Clone + Send + 'static,
) -> Load {
    run(address, clients, time, talk, None, make).await
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
    run(address, clients, time, &Talk::Http, Some(pause), make).await
}

async fn run(
    address: SocketAddr,
    clients: usize,
    time: Duration,
    talk: &Talk,
    pause: Option<Duration>,
    make: impl Fn(usize, usize) -> (usize, Vec<u8>) + Send + 'static,
) -> Load {
    let talk = talk.clone();
    let driven = tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        let clients = (0..clients).map(|number| {
            let start = pause.map(|pause| began + pause.mul_f64(number as f64 / clients as f64));
            Client::open(address, number, &talk, start.zip(pause)).expect("the server accepts")
        });
        drive(clients.collect(), began, time, &make)
    });
    driven.await.expect("the clients end")
}

/// Drives all clients on one thread, without an asynchronous runtime: the less a request costs here, the more is left of
/// the machine for the server.
fn drive(
    mut clients: Vec<Client>,
    began: Instant,
    time: Duration,
    make: &impl Fn(usize, usize) -> (usize, Vec<u8>),
) -> Load {
    let (mut poll, mut events) = (Poll::new().unwrap(), Events::with_capacity(1024));
    let (mut load, spent) = (Load::default(), processor());
    for client in &mut clients {
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut client.stream, Token(client.number), interest).unwrap();
    }
    loop {
        let now = Instant::now();
        let over = now.duration_since(began) >= time;
        for client in clients.iter_mut().filter(|client| client.state == State::Idle) {
            if over {
                client.state = State::Closed;
            } else if client.due <= now {
                client.send(make, now, &mut load);
            }
        }
        if clients.iter().all(|client| client.state == State::Closed) {
            break;
        }
        assert!(now.duration_since(began) < time + ANSWER_LIMIT, "clients wait for answers");
        let next = clients.iter().filter(|client| client.state == State::Idle).map(|client| client.due).min();
        let limit = next.map_or(ANSWER_LIMIT, |due| due.saturating_duration_since(now));
        match poll.poll(&mut events, Some(limit)) {
            // The process was stopped, and goes on.
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            polled => polled.unwrap(),
        }
        for event in &events {
            clients[event.token().0].advance(&mut load);
        }
    }
    load.seconds = began.elapsed().as_secs_f64();
    load.processor = processor() - spent;
    load
}

/// Protocol of a load.
#[derive(Debug, Clone, Deserialize)]
pub enum Talk {
    Http,
    /// Lines of text: a connection sends `hello`, with its number for `{client}`, and reads until `welcome`; an answer goes
    /// up to `end`, and is a refusal if it contains `refusal`.
    Lines {
        hello: String,
        welcome: String,
        end: String,
        refusal: String,
    },
}

impl Talk {
    /// Greets the server on a new connection.
    fn greet(&self, stream: &mut std::net::TcpStream, number: usize) -> std::io::Result<()> {
        let Self::Lines { hello, welcome, .. } = self else { return Ok(()) };
        stream.write_all(hello.replace("{client}", &number.to_string()).as_bytes())?;
        let (mut heard, mut part) = (Vec::new(), [0; 4096]);
        while find(&heard, welcome.as_bytes()).is_none() {
            match stream.read(&mut part)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => heard.extend_from_slice(&part[..count]),
            }
        }
        Ok(())
    }

    /// Returns the status of an answer and the place of its body, when it is whole.
    fn whole(&self, answer: &[u8]) -> Option<(u16, Range<usize>)> {
        match self {
            Self::Http => whole(answer),
            // The server may say more of its own accord, before and after.
            Self::Lines { end, refusal, .. } => find(answer, end.as_bytes()).map(|at| {
                let status = if find(answer, refusal.as_bytes()).is_some() { 400 } else { 200 };
                (status, 0..at + end.len())
            }),
        }
    }
}

/// State of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Until its next request is due.
    Idle,
    /// A request is being sent, or waits for its answer.
    Busy,
    /// It sends no more.
    Closed,
}

/// A client of a load.
struct Client {
    number: usize,
    talk: Talk,
    stream: mio::net::TcpStream,
    state: State,
    /// Start and interval of its requests, if they are paced.
    pace: Option<(Instant, Duration)>,
    /// Number of its requests so far.
    requests: usize,
    /// Time of its next request, and whether it had passed already when the answer before came.
    due: Instant,
    late: bool,
    /// Time from which the request in progress is measured, its channel, its bytes, and how many were sent.
    from: Instant,
    channel: usize,
    request: Vec<u8>,
    sent: usize,
    answer: Vec<u8>,
}

impl Client {
    fn open(
        address: SocketAddr,
        number: usize,
        talk: &Talk,
        pace: Option<(Instant, Duration)>,
    ) -> std::io::Result<Self> {
        let mut stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        talk.greet(&mut stream, number)?;
        stream.set_nonblocking(true)?;
        let now = Instant::now();
        Ok(Self {
            number,
            talk: talk.clone(),
            stream: mio::net::TcpStream::from_std(stream),
            state: State::Idle,
            pace,
            requests: 0,
            due: pace.map_or(now, |(start, _)| start),
            late: false,
            from: now,
            channel: 0,
            request: Vec::new(),
            sent: 0,
            answer: Vec::with_capacity(4096),
        })
    }

    /// Begins the next request.
    fn send(&mut self, make: &impl Fn(usize, usize) -> (usize, Vec<u8>), now: Instant, load: &mut Load) {
        (self.channel, self.request) = make(self.number, self.requests);
        // A client that was idle until now is not late: a late timer is not the server's fault.
        self.from = if self.late { self.due } else { now };
        self.requests += 1;
        self.sent = 0;
        self.answer.clear();
        self.state = State::Busy;
        self.advance(load);
    }

    /// Sends and receives what is possible now.
    fn advance(&mut self, load: &mut Load) {
        if self.state != State::Busy {
            return;
        }
        match self.exchange() {
            Ok(None) => {}
            Ok(Some((status, body))) => {
                let now = Instant::now();
                if (200..300).contains(&status) {
                    let micros = now.duration_since(self.from).as_micros();
                    load.micros.push(u32::try_from(micros).unwrap_or(u32::MAX));
                    let id = id(&self.answer[body]).unwrap_or_default();
                    load.acked.push((self.number, self.channel, id));
                } else {
                    load.fail(&format!(
                        "a request failed: {status} {}",
                        String::from_utf8_lossy(&self.answer[body])
                    ));
                }
                self.due =
                    self.pace.map_or(now, |(start, pause)| start + pause.mul_f64(self.requests as f64));
                self.late = self.pace.is_some() && self.due <= now;
                self.state = State::Idle;
            }
            Err(e) => {
                load.fail(&format!("a connection failed: {e}"));
                self.state = State::Closed;
            }
        }
    }

    /// Returns the status and the place of the body, when the answer is whole.
    fn exchange(&mut self) -> std::io::Result<Option<(u16, Range<usize>)>> {
        while self.sent < self.request.len() {
            match self.stream.write(&self.request[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) => return Err(e),
            }
        }
        let mut part = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.answer.extend_from_slice(&part[..count]);
                    // There is no more at present.
                    if count < part.len() {
                        break;
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        Ok(self.talk.whole(&self.answer))
    }
}

/// Returns the processor time in seconds that this process has used; 0 on systems without /proc.
fn processor() -> f64 {
    std::fs::read_to_string("/proc/self/stat").map_or(0.0, |stat| ticks(&stat))
}

/// Returns the processor time in seconds from the text of a process's `stat`.
pub fn ticks(stat: &str) -> f64 {
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / rustix::param::clock_ticks_per_second() as f64
}
