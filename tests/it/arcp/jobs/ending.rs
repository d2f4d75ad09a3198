//! The ends of jobs (ARCP §7.3, §7.4), and jobs with a lost worker: each ends once, with the first end that
//! arrives.

use super::{Hand, events, id, kinds, status};
use entente_harness::{Value, World, json};

#[tokio::test]
async fn a_job_that_waits_is_cancelled_at_once() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let cancel = json!({ "session_id": job["session_id"], "reason": "changed my mind" });
    let path = format!("/jobs/{}/cancel", id(&job));
    assert_eq!(client.post(&path, cancel.clone()).await.is(202)["status"], "cancelled");
    let (kind, end) = events(&client, id(&job)).await.pop().unwrap();
    assert_eq!(
        (kind.as_str(), &end["code"], &end["message"]),
        ("job.error", &json!("CANCELLED"), &json!("changed my mind"))
    );
    assert_eq!((&end["final_status"], &end["retryable"]), (&json!("cancelled"), &json!(false)));
    client.post(&path, cancel).await.refused(409, "JOB_ENDED");
    assert!(hand.claim(10).await.is_empty());
    world.end().await;
}

#[tokio::test]
async fn a_job_that_runs_is_asked_to_stop_and_then_ended() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    for _ in 0..2 {
        client
            .post("/jobs", json!({ "agent": "echo", "lease_request": { "tool.call": ["*"] } }))
            .await
            .is(201);
    }
    let jobs = hand.claim(2).await;
    let listed = client.get("/jobs").await.ok();
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 2);
    let admin = world.admin().await;
    for job in &jobs {
        admin.post(&format!("/jobs/{}/cancel", id(job)), json!({})).await.is(202);
    }
    let beat = hand.beat(&[&jobs[0], &jobs[1]]).await;
    assert_eq!(beat["cancel"].as_array().unwrap().len(), 2);
    let told =
        hand.events(&jobs[0], json!([{ "kind": "log", "body": { "message": "stopping" } }])).await.ok();
    assert_eq!(told["cancel_requested"], true);
    let call = json!({ "capability": "tool.call", "target": "x" });
    hand.tell(&jobs[0], "authorize", call).await.refused(409, "CANCELLED");
    // A later result of its worker does not change the end.
    hand.tell(&jobs[0], "result", json!({ "result": "too late" })).await.ok();
    assert_eq!(status(&client, id(&jobs[0])).await, "cancelled");
    // The other worker stays silent.
    world.pass(29).await;
    assert_eq!(status(&client, id(&jobs[1])).await, "running");
    world.pass(1).await;
    assert_eq!(status(&client, id(&jobs[1])).await, "cancelled");
    assert_eq!(hand.beat(&[&jobs[1]]).await["lost"], json!([jobs[1]["job_id"]]));
    world.end().await;
}

#[tokio::test]
async fn only_the_session_that_submitted_cancels() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    Hand::of(&world.any(), "echo@1").await;
    let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let other = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let path = format!("/jobs/{}/cancel", id(&job));
    for session in [&other["session_id"], &json!("sess_x"), &Value::Null] {
        let body =
            client.post(&path, json!({ "session_id": session })).await.refused(403, "PERMISSION_DENIED");
        assert!(body["message"].as_str().unwrap().contains("session_id"));
    }
    assert_eq!(status(&client, id(&job)).await, "pending");
    world.end().await;
}

#[tokio::test]
async fn a_job_that_takes_too_long_is_timed_out() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    world.any().put("/arcp/agents/echo/versions/1", json!({ "max_runtime_sec": 100 })).await.ok();
    let short = client.post("/jobs", json!({ "agent": "echo", "max_runtime_sec": 1 })).await.is(201);
    let long = client.post("/jobs", json!({ "agent": "echo", "max_runtime_sec": 1000 })).await.is(201);
    let claimed = hand.claim(2).await;
    world.pass(1).await;
    let (_, end) = events(&client, id(&short)).await.pop().unwrap();
    assert_eq!((&end["code"], &end["final_status"]), (&json!("TIMEOUT"), &json!("timed_out")));
    for _ in 0..2 {
        hand.beat(&[&claimed[1]]).await;
        world.pass(49).await;
    }
    assert_eq!(status(&client, id(&long)).await, "running");
    world.pass(1).await;
    assert_eq!(status(&client, id(&long)).await, "timed_out", "its version allows no more");
    world.end().await;
}

#[tokio::test]
async fn a_lost_workers_job_goes_to_another_and_the_dead_are_fenced_off() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let first = hand.one().await;
    hand.events(&first, json!([{ "kind": "log", "body": { "by": 1 } }])).await.ok();
    world.pass(30).await;
    assert_eq!(hand.beat(&[&first]).await["lost"], json!([]));
    world.pass(59).await;
    assert_eq!(status(&client, id(&job)).await, "running", "a heartbeat moves the end on");
    world.clock.advance(1);
    // Lost as soon as it is due, before a sweep has run.
    for (what, body) in [
        ("events", json!({ "events": [] })),
        ("result", json!({ "result": 1 })),
        ("error", json!({ "message": "x" })),
        ("authorize", json!({ "capability": "tool.call", "target": "x" })),
        ("release", json!({})),
        ("delegate", json!({ "delegate_id": "d", "agent": "echo" })),
    ] {
        hand.tell(&first, what, body).await.refused(409, "CLAIM_LOST");
    }
    assert_eq!(hand.beat(&[&first]).await["lost"], json!([first["job_id"]]));
    world.sweep().await;
    let other = Hand::again(&world.any(), "echo").await;
    let second = other.one().await;
    assert_eq!((&second["attempt"], &second["job_id"]), (&json!(2), &job["job_id"]));
    assert_ne!(second["claim_token"], first["claim_token"]);
    hand.events(&first, json!([{ "kind": "log", "body": { "by": 1 } }])).await.refused(409, "CLAIM_LOST");
    other.events(&second, json!([{ "kind": "log", "body": { "by": 2 } }])).await.ok();
    other.tell(&second, "result", json!({ "result": 2 })).await.ok();
    assert_eq!(kinds(&client, id(&job)).await, ["log", "log", "job.result"]);
    world.end().await;
}

#[tokio::test]
async fn a_job_fails_when_it_may_not_be_tried_again() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let any = world.any();
    let once = Hand::of(&any, "once@1").await;
    any.put("/arcp/agents/once/versions/1", json!({ "on_lost": "fail" })).await.ok();
    let twice = Hand::of(&any, "twice@1").await;
    any.put("/arcp/agents/twice/versions/1", json!({ "max_attempts": 2 })).await.ok();
    let first = client.post("/jobs", json!({ "agent": "once" })).await.is(201);
    let second = client.post("/jobs", json!({ "agent": "twice" })).await.is(201);
    once.one().await;
    twice.one().await;
    world.pass(60).await;
    let (_, end) = events(&client, id(&first)).await.pop().unwrap();
    assert_eq!((&end["code"], &end["retryable"]), (&json!("INTERNAL_ERROR"), &json!(true)));
    assert_eq!(status(&client, id(&second)).await, "pending");
    assert_eq!(twice.one().await["attempt"], 2);
    world.pass(60).await;
    assert_eq!(status(&client, id(&second)).await, "error");
    world.end().await;
}

#[tokio::test]
async fn a_job_that_must_not_run_twice_ends_when_its_worker_gives_it_back() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let any = world.any();
    let once = Hand::of(&any, "once@1").await;
    any.put("/arcp/agents/once/versions/1", json!({ "on_lost": "fail" })).await.ok();
    let job = client.post("/jobs", json!({ "agent": "once" })).await.is(201);
    let claimed = once.one().await;
    assert_eq!(once.tell(&claimed, "release", json!({})).await.ok()["status"], "error");
    let (_, end) = events(&client, id(&job)).await.pop().unwrap();
    assert_eq!(end["code"], "INTERNAL_ERROR");
    assert!(once.claim(1).await.is_empty());
    world.end().await;
}

#[tokio::test]
async fn a_job_that_is_given_back_has_lost_no_attempt() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let claimed = hand.one().await;
    assert_eq!(
        hand.tell(&claimed, "release", json!({ "reason": "stopping" })).await.ok()["status"],
        "pending"
    );
    hand.tell(&claimed, "release", json!({})).await.refused(409, "CLAIM_LOST");
    let again = hand.one().await;
    assert_eq!((&again["attempt"], &again["job_id"]), (&json!(1), &job["job_id"]));
    // A worker that leaves returns its jobs.
    hand.client.post(&format!("/workers/{}/leave", hand.id), json!({})).await.ok();
    assert_eq!(status(&client, id(&job)).await, "pending");
    hand.client.post("/jobs/claim", json!({ "worker_id": hand.id })).await.refused(404, "NOT_FOUND");
    world.end().await;
}

#[tokio::test]
async fn a_result_that_is_handed_in_twice_is_one() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let job = hand.one().await;
    let log = json!([{ "kind": "log", "body": { "n": 1 }, "event_key": "a" }, { "kind": "log", "body": { "n": 2 }, "event_key": "b" }]);
    hand.events(&job, log.clone()).await.ok();
    assert_eq!(hand.events(&job, log).await.ok()["last_event_seq"], 2, "a retry doubles nothing");
    for _ in 0..2 {
        assert_eq!(hand.tell(&job, "result", json!({ "result": 7 })).await.ok()["last_event_seq"], 3);
    }
    hand.tell(&job, "error", json!({ "message": "no" })).await.refused(409, "CLAIM_LOST");
    hand.tell(&job, "error", json!({ "code": "NO_SUCH" })).await.refused(422, "INVALID_REQUEST");
    world.end().await;
}

#[tokio::test]
async fn a_second_and_different_end_is_refused_and_the_first_stands() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let end = |first: &str| match first {
        "result" => json!({ "result": { "a": 1, "b": [1, 9_007_199_254_740_993_u64] }, "summary": "done" }),
        _ => {
            json!({ "code": "INTERNAL_ERROR", "message": "broke", "retryable": false, "details": { "n": 1 } })
        }
    };
    for first in ["result", "error"] {
        client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
        let job = hand.one().await;
        let body = end(first);
        hand.tell(&job, first, body.clone()).await.ok();
        let stored = events(&client, id(&job)).await;
        let others = [
            ("result", json!({ "result": { "a": 1, "b": [1, 9_007_199_254_740_993_u64] } })),
            (
                "result",
                json!({ "result": { "a": 1, "b": [1, 9_007_199_254_740_992_u64] }, "summary": "done" }),
            ),
            ("result", json!({ "result": { "a": 1, "b": [1, "9007199254740993"] }, "summary": "done" })),
            ("result", json!({})),
            ("result", json!({ "result_id": job["result_id"] })),
            ("error", json!({ "code": "INTERNAL_ERROR", "message": "broke" })),
            (
                "error",
                json!({ "code": "CANCELLED", "message": "broke", "retryable": false, "details": { "n": 1 } }),
            ),
            (
                "error",
                json!({ "code": "INTERNAL_ERROR", "message": "broke", "retryable": false, "details": { "n": 2 } }),
            ),
        ];
        for (what, other) in others {
            hand.tell(&job, what, other).await.refused(409, "CLAIM_LOST");
        }
        assert_eq!(
            hand.tell(&job, first, body).await.ok()["last_event_seq"],
            1,
            "a retry is answered as before"
        );
        assert_eq!(events(&client, id(&job)).await, stored);
    }
    world.end().await;
}

#[tokio::test]
async fn the_same_end_twice_at_once_ends_a_job_once_and_two_ends_leave_one() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    for _ in 0..10 {
        client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
        let job = hand.one().await;
        let told = |result: u32| hand.tell(&job, "result", json!({ "result": result }));
        let (one, two, again) = tokio::join!(told(1), told(2), told(1));
        assert_eq!(one.status, again.status, "the same report has the same answer");
        assert_eq!([one.status, two.status].iter().filter(|status| **status == 200).count(), 1);
        let stored = events(&client, id(&job)).await;
        assert_eq!(stored.len(), 1, "{stored:?}");
        assert_eq!(stored[0].1["result"], if one.status == 200 { 1 } else { 2 });
    }
    world.end().await;
}

#[tokio::test]
async fn the_end_of_a_cancelled_job_is_its_workers_or_the_runtimes() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let mut jobs = Vec::new();
    for _ in 0..2 {
        let job = client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
        jobs.push(hand.one().await);
        let cancel = json!({ "session_id": job["session_id"], "reason": "enough" });
        client.post(&format!("/jobs/{}/cancel", id(&job)), cancel).await.is(202);
    }
    // A result after the request ends the job as cancelled (§7.4), also when it is repeated.
    for _ in 0..2 {
        let told = hand.tell(&jobs[0], "result", json!({ "result": 1 })).await.ok();
        assert_eq!((&told["last_event_seq"], &told["cancel_requested"]), (&json!(1), &json!(true)));
    }
    hand.tell(&jobs[0], "result", json!({ "result": 2 })).await.refused(409, "CLAIM_LOST");
    hand.tell(&jobs[0], "error", json!({ "message": "no" })).await.refused(409, "CLAIM_LOST");
    // The runtime ends the other one: its worker may say late that it stopped, and nothing else.
    hand.beat(&[&jobs[1]]).await;
    world.pass(30).await;
    assert_eq!(status(&client, id(&jobs[1])).await, "cancelled");
    hand.tell(&jobs[1], "result", json!({ "result": 1 })).await.refused(409, "CLAIM_LOST");
    hand.tell(&jobs[1], "error", json!({ "message": "broke" })).await.refused(409, "CLAIM_LOST");
    hand.tell(&jobs[1], "error", json!({ "code": "CANCELLED", "message": "stopped" })).await.ok();
    for job in &jobs {
        assert_eq!(kinds(&client, id(job)).await, ["job.error"]);
        assert_eq!(status(&client, id(job)).await, "cancelled");
    }
    world.end().await;
}

#[tokio::test]
async fn workers_are_told_what_to_do() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    client.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let path = format!("/workers/{}/directive", hand.id);
    client.post(&path, json!({ "directive": "quiet" })).await.refused(404, "NOT_FOUND");
    assert_eq!(hand.beat(&[]).await["directive"], "run");
    world.admin().await.post(&path, json!({ "directive": "quiet" })).await.ok();
    assert_eq!(hand.beat(&[]).await["directive"], "quiet");
    assert!(hand.claim(1).await.is_empty(), "who is to be quiet gets no jobs");
    hand.client.post(&path, json!({ "directive": "run" })).await.ok();
    hand.one().await;
    let listed = hand.client.get("/workers").await.ok();
    assert_eq!(listed["workers"][0]["agents"], json!(["echo@1"]));
    assert_eq!(client.get("/workers").await.ok()["workers"], json!([]));
    for wrong in [json!({ "directive": "stop" }), json!({})] {
        hand.client.post(&path, wrong).await.refused(422, "INVALID_REQUEST");
    }
    world.end().await;
}
