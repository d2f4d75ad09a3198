//! Submitting over a session (ARCP §7.1 to §7.5): acceptance, refusals, the order of the responses, and retries.

use super::world;
use entente_harness::jobs::id;
use entente_harness::socket::{Socket, seqs};
use entente_harness::{Value, json};

#[tokio::test]
async fn an_acceptance_says_what_was_accepted() {
    let (world, _hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    let said = json!({
        "agent": "echo", "input": { "a": 1 }, "lease_request": { "fs.read": ["/w/**"], "cost.budget": ["USD:5.00"] },
        "lease_constraints": { "expires_at": "2036-05-13T23:42:00Z" }, "max_runtime_sec": 1800,
    });
    let text = json!({ "arcp": "1.1", "id": "01M7", "type": "job.submit", "session_id": socket.session(),
        "trace_id": "0af7651916cd43dd8448eb211c80319c", "payload": said });
    socket.raw(&text.to_string()).await;
    let frame = socket.of("job.accepted").await;
    let told = &frame["payload"];
    assert_eq!(told["request_id"], "01M7");
    assert_eq!(
        (&frame["job_id"], &frame["trace_id"]),
        (&told["job_id"], &json!("0af7651916cd43dd8448eb211c80319c"))
    );
    assert_eq!((&told["agent"], &told["trace_id"]), (&json!("echo@1.0.0"), &frame["trace_id"]));
    assert_eq!(told["lease"], json!({ "fs.read": ["/w/**"], "cost.budget": ["USD:5.00"] }));
    assert!(told["lease_constraints"]["expires_at"].as_str().unwrap().starts_with("2036-05-13T23:42:00"));
    assert_eq!(told["budget"], json!({ "USD": 5 }));
    assert!(told.get("credentials").is_none() && told.get("session_id").is_none());
    assert!(told["accepted_at"].as_str().unwrap().ends_with('Z'));
    drop(socket);
    world.end().await;
}

#[tokio::test]
async fn what_is_not_lawful_is_refused_and_the_session_lives_on() {
    let (world, _hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    let cases = [
        (json!({ "agent": "nope" }), "AGENT_NOT_AVAILABLE"),
        (json!({ "agent": "echo@9" }), "AGENT_VERSION_NOT_AVAILABLE"),
        (json!({ "agent": "Echo!" }), "INVALID_REQUEST"),
        (json!({ "agent": 7 }), "INVALID_REQUEST"),
        (json!({}), "INVALID_REQUEST"),
        (json!([]), "INVALID_REQUEST"),
        (json!({ "agent": "echo", "lease_request": { "odd": ["x"] } }), "INVALID_REQUEST"),
        (json!({ "agent": "echo", "lease_request": { "cost.budget": ["USD"] } }), "INVALID_REQUEST"),
        (
            json!({ "agent": "echo", "lease_constraints": { "expires_at": "2036-05-13T23:42:00+00:00" } }),
            "INVALID_REQUEST",
        ),
        (
            json!({ "agent": "echo", "lease_constraints": { "expires_at": "2020-05-13T23:42:00Z" } }),
            "INVALID_REQUEST",
        ),
        (json!({ "agent": "echo", "max_runtime_sec": 0 }), "INVALID_REQUEST"),
        (json!({ "agent": "echo", "parent_job_id": "job_x" }), "JOB_NOT_FOUND"),
    ];
    for (said, code) in cases {
        let told = socket.refused("job.submit", said, code).await;
        assert_eq!(told["retryable"], false);
    }
    socket.submit(json!({ "agent": "echo", "lease_request": {} })).await;
    drop(socket);
    world.end().await;
}

#[tokio::test]
async fn many_submits_are_answered_in_their_order_and_before_their_events() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    let mut asked = Vec::new();
    for n in 0..60 {
        // Some fail at once and some take longer, but the order is that of the requests.
        let agent = if n % 7 == 3 { "nope" } else { "echo" };
        asked.push(socket.say("job.submit", json!({ "agent": agent, "input": n })).await);
    }
    let worker = async {
        let mut done = 0;
        while done < 51 {
            for job in hand.claim(8).await {
                let log = json!([{ "kind": "log", "body": { "level": "info", "message": "m" } }]);
                hand.events(&job, log).await.ok();
                hand.tell(&job, "result", json!({ "result": job["input"] })).await.ok();
                done += 1;
            }
        }
    };
    let reader = async {
        let (mut answers, mut accepted, mut numbered) = (Vec::new(), Vec::new(), Vec::new());
        while numbered.len() < 102 {
            let frame = socket.until(|frame| frame["type"] != "session.ping").await;
            if let Some(request) = frame["payload"]["request_id"].as_str() {
                answers.push(request.to_owned());
                if frame["type"] == "job.accepted" {
                    accepted.push(frame["job_id"].clone());
                }
            } else if frame.get("event_seq").is_some() {
                assert!(accepted.contains(&frame["job_id"]), "an event came before its acceptance: {frame}");
                numbered.push(frame);
            }
        }
        (answers, numbered)
    };
    let ((answers, numbered), ()) = tokio::join!(reader, worker);
    assert_eq!(answers, asked);
    // Including a back-pressure event, because nothing was acknowledged.
    assert_eq!(seqs(&numbered), (1..=102).collect::<Vec<i64>>());
    drop(socket);
    world.end().await;
}

#[tokio::test]
async fn the_same_again_is_the_same_job_and_brings_its_end() {
    let (world, hand, key) = world().await;
    let mut first = Socket::open(&world, key).await;
    let said = json!({ "agent": "echo", "input": { "a": 1, "b": 2 }, "idempotency_key": "k-1" });
    let told = first.submit(said).await;
    // With another member order, and an empty lease instead of none.
    let again: Value = serde_json::from_str(
        r#"{"idempotency_key":"k-1","lease_request":{},"input":{"b":2,"a":1},"agent":"echo"}"#,
    )
    .unwrap();
    let mut second = Socket::open(&world, key).await;
    let frame = second.ask("job.submit", again.clone()).await;
    assert_eq!(frame["session_id"], second.session());
    let mut repeated = frame["payload"].clone();
    let mut before = told.clone();
    for payload in [&mut repeated, &mut before] {
        payload.as_object_mut().unwrap().remove("request_id");
    }
    assert_eq!(repeated, before);
    let other = json!({ "agent": "echo", "input": 7, "idempotency_key": "k-1" });
    second.refused("job.submit", other, "DUPLICATE_KEY").await;
    let claimed = hand.one().await;
    hand.tell(&claimed, "result", json!({ "result": "done" })).await.ok();
    for socket in [&mut first, &mut second] {
        let end = &socket.numbered(1).await[0];
        assert_eq!((&end["payload"]["result"], &end["event_seq"]), (&json!("done"), &json!(1)));
    }
    // After its end, each retry gets the end again.
    let mut third = Socket::open(&world, key).await;
    assert_eq!(id(&third.submit(again.clone()).await), id(&told));
    assert_eq!(third.numbered(1).await[0]["payload"]["result"], "done");
    first.submit(again).await;
    assert_eq!(seqs(&first.numbered(1).await), [2]);
    drop((first, second, third));
    world.end().await;
}

#[tokio::test]
async fn a_failure_that_is_retried_is_a_status_among_the_events() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    // What ARCP does not have is in a member of its own, which other servers ignore.
    let beyond = json!({ "retry": { "max_attempts": 2, "initial_delay_ms": 0 }, "queue_timeout_sec": 60 });
    let job = socket.submit(json!({ "agent": "echo", "x-entente": beyond })).await;
    let wrong = json!({ "agent": "echo", "x-entente": { "start_at": "soon" } });
    socket.refused("job.submit", wrong, "INVALID_REQUEST").await;
    let first = hand.one().await;
    hand.tell(&first, "error", json!({ "message": "the tool crashed" })).await.ok();
    let second = hand.one().await;
    hand.tell(&second, "result", json!({ "result": 2 })).await.ok();
    let frames = socket.numbered(2).await;
    assert_eq!(seqs(&frames), [1, 2]);
    let body = &frames[0]["payload"]["body"];
    assert_eq!((&frames[0]["type"], &body["phase"]), (&json!("job.event"), &json!("retrying")));
    assert_eq!((&frames[1]["type"], &frames[1]["job_id"]), (&json!("job.result"), &json!(id(&job))));
    drop(socket);
    world.end().await;
}
