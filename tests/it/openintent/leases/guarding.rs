//! The protection by a lease: patches to the covered part of the state are refused (RFC-0003).

use super::{acquire, goal, one};
use entente_harness::{Client, Reply, World, json};

/// Sets a member of an intent's state at its current version.
async fn set(client: &Client, intent: &str, path: &str) -> Reply {
    let body = json!({ "patches": [{ "op": "set", "path": path, "value": 1 }] });
    patch(client, intent, body).await
}

async fn patch(client: &Client, intent: &str, body: entente_harness::Value) -> Reply {
    let path = format!("/intents/{intent}");
    let version = client.get(&path).await.ok()["version"].clone();
    client.seen(&version).post(&format!("{path}/state"), body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_its_holder_changes_what_a_lease_covers() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    let lease = acquire(&bob, &intent, "hotel/search").await;
    let before = ada.get(&format!("/intents/{intent}")).await.ok();
    // The creator is no exception: a manager can revoke the lease, which everyone sees.
    for path in ["hotel/search", "/hotel/search/", "hotel/search/results", "hotel"] {
        let refused = set(&ada, &intent, path).await.refused(409, "lease_held");
        assert_eq!(refused["existing_lease"], lease, "{path}");
    }
    let merge = json!({ "state": { "flight": 1, "hotel": 2 } });
    patch(&ada, &intent, merge).await.refused(409, "lease_held");
    // One of two patches conflicts, so neither is applied.
    let two = json!({ "patches": [
        { "op": "set", "path": "flight", "value": 1 },
        { "op": "remove", "path": "hotel/search/results" },
    ] });
    patch(&ada, &intent, two).await.refused(409, "lease_held");
    assert_eq!(ada.get(&format!("/intents/{intent}")).await.ok(), before, "nothing was changed");
    assert_eq!(set(&bob, &intent, "hotel/search/results").await.is(200)["version"], 2);
    for path in ["flight", "hotel/stars", "hotels", "search"] {
        set(&ada, &intent, path).await.is(200);
    }
    // A merge names members, not paths: this member is called `hotel/search` and is a different one.
    patch(&ada, &intent, json!({ "state": { "hotel/search": 1 } })).await.is(200);
    bob.delete(&one(&lease)).await.ok();
    set(&ada, &intent, "hotel").await.is(200);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_with_a_name_of_its_own_disturbs_nobody() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    for scope in ["the Q1 report", "write", "https://example.org/a"] {
        acquire(&bob, &intent, scope).await;
    }
    for path in ["progress", "report", "the", "state", "example.org/a"] {
        set(&ada, &intent, path).await.is(200);
    }
    patch(&ada, &intent, json!({ "patches": [] })).await.is(200);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_on_everything_covers_everything() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    acquire(&bob, &intent, "*").await;
    set(&ada, &intent, "any").await.refused(409, "lease_held");
    patch(&ada, &intent, json!({ "state": { "any": 1 } })).await.refused(409, "lease_held");
    set(&bob, &intent, "any").await.is(200);
    // Channels, events and assignments continue, because a lease covers only the state.
    ada.post(&format!("/intents/{intent}/events"), json!({ "event_type": "note" })).await.ok();
    world.clock.advance(300);
    set(&ada, &intent, "any").await.is(200);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_slept_is_stopped_by_its_fencing_token() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    let first = acquire(&ada, &intent, "a").await;
    let fenced = |lease: &entente_harness::Value| json!({ "state": { "a": 1 }, "fencing_token": lease["fencing_token"] });
    patch(&ada, &intent, fenced(&first)).await.is(200);
    patch(&bob, &intent, fenced(&first)).await.refused(409, "lease_ended");
    world.clock.advance(300);
    // The scope is free: without its token the patch would be accepted.
    patch(&ada, &intent, fenced(&first)).await.refused(409, "lease_ended");
    let second = acquire(&bob, &intent, "a").await;
    assert!(second["fencing_token"].as_i64() > first["fencing_token"].as_i64());
    patch(&bob, &intent, fenced(&first)).await.refused(409, "lease_ended");
    patch(&bob, &intent, fenced(&second)).await.is(200);
    bob.delete(&one(&second)).await.ok();
    let third = acquire(&ada, &intent, "a").await;
    patch(&ada, &intent, fenced(&first)).await.refused(409, "lease_ended");
    patch(&ada, &intent, fenced(&third)).await.is(200);
    world.end().await;
}
