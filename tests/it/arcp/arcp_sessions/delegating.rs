//! Delegated children in the session that submitted their parent (ARCP §10): each child's acceptance arrives there
//! before its events.

use super::world;
use entente_harness::jobs::{Hand, id};
use entente_harness::socket::Socket;
use entente_harness::{Value, json};

#[tokio::test]
async fn a_childs_acceptance_reaches_the_session_that_submitted_its_parent() {
    let (world, hand, key) = world().await;
    let helper = Hand::of(&world.any(), "helper@1.0.0").await;
    let mut socket = Socket::open(&world, key).await;
    let lease = json!({ "agent.delegate": ["helper"], "fs.read": ["/w/**"], "cost.budget": ["USD:5.00"] });
    let parent = socket.submit(json!({ "agent": "echo", "lease_request": lease })).await;
    let claimed = hand.one().await;
    let asked = json!({
        "delegate_id": "d1", "agent": "helper", "input": 1,
        "lease_request": { "fs.read": ["/w/a/*"], "cost.budget": ["USD:1.00"] },
    });
    let made = hand.tell(&claimed, "delegate", asked.clone()).await.is(201);
    let told = socket.until(|frame| frame["payload"]["kind"] == "delegate").await;
    assert_eq!(told["payload"]["body"]["child_job_id"], made["job_id"]);
    let frame = socket.of("job.accepted").await;
    let said = &frame["payload"];
    assert_eq!((&frame["job_id"], &said["job_id"]), (&made["job_id"], &made["job_id"]), "{frame}");
    assert_eq!((&said["parent_job_id"], &said["delegate_id"]), (&parent["job_id"], &json!("d1")));
    assert_eq!((&said["agent"], &said["trace_id"]), (&json!("helper@1.0.0"), &parent["trace_id"]));
    assert_eq!((&said["lease"], &said["budget"]), (&made["lease"], &json!({ "USD": 1 })));
    // It is neither a response nor an event: it has no request id and no sequence number.
    for member in ["request_id", "session_id", "credentials"] {
        assert_eq!(said.get(member), None, "{frame}");
    }
    assert_eq!(frame.get("event_seq"), None);
    let child = helper.one().await;
    helper.events(&child, json!([{ "kind": "log", "body": { "level": "info", "message": "m" } }])).await.ok();
    helper.tell(&child, "result", json!({ "result": 2 })).await.ok();
    let ended = socket.of("job.result").await;
    assert_eq!(ended["job_id"], made["job_id"], "what happens to it comes after");
    // A repeated delegation creates no second child and no second notification.
    hand.tell(&claimed, "delegate", asked).await.is(201);
    hand.tell(&claimed, "result", json!({ "result": 3 })).await.ok();
    let next = socket.next().await.unwrap();
    assert_eq!((&next["type"], &next["job_id"]), (&json!("job.result"), &parent["job_id"]));
    drop(socket);
    world.end().await;
}

#[tokio::test]
async fn a_job_that_is_over_takes_no_child_over_a_socket() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    let parent = socket.submit(json!({ "agent": "echo" })).await;
    let child = json!({ "agent": "echo", "parent_job_id": parent["job_id"] });
    let before = socket.submit(child.clone()).await;
    assert_eq!(before["parent_job_id"], parent["job_id"]);
    let claimed = hand.claim(2).await;
    hand.tell(&claimed[0], "result", json!({ "result": 1 })).await.ok();
    assert_eq!(socket.of("job.result").await["job_id"], parent["job_id"]);
    socket.refused("job.submit", child, "INVALID_REQUEST").await;
    drop(socket);
    world.end().await;
}

#[tokio::test]
async fn whoever_comes_back_is_told_of_the_child_again_and_whoever_only_watches_is_not() {
    let (world, hand, key) = world().await;
    world.client(key).put("/arcp/agents/helper/versions/1.0.0", json!({})).await;
    let _helper = Hand::of(&world.any(), "helper@1.0.0").await;
    let mut socket = Socket::open(&world, key).await;
    let lease = json!({ "agent.delegate": ["helper"] });
    let parent = socket.submit(json!({ "agent": "echo", "lease_request": lease })).await;
    let mut watching = Socket::open(&world, key).await;
    watching.ask("job.subscribe", json!({ "job_id": parent["job_id"] })).await;
    let claimed = hand.one().await;
    let made =
        hand.tell(&claimed, "delegate", json!({ "delegate_id": "d1", "agent": "helper" })).await.is(201);
    socket.of("job.accepted").await;
    watching.until(|frame| frame["payload"]["kind"] == "delegate").await;
    // A worker's report about another principal's job does not make that job visible here.
    let other = world.any().post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let lie = json!({ "kind": "delegate", "body": {
        "delegate_id": "x", "agent": "helper", "child_job_id": other["job_id"], "lease": {} } });
    hand.events(&claimed, json!([lie])).await;
    hand.events(&claimed, json!([{ "kind": "log", "body": { "level": "info", "message": "after" } }]))
        .await
        .ok();
    let after = |frame: &Value| frame["payload"]["body"]["message"] == "after";
    let mut accepted = Vec::new();
    loop {
        let frame = watching.next().await.unwrap();
        accepted.extend((frame["type"] == "job.accepted").then(|| frame["job_id"].clone()));
        if after(&frame) {
            break;
        }
    }
    assert_eq!(accepted, [] as [Value; 0], "who watches has submitted nothing");
    loop {
        let frame = socket.next().await.unwrap();
        assert_ne!(frame["type"], "job.accepted", "{frame}");
        if after(&frame) {
            break;
        }
    }
    drop(socket.closed());
    let mut again = socket.resume(&world, key, 0).await;
    let told = again.of("job.accepted").await;
    assert_eq!(id(&told["payload"]), id(&made), "its acceptance comes again with its event");
    drop((socket, watching, again));
    world.end().await;
}

/// ARCP §9.2: a pattern that no target matches covers nothing; the request is accepted all the same.
#[tokio::test]
async fn a_lease_that_covers_nothing_is_accepted_and_covers_nothing() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    let lease = json!({ "fs.read": ["*", "s3://bucket/**"], "net.fetch": ["https://**", "s3://bucket/**"] });
    let accepted = socket.submit(json!({ "agent": "echo", "lease_request": lease })).await;
    assert_eq!(accepted["lease"], lease, "it is told as it was asked for");
    let over_rest = json!({ "agent": "echo", "lease_request": lease });
    world.client(key).post("/jobs", over_rest).await.is(201);
    let job = hand.claim(1).await.remove(0);
    let may = async |capability: &str, target: &str| {
        hand.tell(&job, "authorize", json!({ "capability": capability, "target": target })).await
    };
    for target in ["/etc/passwd", "a", "s3://bucket/a"] {
        may("fs.read", target).await.refused(403, "PERMISSION_DENIED");
    }
    may("net.fetch", "https://example.com/a/b").await.ok();
    may("net.fetch", "http://example.com/a").await.refused(403, "PERMISSION_DENIED");
    drop(socket);
    world.end().await;
}
