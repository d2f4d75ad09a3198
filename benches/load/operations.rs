//! Scenes of operations on an intent beside the statements that they need in pgbench (R12), and of reading one intent
//! beside pgbench's SELECT of it (R13).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::json;
use sqlx::Connection as _;

use super::client::{Connection, Load, closed, request};
use super::report::{Report, median};
use super::scale::{rounds, scaled, spell};
use super::stage::{KEY, Stage};

/// Clients of the server, and of pgbench.
const CLIENTS: usize = 32;

/// Tables for pgbench with the same kinds of rows: the ends of logs, events, and the things that operations change.
const TABLES: &str = "
CREATE TABLE bench_clock (id bigint PRIMARY KEY, last_seq bigint NOT NULL, title text NOT NULL);
INSERT INTO bench_clock SELECT n, 0, 'bench' FROM generate_series(1, 100) n;
CREATE TABLE bench_events (id bigserial PRIMARY KEY, intent bigint NOT NULL, payload text NOT NULL, hash bytea NOT NULL);
CREATE INDEX ON bench_events (intent, id);
CREATE TABLE bench_things (id bigserial PRIMARY KEY, intent bigint NOT NULL, status text NOT NULL, body text NOT NULL);
CREATE INDEX ON bench_things (intent, id);
INSERT INTO bench_things (intent, status, body) SELECT 1 + n % 100, 'ready', repeat('x', 200) FROM generate_series(1, 10000) n;
";

/// Locks the intent's row, and reads it; then writes the thing, its event and the end of the log.
const CREATE: &str = "
\\set i random(1, 100)
BEGIN;
SELECT last_seq, title FROM bench_clock WHERE id = :i FOR UPDATE;
INSERT INTO bench_things (intent, status, body) VALUES (:i, 'ready', repeat('x', 200));
INSERT INTO bench_events (intent, payload, hash) VALUES (:i, repeat('x', 250), '\\x00112233445566778899aabbccddeeff');
UPDATE bench_clock SET last_seq = last_seq + 1 WHERE id = :i;
COMMIT;
";

/// As [`CREATE`], with a read and a change of a thing that exists.
const CHANGE: &str = "
\\set i random(1, 100)
\\set t :i - 1 + 100 * random(1, 99)
BEGIN;
SELECT last_seq, title FROM bench_clock WHERE id = :i FOR UPDATE;
SELECT status, body FROM bench_things WHERE id = :t;
UPDATE bench_things SET status = 'held' WHERE id = :t;
INSERT INTO bench_events (intent, payload, hash) VALUES (:i, repeat('x', 250), '\\x00112233445566778899aabbccddeeff');
UPDATE bench_clock SET last_seq = last_seq + 1 WHERE id = :i;
COMMIT;
";

/// A new intent with its first event.
const OPEN: &str = "
BEGIN;
INSERT INTO bench_things (intent, status, body) VALUES (0, 'active', repeat('x', 200)) RETURNING id AS t \\gset
INSERT INTO bench_clock (id, last_seq, title) VALUES (1000000 + :t, 1, 'bench');
INSERT INTO bench_events (intent, payload, hash) VALUES (:t, repeat('x', 250), '\\x00112233445566778899aabbccddeeff');
COMMIT;
";

/// The row of an intent and the end of its log.
const READ: &str = "
\\set i random(1, 100)
SELECT t.id, t.status, t.body, c.last_seq, c.title FROM bench_things t JOIN bench_clock c ON c.id = t.intent WHERE t.id = :i;
";

async fn intents(stage: &Stage) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..scaled(100, 10) {
        let intent =
            stage.post("/intents", &json!({ "title": "bench", "state": { "x": "y".repeat(150) } })).await;
        ids.push(intent["id"].as_str().unwrap().to_owned());
    }
    ids
}

/// Requests per second, and what each has cost.
struct Pace {
    rate: f64,
    costs: String,
}

impl From<Load> for Pace {
    fn from(load: Load) -> Self {
        Self { rate: load.rate(), costs: load.costs }
    }
}

/// Runs the same kind of request during [`spell`], on one intent after the other.
async fn repeat(stage: &Stage, make: impl Fn(usize, usize) -> Vec<u8> + Clone + Send + 'static) -> Load {
    let before = stage.costs();
    let mut load =
        closed(stage.server.address, CLIENTS, spell(), move |client, n| (0, make(client, n))).await;
    assert_eq!(load.failures, 0, "requests were refused");
    load.costs = before.each(stage, load.acked.len());
    load
}

/// Sends each request once.
async fn each(stage: &Stage, requests: Vec<Vec<u8>>) -> Pace {
    let before = stage.costs();
    let (requests, next, began) = (Arc::new(requests), Arc::new(AtomicUsize::new(0)), Instant::now());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (requests, next, address) = (Arc::clone(&requests), Arc::clone(&next), stage.server.address);
            tokio::spawn(async move {
                let mut connection = Connection::open(address).await.unwrap();
                while let Some(bytes) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (status, body) = connection.exchange(bytes).await.unwrap();
                    assert!((200..300).contains(&status), "{status} {}", String::from_utf8_lossy(&body));
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let rate = requests.len() as f64 / began.elapsed().as_secs_f64();
    Pace { rate, costs: before.each(stage, requests.len()) }
}

fn post(path: &str, body: &str) -> Vec<u8> {
    request("POST", &format!("/api/v1{path}"), KEY, "", body)
}

/// Rates of one round, in the order of [`NAMES`].
async fn round(stage: &Stage, to: &[String]) -> Vec<Pace> {
    let at = |client: usize, n: usize, count: usize| (client * 7_919 + n * 31) % count;
    let (ids, count) = (to.to_vec(), to.len());
    let task = json!({ "name": "bench", "input": { "text": "x".repeat(150) } }).to_string();
    let made =
        repeat(stage, move |client, n| post(&format!("/intents/{}/tasks", ids[at(client, n, count)]), &task))
            .await;
    let tasks: Vec<String> = made.acked.iter().map(|(_, _, id)| id.clone()).collect();
    let mut paces = vec![made.into()];
    for verb in ["claim", "complete"] {
        paces.push(
            each(stage, tasks.iter().map(|id| post(&format!("/tasks/{id}/{verb}"), "{}")).collect()).await,
        );
    }
    let ids = to.to_vec();
    // Scopes that do not overlap; a lease of a second ends by itself.
    let leases = repeat(stage, move |client, n| {
        let body = format!(r#"{{"scope":"s{client}x{n}","duration_seconds":1}}"#);
        post(&format!("/intents/{}/leases", ids[at(client, n, count)]), &body)
    });
    paces.push(leases.await.into());
    let ids = to.to_vec();
    let costs = repeat(stage, move |client, n| {
        let body = r#"{"cost_type":"tokens","amount":0.01,"unit":"USD"}"#;
        post(&format!("/intents/{}/costs", ids[at(client, n, count)]), body)
    });
    paces.push(costs.await.into());
    let body = json!({ "title": "bench", "state": { "x": "y".repeat(150) } }).to_string();
    paces.push(repeat(stage, move |_, _| post("/intents", &body)).await.into());
    paces
}

/// The rows of [`operations`], with the script in pgbench that each stands beside.
const NAMES: [(&str, &str); 6] = [
    ("R12 task", CREATE),
    ("R12 claim", CHANGE),
    ("R12 complete", CHANGE),
    ("R12 lease", CREATE),
    ("R12 cost", CREATE),
    ("R12 intent", OPEN),
];

async fn tables(stage: &Stage) {
    let mut connection = stage.connect().await;
    let known: bool = sqlx::query_scalar("SELECT to_regclass('bench_clock') IS NOT NULL")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    if !known {
        sqlx::raw_sql(TABLES).execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
}

/// R12: operations per second over 100 intents, beside the same statements in pgbench over a Unix socket.
pub async fn operations(stage: &Stage, report: &mut Report) {
    tables(stage).await;
    let to = intents(stage).await;
    let (mut ours, mut theirs) = (vec![Vec::new(); NAMES.len()], vec![Vec::new(); NAMES.len()]);
    let mut costs = vec![String::new(); NAMES.len()];
    for _ in 0..rounds() {
        let scripts =
            [CREATE, CHANGE, OPEN].map(|script| (script, stage.pgbench_script(script, CLIENTS, spell())));
        for (index, (_, script)) in NAMES.iter().enumerate() {
            theirs[index].extend(scripts.iter().find(|(known, _)| known == script).map(|(_, rate)| *rate));
        }
        for (index, pace) in round(stage, &to).await.into_iter().enumerate() {
            ours[index].push(pace.rate);
            costs[index] = pace.costs;
        }
    }
    for ((((name, _), ours), theirs), costs) in NAMES.into_iter().zip(ours).zip(theirs).zip(costs) {
        let (ours, theirs) = (median(ours), median(theirs));
        let detail = format!(
            "{ours:.0}/s over HTTP, {theirs:.0} transactions of the same statements in pgbench; {costs}"
        );
        report.add(name, format!("{:.2}", ours / theirs), "≥ 1.0", ours >= theirs, detail);
    }
}

/// R13: reading one intent, beside pgbench's SELECT of the same rows.
pub async fn reads(stage: &Stage, report: &mut Report) {
    tables(stage).await;
    let to = intents(stage).await;
    let (mut ours, mut theirs, mut p50) = (Vec::new(), Vec::new(), Vec::new());
    let mut costs = String::new();
    for _ in 0..rounds() {
        theirs.push(stage.pgbench_script(READ, CLIENTS, spell()));
        let (ids, count) = (to.clone(), to.len());
        let mut load = repeat(stage, move |client, n| {
            let path = format!("/api/v1/intents/{}", ids[(client * 7_919 + n * 31) % count]);
            request("GET", &path, KEY, "", "")
        })
        .await;
        p50.push(load.quantile(0.5));
        ours.push(load.rate());
        costs = load.costs;
    }
    let (ours, theirs, p50) = (median(ours), median(theirs), median(p50));
    let detail = format!(
        "{ours:.0} reads/s over HTTP, p50 {:.2} ms, {theirs:.0} SELECTs in pgbench, {CLIENTS} clients; {costs}",
        p50 / 1e3
    );
    report.add("R13 GET intent", format!("{:.2}", ours / theirs), "≥ 0.5", ours >= 0.5 * theirs, detail);
}
