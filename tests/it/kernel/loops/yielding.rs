//! The follower of loops shares its thread with the writers of messages: it lets them run between two talks.

use std::future::{Future as _, poll_fn};

use entente_harness::loops::follow;
use entente_harness::{World, json, send, talk};

use super::line;

/// Intents with a talk each.
const INTENTS: usize = 150;

#[tokio::test(flavor = "multi_thread")]
async fn a_step_lets_others_run_between_two_talks() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    follow(&world).await;
    let mut channels = Vec::new();
    for _ in 0..INTENTS {
        channels.push(talk(&ada, json!({})).await.1);
    }
    for _ in 0..2 {
        for channel in &channels {
            send(&ada, channel, line("agent.ada", "agent.b", "How far are you?")).await;
        }
        follow(&world).await;
    }
    for channel in &channels {
        send(&ada, channel, line("agent.ada", "agent.b", "And now?")).await;
    }
    let mut following = Box::pin(follow(&world));
    let mut polls = 0;
    poll_fn(|context| {
        polls += 1;
        following.as_mut().poll(context)
    })
    .await;
    drop(following);
    // Each talk is read and written; what waits for PostgreSQL is polled some dozens of times.
    assert!(polls >= 2 * INTENTS, "{polls}");
    world.end().await;
}
