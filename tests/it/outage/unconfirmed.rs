//! Commits that no standby has confirmed, where one has to (`docs/adr/0018-nothing-unconfirmed.md`). PostgreSQL acknowledges one
//! with a mere warning if the statement that waits is cancelled, so neither a time limit of PostgreSQL nor of the server may cancel
//! it. And it shows it to readers before a primary without standbys steps back, so nobody reads meanwhile.

use std::time::{Duration, Instant};

use entente_store::private::Private;
use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions as _, Executor as _, Row as _};
use tokio::time::{sleep, timeout};

use entente_harness::process::Place;
use entente_harness::{Client, Reply, Setup, Value, World, json, talk};

/// A time limit of statements that is over long before [`UNANSWERED`].
const LIMIT: [(&str, &str); 1] = [("statement_timeout", "1s")];

/// Time for which nothing may be acknowledged.
const UNANSWERED: Duration = Duration::from_secs(3);

/// Upper bound until the server notices.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sets or resets the standby that has to confirm each commit.
async fn ask_for(connection: &mut PgConnection, standby: &'static str) {
    connection.execute(sqlx::AssertSqlSafe(format!("ALTER SYSTEM {standby}"))).await.unwrap();
    connection.execute("SELECT pg_reload_conf()").await.unwrap();
    // Each backend takes it in before its next statement.
    sleep(Duration::from_millis(200)).await;
}

/// Reads until this status is answered.
async fn until_read_is(client: &Client, path: &str, status: u16) {
    let began = Instant::now();
    while client.get(path).await.status != status {
        assert!(began.elapsed() < PATIENCE, "{path} never answered {status}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Sends it until it is acknowledged.
async fn acknowledged(client: &Client, method: &str, path: &str, body: &Value) -> Reply {
    loop {
        let reply = client.send(method, path, Some(body.to_string())).await;
        if reply.status != 503 {
            return reply;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_no_standby_confirmed_is_neither_acknowledged_nor_read() {
    let place = Place::new("unconfirmed");
    let replicating = [("wal_level", "replica"), ("max_wal_senders", "2")];
    let private = Private::start(&place.0, None, &replicating).await.unwrap();
    let world = World::elsewhere(Setup::live(), "unconfirmed", private.options().options(LIMIT)).await;
    let any = world.any();
    let (intent, channel) = talk(&any, json!({})).await;
    let mut connection = private.options().connect().await.unwrap();
    ask_for(&mut connection, "SET synchronous_standby_names = 'nobody'").await;

    let message = json!({ "sender": "agent.ada", "payload": { "n": 1 } });
    let asks = [
        ("POST", format!("/channels/{channel}/messages"), message),
        ("POST", format!("/intents/{intent}/events"), json!({ "event_type": "note" })),
        ("POST", "/intents".to_owned(), json!({ "title": "unconfirmed" })),
        ("POST", format!("/intents/{intent}/channels"), json!({ "name": "unconfirmed" })),
    ];
    let each = asks.iter().enumerate().map(async |(index, (method, path, body))| {
        let once = any.once(&format!("unconfirmed-{index}"));
        let early = timeout(UNANSWERED, once.send(method, path, Some(body.to_string()))).await;
        if let Ok(reply) = early {
            assert_eq!(reply.status, 503, "{} was acknowledged: {}", reply.asked, reply.text);
        }
    });
    futures_util::future::join_all(each).await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let waiting: i64 = connection.fetch_one(waiting).await.unwrap().get(0);
    assert!(waiting >= 3, "{waiting} commits wait for the standby: the test proves nothing");

    let messages = format!("/channels/{channel}/messages?since=cur_0");
    until_read_is(&any, &messages, 503).await;

    ask_for(&mut connection, "RESET synchronous_standby_names").await;
    for (index, (method, path, body)) in asks.iter().enumerate() {
        let once = any.once(&format!("unconfirmed-{index}"));
        acknowledged(&once, method, path, body).await.ok();
    }
    until_read_is(&any, &messages, 200).await;
    let listed = any.get(&messages).await.ok();
    assert_eq!(listed.as_array().unwrap().len(), 1, "once, whoever acknowledged it: {listed}");
    world.server.stop().await;
    private.stop().await.unwrap();
}
