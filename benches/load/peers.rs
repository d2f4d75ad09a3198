//! R15: what a message costs with two servers, in processor time of the servers and of PostgreSQL; and what an idle
//! server asks of its database.

use std::time::{Duration, Instant};

use super::client::{Load, closed};
use super::report::{Report, median};
use super::scale::{rounds, scaled, spell};
use super::scenes::channels;
use super::stage::{Process, Stage};

/// Clients, on all servers together.
const CLIENTS: usize = 32;

/// Time for servers to learn of each other.
const ACQUAINTANCE: Duration = Duration::from_secs(5);

/// Settings of servers that hand messages to each other.
const PEERS: [(&str, &str); 1] = [("ENTENTE_PEER_LISTEN", "127.0.0.1:0")];

/// Sends to `to` from clients at these servers, and returns the microseconds of processor time per message.
async fn cost(stage: &Stage, servers: &[&Process], all: &[&Process], to: &[String]) -> f64 {
    let spent = || all.iter().map(|server| server.processor()).sum::<f64>() + stage.database_processor();
    let before = spent();
    let loads = servers.iter().enumerate().map(|(place, server)| {
        let (to, clients, first) = (to.to_vec(), CLIENTS / servers.len(), place * CLIENTS);
        closed(server.address, clients, spell(), move |client, n| {
            let channel = (client * 7_919 + n * 31) % to.len();
            (channel, Stage::message(&to[channel], first + client, ""))
        })
    });
    let loads: Vec<Load> = futures_util::future::join_all(loads).await;
    let cost = spent() - before;
    let mut sent = 0;
    for load in &loads {
        stage.check(load, to).await;
        sent += load.acked.len();
    }
    cost * 1e6 / sent as f64
}

/// R15: two servers beside one, on a hot channel, over 100 intents, and with the second server idle.
pub async fn two_servers(stage: &Stage, report: &mut Report) {
    let (hot, many) = (channels(stage, 1, false).await, channels(stage, scaled(100, 10), false).await);
    let (mut one, mut two) = (vec![Vec::new(), Vec::new()], vec![Vec::new(), Vec::new(), Vec::new()]);
    for _ in 0..rounds() {
        let a = stage.another_server(&PEERS);
        for (costs, to) in one.iter_mut().zip([&hot, &many]) {
            costs.push(cost(stage, &[&a], &[&a], to).await);
        }
        let b = stage.another_server(&PEERS);
        tokio::time::sleep(ACQUAINTANCE).await;
        // First: later, intents that both have written to are handed over for a while.
        two[2].push(cost(stage, &[&a], &[&a, &b], &many).await);
        for (costs, to) in two.iter_mut().zip([&hot, &many]) {
            costs.push(cost(stage, &[&a, &b], &[&a, &b], to).await);
        }
        b.stop();
        a.stop();
    }
    let one: Vec<f64> = one.into_iter().map(median).collect();
    let names = ["R15 two servers, one channel", "R15 two servers, 100 intents", "R15 second server idle"];
    for ((name, costs), alone) in names.into_iter().zip(two).zip([one[0], one[1], one[1]]) {
        let both = median(costs);
        let detail = format!(
            "{both:.0} µs of processor time per message, {alone:.0} with one server, {CLIENTS} clients"
        );
        report.add(name, format!("{:.2}", both / alone), "≤ 1.15", both <= 1.15 * alone, detail);
    }
}

/// Statements per second of an idle server, without those of this measurement.
pub async fn idle(stage: &Stage, report: &mut Report) {
    let (mut connection, time) = (stage.connect().await, spell() * 2);
    // Statements outside of transactions are transactions; so are those that begin one.
    let commits =
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    tokio::time::sleep(Duration::from_secs(scaled(5, 1) as u64)).await;
    let mut rates = Vec::new();
    for _ in 0..rounds() {
        let before: i64 = sqlx::query_scalar(commits).fetch_one(&mut connection).await.unwrap();
        let begun = Instant::now();
        tokio::time::sleep(time).await;
        let after: i64 = sqlx::query_scalar(commits).fetch_one(&mut connection).await.unwrap();
        rates.push((after - before - 1) as f64 / begun.elapsed().as_secs_f64());
    }
    // Autovacuum after the scenes before counts as well, and is not the server's.
    let rate = rates.into_iter().fold(f64::INFINITY, f64::min);
    let detail = format!("transactions of an idle server over {time:?}");
    report.add("Idle server", format!("{rate:.1} per second"), "≤ 10", rate <= 10.0, detail);
}
