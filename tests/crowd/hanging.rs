//! 1,000 events delivered to 100 webhook receivers, one of which hangs.

use std::time::{Duration, Instant};

use entente_harness::{Act, Receiver, Setup, World, json, send, subscribe, talk};

#[tokio::test(flavor = "multi_thread")]
async fn one_that_hangs_keeps_nobody_else_waiting() {
    let (receivers, events) = (100, 1_000);
    let settings = vec![("ENTENTE_WEBHOOK_CONCURRENCY", "32")];
    let world = World::with(Setup { live: true, settings }).await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({ "options": { "max_messages": 10_000 } })).await;
    let mut all = Vec::new();
    for n in 0..receivers {
        let receiver = Receiver::start().await;
        if n == 0 {
            receiver.does([Act::Hang]);
        }
        subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;
        all.push(receiver);
    }
    let mut sent = Vec::new();
    for n in 0..events {
        let said = send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": n } })).await;
        sent.push(said["id"].as_str().unwrap().to_owned());
    }
    for receiver in all.iter().skip(1) {
        let began = Instant::now();
        while receiver.count() < events {
            assert!(began.elapsed() < Duration::from_mins(5), "only {} of {events}", receiver.count());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(receiver.ids(), sent, "each once, in order");
    }
    // The hanging receiver was tried and then left alone, so it has received only a small part of the events.
    assert!(!all[0].got().is_empty() && all[0].got().len() < events.min(30), "{}", all[0].got().len());
    let scans: i64 =
        sqlx::query_scalar("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'webhook_deliveries'")
            .fetch_one(&world.ctx().pool)
            .await
            .unwrap();
    assert!(scans < 500, "all deliveries were read {scans} times: statements are not led by an index");
    world.server.stop().await;
}
