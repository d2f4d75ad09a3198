//! Races for one scope: never two holders, on one server and on two (OI-17.2.3).
//!
//! The holders share a counter: the agent that gets the lease increments it, and decrements it before it releases
//! the lease. A second holder would find it incremented.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;

use super::{goal, one};
use entente_harness::{Client, World, json};

/// Number of concurrent clients.
const CLIENTS: usize = 64;

/// State shared by the clients of a race.
#[derive(Default)]
struct Race {
    /// Number of current holders.
    holders: AtomicI64,
    /// The last holder's fencing token.
    token: AtomicI64,
    /// Number of attempts.
    rounds: AtomicU64,
    /// Number of successful attempts.
    granted: AtomicU64,
}

impl Race {
    /// Runs one client: tries repeatedly until all clients together have made `total` attempts.
    async fn run(&self, client: Client, path: String, total: u64, pause: Duration) {
        while self.rounds.fetch_add(1, Ordering::SeqCst) < total {
            let reply = client.post(&path, json!({ "scope": "one", "duration_seconds": 600 })).await;
            if reply.status == 409 {
                assert_eq!(reply.json()["code"], "lease_held");
                // At different paces, so that the holder's release gets through and holders change often.
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

/// Runs a race between clients of these servers for one scope; returns how often it was granted.
async fn race(worlds: &[&World], total: u64) -> u64 {
    let ada = worlds[0].agent("agent.ada").await;
    let intent = goal(&ada).await;
    let race = Arc::new(Race::default());
    let racers = (0..CLIENTS).map(|n| {
        // Half of them act as one agent: the holder itself is refused as well.
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
    // On the system clock and with real random bits, because two servers with the same would create equal ids.
    let (world, other) = World::two().await;
    let granted = race(&[&world, &other], 1_500).await;
    assert!(granted > 20, "granted only {granted} times");
    other.server.stop().await;
    world.end().await;
}
