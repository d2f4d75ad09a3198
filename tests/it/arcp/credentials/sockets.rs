//! Credentials over sockets (ARCP §9.8): a session that negotiated the feature gets them and their rotations; no
//! other session ever does.

use super::stage::{litellm, take_back, world};
use entente_harness::jobs::{Hand, id};
use entente_harness::socket::{FEATURES, Socket, hello};
use entente_harness::{Setup, Value, World, json};

const FEATURE: &str = "provisioned_credentials";

fn ask() -> Value {
    json!({ "agent": "echo", "lease_request": { "model.use": ["gpt-9"] } })
}

fn offers(socket: &Socket) -> bool {
    let features = socket.welcome["payload"]["capabilities"]["features"].as_array().unwrap();
    features.contains(&json!(FEATURE))
}

/// Opens a session without the feature.
async fn without(world: &World, key: &str) -> Socket {
    let others: Vec<&str> = FEATURES.into_iter().filter(|word| *word != FEATURE).collect();
    Socket::open_with(world, "/arcp", hello(key, &others)).await
}

#[tokio::test]
async fn the_feature_is_there_only_when_somebody_provisions() {
    let (world, _upstream) = world(|upstream| litellm(upstream, &json!({}))).await;
    world.agent("agent.client").await;
    assert!(offers(&Socket::open(&world, "key-of-agent.client").await));
    assert!(!offers(&without(&world, "key-of-agent.client").await));
    world.end().await;
    let world = World::with(Setup::default()).await;
    world.agent("agent.client").await;
    assert!(!offers(&Socket::open(&world, "key-of-agent.client").await));
    world.end().await;
}

#[tokio::test]
async fn who_negotiated_it_is_told_at_acceptance() {
    let (world, upstream) = world(|upstream| litellm(upstream, &json!({}))).await;
    world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1.0.0").await;
    let mut socket = Socket::open(&world, "key-of-agent.client").await;
    let accepted = socket.submit(ask()).await;
    assert_eq!(accepted["credentials"][0]["value"], json!(upstream.out()[0]));
    let mut plain = without(&world, "key-of-agent.client").await;
    let accepted = plain.submit(ask()).await;
    assert!(accepted.get("credentials").is_none());
    for job in hand.claim(10).await {
        assert_eq!(job["credentials"].as_array().unwrap().len(), 1, "the worker has it in any case");
        hand.tell(&job, "result", json!({ "result": 1 })).await.ok();
    }
    take_back(&world).await;
    assert!(upstream.out().is_empty());
    world.end().await;
}

#[tokio::test]
async fn a_rotation_is_told_with_its_value_to_its_submitter_alone() {
    let (world, _upstream) = world(|upstream| litellm(upstream, &json!({}))).await;
    world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1.0.0").await;
    let mut submitter = Socket::open(&world, "key-of-agent.client").await;
    let job = submitter.submit(ask()).await;
    let follow = json!({ "job_id": job["job_id"], "history": true, "from_event_seq": 0 });
    // Another session of the same principal, and an operator.
    let mut sibling = Socket::open(&world, "key-of-agent.client").await;
    sibling.ask("job.subscribe", follow.clone()).await;
    let admin = world.admin().await;
    let claimed = hand.one().await;
    let path = format!("credentials/{}/rotate", claimed["credentials"][0]["id"].as_str().unwrap());
    let rotated = hand.tell(&claimed, &path, json!({})).await.ok();
    let value = rotated["credential"]["value"].clone();
    let redacted = json!({ "phase": "credential_rotated", "id": rotated["credential"]["id"] });
    let mut whole = redacted.clone();
    whole["value"] = value.clone();
    let body = |frame: Value| frame["payload"]["body"].clone();
    assert_eq!(body(submitter.of("job.event").await), whole);
    assert_eq!(body(sibling.of("job.event").await), redacted);
    let mut late = Socket::open(&world, "key-of-agent.client").await;
    late.ask("job.subscribe", follow.clone()).await;
    assert_eq!(body(late.of("job.event").await), redacted, "nor through history");
    let told = admin.get(&format!("/jobs/{}/events", id(&job))).await;
    assert!(told.text.contains("credential_rotated") && !told.text.contains(value.as_str().unwrap()));
    // After a resume the session gets the same events again.
    submitter.send(tokio_tungstenite::tungstenite::Message::Close(None)).await;
    let mut resumed = submitter.resume(&world, "key-of-agent.client", 0).await;
    assert_eq!(body(resumed.of("job.event").await), whole);
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    resumed.of("job.result").await;
    // After the job's end the value is revoked and no longer shown.
    let mut after = resumed.resume(&world, "key-of-agent.client", 0).await;
    assert_eq!(body(after.of("job.event").await), redacted);
    take_back(&world).await;
    world.end().await;
}
