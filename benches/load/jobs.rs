//! Scenes of jobs (ARCP): full cycles beside pgbench, events into one job, and the wake-up of a waiting
//! worker.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::Connection as _;

use super::client::{self, Connection, request};
use super::report::{Report, median};
use super::scale::{rounds, scaled, spell};
use super::stage::{KEY, Stage};

/// Submitting clients, workers, and connections per worker that report results.
const SUBMITTERS: usize = 32;
const WORKERS: usize = 4;
const HANDS: usize = 8;

/// The four statements of a cycle on a table for pgbench: submit, claim the oldest pending job, heartbeat,
/// complete.
const CYCLE: &str = "
INSERT INTO bench_jobs (agent, input, status) VALUES ('echo@1', '{\"x\": 1}', 'pending') RETURNING id \\gset
WITH c AS (UPDATE bench_jobs SET status = 'running', attempt = attempt + 1, until = now() + interval '60 s' WHERE id = (
    SELECT id FROM bench_jobs WHERE status = 'pending' AND agent = 'echo@1' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
  RETURNING id) SELECT coalesce((SELECT id FROM c), :id) AS id \\gset
UPDATE bench_jobs SET until = now() + interval '60 s' WHERE id = :id;
UPDATE bench_jobs SET status = 'success', result = '{\"y\": 1}' WHERE id = :id;
";

const TABLE: &str = "
CREATE TABLE bench_jobs (id bigserial PRIMARY KEY, agent text NOT NULL, input text NOT NULL, status text NOT NULL,
    attempt integer NOT NULL DEFAULT 0, until timestamptz, result text);
CREATE INDEX ON bench_jobs (agent, id) WHERE status = 'pending';
";

/// Registers the agent of the scenes.
pub async fn register(address: SocketAddr) {
    client::ask(address, "PUT", "/arcp/agents/echo/versions/1", KEY, &json!({})).await;
}

async fn worker(address: SocketAddr) -> String {
    let said = json!({ "name": "bench", "agents": ["echo@1"], "slots": 64 });
    let worker = client::ask(address, "POST", "/workers", KEY, &said).await;
    worker["worker_id"].as_str().unwrap().to_owned()
}

async fn ask(connection: &mut Connection, path: &str, body: &str) -> Value {
    let bytes = request("POST", &format!("/api/v1{path}"), KEY, "", body);
    let (status, answer) = connection.exchange(&bytes).await.unwrap();
    assert!((200..300).contains(&status), "{path}: {status} {}", String::from_utf8_lossy(&answer));
    serde_json::from_slice(&answer).unwrap()
}

/// R4: full cycles per second over HTTP, with one request per step, beside the same four statements in
/// pgbench.
pub async fn cycles(stage: &Stage, report: &mut Report) {
    register(stage.server.address).await;
    let mut connection = stage.connect().await;
    sqlx::raw_sql(TABLE).execute(&mut connection).await.unwrap();
    let (mut ours, mut theirs, mut costs) = (Vec::new(), Vec::new(), String::new());
    for _ in 0..rounds() {
        theirs.push(stage.pgbench_script(CYCLE, SUBMITTERS, spell()));
        let (before, begun) = (stage.costs(), Instant::now());
        let rate = cycle(stage.server.address, &json!({ "x": 1 })).await;
        costs = before.each(stage, (rate * begun.elapsed().as_secs_f64()) as usize);
        ours.push(rate);
    }
    let open: i64 = sqlx::query_scalar("SELECT count(*) FROM job_clock WHERE ended_at IS NULL")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    let twice: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM (SELECT job_id FROM job_events WHERE type <> 'job.event' GROUP BY job_id HAVING count(*) > 1) d",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert_eq!((open, twice), (0, 0), "jobs that did not end, or twice");
    connection.close().await.unwrap();
    let (ours, theirs) = (median(ours), median(theirs));
    let detail = format!(
        "{ours:.0} jobs/s over HTTP, {theirs:.0} of the same four statements in pgbench, {SUBMITTERS} clients, {WORKERS} workers; \
         {costs} (last round)"
    );
    report.add("R4 full job cycle", format!("{:.2}", ours / theirs), "≥ 1.5", ours >= 1.5 * theirs, detail);
}

/// Submits jobs with this input, claims, heartbeats and completes them during [`spell`]; returns the completed jobs per
/// second.
pub async fn cycle(address: SocketAddr, input: &Value) -> f64 {
    let (done, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let job = json!({ "agent": "echo", "input": input }).to_string();
    let submission = Arc::new(request("POST", "/api/v1/jobs", KEY, "", &job));
    let submitted = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..SUBMITTERS {
        let (submitted, done, bytes) = (Arc::clone(&submitted), Arc::clone(&done), Arc::clone(&submission));
        tasks.push(tokio::spawn(async move {
            let mut connection = Connection::open(address).await.unwrap();
            while began.elapsed() < spell() {
                // Limits the lead over the workers: the scene measures a cycle, not a queue.
                if submitted.load(Ordering::Relaxed) > done.load(Ordering::Relaxed) + 2_000 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
                let (status, _) = connection.exchange(&bytes).await.unwrap();
                assert_eq!(status, 201);
                submitted.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for _ in 0..WORKERS {
        let (id, done, over) = (worker(address).await, Arc::clone(&done), Arc::clone(&over));
        tasks.push(tokio::spawn(async move { work(address, &id, &done, &over).await }));
    }
    for task in tasks.drain(..SUBMITTERS) {
        task.await.unwrap();
    }
    while done.load(Ordering::Relaxed) < submitted.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let seconds = began.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    done.load(Ordering::Relaxed) as f64 / seconds
}

async fn work(address: SocketAddr, id: &str, done: &Arc<AtomicUsize>, over: &Arc<AtomicBool>) {
    let mut connection = Connection::open(address).await.unwrap();
    let mut hands = Vec::new();
    for _ in 0..HANDS {
        hands.push(Connection::open(address).await.unwrap());
    }
    let claim = json!({ "worker_id": id, "max": 64, "wait_sec": 0.2 }).to_string();
    while !over.load(Ordering::Relaxed) {
        let claimed = ask(&mut connection, "/jobs/claim", &claim).await;
        let jobs = claimed["jobs"].as_array().unwrap();
        if jobs.is_empty() {
            continue;
        }
        let held: Vec<Value> = jobs
            .iter()
            .map(|job| json!({ "job_id": job["job_id"], "claim_token": job["claim_token"] }))
            .collect();
        let beat = json!({ "jobs": held }).to_string();
        let told = ask(&mut connection, &format!("/workers/{id}/heartbeat"), &beat).await;
        assert_eq!(told["lost"], json!([]));
        let shares = hands.iter_mut().enumerate().map(|(hand, connection)| {
            let mine: Vec<&Value> = jobs.iter().skip(hand).step_by(HANDS).collect();
            async move {
                for job in mine {
                    let path = format!("/jobs/{}/result", job["job_id"].as_str().unwrap());
                    let body = format!(r#"{{"claim_token":{},"result":{{"y":1}}}}"#, job["claim_token"]);
                    ask(connection, &path, &body).await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        futures_util::future::join_all(shares).await;
    }
}

/// Events in batches of 50 into one job, over four concurrent connections.
pub async fn events(stage: &Stage, report: &mut Report) {
    register(stage.server.address).await;
    let id = worker(stage.server.address).await;
    let mut rates = Vec::new();
    for _ in 0..rounds() {
        stage.post("/jobs", &json!({ "agent": "echo" })).await;
        let claimed = stage.post("/jobs/claim", &json!({ "worker_id": id, "max": 1 })).await;
        let job = &claimed["jobs"][0];
        let event = json!({ "kind": "log", "body": { "level": "info", "message": "x".repeat(100) } });
        let body = json!({ "claim_token": job["claim_token"], "events": vec![event; 50] }).to_string();
        let path = format!("/api/v1/jobs/{}/events", job["job_id"].as_str().unwrap());
        let bytes = Arc::new(request("POST", &path, KEY, "", &body));
        let (address, began) = (stage.server.address, Instant::now());
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let bytes = Arc::clone(&bytes);
                tokio::spawn(async move {
                    let mut connection = Connection::open(address).await.unwrap();
                    let mut kept = 0;
                    while began.elapsed() < spell() {
                        let (status, _) = connection.exchange(&bytes).await.unwrap();
                        assert_eq!(status, 200);
                        kept += 50;
                    }
                    kept
                })
            })
            .collect();
        let mut kept = 0;
        for task in tasks {
            kept += task.await.unwrap();
        }
        let seconds = began.elapsed().as_secs_f64();
        let end = json!({ "claim_token": job["claim_token"], "result": null });
        let told = stage.post(&format!("/jobs/{}/result", job["job_id"].as_str().unwrap()), &end).await;
        assert_eq!(told["last_event_seq"], kept + 1, "events were lost or doubled");
        rates.push(f64::from(kept) / seconds);
    }
    let rate = median(rates);
    let detail = "batches of 50 from 4 connections, each durable when it is answered".to_owned();
    report.add("Job events into one job", format!("{rate:.0}/s"), "≥ 20,000/s", rate >= 20_000.0, detail);
}

/// Time from a submission to the answer of a waiting worker's claim.
pub async fn wake(stage: &Stage, report: &mut Report) {
    register(stage.server.address).await;
    let id = worker(stage.server.address).await;
    let (address, count) = (stage.server.address, scaled(500, 20));
    let (sender, mut woken) = tokio::sync::mpsc::unbounded_channel();
    let worker = tokio::spawn(async move {
        let mut connection = Connection::open(address).await.unwrap();
        let claim = json!({ "worker_id": id, "max": 1, "wait_sec": 5 }).to_string();
        for _ in 0..count {
            let claimed = ask(&mut connection, "/jobs/claim", &claim).await;
            let job = claimed["jobs"][0].clone();
            sender.send(Instant::now()).unwrap();
            let end = json!({ "claim_token": job["claim_token"], "result": null }).to_string();
            ask(&mut connection, &format!("/jobs/{}/result", job["job_id"].as_str().unwrap()), &end).await;
        }
    });
    let mut connection = Connection::open(address).await.unwrap();
    let mut millis = Vec::new();
    for _ in 0..count {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let begun = Instant::now();
        ask(&mut connection, "/jobs", r#"{"agent":"echo"}"#).await;
        millis.push(woken.recv().await.unwrap().duration_since(begun).as_secs_f64() * 1e3);
    }
    worker.await.unwrap();
    millis.sort_by(f64::total_cmp);
    let (p50, p99) = (millis[count / 2], millis[count * 99 / 100]);
    let detail = format!("from the submission to the waiting worker's answer; p50 {p50:.1} ms");
    report.add("Claim wake-up", format!("p99 {p99:.1} ms"), "< 50 ms", p99 < 50.0, detail);
}
