//! Endpoint leases of webhook delivery: fairness, loading, and failures on the server's side.

use std::time::Duration;

use entente_domain::ids::{EndpointId, NodeId};
use entente_domain::webhooks::DisabledReason;
use entente_kernel::webhooks::{deliveries, endpoints};

use entente_harness::{Act, Receiver, Value, World, json, send, subscribe, talk};

fn node(world: &World) -> NodeId {
    NodeId::mint(world.ctx().now(), &*world.ctx().chance)
}

fn endpoint(made: &Value) -> EndpointId {
    made["id"].as_str().unwrap().parse().unwrap()
}

fn note(n: usize) -> Value {
    json!({ "sender": "agent.ada", "payload": { "n": n } })
}

#[tokio::test]
async fn who_had_a_shift_queues_behind_who_had_none() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let receiver = Receiver::start().await;
    let only = json!({ "event_types": ["channel_message"] });
    let old = endpoint(&subscribe(&ada, &receiver.url(), only.clone()).await);
    send(&ada, &channel, note(1)).await;
    world.hand_out().await;
    world.clock.advance(10);
    let new = endpoint(&subscribe(&ada, &receiver.url(), only).await);
    send(&ada, &channel, note(2)).await;
    world.hand_out().await;
    world.clock.advance(1);
    // Each lease ends before anything is sent, as with a slow receiver and a long queue.
    let (ctx, node) = (world.ctx(), node(&world));
    for expected in [old, new, old, new] {
        let claimed = deliveries::claim(ctx, node, 1).await.unwrap();
        assert_eq!(claimed.iter().map(|shift| shift.endpoint_id).collect::<Vec<_>>(), [expected]);
        world.clock.advance(1);
        deliveries::end(ctx, &claimed[0], false).await.unwrap();
    }
    world.end().await;
}

#[tokio::test]
async fn a_shift_that_fails_here_is_not_begun_again_at_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let receiver = Receiver::start().await;
    let only = json!({ "event_types": ["channel_message"] });
    subscribe(&ada, &receiver.url(), only).await;
    let said = send(&ada, &channel, note(1)).await;
    world.hand_out().await;
    // The bodies to be sent cannot be read.
    let spoil = "ALTER TABLE webhook_bodies RENAME TO spoiled";
    sqlx::query(spoil).execute(&world.ctx().pool).await.unwrap();
    let once = tokio::time::timeout(Duration::from_secs(10), world.deliver()).await;
    once.expect("it is begun again and again");
    let mend = "ALTER TABLE spoiled RENAME TO webhook_bodies";
    sqlx::query(mend).execute(&world.ctx().pool).await.unwrap();
    world.clock.advance(5);
    world.deliver().await;
    assert_eq!(receiver.ids(), [said["id"].as_str().unwrap()]);
    world.end().await;
}

#[tokio::test]
async fn few_large_bodies_are_in_memory_at_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let receiver = Receiver::start().await;
    subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;
    let mut sent = Vec::new();
    for _ in 0..10 {
        let large = json!({ "sender": "agent.ada", "payload": { "text": "x".repeat(200_000) } });
        sent.push(send(&ada, &channel, large).await["id"].as_str().unwrap().to_owned());
    }
    world.hand_out().await;
    let shift = deliveries::claim(world.ctx(), node(&world), 1).await.unwrap().remove(0);
    let batch = deliveries::load(world.ctx(), &shift).await.unwrap().unwrap();
    let loaded: Vec<&str> = batch.due.iter().map(|due| due.webhook_id.as_str()).collect();
    assert_eq!(loaded, sent[..6], "up to the first beyond a mebibyte");
    deliveries::end(world.ctx(), &shift, false).await.unwrap();
    world.deliver().await;
    assert_eq!(receiver.ids(), sent);
    world.end().await;
}

#[tokio::test]
async fn a_receiver_that_took_the_place_of_one_that_is_gone_is_not_to_blame() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let made = subscribe(&ada, "https://hooks.example/new", json!({})).await;
    let gone = |url| endpoints::disable(world.ctx(), endpoint(&made), url, DisabledReason::Gone);
    assert!(!gone("https://hooks.example/old").await.unwrap());
    let path = format!("/subscriptions/{}", made["id"].as_str().unwrap());
    assert_eq!(ada.get(&path).await.ok()["active"], true);
    assert!(gone("https://hooks.example/new").await.unwrap());
    assert_eq!(ada.get(&path).await.ok()["disabled_reason"], "gone");
    world.end().await;
}

#[tokio::test]
async fn a_clock_that_was_wrong_delays_nothing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let receiver = Receiver::start().await;
    subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;
    world.clock.advance(3_600);
    let first = send(&ada, &channel, note(1)).await;
    world.hooks().await;
    world.clock.advance(-3_600);
    let second = send(&ada, &channel, note(2)).await;
    world.hooks().await;
    assert_eq!(receiver.ids(), [first["id"].as_str().unwrap(), second["id"].as_str().unwrap()]);
    world.end().await;
}

#[tokio::test]
async fn a_status_counts_although_its_body_never_comes() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let receiver = Receiver::start().await;
    let made = subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;
    receiver.does([Act::Drip(202)]);
    send(&ada, &channel, note(1)).await;
    world.hooks().await;
    let log = ada.get(&format!("/subscriptions/{}/deliveries", made["id"].as_str().unwrap())).await.ok();
    assert_eq!((&log[0]["status"], &log[0]["attempts"][0]["status"]), (&json!("delivered"), &json!(202)));
    world.end().await;
}

#[tokio::test]
async fn one_whose_key_had_ended_hears_from_now_on_and_not_its_whole_past_again() {
    let world = World::start().await;
    let admin = world.admin().await;
    admin.post("/principals", json!({ "id": "agent.ada", "kind": "agent" })).await.is(201);
    let made = admin.post("/principals/agent.ada/keys", json!({})).await.is(201);
    let ada = world.client(made["key"].as_str().unwrap());
    let (_, channel) = talk(&ada, json!({})).await;
    let receiver = Receiver::start().await;
    let only = json!({ "event_types": ["channel_message"] });
    let subscribed = subscribe(&ada, &receiver.url(), only).await;
    send(&ada, &channel, note(1)).await;
    world.hooks().await;
    assert_eq!(receiver.take().len(), 1);
    admin.delete(&format!("/keys/{}", made["record"]["id"].as_str().unwrap())).await.ok();
    // Long enough for the delivery log to be purged.
    world.pass(8 * 24 * 3_600).await;
    world.hooks().await;
    let made = admin.post("/principals/agent.ada/keys", json!({})).await.is(201);
    let ada = world.client(made["key"].as_str().unwrap());
    send(&ada, &channel, note(2)).await;
    let path = format!("/subscriptions/{}", subscribed["id"].as_str().unwrap());
    ada.patch(&path, json!({ "active": true })).await.ok();
    let new = send(&ada, &channel, note(3)).await;
    world.hooks().await;
    assert_eq!(receiver.ids(), [new["id"].as_str().unwrap()]);
    world.end().await;
}
