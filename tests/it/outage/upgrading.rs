//! Rolling upgrades and downgrades: a server runs beside a newer one, and after it.

use std::time::Duration;

use sqlx::{ConnectOptions as _, Connection as _, PgConnection};

use entente_harness::process::{Launch, Place, key_of};
use entente_harness::{Cluster, json, talk};

async fn beside(database: &str) -> PgConnection {
    Cluster::get().options(database).connect().await.unwrap()
}

/// Applies the schema changes of a newer release: an additive migration that this one does not know.
async fn newer(connection: &mut PgConnection) {
    sqlx::raw_sql(
        "ALTER TABLE intents ADD COLUMN of_tomorrow text;
         CREATE TABLE of_tomorrow (id bigint PRIMARY KEY);
         INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (20991231000000, 'of tomorrow', true, '\\x00'::bytea, 1)",
    )
    .execute(connection)
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_stops_no_older_server() {
    let (places, cluster) = ([Place::new("older-a"), Place::new("older-b")], Cluster::get());
    let database = cluster.fresh_database().await;
    let url = cluster.url(&database);
    let (first, _) = Launch::shared(&places[0], &url).start().await;
    let ada = first.client(&key_of("agent.ada"));
    let (intent, channel) = talk(&ada, json!({})).await;
    // A newer server migrates the schema while this one serves.
    let mut connection = beside(&database).await;
    newer(&mut connection).await;
    let body = json!({ "sender": "agent.ada", "payload": {} });
    ada.post(&format!("/channels/{channel}/messages"), body.clone()).await.is(201);
    ada.get(&format!("/intents/{intent}")).await.ok();
    // Then the upgrade is reverted: an older server starts.
    let (second, _) = Launch::shared(&places[1], &url).start().await;
    let ada = second.client(&key_of("agent.ada"));
    ada.post(&format!("/channels/{channel}/messages"), body).await.is(201);
    let all = ada.get(&format!("/channels/{channel}/messages")).await.ok();
    assert_eq!(all.as_array().map(Vec::len), Some(2), "{all}");
    connection.close().await.unwrap();
}

async fn refused(place: &Place, url: &str) -> String {
    let mut process = Launch::shared(place, url).spawn();
    let status = tokio::time::timeout(Duration::from_secs(20), process.ended()).await.expect("it started");
    assert!(!status.success());
    place.log()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_was_changed_is_refused_in_clear_words() {
    let (place, cluster) = (Place::new("changed"), Cluster::get());
    let database = cluster.fresh_database().await;
    let mut connection = beside(&database).await;
    sqlx::raw_sql("UPDATE _sqlx_migrations SET checksum = '\\x00'::bytea WHERE version = 20261123000010")
        .execute(&mut connection)
        .await
        .unwrap();
    let log = refused(&place, &cluster.url(&database)).await;
    for part in ["20261123000010", "was changed after it was applied", "never changed"] {
        assert!(log.contains(part), "`{part}` is not said: {log}");
    }
    connection.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_took_something_away_says_who_may_still_run() {
    let (place, cluster) = (Place::new("contracted"), Cluster::get());
    let database = cluster.fresh_database().await;
    let mut connection = beside(&database).await;
    newer(&mut connection).await;
    sqlx::raw_sql("UPDATE schema_floor SET version = 20991231000000").execute(&mut connection).await.unwrap();
    let log = refused(&place, &cluster.url(&database)).await;
    for part in ["20991231000000", "a newer release", "Run that release"] {
        assert!(log.contains(part), "`{part}` is not said: {log}");
    }
    connection.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_servers_that_start_at_once_wait_for_one_that_makes_an_index() {
    let cluster = Cluster::get();
    let database = cluster.fresh_database().await;
    let mut connection = beside(&database).await;
    let dir = std::env::temp_dir().join(format!("entente-migrations-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let text = "-- no-transaction\nCREATE INDEX CONCURRENTLY intents_of_tomorrow ON intents (id);\n";
    std::fs::write(dir.join("20991231000001_index.sql"), text).unwrap();
    let migrations = sqlx::migrate::Migrator::new(dir.clone()).await.unwrap();
    let pools: Vec<_> = (0..4)
        .map(|_| {
            let leaving = tokio_util::sync::CancellationToken::new();
            entente_store::pool(cluster.options(&database), 2, &leaving)
        })
        .collect();
    let started = futures_util::future::join_all(
        pools.iter().map(|pool| entente_store::migrate::bring_up(&migrations, pool)),
    );
    let started =
        tokio::time::timeout(Duration::from_secs(30), started).await.expect("they wait for each other");
    for one in started {
        one.unwrap();
    }
    let valid: bool = sqlx::query_scalar(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = 'intents_of_tomorrow'::regclass",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert!(valid);
    // An interrupted build leaves an invalid index; the next server rebuilds it.
    sqlx::raw_sql(
        "DELETE FROM _sqlx_migrations WHERE version = 20991231000001;
         UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'intents_of_tomorrow'::regclass",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    entente_store::migrate::bring_up(&migrations, &pools[0]).await.unwrap();
    let valid: bool = sqlx::query_scalar(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = 'intents_of_tomorrow'::regclass",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert!(valid, "what nobody may use was left as it was");
    for pool in pools {
        pool.close().await;
    }
    std::fs::remove_dir_all(dir).unwrap();
    connection.close().await.unwrap();
}
