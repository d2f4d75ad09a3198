//! Proxy between a server and its PostgreSQL that forwards everything until the test stalls it. The
//! connections then stay open but nothing passes, as with a cut cable or a router that has dropped its state.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};
use tokio::task::JoinHandle;

use crate::Cluster;

#[derive(Default)]
struct State {
    /// Number of connections so far; each connection has its number.
    made: AtomicU64,
    /// Connections up to this number are stalled.
    stalled: AtomicU64,
    /// Statements that clients have sent.
    statements: AtomicU64,
    /// Milliseconds by which PostgreSQL's responses are delayed.
    slow: AtomicU64,
}

pub struct Proxy {
    pub address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy to the run's PostgreSQL.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let (shared, socket) = (Arc::clone(&state), Cluster::get().socket());
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                client.set_nodelay(true).unwrap();
                let number = shared.made.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::spawn(pass(client, socket.clone(), Arc::clone(&shared), number));
            }
        });
        Self { address, state, task }
    }

    /// Returns the connect options for a database behind the proxy.
    pub fn options(&self, database: &str) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(self.address.port())
            .username("entente")
            .database(database)
            .ssl_mode(PgSslMode::Disable)
    }

    /// Stalls all existing connections; new ones work.
    pub fn stall(&self) {
        self.state.stalled.store(self.state.made.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Stalls all connections, including new ones.
    pub fn cut(&self) {
        self.state.stalled.store(u64::MAX, Ordering::SeqCst);
    }

    /// Ends all stalls.
    pub fn go_on(&self) {
        self.state.stalled.store(0, Ordering::SeqCst);
    }

    /// Returns the number of statements so far.
    pub fn statements(&self) -> u64 {
        self.state.statements.load(Ordering::SeqCst)
    }

    /// Delays responses by this duration.
    pub fn slow(&self, by: Duration) {
        self.state.slow.store(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

/// Finds the messages that execute a statement in what a client sends.
struct Statements {
    /// Bytes of the current message that are still to come.
    rest: usize,
    /// The beginning of the next message, until its length is known.
    head: Vec<u8>,
    /// Whether the first message, which has no type, has passed.
    began: bool,
}

impl Statements {
    fn count(&mut self, mut bytes: &[u8]) -> u64 {
        let mut found = 0;
        while !bytes.is_empty() {
            if self.rest > 0 {
                let taken = self.rest.min(bytes.len());
                self.rest -= taken;
                bytes = &bytes[taken..];
                continue;
            }
            self.head.push(bytes[0]);
            bytes = &bytes[1..];
            let kind = usize::from(self.began);
            if self.head.len() == kind + 4 {
                let length = u32::from_be_bytes(self.head[kind..].try_into().unwrap());
                self.rest = usize::try_from(length).unwrap() - 4;
                // A simple query, or the execution of a prepared statement.
                found += u64::from(self.began && matches!(self.head[0], b'Q' | b'E'));
                self.began = true;
                self.head.clear();
            }
        }
        found
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(client: tokio::net::TcpStream, socket: PathBuf, state: Arc<State>, number: u64) {
    let Ok(server) = UnixStream::connect(socket).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = forward(from_client, to_server, &state, number, false) => {}
        () = forward(from_server, to_client, &state, number, true) => {}
    }
}

async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    state: &State,
    number: u64,
    answers: bool,
) {
    let mut bytes = vec![0; 16 * 1024];
    let mut statements = Statements { rest: 0, head: Vec::new(), began: false };
    loop {
        let Ok(read @ 1..) = from.read(&mut bytes).await else { return };
        if !answers {
            state.statements.fetch_add(statements.count(&bytes[..read]), Ordering::SeqCst);
        }
        let slow = state.slow.load(Ordering::SeqCst);
        if answers && slow > 0 {
            tokio::time::sleep(Duration::from_millis(slow)).await;
        }
        while number <= state.stalled.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
