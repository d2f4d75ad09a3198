//! The quota of stored bytes: messages, envelopes, log lines and jobs count for the principal of the key, are counted behind the
//! writes, and bar its writes on every door and every server until something is deleted or the quota is raised.

use entente::background::inboxes;

use entente_harness::envelopes::{task_envelope, with};
use entente_harness::jobs::{Hand, id};
use entente_harness::keys::key;
use entente_harness::mcp::{Era, Mcp};
use entente_harness::{Client, Setup, Value, World, json, talk};

use super::{limit, of, quotas, until};

/// Returns a message with a payload of so many bytes.
fn message(sender: &str, bytes: usize) -> Value {
    let frame = json!({ "text": "" }).to_string().len();
    json!({ "sender": sender, "payload": { "text": "x".repeat(bytes - frame) } })
}

async fn send(client: &Client, channel: &str, bytes: usize) {
    client.post(&format!("/channels/{channel}/messages"), message("agent.ada", bytes)).await.is(201);
}

/// Counts what is stored, once the last count is old enough, and returns the bytes of a principal or a team.
async fn counted(world: &World, admin: &Client, whose: &str) -> u64 {
    world.pass(60).await;
    quotas(admin, whose).await["storage_bytes"]["used"].as_u64().unwrap()
}

/// Returns the bytes of all payloads that are stored.
async fn stored(world: &World) -> u64 {
    let text = "SELECT sum(octet_length(payload)) FROM messages";
    let sum: i64 = sqlx::query_scalar(text).fetch_one(&world.ctx().pool).await.unwrap();
    sum.unsigned_abs()
}

/// Asserts a refusal because of a full quota, and returns its message.
#[track_caller]
fn full(refused: &entente_harness::Reply) -> String {
    refused.refused(403, "storage_full")["message"].as_str().unwrap().to_owned()
}

/// Asserts that every other way to send a message is barred.
async fn bars_everywhere(client: &Client, intent: &str, channel: &str) {
    let (path, small) = (format!("/channels/{channel}/messages"), message("agent.ada", 20));
    full(&client.acting_as("agent.ada.7").post(&path, message("agent.ada.7", 20)).await);
    full(&client.post(&format!("/intents/{intent}/channels/other/messages"), small.clone()).await);
    let batch = client.post(&format!("{path}/batch"), json!({ "messages": [small] })).await;
    assert!(batch.text.contains("storage_full"), "{}", batch.text);
    let ask = json!({ "sender": "agent.ada", "to": "agent.bob", "payload": {}, "timeout": 1 });
    full(&client.post(&format!("/channels/{channel}/ask"), ask).await);
    let turn = client.post("/turn", json!({ "messages": [{ "channel_id": channel, "payload": {} }] })).await;
    assert!(turn.status == 403 && turn.text.contains("storage_full"), "{}", turn.text);
    let mcp = Mcp::new(client, Era::Stateless);
    let sent = mcp.call("send_message", json!({ "channel": channel, "payload": {} })).await;
    assert!(sent["isError"] == true && sent.to_string().contains("storage_full"), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stores_too_much_sends_nothing_more_until_something_is_deleted() {
    let world = World::start().await;
    let admin = world.admin().await;
    let (ada, other) = (of(&world, &admin, "agent.ada").await, of(&world, &admin, "agent.ada").await);
    let bob = of(&world, &admin, "agent.bob").await.client;
    let (intent, channel) = talk(&ada.client, json!({})).await;
    let path = format!("/channels/{channel}/messages");
    let first = ada.client.once("first").post(&path, message("agent.ada", 600)).await.is(201);
    assert_eq!(
        quotas(&admin, "principals/agent.ada").await["storage_bytes"]["used"],
        Value::Null,
        "no quota"
    );
    limit(&admin, "principals/agent.ada", json!({ "storage_bytes": 1_000 })).await;
    assert_eq!(counted(&world, &admin, "principals/agent.ada").await, 600);
    // It is counted behind the writes: what comes in between is over.
    send(&ada.client, &channel, 500).await;
    send(&ada.client, &channel, 500).await;
    assert_eq!(counted(&world, &admin, "principals/agent.ada").await, 1_600);
    let small = message("agent.ada", 20);
    for client in [&ada.client, &other.client] {
        let message = full(&client.post(&path, small.clone()).await);
        assert!(
            message.contains("principal:agent.ada stores 1600 bytes, and its quota is 1000"),
            "{message}"
        );
        assert!(
            message.contains("Delete channels")
                && message.contains("PUT /api/v1/principals/agent.ada/quotas")
        );
    }
    bars_everywhere(&ada.client, &intent, &channel).await;
    // A retry of what is stored is answered; reading, and what stores little, goes on; so do the others.
    let again = ada.client.once("first").post(&path, message("agent.ada", 600)).await;
    assert_eq!(again.is(201)["id"], first["id"]);
    ada.client.get(&path).await.ok();
    ada.client.post("/intents", json!({ "title": "more" })).await.ok();
    bob.post(&path, message("agent.bob", 20)).await.is(201);
    let me = admin.get("/principals/me").await.ok()["principal_id"].as_str().unwrap().to_owned();
    limit(&admin, &format!("principals/{me}"), json!({ "storage_bytes": 1 })).await;
    admin.post(&path, message("agent.ada", 30)).await.is(201);
    assert_eq!(counted(&world, &admin, &format!("principals/{me}")).await, 30, "it is the key's principal's");
    admin.post(&path, message(&me, 30)).await.is(201);
    let metrics = admin.get("//metrics").await;
    assert!(metrics.text.contains("entente_quota_refusals_total{quota=\"storage\"}"));
    // A higher quota helps at once, as does none.
    limit(&admin, "principals/agent.ada", json!({ "storage_bytes": 2_000 })).await;
    send(&ada.client, &channel, 400).await;
    assert_eq!(counted(&world, &admin, "principals/agent.ada").await, 2_000);
    full(&ada.client.post(&path, small.clone()).await);
    limit(&admin, "principals/agent.ada", json!({ "storage_bytes": 0 })).await;
    ada.client.post(&path, small.clone()).await.is(201);
    limit(&admin, "principals/agent.ada", json!({ "storage_bytes": 1_000 })).await;
    full(&ada.client.post(&path, small.clone()).await);
    // What is deleted is free.
    ada.client.delete(&format!("/channels/{channel}")).await.ok();
    // The inbox that the turn has opened reads what is deleted before it goes.
    inboxes::catch_up(world.ctx()).await.unwrap();
    world.sweep().await;
    assert_eq!(counted(&world, &admin, "principals/agent.ada").await, 0);
    ada.client.post(&format!("/intents/{intent}/channels/new/messages"), small).await.is(201);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_key_sends_for_its_agents_counts_for_its_principal() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = of(&world, &admin, "agent.ada").await.client;
    let (_, channel) = talk(&ada, json!({})).await;
    let path = format!("/channels/{channel}/messages");
    limit(&admin, "principals/agent.ada", json!({ "storage_bytes": 10_000 })).await;
    ada.acting_as("agent.ada.new").post(&path, message("agent.ada.new", 100)).await.is(201);
    let registration = json!({ "agent_id": "agent.ada.known", "capabilities": [] });
    ada.acting_as("agent.ada.known").post("/agents", registration).await.is(201);
    ada.acting_as("agent.ada.known").post(&path, message("agent.ada.known", 200)).await.is(201);
    // As the release before writes it.
    sqlx::query("UPDATE messages SET principal_id = NULL WHERE sender = 'agent.ada.known'")
        .execute(&world.ctx().pool)
        .await
        .unwrap();
    let metadata = json!({ "sender": "agent.ada", "payload": {}, "metadata": { "k": "v" } });
    ada.post(&path, metadata).await.is(201);
    assert_eq!(counted(&world, &admin, "principals/agent.ada").await, 300 + 2 + 9);
    // A second key may not act as them, and stores for itself.
    let any = key(&world, &admin, "service.relay", json!({ "act_as": ["agent.ada.*"] })).await.client;
    any.acting_as("agent.ada.new").post(&path, message("agent.ada.new", 50)).await.is(201);
    assert_eq!(counted(&world, &admin, "principals/agent.ada").await, 311);
    assert_eq!(counted(&world, &admin, "principals/service.relay").await, 50);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_stores_what_its_members_store() {
    let world = World::start().await;
    let admin = world.admin().await;
    let (ada, bob) =
        (of(&world, &admin, "agent.ada").await.client, of(&world, &admin, "agent.bob").await.client);
    let carl = of(&world, &admin, "agent.carl").await.client;
    let (_, channel) = talk(&ada, json!({})).await;
    let path = format!("/channels/{channel}/messages");
    admin.put("/teams/red", json!({ "members": ["agent.ada", "agent.bob"] })).await.ok();
    limit(&admin, "teams/red", json!({ "storage_bytes": 1_000 })).await;
    ada.post(&path, message("agent.ada", 700)).await.is(201);
    carl.post(&path, message("agent.carl", 5_000)).await.is(201);
    assert_eq!(counted(&world, &admin, "teams/red").await, 700);
    bob.post(&path, message("agent.bob", 300)).await.is(201);
    assert_eq!(counted(&world, &admin, "teams/red").await, 1_000);
    for (client, sender) in [(&ada, "agent.ada"), (&bob, "agent.bob")] {
        let message = full(&client.post(&path, message(sender, 20)).await);
        assert!(message.contains("team:red stores 1000 bytes, and its quota is 1000"), "{message}");
        assert!(message.contains("PUT /api/v1/teams/red/quotas"), "{message}");
    }
    carl.post(&path, message("agent.carl", 20)).await.is(201);
    assert_eq!(quotas(&bob, "principals/me").await["storage_bytes"]["used"], 300, "a view of one's own");
    // Members that come and go take theirs along, at once.
    admin.put("/teams/red", json!({ "members": ["agent.bob", "agent.carl"] })).await.ok();
    ada.post(&path, message("agent.ada", 20)).await.is(201);
    full(&carl.post(&path, message("agent.carl", 20)).await);
    admin.put("/teams/red", json!({ "members": ["agent.bob"] })).await.ok();
    bob.post(&path, message("agent.bob", 20)).await.is(201);
    carl.post(&path, message("agent.carl", 20)).await.is(201);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn envelopes_and_log_lines_count_until_their_retention() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = of(&world, &admin, "agent.ada").await.client;
    let bob = of(&world, &admin, "agent.bob").await.client;
    limit(&admin, "principals/agent.ada", json!({ "storage_bytes": 3_000 })).await;
    let more = json!({ "payload": { "text": "x".repeat(2_000) } });
    let envelope = with(task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob")), more).to_string();
    let post = async |client: &Client, body: &str| {
        client.send("POST", "/aee/envelopes", Some(body.to_owned())).await
    };
    post(&ada, &envelope).await.ok();
    let line = r#"{"v":"1","id":"line-00001","type":"event","from":"agent.ada","intent":"ops.log"}"#;
    ada.send("POST", "/aee/logs", Some(format!("{line}\n{line}"))).await.ok();
    let size = (envelope.len() + 2 * line.len()) as u64;
    assert_eq!(counted(&world, &admin, "principals/agent.ada").await, size);
    // In the same second, and in another hour.
    let later = task_envelope(&world, "envelope-2", ("agent.ada", "agent.bob")).to_string();
    post(&ada, &later).await.ok();
    world.pass(2 * 3_600).await;
    let last = task_envelope(&world, "envelope-3", ("agent.ada", "agent.bob")).to_string();
    post(&ada, &last).await.ok();
    let size = size + (later.len() + last.len()) as u64;
    assert_eq!(counted(&world, &admin, "principals/agent.ada").await, size);
    let filling = with(
        task_envelope(&world, "envelope-4", ("agent.ada", "agent.bob")),
        json!({ "payload": { "text": "x".repeat(1_000) } }),
    );
    post(&ada, &filling.to_string()).await.ok();
    world.pass(60).await;
    let next = task_envelope(&world, "envelope-5", ("agent.ada", "agent.bob")).to_string();
    full(&post(&ada, &next).await);
    full(&ada.send("POST", "/aee/logs", Some(line.to_owned())).await);
    let mcp = Mcp::new(&ada, Era::Stateless);
    let envelope_5: Value = serde_json::from_str(&next).unwrap();
    let sent = mcp.call("send_envelope", json!({ "envelope": envelope_5 })).await;
    assert!(sent.to_string().contains("storage_full"), "{sent}");
    // A retry has its receipt; whoever answers pays for the answer.
    let again = post(&ada, &filling.to_string()).await.refused(409, "duplicate_id");
    assert_eq!(again["receipt"]["id"], "envelope-4");
    let reply = with(
        task_envelope(&world, "envelope-6", ("agent.bob", "agent.ada")),
        json!({ "type": "result", "reply_to": "envelope-4" }),
    );
    post(&bob, &reply.to_string()).await.ok();
    // After thirty days all are gone.
    world.pass(31 * 24 * 3_600).await;
    assert_eq!(counted(&world, &admin, "principals/agent.ada").await, 0);
    let fresh = task_envelope(&world, "envelope-7", ("agent.ada", "agent.bob")).to_string();
    post(&ada, &fresh).await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_counts_for_its_submitter_with_all_that_comes_of_it() {
    let settings = vec![("ENTENTE_JOB_RETENTION_DAYS", "1")];
    let world = World::with(Setup { settings, live: false }).await;
    let admin = world.admin().await;
    let ada = of(&world, &admin, "agent.ada").await.client;
    let hand = Hand::of(&world.any(), "echo@1").await;
    limit(&admin, "principals/agent.ada", json!({ "storage_bytes": 1_000 })).await;
    let input = json!({ "text": "x".repeat(400) });
    let ask = json!({ "agent": "echo", "input": input, "idempotency_key": "once" });
    let made = ada.acting_as("agent.ada.7").post("/jobs", ask.clone()).await.is(201);
    assert_eq!(counted(&world, &admin, "principals/agent.ada").await, input.to_string().len() as u64);
    let job = hand.one().await;
    let event = json!({ "kind": "log", "body": { "level": "info", "message": "x".repeat(700) } });
    hand.events(&job, json!([event])).await.ok();
    for _ in 0..3 {
        world.clock.advance(20);
        hand.beat(&[&job]).await;
    }
    world.sweep().await;
    let used = quotas(&admin, "principals/agent.ada").await["storage_bytes"]["used"].as_u64().unwrap();
    assert!(used > 1_100, "{used}");
    let refused = ada.post("/jobs", json!({ "agent": "echo" })).await.refused(403, "PERMISSION_DENIED");
    assert!(refused["message"].as_str().unwrap().contains("its quota is 1000"), "{refused}");
    let again = ada.acting_as("agent.ada.7").post("/jobs", ask).await.ok();
    assert_eq!(again["job_id"], made["job_id"], "a retry");
    // What is at work may end, and others submit.
    hand.tell(&job, "result", json!({ "result": { "text": "y".repeat(100) } })).await.ok();
    world.agent("agent.client").await.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let other = hand.one().await;
    hand.tell(&other, "result", json!({ "result": {} })).await.ok();
    ada.get(&format!("/jobs/{}", id(&job))).await.refused(404, "JOB_NOT_FOUND");
    ada.acting_as("agent.ada.7").get(&format!("/jobs/{}", id(&job))).await.ok();
    world.pass(2 * 24 * 3_600).await;
    assert_eq!(counted(&world, &admin, "principals/agent.ada").await, 0, "its retention is over");
    ada.post("/jobs", json!({ "agent": "echo" })).await.is(201);
    let hand = Hand::again(&world.any(), "echo@1").await;
    let last = hand.one().await;
    hand.tell(&last, "result", json!({ "result": {} })).await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_channel_evicts_is_free_and_many_channels_are_counted_in_steps() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = of(&world, &admin, "agent.ada").await.client;
    limit(&admin, "principals/agent.ada", json!({ "storage_bytes": 1_000_000 })).await;
    let (intent, channel) = talk(&ada, json!({ "options": { "max_messages": 2 } })).await;
    for _ in 0..5 {
        send(&ada, &channel, 300).await;
    }
    assert_eq!(counted(&world, &admin, "principals/agent.ada").await, 600);
    // More channels than one step takes.
    for turn in 0..13 {
        let sends = (0..40).map(|n| {
            let path = format!("/intents/{intent}/channels/c-{turn}-{n}/messages");
            let ada = &ada;
            async move { ada.post(&path, message("agent.ada", 100)).await.is(201) }
        });
        futures_util::future::join_all(sends).await;
    }
    assert_eq!(counted(&world, &admin, "principals/agent.ada").await, 600 + 520 * 100);
    send(&ada, &channel, 500).await;
    ada.post(&format!("/intents/{intent}/channels/c-12-39/messages"), message("agent.ada", 50)).await.is(201);
    assert_eq!(counted(&world, &admin, "principals/agent.ada").await, stored(&world).await);
    let parts: i64 =
        sqlx::query_scalar("SELECT count(*) FROM stored_parts").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(parts, 521);
    // Without a quota nothing is counted, and later it goes on where it was.
    limit(&admin, "principals/agent.ada", json!({})).await;
    send(&ada, &channel, 100).await;
    world.pass(120).await;
    assert_eq!(quotas(&admin, "principals/agent.ada").await["storage_bytes"]["used"], Value::Null);
    limit(&admin, "principals/agent.ada", json!({ "storage_bytes": 1_000_000 })).await;
    assert_eq!(counted(&world, &admin, "principals/agent.ada").await, stored(&world).await);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_verdict_reaches_the_other_server() {
    let world = World::start().await;
    let beside = World::on(Setup::live(), world.database.clone()).await;
    let admin = world.admin().await;
    let ada = of(&world, &admin, "agent.ada").await;
    let (_, channel) = talk(&ada.client, json!({})).await;
    let path = format!("/channels/{channel}/messages");
    let there = beside.client(&ada.secret);
    limit(&admin, "principals/agent.ada", json!({ "storage_bytes": 500 })).await;
    send(&ada.client, &channel, 600).await;
    world.clock.advance(60);
    world.sweep_beside().await;
    full(&ada.client.post(&path, message("agent.ada", 20)).await);
    until("the other server bars it too", async || {
        there.post(&path, message("agent.ada", 20)).await.status == 403
    })
    .await;
    full(&there.post(&path, message("agent.ada", 20)).await);
    // Raised here, it is raised there.
    limit(&admin, "principals/agent.ada", json!({ "storage_bytes": 1_000_000 })).await;
    until("the other server lets it pass", async || {
        there.post(&path, message("agent.ada", 20)).await.status == 201
    })
    .await;
    beside.end().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_count_at_once_count_everything_once() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = of(&world, &admin, "agent.ada").await.client;
    let (intent, _) = talk(&ada, json!({})).await;
    limit(&admin, "principals/agent.ada", json!({ "storage_bytes": 1_000_000 })).await;
    let other = World::on(Setup::default(), world.database.clone()).await;
    for turn in 0..4_u64 {
        for n in 0..20 {
            let path = format!("/intents/{intent}/channels/c-{n}/messages");
            ada.post(&path, message("agent.ada", 50 + n)).await.is(201);
        }
        world.clock.advance(60);
        other.clock.advance(60);
        let (here, there) = tokio::join!(world.sweep_beside(), other.sweep_beside());
        assert!(here + there >= 20, "{here} here, {there} there");
        let used = quotas(&admin, "principals/agent.ada").await["storage_bytes"]["used"].clone();
        assert_eq!(used, stored(&world).await, "turn {turn}");
    }
    other.end().await;
    world.end().await;
}
