//! Strict intents: what an agent writes there has to name the epoch of its session, by whichever way it comes and on
//! whichever server.

use super::sessions::{channel, open, writes};
use entente_harness::cli::told;
use entente_harness::envelopes::task_envelope;
use entente_harness::mcp::{Era, Mcp};
use entente_harness::{Client, Value, World, json, talk};

fn within(client: &Client, epoch: i64) -> Client {
    client.with("entente-epoch", &epoch.to_string())
}

async fn set(client: &Client, intent: &str, strict: bool) -> Value {
    let acl = client.put(&format!("/intents/{intent}/strict"), json!({ "strict": strict })).await.ok();
    assert_eq!(acl["strict"].as_bool().unwrap_or(false), strict);
    acl
}

#[tokio::test(flavor = "multi_thread")]
async fn no_way_of_writing_on_a_strict_intent_is_open_without_an_epoch() {
    let (one, other) = World::two().await;
    let (ada, there) = (one.agent("agent.ada").await, other.agent("agent.ada").await);
    let writes = writes(&ada).await;
    let messages = writes[0].1.clone();
    let intent = writes[1].1.split('/').nth(2).unwrap().to_owned();
    let mark = ada.post(&messages, json!({ "sender": "agent.ada", "payload": {} })).await.is(201);
    let mark = format!("{messages}/{}", mark["id"].as_str().unwrap());
    // Both servers have written there, and remember what they have judged by.
    there.post(&messages, json!({ "sender": "agent.ada", "payload": {} })).await.is(201);
    set(&ada, &intent, true).await;
    let epoch = open(&ada, "agent.ada").await;
    let version = ada.get(&format!("/intents/{intent}")).await.ok()["version"].clone();
    let here =
        |path: &str| path.starts_with(&format!("/intents/{intent}/")) || path == messages || path == "/turn";
    for (method, path, body) in writes.into_iter().filter(|write| here(&write.1)) {
        for client in [&ada, &there] {
            client.send(method, &path, Some(body.to_string())).await.refused(428, "epoch_required");
        }
        let done = within(&there, epoch).send(method, &path, Some(body.to_string())).await;
        assert!((200..300).contains(&done.status), "{path}: {} {}", done.status, done.text);
    }
    let say = json!({ "sender": "agent.ada", "payload": {} });
    let refused = there.post(&format!("{messages}/batch"), json!({ "messages": [say, say] })).await.is(207);
    assert!(
        refused["results"].as_array().unwrap().iter().all(|one| one["error"]["code"] == "epoch_required")
    );
    let state = json!({ "state": { "a": 1 } });
    let path = format!("/intents/{intent}/state");
    there.seen(&version).post(&path, state.clone()).await.refused(428, "epoch_required");
    within(&there.seen(&version), epoch).post(&path, state).await.ok();
    let named = format!("/intents/{intent}/channels/main/messages");
    there.post(&named, say.clone()).await.refused(428, "epoch_required");
    there.post("/jobs", json!({ "agent": "echo", "intent_id": intent })).await.refused(428, "epoch_required");
    there.patch(&mark, json!({ "status": "read" })).await.refused(428, "epoch_required");
    // An epoch of another agent is none; a key for any agent is no way around it.
    let bob = one.agent("agent.bob").await;
    let other_epoch = open(&bob, "agent.bob").await;
    bob.post(&messages, json!({ "sender": "agent.bob", "payload": {} })).await.refused(428, "epoch_required");
    within(&bob, other_epoch).post(&messages, json!({ "sender": "agent.bob", "payload": {} })).await.is(201);
    one.any().post(&messages, say.clone()).await.refused(428, "epoch_required");
    within(&one.any().acting_as("agent.ada"), epoch).post(&messages, say.clone()).await.is(201);
    // Reading is free; other intents are not concerned.
    there.get(&messages).await.ok();
    ada.post("/intents", json!({ "title": "another" })).await.ok();
    // A manager ends it, in its session; a list that is replaced leaves it.
    let acl = json!({ "default_policy": "open", "entries": [], "strict": false });
    within(&ada, epoch).put(&format!("/intents/{intent}/acl"), acl).await.ok();
    ada.put(&format!("/intents/{intent}/strict"), json!({ "strict": false }))
        .await
        .refused(428, "epoch_required");
    assert_eq!(ada.get(&format!("/intents/{intent}/acl")).await.ok()["strict"], true);
    set(&within(&ada, epoch), &intent, false).await;
    there.post(&messages, say).await.is(201);
    other.end().await;
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_and_services_write_on_a_strict_intent_in_their_own_names() {
    let world = World::start().await;
    let (ada, grace) = (world.agent("agent.ada").await, world.human("human.grace").await);
    let (intent, messages) = channel(&ada).await;
    // Others on an open intent do not decide about it, and an admin does.
    let bob = world.agent("agent.bob").await;
    bob.put(&format!("/intents/{intent}/strict"), json!({ "strict": true })).await.refused(403, "forbidden");
    let admin = world.admin().await;
    set(&admin, &intent, true).await;
    set(&admin, &intent, true).await;
    let say = |sender: &str| json!({ "sender": sender, "payload": {} });
    grace.post(&messages, say("human.grace")).await.is(201);
    world.any().post(&messages, say("service.any")).await.is(201);
    world.any().post(&messages, say("agent.unknown")).await.refused(428, "epoch_required");
    let events = grace.get(&format!("/intents/{intent}/events?event_type=access.strict_set")).await.ok();
    assert_eq!(events.as_array().unwrap().len(), 1, "once: the second changed nothing");
    // Who may not even read learns nothing.
    let closed = json!({ "default_policy": "closed", "entries": [] });
    admin.put(&format!("/intents/{intent}/acl"), closed).await.ok();
    bob.post(&format!("/intents/{intent}/tasks"), json!({ "name": "t" })).await.refused(403, "access_closed");
    bob.post(&messages, say("agent.bob")).await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_commands_and_envelopes_are_no_way_around() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    world.agent("agent.bob").await;
    let admin = world.admin().await;
    let (intent, channel) = talk(&admin, json!({})).await;
    admin
        .put("/aee/bridges/show", json!({ "kind": "mirror", "entity": "agent.bob", "channel_id": channel }))
        .await
        .ok();
    let epoch = open(&ada, "agent.ada").await;
    set(&admin, &intent, true).await;
    for era in [Era::Handshake, Era::Stateless] {
        let say = json!({ "channel": channel, "payload": { "n": 1 } });
        Mcp::new(&ada, era).refused("send_message", say.clone(), "epoch_required").await;
        Mcp::new(&within(&ada, epoch), era).ok("send_message", say).await;
    }
    let envelope = task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"));
    ada.post("/aee/envelopes", envelope).await.is(202);
    world.carry().await;
    let said = admin.get(&format!("/channels/{channel}/messages")).await.ok();
    assert_eq!(said.as_array().unwrap().len(), 2, "the envelope is not shown: {said}");
    let free = ["intent", "create", "free", "--epoch", &epoch.to_string()];
    let free = told(&world, "key-of-agent.ada", &free).await["id"].as_str().unwrap().to_owned();
    let shown = told(&world, "key-of-agent.ada", &["intent", "strict", &free, "true"]).await;
    assert_eq!(shown["strict"], true);
    world.end().await;
}
