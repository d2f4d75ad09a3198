//! The choice of event types of a stream (OI-11.7): the names, the default of the SDK's agents, and the place of a
//! stream that shows little.

use std::time::Duration;

use super::{live, names, numbers, one_of_everything};
use entente_harness::{Client, Event, Sse, Value, json, send, talk};

/// How long a stream must be silent to show that it has nothing more.
const QUIET: Duration = Duration::from_millis(30);

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_the_sdk_get_the_events_that_they_act_on() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let mut acted_on = Sse::open(&bob, "/agents/agent.bob/subscribe").await;
    let mut all = Sse::open(&bob, "/agents/agent.bob/subscribe?event_types=*").await;
    let mut reference = Sse::open(&bob, "/subscribe/agents/agent.bob").await;
    let path = format!("/intents/{intent}");
    ada.post(&format!("{path}/agents"), json!({ "agent_id": "agent.bob" })).await.ok();
    // Events that clients post under these names assign nobody.
    for kind in ["agent_assigned", "AGENT_ASSIGNED", "note"] {
        let forged = json!({ "event_type": kind, "payload": { "agent_id": "agent.bob" } });
        ada.post(&format!("{path}/events"), forged).await.ok();
    }
    send(&ada, &channel, json!({ "sender": "agent.ada", "to": "agent.bob", "payload": {} })).await;
    let lease = ada.post(&format!("{path}/leases"), json!({ "scope": "a" })).await.ok();
    ada.delete(&format!("{path}/leases/{}", lease["id"].as_str().unwrap())).await;
    ada.seen(&json!(1)).post(&format!("{path}/state"), json!({ "state": { "b": 1 } })).await.ok();
    ada.seen(&json!(2)).post(&format!("{path}/status"), json!({ "status": "active" })).await.ok();
    let said = acted_on.next_few(4).await;
    assert_eq!(names(&said), ["AGENT_ASSIGNED", "LEASE_RELEASED", "STATE_CHANGED", "STATUS_CHANGED"]);
    assert_eq!(said[0].data["role"], "worker", "the server's own event");
    acted_on.silent(QUIET).await;
    let between = ["agent_assigned", "AGENT_ASSIGNED", "note", "channel_message", "lease_acquired"];
    let expected =
        |first: &'static str, last: [&'static str; 3]| [&[first][..], &between[..], &last[..]].concat();
    let sdk = expected("AGENT_ASSIGNED", ["LEASE_RELEASED", "STATE_CHANGED", "STATUS_CHANGED"]);
    assert_eq!(names(&all.next_few(9).await), sdk);
    let plain = expected("agent_assigned", ["lease_released", "state_patched", "status_changed"]);
    assert_eq!(names(&reference.next_few(9).await), plain);
    world.end().await;
}

/// The frames of [`one_of_everything`] that each choice shows, under the reference server's names.
const CHOICES: [(&str, &[&str]); 10] = [
    ("event_types=state_patched,posted:note", &["state_patched", "note"]),
    ("event_types=STATE_CHANGED&event_types=%20status_changed%20,", &["state_patched", "status_changed"]),
    ("event_types=channel_message", &["channel_message", "channel_message"]),
    ("event_types=channel.message,message_read", &["channel_message", "message_read", "channel_message"]),
    ("event_types=channel.*", &["channel_message", "channel_message", "channel.closed"]),
    ("event_types=posted", &["note"]),
    ("event_types=AGENT_ASSIGNED", &["agent_assigned"]),
    ("event_types=*_changed,agent_*", &["status_changed", "agent_assigned"]),
    ("event_types=task.*,comment,posted:no", &[]),
    ("event_types=comment,*", &EVERYTHING),
];

const EVERYTHING: [&str; 8] = [
    "state_patched",
    "status_changed",
    "agent_assigned",
    "note",
    "channel_message",
    "message_read",
    "channel_message",
    "channel.closed",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_stream_shows_the_events_that_are_chosen() {
    let world = live(&[]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let folio = ada.post("/portfolios", json!({ "name": "Q1" })).await.is(200);
    let folio = folio["id"].as_str().unwrap();
    ada.post(&format!("/portfolios/{folio}/intents"), json!({ "intent_id": intent })).await.is(200);
    let mut streams = Vec::new();
    for (query, expected) in CHOICES {
        for path in [
            format!("/subscribe/intents/{intent}"),
            format!("/intents/{intent}/subscribe"),
            format!("/subscribe/portfolios/{folio}"),
            format!("/portfolios/{folio}/subscribe"),
            "/subscribe".to_owned(),
        ] {
            streams.push((
                Sse::open(&ada, &format!("{path}?{query}")).await,
                expected,
                format!("{path}?{query}"),
            ));
        }
    }
    let of_channel = format!("/subscribe/channels/{channel}?event_types=message_read");
    let mut reads = Sse::open(&ada, &of_channel).await;
    one_of_everything(&ada, &bob, &intent, &channel).await;
    for (stream, expected, path) in &mut streams {
        let said: Vec<Event> = stream.next_few(expected.len()).await;
        let plain = |name: &str| match name {
            "STATE_CHANGED" => "state_patched".to_owned(),
            other => other.to_lowercase(),
        };
        let said: Vec<String> = said.iter().map(|event| plain(&event.name)).collect();
        assert_eq!(said, *expected, "{path}");
        stream.silent(QUIET).await;
    }
    assert_eq!(reads.next().await.name, "message_read");
    reads.silent(QUIET).await;
    world.end().await;
}

async fn fault(client: &Client, path: &str) -> Value {
    Sse::refused(client, path).await.refused(422, "invalid_parameter")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_name_is_refused_with_the_known_ones() {
    let world = live(&[]).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    for path in [
        format!("/subscribe/intents/{intent}"),
        format!("/intents/{intent}/subscribe"),
        format!("/channels/{channel}/subscribe"),
        "/subscribe/agents/agent.ada".to_owned(),
        "/agents/agent.ada/subscribe".to_owned(),
        "/subscribe".to_owned(),
    ] {
        let refused = fault(&ada, &format!("{path}?event_types=comment,state_patch")).await;
        let message = refused["message"].as_str().unwrap();
        for part in
            ["`state_patch`", "state_patched", "channel_message", "AGENT_ASSIGNED", "task.*", "posted:TYPE"]
        {
            assert!(message.contains(part), "{path}: {part} is missing in {message}");
        }
        assert_eq!(refused["errors"][0]["loc"], json!(["query", "event_types"]));
    }
    // A name of a known family gets that family.
    let refused = fault(&ada, "/subscribe?event_types=task.complete").await;
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("task.completed") && !message.contains("state_patched"), "{message}");
    // Types of clients are not known: a misspelt one would wait for ever.
    fault(&ada, "/subscribe?event_types=note").await;
    fault(&ada, "/subscribe?event_types=posted:").await;
    let many: Vec<String> = (0..201).map(|n| format!("posted:n{n}")).collect();
    let refused = fault(&ada, &format!("/subscribe?event_types={}", many.join(","))).await;
    assert!(refused["message"].as_str().unwrap().contains("at most 200"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_shows_nothing_tells_where_it_is() {
    let world = live(&[("ENTENTE_PING_SECONDS", "1")]).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let plain = format!("/subscribe/intents/{intent}");
    let sdk = format!("/intents/{intent}/subscribe");
    let of_agent = "/agents/agent.bob/subscribe";
    let mut quiet = Sse::open(&bob, &format!("{plain}?event_types=task.*")).await;
    let mut chosen = Sse::open(&bob, &format!("{sdk}?event_types=task.*")).await;
    let mut agents = Sse::open(&bob, of_agent).await;
    let greeting = quiet.last_id.clone();
    let say = |n: u64| json!({ "sender": "agent.ada", "to": "agent.bob", "payload": { "n": n } });
    let messages: Vec<Value> = (0..300).map(say).collect();
    ada.post(&format!("/channels/{channel}/messages/batch"), json!({ "messages": messages })).await.is(201);
    // The SDK stores ids of events only, so it gets one that its agents know and skip.
    let skipped = agents.next().await;
    assert_eq!(skipped.name, "LEASE_RELEASED");
    assert_eq!(skipped.data, json!({ "intent_id": null, "scope": null, "keepalive": true }));
    let kept = chosen.next().await;
    assert_eq!((kept.name.as_str(), &kept.data), ("keepalive", &json!({})));
    // Other clients store an id without an event.
    quiet.idle(Duration::from_millis(1_500)).await;
    quiet.silent(Duration::from_millis(10)).await;
    assert_ne!(quiet.last_id, greeting, "the place stays behind");
    send(&ada, &channel, say(1_000)).await;
    for (path, last) in [
        (plain, quiet.last_id.clone().unwrap()),
        (sdk, kept.id),
        (format!("{of_agent}?event_types=channel_message"), skipped.id),
    ] {
        let mut resumed = Sse::resume(&bob, &path, Some(&last)).await;
        let first = numbers(&[resumed.next().await])[0];
        // A ping that falls between two reads is at the end of the first of them.
        assert!(first >= 256, "{path}: reads again from {first} on");
    }
    world.end().await;
}
