//! A silent network failure between a server and PostgreSQL: the server times out, reports it and recovers on its
//! own; the other servers continue.

use std::time::{Duration, Instant};

use entente_domain::clock::Clock as _;
use entente_runtime::environment::SystemClock;
use sqlx::ConnectOptions as _;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::frozen::{held_in_silence, until_written};
use entente_harness::{Cluster, Proxy, Setup, World, json, talk};

const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_connections_are_stalled_gives_them_up_and_comes_back() {
    // Fewer connections than requests, so that each one lost for good would be noticed.
    let settings = vec![("ENTENTE_DATABASE_CONNECTIONS", "6")];
    let setup = Setup { live: true, settings };
    let other = World::with(setup.clone()).await;
    let proxy = Proxy::start().await;
    let one = World::through(setup, other.database.clone(), &proxy).await;
    let (any, ada) = (one.any(), other.agent("agent.ada").await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let mut watcher = Cluster::get().options(&other.database).connect().await.unwrap();
    let over = CancellationToken::new();
    let load: Vec<_> = (0..12)
        .map(|n| {
            let (client, over) = (any.clone(), over.clone());
            // A cost has a transaction of several statements, a message is a single one.
            let path = format!("/intents/{intent}/costs");
            let (path, body) = if n % 3 == 0 {
                let path = format!("/channels/{channel}/messages");
                (path, json!({ "sender": "agent.ada", "payload": {} }))
            } else {
                (
                    path,
                    json!({ "agent_id": "agent.ada", "cost_type": "tokens", "unit": "tokens", "amount": 1 }),
                )
            };
            tokio::spawn(async move {
                while !over.is_cancelled() {
                    let answer = timeout(PATIENCE, client.post(&path, body.clone())).await;
                    let answer = answer.expect("a request is given up as its connection is");
                    assert!(answer.status < 300 || answer.status == 503, "{answer:?}");
                }
            })
        })
        .collect();
    let began = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(37)).await;
        proxy.cut();
        tokio::time::sleep(Duration::from_millis(250)).await;
        if held_in_silence(&mut watcher, &intent).await {
            break;
        }
        proxy.go_on();
        assert!(
            began.elapsed() < Duration::from_mins(2),
            "it was never cut off in the middle of a transaction"
        );
    }
    let told = super::until_ready_is(&any, 503, Duration::from_secs(20));
    let ((_, told), took) = tokio::join!(told, until_written(&ada, &intent));
    println!("it says so after {told:?}, the other one writes again after {took:?}");
    // From here on new connections work; the existing ones stay stalled.
    proxy.stall();
    let (_, back) = super::until_ready_is(&any, 200, PATIENCE).await;
    let written = until_written(&any, &intent).await;
    println!("back after {back:?}, written after {written:?}");
    over.cancel();
    for one in load {
        one.await.unwrap();
    }
    one.server.stop().await;
    other.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_come_late_do_not_turn_the_clock() {
    let proxy = Proxy::start().await;
    let database = Cluster::get().fresh_database().await;
    let one = World::through(Setup::live(), database, &proxy).await;
    let off = || (one.ctx().now() - SystemClock.now()).num_milliseconds();
    assert!(off().abs() < 100, "{}", off());
    // Only responses are delayed, so each one carries a time that is long past.
    for by in [400, 1_500] {
        proxy.slow(Duration::from_millis(by));
        for _ in 0..40 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(off().abs() < 100, "answers {by} ms late have turned the clock by {} ms", off());
        }
    }
    // Cut off for a while, then everything arrives at once.
    proxy.slow(Duration::ZERO);
    proxy.cut();
    tokio::time::sleep(Duration::from_secs(3)).await;
    proxy.go_on();
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(off().abs() < 100, "an answer after a long silence has turned the clock by {} ms", off());
    }
    one.server.stop().await;
}
