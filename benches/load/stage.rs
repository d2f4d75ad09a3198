//! Environment of the benchmark: a private PostgreSQL, pgbench on it, and the server as a separate process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant};

use entente_domain::ids::{ChannelId, MessageId};
use entente_store::binaries::Binaries;
use entente_store::private::Private;
use futures_util::stream::{self, StreamExt as _};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};

use super::client::{Load, ask, request, ticks};
use super::place::{self, Place};
use super::scale::scaled;

/// Literal API key of the benchmark.
pub const KEY: &str = "bench-key";
/// Literal API keys of the principals that listen to a bus: one principal that is no admin may have a quarter of a bus's
/// listeners.
pub const LISTENER_KEYS: [&str; 4] = ["listener-key-0", "listener-key-1", "listener-key-2", "listener-key-3"];

/// Bytes of a message's text.
pub const PAYLOAD: usize = 270;

/// Concurrent requests that create what a scene needs.
const SETTERS: usize = 16;

/// Time limit for a server's start.
const START_LIMIT: Duration = Duration::from_mins(1);
/// Time limit for a server's stop: twice the time that it gives its clients (`ENTENTE_DRAIN_SECONDS`).
const STOP_LIMIT: Duration = Duration::from_secs(40);

/// A server process. When it is dropped, it is stopped, and killed if it does not stop.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
}

impl Process {
    /// Starts a server on a free port; with a private PostgreSQL when `database` is `None`.
    pub fn start(dir: &Path, database: Option<&str>) -> Self {
        Self::start_with(dir, database, &[])
    }

    /// As [`Self::start`], with more settings.
    fn start_with(dir: &Path, database: Option<&str>, settings: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
        // Neither the developer's database nor the `.env` beside the sources applies.
        command.current_dir(dir).env_remove("DATABASE_URL");
        command.args([
            "dev",
            "--bind",
            "127.0.0.1:0",
            "--seed",
            &format!("service:bench={KEY}"),
            "--data-dir",
        ]);
        command.arg(dir);
        for (n, key) in LISTENER_KEYS.iter().enumerate() {
            command.args(["--seed", &format!("service:listeners-{n}={key}")]);
        }
        command.env("ENTENTE_MAX_STREAMS_PER_KEY", "1000000").env("ENTENTE_LOG", "warn");
        command.env("ENTENTE_ARCP_SESSIONS_PER_PRINCIPAL", "1000000");
        command.envs(settings.iter().copied());
        if let Some(url) = database {
            command.env("DATABASE_URL", url);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        place::record(dir, process.child.id());
        let (found, url) = mpsc::channel();
        // Keeps reading, so that the server never blocks on a full pipe.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(url) = line.trim().strip_prefix("export ENTENTE_URL=http://") {
                    let _unasked = found.send(url.to_owned());
                }
            }
        });
        let url = url.recv_timeout(START_LIMIT).expect("the server says where it listens");
        process.address = url.parse().unwrap();
        process
    }

    /// Stops the server in order.
    pub fn stop(mut self) {
        assert!(self.terminate(), "the server goes on {STOP_LIMIT:?} after SIGTERM");
    }

    /// Sends SIGTERM, and returns whether the process ends in time; also if it had ended before.
    fn terminate(&mut self) -> bool {
        let begun = Instant::now();
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _gone = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if begun.elapsed() > STOP_LIMIT {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Returns the resident memory in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
        kib.map_or(0, |kib: u64| kib * 1024)
    }

    /// Returns the used processor time in seconds.
    pub fn processor(&self) -> f64 {
        ticks(&std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.terminate() {
            let _gone = self.child.kill();
            let _ended = self.child.wait();
        }
    }
}

/// Processor time in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    server: f64,
    database: f64,
}

impl Costs {
    /// Describes what each of these operations has cost since then.
    pub fn each(self, stage: &Stage, operations: usize) -> String {
        let now = stage.costs();
        let micros = |spent: f64| spent * 1e6 / operations.max(1) as f64;
        let (server, database) = (micros(now.server - self.server), micros(now.database - self.database));
        format!("each takes {server:.0} µs of the server's processor time and {database:.0} of PostgreSQL's")
    }
}

/// The environment: PostgreSQL and the server. When it is dropped, both are stopped, in the order of the fields.
pub struct Stage {
    pub server: Process,
    private: Private,
    binaries: PathBuf,
    pub place: Place,
}

impl Stage {
    /// Sets up PostgreSQL with its usual, durable settings, and the server on it.
    pub async fn set() -> Self {
        let place = Place::new();
        let private = Private::start(&place.dir, None, &[]).await.unwrap_or_else(|e| panic!("{e}"));
        let server = Process::start(&place.dir, Some(&private.url()));
        let stage = Self { server, private, binaries: Binaries::find(None).unwrap().dir, place };
        let mut connection = stage.connect().await;
        sqlx::raw_sql("CREATE TABLE bench_rows (id bigserial PRIMARY KEY, payload text NOT NULL)")
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
        stage
    }

    /// Starts another server on the same PostgreSQL.
    pub fn second_server(&self) -> Process {
        Process::start(&self.place.dir, Some(&self.private.url()))
    }

    /// As [`Self::second_server`], with more settings.
    pub fn another_server(&self, settings: &[(&str, &str)]) -> Process {
        Process::start_with(&self.place.dir, Some(&self.private.url()), settings)
    }

    /// Returns the processor time in seconds that PostgreSQL's processes have used, also those that have ended.
    ///
    /// What ends while it looks would be missed or counted twice, so it looks again.
    pub fn database_processor(&self) -> f64 {
        let pid = std::fs::read_to_string(self.place.dir.join("postgres/postmaster.pid")).unwrap();
        let postmaster: u32 = pid.lines().next().unwrap().trim().parse().unwrap();
        let ticks = loop {
            let (before, backends, after) = (own(postmaster), children(postmaster), own(postmaster));
            if before.1 == after.1 {
                break before.0 + before.1 + backends;
            }
        };
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    /// Returns the processor time that the server and PostgreSQL have used.
    pub fn costs(&self) -> Costs {
        Costs { server: self.server.processor(), database: self.database_processor() }
    }

    /// Replaces the server by a fresh process.
    pub async fn restart(&mut self) {
        let fresh = self.second_server();
        std::mem::replace(&mut self.server, fresh).stop();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    /// Stops everything in order, and removes the files.
    pub async fn strike(self) {
        self.server.stop();
        self.private.stop().await.unwrap();
    }

    /// Opens a direct connection to PostgreSQL.
    pub async fn connect(&self) -> PgConnection {
        self.private.options().connect().await.unwrap()
    }

    /// Triggers a checkpoint of PostgreSQL.
    pub async fn checkpoint(&self) {
        let mut connection = self.connect().await;
        sqlx::raw_sql("CHECKPOINT").execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// Returns the durable single-row inserts of the same payload per second, by pgbench over the Unix socket
    /// with prepared statements.
    pub fn pgbench(&self, clients: usize, time: Duration) -> f64 {
        let row = json!({ "text": "x".repeat(PAYLOAD) });
        self.pgbench_script(&format!("INSERT INTO bench_rows (payload) VALUES ('{row}');\n"), clients, time)
    }

    /// Returns the runs of a script per second, by pgbench over the Unix socket, with prepared statements and
    /// one transaction per statement.
    pub fn pgbench_script(&self, text: &str, clients: usize, time: Duration) -> f64 {
        let script = self.place.dir.join("script.sql");
        std::fs::write(&script, text).unwrap();
        let url = self.private.url();
        let output = Command::new(self.binaries.join("pgbench"))
            .args([
                "-n",
                "-M",
                "prepared",
                "-j",
                "2",
                "-c",
                &clients.to_string(),
                "-T",
                &time.as_secs().max(1).to_string(),
                "-f",
            ])
            .arg(&script)
            .arg(&url)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let tps = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        tps.unwrap_or_else(|| panic!("pgbench: {said}{}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Sends a POST request, and returns the answer's body.
    pub async fn post(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", path, KEY, body).await
    }

    /// As [`Self::post`], with GET.
    pub async fn get(&self, path: &str) -> Value {
        self.ask("GET", path, KEY, &Value::Null).await
    }

    /// As [`Self::post`], with PUT.
    pub async fn put(&self, path: &str, body: &Value) -> Value {
        self.ask("PUT", path, KEY, body).await
    }

    /// As [`Self::put`], with another key.
    pub async fn put_as(&self, key: &str, path: &str, body: &Value) -> Value {
        self.ask("PUT", path, key, body).await
    }

    async fn ask(&self, method: &str, path: &str, key: &str, body: &Value) -> Value {
        ask(self.server.address, method, path, key, body).await
    }

    /// Creates intents, each with one channel, some at a time; returns pairs of intent and channel.
    pub async fn talks(&self, count: usize, options: &Value) -> Vec<(String, String)> {
        let talk = async |_| {
            let intent =
                self.post("/intents", &json!({ "title": "bench" })).await["id"].as_str().unwrap().to_owned();
            let ask = json!({ "name": "bench", "options": options });
            let channel = self.post(&format!("/intents/{intent}/channels"), &ask).await;
            (intent, channel["id"].as_str().unwrap().to_owned())
        };
        stream::iter(0..count).map(talk).buffered(SETTERS).collect().await
    }

    /// Builds a request that sends a message.
    pub fn message(channel: &str, client: usize, extra: &str) -> Vec<u8> {
        static PAYLOAD_TEXT: LazyLock<String> = LazyLock::new(|| "x".repeat(PAYLOAD));
        let text = &*PAYLOAD_TEXT;
        let body = format!(r#"{{"sender":"agent-{client}","payload":{{"text":"{text}"}}}}"#);
        request("POST", &format!("/api/v1/channels/{channel}/messages"), KEY, extra, &body)
    }

    /// Checks that every acknowledged message exists exactly once, and that each client's messages are in
    /// order.
    pub async fn check(&self, load: &Load, channels: &[String]) {
        assert_eq!(load.failures, 0, "some requests failed");
        let mut connection = self.connect().await;
        let acked: Vec<MessageId> = load.acked.iter().map(|(.., id)| id.parse().unwrap()).collect();
        let ids: Vec<uuid::Uuid> = acked.iter().map(|id| id.uuid()).collect();
        let numbers: Vec<i64> = acked.iter().map(|id| id.number().into()).collect();
        let channels_of: Vec<uuid::Uuid> =
            load.acked.iter().map(|(_, channel, _)| channel_uuid(&channels[*channel])).collect();
        // By the primary key, because a scene's table may have millions of rows.
        let found: Vec<(uuid::Uuid, i64)> = sqlx::query_as(
            "SELECT id, seq FROM messages JOIN UNNEST($1::uuid[], $2::bigint[], $3::uuid[]) AS a (channel_id, number, id)
             USING (channel_id, number, id)",
        )
        .bind(&channels_of)
        .bind(&numbers)
        .bind(&ids)
        .fetch_all(&mut connection)
        .await
        .unwrap();
        let places: std::collections::HashMap<_, _> = found.iter().copied().collect();
        assert_eq!(found.len(), ids.len(), "acknowledged messages are missing or doubled");
        assert_eq!(places.len(), ids.len(), "an id was given twice");
        let mut last = std::collections::HashMap::new();
        for ((client, channel, _), id) in load.acked.iter().zip(&ids) {
            let seq = places[id];
            let before = last.insert((*client, &channels[*channel]), seq);
            assert!(before.is_none_or(|before| before < seq), "a client's messages changed places");
        }
        connection.close().await.unwrap();
    }
}

/// Returns a channel's id as the database has it.
pub fn channel_uuid(channel: &str) -> uuid::Uuid {
    channel.parse::<ChannelId>().unwrap().uuid()
}

/// Returns the median duration in seconds of an `fdatasync` after a small write on the disk of `dir`.
pub fn fdatasync(dir: &Path) -> f64 {
    let path = dir.join("fdatasync");
    let mut file = std::fs::File::create(&path).unwrap();
    let mut times = Vec::new();
    for _ in 0..scaled(400, 20) {
        file.write_all(&[7; 8192]).unwrap();
        let begun = Instant::now();
        file.sync_data().unwrap();
        times.push(begun.elapsed().as_secs_f64());
    }
    std::fs::remove_file(path).unwrap();
    super::report::median(times)
}

/// Returns the ticks that a process has used itself, and those of its children that have ended.
fn own(pid: u32) -> (u64, u64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<u64> =
        stat.rsplit_once(") ").unwrap().1.split(' ').map(|field| field.parse().unwrap_or(0)).collect();
    (fields[11] + fields[12], fields[13] + fields[14])
}

/// Returns the ticks that the present children of a process have used.
fn children(parent: u32) -> u64 {
    let stats = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let of = |stat: String| {
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let is_child = fields[1] == parent.to_string();
        is_child.then(|| fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap())
    };
    stats.filter_map(of).sum()
}
