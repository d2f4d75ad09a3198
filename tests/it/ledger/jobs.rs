//! The ledger of jobs (ARCP): clients submit over sockets and resume, workers claim and report, while the server,
//! PostgreSQL, workers and clients are killed in turn. Afterwards every accepted job has ended once and its events
//! have no gaps, every client has received each number of its session once, and the budgets are exact.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use super::{PATIENCE, Run, insist, kill_repeatedly, kills};
use entente_harness::process::{KEY, Launch, Place};
use entente_harness::{Client, Value, json};

/// Number of submitting clients, and of concurrent jobs per client.
const SUBMITTERS: u64 = 4;
const UNDER_WAY: usize = 3;
/// Number of workers.
const WORKERS: u64 = 3;
/// Number of events that a worker reports per job; half of them are costs.
const EVENTS: u64 = 6;

/// Everything that a client received about its session and its jobs.
#[derive(Default)]
struct Story {
    who: u64,
    session: String,
    token: String,
    /// The last sequence number that it received.
    last: i64,
    /// Its jobs by their number, and the events and end of each.
    jobs: BTreeMap<u64, String>,
    heard: HashMap<String, Vec<Value>>,
    ended: HashMap<String, Value>,
    resumed: u32,
    dropped: u32,
}

type Wire = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

impl Story {
    /// Opens the session or resumes it.
    async fn connect(&mut self, address: &str) -> Option<Wire> {
        let (mut wire, _) = connect_async(format!("ws://{address}/arcp")).await.ok()?;
        let mut payload = json!({
            "client": { "name": "ledger", "version": "1" }, "auth": { "scheme": "bearer", "token": KEY },
            "capabilities": { "features": ["subscribe", "list_jobs", "cost.budget", "progress"] },
        });
        if !self.session.is_empty() {
            payload["resume"] = json!({
                "session_id": self.session, "resume_token": self.token, "last_event_seq": self.last,
            });
        }
        say(&mut wire, "session.hello", &payload).await?;
        let welcome = hear(&mut wire).await?;
        if welcome["type"] == "session.error" {
            // While the database is down, the server cannot authenticate.
            assert_eq!(welcome["payload"]["code"], "INTERNAL_ERROR", "client {}: {welcome}", self.who);
            return None;
        }
        assert_eq!(welcome["type"], "session.welcome", "{welcome}");
        let session = welcome["session_id"].as_str().unwrap();
        assert!(self.session.is_empty() || self.session == session, "another session came back");
        self.resumed += u32::from(!self.session.is_empty());
        session.clone_into(&mut self.session);
        welcome["payload"]["resume_token"].as_str().unwrap().clone_into(&mut self.token);
        Some(wire)
    }

    /// Records a frame; returns whether it is the acceptance of a job.
    fn take(&mut self, frame: &Value) {
        if let Some(seq) = frame["event_seq"].as_i64() {
            assert_eq!(seq, self.last + 1, "client {}: a gap or a repetition: {frame}", self.who);
            self.last = seq;
            let job = frame["job_id"].as_str().unwrap().to_owned();
            if frame["type"] == "job.event" {
                assert!(!self.ended.contains_key(&job), "an event after the end: {frame}");
                self.heard.entry(job).or_default().push(frame["payload"].clone());
            } else {
                let before = self.ended.insert(job, frame["payload"].clone());
                assert!(before.is_none(), "a second end: {frame}");
            }
        } else if frame["type"] == "session.error" {
            assert_eq!(frame["payload"]["code"], "INTERNAL_ERROR", "{frame}");
        }
    }
}

async fn say(wire: &mut Wire, word: &str, payload: &Value) -> Option<()> {
    let frame = json!({ "arcp": "1.1", "id": format!("r-{word}"), "type": word, "payload": payload });
    wire.send(Message::text(frame.to_string())).await.ok()
}

async fn hear(wire: &mut Wire) -> Option<Value> {
    loop {
        let message = tokio::time::timeout(Duration::from_secs(5), wire.next()).await.ok()??.ok()?;
        if let Message::Text(text) = message {
            return Some(serde_json::from_str(&text).unwrap());
        }
    }
}

/// Submits jobs and follows them until all kills are done and all jobs have ended. Now and then the client itself
/// dies: it drops the connection without a close frame.
async fn client(run: Arc<Run>, address: String, who: u64) -> Story {
    let mut story = Story { who, ..Story::default() };
    let (mut asked, began) = (0, Instant::now());
    loop {
        assert!(
            began.elapsed() < PATIENCE * 4,
            "client {who}: {} of {} ended",
            story.ended.len(),
            story.jobs.len()
        );
        let Some(mut wire) = story.connect(&address).await else {
            run.retries.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(30)).await;
            continue;
        };
        let mut frames = 0;
        loop {
            let open = story.jobs.len() - story.ended.len().min(story.jobs.len());
            if run.is_done() && open == 0 && asked == story.jobs.len() as u64 {
                let _closing = wire.close(None).await;
                return story;
            }
            // One submission at a time, with the same idempotency key until it is accepted.
            if asked == story.jobs.len() as u64 && open < UNDER_WAY && !run.is_done() {
                asked += 1;
            }
            if asked > story.jobs.len() as u64 {
                let n = asked - 1;
                let ask = json!({
                    "agent": "ledger", "input": { "who": who, "n": n }, "idempotency_key": format!("{who}-{n}"),
                    "lease_request": { "cost.budget": ["USD:1.00"], "tool.call": ["*"] },
                });
                if say(&mut wire, "job.submit", &ask).await.is_none() {
                    break;
                }
                let accepted = loop {
                    let Some(frame) = hear(&mut wire).await else { break None };
                    if frame["type"] == "job.accepted" {
                        break Some(frame);
                    }
                    let refused = frame["type"] == "session.error";
                    story.take(&frame);
                    if refused {
                        break None;
                    }
                };
                let Some(accepted) = accepted else { break };
                let job = accepted["job_id"].as_str().unwrap().to_owned();
                assert_eq!(accepted["session_id"], story.session.as_str());
                story.jobs.insert(n, job);
                continue;
            }
            match tokio::time::timeout(Duration::from_millis(200), hear(&mut wire)).await {
                Ok(Some(frame)) => story.take(&frame),
                Ok(None) => break,
                Err(_quiet) => {}
            }
            frames += 1;
            if frames % 97 == 0 && !run.is_done() {
                story.dropped += 1;
                break;
            }
        }
    }
}

/// Repeats a request until the server processes it.
async fn answered(run: &Run, client: &Client, path: &str, body: &Value) -> (u16, Value) {
    let reply = insist(&run.retries, std::slice::from_ref(client), 0, path, body).await;
    (reply.status, reply.json())
}

/// Runs jobs until none are left. Now and then the worker dies in the middle: it drops its jobs and starts again as
/// a new worker.
async fn worker(run: Arc<Run>, client: Client, over: Arc<AtomicBool>, who: u64) -> (u64, u64) {
    let (mut worked, mut died, mut taken) = (0, 0, who);
    'life: loop {
        let said = json!({ "name": format!("w{who}"), "agents": ["ledger@1"], "slots": 2 });
        let (status, worker) = answered(&run, &client, "/workers", &said).await;
        assert_eq!(status, 201, "{worker}");
        loop {
            if over.load(Ordering::Acquire) {
                return (worked, died);
            }
            let ask = json!({ "worker_id": worker["worker_id"], "max": 2, "wait_sec": 0.5 });
            let (status, claimed) = answered(&run, &client, "/jobs/claim", &ask).await;
            assert_eq!(status, 200, "{claimed}");
            for job in claimed["jobs"].as_array().unwrap() {
                taken += 1;
                let dies = taken % 4 == 0 && !run.is_done();
                match carry_out(&run, &client, job, dies).await {
                    Carried::Out => worked += 1,
                    Carried::Lost => {}
                    Carried::Died => {
                        died += 1;
                        run.died.store(true, Ordering::Release);
                        continue 'life;
                    }
                }
            }
        }
    }
}

enum Carried {
    Out,
    Lost,
    Died,
}

/// Reports a job's events one by one and then its result. Each is repeated until it is acknowledged, under a key
/// that makes repetitions harmless.
async fn carry_out(run: &Run, client: &Client, job: &Value, dies: bool) -> Carried {
    let path = format!("/jobs/{}", job["job_id"].as_str().unwrap());
    let token = &job["claim_token"];
    for n in 0..EVENTS {
        if dies && n == EVENTS / 2 {
            return Carried::Died;
        }
        let event = if n % 2 == 0 {
            json!({ "kind": "metric", "body": { "name": "cost.test", "value": 0.05, "unit": "USD" } })
        } else {
            json!({ "kind": "log", "body": { "attempt": job["attempt"], "n": n } })
        };
        let mut event = event;
        event["event_key"] = json!(format!("{}-{n}", job["attempt"]));
        let body = json!({ "claim_token": token, "events": [event] });
        match answered(run, client, &format!("{path}/events"), &body).await {
            (200, _) => {}
            (409, told) => {
                assert_eq!(told["code"], "CLAIM_LOST");
                return Carried::Lost;
            }
            (status, told) => panic!("{status}: {told}"),
        }
    }
    let body = json!({ "claim_token": token, "result": job["input"] });
    match answered(run, client, &format!("{path}/result"), &body).await {
        (200, _) => Carried::Out,
        (409, _) => Carried::Lost,
        (status, told) => panic!("{status}: {told}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_end_once_whoever_is_killed() {
    let _permit = super::may_begin().await;
    let began = Instant::now();
    let place = Place::new("jobs");
    let launch = Launch::private(&place)
        .with("ENTENTE_CLAIM_SECONDS", "2")
        .with("ENTENTE_ARCP_SESSIONS_PER_PRINCIPAL", "10000");
    let (server, _) = launch.start().await;
    let any = server.client(KEY);
    any.put("/arcp/agents/ledger/versions/1", json!({ "max_attempts": 100 })).await.ok();
    let address = any.base.trim_start_matches("http://").trim_end_matches("/api/v1").to_owned();
    let run = Arc::new(Run::default());
    let over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> =
        (0..SUBMITTERS).map(|who| tokio::spawn(client(Arc::clone(&run), address.clone(), who))).collect();
    let workers: Vec<_> = (0..WORKERS)
        .map(|who| tokio::spawn(worker(Arc::clone(&run), any.clone(), Arc::clone(&over), who)))
        .collect();
    let _server = kill_repeatedly(&place, &launch, server, kills()).await;
    // Every fourth job kills its worker; on a slow machine, fewer than that may have been claimed yet.
    let wait = Instant::now();
    while !run.died.load(Ordering::Acquire) && wait.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    run.done.store(true, Ordering::Release);
    let stories: Vec<Story> = join_all(clients).await.into_iter().map(Result::unwrap).collect();
    over.store(true, Ordering::Release);
    let (mut worked, mut died) = (0, 0);
    for (carried_out, deaths) in join_all(workers).await.into_iter().map(Result::unwrap) {
        worked += carried_out;
        died += deaths;
    }
    let mut count = 0;
    for story in &stories {
        check(&any, story).await;
        count += story.jobs.len();
    }
    let listed = list(&any).await;
    assert_eq!(listed.len(), count, "a job that nobody was told of, or one that is gone");
    assert!(died > 0, "no worker was killed: the test proves nothing");
    assert!(stories.iter().all(|story| story.resumed > 0), "a client was never cut off");
    println!(
        "{count} jobs, {worked} results taken, {died} workers and {} clients killed, {} sessions resumed, {} attempts \
         repeated, {:?}",
        stories.iter().map(|story| story.dropped).sum::<u32>(),
        stories.iter().map(|story| story.resumed).sum::<u32>(),
        run.retries.load(Ordering::Relaxed),
        began.elapsed()
    );
}

async fn list(client: &Client) -> Vec<Value> {
    let (mut jobs, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/jobs?limit=1000{cursor}")).await.ok();
        jobs.extend(page["jobs"].as_array().unwrap().iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return jobs,
        }
    }
}

/// Asserts that each of a client's jobs ended once and correctly, that its log has no gaps and equals the client's
/// frames, and that its budget is exactly the remainder after its costs.
async fn check(client: &Client, story: &Story) {
    for (n, job) in &story.jobs {
        let page = client.get(&format!("/jobs/{job}/events?limit=1000")).await.ok();
        let events = page["events"].as_array().unwrap();
        let (end, before) = events.split_last().unwrap();
        for (index, event) in events.iter().enumerate() {
            assert_eq!(event["event_seq"], index + 1, "{job}: the numbers have a gap");
        }
        assert!(before.iter().all(|event| event["type"] == "job.event"), "{job}: two ends");
        assert_eq!(end["type"], "job.result", "{job}: {end}");
        assert_eq!(end["payload"]["result"], json!({ "who": story.who, "n": n }));
        let payloads: Vec<Value> = before.iter().map(|event| event["payload"].clone()).collect();
        assert_eq!(story.heard.get(job), Some(&payloads), "{job}: heard otherwise than it was");
        assert_eq!(story.ended.get(job), Some(&end["payload"]));
        let costs = before.iter().filter(|event| event["payload"]["body"]["name"] == "cost.test").count();
        let left = client.get(&format!("/jobs/{job}")).await.ok()["budget"]["USD"].to_string();
        let spent: i64 = i64::try_from(costs).unwrap() * 5;
        let exact = |text: &str| (text.parse::<f64>().unwrap() * 100.0).round();
        #[expect(clippy::cast_precision_loss, reason = "cents, far below 2^52")]
        let expected = (100 - spent) as f64;
        assert!((exact(&left) - expected).abs() < f64::EPSILON, "{job}: {left} left after {costs} costs");
    }
}
