//! Concurrency: one order for all readers, one winner per race, one message per retry. `concurrency/ends.rs` covers
//! races over access and keys, `concurrency/mixed.rs` all of these together, and `concurrency/writers.rs` the
//! writers of the group commit.

mod ends;
mod events;
mod mixed;
mod operations;
mod supervised;
mod writers;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use entente_domain::ids::MessageId;
use futures_util::future::join_all;

use entente_harness::{Client, Setup, Sse, Value, World, json, talk};

async fn live() -> World {
    World::with(Setup::live()).await
}

/// Returns `count` clients with the same key, each with its own connections.
fn clients(world: &World, count: usize) -> Vec<Client> {
    (0..count).map(|n| world.any().acting_as(&format!("agent.{n}"))).collect()
}

fn id(message: &Value) -> &str {
    message["id"].as_str().unwrap()
}

/// Returns a message's number in its channel; its id contains it.
fn number(message: &Value) -> u32 {
    id(message).parse::<MessageId>().unwrap().number()
}

/// Lists all messages of a channel, page by page.
async fn list(client: &Client, channel: &str) -> Vec<Value> {
    let (mut cursor, mut all) = ("cur_0".to_owned(), Vec::new());
    loop {
        let page = client.get(&format!("/channels/{channel}/messages?since={cursor}&limit=500")).await;
        page.header("entente-next-cursor").clone_into(&mut cursor);
        let page = page.ok();
        if page == json!([]) {
            return all;
        }
        all.extend(page.as_array().unwrap().iter().cloned());
    }
}

/// Sends `count` messages one after the other and asserts that their numbers rise.
async fn talker(client: &Client, who: usize, channel: &str, count: u64) -> Vec<Value> {
    let mut sent: Vec<Value> = Vec::new();
    for n in 0..count {
        let body = json!({ "sender": format!("agent.{who}"), "payload": { "who": who, "n": n } });
        sent.push(client.post(&format!("/channels/{channel}/messages"), body).await.is(201));
    }
    assert!(sent.is_sorted_by_key(number), "a client's own messages are out of order");
    sent
}

#[tokio::test(flavor = "multi_thread")]
async fn one_hot_channel_has_one_order_for_everybody() {
    let world = live().await;
    let any = world.any();
    let (intent, channel) = talk(&any, json!({ "options": { "audit": true } })).await;
    let paths = [
        "/subscribe".to_owned(),
        format!("/subscribe/intents/{intent}"),
        format!("/channels/{channel}/subscribe"),
    ];
    let mut streams = join_all(paths.iter().map(|path| Sse::open(&any, path))).await;
    let clients = clients(&world, 32);
    let talkers = clients.iter().enumerate().map(|(who, client)| talker(client, who, &channel, 20));
    let acknowledged: BTreeMap<u32, String> =
        join_all(talkers).await.iter().flatten().map(|m| (number(m), id(m).to_owned())).collect();
    assert!(acknowledged.keys().copied().eq(1..=640), "numbers have gaps or repeat");
    let order: Vec<&String> = acknowledged.values().collect();
    let listed = list(&any, &channel).await;
    assert_eq!(listed.iter().map(id).collect::<Vec<_>>(), order);
    for stream in &mut streams {
        let said = stream.next_few(640).await;
        assert_eq!(said.iter().map(|event| id(&event.data)).collect::<Vec<_>>(), order);
    }
    let shown = any.get(&format!("/channels/{channel}")).await.ok();
    assert_eq!(shown["message_count"], 640);
    assert_eq!(shown["last_message_at"], listed[639]["created_at"]);
    assert!(listed.is_sorted_by_key(|message| message["created_at"].as_str().unwrap().to_owned()));
    // The events in the intent's log have the same order.
    let events =
        any.get(&format!("/intents/{intent}/events?event_type=channel.message&limit=1000")).await.ok();
    let logged: Vec<&str> = events
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|e| e["payload"]["message_id"].as_str().unwrap())
        .collect();
    assert_eq!(logged, order);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_that_is_new_to_the_server_does_not_hide_those_it_knows() {
    let world = World::start().await;
    let any = world.any();
    let (intent, known) = talk(&any, json!({})).await;
    let clients = clients(&world, 9);
    for round in 0..30 {
        // This appends to the intent's log behind the writer's back. Then messages go to both channels at once.
        let made =
            any.post(&format!("/intents/{intent}/channels"), json!({ "name": format!("n{round}") })).await;
        let made = made.is(201);
        join_all(clients.iter().enumerate().map(async |(who, client)| {
            let channel = if who == 4 { id(&made) } else { &known };
            let body = json!({ "sender": format!("agent.{who}"), "payload": {} });
            client.post(&format!("/channels/{channel}/messages"), body).await.is(201)
        }))
        .await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_channels_with_one_name_one_is_opened() {
    let world = World::start().await;
    let any = world.any();
    let intent = any.post("/intents", json!({ "title": "race" })).await.ok();
    let channels = format!("/intents/{}/channels", id(&intent));
    let clients = clients(&world, 64);
    let replies =
        join_all(clients.iter().map(|client| client.post(&channels, json!({ "name": "one" })))).await;
    let (made, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 201);
    assert_eq!(made.len(), 1);
    let made = made[0].json();
    for reply in refused {
        let refused = reply.refused(409, "duplicate_name");
        assert!(refused["message"].as_str().unwrap().contains(id(&made)), "it says which one to use");
    }
    // By name, with no channel opened before: all messages are on one channel.
    let by_name = format!("{channels}/two/messages");
    let sent = join_all(clients.iter().enumerate().map(async |(who, client)| {
        client.post(&by_name, json!({ "sender": format!("agent.{who}"), "payload": {} })).await.is(201)
    }))
    .await;
    let on: HashSet<&str> = sent.iter().map(|message| message["channel_id"].as_str().unwrap()).collect();
    assert_eq!(on.len(), 1);
    assert!(sent.iter().map(number).collect::<BTreeSet<_>>().into_iter().eq(1..=64));
    assert_eq!(any.get(&channels).await.ok().as_array().unwrap().len(), 2);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_equal_retries_one_is_done() {
    let world = World::start().await;
    let any = world.any();
    let (intent, channel) = talk(&any, json!({})).await;
    let clients = clients(&world, 32);
    let messages = format!("/channels/{channel}/messages");
    let asks: [(String, Value); 5] = [
        (messages.clone(), json!({ "sender": "agent.x", "payload": { "n": 1 } })),
        (
            format!("/intents/{intent}/channels/by-name/messages"),
            json!({ "sender": "agent.x", "payload": { "n": 1 } }),
        ),
        (format!("/intents/{intent}/channels"), json!({ "name": "again" })),
        (
            format!("/intents/{intent}/events"),
            json!({ "event_type": "note", "actor": "agent.x", "payload": {} }),
        ),
        ("/intents".to_owned(), json!({ "title": "again", "created_by": "agent.x" })),
    ];
    for (index, (path, body)) in asks.iter().enumerate() {
        let key = format!("retry-{index}");
        let replies = join_all(
            clients.iter().map(async |client| client.once(&key).post(path, body.clone()).await.ok()),
        )
        .await;
        assert!(replies.iter().all(|reply| *reply == replies[0]), "{path}: retries are answered differently");
    }
    assert_eq!(list(&any, &channel).await.len(), 1);
    let events = any.get(&format!("/intents/{intent}/events?event_type=note")).await.ok();
    assert_eq!(events.as_array().unwrap().len(), 1);
    assert_eq!(any.get("/intents").await.ok()["intents"].as_array().unwrap().len(), 2);
    // Concurrent retries of a batch with one idempotency key store each of its messages once.
    let batch: Vec<Value> =
        (0..20).map(|n| json!({ "sender": "agent.x", "payload": { "batch": n } })).collect();
    let batch = json!({ "messages": batch });
    let replies = join_all(clients.iter().map(async |client| {
        client.once("batch").post(&format!("{messages}/batch"), batch.clone()).await.is(201)
    }))
    .await;
    assert!(replies.iter().all(|reply| *reply == replies[0]));
    assert_eq!(list(&any, &channel).await.len(), 21);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_different_requests_under_one_key_one_is_done() {
    let world = World::start().await;
    let (_, channel) = talk(&world.any(), json!({})).await;
    let clients = clients(&world, 32);
    let replies = join_all(clients.iter().enumerate().map(async |(n, client)| {
        let body = json!({ "sender": "agent.x", "payload": { "n": n % 4 } });
        client.once("shared").post(&format!("/channels/{channel}/messages"), body).await
    }))
    .await;
    let (done, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 201);
    assert_eq!(done.len(), 8, "the same request as the first one is a retry of it");
    assert!(done.iter().all(|reply| reply.json() == done[0].json()));
    refused.iter().for_each(|reply| {
        reply.refused(409, "idempotency_mismatch");
    });
    assert_eq!(list(&world.any(), &channel).await.len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_patches_of_one_version_one_wins() {
    let world = World::start().await;
    let any = world.any();
    let intent = any.post("/intents", json!({ "title": "race" })).await.ok();
    let path = format!("/intents/{}", id(&intent));
    let clients = clients(&world, 24);
    let mut expected = json!({});
    for version in 1..=5_u64 {
        let replies = join_all(clients.iter().enumerate().map(async |(who, client)| {
            let client = client.seen(&json!(version));
            if who == 0 {
                return client.post(&format!("{path}/status"), json!({ "status": "active" })).await;
            }
            let patch = json!({ "op": "set", "path": format!("v{version}"), "value": who });
            client.post(&format!("{path}/state"), json!({ "patches": [patch] })).await
        }))
        .await;
        let winners: Vec<usize> = (0..24).filter(|who| replies[*who].status == 200).collect();
        let [winner] = winners[..] else { panic!("version {version} has the winners {winners:?}") };
        for reply in replies.iter().filter(|reply| reply.status != 200) {
            assert_eq!(reply.refused(409, "version_conflict")["current_version"], version + 1);
        }
        assert_eq!(replies[winner].json()["version"], version + 1);
        if winner != 0 {
            expected[format!("v{version}")] = json!(winner);
        }
    }
    let now = any.get(&path).await.ok();
    assert_eq!((&now["state"], &now["version"]), (&expected, &json!(6)), "nothing of a loser is in it");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_at_the_end_of_the_line_misses_and_repeats_nothing() {
    let world = live().await;
    let any = world.any();
    let (_, channel) = talk(&any, json!({})).await;
    let clients = clients(&world, 16);
    let talkers = clients.iter().enumerate().map(|(who, client)| talker(client, who, &channel, 25));
    // Two readers poll and two long-poll; one of each continues after the last message's id instead of the cursor.
    let readers = [(0, false), (0, true), (5, false), (5, true)].map(async |(wait, by_id)| {
        let (reader, mut cursor, mut read) = (world.any(), "cur_0".to_owned(), Vec::new());
        while read.len() < 400 {
            let page = reader.get(&format!("/channels/{channel}/messages?since={cursor}&wait={wait}")).await;
            let messages = page.ok();
            read.extend(messages.as_array().unwrap().iter().map(number));
            match messages.as_array().unwrap().last() {
                Some(last) if by_id => id(last).clone_into(&mut cursor),
                None if by_id => {}
                _ => page.header("entente-next-cursor").clone_into(&mut cursor),
            }
        }
        assert!(read.iter().copied().eq(1..=400), "wait={wait} by_id={by_id}: {read:?}");
    });
    let all = async { tokio::join!(join_all(talkers), join_all(readers)) };
    tokio::time::timeout(std::time::Duration::from_mins(1), all)
        .await
        .expect("a reader never got to the end");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_channel_keeps_its_newest_whoever_sends() {
    let world = live().await;
    let any = world.any();
    let (_, channel) = talk(&any, json!({ "options": { "max_messages": 10 } })).await;
    let clients = clients(&world, 16);
    let talkers = join_all(clients.iter().enumerate().map(|(who, client)| talker(client, who, &channel, 20)));
    let watch = async {
        let mut last = 0;
        while last < 320 {
            let seen = any.get(&format!("/channels/{channel}/messages")).await.ok();
            let seen: Vec<u32> = seen.as_array().unwrap().iter().map(number).collect();
            assert!(seen.len() <= 10, "{seen:?}");
            assert!(seen.is_sorted_by(|a, b| a + 1 == *b), "a hole among the newest: {seen:?}");
            let end = seen.last().copied().unwrap_or(0);
            assert!(end >= last && (end < 10 || seen.len() == 10), "{seen:?} after {last}");
            last = end;
        }
    };
    tokio::join!(talkers, watch);
    // Readers see at most ten messages; the table may hold more until the next 256 have arrived.
    world.sweep().await;
    let rows: i64 =
        sqlx::query_scalar("SELECT count(*) FROM messages").fetch_one(&world.ctx().pool).await.unwrap();
    assert!((10..10 + 256).contains(&rows), "{rows} rows are left");
    assert_eq!(any.get(&format!("/channels/{channel}")).await.ok()["message_count"], 320);
    world.end().await;
}
