//! Workers that die while they wait for a job: another worker gets the job at once, and no attempt
//! is counted.

use std::time::{Duration, Instant};

use sqlx::{ConnectOptions as _, Connection as _};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::{Hand, id};
use entente_harness::{ANY, Client, Cluster, Setup, World, json};

/// Upper bound for a job to reach a live worker, well below the minute of a claim.
const SOON: Duration = Duration::from_secs(5);

/// Requests jobs over a raw connection, so that the test can close it.
async fn ask(world: &World, hand: &Hand, wait: u32) -> TcpStream {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let body = json!({ "worker_id": hand.id, "max": 1, "wait_sec": wait }).to_string();
    let head = format!(
        "POST /api/v1/jobs/claim HTTP/1.1\r\nhost: entente\r\nx-api-key: {ANY}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    // Long enough for the request to be waiting.
    sleep(Duration::from_millis(400)).await;
    stream
}

/// Takes the only job with a long poll.
async fn takes(hand: &Hand, wait: u32) -> serde_json::Value {
    let asked = json!({ "worker_id": hand.id, "max": 1, "wait_sec": wait });
    let got = timeout(SOON, hand.client.post("/jobs/claim", asked)).await.expect("no job came").ok();
    got["jobs"].as_array().unwrap().first().cloned().unwrap_or_else(|| panic!("no job came: {got}"))
}

async fn submit(client: &Client, more: serde_json::Value) -> String {
    let mut job = json!({ "agent": "echo" });
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    id(&client.post("/jobs", job).await.is(201)).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_died_while_it_waited_takes_nothing() {
    let (a, b) = World::two().await;
    let dead = Hand::of(&a.any(), "echo@1.0.0").await;
    let alive = Hand::again(&a.any(), "echo@1.0.0").await;
    // One on each server, and the job is submitted on the second: this covers both the local and the remote
    // wake-up.
    for world in [&a, &b] {
        drop(ask(world, &dead, 60).await);
    }
    sleep(Duration::from_millis(300)).await;
    let job = submit(&b.any(), json!({})).await;
    sleep(Duration::from_millis(700)).await;
    let began = Instant::now();
    let taken = takes(&alive, 20).await;
    assert_eq!((id(&taken), &taken["attempt"]), (job.as_str(), &json!(1)), "{taken}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let log = a.any().get(&format!("/jobs/{job}/events?limit=100")).await.ok();
    assert_eq!(log["events"].as_array().unwrap().len(), 0, "nobody was lost: {log}");
    // Their slots are free again too, so the stop waits for no request.
    b.server.stop().await;
    a.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_dies_while_a_job_becomes_its_own_gives_it_back() {
    let world = World::with(Setup::live()).await;
    let any = world.any();
    let dead = Hand::of(&any, "echo@1.0.0").await;
    let alive = Hand::again(&any, "echo@1.0.0").await;
    let intent = any.post("/intents", json!({ "title": "work" })).await.ok()["id"].clone();
    let key = {
        let intent: entente_domain::ids::IntentId = intent.as_str().unwrap().parse().unwrap();
        i64::from_ne_bytes(intent.uuid().as_u64_pair().1.to_ne_bytes())
    };
    let job = submit(&any, json!({ "intent_id": intent })).await;
    // The intent's lock is held while the job is claimed, and its worker dies meanwhile.
    let mut beside = Cluster::get().options(&world.database).connect().await.unwrap();
    let mut held = beside.begin().await.unwrap();
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(key).execute(&mut *held).await.unwrap();
    let dying = ask(&world, &dead, 60).await;
    drop(dying);
    sleep(Duration::from_millis(500)).await;
    held.rollback().await.unwrap();
    beside.close().await.unwrap();
    sleep(Duration::from_millis(300)).await;
    let taken = takes(&alive, 20).await;
    assert_eq!((id(&taken), &taken["attempt"]), (job.as_str(), &json!(1)), "{taken}");
    // And the live worker is answered as usual.
    alive.tell(&taken, "result", json!({ "result": 1 })).await.ok();
    world.server.stop().await;
}

/// The channel of a job names the job, which is no task of the intent.
#[tokio::test(flavor = "multi_thread")]
async fn strict_mode_lets_jobs_work_for_intents() {
    let world = World::with(Setup { settings: vec![("ENTENTE_STRICT_RFC0021", "true")], live: false }).await;
    let ada = world.agent("agent.ada").await;
    let _worker = Hand::of(&world.any(), "echo@1.0.0").await;
    let intent = ada.post("/intents", json!({ "title": "work" })).await.ok()["id"].clone();
    let job = submit(&ada, json!({ "intent_id": intent })).await;
    let channels = ada.get(&format!("/intents/{}/channels", intent.as_str().unwrap())).await.ok();
    assert_eq!(channels[0]["task_id"], json!(job));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_for_is_done_although_nobody_waits_for_the_answer() {
    let world = World::with(Setup::live()).await;
    let any = world.any();
    let intent = any.post("/intents", json!({ "title": "work" })).await.ok()["id"].clone();
    let body = json!({ "event_type": "note", "payload": {} }).to_string();
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "POST /api/v1/intents/{}/events HTTP/1.1\r\nhost: entente\r\nx-api-key: {ANY}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        intent.as_str().unwrap(),
        body.len()
    );
    // Sends the request and disconnects, as webhook senders do.
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    drop(stream);
    let began = Instant::now();
    loop {
        let log = any.get(&format!("/intents/{}/events", intent.as_str().unwrap())).await.ok();
        if log.to_string().contains("\"note\"") {
            break;
        }
        assert!(began.elapsed() < SOON, "it was not done: {log}");
        sleep(Duration::from_millis(50)).await;
    }
    world.server.stop().await;
}
