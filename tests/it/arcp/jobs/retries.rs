//! Retries of failed jobs, and the history of their attempts: a failure that is retried does not end the job.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{Hand, events, id, kinds, status};
use entente_harness::{Client, Setup, Value, World, json};

/// Returns the attempts at a job as `(attempt, outcome, code)`.
async fn tried(client: &Client, job: &Value) -> Vec<(u64, String, Value)> {
    let found = client.get(&format!("/jobs/{}/attempts", id(job))).await.ok();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let one = |one: &Value| (one["attempt"].as_u64().unwrap(), text(&one["outcome"]), one["code"].clone());
    found["attempts"].as_array().unwrap().iter().map(one).collect()
}

fn fails(message: &str) -> Value {
    json!({ "code": "INTERNAL_ERROR", "message": message })
}

#[tokio::test]
async fn a_failure_is_tried_again_later_and_does_not_end_the_job() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let retry = json!({ "max_attempts": 3, "initial_delay_ms": 10_000, "factor": 3, "jitter": false });
    let job = client.post("/jobs", json!({ "agent": "echo", "retry": retry })).await.is(201);
    let path = format!("/jobs/{}", id(&job));

    let first = hand.one().await;
    let told = hand.tell(&first, "error", fails("the tool crashed")).await.ok();
    assert_eq!(told["next_attempt_at"], "2026-11-21T08:00:10.000000Z");
    let shown = client.get(&path).await.ok();
    assert_eq!((&shown["status"], &shown["attempt"]), (&json!("pending"), &json!(1)));
    assert_eq!(shown["not_before"], "2026-11-21T08:00:10.000000Z");
    assert!(shown.get("terminal").is_none() && shown.get("claim").is_none(), "{shown}");
    let (kind, body) = events(&client, id(&job)).await.pop().unwrap();
    assert_eq!((kind.as_str(), &body["phase"]), ("status", &json!("retrying")));
    assert!(body["message"].as_str().unwrap().contains("the tool crashed"), "{body}");
    assert_eq!(body["x-entente"]["next_attempt_at"], "2026-11-21T08:00:10.000000Z");

    world.pass(9).await;
    assert!(hand.claim(10).await.is_empty(), "it waits");
    world.pass(1).await;
    let second = hand.one().await;
    assert_eq!((&second["attempt"], &second["job_id"]), (&json!(2), &job["job_id"]));
    let told = hand.tell(&second, "error", fails("again")).await.ok();
    assert_eq!(told["next_attempt_at"], "2026-11-21T08:00:40.000000Z", "three times as long");
    world.pass(30).await;
    let third = hand.one().await;
    let told = hand.tell(&third, "error", fails("for good")).await.ok();
    assert!(told.get("next_attempt_at").is_none(), "{told}");
    assert_eq!(status(&client, id(&job)).await, "error");
    assert_eq!(kinds(&client, id(&job)).await, ["status", "status", "job.error"], "a job ends once");

    let code = json!("INTERNAL_ERROR");
    let failed = |attempt| (attempt, "failed".to_owned(), code.clone());
    assert_eq!(tried(&client, &job).await, [failed(1), failed(2), failed(3)]);
    let history = client.get(&format!("{path}/attempts")).await.ok();
    let one = &history["attempts"][1];
    assert_eq!((&one["message"], &one["worker"]), (&json!("again"), &json!("hand")));
    assert_eq!(
        (&one["claimed_at"], &one["ended_at"], &one["next_attempt_at"]),
        (
            &json!("2026-11-21T08:00:10.000000Z"),
            &json!("2026-11-21T08:00:10.000000Z"),
            &json!("2026-11-21T08:00:40.000000Z")
        )
    );
    assert_eq!((&history["failures"], &history["retry"]["factor"]), (&json!(2), &json!(3.0)));
    world.agent("agent.other").await.get(&format!("{path}/attempts")).await.refused(404, "JOB_NOT_FOUND");
    world.end().await;
}

#[tokio::test]
async fn the_policy_is_the_versions_unless_the_job_has_its_own() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let any = world.any();
    let hand = Hand::of(&any, "echo@1").await;
    let fail = async |ask: Value, report: Value| {
        let mut submit = json!({ "agent": "echo" });
        submit.as_object_mut().unwrap().extend(ask.as_object().unwrap().clone());
        let job = client.post("/jobs", submit).await.is(201);
        let claimed = hand.one().await;
        hand.tell(&claimed, "error", report).await.ok();
        let state = status(&client, id(&job)).await;
        if state == "pending" {
            let end = json!({ "session_id": job["session_id"] });
            client.post(&format!("/jobs/{}/cancel", id(&job)), end).await.is(202);
        }
        state
    };
    assert_eq!(fail(json!({}), fails("x")).await, "error", "nothing is retried unless somebody says so");
    assert_eq!(fail(json!({}), json!({ "code": "INVALID_REQUEST", "retryable": true })).await, "error");
    any.put("/arcp/agents/echo/versions/1", json!({ "retry": { "initial_delay_ms": 5_000 } })).await.ok();
    assert_eq!(fail(json!({}), fails("x")).await, "pending");
    assert_eq!(fail(json!({ "retry": { "max_attempts": 1 } }), fails("x")).await, "error");
    // Terms that are not named stay.
    any.put("/arcp/agents/echo/versions/1", json!({ "max_attempts": 4 })).await.ok();
    assert_eq!(fail(json!({}), fails("x")).await, "pending");
    // The code decides, and the worker's word over it.
    let code = |code: &str, retryable: Value| json!({ "code": code, "message": "x", "retryable": retryable });
    assert_eq!(fail(json!({}), code("PERMISSION_DENIED", Value::Null)).await, "error");
    assert_eq!(fail(json!({}), code("PERMISSION_DENIED", json!(true))).await, "pending");
    assert_eq!(fail(json!({}), code("INTERNAL_ERROR", json!(false))).await, "error");
    let listed = json!({ "retry": { "codes": ["TIMEOUT"] } });
    assert_eq!(fail(listed.clone(), code("TIMEOUT", Value::Null)).await, "pending");
    assert_eq!(fail(listed.clone(), fails("x")).await, "error");
    // What no attempt can mend ends the job, whatever anybody says (ARCP-W-4.2.2).
    for last in ["LEASE_EXPIRED", "BUDGET_EXHAUSTED"] {
        assert_eq!(fail(listed.clone(), code(last, json!(true))).await, "error");
    }
    assert_eq!(fail(listed, code("CANCELLED", json!(true))).await, "cancelled");
    // In an ARCP frame the members beyond it are in one of their own.
    let beyond = json!({ "x-entente": { "retry": { "codes": ["INVALID_REQUEST"] } } });
    assert_eq!(fail(beyond, code("INVALID_REQUEST", Value::Null)).await, "pending");
    for wrong in [
        json!({ "retry": { "max_attempts": 0 } }),
        json!({ "retry": { "max_attempts": 101 } }),
        json!({ "retry": { "factor": 0.5 } }),
        json!({ "retry": { "factor": 11 } }),
        json!({ "retry": { "initial_delay_ms": 86_400_001 } }),
        json!({ "retry": { "max_delay_ms": -1 } }),
        json!({ "retry": { "codes": ["LEASE_EXPIRED"] } }),
        json!({ "retry": { "codes": ["NO_SUCH"] } }),
        json!({ "retry": { "attempts": 3 } }),
        json!({ "x-entente": { "retries": {} } }),
    ] {
        let mut submit = json!({ "agent": "echo" });
        submit.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        client.post("/jobs", submit).await.refused(422, "INVALID_REQUEST");
    }
    world.end().await;
}

#[tokio::test]
async fn a_retry_ends_with_the_jobs_time_its_cancellation_and_its_key() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let retry = json!({ "initial_delay_ms": 60_000, "jitter": false });
    // No attempt begins after the job's time is over: then the failure ends it.
    let limits = [
        json!({ "max_runtime_sec": 60 }),
        json!({ "lease_constraints": { "expires_at": "2026-11-21T08:01:00Z" } }),
    ];
    for limit in limits {
        let mut submit = json!({ "agent": "echo", "retry": retry });
        submit.as_object_mut().unwrap().extend(limit.as_object().unwrap().clone());
        let job = client.post("/jobs", submit).await.is(201);
        let claimed = hand.one().await;
        hand.tell(&claimed, "error", fails("x")).await.ok();
        assert_eq!(status(&client, id(&job)).await, "error");
    }
    // A job that waits is cancelled at once, and is not released later.
    let submit = json!({ "agent": "echo", "retry": retry, "idempotency_key": "k" });
    let job = client.post("/jobs", submit.clone()).await.is(201);
    assert_eq!(client.post("/jobs", submit).await.is(200)["job_id"], job["job_id"]);
    let other = json!({ "agent": "echo", "idempotency_key": "k" });
    client.post("/jobs", other).await.refused(409, "DUPLICATE_KEY");
    let claimed = hand.one().await;
    hand.tell(&claimed, "error", fails("x")).await.ok();
    let cancel = json!({ "session_id": job["session_id"] });
    let path = format!("/jobs/{}", id(&job));
    client.post(&format!("{path}/cancel"), cancel).await.is(202);
    let shown = client.get(&path).await.ok();
    assert_eq!((&shown["status"], shown.get("not_before")), (&json!("cancelled"), None));
    world.pass(120).await;
    assert!(hand.claim(10).await.is_empty());
    assert_eq!(kinds(&client, id(&job)).await, ["status", "job.error"]);
    world.end().await;
}

#[tokio::test]
async fn a_report_whose_answer_was_lost_changes_nothing() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let retry = json!({ "initial_delay_ms": 0, "max_attempts": 3 });
    let job = client.post("/jobs", json!({ "agent": "echo", "retry": retry })).await.is(201);
    let first = hand.one().await;
    hand.tell(&first, "error", fails("x")).await.ok();
    // Again while the job waits, while the next attempt runs, and after the job's end.
    hand.tell(&first, "error", fails("x")).await.ok();
    let second = hand.one().await;
    assert_eq!(second["attempt"], 2, "without a delay it waits for no sweep");
    hand.tell(&first, "error", fails("x")).await.ok();
    assert_eq!(status(&client, id(&job)).await, "running");
    hand.tell(&first, "error", fails("y")).await.refused(409, "CLAIM_LOST");
    hand.tell(&first, "result", json!({ "result": 1 })).await.refused(409, "CLAIM_LOST");
    hand.events(&first, json!([{ "kind": "log", "body": {} }])).await.refused(409, "CLAIM_LOST");
    hand.tell(&second, "result", json!({ "result": 2 })).await.ok();
    hand.tell(&first, "error", fails("x")).await.ok();
    assert_eq!(kinds(&client, id(&job)).await, ["status", "job.result"]);
    let expected =
        [(1, "failed".to_owned(), json!("INTERNAL_ERROR")), (2, "success".to_owned(), Value::Null)];
    assert_eq!(tried(&client, &job).await, expected);
    world.end().await;
}

#[tokio::test]
async fn lost_workers_and_failures_are_counted_apart() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let any = world.any();
    let hand = Hand::of(&any, "echo@1").await;
    any.put("/arcp/agents/echo/versions/1", json!({ "max_attempts": 2 })).await.ok();
    let retry = json!({ "initial_delay_ms": 0, "max_attempts": 3 });
    let budget = json!({ "cost.budget": ["USD:1.00"] });
    let job = client
        .post("/jobs", json!({ "agent": "echo", "retry": retry, "lease_request": budget }))
        .await
        .is(201);
    for what in ["fails", "is lost", "fails"] {
        let claimed = hand.one().await;
        let call = json!({ "capability": "cost.budget", "target": "USD", "reserve": { "USD": 0.6 } });
        hand.tell(&claimed, "authorize", call).await.ok();
        if what == "fails" {
            hand.tell(&claimed, "error", fails("x")).await.ok();
        } else {
            world.pass(61).await;
        }
        let left = client.get(&format!("/jobs/{}", id(&job))).await.ok()["budget"].clone();
        assert_eq!(left, json!({ "USD": 1 }), "a reservation ends with its attempt");
    }
    let last = hand.one().await;
    assert_eq!(last["attempt"], 4);
    world.pass(61).await;
    assert_eq!(status(&client, id(&job)).await, "error", "two workers were lost");
    let outcomes: Vec<String> =
        tried(&client, &job).await.into_iter().map(|(_, outcome, _)| outcome).collect();
    assert_eq!(outcomes, ["failed", "lost", "failed", "failed"]);
    world.end().await;
}

#[tokio::test]
async fn a_job_of_an_intent_is_tried_again_too() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let intent = client.post("/intents", json!({ "title": "work" })).await.ok()["id"].clone();
    let retry = json!({ "initial_delay_ms": 5_000 });
    let job =
        client.post("/jobs", json!({ "agent": "echo", "retry": retry, "intent_id": intent })).await.is(201);
    let first = hand.one().await;
    hand.tell(&first, "error", fails("x")).await.ok();
    assert!(hand.claim(1).await.is_empty());
    world.pass(5).await;
    let second = hand.one().await;
    hand.tell(&second, "result", json!({ "result": 1 })).await.ok();
    assert_eq!(status(&client, id(&job)).await, "success");
    let log = client.get(&format!("/intents/{}/events", intent.as_str().unwrap())).await.ok().to_string();
    assert_eq!(log.matches("job.running").count(), 2, "{log}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_server_is_gone_is_given_to_a_waiting_worker_in_time() {
    let (a, b) = World::two().await;
    let hand = Hand::of(&a.any(), "echo@1").await;
    let retry = json!({ "initial_delay_ms": 1_500, "jitter": false });
    let job = a.any().post("/jobs", json!({ "agent": "echo", "retry": retry })).await.is(201);
    let claimed = hand.one().await;
    let failed_at = Instant::now();
    hand.tell(&claimed, "error", fails("x")).await.ok();
    a.server.stop().await;
    let there = Hand { client: b.any(), id: hand.id.clone() };
    let ask = json!({ "worker_id": there.id, "max": 1, "wait_sec": 20 });
    let got = there.client.post("/jobs/claim", ask).await.ok();
    let waited = failed_at.elapsed();
    assert_eq!((id(&got["jobs"][0]), &got["jobs"][0]["attempt"]), (id(&job), &json!(2)));
    let on_time = Duration::from_millis(1_500)..Duration::from_millis(2_500);
    assert!(on_time.contains(&waited), "after {waited:?}");
    b.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_due_at_once_all_run_once() {
    let world = World::with(Setup::live()).await;
    let any = world.any();
    let hand = Hand::of(&any, "echo@1").await;
    let retry = json!({ "initial_delay_ms": 1_000, "jitter": false });
    for _ in 0..40 {
        any.post("/jobs", json!({ "agent": "echo", "retry": retry })).await.is(201);
    }
    for claimed in hand.claim(100).await {
        hand.tell(&claimed, "error", fails("x")).await.ok();
    }
    let worker = async |hand: &Hand| {
        let mut done = 0;
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(4) {
            let ask = json!({ "worker_id": hand.id, "max": 1, "wait_sec": 1 });
            let got = hand.client.post("/jobs/claim", ask).await.ok();
            for claimed in got["jobs"].as_array().unwrap() {
                assert_eq!(claimed["attempt"], 2);
                hand.tell(claimed, "result", json!({ "result": 1 })).await.ok();
                done += 1;
            }
        }
        done
    };
    let hands = [Hand::again(&any, "echo@1").await, Hand::again(&any, "echo@1").await, hand];
    let done = futures_util::future::join_all(hands.iter().map(worker)).await;
    assert_eq!(done.iter().sum::<u32>(), 40);
    sleep(Duration::from_millis(10)).await;
    world.server.stop().await;
}
