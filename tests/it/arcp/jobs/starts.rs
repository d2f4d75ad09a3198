//! Starts at a time, and the time that a job may wait in the queue.

use std::time::{Duration, Instant};

use entente::background::sweeps::Sweep;
use futures_util::{StreamExt as _, stream};

use super::{Hand, events, id, status};
use entente_harness::{Cluster, Setup, World, json};

#[tokio::test]
async fn a_job_starts_at_its_time_and_its_run_time_counts_from_then() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let later = json!({ "agent": "echo", "start_at": "2026-11-21T10:00:00+01:00", "max_runtime_sec": 60 });
    let job = client.post("/jobs", later).await.is(201);
    let now = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let past = json!({ "agent": "echo", "x-entente": { "start_at": "2026-11-21T07:00:00Z" } });
    let past = client.post("/jobs", past).await.is(201);
    let shown = client.get(&format!("/jobs/{}", id(&job))).await.ok();
    assert_eq!(
        (&shown["status"], &shown["not_before"]),
        (&json!("pending"), &json!("2026-11-21T09:00:00.000000Z"))
    );
    assert_eq!(shown["deadline"], "2026-11-21T09:01:00.000000Z");
    let claimed = hand.claim(10).await;
    let ids: Vec<&str> = claimed.iter().map(id).collect();
    assert_eq!(ids, [id(&now), id(&past)], "what is past is now");
    for one in &claimed {
        hand.tell(one, "result", json!({ "result": 1 })).await.ok();
    }
    world.pass(3_599).await;
    assert!(hand.claim(10).await.is_empty());
    world.pass(1).await;
    let claimed = hand.one().await;
    assert_eq!(id(&claimed), id(&job));
    world.pass(60).await;
    let (_, end) = events(&client, id(&job)).await.pop().unwrap();
    assert_eq!(end["code"], "TIMEOUT");
    assert!(end["message"].as_str().unwrap().contains("max_runtime_sec"), "{end}");
    // Run again, it has a minute, not the hour before its start too.
    let again = client.once("k").post(&format!("/jobs/{}/rerun", id(&job)), json!({})).await.is(201);
    let shown = client.get(&format!("/jobs/{}", id(&again))).await.ok();
    assert_eq!(shown["deadline"], "2026-11-21T09:02:00.000000Z");
    world.end().await;
}

#[tokio::test]
async fn a_start_that_makes_no_sense_is_refused() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let lease = json!({ "expires_at": "2026-11-21T09:00:00Z" });
    for wrong in [
        json!({ "agent": "echo", "start_at": "tomorrow" }),
        json!({ "agent": "echo", "start_at": "2028-01-01T00:00:00Z" }),
        json!({ "agent": "echo", "start_at": "2026-11-21T09:00:00Z", "lease_constraints": lease }),
        json!({ "agent": "echo", "queue_timeout_sec": 0 }),
        json!({ "agent": "echo", "queue_timeout_sec": -1 }),
    ] {
        client.post("/jobs", wrong).await.refused(422, "INVALID_REQUEST");
    }
    // A child has its parent's end.
    let parent = json!({ "agent": "echo", "lease_constraints": lease });
    let parent = client.post("/jobs", parent).await.is(201);
    let child =
        json!({ "agent": "echo", "start_at": "2026-11-21T09:30:00Z", "parent_job_id": parent["job_id"] });
    let said = client.post("/jobs", child).await.refused(422, "INVALID_REQUEST");
    assert!(said["message"].as_str().unwrap().contains("end of the lease"), "{said}");
    // The lease of a job that waits for its start ends it, as ever.
    let fine = json!({ "agent": "echo", "start_at": "2026-11-21T08:59:59Z", "lease_constraints": lease });
    let job = client.post("/jobs", fine).await.is(201);
    let claimed = hand.one().await;
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    world.clock.advance(3_602);
    world.sweep().await;
    assert_eq!(status(&client, id(&job)).await, "error");
    assert!(hand.claim(10).await.is_empty());
    world.end().await;
}

#[tokio::test]
async fn a_job_that_nobody_claims_in_time_times_out() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let submit = async |more: serde_json::Value| {
        let mut body = json!({ "agent": "echo", "queue_timeout_sec": 20 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.post("/jobs", body).await.is(201)
    };
    let alone = submit(json!({})).await;
    let shown = client.get(&format!("/jobs/{}", id(&alone))).await.ok();
    assert_eq!(shown["queue_deadline"], "2026-11-21T08:00:20.000000Z");
    world.pass(19).await;
    assert_eq!(status(&client, id(&alone)).await, "pending");
    world.pass(1).await;
    let (_, end) = events(&client, id(&alone)).await.pop().unwrap();
    assert_eq!((&end["code"], &end["final_status"]), (&json!("TIMEOUT"), &json!("timed_out")));
    assert!(end["message"].as_str().unwrap().contains("queue_timeout_sec, 20 s"), "{end}");
    assert!(hand.claim(10).await.is_empty());
    // It does not count while the job runs or may not start yet, and begins anew when it waits again.
    let job = submit(json!({ "start_at": "2026-11-21T08:01:00Z", "retry": { "initial_delay_ms": 30_000, "jitter": false } })).await;
    world.pass(40).await;
    let claimed = hand.one().await;
    for _ in 0..4 {
        world.pass(10).await;
        hand.beat(&[&claimed]).await;
    }
    assert_eq!(status(&client, id(&job)).await, "running");
    hand.tell(&claimed, "error", json!({ "message": "x" })).await.ok();
    world.pass(49).await;
    assert_eq!(status(&client, id(&job)).await, "pending");
    world.pass(1).await;
    assert_eq!(status(&client, id(&job)).await, "timed_out");
    // The run time is over first.
    let short = submit(json!({ "max_runtime_sec": 5 })).await;
    world.pass(30).await;
    let (_, end) = events(&client, id(&short)).await.pop().unwrap();
    assert!(end["message"].as_str().unwrap().contains("max_runtime_sec"), "{end}");
    world.end().await;
}

/// Number of jobs that are due at one time: `ENTENTE_DUE_JOBS`, or 600.
#[expect(clippy::disallowed_methods, reason = "how many there are is the test's own setting")]
fn many() -> i64 {
    std::env::var("ENTENTE_DUE_JOBS").ok().and_then(|text| text.parse().ok()).unwrap_or(600)
}

#[tokio::test]
async fn jobs_that_are_due_at_one_time_start_in_the_order_of_their_priority() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let many = many();
    let submit = async |n: i64| {
        let priority = n * 37 % 11 - 5;
        let ask = json!({ "agent": "echo", "start_at": "2026-11-21T09:00:00Z", "priority": priority, "input": priority });
        client.post("/jobs", ask).await.is(201);
    };
    let mut sent = stream::iter(0..many).map(submit).buffer_unordered(32);
    while sent.next().await.is_some() {}
    let mut started = Vec::new();
    // Workers claim between the steps in which due jobs are released, and after them.
    world.clock.advance(3_600);
    while i64::try_from(started.len()).unwrap() < many {
        let released = Sweep::Jobs.step(world.ctx(), 100).await.unwrap();
        let claimed = hand.claim(50).await;
        assert!(released > 0 || !claimed.is_empty(), "{} of {many} started", started.len());
        started.extend(claimed.iter().map(|job| job["input"].as_i64().unwrap()));
    }
    assert!(started.is_sorted_by(|one, next| one >= next), "{started:?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_survives_the_restart_of_all_servers() {
    let database = Cluster::get().fresh_database().await;
    let before = World::on(Setup::live(), database.clone()).await;
    let hand = Hand::of(&before.any(), "echo@1").await;
    let at = chrono::Utc::now() + chrono::TimeDelta::seconds(4);
    let accepted = Instant::now();
    let job =
        before.any().post("/jobs", json!({ "agent": "echo", "start_at": at.to_rfc3339() })).await.is(201);
    assert!(hand.claim(1).await.is_empty());
    before.server.stop().await;
    let after = World::on(Setup::live(), database).await;
    let ask = json!({ "worker_id": hand.id, "max": 1, "wait_sec": 20 });
    let got = after.any().post("/jobs/claim", ask).await.ok();
    let waited = accepted.elapsed();
    assert_eq!(id(&got["jobs"][0]), id(&job));
    let on_time = Duration::from_millis(3_900)..Duration::from_secs(5);
    assert!(on_time.contains(&waited), "after {waited:?}");
    after.server.stop().await;
}
