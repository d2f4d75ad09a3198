//! Sessions of agents: from when a later one is opened on, no write of an earlier one takes effect, by whichever way it comes
//! and on whichever server.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use entente_harness::cli::told;
use entente_harness::governance::governed;
use entente_harness::jobs::Hand;
use entente_harness::mcp::{Era, Mcp};
use entente_harness::{Client, Value, World, json};

/// Opens a session of `agent`, and returns its epoch.
pub(super) async fn open(client: &Client, agent: &str) -> i64 {
    let opened = client.post(&format!("/agents/{agent}/sessions"), json!({})).await.is(201);
    opened["epoch"].as_i64().unwrap()
}

/// Returns the client in the session of this epoch.
fn within(client: &Client, epoch: i64) -> Client {
    client.with("entente-epoch", &epoch.to_string())
}

/// An intent of the agent with a channel; returns the intent's id and the path of the channel's messages.
pub(super) async fn channel(client: &Client) -> (String, String) {
    let intent = governed(client, json!({})).await;
    let opened = client.post(&format!("/intents/{intent}/channels"), json!({ "name": "main" })).await.is(201);
    let path = format!("/channels/{}/messages", opened["id"].as_str().unwrap());
    (intent, path)
}

/// A write: its method, path and body.
pub(super) type Write = (&'static str, String, Value);

/// Writes of agent.ada of every sort, each of which succeeds once, in this order; the first one sends a message.
pub(super) async fn writes(ada: &Client) -> Vec<Write> {
    let (intent, messages) = channel(ada).await;
    let hand = Hand::of(ada, "echo@1").await;
    ada.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let job = hand.one().await;
    let job_path = format!("/jobs/{}", job["job_id"].as_str().unwrap());
    let token = job["claim_token"].clone();
    let lease =
        ada.post(&format!("/intents/{intent}/leases"), json!({ "scope": "a", "duration_seconds": 60 })).await;
    let lease = lease.json()["id"].as_str().unwrap().to_owned();
    let events = json!([{ "kind": "log", "body": { "level": "info", "message": "m" } }]);
    let memory = json!({ "namespace": "n", "key": "k", "value": { "a": 1 }, "memory_type": "episodic" });
    let beat = json!({ "jobs": [{ "job_id": job["job_id"], "claim_token": token }] });
    let sent = json!([{ "channel_id": messages.split('/').nth(2), "payload": { "n": 2 } }]);
    vec![
        ("POST", messages, json!({ "sender": "agent.ada", "payload": { "n": 1 } })),
        ("POST", format!("/intents/{intent}/events"), json!({ "event_type": "note", "payload": {} })),
        ("POST", "/intents".to_owned(), json!({ "title": "another" })),
        ("POST", format!("/intents/{intent}/tasks"), json!({ "name": "t" })),
        ("POST", format!("/intents/{intent}/channels"), json!({ "name": "second" })),
        ("POST", format!("/intents/{intent}/leases"), json!({ "scope": "b", "duration_seconds": 60 })),
        ("PATCH", format!("/intents/{intent}/leases/{lease}"), json!({ "duration_seconds": 90 })),
        (
            "POST",
            format!("/intents/{intent}/costs"),
            json!({ "cost_type": "tokens", "amount": 1, "unit": "tokens" }),
        ),
        ("POST", "/memory".to_owned(), memory),
        ("POST", "/jobs".to_owned(), json!({ "agent": "echo" })),
        ("POST", "/jobs/claim".to_owned(), json!({ "worker_id": hand.id, "max": 1 })),
        ("POST", "/workers".to_owned(), json!({ "name": "w", "agents": ["echo@1"], "slots": 1 })),
        ("POST", format!("/workers/{}/heartbeat", hand.id), beat),
        ("POST", format!("{job_path}/events"), json!({ "claim_token": token, "events": events })),
        ("POST", format!("{job_path}/result"), json!({ "claim_token": token, "result": 1 })),
        ("POST", "/turn".to_owned(), json!({ "messages": sent })),
        ("POST", "/agents/agent.ada/sessions".to_owned(), json!({})),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn no_way_of_writing_is_open_to_an_earlier_session() {
    let (one, other) = World::two().await;
    let (ada, there) = (one.agent("agent.ada").await, other.agent("agent.ada").await);
    let writes = writes(&ada).await;
    let messages = writes[0].1.clone();
    let (first, second) = (open(&ada, "agent.ada").await, open(&there, "agent.ada").await);
    assert_eq!((first, second), (1, 2));
    for (method, path, body) in writes {
        for client in [&ada, &there] {
            let refused = within(client, first).send(method, &path, Some(body.to_string())).await;
            let fault = refused.refused(409, "stale_epoch");
            assert!(fault["detail"].as_str().unwrap().starts_with("Epoch 1 of agent.ada"), "{path}: {fault}");
        }
        let done = within(&ada, second).send(method, &path, Some(body.to_string())).await;
        assert!((200..300).contains(&done.status), "{path}: {} {}", done.status, done.text);
    }
    let batch = json!({ "messages": [{ "sender": "agent.ada", "payload": {} }, { "sender": "agent.ada", "payload": {} }] });
    let refused = within(&there, first).post(&format!("{messages}/batch"), batch).await.is(207);
    assert!(refused["results"].as_array().unwrap().iter().all(|one| one["error"]["code"] == "stale_epoch"));
    // Opening, the last of them, made a third; one that was never opened is as stale as one that is over.
    within(&ada, 7).post("/intents", json!({ "title": "x" })).await.refused(409, "stale_epoch");
    within(&ada, 3).post("/intents", json!({ "title": "x" })).await.ok();
    ada.with("entente-epoch", "soon").post("/intents", json!({})).await.refused(422, "invalid_parameter");
    // Reading is free, and so is writing without an epoch.
    within(&ada, first).get(&messages).await.ok();
    ada.post(&messages, json!({ "sender": "agent.ada", "payload": {} })).await.is(201);
    other.end().await;
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_agent_names_its_epoch_on_every_server() {
    let (one, other) = World::two().await;
    let (ada, there) = (one.agent("agent.ada").await, other.agent("agent.ada").await);
    let (_, messages) = channel(&ada).await;
    let notify = json!({ "sender": "agent.ada", "payload": {} });
    let opened = ada.post("/agents/agent.ada/sessions", json!({ "strict": true })).await.is(201);
    assert_eq!((&opened["epoch"], &opened["strict"]), (&json!(1), &json!(true)));
    ada.post(&messages, notify.clone()).await.refused(428, "epoch_required");
    let began = Instant::now();
    while there.post(&messages, notify.clone()).await.status == 201 {
        assert!(began.elapsed() < Duration::from_secs(5), "another server never hears of it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    there.post("/intents", json!({ "title": "x" })).await.refused(428, "epoch_required");
    within(&there, 1).post(&messages, notify.clone()).await.is(201);
    // A key that may act as any agent is no way around it; it can name the agent and its epoch.
    let any = one.any();
    any.post(&messages, notify.clone()).await.refused(428, "epoch_required");
    within(&any.acting_as("agent.ada"), 1).post(&messages, notify.clone()).await.is(201);
    // A new process opens its session without one, and may end the strictness.
    assert_eq!(open(&there, "agent.ada").await, 2);
    assert_eq!(ada.get("/agents/agent.ada/sessions").await.ok()["strict"], true);
    ada.post(&messages, notify.clone()).await.refused(428, "epoch_required");
    ada.post("/agents/agent.ada/sessions", json!({ "strict": false })).await.is(201);
    ada.post(&messages, notify).await.is(201);
    other.end().await;
    one.end().await;
}

/// The library handles a tool in another task than the HTTP request's.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_writes_in_the_session_that_its_request_names() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, messages) = channel(&ada).await;
    let channel = messages.split('/').nth(2).unwrap();
    let first = open(&ada, "agent.ada").await;
    let second = open(&ada, "agent.ada").await;
    for era in [Era::Handshake, Era::Stateless] {
        let say = json!({ "channel": channel, "payload": { "n": 1 } });
        let stale = Mcp::new(&within(&ada, first), era);
        stale.refused("send_message", say.clone(), "stale_epoch").await;
        stale.refused("create_intent", json!({ "title": "x" }), "stale_epoch").await;
        Mcp::new(&within(&ada, second), era).ok("send_message", say).await;
    }
    assert_eq!(ada.get(&messages).await.ok().as_array().unwrap().len(), 2);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_opened_by_those_who_act_as_the_agent_once_per_request() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    ada.get("/agents/agent.ada/sessions").await.refused(404, "not_found");
    bob.post("/agents/agent.ada/sessions", json!({})).await.refused(403, "may_not_act_as");
    bob.get("/agents/agent.ada/sessions").await.refused(403, "may_not_act_as");
    // A repeated request gets the same session, and no later one.
    for _ in 0..3 {
        let opened = ada.once("start-1").post("/agents/agent.ada/sessions", json!({})).await.is(201);
        assert_eq!(opened["epoch"], 1);
    }
    ada.once("start-2").post("/agents/agent.ada/sessions", json!({ "strict": false })).await.is(201);
    ada.once("start-2").post("/agents/agent.ada/sessions", json!({ "strict": false })).await.is(201);
    assert_eq!(ada.get("/agents/agent.ada/sessions").await.ok()["epoch"], 2);
    // With an epoch, it is a comparison and a step: of many at once, one succeeds.
    let racers: Vec<Client> = (0..8).map(|_| within(&ada, 2)).collect();
    let opened = join_all(racers.iter().map(|one| one.post("/agents/agent.ada/sessions", json!({})))).await;
    assert_eq!(opened.iter().filter(|reply| reply.status == 201).count(), 1);
    assert!(
        opened.iter().filter(|reply| reply.status != 201).all(|reply| reply.json()["code"] == "stale_epoch")
    );
    // An agent without a session has no epoch to name.
    within(&bob, 1).post("/intents", json!({ "title": "x" })).await.refused(409, "stale_epoch");
    within(&bob, 1).post("/agents/agent.bob/sessions", json!({})).await.refused(409, "stale_epoch");
    // The command line opens one too, and writes in it.
    let key = "key-of-agent.ada";
    let opened = told(&world, key, &["agent", "session", "agent.ada"]).await;
    let latest = opened["epoch"].as_i64().unwrap();
    assert_eq!(ada.get("/agents/agent.ada/sessions").await.ok()["epoch"], latest);
    told(&world, key, &["agent", "register", "agent.ada", "--epoch", &latest.to_string()]).await;
    // Opening is on record if it changes who has to name an epoch.
    let count = "SELECT count(*) FROM events WHERE event_type = 'agent.session_opened'";
    let count: i64 = sqlx::query_scalar(count).fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(count, 1);
    world.end().await;
}
