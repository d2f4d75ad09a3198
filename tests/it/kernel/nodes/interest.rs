//! Interest: a server is woken for what somebody follows there, and for nothing else.

use std::time::{Duration, Instant};

use sqlx::postgres::PgListener;

use crate::harness::{Sse, TestBus, World, json, send_number, talk};

/// Counts the notifications of servers for `talk`, on all channels, while `work` runs.
async fn heard(world: &World, work: impl Future<Output = ()>) -> usize {
    let mut listener = PgListener::connect_with(&world.ctx().pool).await.unwrap();
    let channels: Vec<String> = (0..64).map(entente_kernel::nodes::channel).collect();
    listener.listen_all(channels.iter().map(String::as_str)).await.unwrap();
    work.await;
    let mut count = 0;
    while let Ok(notification) = tokio::time::timeout(Duration::from_millis(300), listener.recv()).await {
        // What the sweeps of the system's log say is no one's message.
        count += usize::from(notification.unwrap().channel() != entente_kernel::nodes::channel(63));
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_woken_for_what_nobody_there_follows() {
    let (a, b) = World::two_on(&TestBus::Postgres).await;
    let ada = a.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let send = async |from: u64| {
        for n in from..from + 20 {
            send_number(&ada, &channel, n).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    // Both servers know of each other.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(heard(&a, send(0)).await, 0, "the other server is idle");
    // Somebody follows on the sending server only.
    let mut own = Sse::open(&ada, &format!("/subscribe/intents/{intent}")).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(heard(&a, send(20)).await, 0, "nobody follows at the other server");
    own.next_few(20).await;
    // Somebody follows on the other.
    let mut there = Sse::open(&b.any(), &format!("/subscribe/intents/{intent}")).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let count = heard(&a, send(40)).await;
    assert!(count > 0, "the other server is not woken");
    assert_eq!(there.next_few(20).await.len(), 20);
    // And no longer does, after a while.
    drop((own, there));
    let began = Instant::now();
    let mut from = 60;
    while heard(&a, send(from)).await > 0 {
        assert!(began.elapsed() < Duration::from_secs(40), "the other server is woken for ever");
        from += 20;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    println!("interest ended after {:?}", began.elapsed());
    b.server.stop().await;
    a.end().await;
}
