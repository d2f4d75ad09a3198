//! Affinity: messages for an intent are written by the server that owns it, whoever got them, and by the other while the
//! owner does not answer: none is lost, none is written twice, and the order is dense.

use std::time::{Duration, Instant};

use entente_domain::ids::MessageId;
use futures_util::future::join_all;

use entente_harness::process::{KEY, Launch, Place, Process};
use entente_harness::{Client, Cluster, Setup, Sse, Value, World, json, send_number, talk};

/// Clients at each server.
const CLIENTS: u64 = 6;

fn setup() -> Setup {
    Setup { settings: vec![("ENTENTE_PEER_LISTEN", "127.0.0.1:0")], ..Setup::live() }
}

fn forwarded(world: &World, outcome: &str) -> u64 {
    let wanted = format!("entente_forwards_total{{outcome=\"{outcome}\"}} ");
    let text = world.ctx().metrics.text();
    text.lines().find_map(|line| line.strip_prefix(&wanted)).map_or(0, |count| count.parse().unwrap())
}

/// Reads all messages of a channel.
async fn listed(client: &Client, channel: &str) -> Vec<Value> {
    let (mut listed, mut since) = (Vec::new(), "cur_0".to_owned());
    loop {
        let page = client.get(&format!("/channels/{channel}/messages?since={since}")).await;
        page.header("entente-next-cursor").clone_into(&mut since);
        let messages = page.ok().as_array().unwrap().clone();
        if messages.is_empty() {
            return listed;
        }
        listed.extend(messages);
    }
}

/// Checks that the numbers are dense, that every acknowledged message is there, and that none is there twice.
fn check(listed: &[Value], acknowledged: &[Value]) {
    let number = |message: &Value| message["id"].as_str().unwrap().parse::<MessageId>().unwrap().number();
    assert!(listed.iter().map(number).eq(1..=u32::try_from(listed.len()).unwrap()), "numbers have gaps");
    let mut said: Vec<(u64, u64)> = listed
        .iter()
        .map(|message| {
            (message["payload"]["who"].as_u64().unwrap(), message["payload"]["n"].as_u64().unwrap())
        })
        .collect();
    let all = said.len();
    for who in 0..2 * CLIENTS {
        let own: Vec<u64> = said.iter().filter(|(of, _)| *of == who).map(|(_, n)| *n).collect();
        assert!(own.is_sorted(), "the messages of client {who} changed places: {own:?}");
    }
    said.sort_unstable();
    said.dedup();
    assert_eq!(said.len(), all, "a message was written twice");
    let ids: Vec<&Value> = listed.iter().map(|message| &message["id"]).collect();
    assert!(acknowledged.iter().all(|id| ids.contains(&id)), "an acknowledged message is lost");
}

/// Sends at both servers for a while; returns the ids of acknowledged messages. A client of a server that is gone ends.
async fn load(servers: [&Client; 2], channel: &str, time: Duration) -> Vec<Value> {
    let until = Instant::now() + time;
    let clients = (0..2 * CLIENTS).map(async |who| {
        let client = servers[usize::try_from(who % 2).unwrap()].clone();
        let mut acknowledged = Vec::new();
        for n in 0.. {
            if Instant::now() > until {
                break;
            }
            let body = json!({ "sender": "agent.ada", "payload": { "who": who, "n": n } }).to_string();
            match client.try_send("POST", &format!("/channels/{channel}/messages"), Some(body)).await {
                Some(reply) if reply.status == 201 => acknowledged.push(reply.is(201)["id"].clone()),
                // Of this one the outcome is unknown.
                Some(_) | None => break,
            }
        }
        acknowledged
    });
    join_all(clients).await.into_iter().flatten().collect()
}

/// Asserts of each channel what [`check`] does, and that it proves something.
async fn check_all(client: &Client, channels: &[String], acknowledged: &[Vec<Value>]) {
    for (channel, acknowledged) in channels.iter().zip(acknowledged) {
        assert!(!acknowledged.is_empty());
        check(&listed(client, channel).await, acknowledged);
    }
}

/// Opens channels on four intents, so that each server owns some of them.
async fn four_channels(client: &Client) -> Vec<String> {
    let room = json!({ "options": { "max_messages": 100_000 } });
    join_all((0..4).map(async |_| talk(client, room.clone()).await.1)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_go_to_the_server_that_owns_their_intent() {
    let a = World::with(setup()).await;
    let b = World::on(setup(), a.database.clone()).await;
    let ada = a.agent("agent.ada").await;
    // They know each other.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let talks = join_all((0..12).map(async |_| talk(&ada, json!({})).await)).await;
    for (_, channel) in &talks {
        // The first two of each server show that the other writes to the same intent.
        for n in 0..10 {
            for client in [&a.any(), &b.any()] {
                send_number(client, channel, n).await;
            }
        }
    }
    let written = [forwarded(&a, "written"), forwarded(&b, "written")];
    println!("handed over and written: {written:?} of 120 each");
    assert!(written.iter().all(|count| *count >= 7), "{written:?}");
    assert!(written.iter().sum::<u64>() >= 50, "each intent has one owner: {written:?}");
    for (_, channel) in &talks {
        assert_eq!(listed(&b.any(), channel).await.len(), 20);
    }
    // With an idempotency key, both servers say the same, and it is written once.
    let (intent, channel) = &talks[0];
    let once = json!({ "sender": "agent.ada", "payload": { "who": 0, "n": 0 } });
    let path = format!("/channels/{channel}/messages");
    let first = a.any().once("k").post(&path, once.clone()).await.is(201);
    assert_eq!(b.any().once("k").post(&path, once).await.is(201), first);
    // A refusal is the same on either server.
    let bad =
        json!({ "sender": "agent.ada", "type": "response", "payload": {}, "correlation_id": first["id"] });
    for client in [a.any(), b.any()] {
        assert!((400..500).contains(&client.post(&path, bad.clone()).await.status));
    }
    let mut stream = Sse::open(&b.any(), &format!("/subscribe/intents/{intent}")).await;
    send_number(&a.any(), channel, 99).await;
    assert_eq!(stream.next_named("channel_message").await.data["payload"]["n"], 99);
    drop(stream);
    b.server.stop().await;
    a.end().await;
}

async fn two(places: &[Place; 2]) -> [Process; 2] {
    let database = Cluster::get().fresh_database().await;
    let url = Cluster::get().url(&database);
    let start =
        async |place| Launch::shared(place, &url).with("ENTENTE_PEER_LISTEN", "127.0.0.1:0").start().await.0;
    [start(&places[0]).await, start(&places[1]).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hot_channel_of_two_servers_keeps_its_order() {
    let places = [Place::new("node"), Place::new("node")];
    let [a, b] = two(&places).await;
    let (a_client, b_client) = (a.client(KEY), b.client(KEY));
    let (_, channel) = talk(&a_client, json!({ "options": { "max_messages": 100_000 } })).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let acknowledged = load([&a_client, &b_client], &channel, Duration::from_secs(3)).await;
    println!("two servers wrote {} messages to one channel in 3 s", acknowledged.len());
    let listed = listed(&b_client, &channel).await;
    assert_eq!(listed.len(), acknowledged.len());
    check(&listed, &acknowledged);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_suspended_under_load_loses_and_doubles_nothing() {
    let places = [Place::new("node"), Place::new("node")];
    let [a, b] = two(&places).await;
    let (a_client, b_client) = (a.client(KEY), b.client(KEY));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let channels = four_channels(&b_client).await;
    let loads = join_all(
        channels
            .iter()
            .map(async |channel| load([&a_client, &b_client], channel, Duration::from_secs(5)).await),
    );
    let suspending = async {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(700)).await;
            a.freeze();
            tokio::time::sleep(Duration::from_millis(600)).await;
            a.thaw();
        }
    };
    // The other server goes on meanwhile, without waiting for the suspended one.
    let going_on = async {
        let (_, own) = talk(&b_client, json!({ "options": { "max_messages": 100_000 } })).await;
        let (mut longest, began) = (Duration::ZERO, Instant::now());
        let mut n = 0;
        while began.elapsed() < Duration::from_secs(4) {
            let sent = Instant::now();
            send_number(&b_client, &own, n).await;
            (longest, n) = (longest.max(sent.elapsed()), n + 1);
        }
        longest
    };
    let (acknowledged, (), longest) = tokio::join!(loads, suspending, going_on);
    println!(
        "{} messages; the longest send of the other server took {longest:?}",
        acknowledged.iter().map(Vec::len).sum::<usize>()
    );
    check_all(&b_client, &channels, &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_under_load_loses_and_doubles_nothing() {
    let places = [Place::new("node"), Place::new("node")];
    let [mut a, b] = two(&places).await;
    let (a_client, b_client) = (a.client(KEY), b.client(KEY));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let channels = four_channels(&b_client).await;
    let loads = join_all(
        channels
            .iter()
            .map(async |channel| load([&a_client, &b_client], channel, Duration::from_secs(4)).await),
    );
    let killing = async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        a.kill();
    };
    let (acknowledged, ()) = tokio::join!(loads, killing);
    check_all(&b_client, &channels, &acknowledged).await;
}
