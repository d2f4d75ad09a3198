//! Messages in strict mode (OI-2.10, OI-2.11): a payload is required, and metadata is always an object, by every route
//! that sends or shows a message.

use entente_harness::mcp::{Era, Mcp};
use entente_harness::{Client, Receiver, Setup, Sse, Value, World, json, send, subscribe, talk};

fn strict(live: bool) -> Setup {
    Setup { settings: vec![("ENTENTE_STRICT_RFC0021", "true")], live }
}

/// Returns each route that sends a message with a body for it, without a payload.
fn sends(intent: &str, channel: &str, request: &str) -> [(String, Value); 4] {
    let messages = format!("/channels/{channel}/messages");
    let said = json!({ "sender": "agent.ada" });
    [
        (messages.clone(), said.clone()),
        (format!("/intents/{intent}/channels/talk/messages"), said.clone()),
        (format!("{messages}/{request}/reply"), said),
        (format!("/channels/{channel}/ask"), json!({ "to": "agent.bob", "timeout": 1 })),
    ]
}

/// Sends a request of agent.bob to agent.ada and returns its id.
async fn asked(bob: &Client, channel: &str) -> String {
    let ask =
        json!({ "sender": "agent.bob", "to": "agent.ada", "message_type": "request", "payload": { "q": 1 } });
    send(bob, channel, ask).await["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_is_required_in_strict_mode_and_empty_otherwise() {
    for setup in [Setup::default(), strict(false)] {
        let is_strict = !setup.settings.is_empty();
        let world = World::with(setup).await;
        let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
        let (intent, channel) = talk(&ada, json!({})).await;
        let request = asked(&bob, &channel).await;
        for (path, body) in sends(&intent, &channel, &request) {
            let mut null = body.clone();
            null["payload"] = Value::Null;
            for body in [body, null] {
                let reply = ada.post(&path, body).await;
                if is_strict {
                    let refused = reply.refused(422, "invalid_request");
                    assert_eq!(refused["errors"][0]["loc"], json!(["body", "payload"]), "{path}");
                    assert_eq!(refused["errors"][0]["type"], "missing", "{path}");
                } else {
                    assert!([200, 201].contains(&reply.status), "{path}: {}", reply.text);
                    let sent = reply.json();
                    let sent = if path.ends_with("/ask") { &sent["request"] } else { &sent };
                    assert_eq!((&sent["payload"], &sent["metadata"]), (&json!({}), &Value::Null), "{path}");
                }
            }
        }
        // Each message of a batch is judged on its own.
        let batch =
            json!({ "messages": [{ "sender": "agent.ada" }, { "sender": "agent.ada", "payload": {} }] });
        let sent = ada.post(&format!("/channels/{channel}/messages/batch"), batch).await;
        let sent = sent.is(if is_strict { 207 } else { 201 });
        assert_eq!(sent["sent"], if is_strict { 1 } else { 2 });
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_an_object_in_strict_mode() {
    let world = World::with(strict(true)).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    let mut stream = Sse::open(&ada, &format!("/subscribe/intents/{intent}")).await;
    let request = asked(&bob, &channel).await;
    let one = format!("{messages}/{request}");
    let mut shown = vec![
        stream.next_named("channel_message").await.data,
        ada.get(&one).await.is(200),
        ada.get(&messages).await.is(200)[0].clone(),
        ada.patch(&one, json!({ "status": "read" })).await.is(200),
    ];
    let mut sends = sends(&intent, &channel, &request);
    for (path, body) in &mut sends {
        body["payload"] = json!({ "n": 1 });
        // Null is the same as none.
        body["metadata"] = Value::Null;
        let reply = ada.post(path, body.clone()).await;
        assert!([200, 201].contains(&reply.status), "{path}: {}", reply.text);
        let sent = reply.json();
        shown.push(if path.ends_with("/ask") { sent["request"].clone() } else { sent });
    }
    let batch = json!({ "messages": [{ "sender": "agent.ada", "payload": {} }] });
    let batch = ada.post(&format!("{messages}/batch"), batch).await.is(201);
    shown.push(batch["results"][0]["message"].clone());
    let read = Mcp::new(&ada, Era::Handshake).ok("read_messages", json!({ "channel": channel })).await;
    shown.push(read["messages"][0].clone());
    for message in shown {
        assert_eq!(message["metadata"], json!({}), "{message}");
    }
    // Given metadata is shown as given.
    let hinted = json!({ "sender": "agent.ada", "payload": {}, "metadata": { "priority": "high" } });
    assert_eq!(send(&ada, &channel, hinted).await["metadata"], json!({ "priority": "high" }));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_has_the_metadata_of_its_mode() {
    for (setup, expected) in [(Setup::default(), Value::Null), (strict(false), json!({}))] {
        let world = World::with(setup).await;
        let ada = world.agent("agent.ada").await;
        let (_, channel) = talk(&ada, json!({})).await;
        let receiver = Receiver::start().await;
        subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel.message"] })).await;
        send(&ada, &channel, json!({ "sender": "agent.ada", "payload": {} })).await;
        world.hooks().await;
        let got = receiver.take();
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].body()["data"]["metadata"], expected);
        world.end().await;
    }
}
