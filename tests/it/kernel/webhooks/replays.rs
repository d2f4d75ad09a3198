//! Webhook replays: they progress under load, wait only for free capacity and delay nothing else.

use std::time::{Duration, Instant};

use entente::background::handing;
use entente_domain::clock::{Timestamp, rfc3339};
use entente_domain::ids::EndpointId;
use entente_kernel::webhooks::replays;

use entente_harness::{Client, Receiver, Value, World, json, send, subscribe, talk};

fn note(n: usize) -> Value {
    json!({ "sender": "agent.ada", "payload": { "n": n } })
}

async fn replay(client: &Client, made: &Value, since: Timestamp) {
    let path = format!("/subscriptions/{}/replay", made["id"].as_str().unwrap());
    client.post(&path, json!({ "since": rfc3339(since) })).await.is(202);
}

#[tokio::test]
async fn a_replay_goes_on_although_there_is_always_something_new() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, quiet) = talk(&ada, json!({})).await;
    let (_, busy) = talk(&ada, json!({})).await;
    let begin = world.ctx().now();
    let told = send(&ada, &quiet, note(1)).await;
    let receiver = Receiver::start().await;
    let only = json!({ "channel_id": quiet, "event_types": ["channel_message"] });
    let made = subscribe(&ada, &receiver.url(), only).await;
    replay(&ada, &made, begin).await;
    for n in 0..600 {
        send(&ada, &busy, note(n)).await;
    }
    assert!(handing::round(world.ctx()).await.unwrap(), "there is more");
    let begun: bool =
        sqlx::query_scalar("SELECT NOT EXISTS (SELECT 1 FROM webhook_replays WHERE global IS NULL)")
            .fetch_one(&world.ctx().pool)
            .await
            .unwrap();
    assert!(begun, "the replay waits for what is new to end");
    world.hooks().await;
    assert_eq!(receiver.ids(), [told["id"].as_str().unwrap()]);
    world.end().await;
}

#[tokio::test]
async fn a_replay_waits_for_room_and_lets_others_go_on() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let begin = world.ctx().now();
    let mut sent = Vec::new();
    for n in 0..3 {
        sent.push(send(&ada, &channel, note(n)).await["id"].as_str().unwrap().to_owned());
    }
    let only = json!({ "event_types": ["channel_message"] });
    let (full, free) = (Receiver::start().await, Receiver::start().await);
    let slow = subscribe(&ada, &full.url(), only.clone()).await;
    let quick = subscribe(&ada, &free.url(), only).await;
    let id: EndpointId = slow["id"].as_str().unwrap().parse().unwrap();
    let waiting = "INSERT INTO webhook_deliveries (endpoint_id, webhook_id, next_attempt_at, created_at)
                   SELECT $1, 'old' || n, 'infinity', now() FROM generate_series(0, 2000) n";
    sqlx::query(waiting).bind(id.uuid()).execute(&world.ctx().pool).await.unwrap();
    replay(&ada, &slow, begin).await;
    replay(&ada, &quick, begin).await;
    let began = Instant::now();
    while free.count() < 3 && began.elapsed() < Duration::from_secs(20) {
        replays::step(world.ctx()).await.unwrap();
        world.deliver().await;
    }
    assert_eq!((free.ids(), full.count()), (sent.clone(), 0));
    sqlx::query("DELETE FROM webhook_deliveries WHERE webhook_id LIKE 'old%'")
        .execute(&world.ctx().pool)
        .await
        .unwrap();
    world.hooks().await;
    assert_eq!(full.ids(), sent);
    world.end().await;
}

#[tokio::test]
async fn a_replay_locks_in_the_order_of_a_shift() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let begin = world.ctx().now();
    let receiver = Receiver::start().await;
    let made = subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;
    send(&ada, &channel, note(1)).await;
    world.hooks().await;
    replay(&ada, &made, begin).await;
    // The lock that a delivery worker takes when it records an attempt.
    let mut shift = world.hold().await;
    sqlx::query("SELECT 1 FROM webhook_shifts FOR UPDATE").execute(&mut *shift).await.unwrap();
    let ctx = world.ctx().clone();
    let step = tokio::spawn(async move { replays::step(&ctx).await });
    let blocked = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%webhook_shifts%')";
    let began = Instant::now();
    while !sqlx::query_scalar::<_, bool>(blocked).fetch_one(&world.ctx().pool).await.unwrap() {
        assert!(began.elapsed() < Duration::from_secs(20), "the replay never waited for the shift");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    sqlx::query("SET LOCAL lock_timeout = '2s'").execute(&mut *shift).await.unwrap();
    sqlx::query("UPDATE webhook_deliveries SET attempts = attempts")
        .execute(&mut *shift)
        .await
        .expect("it waits for the shift and keeps the shift waiting");
    shift.commit().await.unwrap();
    step.await.unwrap().unwrap();
    world.hooks().await;
    assert_eq!(receiver.count(), 2);
    world.end().await;
}
