//! The cost of many idle sessions.

use std::fs;

use futures_util::future::join_all;

use entente_harness::process::{KEY, Launch, Place};
use entente_harness::socket::{FEATURES, Socket, hello};
use entente_harness::{Cluster, json};

/// Number of open, idle sessions.
const SESSIONS: usize = 2_000;
/// Maximum memory of all of them in bytes.
const ALL: u64 = 64 * 1024 * 1024;

/// Returns the resident memory of a process in bytes.
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
    // One-time allocations do not count: the start, and the memory for a key's slow hash. So the middle two of four
    // quarters stand for all.
    growth.sort_unstable();
    let cost = (growth[1] + growth[2]) * 2;
    assert!(cost > 0, "nothing was measured");
    println!("{SESSIONS} idle sessions: {} KiB each", cost / 1024 / SESSIONS as u64);
    assert!(cost < ALL, "{} MiB", cost / 1024 / 1024);
    let told = sockets[1_500].ask("session.list_jobs", json!({})).await;
    assert_eq!(told["type"], "session.jobs");
}
