//! Concurrent dependencies on two servers: of those that would close a cycle, one is always refused.

use futures_util::future::join_all;

use super::intent;
use entente_harness::{Client, World, json};

async fn wait_for(client: &Client, from: &str, to: &str) -> u16 {
    let path = format!("/intents/{from}/dependencies");
    let reply = client.seen(&json!(1)).post(&path, json!({ "dependency_id": to })).await;
    if reply.status != 200 {
        reply.refused(400, "dependency_circle");
    }
    reply.status
}

#[tokio::test(flavor = "multi_thread")]
async fn opposite_dependencies_never_both_hold_on_whichever_server() {
    let (world, other) = World::two().await;
    let (here, there) = (world.any().acting_as("agent.ada"), other.any().acting_as("agent.bob"));
    // Cycles of two, three and four intents, each attempted by all of its intents at once on both servers.
    for round in 0..30 {
        let size = 2 + round % 3;
        let ring = join_all((0..size).map(|_| intent(&here, "one", json!({})))).await;
        let adds = (0..size).map(|n| {
            let client = if n % 2 == 0 { &here } else { &there };
            wait_for(client, &ring[n], &ring[(n + 1) % size])
        });
        let answers = join_all(adds).await;
        let refused = answers.iter().filter(|status| **status == 400).count();
        assert_eq!(refused, 1, "a ring of {size}: {answers:?}");
    }
    other.server.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_add_to_one_intent_each_is_the_next_version() {
    let world = World::start().await;
    let any = world.any().acting_as("agent.ada");
    let waiting = intent(&any, "waiting", json!({})).await;
    let others = join_all((0..16).map(|_| intent(&any, "other", json!({})))).await;
    let path = format!("/intents/{waiting}/dependencies");
    let add = async |other: &String| {
        let mut version = json!(1);
        loop {
            let reply = any.seen(&version).post(&path, json!({ "dependency_id": other })).await;
            if reply.status == 200 {
                return reply.json()["version"].as_i64().unwrap();
            }
            version = reply.refused(409, "version_conflict")["current_version"].clone();
        }
    };
    let mut versions = join_all(others.iter().map(add)).await;
    versions.sort_unstable();
    assert!(versions.into_iter().eq(2..=17));
    let shown = any.get(&format!("/intents/{waiting}")).await.ok();
    assert_eq!(shown["depends_on"].as_array().unwrap().len(), 16);
    let listed = any.get(&format!("{path}?limit=16")).await.ok();
    assert_eq!(listed["dependencies"].as_array().unwrap().len(), 16);
    world.end().await;
}
