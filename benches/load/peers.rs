//! R15 and R16: what a message costs with two servers and with two cells, in processor time of the servers and of
//! PostgreSQL; and what an idle server asks of its database.

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

/// A server that clients send to, its database, and the channels.
#[derive(Clone, Copy)]
struct Target<'a> {
    stage: &'a Stage,
    server: &'a Process,
    to: &'a [String],
}

/// Sends from clients that are divided over these targets, and returns the microseconds of processor time per message.
async fn cost(targets: &[Target<'_>], spent: impl Fn() -> f64) -> f64 {
    let before = spent();
    let loads = targets.iter().enumerate().map(|(place, target)| {
        let (to, clients, first) = (target.to.to_vec(), CLIENTS / targets.len(), place * CLIENTS);
        closed(target.server.address, clients, spell(), move |client, n| {
            let channel = (client * 7_919 + n * 31) % to.len();
            (channel, Stage::message(&to[channel], first + client, ""))
        })
    });
    let loads: Vec<Load> = futures_util::future::join_all(loads).await;
    let cost = spent() - before;
    let mut sent = 0;
    for (target, load) in targets.iter().zip(&loads) {
        target.stage.check(load, target.to).await;
        sent += load.acked.len();
    }
    cost * 1e6 / sent as f64
}

/// As [`cost`], to the same channels of one database; also servers that nobody sends to cost something.
async fn shared_cost(stage: &Stage, servers: &[&Process], all: &[&Process], to: &[String]) -> f64 {
    let targets: Vec<Target<'_>> = servers.iter().map(|server| Target { stage, server, to }).collect();
    let spent = || all.iter().map(|server| server.processor()).sum::<f64>() + stage.database_processor();
    cost(&targets, spent).await
}

/// R15: two servers beside one, on a hot channel, over 100 intents, and with the second server idle.
pub async fn two_servers(stage: &Stage, report: &mut Report) {
    let (hot, many) = (channels(stage, 1, false).await, channels(stage, scaled(100, 10), false).await);
    let (mut one, mut two) = (vec![Vec::new(), Vec::new()], vec![Vec::new(), Vec::new(), Vec::new()]);
    for _ in 0..rounds() {
        let a = stage.another_server(&PEERS);
        for (costs, to) in one.iter_mut().zip([&hot, &many]) {
            costs.push(shared_cost(stage, &[&a], &[&a], to).await);
        }
        let b = stage.another_server(&PEERS);
        tokio::time::sleep(ACQUAINTANCE).await;
        // First: later, intents that both have written to are handed over for a while.
        two[2].push(shared_cost(stage, &[&a], &[&a, &b], &many).await);
        for (costs, to) in two.iter_mut().zip([&hot, &many]) {
            costs.push(shared_cost(stage, &[&a, &b], &[&a, &b], to).await);
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

/// R16: two cells, each a server with its own PostgreSQL and its own intents, beside one.
pub async fn cells(report: &mut Report) {
    let (a, b) = (Stage::set().await, Stage::set().await);
    let intents = scaled(100, 10);
    let (to_a, to_b) = (channels(&a, intents, false).await, channels(&b, intents, false).await);
    let cells = [(&a, &to_a), (&b, &to_b)].map(|(stage, to)| Target { stage, server: &stage.server, to });
    let spent = |cell: &Target<'_>| cell.server.processor() + cell.stage.database_processor();
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for _ in 0..rounds() {
        for cell in cells {
            one.push(cost(&[cell], || spent(&cell)).await);
        }
        two.push(cost(&cells, || cells.iter().map(spent).sum()).await);
    }
    let (one, two) = (median(one), median(two));
    let detail = format!(
        "{two:.0} µs of processor time per message, {one:.0} with one cell, {CLIENTS} clients in all, {intents} intents \
         in each cell"
    );
    report.add("R16 two cells", format!("{:.2}", two / one), "≤ 1.1", two <= 1.1 * one, detail);
    a.strike().await;
    b.strike().await;
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
    // Autovacuum counts as well, and is not the server's.
    let rate = rates.into_iter().fold(f64::INFINITY, f64::min);
    let detail = format!("transactions of an idle server over {time:?}");
    report.add("Idle server", format!("{rate:.1} per second"), "≤ 10", rate <= 10.0, detail);
}
