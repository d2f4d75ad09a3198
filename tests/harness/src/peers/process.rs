//! A server as a separate process that tests can kill: the program itself, started with `entente dev`.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::peers::cluster::watch;
use crate::peers::program::entente;
use crate::{Client, scratch};

/// Upper bound for a server's start and stop.
const PATIENCE: Duration = Duration::from_secs(30);

/// Directory of a server's data and log. When the test process ends, even if it is killed, the processes that
/// run there are stopped and the directory is removed.
pub struct Place(pub PathBuf);

static PLACES: AtomicU32 = AtomicU32::new(0);

impl Place {
    pub fn new(name: &str) -> Self {
        let count = PLACES.fetch_add(1, Ordering::Relaxed);
        let dir = scratch().join(format!("entente-{name}-{}-{count}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        watch(&dir);
        Self(dir.canonicalize().unwrap())
    }

    /// Returns the process id of the PostgreSQL that runs here. A stale pid file does not count, nor does
    /// another process with the same id.
    pub fn postmaster(&self) -> Option<Pid> {
        let data = self.0.join("postgres");
        let text = fs::read_to_string(data.join("postmaster.pid")).ok()?;
        let pid: i32 = text.lines().next()?.trim().parse().ok()?;
        let here = fs::read_link(format!("/proc/{pid}/cwd")).map(|works_in| works_in == data);
        let here = here.unwrap_or_else(|_untold| !Path::new("/proc/self").exists());
        Pid::from_raw(pid).filter(|_| here)
    }

    /// Kills PostgreSQL with SIGKILL, so that it cannot write anything more.
    pub fn kill_postgres(&self) -> bool {
        self.postmaster().is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
    }

    /// Returns the server's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.0.join("server.log")).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(pid) = self.postmaster() {
            let _gone = kill_process(pid, Signal::QUIT);
        }
        // Files that are written after this call are removed when the test process ends.
        let _left = fs::remove_dir_all(&self.0);
    }
}

/// Start parameters of a server.
#[derive(Clone)]
pub struct Launch {
    pub bind: SocketAddr,
    /// Arguments of `entente dev` besides the address and the keys.
    pub arguments: Vec<String>,
    pub settings: Vec<(&'static str, String)>,
    log: PathBuf,
}

/// API key of the service principal that may act as any agent.
pub const KEY: &str = "key-of-service.any";

/// Returns the API key of an agent that every such server has seeded.
pub fn key_of(agent: &str) -> String {
    format!("key-of-{agent}")
}

/// Returns a free port outside the ephemeral range of outgoing connections, so that it is still free when the
/// server restarts.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let count = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (std::process::id().wrapping_mul(97).wrapping_add(count)) % 10_000;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, u16::try_from(port).unwrap()));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

impl Launch {
    /// A server with a private PostgreSQL.
    pub fn private(place: &Place) -> Self {
        let data = place.0.display().to_string();
        Self {
            bind: free_address(),
            arguments: vec!["--data-dir".to_owned(), data],
            settings: Vec::new(),
            log: place.0.join("server.log"),
        }
    }

    /// A server on an existing PostgreSQL.
    pub fn shared(place: &Place, url: &str) -> Self {
        let settings = vec![("DATABASE_URL", url.to_owned())];
        Self { bind: free_address(), arguments: Vec::new(), settings, log: place.0.join("server.log") }
    }

    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.settings.push((name, value.to_owned()));
        self
    }

    /// Starts the program.
    pub fn spawn(&self) -> Process {
        let log = fs::File::options().create(true).append(true).open(&self.log).unwrap();
        let mut command = Command::new(entente());
        let bind = self.bind.to_string();
        command.args(["dev", "--bind", &bind]).args(&self.arguments);
        command.arg(format!("--seed=service:service.any={KEY}"));
        for agent in ["agent.ada", "agent.bob"] {
            command.arg(format!("--seed=agent:{agent}={}", key_of(agent)));
        }
        for (name, _) in std::env::vars() {
            if name == "DATABASE_URL" || (name.starts_with("ENTENTE_") && name != "ENTENTE_PG_BIN") {
                command.env_remove(name);
            }
        }
        command.env("ENTENTE_LOG", "warn").env("ENTENTE_REFUSED_SUBSCRIBE_SECONDS", "0");
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        // A different working directory, so that the developer's `.env` is not read.
        command.current_dir(self.log.parent().unwrap());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mark = self.log.with_file_name("server.pid");
        fs::write(&mark, child.id().to_string()).unwrap();
        Process { child, address: self.bind, mark }
    }

    /// Starts the program and waits until it is ready. Returns the process and the time that this took.
    pub async fn start(&self) -> (Process, Duration) {
        let began = Instant::now();
        let mut process = self.spawn();
        while process
            .client(KEY)
            .try_send("GET", "//readyz", None)
            .await
            .is_none_or(|reply| reply.status != 200)
        {
            if let Some(status) = process.child.try_wait().unwrap() {
                panic!("the server ended with {status}:\n{}", fs::read_to_string(&self.log).unwrap());
            }
            assert!(began.elapsed() < PATIENCE, "not ready:\n{}", fs::read_to_string(&self.log).unwrap());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        (process, began.elapsed())
    }
}

/// A server process, running or ended.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
    /// File that holds the process id while the server runs.
    mark: PathBuf,
}

impl Process {
    pub fn client(&self, key: &str) -> Client {
        Client::new(self.address, Some(key))
    }

    fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Returns the anonymous memory of the process in bytes. It excludes the program file, which is large in
    /// a test build.
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Kills the process as a power cut would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let _gone = fs::remove_file(&self.mark);
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        kill_process(self.id(), Signal::TERM).unwrap();
    }

    /// Suspends the process with SIGSTOP: it sends nothing more and keeps its connections and locks.
    pub fn freeze(&self) {
        kill_process(self.id(), Signal::STOP).unwrap();
    }

    /// Resumes the process.
    pub fn thaw(&self) {
        kill_process(self.id(), Signal::CONT).unwrap();
    }

    /// Waits until the process has exited.
    pub async fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let _gone = fs::remove_file(&self.mark);
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "the server goes on");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.kill();
        }
    }
}
