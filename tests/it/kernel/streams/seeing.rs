//! Visibility on streams (RFC-0021 §4.1, §5; OI-1.6): direct messages, members, receipts, expiry.

use std::time::Duration;

use super::{count, live, names, numbers};
use entente_harness::{Sse, World, json, send, talk};

#[tokio::test(flavor = "multi_thread")]
async fn a_directed_message_is_shown_to_its_parties_and_the_managers_alone() {
    let world = live(&[]).await;
    let ada = world.agent("agent.ada").await;
    let (bob, cy, eve) =
        (world.agent("agent.bob").await, world.agent("agent.cy").await, world.agent("agent.eve").await);
    cy.post("/agents/register", json!({ "agent_id": "agent.cy", "role_id": "billing" })).await.ok();
    let (intent, channel) = talk(&ada, json!({})).await;
    let paths = [
        format!("/subscribe/intents/{intent}"),
        format!("/intents/{intent}/subscribe"),
        format!("/subscribe/channels/{channel}"),
        format!("/channels/{channel}/subscribe"),
        "/subscribe".to_owned(),
    ];
    let any_as_eve = world.any().acting_as("agent.eve");
    // The manager, the sender, the recipient, a stranger, and a key that reads on behalf of all.
    let (parties, strangers) = ([&ada, &bob, &cy, &any_as_eve], [&eve]);
    let (mut shown, mut hidden) = (Vec::new(), Vec::new());
    for path in &paths {
        for client in parties {
            shown.push(Sse::open(client, path).await);
        }
        for client in strangers {
            hidden.push(Sse::open(client, path).await);
        }
    }
    let secret =
        send(&bob, &channel, json!({ "sender": "agent.bob", "to": "agent.cy", "payload": { "n": 1 } })).await;
    send(&bob, &channel, json!({ "sender": "agent.bob", "to": "role:billing", "payload": { "n": 2 } })).await;
    let secret = format!("/channels/{channel}/messages/{}", secret["id"].as_str().unwrap());
    cy.patch(&secret, json!({ "status": "read" })).await.ok();
    count(&bob, "agent.bob", &channel, 3, 1).await;
    for stream in &mut shown {
        let said = stream.next_few(4).await;
        assert_eq!(names(&said), ["channel_message", "channel_message", "message_read", "channel_message"]);
        assert_eq!(numbers(&said), [1, 2, 3]);
    }
    for stream in &mut hidden {
        assert_eq!(numbers(&[stream.next().await]), [3], "neither the message nor that it was read");
        stream.silent(Duration::from_millis(10)).await;
    }
    // The same when read from the database.
    for path in &paths[..4] {
        assert_eq!(numbers(&[Sse::resume(&eve, path, Some("2")).await.next().await]), [3]);
        assert_eq!(numbers(&Sse::resume(&cy, path, Some("2")).await.next_few(4).await), [1, 2, 3]);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intents_stream_shows_an_explicit_channels_messages_to_its_members() {
    let world = live(&[]).await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    let members = json!({ "member_policy": "explicit", "members": ["agent.ada", "agent.bob"] });
    let (intent, channel) = talk(&ada, members).await;
    let path = format!("/subscribe/intents/{intent}");
    let (mut bobs, mut eves) = (Sse::open(&bob, &path).await, Sse::open(&eve, &path).await);
    count(&ada, "agent.ada", &channel, 0, 2).await;
    assert_eq!(numbers(&bobs.next_few(2).await), [0, 1], "a member until now");
    ada.patch(&format!("/channels/{channel}"), json!({ "members": ["agent.ada", "agent.eve"] })).await.ok();
    count(&ada, "agent.ada", &channel, 2, 2).await;
    assert_eq!(bobs.next().await.name, "channel.created");
    let said = eves.next_few(3).await;
    assert_eq!((names(&said)[0], numbers(&said)), ("channel.created", vec![2, 3]), "a member since then");
    bobs.silent(Duration::from_millis(50)).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_caught_up_later_does_not_hand_out_what_has_expired() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let soon = (chrono::Utc::now() + chrono::TimeDelta::milliseconds(600)).to_rfc3339();
    let body = json!({ "sender": "agent.ada", "to": "agent.bob", "payload": { "n": 0 }, "expires_at": soon });
    let path = format!("/subscribe/intents/{intent}");
    let (mut in_time, mut adas) = (Sse::open(&bob, &path).await, Sse::open(&ada, &path).await);
    send(&ada, &channel, body).await;
    count(&ada, "agent.ada", &channel, 1, 1).await;
    assert_eq!(numbers(&in_time.next_few(2).await), [0, 1]);
    let expired = adas.next_named("message_expired").await;
    assert_eq!((&expired.data["status"], &expired.data["agent_id"]), (&json!("expired"), &json!(null)));
    // Read later, from memory and from the database: RFC-0021 §2.2, expired messages are not delivered.
    let mut late = Sse::resume(&bob, &path, Some("2")).await;
    assert_eq!(numbers(&[late.next().await]), [1]);
    let mut senders = Sse::resume(&ada, &path, Some("2")).await;
    let first = senders.next().await;
    assert_eq!(numbers(&[first]), [0], "its sender sees what became of it");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_needs_the_scope_of_what_it_shows() {
    let world = live(&[]).await;
    let (ada, admin) = (world.agent("agent.ada").await, world.admin().await);
    let (intent, channel) = talk(&ada, json!({})).await;
    admin.post("/principals", json!({ "id": "agent.narrow", "kind": "agent" })).await.is(201);
    let keyed = async |scopes: &[&str]| {
        let ask = json!({ "scopes": scopes });
        let made = admin.post("/principals/agent.narrow/keys", ask).await.is(201);
        world.client(made["key"].as_str().unwrap())
    };
    let (intents, channels) = (keyed(&["intents:read"]).await, keyed(&["channels:read"]).await);
    let (of_intent, of_channel) =
        (format!("/subscribe/intents/{intent}"), format!("/subscribe/channels/{channel}"));
    Sse::refused(&intents, &of_channel).await.refused(403, "scope_missing");
    Sse::refused(&intents, "/subscribe").await.refused(403, "scope_missing");
    Sse::refused(&channels, &of_intent).await.refused(403, "scope_missing");
    let mut events_alone = Sse::open(&intents, &of_intent).await;
    let mut messages_alone = Sse::open(&channels, &of_channel).await;
    let mut all = Sse::open(&channels, "/subscribe").await;
    count(&ada, "agent.ada", &channel, 0, 1).await;
    ada.post(&format!("/intents/{intent}/events"), json!({ "event_type": "note", "payload": { "n": 9 } }))
        .await
        .ok();
    count(&ada, "agent.ada", &channel, 1, 1).await;
    assert_eq!(numbers(&[events_alone.next().await]), [9]);
    assert_eq!(numbers(&messages_alone.next_few(2).await), [0, 1]);
    assert_eq!(numbers(&all.next_few(2).await), [0, 1]);
    events_alone.silent(Duration::from_millis(50)).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_of_many_lines_is_one_frame() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let mut stream = Sse::open(&ada, &format!("/subscribe/intents/{intent}")).await;
    // Payloads are stored byte for byte, including line breaks between their members.
    let body = "{\"sender\":\"agent.ada\",\"payload\":{\n  \"a\": 1,\r\n  \"b\": [\n    2\n  ]\n}}";
    ada.send("POST", &format!("/channels/{channel}/messages"), Some(body.to_owned())).await.is(201);
    let heard = stream.next_named("channel_message").await;
    assert_eq!(heard.data["payload"], json!({ "a": 1, "b": [2] }));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_hears_of_the_tasks_that_it_has_or_is_to_take() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, _) = talk(&ada, json!({})).await;
    let mut of_intent = Sse::open(&ada, &format!("/subscribe/intents/{intent}")).await;
    let mut of_bob = Sse::open(&bob, "/agents/agent.bob/subscribe?event_types=task.*,posted").await;
    let task = ada.post("/tasks", json!({ "intent_id": intent, "name": "read" })).await.ok();
    let id = task["id"].as_str().unwrap();
    // A client's own event with the server's type notifies nobody.
    let forged = json!({ "event_type": "task.delegated", "payload": { "assigned_agent": "agent.bob" } });
    ada.post(&format!("/intents/{intent}/events"), forged).await.ok();
    ada.post(&format!("/tasks/{id}/delegate"), json!({ "to": "agent.bob" })).await.ok();
    bob.post(&format!("/tasks/{id}/claim"), json!({})).await.ok();
    let said = of_intent.next_few(5).await;
    let expected = ["task.created", "task.ready", "task.delegated", "task.delegated", "task.claimed"];
    assert_eq!(names(&said), expected);
    let heard = of_bob.next_few(2).await;
    assert_eq!(names(&heard), ["task.delegated", "task.claimed"]);
    assert_eq!(
        (&heard[0].data["payload"]["task_id"], &heard[0].data["actor"]),
        (&json!(id), &json!("agent.ada"))
    );
    of_bob.silent(Duration::from_millis(10)).await;
    world.end().await;
}
