//! Inboxes on two servers: every message once, whoever follows and dies, and a waiting reader that is woken at once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::{numbers, open, read, to_bob};
use entente_harness::process::{Launch, Place, key_of};
use entente_harness::{Client, Cluster, Value, World, json, send, talk};

/// Upper bound for a wake-up across servers.
const SOON: Duration = Duration::from_secs(1);

/// Reads all messages of agent.bob's inbox page by page, until there are `count` of them or the time is up; returns their ids
/// in the order of their places, which must be dense.
async fn all(bob: &Client, count: usize) -> Vec<Value> {
    let began = Instant::now();
    let mut found: Vec<Value> = Vec::new();
    while found.len() < count && began.elapsed() < Duration::from_secs(30) {
        let page =
            read(bob, "agent.bob", &format!("?since={}&limit=200&wait=1&expand=true", found.len())).await;
        assert_eq!(page["missed"], 0);
        for entry in page["entries"].as_array().unwrap() {
            assert_eq!(entry["place"], found.len() + 1, "places are dense");
            found.push(entry["message"]["id"].clone());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_sends_on_two_servers_arrive_once_each() {
    let (a, b) = World::two().await;
    let ada = a.agent("agent.ada").await;
    let bob = b.agent("agent.bob").await;
    let channels: Vec<String> = join_all((0..4).map(async |_| {
        talk(&ada, json!({ "members": ["agent.bob"], "options": { "max_messages": 100_000 } })).await.1
    }))
    .await;
    open(&bob, "agent.bob", json!({})).await;
    let other = b.client("key-of-agent.ada");
    let sends = (0..8).map(async |who: usize| {
        let client = if who.is_multiple_of(2) { &ada } else { &other };
        let channel = &channels[who % channels.len()];
        let mut sent = Vec::new();
        for n in 0..40 {
            let kind = ["request", "notify", "broadcast"][n % 3];
            let mut body = to_bob(kind, n as u64);
            if kind == "broadcast" {
                body["to"] = Value::Null;
            }
            sent.push(send(client, channel, body).await["id"].clone());
        }
        sent
    });
    let sent: Vec<Value> = join_all(sends).await.into_iter().flatten().collect();
    let found = all(&bob, sent.len()).await;
    let texts = |ids: &[Value]| ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect::<BTreeSet<_>>();
    assert_eq!((found.len(), texts(&found)), (sent.len(), texts(&sent)));
    // Nothing comes after it.
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(read(&bob, "agent.bob", "").await["newest"], sent.len());
    a.end().await;
    b.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_reader_on_the_other_server_wakes_within_a_second() {
    let (a, b) = World::two().await;
    let ada = a.agent("agent.ada").await;
    let bob = b.agent("agent.bob").await;
    let (_, channel) = talk(&ada, json!({ "members": ["agent.bob"] })).await;
    open(&bob, "agent.bob", json!({})).await;
    let mut waits = Vec::new();
    for n in 1..=5 {
        let waiting = read(&bob, "agent.bob", "?wait=20&attention=wake");
        let sending = async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            // It waits for wake-ups only.
            send(&ada, &channel, to_bob("notify", 0)).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            send(&ada, &channel, to_bob("request", n)).await;
            Instant::now()
        };
        let (page, sent) = tokio::join!(async { (waiting.await, Instant::now()) }, sending);
        assert_eq!(numbers(&page.0), [n]);
        waits.push(page.1.saturating_duration_since(sent));
        super::seen(&bob, "agent.bob", "default", &page.0["next_place"]).await;
    }
    println!("the wake-ups took {waits:?}");
    // A busy machine may delay any one of them.
    waits.sort_unstable();
    assert!(waits[2] < SOON, "{waits:?}");
    a.end().await;
    b.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_is_killed_loses_and_repeats_nothing() {
    let database = Cluster::get().fresh_database().await;
    let url = Cluster::get().url(&database);
    let places = [Place::new("inbox"), Place::new("inbox")];
    let launch = Launch::shared(&places[0], &url);
    let (mut a, _) = launch.start().await;
    let (b, _) = Launch::shared(&places[1], &url).start().await;
    let (ada, bob) = (b.client(&key_of("agent.ada")), b.client(&key_of("agent.bob")));
    let options = json!({ "members": ["agent.bob"], "options": { "max_messages": 100_000 } });
    let (_, channel) = talk(&ada, options).await;
    open(&bob, "agent.bob", json!({})).await;
    let path = format!("/channels/{channel}/messages");
    let (mut sent, mut n) = (Vec::new(), 0);
    for _ in 0..4 {
        // Both servers take messages; one of them dies in the middle, and may be the one that follows.
        let dying = a.client(&key_of("agent.ada"));
        let on_dying = async {
            let mut taken = Vec::new();
            while let Some(reply) =
                dying.try_send("POST", &path, Some(to_bob("request", 0).to_string())).await
            {
                taken.push(reply.is(201)["id"].clone());
            }
            taken
        };
        let on_other = async {
            let mut taken = Vec::new();
            for _ in 0..60 {
                n += 1;
                taken.push(send(&ada, &channel, to_bob("notify", n)).await["id"].clone());
            }
            taken
        };
        let killing = async {
            tokio::time::sleep(Duration::from_millis(250)).await;
            a.kill();
        };
        let (first, second, ()) = tokio::join!(on_dying, on_other, killing);
        sent.extend(first.into_iter().chain(second));
        (a, _) = launch.start().await;
    }
    // A message may be committed without an answer, so there may be more than were acknowledged, and each is there once.
    let count: i64 = {
        let pool = sqlx::PgPool::connect_with(Cluster::get().options(&database)).await.unwrap();
        sqlx::query_scalar("SELECT count(*) FROM messages").fetch_one(&pool).await.unwrap()
    };
    let found = all(&bob, usize::try_from(count).unwrap()).await;
    assert_eq!(i64::try_from(found.len()).unwrap(), count);
    let once: BTreeSet<String> = found.iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    assert_eq!(once.len(), found.len());
    assert!(
        sent.iter().all(|id| once.contains(id.as_str().unwrap())),
        "an acknowledged message is in no inbox"
    );
    a.terminate();
    b.terminate();
}
