//! Many sessions that do nothing: what each of them costs.

use std::fs;

use futures_util::future::join_all;

use crate::harness::process::{KEY, Launch, Place};
use crate::harness::socket::{FEATURES, Socket, hello};
use crate::harness::{Cluster, json};

/// Sessions that are open and idle.
const SESSIONS: usize = 2_000;
/// Bytes that all of them may cost.
const ALL: u64 = 64 * 1024 * 1024;

/// Bytes of memory that a process holds.
fn resident(pid: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_idle_sessions_cost_little() {
    let place = Place::new("arcp-crowd");
    let database = Cluster::get().fresh_database().await;
    let launch = Launch::shared(&place, &Cluster::get().url(&database))
        .with("ENTENTE_ARCP_SESSIONS_PER_PRINCIPAL", "5000");
    let (server, _) = launch.start().await;
    let pid = fs::read_to_string(place.0.join("server.pid")).unwrap();
    let said = hello(KEY, &FEATURES);
    let mut sockets = Vec::new();
    let mut growth = [0; 4];
    for quarter in &mut growth {
        let before = resident(&pid);
        for _ in 0..SESSIONS / 80 {
            let twenty = (0..20).map(|_| Socket::open_at(server.address, "/arcp", said.clone()));
            sockets.extend(join_all(twenty).await);
        }
        *quarter = resident(&pid).saturating_sub(before);
    }
    // What is taken once, whenever that is, is no session's: the start, and the memory in which a key's slow hash is
    // computed. So the two quarters in the middle count for all.
    growth.sort_unstable();
    let cost = (growth[1] + growth[2]) * 2;
    assert!(cost > 0, "nothing was measured");
    println!("{SESSIONS} idle sessions: {} KiB each", cost / 1024 / SESSIONS as u64);
    assert!(cost < ALL, "{} MiB", cost / 1024 / 1024);
    let told = sockets[1_500].ask("session.list_jobs", json!({})).await;
    assert_eq!(told["type"], "session.jobs");
}
