//! A server that freezes in the middle of a transaction: it loses its locks, and the others continue.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnection;
use tokio_util::sync::CancellationToken;

use super::locked::{lock_of, run, undisturbed};
use entente_harness::process::{KEY, Launch, Place, key_of};
use entente_harness::{Client, Cluster, Value, World, json, talk};

/// Upper bound until an intent held by a frozen server is free again: several times PostgreSQL's own limit.
const FREE_AGAIN: Duration = Duration::from_secs(30);

/// Writes to an intent until that succeeds; returns the time that this took.
pub async fn until_written(client: &Client, intent: &str) -> Duration {
    let began = Instant::now();
    loop {
        let reply = client.post(&format!("/intents/{intent}/events"), json!({ "event_type": "note" })).await;
        if reply.status != 503 {
            reply.ok();
            return began.elapsed();
        }
        reply.refused(503, "unavailable");
        assert!(began.elapsed() < FREE_AGAIN, "the intent is still not free: {}", reply.text);
    }
}

/// Whether an idle transaction holds an intent's lock.
pub async fn held_in_silence(watcher: &mut PgConnection, intent: &str) -> bool {
    let (high, low) = (lock_of(intent) >> 32, lock_of(intent) & 0xFFFF_FFFF);
    sqlx::query_scalar(
        "SELECT EXISTS (
             SELECT 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid)
             WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
               AND l.classid::bigint = $1 & 4294967295 AND l.objid::bigint = $2
               AND a.state LIKE 'idle in transaction%' AND a.state_change < clock_timestamp() - interval '150 milliseconds')",
    )
    .bind(high)
    .bind(low)
    .fetch_one(watcher)
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_of_a_silent_server_is_ended_and_its_intent_goes_on() {
    let (one, other) = World::two().await;
    let (ada, elsewhere) = (one.agent("agent.ada").await, other.agent("agent.ada").await);
    let (intent, _) = talk(&ada, json!({})).await;
    let (_, free) = talk(&ada, json!({})).await;
    // A connection like a server's that takes the lock and then stays idle.
    let options = Cluster::get().options(&one.database);
    let silent = entente_store::pool(options, 1, &CancellationToken::new());
    let mut silent = silent.acquire().await.unwrap();
    run(&mut silent, &format!("BEGIN; SELECT pg_advisory_xact_lock({})", lock_of(&intent))).await;
    let over = tokio::sync::Notify::new();
    let writing = async {
        let both = tokio::join!(until_written(&ada, &intent), until_written(&elsewhere, &intent));
        over.notify_one();
        both
    };
    let ((sent, slowest), both) = tokio::join!(undisturbed(&ada, &free, over.notified()), writing);
    println!("written again after {both:?}; {sent} messages to another intent, the slowest took {slowest:?}");
    assert!(sent > 10 && slowest < Duration::from_secs(1), "{sent} sent, the slowest took {slowest:?}");
    assert!(sqlx::query("SELECT 1").execute(&mut *silent).await.is_err(), "its connection is gone");
    for client in [&ada, &elsewhere] {
        client.get("//readyz").await.is(200);
    }
    other.server.stop().await;
    one.end().await;
}

/// The `n`th of many operations on one intent, of which one is always in the middle of its transaction: a cost has one of
/// several statements, a message is a single one.
fn operation(n: usize, intent: &str, channel: &str) -> (String, Value) {
    if n.is_multiple_of(3) {
        (format!("/channels/{channel}/messages"), json!({ "sender": "agent.ada", "payload": {} }))
    } else {
        let spent = json!({ "cost_type": "tokens", "unit": "tokens", "amount": 1, "agent_id": "agent.ada",
                            "metadata": { "text": "x".repeat(10_000) } });
        (format!("/intents/{intent}/costs"), spent)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_stopped_where_it_stands_holds_nobody_up() {
    let database = Cluster::get().fresh_database().await;
    let url = Cluster::get().url(&database);
    let (place, place_of_other) = (Place::new("frozen"), Place::new("frozen"));
    let (mut one, _) = Launch::shared(&place, &url).start().await;
    let (mut other, _) = Launch::shared(&place_of_other, &url).start().await;
    let (any, ada) = (one.client(KEY), other.client(&key_of("agent.ada")));
    let (intent, channel) = talk(&ada, json!({})).await;
    let (_, free) = talk(&ada, json!({})).await;
    let mut watcher = Cluster::get().options(&database).connect().await.unwrap();
    let over = CancellationToken::new();
    let load: Vec<_> = (0..12)
        .map(|n| {
            let (client, over) = (any.clone(), over.clone());
            let (path, body) = operation(n, &intent, &channel);
            tokio::spawn(over.run_until_cancelled_owned(async move {
                loop {
                    drop(client.try_send("POST", &path, Some(body.to_string())).await);
                }
            }))
        })
        .collect();
    let (path, cost) = operation(1, &intent, &channel);
    any.post(&path, cost).await.is(200);
    let began = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(37)).await;
        one.freeze();
        tokio::time::sleep(Duration::from_millis(250)).await;
        if held_in_silence(&mut watcher, &intent).await {
            break;
        }
        one.thaw();
        assert!(
            began.elapsed() < Duration::from_mins(2),
            "it was never stopped in the middle of a transaction"
        );
    }
    let over_there = tokio::sync::Notify::new();
    let writing = async {
        let took = until_written(&ada, &intent).await;
        over_there.notify_one();
        took
    };
    let ((sent, slowest), took) = tokio::join!(undisturbed(&ada, &free, over_there.notified()), writing);
    println!("written again after {took:?}; {sent} messages to another intent, the slowest took {slowest:?}");
    assert!(sent > 10 && slowest < Duration::from_secs(1), "{sent} sent, the slowest took {slowest:?}");
    other.client(KEY).get("//readyz").await.is(200);
    // All at once: none of the other server's connections is still waiting.
    join_all((0..30).map(async |_| ada.get(&format!("/intents/{intent}")).await.ok())).await;
    one.thaw();
    super::until_ready_is(&any, 200, FREE_AGAIN).await;
    until_written(&any, &intent).await;
    over.cancel();
    for one in load {
        drop(one.await);
    }
    for server in [&mut one, &mut other] {
        server.terminate();
        assert!(server.ended().await.success());
    }
}
