//! A member of the cluster: a Patroni, the PostgreSQL that it runs, and the cables by which others reach them.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use super::installed;
use crate::peers::process::{Place, free_address};
use crate::peers::program::{Program, postgres_programs};
use crate::{Cable, http};

/// Seconds after which a silent primary has lost its rank, and the longest that one may go on without etcd.
const TTL: u32 = 10;
/// Seconds between two looks at the cluster, and for which a failed request to etcd is repeated. An isolated primary steps back
/// before its rank ends: the pause and two times this are less than [`TTL`].
const LOOP_WAIT: u32 = 1;
const RETRY_TIMEOUT: u32 = 4;

/// Upper bound for an answer of Patroni.
const ANSWER: Duration = Duration::from_secs(1);

/// The cables of a member.
struct Cables {
    /// From its Patroni to etcd.
    etcd: Cable,
    /// From the other members to its PostgreSQL and its Patroni.
    members: [Cable; 2],
    /// From HAProxy to its PostgreSQL and its Patroni.
    clients: [Cable; 2],
}

/// Whom a member is cut off from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Everybody.
    All,
    /// etcd and the other members; clients still reach it.
    Members,
}

pub struct Node {
    pub name: &'static str,
    /// `None` while it is killed. It ends before its PostgreSQL does.
    patroni: Option<Program>,
    place: Place,
    /// Addresses around the cables.
    postgres: SocketAddr,
    rest: SocketAddr,
    cables: Cables,
}

impl Node {
    /// Prepares a member of the cluster at this etcd and starts its Patroni.
    pub async fn start(name: &'static str, etcd: SocketAddr) -> Self {
        let (postgres, rest) = (free_address(), free_address());
        let cables = Cables {
            etcd: Cable::to(etcd).await,
            members: [Cable::to(postgres).await, Cable::to(rest).await],
            clients: [Cable::to(postgres).await, Cable::to(rest).await],
        };
        let place = Place::new(&format!("patroni-{name}"));
        let mut node = Self { name, patroni: None, place, postgres, rest, cables };
        fs::write(node.place.0.join("patroni.json"), node.settings().to_string()).unwrap();
        node.start_again();
        node
    }

    /// Returns Patroni's configuration; every JSON is YAML.
    fn settings(&self) -> Value {
        let place = self.place.0.display().to_string();
        let [postgres, rest] = self.cables.members.each_ref().map(|cable| cable.address.to_string());
        json!({
            "scope": "entente",
            "name": self.name,
            "restapi": { "listen": self.rest.to_string(), "connect_address": rest },
            // One cable each: etcd would announce its own address.
            "etcd3": { "hosts": [self.cables.etcd.address.to_string()], "use_proxies": true },
            "bootstrap": {
                "dcs": shared(),
                "initdb": ["data-checksums", { "encoding": "UTF8" }, { "locale": "C.UTF-8" }],
            },
            "postgresql": {
                "listen": self.postgres.to_string(),
                "connect_address": postgres,
                "data_dir": format!("{place}/postgres"),
                "bin_dir": postgres_programs().display().to_string(),
                "pgpass": format!("{place}/pgpass"),
                "use_unix_socket": true,
                "parameters": { "unix_socket_directories": place },
                // All of this is on the loopback address of a test.
                "pg_hba": [
                    "local all all trust",
                    "host all all 127.0.0.1/32 trust",
                    "host replication all 127.0.0.1/32 trust",
                ],
                "authentication": {
                    "superuser": { "username": "postgres" },
                    "replication": { "username": "replicator" },
                },
                "basebackup": [{ "checkpoint": "fast" }],
            },
            "watchdog": { "mode": "off" },
        })
    }

    /// Starts its Patroni, and that its PostgreSQL.
    pub fn start_again(&mut self) {
        self.patroni = Some(Program::start(&installed("patroni"), &["patroni.json"], &self.place));
    }

    /// Kills its Patroni and every process of its PostgreSQL with SIGKILL.
    pub fn kill(&mut self) {
        self.patroni = None;
        let data = self.place.0.join("postgres");
        // A process may fork between the look and the kill.
        while !working_in(&data).is_empty() {
            for pid in working_in(&data) {
                let _gone = kill_process(pid, Signal::KILL);
            }
        }
    }

    pub fn cut(&self, cut: Cut) {
        self.cables.etcd.unplug();
        self.cables.members.iter().for_each(Cable::unplug);
        if cut == Cut::All {
            self.cables.clients.iter().for_each(Cable::unplug);
        }
    }

    /// Connects it again.
    pub fn mend(&self) {
        let Cables { etcd, members, clients } = &self.cables;
        std::iter::once(etcd).chain(members).chain(clients).for_each(Cable::plug_in);
    }

    /// Returns what a load balancer has to know: the addresses of its PostgreSQL and its Patroni.
    pub fn for_clients(&self) -> [SocketAddr; 2] {
        self.cables.clients.each_ref().map(|cable| cable.address)
    }

    /// Whether it says that it has this role, asked around the cables.
    pub async fn is(&self, role: &str) -> bool {
        let asked = http().get(format!("http://{}/{role}", self.rest)).timeout(ANSWER).send().await;
        asked.is_ok_and(|answer| answer.status() == 200)
    }

    /// Returns the roles of all members, by their names, as this one knows them.
    pub async fn roles(&self) -> Vec<(String, String)> {
        let asked = http().get(format!("http://{}/cluster", self.rest)).timeout(ANSWER).send().await;
        let Ok(answer) = asked else { return Vec::new() };
        let Ok(known) = answer.json::<Value>().await else { return Vec::new() };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let members = known["members"].as_array().into_iter().flatten();
        members.map(|member| (text(&member["name"]), text(&member["role"]))).collect()
    }

    /// Returns the connect options around the cables, as superuser.
    pub fn options(&self) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(self.postgres.port())
            .username("postgres")
            .database("postgres")
            .ssl_mode(PgSslMode::Disable)
    }

    /// Returns the log of its Patroni and its PostgreSQL.
    pub fn log(&self) -> String {
        self.place.log()
    }
}

/// Returns the settings that Patroni keeps in etcd for all members.
fn shared() -> Value {
    json!({
        "ttl": TTL,
        "loop_wait": LOOP_WAIT,
        "retry_timeout": RETRY_TIMEOUT,
        "synchronous_mode": true,
        // Without a standby nothing is acknowledged.
        "synchronous_mode_strict": true,
        "postgresql": {
            "use_pg_rewind": true,
            "remove_data_directory_on_rewind_failure": true,
            "remove_data_directory_on_diverged_timelines": true,
            "parameters": {
                "max_connections": 300,
                "shared_buffers": "64MB",
                "max_wal_size": "256MB",
                "wal_keep_size": "256MB",
                // An isolated primary waits this long for its standbys before it ends.
                "wal_sender_timeout": "5s",
                "wal_receiver_timeout": "5s",
                // How soon the other standby follows the new primary, and confirms.
                "wal_retrieve_retry_interval": "1s",
                "log_min_messages": "warning",
            },
        },
    })
}

/// Returns the processes that work in this directory: those of a PostgreSQL, in its data.
fn working_in(dir: &Path) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").expect("the cluster needs Linux").flatten();
    let here =
        processes.filter(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == dir));
    here.filter_map(|process| Pid::from_raw(process.file_name().to_str()?.parse().ok()?)).collect()
}
