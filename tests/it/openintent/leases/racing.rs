//! Many who want one scope: never two holders, on one server and on two (contract 17.2).
//!
//! That a scope is held is shown by a counter that all holders share: whoever is granted the lease raises it, and takes it
//! down before it gives the lease back. A second holder would find it raised.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;

use super::{goal, one};
use crate::harness::{Client, Setup, World, json};

/// Clients at once.
const CLIENTS: usize = 64;

/// What the clients of a race share.
#[derive(Default)]
struct Race {
    /// Who holds the scope, by count.
    holders: AtomicI64,
    /// The last holder's fencing token.
    token: AtomicI64,
    /// Rounds begun.
    rounds: AtomicU64,
    /// Rounds in which the scope was granted.
    granted: AtomicU64,
}

impl Race {
    /// One client's part: asks again and again, until all have asked `total` times together.
    async fn run(&self, client: Client, path: String, total: u64, pause: Duration) {
        while self.rounds.fetch_add(1, Ordering::SeqCst) < total {
            let reply = client.post(&path, json!({ "scope": "one", "duration_seconds": 600 })).await;
            if reply.status == 409 {
                assert_eq!(reply.json()["code"], "lease_held");
                // Not all at the same pace, so that the holder gets through to give it back, and hands change often.
                tokio::time::sleep(pause).await;
                continue;
            }
            let lease = reply.is(200);
            let others = self.holders.fetch_add(1, Ordering::SeqCst);
            assert_eq!(others, 0, "two hold the scope at once");
            let token = lease["fencing_token"].as_i64().unwrap();
            let before = self.token.swap(token, Ordering::SeqCst);
            assert!(before < token, "the later holder has the smaller token: {before}, {token}");
            self.granted.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            assert_eq!(self.holders.fetch_sub(1, Ordering::SeqCst), 1, "two held the scope at once");
            client.delete(&one(&lease)).await.is(200);
        }
    }
}

/// Has clients of these worlds race for one scope; how often it was granted.
async fn race(worlds: &[&World], total: u64) -> u64 {
    let ada = worlds[0].agent("agent.ada").await;
    let intent = goal(&ada).await;
    let race = Arc::new(Race::default());
    let racers = (0..CLIENTS).map(|n| {
        // Half of them act as one agent: who holds it already is refused like anybody else.
        let client =
            worlds[n % worlds.len()].any().patient().acting_as(&format!("agent.{}", n.min(CLIENTS / 2)));
        let (race, path) = (Arc::clone(&race), format!("/intents/{intent}/leases"));
        let pause = Duration::from_millis(n as u64 % 8 * 40);
        tokio::spawn(async move { race.run(client, path, total, pause).await })
    });
    for racer in join_all(racers).await {
        racer.unwrap();
    }
    let granted = race.granted.load(Ordering::SeqCst);
    let past = ada.get(&format!("/intents/{intent}/leases?status=released")).await.ok();
    assert_eq!(past["leases"].as_array().unwrap().len() as u64, granted.min(1_000));
    granted
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_want_a_scope_one_holds_it() {
    let world = World::start().await;
    let granted = race(&[&world], 10_000).await;
    assert!(granted > 100, "granted only {granted} times");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_do_two_hold_it_by_two_servers() {
    // With chance and time of their own: two servers whose test gives them the same would make the same ids.
    let live = Setup { live: true, ..Setup::default() };
    let world = World::with(live.clone()).await;
    let other = World::on(live, world.database.clone()).await;
    let granted = race(&[&world, &other], 1_500).await;
    assert!(granted > 20, "granted only {granted} times");
    other.server.stop().await;
    world.end().await;
}
