//! A real NATS server on the loopback address, with a user and a password.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Setup;
use super::process::{Place, free_address};

/// Upper bound for its start.
const PATIENCE: Duration = Duration::from_secs(20);

/// Places of the program that are not on the path of every user.
const PLACES: [&str; 3] = ["/usr/sbin", "/opt/homebrew/bin", "/usr/local/bin"];

/// A NATS server, running or killed.
pub struct Nats {
    child: Child,
    port: u16,
    place: Place,
}

fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain(PLACES.map(PathBuf::from));
    let found = places.find_map(|dir| Some(dir.join("nats-server")).filter(|program| program.exists()));
    found.expect("no nats-server: `make setup` installs it")
}

fn spawn(port: u16, place: &Place) -> Child {
    let log = fs::File::options().create(true).append(true).open(place.0.join("server.log")).unwrap();
    let port = port.to_string();
    let mut command = Command::new(program());
    command.args(["--addr", "127.0.0.1", "--port", &port, "--user", "entente", "--pass", "se/cret"]);
    command.current_dir(&place.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let child = command.spawn().unwrap();
    // Ends it if this process is killed.
    fs::write(place.0.join("server.pid"), child.id().to_string()).unwrap();
    child
}

impl Nats {
    /// Starts it.
    pub fn start() -> Self {
        let (place, port) = (Place::new("nats"), free_address().port());
        let nats = Self { child: spawn(port, &place), port, place };
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
        self.child = spawn(self.port, &self.place);
        self.wait();
    }

    /// Returns its URL, with a password that had to be escaped.
    pub fn url(&self) -> String {
        format!("nats://entente:se%2Fcret@127.0.0.1:{}", self.port)
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
