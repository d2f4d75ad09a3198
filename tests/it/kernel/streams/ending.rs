//! The ends of streams: always with an error (OI-11.4.1), when the reader loses access, when the followed
//! resource is deleted, when the key ends, and when the server stops.

use std::time::{Duration, Instant};

use super::{count, live, numbers};
use entente_harness::{Client, Sse, Value, World, json, send, talk};

/// Upper bound for a stream to break after its reader lost access.
const SOON: Duration = Duration::from_secs(1);

/// Asserts that all these streams break soon, and not with a clean end.
async fn break_soon(streams: &mut [Sse], why: &str) {
    let since = Instant::now();
    for stream in streams {
        stream.breaks().await;
    }
    assert!(since.elapsed() < SOON, "{why}: the streams broke only after {:?}", since.elapsed());
}

async fn on_both_families(client: &Client, noun: &str, id: &str) -> Vec<Sse> {
    vec![
        Sse::open(client, &format!("/subscribe/{noun}/{id}")).await,
        Sse::open(client, &format!("/{noun}/{id}/subscribe")).await,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_breaks_when_access_is_taken_away() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let entries = format!("/intents/{intent}/acl/entries");
    let grant = async |more: Value| {
        let mut ask = json!({ "principal_id": "agent.bob", "permission": "read" });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ada.post(&entries, ask).await.ok()["id"].as_str().unwrap().to_owned()
    };
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let entry = grant(json!({})).await;
    let mut streams = on_both_families(&bob, "intents", &intent).await;
    streams.extend(on_both_families(&bob, "channels", &channel).await);
    let mut all = Sse::open(&bob, "/subscribe").await;
    let mut own = Sse::open(&bob, "/subscribe/agents/agent.bob").await;
    count(&ada, "agent.ada", &channel, 0, 1).await;
    for stream in &mut streams {
        assert_eq!(numbers(&[stream.next().await]), [0]);
    }
    assert_eq!(numbers(&[all.next().await]), [0]);
    ada.delete(&format!("{entries}/{entry}")).await.is(204);
    break_soon(&mut streams, "revoked").await;
    // Streams over many intents continue without this one.
    send(&ada, &channel, json!({ "sender": "agent.ada", "to": "agent.bob", "payload": { "n": 1 } })).await;
    let open = talk(&ada, json!({})).await.1;
    send(&ada, &open, json!({ "sender": "agent.ada", "to": "agent.bob", "payload": { "n": 2 } })).await;
    assert_eq!(numbers(&[own.next().await]), [2]);
    assert_eq!(numbers(&[all.next_named("channel_message").await]), [2]);
    // The expiry of a grant ends streams too.
    let soon = chrono::Utc::now() + chrono::TimeDelta::seconds(3);
    grant(json!({ "expires_at": soon.to_rfc3339() })).await;
    let mut streams = on_both_families(&bob, "intents", &intent).await;
    streams.extend(on_both_families(&bob, "channels", &channel).await);
    tokio::time::sleep((soon - chrono::Utc::now()).to_std().unwrap_or_default()).await;
    // Messages after the expiry are not delivered, whether or not a sweep has run.
    count(&ada, "agent.ada", &channel, 3, 1).await;
    for stream in &mut streams {
        assert!(
            stream.try_next().await.is_none_or(|event| event.name == "access_granted"),
            "heard after the end"
        );
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_breaks_when_the_intent_is_closed_to_its_reader() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let mut streams = on_both_families(&bob, "intents", &intent).await;
    streams.extend(on_both_families(&bob, "channels", &channel).await);
    let mut adas = on_both_families(&ada, "intents", &intent).await;
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    break_soon(&mut streams, "closed").await;
    count(&ada, "agent.ada", &channel, 0, 1).await;
    for stream in &mut adas {
        assert_eq!(numbers(&[stream.next_named("channel_message").await]), [0], "hers goes on");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channels_stream_breaks_when_its_reader_is_no_member_any_more() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let members = json!({ "member_policy": "explicit", "members": ["agent.ada", "agent.bob"] });
    let (_, channel) = talk(&ada, members).await;
    let mut streams = on_both_families(&bob, "channels", &channel).await;
    ada.patch(&format!("/channels/{channel}"), json!({ "members": ["agent.ada"] })).await.ok();
    break_soon(&mut streams, "no member").await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channels_stream_breaks_when_the_channel_is_deleted() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let mut of_channel = on_both_families(&bob, "channels", &channel).await;
    let mut of_intent = Sse::open(&bob, &format!("/subscribe/intents/{intent}")).await;
    count(&ada, "agent.ada", &channel, 0, 1).await;
    ada.delete(&format!("/channels/{channel}")).await.ok();
    break_soon(&mut of_channel, "deleted").await;
    assert_eq!(of_intent.next_named("channel.closed").await.data["payload"]["channel_id"], json!(channel));
    Sse::refused(&bob, &format!("/subscribe/channels/{channel}")).await.refused(404, "not_found");
    // Deleting a channel that was closed before has the same effect.
    let closed = ada.post(&format!("/intents/{intent}/channels"), json!({ "name": "closed" })).await.is(201);
    let closed = closed["id"].as_str().unwrap();
    ada.patch(&format!("/channels/{closed}"), json!({ "status": "closed" })).await.ok();
    let mut streams = on_both_families(&bob, "channels", closed).await;
    ada.delete(&format!("/channels/{closed}")).await.ok();
    break_soon(&mut streams, "closed, then deleted").await;
    world.end().await;
}

/// Creates a key for an agent through the API; returns the key's id and a client with it.
async fn key_of(world: &World, admin: &Client, agent: &str, more: Value) -> (String, Client) {
    // Fails the second time, because the principal exists.
    admin.post("/principals", json!({ "id": agent, "kind": "agent" })).await;
    let made = admin.post(&format!("/principals/{agent}/keys"), more).await.is(201);
    (made["record"]["id"].as_str().unwrap().to_owned(), world.client(made["key"].as_str().unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_breaks_when_its_key_ends() {
    let world = live(&[("ENTENTE_PING_SECONDS", "1")]).await;
    let (ada, admin) = (world.agent("agent.ada").await, world.admin().await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let (id, bob) = key_of(&world, &admin, "agent.bob", json!({})).await;
    let (_, other) = key_of(&world, &admin, "agent.bob", json!({})).await;
    let mut streams = on_both_families(&bob, "intents", &intent).await;
    streams.extend(on_both_families(&bob, "channels", &channel).await);
    streams.push(Sse::open(&bob, "/subscribe").await);
    streams.push(Sse::open(&bob, "/subscribe/agents/agent.bob").await);
    let mut others = Sse::open(&other, &format!("/subscribe/intents/{intent}")).await;
    let poll = bob.clone();
    let path = format!("/channels/{channel}/messages?since=cur_0&wait=30");
    let waiting = tokio::spawn(async move { poll.get(&path).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    admin.delete(&format!("/keys/{id}")).await.ok();
    break_soon(&mut streams, "revoked").await;
    bob.get(&format!("/intents/{intent}")).await.refused(401, "unauthenticated");
    // Nor does a waiting long poll get later messages.
    count(&ada, "agent.ada", &channel, 0, 1).await;
    waiting.await.unwrap().refused(401, "unauthenticated");
    assert_eq!(numbers(&[others.next().await]), [0], "the agent's other key is another matter");
    // A key that expires.
    let soon = chrono::Utc::now() + chrono::TimeDelta::milliseconds(800);
    let (_, brief) = key_of(&world, &admin, "agent.bob", json!({ "expires_at": soon.to_rfc3339() })).await;
    let mut stream = Sse::open(&brief, &format!("/subscribe/intents/{intent}")).await;
    tokio::time::sleep(Duration::from_millis(850)).await;
    count(&ada, "agent.ada", &channel, 1, 1).await;
    assert_eq!(stream.try_next().await, None, "heard after the end");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_tells_its_streams_and_breaks_them() {
    let world = live(&[]).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let mut stream = Sse::open(&ada, &format!("/subscribe/intents/{intent}")).await;
    count(&ada, "agent.ada", &channel, 0, 1).await;
    assert_eq!(numbers(&[stream.next().await]), [0]);
    let began = Instant::now();
    let ((), ()) = tokio::join!(world.end(), async {
        stream.breaks().await;
        assert!(stream.other.iter().any(|line| line.contains("reconnect")), "{:?}", stream.other);
    });
    assert!(began.elapsed() < Duration::from_secs(5), "stopping took {:?}", began.elapsed());
}
