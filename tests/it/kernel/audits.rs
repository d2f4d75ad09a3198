//! Audited channels (RFC-0021 §6): messages in the hash chain.

use entente_harness::people::logged_in;
use entente_harness::{Setup, Sse, World, json, send, talk};

#[tokio::test(flavor = "multi_thread")]
async fn audited_messages_are_in_the_log() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({ "options": { "audit": true } })).await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let body = json!({
        "sender": "agent.ada", "to": "agent.bob", "message_type": "request", "payload": { "question": "v?" },
        "metadata": { "trace_id": trace, "parent_event_id": "evt_x" }
    });
    let message = send(&ada, &channel, body).await;
    let events = ada.get(&format!("/intents/{intent}/events?event_type=channel.message")).await.ok();
    let event = &events[0];
    assert_eq!(event["actor"], "agent.ada");
    assert_eq!(event["trace_id"], trace);
    assert_eq!(event["parent_event_id"], "evt_x");
    let payload = json!({
        "channel_id": channel, "channel_name": "talk", "message_id": message["id"], "message_type": "request",
        "to": "agent.bob", "payload": { "question": "v?" }
    });
    assert_eq!(event["payload"], payload);
    assert_eq!(
        ada.get(&format!("/intents/{intent}/events?trace_id={trace}")).await.ok().as_array().unwrap().len(),
        1
    );
    // A payload that cannot be hashed without loss is refused as a whole.
    let messages = format!("/channels/{channel}/messages");
    let big = r#"{"sender":"agent.ada","payload":{"n":9007199254740993}}"#.to_owned();
    ada.send("POST", &messages, Some(big)).await.refused(422, "unprocessable");
    let long = r#"{"sender":"agent.ada","payload":{"n":100000000000000000001}}"#.to_owned();
    ada.send("POST", &messages, Some(long)).await.refused(422, "unprocessable");
    let endless = r#"{"sender":"agent.ada","payload":{"n":1e999}}"#.to_owned();
    ada.send("POST", &messages, Some(endless)).await.refused(422, "unprocessable");
    assert_eq!(ada.get(&messages).await.ok().as_array().unwrap().len(), 1);
    let verified = ada.get(&format!("/intents/{intent}/events/verify")).await.ok();
    assert_eq!(verified["chain_valid"], true);
    world.end().await;
}

/// The log's end that an audited message leaves is the end of the ring: an event continues there, and no follower has to
/// read it from the database.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_after_an_audited_message_is_on_its_streams_at_once() {
    // Without background tasks, which would add records that were only announced.
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({ "options": { "audit": true } })).await;
    let path = format!("/subscribe/intents/{intent}");
    let mut stream = Sse::open(&ada, &path).await;
    let mut of_channel = Sse::open(&ada, &format!("/subscribe/channels/{channel}")).await;
    let said = json!({ "sender": "agent.ada", "payload": { "n": 1 } });
    send(&ada, &channel, said.clone()).await;
    assert_eq!(stream.next().await.name, "channel_message");
    assert_eq!(of_channel.next().await.name, "channel_message");
    let before = world.ctx().metrics.catch_ups.get();
    let note = json!({ "event_type": "note", "payload": { "n": 1.0, "list": [2.50] } });
    ada.post(&format!("/intents/{intent}/events"), note).await.ok();
    let heard = stream.next().await;
    assert_eq!(heard.name, "note");
    send(&ada, &channel, said).await;
    assert_eq!(stream.next().await.name, "channel_message");
    ada.patch(&format!("/channels/{channel}"), json!({ "status": "closed" })).await.ok();
    assert_eq!(stream.next().await.name, "channel.closed");
    assert_eq!(of_channel.next_few(2).await[1].name, "channel.closed");
    assert_eq!(world.ctx().metrics.catch_ups.get(), before, "a follower had to catch up");
    // Read again, from the database, it is the same.
    assert_eq!(Sse::resume(&ada, &path, Some("0")).await.next_named("note").await, heard);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_event_can_have_the_rfcs_name() {
    let settings = vec![("ENTENTE_AUDIT_EVENT_TYPE", "channel_message")];
    let world = World::with(Setup { settings, live: false }).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({ "options": { "audit": true } })).await;
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": {} })).await;
    let events = format!("/intents/{intent}/events?limit=1");
    assert_eq!(ada.get(&events).await.ok()[0]["event_type"], "channel_message");
    // The SDK cannot read that name, so it gets a comment with the original type.
    let sdk = ada.acting_as("agent.ada").with("user-agent", "python-httpx/0.27.0");
    let shown = sdk.get(&events).await.ok();
    assert_eq!(shown[0]["event_type"], "comment");
    assert_eq!(shown[0]["original_event_type"], "channel_message");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_strict_mode_it_has_the_rfcs_name_and_filters_know_both() {
    let strict = || {
        let settings = vec![
            ("ENTENTE_STRICT_RFC0021", "true"),
            // The setting names the type for the other mode only.
            ("ENTENTE_AUDIT_EVENT_TYPE", "channel.message"),
        ];
        Setup { settings, live: false }
    };
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({ "options": { "audit": true } })).await;
    send(&ada, &channel, json!({ "sender": "agent.ada", "payload": { "n": 1 } })).await;
    // A second server on the same database, in strict mode: the log has both names then.
    let other = World::on(strict(), world.database.clone()).await;
    let there = other.client("key-of-agent.ada");
    send(&there, &channel, json!({ "sender": "agent.ada", "payload": { "n": 2 } })).await;
    let both = ["channel_message", "channel.message"];
    for client in [&ada, &there] {
        for name in both {
            let found = client.get(&format!("/intents/{intent}/events?event_type={name}")).await.ok();
            let types: Vec<&str> =
                found.as_array().unwrap().iter().map(|event| event["event_type"].as_str().unwrap()).collect();
            assert_eq!(types, both, "newest first, asked for {name}");
        }
        let others = client.get(&format!("/intents/{intent}/events?event_type=channel.created")).await.ok();
        assert_eq!(others.as_array().unwrap().len(), 1);
    }
    // The SDK gets the RFC's name as a comment, whichever name it asks for.
    let sdk = there.acting_as("agent.ada").with("user-agent", "python-httpx/0.27.0");
    let shown = sdk.get(&format!("/intents/{intent}/events?event_type=channel.message")).await.ok();
    assert_eq!(shown[0]["original_event_type"], "channel_message");
    assert_eq!(shown[1]["event_type"], "channel.message");
    // No copy of a message is on the timeline, which has the messages themselves.
    let page = logged_in(&other, "human.eve", true).await.get(&format!("/dashboard?intent={intent}")).await;
    assert!(page.text.contains("channel.created"), "the timeline has other events");
    assert!(both.iter().all(|name| !page.text.contains(name)), "{}", page.text);
    other.end().await;
    world.end().await;
}
