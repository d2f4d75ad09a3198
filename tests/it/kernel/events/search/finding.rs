//! What is found, in which order, and by whom.

use super::{count, found, index, search};
use entente_harness::jobs::{Hand, id};
use entente_harness::keys::key;
use entente_harness::mcp::{Era, Mcp};
use entente_harness::{Client, Setup, Value, World, json, send, talk};

/// Sends a message with this text.
async fn say(client: &Client, channel: &str, sender: &str, text: &str) -> Value {
    send(client, channel, json!({ "sender": sender, "payload": { "note": text } })).await
}

/// Searches, and how many of the sources of the test they find.
const FOUND: [(&str, usize); 17] = [
    ("billing-api", 1),
    ("api billing", 1),
    ("\"api billing\"", 0),
    ("\"out of memory\"", 1),
    ("billing.api", 1),
    ("deploy -failed", 2),
    ("overload or überlastung", 1),
    ("ÜBERLASTUNG", 1),
    ("naïvely", 1),
    ("eu-west-1", 1),
    ("ops-4711", 1),
    ("echo", 1),
    ("sentinel", 1),
    ("memo", 0),
    ("note", 0),
    ("-deploy memory", 0),
    ("agent.ada deploy", 2),
];

#[tokio::test]
async fn words_are_found_in_messages_events_and_jobs() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let message =
        say(&ada, &channel, "agent.ada", "The Deploy of billing-api FAILED, naïvely: out of memory").await;
    world.clock.advance(1);
    let event = json!({ "event_type": "deploy.halted", "payload": { "why": ["Überlastung", { "node": "eu-west-1" }] } });
    let event = ada.post(&format!("/intents/{intent}/events"), event).await.ok();
    world.clock.advance(1);
    let hand = Hand::of(&ada, "echo@1.0.0").await;
    let body = json!({ "agent": "echo", "input": { "task": "deploy the sentinel" }, "labels": { "ticket": "OPS-4711" } });
    let job = id(&ada.post("/jobs", body).await.is(201)).to_owned();
    index(&world).await;
    let kinds =
        |hits: &[Value]| hits.iter().map(|hit| hit["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    // Newest first.
    let hits = found(&ada, "deploy").await;
    assert_eq!(kinds(&hits), ["job", "event", "message"]);
    assert_eq!(
        (&hits[0]["job_id"], &hits[0]["type"], &hits[0]["agent"]),
        (&json!(job), &json!("pending"), &json!("echo@1.0.0"))
    );
    assert_eq!((&hits[1]["event_id"], &hits[1]["type"]), (&event["id"], &json!("deploy.halted")));
    assert_eq!(
        (&hits[2]["message_id"], &hits[2]["channel_id"], &hits[2]["intent_id"]),
        (&message["id"], &json!(channel), &json!(intent))
    );
    assert_eq!(hits[2]["at"], message["created_at"]);
    assert_eq!(hits[2]["excerpt"], "The Deploy of billing-api FAILED, naïvely: out of memory");
    for (words, expected) in FOUND {
        assert_eq!(count(&ada, words).await, expected, "{words}");
    }
    // The end of a job adds its error.
    let held = hand.one().await;
    let error = json!({ "message": "the flux capacitor leaks" });
    hand.tell(&held, "error", error).await.ok();
    index(&world).await;
    let hits = found(&ada, "\"flux capacitor\"").await;
    assert_eq!((kinds(&hits), &hits[0]["type"]), (vec!["job".to_owned()], &json!("error")));
    assert_eq!(count(&ada, "sentinel flux").await, 1, "input and error are of one document");
    // Filters.
    let of = async |more: &str| {
        let answer = search(&ada, &format!("q=deploy&{more}")).await.ok();
        kinds(answer["results"].as_array().unwrap())
    };
    assert_eq!(of("kinds=message,job").await, ["job", "message"]);
    assert_eq!(of(&format!("intent_id={intent}")).await, ["event", "message"]);
    let middle = event["created_at"].as_str().unwrap();
    assert_eq!(of(&format!("since={middle}")).await, ["job"]);
    assert_eq!(of(&format!("until={middle}")).await, ["message"]);
    // MCP has the same.
    let told =
        Mcp::new(&ada, Era::Stateless).ok("search", json!({ "q": "billing", "kinds": "message" })).await;
    assert_eq!(told["results"][0]["message_id"], message["id"]);
    world.end().await;
}

#[tokio::test]
async fn a_search_that_means_nothing_is_refused() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    for (query, code) in [
        ("kinds=message", "invalid_request"),
        ("q=-x", "invalid_request"),
        ("q=%22%22", "invalid_request"),
        ("q=x&kinds=letters", "invalid_request"),
        ("q=x&cursor=cur_1", "invalid_request"),
        ("q=x&limit=101", "invalid_parameter"),
        ("q=x&limit=0", "invalid_parameter"),
        ("q=x&since=soon", "invalid_parameter"),
    ] {
        search(&ada, query).await.refused(422, code);
    }
    search(&ada, "q=x&intent_id=intent_01ARZ3NDEKTSV4RRFFQ69G5FAV").await.refused(404, "not_found");
    let off = World::with(Setup { settings: vec![("ENTENTE_SEARCH", "false")], live: false }).await;
    let text = search(&off.agent("agent.ada").await, "q=x").await.refused(422, "unprocessable");
    assert!(text.to_string().contains("ENTENTE_SEARCH"), "{text}");
    off.end().await;
    world.end().await;
}

#[tokio::test]
async fn nobody_finds_what_they_cannot_read() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (eve, admin) = (world.agent("agent.eve").await, world.admin().await);
    // A closed intent, with bob as a member.
    let (intent, channel) = talk(&ada, json!({})).await;
    let acl = json!({ "default_policy": "closed", "entries": [{ "principal_id": "agent.bob", "permission": "read" }] });
    ada.put(&format!("/intents/{intent}/acl"), acl).await.ok();
    say(&ada, &channel, "agent.ada", "zebra in the closed intent").await;
    let event = json!({ "event_type": "note", "payload": { "zebra": "zebra" } });
    ada.post(&format!("/intents/{intent}/events"), event).await.ok();
    // An open intent with a private channel, and a message to one agent on an open channel.
    let (open, _) = talk(&ada, json!({})).await;
    let private =
        json!({ "name": "private", "member_policy": "explicit", "members": ["agent.ada", "agent.bob"] });
    let private = ada.post(&format!("/intents/{open}/channels"), private).await.is(201);
    let private = private["id"].as_str().unwrap().to_owned();
    say(&ada, &private, "agent.ada", "okapi in private").await;
    say(&bob, &private, "agent.bob", "okapi of bob in private").await;
    let public = ada.post(&format!("/intents/{open}/channels"), json!({ "name": "public" })).await.is(201);
    let public = public["id"].as_str().unwrap().to_owned();
    let direct = json!({ "sender": "agent.ada", "to": "agent.bob", "payload": { "note": "tapir for bob" } });
    send(&ada, &public, direct).await;
    // A job.
    let body = json!({ "agent": "echo", "input": "quagga", "labels": { "beast": "quokka" } });
    Hand::of(&world.any(), "echo@1.0.0").await;
    ada.post("/jobs", body).await.is(201);
    index(&world).await;
    let counts = async |words: &str| {
        let mut counts = Vec::new();
        for client in [&ada, &bob, &eve] {
            counts.push(count(client, words).await);
        }
        counts
    };
    assert_eq!(counts("zebra").await, [2, 2, 0]);
    assert_eq!(counts("okapi").await, [2, 2, 0]);
    assert_eq!(counts("tapir").await, [1, 1, 0]);
    assert_eq!(counts("quagga").await, [1, 0, 0], "the input is its own principal's");
    assert_eq!(counts("quokka").await, [1, 0, 0]);
    // An operator's key finds others' jobs by what it can read of them, and the system log.
    assert_eq!((count(&admin, "quokka").await, count(&admin, "quagga").await), (1, 0));
    assert_eq!(count(&admin, "quokka -quagga").await, 1, "nor does it learn what the input has not");
    assert!(count(&admin, "agent eve").await > 0 || count(&admin, "principal created").await > 0);
    assert_eq!(counts("\"key created\"").await, [0, 0, 0], "others find nothing in the system log");
    search(&eve, &format!("q=zebra&intent_id={intent}")).await.refused(403, "access_closed");
    // Who leaves a channel or an intent finds nothing there any more, not even their own words.
    ada.patch(&format!("/channels/{private}"), json!({ "members": ["agent.ada"] })).await.ok();
    assert_eq!(counts("okapi").await, [2, 0, 0]);
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    assert_eq!(counts("zebra").await, [2, 0, 0]);
    world.end().await;
}

#[tokio::test]
async fn expired_and_evicted_messages_are_not_found() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({ "options": { "max_messages": 10 } })).await;
    let end = entente_domain::clock::rfc3339(entente_domain::clock::plus_seconds(
        entente_domain::clock::Clock::now(&*world.clock),
        60,
    ));
    let brief = json!({ "sender": "agent.ada", "payload": { "note": "ephemeral" }, "expires_at": end });
    send(&ada, &channel, brief).await;
    index(&world).await;
    assert_eq!((count(&ada, "ephemeral").await, count(&bob, "ephemeral").await), (1, 1));
    world.clock.advance(61);
    assert_eq!(
        (count(&ada, "ephemeral").await, count(&bob, "ephemeral").await),
        (1, 0),
        "as in the channel's list"
    );
    for _ in 0..10 {
        say(&ada, &channel, "agent.ada", "another").await;
    }
    index(&world).await;
    assert_eq!(
        (count(&ada, "ephemeral").await, count(&ada, "another").await),
        (0, 10),
        "beyond the channel's limit"
    );
    world.end().await;
}

#[tokio::test]
async fn a_key_without_the_scope_finds_no_such_kind() {
    let world = World::start().await;
    let (ada, admin) = (world.agent("agent.ada").await, world.admin().await);
    let (intent, channel) = talk(&ada, json!({})).await;
    say(&ada, &channel, "agent.ada", "needle").await;
    let event = json!({ "event_type": "note", "payload": { "text": "needle" } });
    ada.post(&format!("/intents/{intent}/events"), event).await.ok();
    index(&world).await;
    let weak = key(&world, &admin, "agent.ada", json!({ "label": "events", "scopes": ["intents:read"] }))
        .await
        .client;
    let hits = found(&weak, "needle").await;
    assert_eq!((hits.len(), &hits[0]["kind"]), (1, &json!("event")));
    search(&weak, "q=needle&kinds=message").await.refused(403, "scope_missing");
    world.end().await;
}

#[tokio::test]
async fn pages_have_neither_gaps_nor_repetitions() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({})).await;
    // Many of the same instant, most of them for somebody else.
    let mut expected = Vec::new();
    for n in 0..90_u32 {
        let to = if n % 3 == 0 { "*" } else { "agent.carl" };
        let message =
            json!({ "sender": "agent.ada", "to": to, "payload": { "note": format!("needle {n}") } });
        let message = send(&ada, &channel, message).await;
        if n % 3 == 0 {
            expected.insert(0, message["id"].as_str().unwrap().to_owned());
        }
        if n % 20 == 0 {
            world.clock.advance(1);
        }
    }
    index(&world).await;
    let (mut got, mut cursor) = (Vec::new(), String::new());
    loop {
        let answer = search(&bob, &format!("q=needle&limit=7{cursor}")).await.ok();
        let page = answer["results"].as_array().unwrap();
        got.extend(page.iter().map(|hit| hit["message_id"].as_str().unwrap().to_owned()));
        let Some(next) = answer["next_cursor"].as_str() else { break };
        assert_eq!(page.len(), 7, "those of others leave no page short");
        cursor = format!("&cursor={next}");
        // What comes later is on no later page.
        say(&ada, &channel, "agent.ada", "needle, later").await;
        index(&world).await;
    }
    assert_eq!(got, expected);
    world.end().await;
}
