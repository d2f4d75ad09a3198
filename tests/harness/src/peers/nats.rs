//! A real NATS server on the loopback address, with a user and a password; also with `JetStream`, whose streams a test reads.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use async_nats::{Client, ConnectOptions, HeaderMap};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::Setup;
use crate::peers::process::{Place, free_address};

/// Upper bound for its start.
const PATIENCE: Duration = Duration::from_secs(20);

/// Places of the program that are not on the path of every user.
const PLACES: [&str; 3] = ["/usr/sbin", "/opt/homebrew/bin", "/usr/local/bin"];

/// Largest message of a server with streams, in bytes.
pub const MAX_PAYLOAD: usize = 131_072;

/// A NATS server, running or killed.
pub struct Nats {
    child: Child,
    port: u16,
    place: Place,
    /// Whether it has `JetStream`.
    streams: bool,
}

fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain(PLACES.map(PathBuf::from));
    let found = places.find_map(|dir| Some(dir.join("nats-server")).filter(|program| program.exists()));
    found.expect("no nats-server: `make setup` installs it")
}

fn spawn(port: u16, place: &Place, streams: bool) -> Child {
    let log = fs::File::options().create(true).append(true).open(place.0.join("server.log")).unwrap();
    let port = port.to_string();
    let mut command = Command::new(program());
    command.args(["--addr", "127.0.0.1", "--port", &port, "--user", "entente", "--pass", "se/cret"]);
    if streams {
        let config = place.0.join("server.conf");
        fs::write(&config, format!("max_payload: {MAX_PAYLOAD}\n")).unwrap();
        command.arg("--config").arg(config);
        command.arg("--jetstream").arg("--store_dir").arg(place.0.join("streams"));
    }
    command.current_dir(&place.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let child = command.spawn().unwrap();
    // Ends it if this process is killed.
    fs::write(place.0.join("server.pid"), child.id().to_string()).unwrap();
    child
}

impl Nats {
    /// Starts it.
    pub fn start() -> Self {
        Self::begin(false)
    }

    /// Starts it with `JetStream`.
    pub fn streaming() -> Self {
        Self::begin(true)
    }

    fn begin(streams: bool) -> Self {
        let (place, port) = (Place::new("nats"), free_address().port());
        let nats = Self { child: spawn(port, &place, streams), port, place, streams };
        nats.wait();
        nats
    }

    fn wait(&self) {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(began.elapsed() < PATIENCE, "NATS does not start:\n{}", self.place.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again at the same address.
    pub fn restart(&mut self) {
        self.child = spawn(self.port, &self.place, self.streams);
        self.wait();
    }

    /// Returns its URL, with a password that had to be escaped.
    pub fn url(&self) -> String {
        Self::url_at(self.address())
    }

    /// Returns its URL behind something that listens there.
    pub fn url_at(address: SocketAddr) -> String {
        format!("nats://entente:se%2Fcret@{address}")
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Makes a stream of these subjects, with more of its configuration.
    pub async fn stream(&self, name: &str, subjects: &str, more: Value) -> Stream {
        let options = ConnectOptions::new().user_and_password("entente".to_owned(), "se/cret".to_owned());
        let options = options.retry_on_initial_connect();
        let client = options.connect(format!("127.0.0.1:{}", self.port)).await.unwrap();
        let stream = Stream { client, name: name.to_owned() };
        let mut config =
            json!({ "name": name, "subjects": [subjects], "storage": "file", "num_replicas": 1 });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let made = stream.ask("CREATE", config).await;
        assert!(made["error"].is_null(), "{made}");
        stream
    }
}

/// A stream of `JetStream`.
pub struct Stream {
    client: Client,
    pub name: String,
}

/// A message of a stream.
#[derive(Debug)]
pub struct Streamed {
    pub subject: String,
    headers: Vec<(String, String)>,
    pub text: String,
}

impl Streamed {
    /// Returns a header.
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }

    /// Returns the body.
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

impl Stream {
    async fn ask(&self, verb: &str, what: Value) -> Value {
        let subject = format!("$JS.API.STREAM.{verb}.{}", self.name);
        let answer = self.client.request(subject, what.to_string().into()).await.unwrap();
        serde_json::from_slice(&answer.payload).unwrap()
    }

    /// Returns all its messages.
    pub async fn messages(&self) -> Vec<Streamed> {
        let decoded = |text: &Value| {
            let bytes = STANDARD.decode(text.as_str().unwrap_or_default()).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        let (mut messages, mut next) = (Vec::new(), 1);
        loop {
            let found = self.ask("MSG.GET", json!({ "seq": next, "next_by_subj": ">" })).await;
            let Some(seq) = found["message"]["seq"].as_u64() else { return messages };
            let message = &found["message"];
            let headers = decoded(&message["hdrs"]);
            let headers = headers.lines().filter_map(|line| line.split_once(':'));
            messages.push(Streamed {
                subject: message["subject"].as_str().unwrap().to_owned(),
                headers: headers.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect(),
                text: decoded(&message["data"]),
            });
            next = seq + 1;
        }
    }

    /// Returns the number of its messages.
    pub async fn count(&self) -> u64 {
        self.ask("INFO", json!({})).await["state"]["messages"].as_u64().unwrap()
    }

    /// Writes a message of somebody else's.
    pub async fn write(&self, subject: &str, text: &str) {
        let told =
            self.client.request_with_headers(subject.to_owned(), HeaderMap::new(), text.to_owned().into());
        let told: Value = serde_json::from_slice(&told.await.unwrap().payload).unwrap();
        assert!(told["error"].is_null(), "{told}");
    }

    /// Deletes its messages.
    pub async fn purge(&self) {
        self.ask("PURGE", json!({})).await;
    }

    /// Deletes it.
    pub async fn delete(&self) {
        self.ask("DELETE", json!({})).await;
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// The bus of a test's servers.
pub enum TestBus {
    /// PostgreSQL's NOTIFY.
    Postgres,
    /// A NATS server of the test's own.
    Nats(Box<Nats>),
}

impl TestBus {
    /// Starts a NATS server as the bus.
    pub fn nats() -> Self {
        Self::Nats(Box::new(Nats::start()))
    }

    /// Returns the setting of servers on this bus.
    pub fn setting(&self) -> String {
        match self {
            Self::Postgres => "postgres".to_owned(),
            Self::Nats(nats) => nats.url(),
        }
    }

    /// Returns the setup of servers on this bus, with their background tasks.
    pub fn setup(&self) -> Setup {
        // As long as the process: there are few of them.
        let setting: &'static str = self.setting().leak();
        Setup { settings: vec![("ENTENTE_BUS", setting)], ..Setup::live() }
    }
}
