//! Engines that silently ignore something that the server relies on (`docs/engine.md`): the server does not start on one,
//! and `entente doctor` says what is missing.

use entente_store::engine::{Reliance, examine};
use entente_store::pooling::Route;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};

use entente_harness::Cluster;
use entente_harness::process::{Launch, Place};

/// Makes a database whose engine seems to ignore something: `instead` defines it in a schema that is searched first.
async fn deaf(instead: &str) -> String {
    let database = Cluster::get().fresh_database().await;
    let mut connection = Cluster::get().options(&database).connect().await.unwrap();
    connection.execute(AssertSqlSafe(format!("CREATE SCHEMA instead; {instead}"))).await.unwrap();
    let first = format!("ALTER DATABASE {database} SET search_path = instead, pg_catalog, public");
    connection.execute(AssertSqlSafe(first)).await.unwrap();
    connection.close().await.unwrap();
    database
}

async fn missing(database: &str, notifies: bool) -> Vec<Reliance> {
    let route = Route::from(Cluster::get().options(database).clone());
    examine(&route, notifies).await.unwrap().missing
}

const NO_ADVISORY_LOCKS: &str = "CREATE FUNCTION instead.pg_try_advisory_xact_lock(bigint) RETURNS boolean
    LANGUAGE sql AS 'SELECT true'";

const NO_NOTIFICATIONS: &str =
    "CREATE FUNCTION instead.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT'";

/// A view over no table locks nothing.
const NO_ROW_LOCKS: &str =
    "CREATE VIEW instead.schema_floor AS SELECT v.version FROM (VALUES (0::bigint)) v (version)";

#[tokio::test]
async fn postgresql_does_what_the_server_relies_on() {
    let database = Cluster::get().fresh_database().await;
    assert_eq!(missing(&database, true).await, []);
    // Several examinations at once do not disturb each other.
    let all = futures_util::future::join_all((0..4).map(|_| missing(&database, true))).await;
    assert!(all.iter().all(Vec::is_empty), "{all:?}");
}

#[tokio::test]
async fn what_an_engine_ignores_is_found() {
    let database = deaf(NO_ADVISORY_LOCKS).await;
    assert_eq!(missing(&database, true).await, [Reliance::AdvisoryLocks]);
    let database = deaf(NO_NOTIFICATIONS).await;
    assert_eq!(missing(&database, true).await, [Reliance::Notifications]);
    assert_eq!(missing(&database, false).await, [], "with NATS it needs none");
    let database = deaf(NO_ROW_LOCKS).await;
    assert_eq!(missing(&database, true).await, [Reliance::RowLocks, Reliance::SkipLocked]);
}

#[tokio::test]
async fn a_server_does_not_start_on_an_engine_that_ignores_locks() {
    let place = Place::new("engine");
    let url = Cluster::get().url(&deaf(NO_ADVISORY_LOCKS).await);
    let mut process = Launch::shared(&place, &url).spawn();
    assert!(!process.ended().await.success());
    let log = place.log();
    assert!(log.contains("pg_try_advisory_xact_lock") && log.contains("docs/engine.md"), "{log}");
}
