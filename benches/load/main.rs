//! Load benchmark (`make bench`): Entente over HTTP beside PostgreSQL's pgbench, interleaved on one machine in
//! one run, so that the figures are ratios independent of the machine. Prints a table and writes it to
//! `bench-results/latest.md`. After every load it checks that each acknowledged message exists exactly once
//! and in its sender's order.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on says where")]
#![expect(clippy::disallowed_methods, reason = "a bench has no server whose tasks or chance it could use")]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "these are measurements"
)]

mod client;
mod jobs;
mod post;
mod report;
mod scenes;
mod sessions;
mod stage;
mod streams;

use std::time::Duration;

use report::Report;
use stage::Stage;

/// Duration of each load of a comparison, and the number of times that both sides take turns.
const SPELL: Duration = Duration::from_secs(4);
const ROUNDS: usize = 3;

fn main() {
    // `cargo bench` and `cargo test --benches` pass their own arguments; names of scenes select them.
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(run(&wanted));
}

async fn run(wanted: &[String]) {
    let picked = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    let mut report = Report::new();
    if picked("start") {
        scenes::start(&mut report).await;
    }
    let mut stage = Stage::set().await;
    if picked("r1") || picked("r5") {
        let most = scenes::against_pgbench(&stage, &mut report).await;
        scenes::latency(&stage, &mut report, most).await;
    }
    if picked("r3") {
        scenes::spread(&stage, &mut report).await;
    }
    if picked("r4") {
        jobs::cycles(&stage, &mut report).await;
        jobs::events(&stage, &mut report).await;
        jobs::wake(&stage, &mut report).await;
    }
    if picked("sessions") {
        sessions::submit(&stage, &mut report).await;
    }
    if picked("post") {
        post::signed(&stage, &mut report).await;
        post::fan_out(&stage, &mut report).await;
    }
    if picked("r6") {
        scenes::features(&stage, &mut report).await;
    }
    if picked("r7") {
        streams::subscribers(&stage, &mut report).await;
    }
    if picked("since") {
        scenes::since(&stage, &mut report).await;
    }
    if picked("nodes") {
        streams::two_servers(&stage, &mut report).await;
    }
    if picked("r10") {
        stage.restart().await;
        streams::idle(&stage, &mut report).await;
    }
    if picked("sessions") {
        stage.restart().await;
        sessions::idle(&stage, &mut report).await;
    }
    stage.strike().await;
    report.finish();
}
