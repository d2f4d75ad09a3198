//! Reading messages (RFC-0021 §2.4): cursors, filters, long polls, eviction.

use std::time::Duration;

use crate::harness::{Client, World, ids, json, send, talk};
use crate::mcp::{Era, Mcp};

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
    let began = std::time::Instant::now();
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
