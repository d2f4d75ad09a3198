//! Interest: a server is woken for what somebody follows there, and for nothing else.

use std::time::{Duration, Instant};

use entente_domain::ids::{IntentId, NodeId};
use entente_kernel::wakeups::WakeKey;
use entente_kernel::wakeups::interest::{Interest, Shards, shard};

use entente_harness::{Sse, TestBus, World, json, send_number, talk};

/// Counts the notifications of servers for `talk`, on all channels, while `work` runs.
async fn heard(world: &World, work: impl Future<Output = ()>) -> usize {
    let mut listener = world.ctx().pool.listener().await.unwrap();
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

fn mailbox(n: u32) -> WakeKey {
    WakeKey::Mailbox(format!("agent.{n}"))
}

#[test]
fn keys_spread_over_the_shards_and_the_system_has_its_own() {
    let all = (0..10_000).fold(Shards::NONE, |all, n| all.and(Shards::of(&mailbox(n))));
    assert_eq!(all, Shards::ALL.without(Shards::LEAST));
    assert_eq!(Shards::of(&WakeKey::Intent(IntentId::SYSTEM)), Shards::LEAST);
    // Servers of different releases must agree.
    assert_eq!(shard(&mailbox(7)), shard(&mailbox(7)));
    let some = Shards::of(&mailbox(1)).and(Shards::LEAST);
    assert_eq!(Shards::from_stored(some.stored()), some);
    assert_eq!(Shards::announced(&some.to_string()), Some(some));
    assert_eq!(Shards::ALL.numbers().count(), 64);
}

#[test]
fn interest_is_given_up_after_two_counts_without_it() {
    let (interest, one) = (Interest::default(), Shards::of(&mailbox(1)));
    assert_eq!(interest.wanted(), Shards::LEAST);
    interest.add(one);
    assert!(interest.wanted().meets(one));
    // It arrives while the count runs.
    interest.recount(|| {
        interest.add(one);
        Shards::NONE
    });
    assert!(interest.wanted().meets(one));
    interest.recount(|| Shards::NONE);
    assert!(interest.wanted().meets(one), "the last count found it");
    interest.recount(|| Shards::NONE);
    assert_eq!(interest.wanted(), Shards::LEAST);
}

#[test]
fn others_are_asked_for_nothing_until_they_announce_it() {
    let (interest, node, key) = (Interest::default(), NodeId::from(uuid::Uuid::from_u128(1)), mailbox(1));
    assert!(!interest.is_wanted(&key));
    interest.heard(node, Shards::of(&key));
    assert!(interest.is_wanted(&key));
    // A row that was read before the announcement does not take it back.
    interest.set_peers([(node, Shards::LEAST)]);
    assert!(interest.is_wanted(&key));
    interest.set_peers([]);
    assert!(!interest.is_wanted(&key), "the server is gone");
}
