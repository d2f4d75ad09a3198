//! Streams (OI-11): the frames of an intent's, a channel's, an agent's and the global stream, in both
//! families of paths. `streams/beginning.rs` covers open assignments, `streams/choosing.rs` the choice of event types,
//! `streams/ordering.rs` the order over everything,
//! `streams/resuming.rs` resuming, `streams/seeing.rs` visibility, `streams/ending.rs` the ends of streams.

mod beginning;
mod choosing;
mod ending;
mod ordering;
mod resuming;
mod seeing;

use std::time::{Duration, Instant};

use entente_harness::{Client, Event, Setup, Sse, World, json, send, talk};

/// Starts a server with background tasks, which streams need, and so on the system clock.
async fn live(settings: &[(&'static str, &'static str)]) -> World {
    World::with(Setup { settings: settings.to_vec(), live: true }).await
}

/// Sends `count` messages with payloads numbered from `from`.
async fn count(client: &Client, sender: &str, channel: &str, from: u64, count: u64) {
    for n in from..from + count {
        send(client, channel, json!({ "sender": sender, "payload": { "n": n } })).await;
    }
}

/// Returns the numbers in the frames' payloads.
fn numbers(events: &[Event]) -> Vec<u64> {
    events.iter().filter_map(|event| event.data["payload"]["n"].as_u64()).collect()
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

/// Returns the same client on the paths of RFC-0021.
fn under_v1(client: &Client) -> Client {
    let mut client = client.clone();
    client.base = client.base.replace("/api/v1", "/v1");
    client
}

/// Causes one of every kind of frame on an intent's stream.
async fn one_of_everything(ada: &Client, bob: &Client, intent: &str, channel: &str) {
    let path = format!("/intents/{intent}");
    ada.seen(&json!(1)).post(&format!("{path}/state"), json!({ "state": { "phase": "work" } })).await.ok();
    ada.seen(&json!(2)).post(&format!("{path}/status"), json!({ "status": "active" })).await.ok();
    ada.post(&format!("{path}/agents"), json!({ "agent_id": "agent.bob", "role": "reviewer" })).await.ok();
    ada.post(&format!("{path}/events"), json!({ "event_type": "note", "payload": { "n": 1 } })).await.ok();
    let ask =
        json!({ "sender": "agent.ada", "to": "agent.bob", "message_type": "request", "payload": { "q": 1 } });
    let request = send(ada, channel, ask).await["id"].as_str().unwrap().to_owned();
    let messages = format!("/channels/{channel}/messages/{request}");
    bob.patch(&messages, json!({ "status": "read" })).await.ok();
    bob.post(&format!("{messages}/reply"), json!({ "sender": "agent.bob", "payload": { "a": 2 } }))
        .await
        .is(201);
    ada.patch(&format!("/channels/{channel}"), json!({ "status": "closed" })).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intents_stream_speaks_as_each_family_of_paths_does() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    // Audited: the copy of a message in the log causes no second frame.
    let (intent, channel) = talk(&ada, json!({ "options": { "audit": true } })).await;
    let paths = [format!("/subscribe/intents/{intent}"), format!("/intents/{intent}/subscribe")];
    let mut said = Vec::new();
    let mut streams = Vec::new();
    for client in [ada.clone(), under_v1(&ada)] {
        for path in &paths {
            streams.push(Sse::open(&client, path).await);
        }
    }
    one_of_everything(&ada, &bob, &intent, &channel).await;
    for stream in &mut streams {
        said.push(stream.next_few(8).await);
        stream.silent(Duration::from_millis(20)).await;
    }
    let [reference, sdk, v1_reference, v1_sdk] = &said[..] else { unreachable!() };
    assert_eq!((reference, sdk), (v1_reference, v1_sdk), "/v1 is the same");
    assert_eq!(
        names(reference),
        [
            "state_patched",
            "status_changed",
            "agent_assigned",
            "note",
            "channel_message",
            "message_read",
            "channel_message",
            "channel.closed"
        ]
    );
    assert_eq!(
        names(sdk),
        [
            "STATE_CHANGED",
            "STATUS_CHANGED",
            "AGENT_ASSIGNED",
            "note",
            "channel_message",
            "message_read",
            "channel_message",
            "channel.closed"
        ]
    );
    let ids = |events: &[Event]| events.iter().map(|event| event.id.parse().unwrap()).collect::<Vec<i64>>();
    assert_eq!(ids(reference), ids(sdk), "a frame has one id, whatever its name");
    assert!(ids(reference).is_sorted_by(|a, b| a < b), "{:?}", ids(reference));
    check_reference(&ada, &intent, reference).await;
    check_sdk(&intent, sdk);
    world.end().await;
}

/// Checks the reference server's format (OI-11.2.1): the whole intent with each change, and the full message.
async fn check_reference(ada: &Client, intent: &str, said: &[Event]) {
    let now = ada.get(&format!("/intents/{intent}")).await.ok();
    assert_eq!((&said[0].data["version"], &said[0].data["state"]), (&json!(2), &json!({ "phase": "work" })));
    assert_eq!(said[0].data["status"], "draft", "the intent as it was then");
    assert_eq!(said[1].data, now);
    assert_eq!(said[1].data["parent_intent_id"], json!(null));
    assert_eq!((&said[2].data["agent_id"], &said[2].data["role"]), (&json!("agent.bob"), &json!("reviewer")));
    assert_eq!(said[2].data["intent_id"], intent);
    assert_eq!(said[3].data["payload"], json!({ "n": 1 }));
    let (request, reply) = (&said[4].data, &said[6].data);
    let channel = request["channel_id"].as_str().unwrap();
    for message in [request, reply] {
        let id = message["id"].as_str().unwrap();
        let mut full = ada.get(&format!("/channels/{channel}/messages/{id}")).await.ok();
        // The frame shows the message as it was sent.
        full["status"] = json!("delivered");
        full["read_at"] = json!(null);
        full["intent_id"] = json!(intent);
        full["channel_name"] = json!("talk");
        assert_eq!(*message, full);
    }
    assert_eq!(said[5].data["message_id"], request["id"]);
    assert_eq!((&said[5].data["status"], &said[5].data["agent_id"]), (&json!("read"), &json!("agent.bob")));
    assert_eq!((&reply["correlation_id"], &reply["to"]), (&request["id"], &json!("agent.ada")));
    assert_eq!(said[7].data["payload"]["reason"], "requested");
}

/// Checks the fields that the SDK's agents use (OI-11.5.1).
fn check_sdk(intent: &str, said: &[Event]) {
    assert!(said[..3].iter().all(|event| event.data["intent_id"] == intent));
    assert_eq!(said[0].data["old_state"], json!({}));
    assert_eq!(said[0].data["new_state"], json!({ "phase": "work" }));
    assert_eq!(
        (&said[1].data["old_status"], &said[1].data["new_status"]),
        (&json!("draft"), &json!("active"))
    );
    assert_eq!(said[2].data["agent_id"], "agent.bob");
    // Ada created the intent and is not assigned to it, so she delegates nothing.
    assert_eq!(said[2].data["delegated_by"], json!(null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channels_stream_has_that_channel_alone() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let other = ada.post(&format!("/intents/{intent}/channels"), json!({ "name": "other" })).await.is(201);
    let other = other["id"].as_str().unwrap();
    let mut streams = Vec::new();
    for path in [format!("/subscribe/channels/{channel}"), format!("/channels/{channel}/subscribe")] {
        streams.push(Sse::open(&bob, &path).await);
    }
    count(&ada, "agent.ada", other, 100, 3).await;
    ada.post(&format!("/intents/{intent}/events"), json!({ "event_type": "channel.message" })).await.ok();
    count(&ada, "agent.ada", &channel, 0, 2).await;
    ada.patch(&format!("/channels/{other}"), json!({ "status": "closed" })).await.ok();
    ada.patch(&format!("/channels/{channel}"), json!({ "options": { "max_messages": 5 } })).await.ok();
    ada.patch(&format!("/channels/{channel}"), json!({ "status": "closed" })).await.ok();
    for stream in &mut streams {
        let said = stream.next_few(4).await;
        assert_eq!(names(&said), ["channel_message", "channel_message", "channel.created", "channel.closed"]);
        assert_eq!(numbers(&said), [0, 1]);
        assert_eq!(said[2].data["payload"]["updated"], json!(["options"]));
        // Closed, not deleted: the stream stays open, because receipts may follow.
        stream.silent(Duration::from_millis(50)).await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_stream_has_what_concerns_it() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let mut reference = Sse::open(&bob, "/subscribe/agents/agent.bob").await;
    let mut sdk = Sse::open(&bob, "/agents/agent.bob/subscribe?event_types=*").await;
    let direct = |n: u64| json!({ "sender": "agent.ada", "to": "agent.bob", "payload": { "n": n } });
    // On an intent that it is not assigned to, it receives only messages to itself.
    count(&ada, "agent.ada", &channel, 100, 1).await;
    send(&ada, &channel, json!({ "sender": "agent.ada", "to": "agent.cy", "payload": { "n": 101 } })).await;
    send(&ada, &channel, direct(0)).await;
    assert_eq!(numbers(&[reference.next().await, sdk.next().await]), [0, 0]);
    let agents = format!("/intents/{intent}/agents");
    ada.post(&agents, json!({ "agent_id": "agent.cy" })).await.ok();
    ada.post(&agents, json!({ "agent_id": "agent.bob" })).await.ok();
    count(&ada, "agent.ada", &channel, 1, 1).await;
    ada.seen(&json!(1)).post(&format!("/intents/{intent}/status"), json!({ "status": "active" })).await.ok();
    let own = send(&bob, &channel, json!({ "sender": "agent.bob", "to": "agent.ada", "payload": {} })).await;
    let own = format!("/channels/{channel}/messages/{}", own["id"].as_str().unwrap());
    ada.patch(&own, json!({ "status": "read" })).await.ok();
    let said = reference.next_few(4).await;
    assert_eq!(names(&said), ["agent_assigned", "channel_message", "status_changed", "message_read"]);
    assert_eq!(numbers(&said), [1]);
    let said = sdk.next_few(4).await;
    assert_eq!(names(&said), ["AGENT_ASSIGNED", "channel_message", "STATUS_CHANGED", "message_read"]);
    assert_eq!(
        (&said[0].data["agent_id"], &said[0].data["intent_id"]),
        (&json!("agent.bob"), &json!(intent))
    );
    // Another agent may not follow this stream.
    Sse::refused(&ada, "/subscribe/agents/agent.bob").await.refused(403, "may_not_act_as");
    Sse::refused(&ada, "/agents/agent.bob/subscribe").await.refused(403, "may_not_act_as");
    // A key that may act as any agent may follow any.
    let mut service = Sse::open(&world.any(), "/subscribe/agents/agent.bob").await;
    assert_eq!(service.next().await.data["intent_id"], json!(intent), "his open assignment");
    send(&ada, &channel, direct(2)).await;
    assert_eq!(numbers(&[service.next().await]), [2]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_everything_has_every_intent_in_order() {
    let world = live(&[]).await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let mut channels = Vec::new();
    for _ in 0..4 {
        channels.push(talk(&ada, json!({})).await.1);
    }
    let hidden = talk(&ada, json!({})).await;
    ada.put(&format!("/intents/{}/acl", hidden.0), json!({ "default_policy": "closed" })).await.ok();
    let mut all = Sse::open(&bob, "/subscribe").await;
    let senders = channels.iter().map(|channel| {
        let (ada, channel) = (ada.clone(), channel.clone());
        async move { count(&ada, "agent.ada", &channel, 0, 25).await }
    });
    futures_util::future::join_all(senders).await;
    count(&ada, "agent.ada", &hidden.1, 0, 1).await;
    let said = all.next_few(100).await;
    all.silent(Duration::from_millis(100)).await;
    for channel in &channels {
        let of: Vec<Event> =
            said.iter().filter(|event| event.data["channel_id"] == **channel).cloned().collect();
        assert_eq!(numbers(&of), (0..25).collect::<Vec<_>>());
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_right_after_a_stream_has_opened_comes_at_once() {
    let world = live(&[]).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    for path in [
        "/subscribe".to_owned(),
        "/subscribe/agents/agent.ada".to_owned(),
        format!("/subscribe/intents/{intent}"),
    ] {
        for n in 0..8 {
            let mut stream = Sse::open(&ada, &path).await;
            let to_self = json!({ "sender": "service.any", "to": "agent.ada", "payload": { "n": n } });
            let sent = Instant::now();
            send(&world.any(), &channel, to_self).await;
            assert_eq!(numbers(&[stream.next().await]), [n]);
            assert!(sent.elapsed() < Duration::from_secs(1), "{path}: {:?}", sent.elapsed());
        }
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_stream_shows_that_it_lives() {
    let world = live(&[("ENTENTE_PING_SECONDS", "1")]).await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let mut stream = Sse::open(&ada, &format!("/subscribe/channels/{channel}")).await;
    // The greeting contains the reconnection delay (OI-11.4.1).
    assert!(stream.other.iter().any(|line| line == "retry: 1000"), "{:?}", stream.other);
    stream.other.clear();
    stream.idle(Duration::from_millis(2_600)).await;
    assert_eq!(stream.other, [": ping", ": ping"]);
    count(&ada, "agent.ada", &channel, 7, 1).await;
    assert_eq!(numbers(&[stream.next().await]), [7]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_subscription_is_held_before_it_is_answered() {
    let world =
        live(&[("ENTENTE_REFUSED_SUBSCRIBE_SECONDS", "1"), ("ENTENTE_MAX_STREAMS_PER_KEY", "2")]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let eve = world.agent("agent.eve").await;
    let (intent, channel) =
        talk(&ada, json!({ "member_policy": "explicit", "members": ["agent.ada"] })).await;
    let (shut, _) = talk(&ada, json!({})).await;
    ada.put(&format!("/intents/{shut}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let full = world.agent("agent.full").await;
    let _open = (Sse::open(&full, "/subscribe").await, Sse::open(&full, "/subscribe").await);
    let nowhere = "/intents/intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F/subscribe".to_owned();
    let odd = eve.with("last-event-id", "odd");
    // Concurrently, so that the test takes one second instead of seven.
    let asked: [(&Client, String, u16); 7] = [
        (&world.anon(), format!("/subscribe/intents/{intent}"), 401),
        (&eve, format!("/subscribe/intents/{shut}"), 403),
        (&eve, format!("/channels/{channel}/subscribe"), 403),
        (&bob, "/agents/agent.ada/subscribe".to_owned(), 403),
        (&bob, nowhere, 404),
        (&odd, format!("/subscribe/intents/{intent}"), 422),
        (&full, format!("/subscribe/intents/{intent}"), 429),
    ];
    let began = Instant::now();
    let answers = asked.iter().map(async |(client, path, status)| {
        let reply = Sse::refused(client, path).await;
        reply.is(*status);
        assert_eq!(reply.header("content-type"), "application/problem+json");
        began.elapsed()
    });
    for held in futures_util::future::join_all(answers).await {
        assert!(held >= Duration::from_secs(1), "answered after {held:?}: a hot loop (OI-11.4.2)");
    }
    // Other refusals are not delayed.
    let began = Instant::now();
    eve.get(&format!("/intents/{shut}")).await.refused(403, "access_closed");
    assert!(began.elapsed() < Duration::from_millis(900));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_only_so_many_streams() {
    let world = live(&[("ENTENTE_MAX_STREAMS_PER_KEY", "3")]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let path = format!("/subscribe/intents/{intent}");
    let mut open = vec![Sse::open(&ada, &path).await, Sse::open(&ada, "/subscribe").await];
    let poll = format!("/channels/{channel}/messages?since=cur_0&wait=30");
    let waiting = tokio::spawn({
        let ada = ada.clone();
        async move { ada.get(&poll).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    // Long polls count too; other keys do not.
    Sse::refused(&ada, &path).await.refused(429, "too_many_streams");
    ada.get(&format!("/channels/{channel}/messages?since=cur_0&wait=1"))
        .await
        .refused(429, "too_many_streams");
    let _bobs = Sse::open(&bob, &path).await;
    count(&ada, "agent.ada", &channel, 0, 1).await;
    waiting.await.unwrap().ok();
    open.push(Sse::open(&ada, &path).await);
    Sse::refused(&ada, &path).await.refused(429, "too_many_streams");
    // A slot is freed once the server notices that the client is gone, because a write fails.
    drop(open);
    let began = Instant::now();
    while ada.get(&format!("/channels/{channel}/messages?since=cur_0&wait=1")).await.status == 429 {
        assert!(began.elapsed() < Duration::from_secs(5), "places of closed streams stay taken");
        count(&bob, "agent.bob", &channel, 1, 1).await;
    }
    world.end().await;
}
