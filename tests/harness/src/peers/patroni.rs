//! A cluster for a failover: three PostgreSQL under Patroni with a synchronous standby, one etcd, and HAProxy in front, all from
//! Debian's packages and on the loopback address.
//!
//! The programs are real, and so are the elections. Emulated is the network: every connection to a member, and each member's to
//! etcd, is a cable that the test can unplug. One etcd is enough for one machine; it never fails here. There is no watchdog: a
//! Patroni that hangs while its PostgreSQL goes on is not covered.

mod node;

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

pub use self::node::{Cut, Node};
use crate::peers::process::{Place, free_address};
use crate::peers::program::{Program, find};

/// Upper bound for a change of the cluster: an initdb, a base backup, a failover.
const PATIENCE: Duration = Duration::from_secs(90);

/// Pause between two looks at the cluster.
const LOOK: Duration = Duration::from_millis(50);

/// Upper bound for an answer of a PostgreSQL that may be cut off.
const ANSWER: Duration = Duration::from_secs(2);

/// The state of a cluster.
#[derive(Debug)]
struct State {
    primary: &'static str,
    /// Roles of all members.
    roles: Vec<String>,
    /// Numbers of standbys that stream from the primary, and of those that are synchronous.
    streaming: Option<(i64, i64)>,
    /// Members that HAProxy sends clients to.
    served: Vec<String>,
}

impl State {
    fn is_complete(&self) -> bool {
        self.roles == ["leader", "replica", "sync_standby"]
            && self.streaming == Some((2, 1))
            && self.served == [self.primary]
    }
}

/// Returns the path of one of the cluster's programs.
fn installed(program: &str) -> PathBuf {
    find(program).unwrap_or_else(|| {
        panic!(
            "no `{program}` on this machine: `make chaos` installs Debian's patroni, etcd-server and haproxy"
        )
    })
}

pub struct Patroni {
    pub nodes: Vec<Node>,
    balancer: Program,
    balancer_place: Place,
    front: SocketAddr,
    // Ends last: without it, every member would step back.
    etcd: Program,
    etcd_place: Place,
}

impl Patroni {
    /// Starts a cluster with a database `entente`, and waits until it is complete.
    pub async fn start() -> Self {
        // All of them, before anything starts.
        for program in ["patroni", "etcd", "haproxy"] {
            installed(program);
        }
        let (etcd, etcd_place, at) = start_etcd();
        let mut nodes = Vec::new();
        for name in ["one", "two", "three"] {
            nodes.push(Node::start(name, at).await);
        }
        let (balancer, balancer_place, front) = start_balancer(&nodes);
        let mut cluster = Self { nodes, balancer, balancer_place, front, etcd, etcd_place };
        cluster.complete().await;
        let primary = cluster.primary().await.unwrap();
        let mut connection = PgConnection::connect_with(&cluster.nodes[primary].options()).await.unwrap();
        for statement in ["CREATE ROLE entente LOGIN", "CREATE DATABASE entente OWNER entente"] {
            connection.execute(statement).await.unwrap();
        }
        cluster
    }

    /// Returns the URL of the database behind HAProxy.
    pub fn url(&self) -> String {
        format!("postgres://entente@{}/entente?sslmode=disable", self.front)
    }

    /// Returns the member that says that it is the primary.
    pub async fn primary(&self) -> Option<usize> {
        for (index, node) in self.nodes.iter().enumerate() {
            if node.is("primary").await {
                return Some(index);
            }
        }
        None
    }

    /// Waits until another member than this one says that it is the primary.
    pub async fn next_primary(&mut self, old: usize) -> usize {
        let began = Instant::now();
        loop {
            for (index, node) in self.nodes.iter().enumerate().filter(|(index, _)| *index != old) {
                if node.is("primary").await {
                    return index;
                }
            }
            self.check(began, "no new primary");
            sleep(LOOK).await;
        }
    }

    /// Waits until there is a primary that HAProxy sends clients to, a synchronous standby and another one, and both have
    /// what the primary has.
    pub async fn complete(&mut self) {
        let began = Instant::now();
        loop {
            let state = self.state().await;
            if state.as_ref().is_some_and(State::is_complete) {
                return;
            }
            self.check(began, &format!("the cluster does not become complete: {state:?}"));
            sleep(LOOK * 4).await;
        }
    }

    /// Returns the state of the cluster; `None` without a primary.
    async fn state(&self) -> Option<State> {
        let primary = &self.nodes[self.primary().await?];
        let mut roles: Vec<String> = primary.roles().await.into_iter().map(|(_, role)| role).collect();
        roles.sort();
        let streaming = streaming(primary).await;
        Some(State { primary: primary.name, roles, streaming, served: self.sends_clients_to().await })
    }

    /// Returns the names of the members that HAProxy sends clients to.
    pub async fn sends_clients_to(&self) -> Vec<String> {
        let Ok(mut socket) = UnixStream::connect(self.balancer_place.0.join("haproxy.sock")).await else {
            return Vec::new();
        };
        let mut said = String::new();
        socket.write_all(b"show stat\n").await.unwrap();
        socket.read_to_string(&mut said).await.unwrap();
        // Proxy, server, and the status in the 18th column.
        let rows = said.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let up = rows.filter(|row| {
            row.first() == Some(&"primary") && row.get(17).is_some_and(|is| is.starts_with("UP"))
        });
        // The last row of a proxy is about all of its servers.
        up.map(|row| row[1].to_owned()).filter(|name| name != "BACKEND").collect()
    }

    fn check(&mut self, began: Instant, what: &str) {
        self.etcd.check(&self.etcd_place);
        self.balancer.check(&self.balancer_place);
        if began.elapsed() > PATIENCE {
            let mut logs = String::new();
            for node in &self.nodes {
                let log = node.log();
                let lines: Vec<&str> = log.lines().collect();
                let last = lines[lines.len().saturating_sub(40)..].join("\n");
                write!(logs, "\n--- {}\n{last}", node.name).unwrap();
            }
            panic!("{what}:{logs}");
        }
    }
}

/// Returns the numbers of standbys that stream, and of those that are synchronous.
async fn streaming(node: &Node) -> Option<(i64, i64)> {
    let asked = async {
        let mut connection = PgConnection::connect_with(&node.options()).await?;
        let sql = "SELECT count(*), count(*) FILTER (WHERE sync_state = 'sync') FROM pg_stat_replication
                   WHERE state = 'streaming' AND application_name IN ('one', 'two', 'three')";
        connection.fetch_one(sql).await
    };
    let row = timeout(ANSWER, asked).await.ok()?.ok()?;
    Some((row.get(0), row.get(1)))
}

fn start_etcd() -> (Program, Place, SocketAddr) {
    let (place, clients, peers) = (Place::new("etcd"), free_address(), free_address());
    let (here, there) = (format!("http://{clients}"), format!("http://{peers}"));
    let data = place.0.join("data").display().to_string();
    let arguments = [
        ["--name", "alone"],
        ["--data-dir", &data],
        ["--listen-client-urls", &here],
        ["--advertise-client-urls", &here],
        ["--listen-peer-urls", &there],
        ["--initial-advertise-peer-urls", &there],
        ["--initial-cluster", &format!("alone={there}")],
    ];
    (Program::start(&installed("etcd"), arguments.as_flattened(), &place), place, clients)
}

/// Starts HAProxy, which sends clients to the member whose Patroni says that it is the primary, and cuts them off from one
/// that is not any more.
fn start_balancer(nodes: &[Node]) -> (Program, Place, SocketAddr) {
    let (place, front) = (Place::new("haproxy"), free_address());
    let socket: PathBuf = place.0.join("haproxy.sock");
    let mut settings = format!(
        "global
            maxconn 1000
            stats socket {} mode 600
        defaults
            mode tcp
            timeout connect 2s
            timeout client 30m
            timeout server 30m
            timeout check 1s
        listen primary
            bind {front}
            option httpchk GET /primary
            http-check expect status 200
            default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions\n",
        socket.display()
    );
    for node in nodes {
        let [postgres, rest] = node.for_clients();
        writeln!(settings, "            server {} {postgres} check port {}", node.name, rest.port()).unwrap();
    }
    fs::write(place.0.join("haproxy.cfg"), settings).unwrap();
    (Program::start(&installed("haproxy"), &["-db", "-f", "haproxy.cfg"], &place), place, front)
}
