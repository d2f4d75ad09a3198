//! Concurrent sweeps: a blocked sweep delays no other, and a backlog is processed at once instead of
//! one batch per period.

use std::time::{Duration, Instant};

use entente_domain::clock::{plus_seconds, rfc3339};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use tokio::time::{sleep, timeout};

use entente_harness::{Cluster, Setup, Sse, World, json, talk};

/// Upper bound for anything that a sweep does in its next runs.
const SOON: Duration = Duration::from_secs(6);

async fn beside(database: &str) -> PgConnection {
    Cluster::get().options(database).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_stands_still_delays_no_other_on_either_server() {
    let (a, b) = World::two().await;
    let ada = a.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let mut heard = Sse::open(&ada, &format!("/subscribe/intents/{intent}")).await;
    let mut stranger = beside(&a.database).await;
    // Another session holds a lock that one sweep needs.
    let mut held = stranger.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE leases IN ACCESS EXCLUSIVE MODE").execute(&mut *held).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    for _ in 0..3 {
        let soon = rfc3339(plus_seconds(a.ctx().now(), 1));
        let said = json!({ "sender": "agent.ada", "payload": {}, "expires_at": soon });
        let said = ada.post(&format!("/channels/{channel}/messages"), said).await.is(201);
        // The expiry takes effect by itself; the sweep publishes it.
        let told = timeout(SOON, heard.next_named("message_expired")).await;
        assert_eq!(told.expect("nobody is told").data["message_id"], said["id"]);
    }
    held.rollback().await.unwrap();
    stranger.close().await.unwrap();
    b.server.stop().await;
    a.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_worked_off_at_once() {
    let database = Cluster::get().fresh_database().await;
    let mut beside = beside(&database).await;
    sqlx::raw_sql(
        "INSERT INTO idempotency (principal_id, key, fingerprint, outcome, created_at)
         SELECT 'agent.busy', 'k' || n, '\\x00'::bytea, '{}', now() - interval '3 days'
         FROM generate_series(1, 42000) n",
    )
    .execute(&mut beside)
    .await
    .unwrap();
    let world = World::on(Setup::live(), database).await;
    let began = Instant::now();
    loop {
        let left: i64 =
            sqlx::query_scalar("SELECT count(*) FROM idempotency").fetch_one(&mut beside).await.unwrap();
        if left == 0 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{left} of 42000 are still there");
        sleep(Duration::from_millis(100)).await;
    }
    beside.close().await.unwrap();
    world.server.stop().await;
}
