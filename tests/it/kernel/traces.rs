//! Traces (RFC-0020): a request's trace id is in everything that it records and can be searched across intents.

use super::events::kinds;
use entente_harness::{Client, Value, World, json};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn found(client: &Client, trace: &str) -> Value {
    client.get(&format!("/events?trace_id={trace}")).await.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requests_trace_is_in_all_that_it_records() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let traced = ada.with("traceparent", PARENT);
    let intent =
        traced.post("/intents", json!({ "title": "one" })).await.ok()["id"].as_str().unwrap().to_owned();
    let other =
        traced.post("/intents", json!({ "title": "two" })).await.ok()["id"].as_str().unwrap().to_owned();
    ada.post("/intents", json!({ "title": "untraced" })).await.ok();
    let state = format!("/intents/{intent}/state");
    traced
        .seen(&json!(1))
        .post(&state, json!({ "patches": [{ "op": "set", "path": "a", "value": 1 }] }))
        .await
        .ok();
    // A retry with another trace records nothing; an event with its own trace id keeps it.
    let posted = format!("/intents/{other}/events");
    traced.post(&posted, json!({ "event_type": "note" })).await.ok();
    let own = "0AF7651916CD43DD8448EB211C80319C";
    traced.post(&posted, json!({ "event_type": "mine", "trace_id": own })).await.ok();

    let all = found(&ada, TRACE).await;
    assert_eq!(
        kinds(&all),
        ["intent_created", "intent_created", "state_patched", "note"],
        "the oldest first"
    );
    assert!(all.as_array().unwrap().iter().all(|event| event["trace_id"] == TRACE));
    assert_eq!(all[1]["intent_id"], json!(other));
    assert_eq!(kinds(&found(&ada, &own.to_lowercase()).await), ["mine"], "letters may be small or capital");
    assert_eq!(found(&ada, own).await[0]["trace_id"], own, "and are shown as they were given");
    let page = ada.get(&format!("/events?trace_id={TRACE}&limit=1&offset=2")).await.ok();
    assert_eq!(kinds(&page), ["state_patched"]);
    let narrowed = ada.get(&format!("/intents/{other}/events?trace_id={}", own.to_lowercase())).await.ok();
    assert_eq!(kinds(&narrowed), ["mine"], "on one intent too");
    ada.get(&format!("/intents/{intent}/events?trace_id=4bf9")).await.refused(422, "invalid_request");
    let narrowed = ada.get(&format!("/intents/{intent}/events?trace_id={TRACE}")).await.ok();
    assert_eq!(
        kinds(&narrowed),
        ["state_patched", "intent_created"],
        "an intent's own list is the newest first"
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audited_message_belongs_to_its_senders_trace() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = ada.post("/intents", json!({ "title": "t" })).await.ok()["id"].as_str().unwrap().to_owned();
    let ask = json!({ "name": "talk", "options": { "audit": true } });
    let channel =
        ada.post(&format!("/intents/{intent}/channels"), ask).await.ok()["id"].as_str().unwrap().to_owned();
    let path = format!("/channels/{channel}/messages");
    let said = |metadata: Value| json!({ "sender": "agent.ada", "message_type": "broadcast", "payload": {}, "metadata": metadata });
    let traced = ada.with("traceparent", PARENT);
    traced.post(&path, said(json!({}))).await.is(201);
    let own = "0af7651916cd43dd8448eb211c80319c";
    let kept = traced.post(&path, said(json!({ "trace_id": own }))).await.is(201);
    assert_eq!(kept["metadata"], json!({ "trace_id": own }), "what a client said is not touched");
    assert_eq!(kinds(&found(&ada, TRACE).await), ["channel.message"]);
    assert_eq!(kinds(&found(&ada, own).await), ["channel.message"], "the message's own word counts more");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_shows_what_its_reader_may_see() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let admin = world.admin().await;
    let traced = ada.with("traceparent", PARENT);
    let closed =
        traced.post("/intents", json!({ "title": "c" })).await.ok()["id"].as_str().unwrap().to_owned();
    traced.post("/intents", json!({ "title": "open" })).await.ok();
    ada.put(&format!("/intents/{closed}/acl"), json!({ "default_policy": "closed", "entries": [] }))
        .await
        .ok();
    traced.post("/agents/register", json!({ "agent_id": "agent.ada" })).await.ok();
    assert_eq!(
        kinds(&found(&ada, TRACE).await),
        ["intent_created", "intent_created"],
        "the house's log is not hers"
    );
    assert_eq!(kinds(&found(&bob, TRACE).await), ["intent_created"]);
    assert_eq!(kinds(&found(&admin, TRACE).await), ["intent_created", "agent.registered"]);
    // Events of one request in several logs belong to its trace too.
    traced.delete("/agents/agent.ada").await.ok();
    let told = found(&admin, TRACE).await;
    assert_eq!(kinds(&told).last(), Some(&"agent.status_changed"), "{told}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_trace_is_passed_over_or_refused() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    // The standard requires that an invalid header is ignored.
    let made = ada.with("traceparent", "00-nonsense").post("/intents", json!({ "title": "t" })).await.ok();
    let log = ada.get(&format!("/intents/{}/events", made["id"].as_str().unwrap())).await.ok();
    assert!(log[0].get("trace_id").is_none());
    ada.get("/events").await.refused(422, "invalid_parameter");
    ada.get("/events?trace_id=4bf9").await.refused(422, "invalid_request");
    ada.get(&format!("/events?trace_id={TRACE}&limit=0")).await.refused(422, "invalid_parameter");
    world.end().await;
}
