//! Cursors that the server keeps: an agent continues where it was, on every server, and an answer that got lost is repeated.

use super::{Era, Mcp};
use entente_harness::envelopes::task_envelope;
use entente_harness::{Client, Setup, Value, World, json, send_number, talk};

/// Reads a channel, and returns the messages' numbers and the answer's cursor.
async fn read(mcp: &Mcp, channel: &str, cursor: &str) -> (Vec<u64>, String) {
    let page = mcp.ok("read_messages", json!({ "channel": channel, "cursor": cursor })).await;
    let numbers = page["messages"].as_array().unwrap().iter();
    let numbers = numbers.map(|message| message["payload"]["n"].as_u64().unwrap()).collect();
    (numbers, page["cursor"].as_str().unwrap().to_owned())
}

async fn channel_of(ada: &Client) -> String {
    talk(ada, json!({ "members": ["agent.ada", "agent.bob"] })).await.1
}

#[tokio::test]
async fn a_reader_continues_where_it_was() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let mcp = Mcp::new(&ada, Era::Stateless);
    let (channel, other) = (channel_of(&ada).await, channel_of(&ada).await);
    send_number(&ada, &channel, 1).await;
    send_number(&ada, &channel, 2).await;
    assert_eq!(read(&mcp, &channel, "c1").await, (vec![1, 2], "c1.1".to_owned()));
    // The first answer got lost.
    assert_eq!(read(&mcp, &channel, "c1.0").await, (vec![1, 2], "c1.1".to_owned()));
    send_number(&ada, &channel, 3).await;
    assert_eq!(read(&mcp, &channel, "c1").await, (vec![3], "c1.2".to_owned()));
    // This one too: what was sent meanwhile comes along.
    send_number(&ada, &channel, 4).await;
    assert_eq!(read(&mcp, &channel, "c1.1").await, (vec![3, 4], "c1.2".to_owned()));
    assert_eq!(read(&mcp, &channel, "c1.2").await, (vec![], "c1.3".to_owned()));
    // Older answers are acknowledged.
    for stale in ["c1.1", "c1.9", "c1.9223372036854775807"] {
        let ask = json!({ "channel": channel, "cursor": stale });
        let text = mcp.refused("read_messages", ask, "invalid_request").await;
        assert!(text.contains("Send `c1` to continue"), "{text}");
    }
    let named = ["", "c 1", "c1.", "c1.-1", "c1.x", "ä", &"c".repeat(33)];
    for name in named {
        mcp.refused("read_messages", json!({ "channel": channel, "cursor": name }), "invalid_request").await;
    }
    // Another channel, another agent and another name have places of their own.
    send_number(&ada, &other, 7).await;
    assert_eq!(read(&mcp, &other, "c1").await, (vec![7], "c1.1".to_owned()));
    let theirs = Mcp::new(&bob, Era::Handshake);
    assert_eq!(read(&theirs, &channel, "c1").await.0, [1, 2, 3, 4]);
    assert_eq!(read(&mcp, &channel, "c2").await.0, [1, 2, 3, 4]);
    // `after` sets a cursor.
    let page = mcp.ok("read_messages", json!({ "channel": channel, "cursor": "c1", "after": "cur_1" })).await;
    assert_eq!((page["messages"].as_array().unwrap().len(), &page["cursor"]), (3, &json!("c1.4")));
    world.end().await;
}

#[tokio::test]
async fn a_cursor_outlives_its_server() {
    let one = World::start().await;
    let ada = one.agent("agent.ada").await;
    let channel = channel_of(&ada).await;
    send_number(&ada, &channel, 1).await;
    assert_eq!(read(&Mcp::new(&ada, Era::Stateless), &channel, "c1").await.0, [1]);
    send_number(&ada, &channel, 2).await;
    let two = World::on(Setup::default(), one.database.clone()).await;
    let there = Mcp::new(&two.client("key-of-agent.ada"), Era::Stateless);
    assert_eq!(read(&there, &channel, "c1").await, (vec![2], "c1.2".to_owned()));
    assert_eq!(read(&Mcp::new(&ada, Era::Stateless), &channel, "c1").await, (vec![], "c1.3".to_owned()));
    two.server.stop().await;
    one.end().await;
}

#[tokio::test]
async fn the_mailbox_has_cursors_too() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let mcp = Mcp::new(&bob, Era::Stateless);
    let send = async |id: &str| {
        ada.post("/aee/envelopes", task_envelope(&world, id, ("agent.ada", "agent.bob"))).await.is(202);
    };
    let ids = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|item| item["envelope"]["id"].as_str().unwrap().to_owned()).collect()
    };
    send("envelope-1").await;
    let first = mcp.ok("read_mailbox", json!({ "cursor": "c1", "ack": true })).await;
    assert_eq!(ids(&first), ["envelope-1"]);
    // The answer got lost, and its envelope is acknowledged: the cursor returns it all the same.
    let again = mcp.ok("read_mailbox", json!({ "cursor": "c1.0" })).await;
    assert_eq!((ids(&again), &again["cursor"]), (vec!["envelope-1".to_owned()], &json!("c1.1")));
    send("envelope-2").await;
    assert_eq!(ids(&mcp.ok("read_mailbox", json!({ "cursor": "c1" })).await), ["envelope-2"]);
    assert_eq!(ids(&mcp.ok("read_mailbox", json!({ "cursor": "c1" })).await), Vec::<String>::new());
    world.end().await;
}

#[tokio::test]
async fn waiting_has_cursors_too() {
    let world = World::with(Setup::live()).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let channel = channel_of(&ada).await;
    let mcp = Mcp::new(&ada, Era::Stateless);
    let wait = async |cursor: &str, seconds: u32| {
        mcp.ok("wait_for_events", json!({ "cursor": cursor, "kinds": ["messages"], "timeout_s": seconds }))
            .await
    };
    let numbers = |answer: &Value| -> Vec<u64> {
        let events = answer["events"].as_array().unwrap().iter();
        events.map(|event| event["message"]["payload"]["n"].as_u64().unwrap()).collect()
    };
    let send = async |n: u64| {
        let say = json!({ "sender": "agent.bob", "to": "agent.ada", "payload": { "n": n } });
        bob.post(&format!("/channels/{channel}/messages"), say).await.is(201);
    };
    assert_eq!(wait("c1", 0).await["cursor"], "c1.1");
    send(1).await;
    // The first answer got lost: the cursor begins where it began.
    let first = wait("c1.0", 10).await;
    assert_eq!((numbers(&first), &first["cursor"]), (vec![1], &json!("c1.1")));
    send(2).await;
    let second = wait("c1", 10).await;
    assert_eq!((numbers(&second), &second["cursor"]), (vec![2], &json!("c1.2")));
    assert_eq!(numbers(&wait("c1.1", 10).await), [2]);
    assert_eq!(numbers(&wait("c1", 0).await), Vec::<u64>::new());
    world.end().await;
}

#[tokio::test]
async fn an_agent_has_a_limited_number_of_cursors() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let mcp = Mcp::new(&ada, Era::Stateless);
    let channel = channel_of(&ada).await;
    for n in 0..100 {
        read(&mcp, &channel, &format!("c{n}")).await;
    }
    let more = json!({ "channel": channel, "cursor": "more" });
    let text = mcp.refused("read_messages", more.clone(), "unprocessable").await;
    assert!(text.contains("100 cursors"), "{text}");
    assert_eq!(read(&mcp, &channel, "c7").await.1, "c7.2", "a known one goes on");
    world.pass(29 * 24 * 3600).await;
    assert_eq!(read(&mcp, &channel, "c7").await.1, "c7.3", "and is kept while it is used");
    world.pass(2 * 24 * 3600).await;
    mcp.ok("read_messages", more).await;
    assert_eq!(read(&mcp, &channel, "c7").await.1, "c7.4");
    assert_eq!(read(&mcp, &channel, "c8").await.1, "c8.1", "it was deleted");
    world.end().await;
}

#[tokio::test]
async fn two_calls_at_once_lose_nothing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let mcp = Mcp::new(&ada, Era::Stateless);
    let channel = channel_of(&ada).await;
    read(&mcp, &channel, "c1").await;
    send_number(&ada, &channel, 1).await;
    let ask = json!({ "channel": channel, "cursor": "c1" });
    let calls = (0..8).map(|_| mcp.call("read_messages", ask.clone()));
    let answers = futures_util::future::join_all(calls).await;
    // One call gets the message; those that lost against it are told to call again.
    let mut heard = 0;
    for answer in answers {
        if answer["isError"] == true {
            assert_eq!(answer["_meta"]["entente/problem"]["code"], "unavailable", "{answer}");
        } else {
            heard += answer["structuredContent"]["messages"].as_array().unwrap().len();
        }
    }
    assert_eq!(heard, 1);
    world.end().await;
}
