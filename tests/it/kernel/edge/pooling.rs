//! Servers behind PgBouncer: in session mode, in transaction mode with a way around it, and the refusals without one.

use std::time::{Duration, Instant};

use entente::config::Config;
use entente::startup::{Parts, Server};
use sqlx::postgres::PgConnectOptions;

use entente_harness::jobs::{Hand, id, status};
use entente_harness::{Cluster, PgBouncer, Receiver, Setup, Sse, World, json, send_number, subscribe, talk};

/// Messages that each test sends.
const MESSAGES: u64 = 20;

/// Sends messages on one server to a stream and a long poll on the other, and to a webhook; and does a job.
async fn everything_goes(a: World, b: World) {
    let (ada, receiver) = (a.agent("agent.ada").await, Receiver::start().await);
    let (_, channel) = talk(&ada, json!({})).await;
    subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;
    let mut stream = Sse::open(&b.any(), &format!("/channels/{channel}/subscribe")).await;
    let (poller, path) = (b.any(), format!("/channels/{channel}/messages?since=cur_0&wait=30"));
    let polled = tokio::spawn(async move { poller.get(&path).await });
    let mut soon = 0;
    for n in 1..=MESSAGES {
        let began = Instant::now();
        send_number(&ada, &channel, n).await;
        assert_eq!(stream.next().await.data["payload"]["n"], n);
        soon += u64::from(began.elapsed() < Duration::from_millis(300));
    }
    // A server that is not notified polls every 400 ms.
    assert!(soon > MESSAGES / 2, "only {soon} of {MESSAGES} came at once");
    assert_eq!(polled.await.unwrap().ok()[0]["payload"]["n"], 1);
    receiver.until(usize::try_from(MESSAGES).unwrap()).await;
    let hand = Hand::of(&b.any(), "echo@1.0.0").await;
    let accepted = ada.post("/jobs", json!({ "agent": "echo", "input": { "x": 1 } })).await.is(201);
    let claimed = hand.one().await;
    hand.tell(&claimed, "result", json!({ "result": 42 })).await.ok();
    assert_eq!(status(&ada, id(&accepted)).await, "success");
    // Many at once, so that transactions meet on the connections.
    let reads = (0..200).map(|n| {
        let (ada, channel) = (&ada, &channel);
        async move {
            let path =
                if n % 2 == 0 { "/intents".to_owned() } else { format!("/channels/{channel}/messages") };
            ada.get(&path).await.ok();
        }
    });
    futures_util::future::join_all(reads).await;
    drop(stream);
    b.server.stop().await;
    a.end().await;
}

/// Returns the limits of the connections that a server's background tasks use.
async fn limits(world: &World) -> (String, String, String) {
    let text = "SELECT current_setting('lock_timeout'), current_setting('statement_timeout'), current_setting('jit')";
    sqlx::query_as(text).fetch_one(&world.ctx().pool).await.unwrap()
}

fn expected() -> (String, String, String) {
    ("3s".to_owned(), "1min".to_owned(), "off".to_owned())
}

/// Returns the reason that a server does not start.
async fn refusal(database: PgConnectOptions, direct: Option<PgConnectOptions>) -> String {
    let config = Config::read(&|name| (name == "ENTENTE_BIND").then(|| "127.0.0.1:0".to_owned())).unwrap();
    let parts = Parts { direct, ..Parts::real(config, database) };
    Box::pin(Server::start(parts)).await.err().expect("the server starts").to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn in_session_mode_a_server_runs_as_it_is() {
    let (pooler, database) =
        (PgBouncer::start("session", false).await, Cluster::get().fresh_database().await);
    let a = World::pooled(Setup::live(), database.clone(), &pooler, None).await;
    let b = World::pooled(Setup::live(), database.clone(), &pooler, None).await;
    assert!(pooler.clients(&database).await > 0);
    // What startup options set without a pooler.
    assert_eq!(limits(&a).await, expected());
    everything_goes(a, b).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_transaction_mode_a_server_needs_a_way_around() {
    let (pooler, cluster) = (PgBouncer::start("transaction", true).await, Cluster::get());
    let database = cluster.fresh_database().await;
    let said = refusal(pooler.options(&database), None).await;
    for part in
        ["transaction mode", "ENTENTE_DIRECT_DATABASE_URL", "LISTEN", "pool_mode = session", "127.0.0.1"]
    {
        assert!(said.contains(part), "no {part}: {said}");
    }
    let said = refusal(pooler.options(&database), Some(pooler.options(&database))).await;
    assert!(said.contains("leads to a pooler, too"), "{said}");
    let other = cluster.fresh_database().await;
    let said = refusal(pooler.options(&database), Some(cluster.options(&other))).await;
    assert!(said.contains("another database") && said.contains(&other), "{said}");
    // Options in the URL are the pooler's matter, and it refuses them.
    let told = pooler.options(&database).options([("lock_timeout", "7s")]);
    let said = refusal(told, None).await;
    assert!(said.contains("Remove `options` from the URL"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_statement_mode_no_server_starts() {
    let (pooler, cluster) = (PgBouncer::start("statement", true).await, Cluster::get());
    let database = cluster.fresh_database().await;
    let said = refusal(pooler.options(&database), None).await;
    assert!(said.contains("statement mode") && said.contains("ENTENTE_DIRECT_DATABASE_URL"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_way_around_it_all_goes_in_transaction_mode() {
    let (pooler, cluster) = (PgBouncer::start("transaction", true).await, Cluster::get());
    let database = cluster.fresh_database().await;
    let direct = cluster.options(&database);
    let a = World::pooled(Setup::live(), database.clone(), &pooler, Some(direct.clone())).await;
    let b = World::pooled(Setup::live(), database.clone(), &pooler, Some(direct)).await;
    // Requests go through it if it carries prepared statements; otherwise nothing does.
    assert_eq!(pooler.clients(&database).await > 0, pooler.carries_statements);
    assert_eq!(limits(&a).await, expected(), "the writers' connections are their own");
    everything_goes(a, b).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_goes_through_connections_without_limits() {
    let (pooler, cluster) = (PgBouncer::start("transaction", false).await, Cluster::get());
    let database = cluster.fresh_database().await;
    let direct = cluster.options(&database);
    let a = World::pooled(Setup::live(), database.clone(), &pooler, Some(direct.clone())).await;
    let b = World::pooled(Setup::live(), database.clone(), &pooler, Some(direct)).await;
    assert_eq!(pooler.clients(&database).await, 0);
    everything_goes(a, b).await;
}
