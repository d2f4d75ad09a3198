//! Claims with a key (beyond ARCP): a worker that lost the answer asks again, and gets the same jobs and tokens.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::{Hand, id};
use entente_harness::{ANY, Cable, Client, Reply, Setup, Value, World, json};

/// Claims up to `max` jobs under a key.
async fn claim(client: &Client, hand: &Hand, max: u32, key: &str) -> Reply {
    let body = json!({ "worker_id": hand.id, "max": max, "idempotency_key": key });
    client.post("/jobs/claim", body).await
}

/// Returns the jobs and tokens of an answer.
fn held(reply: &Reply) -> Vec<(String, String)> {
    let text = |job: &Value, member: &str| job[member].as_str().unwrap().to_owned();
    let body = reply.ok();
    body["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| (text(job, "job_id"), text(job, "claim_token")))
        .collect()
}

async fn submit(client: &Client, count: usize) -> Vec<String> {
    let mut jobs = Vec::new();
    for _ in 0..count {
        jobs.push(id(&client.post("/jobs", json!({ "agent": "echo" })).await.is(201)).to_owned());
    }
    jobs
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_gives_the_same_jobs_and_tokens_while_they_are_held() {
    let (a, b) = World::two().await;
    let (here, there) = (a.any(), b.any());
    let hand = Hand::of(&here, "echo@1").await;
    let other = Hand::again(&here, "echo@1").await;
    submit(&here, 4).await;
    let intent = here.post("/intents", json!({ "title": "work" })).await.ok()["id"].clone();
    here.post("/jobs", json!({ "agent": "echo", "intent_id": intent, "priority": 1 })).await.is(201);
    submit(&here, 3).await;
    let first = claim(&here, &hand, 6, "k").await;
    let before = held(&first);
    assert_eq!(before.len(), 6);
    // The answer was lost: the worker asks again, on another server too, and for more.
    for client in [&here, &there] {
        let again = claim(client, &hand, 100, "k").await;
        let sorted = |mut jobs: Vec<(String, String)>| {
            jobs.sort();
            jobs
        };
        assert_eq!(sorted(held(&again)), sorted(before.clone()));
        let jobs = again.ok()["jobs"].clone();
        assert!(jobs.as_array().unwrap().iter().all(|job| job["attempt"] == 1), "{jobs}");
    }
    let intent_path = format!("/intents/{}/events", intent.as_str().unwrap());
    let log = here.get(&intent_path).await.ok();
    assert_eq!(log.to_string().matches("job.running").count(), 1, "{log}");
    // Another key, and another worker with the same one, get other jobs.
    assert_eq!(held(&claim(&there, &other, 1, "k").await).len(), 1);
    assert_eq!(held(&claim(&there, &hand, 1, "k2").await).len(), 1);
    assert!(held(&claim(&there, &hand, 1, "k3").await).is_empty());
    // The tokens are those of the jobs; what is over or given back is not held any more.
    let jobs = first.ok()["jobs"].clone();
    hand.tell(&jobs[0], "result", json!({ "result": 1 })).await.ok();
    hand.tell(&jobs[1], "release", json!({})).await.ok();
    let rest = held(&claim(&here, &hand, 100, "k").await);
    let left: BTreeSet<_> = before[2..].iter().collect();
    assert_eq!(rest.iter().collect::<BTreeSet<_>>(), left);
    // A worker that is told to claim nothing more still hears what it has.
    here.post(&format!("/workers/{}/directive", hand.id), json!({ "directive": "quiet" })).await.ok();
    assert_eq!(held(&claim(&here, &hand, 1, "k").await).len(), 4);
    assert!(held(&claim(&here, &hand, 1, "k9").await).is_empty());
    b.server.stop().await;
    a.server.stop().await;
}

#[tokio::test]
async fn silence_loses_the_jobs_and_then_the_key_gives_nothing() {
    let world = World::start().await;
    let any = world.any();
    let hand = Hand::of(&any, "echo@1").await;
    submit(&any, 2).await;
    let first = held(&claim(&any, &hand, 2, "k").await);
    // Asking is a sign of life.
    for _ in 0..3 {
        world.pass(50).await;
        assert_eq!(held(&claim(&any, &hand, 1, "k").await), first);
    }
    world.clock.advance(61);
    assert!(held(&claim(&any, &hand, 1, "k").await).is_empty(), "lost the instant it expires, swept or not");
    world.sweep().await;
    assert!(held(&claim(&any, &hand, 1, "k").await).is_empty());
    let next = claim(&any, &hand, 2, "k2").await.ok()["jobs"].clone();
    assert_eq!((&next[0]["attempt"], &next[1]["attempt"]), (&json!(2), &json!(2)));
    assert!(held(&claim(&any, &hand, 1, "k").await).is_empty(), "the older token holds nothing");
    // A key is forgotten in time, and may then be used anew.
    world.pass(700).await;
    let kept: i64 =
        sqlx::query_scalar("SELECT count(*) FROM job_claims").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(kept, 0);
    assert_eq!(held(&claim(&any, &hand, 1, "k").await).len(), 1);
    world.end().await;
}

#[tokio::test]
async fn a_key_that_is_none_is_refused_and_one_is_its_workers() {
    let world = World::start().await;
    let any = world.any();
    let hand = Hand::of(&any, "echo@1").await;
    submit(&any, 3).await;
    for wrong in ["", "a\nb", "\u{0}", &"k".repeat(256)] {
        claim(&any, &hand, 1, wrong).await.refused(422, "INVALID_REQUEST");
    }
    for wrong in [json!(7), json!([]), json!({ "a": 1 })] {
        let body = json!({ "worker_id": hand.id, "idempotency_key": wrong });
        any.post("/jobs/claim", body).await.refused(422, "INVALID_REQUEST");
    }
    let odd = "🗝'; DROP TABLE job_claims; --".to_owned() + &"é".repeat(200);
    let first = held(&claim(&any, &hand, 1, &odd).await);
    assert_eq!(first.len(), 1);
    assert_eq!(held(&claim(&any, &hand, 1, &odd).await), first);
    // A stranger with the worker's id and key learns nothing.
    let stranger = world.agent("agent.other").await;
    claim(&stranger, &hand, 1, &odd).await.refused(404, "NOT_FOUND");
    // What is stored gives no token: the key is not in it.
    let stored: Vec<(Vec<u8>, Vec<u8>)> =
        sqlx::query_as("SELECT key, salt FROM job_claims").fetch_all(&world.ctx().pool).await.unwrap();
    assert_eq!(stored.len(), 1);
    assert!(!stored[0].0.windows(4).any(|part| part == "DROP".as_bytes()) && stored[0].1.len() == 32);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_with_one_key_are_one_claim() {
    let (a, b) = World::two().await;
    let hand = Hand::of(&a.any(), "echo@1").await;
    submit(&a.any(), 60).await;
    for round in 0..5 {
        let key = format!("k-{round}");
        let clients = [a.any(), b.any()];
        let replies = join_all((0..12).map(|n| claim(&clients[n % 2], &hand, 3, &key))).await;
        let answers: BTreeSet<BTreeSet<_>> =
            replies.iter().map(|reply| held(reply).into_iter().collect()).collect();
        assert_eq!(answers.len(), 1, "all get the same: {answers:?}");
        assert_eq!(answers.first().unwrap().len(), 3);
    }
    let running = a.any().get("/jobs?status=running&limit=1000").await.ok();
    assert_eq!(running["jobs"].as_array().unwrap().len(), 15);
    b.server.stop().await;
    a.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_lost_on_the_way_costs_no_attempt() {
    let world = World::with(Setup::live()).await;
    let any = world.any();
    let hand = Hand::of(&any, "echo@1").await;
    let cable = Cable::to(world.address).await;
    let far = Client::new(cable.address, Some(ANY));
    // The worker waits behind a cable that is unplugged: the server gives the job away and notices nothing.
    let body = json!({ "worker_id": hand.id, "max": 1, "wait_sec": 30, "idempotency_key": "k" });
    let asked = tokio::spawn(async move { far.post("/jobs/claim", body).await });
    sleep(Duration::from_millis(500)).await;
    cable.unplug();
    let job = submit(&any, 1).await.remove(0);
    let began = Instant::now();
    while any.get(&format!("/jobs/{job}")).await.ok()["status"] != "running" {
        assert!(began.elapsed() < Duration::from_secs(5), "it was not claimed");
        sleep(Duration::from_millis(20)).await;
    }
    asked.abort();
    // It asks again with the same key, another way.
    let again = timeout(Duration::from_secs(5), claim(&any, &hand, 1, "k")).await.expect("an answer");
    let jobs = again.ok()["jobs"].clone();
    assert_eq!((&jobs[0]["job_id"], &jobs[0]["attempt"]), (&json!(job), &json!(1)));
    hand.tell(&jobs[0], "result", json!({ "result": 1 })).await.ok();
    drop(cable);
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_hangs_up_with_a_key_gives_its_job_back_unless_it_asked_again() {
    let world = World::with(Setup::live()).await;
    let any = world.any();
    let hand = Hand::of(&any, "echo@1").await;
    let body = json!({ "worker_id": hand.id, "max": 1, "wait_sec": 30, "idempotency_key": "k" });
    let client = any.clone();
    let asked = tokio::spawn(async move { client.post("/jobs/claim", body).await });
    sleep(Duration::from_millis(300)).await;
    // The connection ends while it waits, and the server hears that: the job is for the next.
    asked.abort();
    sleep(Duration::from_millis(300)).await;
    let job = submit(&any, 1).await.remove(0);
    let again = held(&claim(&any, &hand, 1, "k").await);
    assert_eq!(again[0].0, job);
    let shown = any.get(&format!("/jobs/{job}")).await.ok();
    assert_eq!((&shown["status"], &shown["attempt"]), (&json!("running"), &json!(1)));
    world.server.stop().await;
}
