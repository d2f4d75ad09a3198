//! Scenes of sending and reading: against pgbench, hot and spread, paced, and with all features.

use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::Connection as _;

use super::client::{Connection, Load, closed, paced, request};
use super::place::Place;
use super::report::{Report, median};
use super::scale::{rounds, scaled, spell};
use super::stage::{KEY, PAYLOAD, Process, Stage, channel_uuid, fdatasync};

/// Sends to `channels` from `clients` concurrently, optionally with idempotency keys, and checks the result.
pub async fn send(stage: &Stage, channels: &[String], clients: usize, idempotent: bool) -> Load {
    let (to, count) = (channels.to_vec(), channels.len());
    let run: u32 = rand();
    let before = stage.costs();
    let mut load = closed(stage.server.address, clients, spell(), move |client, n| {
        let channel = (client * 7_919 + n * 31) % count;
        let extra =
            if idempotent { format!("idempotency-key: {run}-{client}-{n}\r\n") } else { String::new() };
        (channel, Stage::message(&to[channel], client, &extra))
    })
    .await;
    load.costs = before.each(stage, load.acked.len());
    stage.check(&load, channels).await;
    load
}

/// Returns a number that differs between runs.
fn rand() -> u32 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).unwrap();
    u32::from_ne_bytes(bytes)
}

/// Creates intents, and returns their channels.
pub async fn channels(stage: &Stage, count: usize, audit: bool) -> Vec<String> {
    let options = json!({ "max_messages": 1_000_000, "audit": audit });
    stage.talks(count, &options).await.into_iter().map(|(_, channel)| channel).collect()
}

/// R1 and, at a pace that it finds, R5.
pub async fn sends(stage: &Stage, report: &mut Report) {
    let most = against_pgbench(stage, report).await;
    latency(stage, report, most).await;
}

/// R1: durable sends over HTTP beside pgbench's single-row inserts, at 32 and 64 clients: all on one channel,
/// and spread over 100 intents.
///
/// Returns the sends per second at 32 clients, spread.
async fn against_pgbench(stage: &Stage, report: &mut Report) -> f64 {
    let (hot, many) = (channels(stage, 1, false).await, channels(stage, scaled(100, 10), false).await);
    let mut paced_by = 0.0;
    for (clients, rows) in [
        (
            32,
            [
                ("R1 at 32 clients, one channel", 1.3, "≥ 1.3"),
                ("R1 at 32 clients, 100 intents", 1.2, "≥ 1.2"),
            ],
        ),
        (
            64,
            [
                ("R1 at 64 clients, one channel", 1.7, "≥ 1.7"),
                ("R1 at 64 clients, 100 intents", 1.4, "≥ 1.4"),
            ],
        ),
    ] {
        let (mut ours, mut theirs) = ([Vec::new(), Vec::new()], Vec::new());
        for _ in 0..rounds() {
            for (loads, channels) in ours.iter_mut().zip([&hot, &many]) {
                theirs.push(stage.pgbench(clients, spell()));
                loads.push(send(stage, channels, clients, false).await);
            }
        }
        let theirs = median(theirs);
        for ((name, aim, said), loads) in rows.into_iter().zip(&ours) {
            let rate = median(loads.iter().map(Load::rate).collect());
            let share = median(loads.iter().map(Load::share).collect());
            let costs = &loads[loads.len() - 1].costs;
            let detail = format!(
                "{rate:.0} sends/s over HTTP, {theirs:.0} pgbench inserts/s; {costs}; the clients use {share:.0} % of the \
                 processor"
            );
            report.add(name, format!("{:.2}", rate / theirs), said, rate >= aim * theirs, detail);
            if clients == 32 {
                paced_by = rate;
            }
        }
    }
    paced_by
}

/// Messages in a batch of R2.
const BATCH: usize = 100;

/// R2: messages in batches over HTTP beside rows of the same payload that pgbench inserts with one statement for as many.
pub async fn batches(stage: &Stage, report: &mut Report) {
    let row = json!({ "text": "x".repeat(PAYLOAD) });
    let script = format!(
        "INSERT INTO bench_rows (payload) SELECT r FROM unnest(array_fill('{row}'::text, ARRAY[{BATCH}])) r;\n"
    );
    let names = [("R2 batches, one channel", 1), ("R2 batches, 100 intents", scaled(100, 10))];
    let (mut ours, mut theirs) = ([Vec::new(), Vec::new()], Vec::new());
    for _ in 0..rounds() {
        for (loads, (_, count)) in ours.iter_mut().zip(names) {
            theirs.push(stage.pgbench_script(&script, 32, spell()));
            // A channel has a limit, which the batches of all rounds would exceed.
            loads.push(send_batches(stage, &channels(stage, count, false).await).await);
        }
    }
    let theirs = BATCH as f64 * median(theirs);
    for (loads, (name, _)) in ours.iter().zip(names) {
        let rate = BATCH as f64 * median(loads.iter().map(Load::rate).collect());
        let share = median(loads.iter().map(Load::share).collect());
        let detail = format!(
            "{rate:.0} messages/s in batches of {BATCH} over HTTP, {theirs:.0} rows/s in pgbench's, 32 clients, which \
             use {share:.0} % of the processor"
        );
        report.add(name, format!("{:.2}", rate / theirs), "≥ 0.5", rate >= 0.5 * theirs, detail);
    }
}

/// Sends batches to `to` from 32 clients, and checks that all their messages exist.
async fn send_batches(stage: &Stage, to: &[String]) -> Load {
    let item = json!({ "sender": "agent-0", "payload": { "text": "x".repeat(PAYLOAD) } });
    let body = json!({ "messages": vec![item; BATCH] }).to_string();
    let batch =
        |channel| request("POST", &format!("/api/v1/channels/{channel}/messages/batch"), KEY, "", &body);
    let requests: Vec<Vec<u8>> = to.iter().map(batch).collect();
    let load = closed(stage.server.address, 32, spell(), move |client, n| {
        let channel = (client * 7_919 + n * 31) % requests.len();
        (channel, requests[channel].clone())
    })
    .await;
    stage.check(&load, to).await;
    let ids: Vec<uuid::Uuid> = to.iter().map(|channel| channel_uuid(channel)).collect();
    let mut connection = stage.connect().await;
    let stored: i64 = sqlx::query_scalar("SELECT count(*) FROM messages WHERE channel_id = ANY($1)")
        .bind(&ids)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    assert_eq!(stored as usize, BATCH * load.acked.len(), "messages of batches were lost or doubled");
    load
}

/// R3: all clients on one channel beside all clients spread over 1,000 channels.
pub async fn spread(stage: &Stage, report: &mut Report) {
    let (hot, many) = (channels(stage, 1, false).await, channels(stage, scaled(1_000, 20), false).await);
    let (mut one, mut all) = (Vec::new(), Vec::new());
    for _ in 0..rounds() {
        one.push(send(stage, &hot, 32, false).await.rate());
        all.push(send(stage, &many, 32, false).await.rate());
    }
    let (one, all) = (median(one), median(all));
    let detail =
        format!("{one:.0} sends/s to one channel, {all:.0} to 1,000 channels on as many intents, 32 clients");
    report.add("R3 hot channel", format!("{:.2}", one / all), "≥ 0.8", one >= 0.8 * all, detail);
}

/// R5: the 99th percentile at 60 % of the highest rate, in fdatasyncs.
///
/// Paced, so that delayed requests do not hide a stall.
async fn latency(stage: &Stage, report: &mut Report, most: f64) {
    let to = channels(stage, scaled(100, 10), false).await;
    let names = to.clone();
    let pace = 0.6 * most;
    // As in a database that has run for a while, log segments are reused instead of created.
    stage.checkpoint().await;
    let mut load = paced(stage.server.address, 32, spell() * 2, pace, move |client, n| {
        let channel = (client * 7_919 + n * 31) % names.len();
        (channel, Stage::message(&names[channel], client, ""))
    })
    .await;
    stage.check(&load, &to).await;
    let sync = fdatasync(&stage.place.dir) * 1e6;
    let (p50, p99) = (load.quantile(0.5), load.quantile(0.99));
    let detail = format!(
        "p50 {:.2} ms, p99 {:.2} ms at {:.0} sends/s (asked for {pace:.0}); an fdatasync takes {sync:.0} µs",
        p50 / 1e3,
        p99 / 1e3,
        load.rate()
    );
    report.add(
        "R5 p99 at 60 % load",
        format!("{:.1} fdatasyncs", p99 / sync),
        "≤ 20",
        p99 <= 20.0 * sync,
        detail,
    );
}

/// R6: with an idempotency key on every send and an audited channel, beside sends without either.
///
/// Authentication, access checks and metrics cannot be switched off and are part of both.
pub async fn features(stage: &Stage, report: &mut Report) {
    let count = scaled(100, 10);
    let (plain, audited) = (channels(stage, count, false).await, channels(stage, count, true).await);
    let (mut off, mut on, mut costs) = (Vec::new(), Vec::new(), [String::new(), String::new()]);
    for _ in 0..rounds() {
        let (bare, full) = (send(stage, &plain, 32, false).await, send(stage, &audited, 32, true).await);
        off.push(bare.rate());
        on.push(full.rate());
        costs = [full.costs, bare.costs];
    }
    let (off, on, [full, bare]) = (median(off), median(on), costs);
    let detail = format!(
        "{on:.0} sends/s with idempotency keys into audited channels, {full}; {off:.0} without, {bare}; 32 clients"
    );
    report.add("R6 all features", format!("{:.2}", on / off), "≥ 0.85", on >= 0.85 * off, detail);
}

/// Reads the ten new messages of a channel with 100,000.
pub async fn since(stage: &Stage, report: &mut Report) {
    let channel = channels(stage, 1, false).await.remove(0);
    let path = format!("/channels/{channel}/messages");
    let item = json!({ "sender": "agent-0", "payload": { "text": "x".repeat(PAYLOAD) } });
    let batch = json!({ "messages": vec![item.clone(); 100] });
    let mut last = String::new();
    for _ in 0..scaled(1_000, 5) {
        let sent = stage.post(&format!("{path}/batch"), &batch).await;
        sent["results"][99]["message"]["id"].as_str().unwrap().clone_into(&mut last);
    }
    for _ in 0..10 {
        stage.post(&path, &item).await;
    }
    let mut connection = Connection::open(stage.server.address).await.unwrap();
    let ask = request("GET", &format!("/api/v1{path}?since={last}"), KEY, "", "");
    let (reads, mut micros) = (scaled(2_000, 50), Vec::new());
    for _ in 0..reads {
        let begun = Instant::now();
        let (status, body) = connection.exchange(&ask).await.unwrap();
        micros.push(begun.elapsed().as_secs_f64() * 1e6);
        assert_eq!(status, 200);
        assert_eq!(
            body.windows(8).filter(|part| part == b"\"sender\"").count(),
            10,
            "other than ten messages"
        );
    }
    micros.sort_by(f64::total_cmp);
    let (p50, p99) = (micros[reads / 2], micros[reads * 99 / 100]);
    let detail = format!("10 new of 100,000 messages, one client; p99 {:.2} ms", p99 / 1e3);
    report.add("GET …/messages?since=", format!("p50 {:.2} ms", p50 / 1e3), "< 1 ms", p50 < 1_000.0, detail);
}

/// Time from the start of the program until `/readyz` answers 200: on a new data directory, and on an
/// existing one.
pub async fn start(report: &mut Report) {
    let place = Place::new();
    let first = start_once(&place.dir).await;
    let mut again = Vec::new();
    for _ in 0..rounds() {
        again.push(start_once(&place.dir).await);
    }
    let again = median(again);
    let detail = "PostgreSQL's start, migrations and the server's, until /readyz is 200".to_owned();
    report.add("Start, new directory", format!("{first:.2} s"), "< 5 s", first < 5.0, detail.clone());
    report.add("Start, existing directory", format!("{again:.2} s"), "< 1.5 s", again < 1.5, detail);
}

async fn start_once(dir: &std::path::Path) -> f64 {
    let begun = Instant::now();
    let server = Process::start(dir, None);
    loop {
        if let Ok(mut connection) = Connection::open(server.address).await
            && let Ok((200, _)) = connection.exchange(&request("GET", "/readyz", KEY, "", "")).await
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let seconds = begun.elapsed().as_secs_f64();
    server.stop();
    seconds
}
