//! Reading messages (RFC-0021 §2.4): cursors, filters, long polls, eviction.

use std::time::{Duration, Instant};

use entente_harness::mcp::{Era, Mcp};
use entente_harness::{Client, Sse, Value, World, ids, json, send, talk};

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_by_recipient_includes_broadcasts() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let mut sent = Vec::new();
    for to in [json!(null), json!("*"), json!("agent.bob"), json!("agent.cy")] {
        let message = send(&ada, &channel, json!({ "sender": "agent.ada", "to": to, "payload": {} })).await;
        sent.push(message["id"].as_str().unwrap().to_owned());
    }
    let list = async |to: &str| ids(&ada.get(&format!("/channels/{channel}/messages?to={to}")).await.ok());
    assert_eq!(list("agent.bob").await, sent[..3]);
    assert_eq!(list("agent.cy").await, [sent[0].clone(), sent[1].clone(), sent[3].clone()]);
    assert_eq!(list("*").await, sent[..2]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_continue_whatever_they_are_made_of() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    assert_eq!(ada.get(&messages).await.header("entente-next-cursor"), "cur_0");
    let mut sent = Vec::new();
    for n in 0..10 {
        world.clock.advance(1);
        let message = send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": n } })).await;
        sent.push(message["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids(&ada.get(&messages).await.ok()), sent);
    assert_eq!(
        ids(&ada.get(&format!("{messages}?limit=3")).await.ok()),
        sent[7..],
        "the newest, oldest first"
    );
    assert_eq!(ids(&ada.get(&format!("{messages}?since={}&limit=3", sent[3])).await.ok()), sent[4..7]);
    assert_eq!(ids(&ada.get(&format!("{messages}?since={}", sent[9])).await.ok()), [""; 0]);
    for time in [
        "2026-11-21T08:00:04Z",
        "2026-11-21T08:00:04.000000",
        "2026-11-21T09:00:04%2B01:00",
        "2026-11-21T09:00:04+01:00",
    ] {
        assert_eq!(ids(&ada.get(&format!("{messages}?since={time}")).await.ok()), sent[4..], "{time}");
    }
    assert_eq!(
        ids(&ada.get(&format!("{messages}?since=2026-01-01T00:00:00Z&limit=2")).await.ok()),
        sent[..2]
    );
    assert_eq!(ids(&ada.get(&format!("{messages}?since=2027-01-01T00:00:00Z")).await.ok()), [""; 0]);
    // Page by page, with the previous page's cursor.
    let (mut cursor, mut seen) = ("cur_0".to_owned(), Vec::new());
    loop {
        let page = ada.get(&format!("{messages}?since={cursor}&limit=4")).await;
        cursor = page.header("entente-next-cursor").to_owned();
        let page = ids(&page.ok());
        if page.is_empty() {
            break;
        }
        seen.extend(page);
    }
    assert_eq!(seen, sent);
    ada.get(&format!("{messages}?since=banana")).await.refused(422, "invalid_parameter");
    ada.get(&format!("{messages}?limit=0")).await.refused(422, "invalid_parameter");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_passes_over_what_is_not_for_its_reader() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let eve = world.agent("agent.eve").await;
    let (_, channel) = talk(&ada, json!({})).await;
    for _ in 0..5 {
        send(&ada, &channel, json!({ "sender": "agent.ada", "to": "agent.bob", "payload": {} })).await;
    }
    let page = eve.get(&format!("/channels/{channel}/messages?since=cur_0")).await;
    assert_eq!(page.ok(), json!([]));
    assert_eq!(page.header("entente-next-cursor"), "cur_5");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_are_evicted_and_cursors_survive_it() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({ "options": { "max_messages": 3 } })).await;
    let messages = format!("/channels/{channel}/messages");
    let mut sent = Vec::new();
    for n in 0..8 {
        let message = send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": n } })).await;
        sent.push(message["id"].as_str().unwrap().to_owned());
    }
    for _ in 0..2 {
        // The same before and after the sweep.
        assert_eq!(ids(&ada.get(&messages).await.ok()), sent[5..]);
        assert_eq!(
            ids(&ada.get(&format!("{messages}?since={}", sent[0])).await.ok()),
            sent[5..],
            "an evicted cursor"
        );
        assert_eq!(ids(&ada.get(&format!("{messages}?since={}", sent[6])).await.ok()), sent[7..]);
        ada.get(&format!("{messages}/{}", sent[4])).await.refused(404, "not_found");
        assert_eq!(ada.get(&format!("/channels/{channel}")).await.ok()["message_count"], 8);
        world.sweep().await;
    }
    let rows: i64 =
        sqlx::query_scalar("SELECT count(*) FROM messages").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(rows, 3, "they are gone from the table too");
    ada.patch(&format!("/channels/{channel}"), json!({ "options": { "max_messages": 1 } })).await.ok();
    assert_eq!(ids(&ada.get(&messages).await.ok()), sent[7..]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_answers_as_soon_as_there_is_something() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let (polled, other) = (channel.clone(), channel.clone());
    let waiter = bob.clone();
    let poll =
        tokio::spawn(
            async move { waiter.get(&format!("/channels/{polled}/messages?since=cur_0&wait=30")).await },
        );
    tokio::time::sleep(Duration::from_millis(150)).await;
    send(&ada, &other, json!({ "sender": "agent.ada", "to": "agent.cy", "payload": {} })).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!poll.is_finished(), "that was not for the one who waits");
    let message = send(&ada, &other, json!({ "sender": "agent.ada", "payload": {} })).await;
    let page = tokio::time::timeout(Duration::from_secs(5), poll).await.unwrap().unwrap();
    assert_eq!(ids(&page.ok()), [message["id"].as_str().unwrap()]);
    let began = Instant::now();
    let empty = bob.get(&format!("/channels/{channel}/messages?since=cur_9&wait=1")).await.ok();
    assert_eq!(empty, json!([]));
    assert!(began.elapsed() >= Duration::from_millis(900));
    bob.get(&format!("/channels/{channel}/messages?wait=121")).await.refused(422, "invalid_parameter");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_is_told_how_much_it_missed() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({ "options": { "max_messages": 4 } })).await;
    let messages = format!("/channels/{channel}/messages");
    let read = async |client: &Client, since: &str| {
        let reply = client.get(&format!("{messages}?since={since}")).await;
        let header =
            |name: &str| reply.headers.get(name).map(|value| value.to_str().unwrap().parse::<u64>().unwrap());
        let told = ["entente-missed", "entente-oldest", "entente-newest"].map(header);
        (ids(&reply.ok()).len(), told)
    };
    let mut sent = Vec::new();
    for n in 0..3 {
        let message = send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": n } })).await;
        sent.push(message["id"].as_str().unwrap().to_owned());
    }
    // Nothing is missing yet.
    assert_eq!(read(&bob, &sent[0]).await, (2, [None; 3]));
    assert_eq!(read(&bob, &sent[2]).await, (0, [None; 3]));
    // One that expires, and one for somebody else, which is no loss of Bob's.
    let soon = json!({ "sender": "agent.ada", "payload": {}, "to": "agent.bob", "message_type": "request",
                       "expires_at": "2026-11-21T08:01:00Z" });
    send(&ada, &channel, soon).await;
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": {}, "to": "agent.cid" })).await;
    assert_eq!(read(&bob, &sent[2]).await, (1, [None; 3]));
    world.clock.advance(61);
    for _ in 0..2 {
        assert_eq!(read(&bob, &sent[2]).await, (0, [Some(1), Some(2), Some(5)]));
        // Whoever sent it sees it, expired as it is.
        assert_eq!(read(&ada, &sent[2]).await, (2, [None; 3]));
        world.sweep().await;
    }
    // Those that were evicted count for everybody, whomever they were to.
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": {} })).await;
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": {} })).await;
    assert_eq!(read(&bob, &sent[0]).await, (2, [Some(3), Some(4), Some(7)]));
    assert_eq!(read(&bob, "cur_0").await.1, [Some(4), Some(4), Some(7)]);
    // Without a position there is nothing to have missed, and beyond it neither.
    assert_eq!(ada.get(&messages).await.headers.get("entente-missed"), None);
    assert_eq!(read(&bob, "cur_7").await, (0, [None; 3]));
    let mcp = Mcp::new(&bob, Era::Stateless);
    let said = mcp.call("read_messages", json!({ "channel": channel, "after": sent[0] })).await;
    let text = said["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("3 before them were evicted or have expired."), "{text}");
    world.end().await;
}

/// Headers of a stream that say what its reader has missed: how many, whether at most, the oldest and the newest number.
fn missed(stream: &Sse) -> [Option<&str>; 4] {
    ["entente-missed", "entente-truncated", "entente-oldest", "entente-newest"]
        .map(|name| stream.headers.get(name).map(|value| value.to_str().unwrap()))
}

/// What comments of a stream have said about messages that were missed.
fn comments(stream: &Sse) -> Vec<Value> {
    let said = stream.other.iter().filter_map(|line| line.strip_prefix(": missed "));
    said.map(|said| serde_json::from_str(said).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_resumes_says_how_much_it_missed() {
    let (world, other) = World::two().await;
    let (ada, bob) = (world.agent("agent.ada").await, other.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({ "options": { "max_messages": 4 } })).await;
    let say =
        async |n: u32| send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": n } })).await;
    let path = format!("/subscribe/channels/{channel}");
    let mut stream = Sse::open(&bob, &path).await;
    assert_eq!(missed(&stream), [None; 4], "who begins now misses nothing");
    let first = say(1).await;
    let seen = stream.next().await;
    drop(stream);
    // Nothing is lost yet.
    for n in 2..=5 {
        say(n).await;
    }
    let stream = Sse::resume(&bob, &path, Some(&seen.id)).await;
    assert_eq!(missed(&stream), [None; 4]);
    drop(stream);
    for n in 6..=9 {
        say(n).await;
    }
    // Whether the row of the last message that was seen is still there or not, on both servers and both paths.
    for round in 0..2 {
        for (client, path) in [(&bob, path.clone()), (&ada, format!("/channels/{channel}/subscribe"))] {
            let mut stream = Sse::resume(client, &path, Some(&seen.id)).await;
            let at_most = stream.headers.contains_key("entente-truncated");
            assert_eq!(missed(&stream), [Some("4"), at_most.then_some("true"), Some("6"), Some("9")]);
            assert!(round == 0 || at_most, "nothing is left from before");
            let numbers: Vec<Value> = stream
                .next_few(4)
                .await
                .into_iter()
                .map(|event| event.data["payload"]["n"].clone())
                .collect();
            assert_eq!(numbers, [6, 7, 8, 9].map(|n| json!(n)));
            assert_eq!(comments(&stream), Vec::<Value>::new(), "what was told is not told again");
        }
        // After a message, it is known how many.
        let since = format!("{path}?since={}", first["id"].as_str().unwrap());
        let mut stream = Sse::open(&bob, &since).await;
        assert_eq!(missed(&stream), [Some("4"), None, Some("6"), Some("9")]);
        assert_eq!(stream.next().await.data["payload"]["n"], 6);
        // A change of the limit has the sweep look at the channel.
        let change = json!({ "options": { "max_messages": 4 } });
        ada.patch(&format!("/channels/{channel}"), change).await.ok();
        let began = Instant::now();
        while count(&world, &channel).await > 4 {
            assert!(began.elapsed() < Duration::from_mins(1), "nothing is evicted");
            world.sweep().await;
        }
    }
    let stream = Sse::open(&bob, &format!("{path}?since=cur_7")).await;
    assert_eq!(missed(&stream), [None; 4]);
    Sse::refused(&bob, &format!("{path}?since=2026-11-21T08:00:00Z")).await.refused(422, "invalid_parameter");
    other.end().await;
    world.end().await;
}

async fn count(world: &World, channel: &str) -> i64 {
    let channel: uuid::Uuid = channel.parse::<entente_domain::ids::ChannelId>().unwrap().uuid();
    let count = sqlx::query_scalar("SELECT count(*) FROM messages WHERE channel_id = $1").bind(channel);
    count.fetch_one(&world.ctx().pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_stream_says_what_was_evicted_before_it_was_sent() {
    let (world, other) = World::two().await;
    let (ada, bob) = (world.agent("agent.ada").await, other.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({ "options": { "max_messages": 4 } })).await;
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": 0 } })).await;
    let paths = [
        format!("/subscribe/channels/{channel}"),
        format!("/channels/{channel}/subscribe"),
        format!("/intents/{intent}/subscribe"),
        "/subscribe".to_owned(),
    ];
    let mut streams = Vec::new();
    for path in &paths {
        streams.push(Sse::open(&bob, path).await);
    }
    let one = json!({ "sender": "agent.ada", "payload": { "n": 1 } });
    send(&ada, &channel, one).await;
    for stream in &mut streams {
        assert_eq!(stream.next_named("channel_message").await.data["payload"]["n"], 1);
    }
    // One commit on the other server, which a batch need not be: the channel has only its last four when this one reads them.
    let many: Vec<Value> = (2..22).map(|n| json!({ "channel_id": channel, "payload": { "n": n } })).collect();
    ada.post("/turn", json!({ "messages": many })).await.ok();
    for (stream, path) in streams.iter_mut().zip(&paths) {
        let next = stream.next_named("channel_message").await;
        assert_eq!(next.data["payload"]["n"], 18, "{path}");
        let said =
            json!({ "channel_id": channel, "missed": 16, "truncated": false, "oldest": 19, "newest": 22 });
        assert_eq!(comments(stream), [said], "{path}");
        for n in 19..22 {
            assert_eq!(stream.next_named("channel_message").await.data["payload"]["n"], n);
        }
    }
    // What comes now is complete.
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": 22 } })).await;
    for stream in &mut streams {
        assert_eq!(stream.next_named("channel_message").await.data["payload"]["n"], 22);
        assert_eq!(comments(stream).len(), 1);
    }
    other.end().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_is_told_of_messages_to_it_that_expired() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({})).await;
    let path = format!("/subscribe/channels/{channel}");
    let mcp = Mcp::new(&bob, Era::Stateless);
    let begun = mcp.ok("wait_for_events", json!({ "timeout_s": 0 })).await["next"].clone();
    let from = Sse::open(&bob, &path).await.last_id.unwrap();
    for to in ["agent.bob", "agent.cid"] {
        let soon = json!({ "sender": "agent.ada", "payload": {}, "to": to, "message_type": "request",
                           "expires_at": "2026-11-21T08:01:00Z" });
        send(&ada, &channel, soon).await;
    }
    world.clock.advance(61);
    let told = Sse::resume(&bob, &path, Some(&from)).await;
    assert_eq!(missed(&told), [Some("1"), None, Some("1"), Some("2")]);
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": 3 } })).await;
    let mut told = Sse::resume(&bob, &path, Some(&from)).await;
    assert_eq!(told.next_named("channel_message").await.data["payload"]["n"], 3);
    assert_eq!(comments(&told), Vec::<Value>::new());
    // On a stream of all channels no header can say it.
    let mut all = Sse::resume(&bob, "/subscribe", Some("0.0")).await;
    assert_eq!(missed(&all), [None; 4]);
    assert_eq!(all.next_named("channel_message").await.data["payload"]["n"], 3);
    assert_eq!(
        comments(&all),
        [json!({ "channel_id": channel, "missed": 1, "truncated": false, "oldest": 1, "newest": 3 })]
    );
    let said = mcp.call("wait_for_events", json!({ "after": begun, "timeout_s": 5 })).await;
    let text = said["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("1 message(s) were evicted or have expired before."), "{text}");
    world.end().await;
}
