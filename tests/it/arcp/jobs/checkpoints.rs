//! Checkpoints: the progress that an attempt stores and the next one receives.

use super::{Hand, id};
use entente_harness::{Value, World, json};

#[tokio::test]
async fn the_next_attempt_receives_what_was_stored_last() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = client
        .post("/jobs", json!({ "agent": "echo", "retry": { "initial_delay_ms": 0, "max_attempts": 2 } }))
        .await
        .is(201);
    let put = async |claimed: &Value, checkpoint: Value| {
        let body = json!({ "claim_token": claimed["claim_token"], "checkpoint": checkpoint });
        hand.client.put(&format!("/jobs/{}/checkpoint", id(claimed)), body).await
    };
    let first = hand.one().await;
    assert!(first.get("checkpoint").is_none(), "{first}");
    put(&first, json!({ "done": 1 })).await.ok();
    let told = put(&first, json!({ "done": 1e2, "last": null })).await.ok();
    assert_eq!((&told["cancel_requested"], &told["last_event_seq"]), (&json!(false), &json!(0)));
    // Given back, which is no attempt; lost; and failed.
    hand.tell(&first, "release", json!({})).await.ok();
    let again = hand.one().await;
    assert_eq!((&again["attempt"], &again["checkpoint"]), (&json!(1), &json!({ "done": 1e2, "last": null })));
    put(&first, json!("stale")).await.refused(409, "CLAIM_LOST");
    // With the events that it covers, or not at all.
    let events = json!([{ "kind": "progress", "body": { "current": 2 } }]);
    hand.tell(&again, "events", json!({ "events": events, "checkpoint": { "done": 2 } })).await.ok();
    let wrong = json!([{ "kind": "progress", "body": { "current": -1 } }]);
    hand.tell(&again, "events", json!({ "events": wrong, "checkpoint": { "done": 3 } }))
        .await
        .refused(422, "INVALID_REQUEST");
    world.clock.advance(61);
    put(&again, json!({ "done": 4 })).await.refused(409, "CLAIM_LOST");
    world.sweep().await;
    let second = hand.one().await;
    assert_eq!((&second["attempt"], &second["checkpoint"]), (&json!(2), &json!({ "done": 2 })));
    put(&again, json!("stale")).await.refused(409, "CLAIM_LOST");
    hand.tell(&second, "error", json!({ "message": "x" })).await.ok();
    put(&second, json!("stale")).await.refused(409, "CLAIM_LOST");
    let third = hand.one().await;
    assert_eq!(third["checkpoint"], json!({ "done": 2 }));
    let shown = client.get(&format!("/jobs/{}/attempts", id(&job))).await.ok();
    let expected = json!({ "attempt": 1, "bytes": 10, "saved_at": "2026-11-21T08:00:00.000000Z" });
    assert_eq!(shown["checkpoint"], expected, "its content is the workers' alone");
    hand.tell(&third, "result", json!({ "result": 1 })).await.ok();
    put(&third, json!("late")).await.refused(409, "CLAIM_LOST");
    world.end().await;
}

#[tokio::test]
async fn a_checkpoint_is_bounded_and_its_jobs() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = client
        .post("/jobs", json!({ "agent": "echo", "lease_request": { "agent.delegate": ["*"] } }))
        .await
        .is(201);
    let claimed = hand.one().await;
    let path = format!("/jobs/{}/checkpoint", id(&job));
    let put = async |token: &Value, checkpoint: Value| {
        hand.client.put(&path, json!({ "claim_token": token, "checkpoint": checkpoint })).await
    };
    let token = &claimed["claim_token"];
    put(token, json!("x".repeat(100 * 1024 - 2))).await.ok();
    put(token, json!("x".repeat(100 * 1024 - 1))).await.refused(413, "INVALID_REQUEST");
    put(&json!("ct_wrong"), json!(1)).await.refused(409, "CLAIM_LOST");
    let stranger = world.agent("agent.other").await;
    let body = json!({ "claim_token": "ct_wrong", "checkpoint": 1 });
    stranger.put(&path, body).await.refused(404, "JOB_NOT_FOUND");
    // Beside a child that an event asks for, it comes after all events.
    let events = json!([
        { "kind": "delegate", "body": { "delegate_id": "d", "agent": "echo" } },
        { "kind": "log", "body": {} },
    ]);
    let told = hand.tell(&claimed, "events", json!({ "events": events, "checkpoint": ["d"] })).await.ok();
    assert_eq!(told["children"][0]["delegate_id"], "d");
    hand.tell(&claimed, "release", json!({})).await.ok();
    let jobs = hand.claim(10).await;
    let again = jobs.iter().find(|one| one["job_id"] == job["job_id"]).unwrap();
    assert_eq!(again["checkpoint"], json!(["d"]));
    assert!(jobs.iter().all(|one| one["job_id"] == job["job_id"] || one.get("checkpoint").is_none()));
    world.end().await;
}
