//! Channels (RFC-0021 §1, §5, §7.1): creation, options, members, changes, ends.

use entente_harness::{Setup, World, json, talk};

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_has_all_its_members_from_the_start() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = ada.post("/intents", json!({ "title": "t" })).await.ok()["id"].as_str().unwrap().to_owned();
    let ask = json!({
        "name": "data-clarification", "members": ["agent.ada", "agent.bob", "agent.bob"], "member_policy": "explicit",
        "task_id": "task-123", "options": { "max_messages": 100, "unknown": { "kept": 1 } }
    });
    let made = ada.post(&format!("/intents/{intent}/channels"), ask).await.is(201);
    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("chan_"));
    let expected = json!({
        "id": id, "intent_id": intent, "task_id": "task-123", "name": "data-clarification", "created_by": "agent.ada",
        "members": ["agent.ada", "agent.bob"], "member_policy": "explicit",
        "options": { "max_messages": 100, "unknown": { "kept": 1 } }, "status": "open",
        "created_at": "2026-11-21T08:00:00.000000Z", "closed_at": null, "message_count": 0, "last_message_at": null
    });
    assert_eq!(made, expected);
    assert_eq!(ada.get(&format!("/channels/{id}")).await.ok(), expected);
    let bare = ada.post(&format!("/intents/{intent}/channels"), json!({ "name": "bare" })).await.is(201);
    assert_eq!(bare["options"], json!(null), "what was not given is not made up");
    assert_eq!(bare["member_policy"], "intent");
    assert_eq!(bare["members"], json!([]));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_mode_fills_options_and_wants_a_task_of_the_intent() {
    let world = World::with(Setup { settings: vec![("ENTENTE_STRICT_RFC0021", "true")], live: false }).await;
    let ada = world.agent("agent.ada").await;
    let intent = ada.post("/intents", json!({ "title": "t" })).await.ok()["id"].as_str().unwrap().to_owned();
    let channels = format!("/intents/{intent}/channels");
    let made = ada.post(&channels, json!({ "name": "a", "options": { "audit": true } })).await.is(201);
    assert_eq!(made["options"], json!({ "audit": true, "ttl_seconds": null, "max_messages": 1000 }));
    ada.post(&channels, json!({ "name": "b", "task_id": "task-123" })).await.refused(422, "unprocessable");
    let task = ada.post(&format!("/intents/{intent}/tasks"), json!({ "name": "t" })).await.ok()["id"].clone();
    let other =
        ada.post("/intents", json!({ "title": "other" })).await.ok()["id"].as_str().unwrap().to_owned();
    let scoped = json!({ "name": "b", "task_id": task });
    ada.post(&format!("/intents/{other}/channels"), scoped.clone()).await.refused(422, "unprocessable");
    assert_eq!(ada.post(&channels, scoped).await.is(201)["task_id"], task);
    // The end of the task would have closed the channel.
    ada.post(&format!("/tasks/{}/cancel", task.as_str().unwrap()), json!({})).await.ok();
    ada.post(&channels, json!({ "name": "c", "task_id": task })).await.refused(422, "unprocessable");
    // The end of an intent ends its tasks; the refusal names the cause.
    let status = format!("/intents/{intent}/status");
    for (seen, next) in [(1, "active"), (2, "completed")] {
        ada.seen(&json!(seen)).post(&status, json!({ "status": next })).await.ok();
    }
    ada.post(&channels, json!({ "name": "d", "task_id": task })).await.refused(409, "intent_resolved");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_unique_among_an_intents_open_channels() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = ada.post("/intents", json!({ "title": "t" })).await.ok()["id"].as_str().unwrap().to_owned();
    let channels = format!("/intents/{intent}/channels");
    let name = json!({ "name": "release-notes" });
    let first = ada.post(&channels, name.clone()).await.is(201)["id"].as_str().unwrap().to_owned();
    ada.post(&channels, name.clone()).await.refused(409, "duplicate_name");
    ada.patch(&format!("/channels/{first}"), json!({ "status": "closed" })).await.ok();
    let second = ada.post(&channels, name).await.is(201)["id"].as_str().unwrap().to_owned();
    // The open channel comes first, although it is newer (OI-10.1.5).
    let listed = ada.get(&channels).await.ok();
    let ids: Vec<&str> = listed.as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [second.as_str(), first.as_str()]);
    assert_eq!(ada.get(&format!("{channels}?status=closed")).await.ok().as_array().unwrap().len(), 1);
    ada.get(&format!("{channels}?status=banana")).await.refused(422, "invalid_parameter");
    // The same name on another intent is allowed.
    let (other, _) = talk(&ada, json!({})).await;
    ada.post(&format!("/intents/{other}/channels"), json!({ "name": "release-notes" })).await.is(201);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_asks_are_refused_and_leave_nothing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let channels = format!("/intents/{intent}/channels");
    for bad in [
        json!({}),
        json!({ "name": "" }),
        json!({ "name": "x".repeat(201) }),
        json!({ "name": "a\tb" }),
        json!({ "name": 5 }),
        json!({ "name": "x", "member_policy": "banana" }),
        json!({ "name": "x", "members": "agent.b" }),
        json!({ "name": "x", "members": [""] }),
        json!({ "name": "x", "members": ["role:x"] }),
        json!({ "name": "x", "options": { "audit": "yes" } }),
        json!({ "name": "x", "options": { "ttl_seconds": 0 } }),
        json!({ "name": "x", "options": { "ttl_seconds": -1 } }),
        json!({ "name": "x", "options": { "max_messages": 0 } }),
        json!({ "name": "x", "options": { "max_messages": 1_000_001 } }),
        json!({ "name": "x", "options": [] }),
    ] {
        ada.post(&channels, bad).await.refused(422, "invalid_request");
    }
    let crowd: Vec<String> = (0..1001).map(|n| format!("agent.{n}")).collect();
    ada.post(&channels, json!({ "name": "x", "members": crowd })).await.refused(413, "too_large");
    // A PATCH that the reference server stores before it fails (OI-17.2.1).
    let path = format!("/channels/{channel}");
    ada.patch(&path, json!({ "members": "agent-b" })).await.refused(422, "invalid_request");
    ada.send("PATCH", &path, Some("{".to_owned())).await.refused(400, "invalid_json");
    assert_eq!(ada.get(&channels).await.ok().as_array().unwrap().len(), 1);
    assert_eq!(ada.get(&path).await.ok()["members"], json!([]));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_its_managers_change_a_channel() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let eve = world.agent("agent.eve").await;
    let (intent, _) = talk(&ada, json!({})).await;
    let made = bob.post(&format!("/intents/{intent}/channels"), json!({ "name": "bobs" })).await.is(201);
    let path = format!("/channels/{}", made["id"].as_str().unwrap());
    eve.patch(&path, json!({ "members": ["agent.eve"] })).await.refused(403, "forbidden");
    eve.delete(&path).await.refused(403, "forbidden");
    // The channel's creator, the intent's creator and a coordinator may.
    let changed =
        bob.patch(&path, json!({ "members": ["agent.bob"], "member_policy": "explicit" })).await.ok();
    assert_eq!(changed["members"], json!(["agent.bob"]));
    ada.patch(&path, json!({ "options": { "ttl": 3600 } })).await.ok();
    ada.post(&format!("/intents/{intent}/agents"), json!({ "agent_id": "agent.eve", "role": "coordinator" }))
        .await
        .ok();
    let changed = eve.patch(&path, json!({ "members": ["agent.bob", "agent.eve"] })).await.ok();
    assert_eq!(changed["members"], json!(["agent.bob", "agent.eve"]));
    assert_eq!(changed["options"], json!({ "ttl": 3600 }), "an unknown key is kept as it was given");
    // The log has every change, under a type that the SDK can parse.
    let events = ada.get(&format!("/intents/{intent}/events?event_type=channel.created&limit=3")).await.ok();
    assert_eq!(events[0]["payload"]["updated"], json!(["members"]));
    assert_eq!(events[1]["payload"]["updated"], json!(["options"]));
    assert_eq!(events[2]["payload"]["updated"], json!(["members", "member_policy"]));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_channel_takes_nothing_and_never_opens_again() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let path = format!("/channels/{channel}");
    let send = json!({ "sender": "agent.ada", "payload": {} });
    ada.post(&format!("{path}/messages"), send.clone()).await.is(201);
    world.clock.advance(5);
    let closed = ada.patch(&path, json!({ "status": "closed" })).await.ok();
    assert_eq!(closed["status"], "closed");
    assert_eq!(closed["closed_at"], "2026-11-21T08:00:05.000000Z");
    assert_eq!(ada.patch(&path, json!({ "status": "closed" })).await.ok()["closed_at"], closed["closed_at"]);
    ada.post(&format!("{path}/messages"), send).await.refused(409, "channel_closed");
    ada.patch(&path, json!({ "status": "open" })).await.refused(409, "channel_closed");
    ada.patch(&path, json!({ "members": [] })).await.refused(409, "channel_closed");
    // Its messages can still be read.
    assert_eq!(ada.get(&format!("{path}/messages")).await.ok().as_array().unwrap().len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_channel_is_gone_with_its_messages() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let path = format!("/channels/{channel}");
    ada.post(&format!("{path}/messages"), json!({ "sender": "agent.ada", "payload": {} })).await.is(201);
    let gone = ada.delete(&path).await.is(200);
    assert_eq!(gone, json!({ "status": "closed", "channel_id": channel }));
    ada.get(&path).await.refused(404, "not_found");
    ada.delete(&path).await.refused(404, "not_found");
    ada.get(&format!("{path}/messages")).await.refused(404, "not_found");
    ada.post(&format!("{path}/messages"), json!({ "sender": "agent.ada" })).await.refused(404, "not_found");
    assert_eq!(ada.get(&format!("/intents/{intent}/channels")).await.ok(), json!([]));
    world.pass(10).await;
    let left: i64 =
        sqlx::query_scalar("SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM channels)")
            .fetch_one(&world.ctx().pool)
            .await
            .unwrap();
    assert_eq!(left, 0, "nothing of it is left");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_to_live_ends_a_channel_the_instant_it_runs_out() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({ "options": { "ttl_seconds": 60 } })).await;
    let path = format!("/channels/{channel}");
    let send = json!({ "sender": "agent.ada", "payload": {} });
    world.pass(59).await;
    ada.post(&format!("{path}/messages"), send.clone()).await.is(201);
    // A message restarts the time to live.
    world.pass(59).await;
    assert_eq!(ada.get(&path).await.ok()["status"], "open");
    // No sweep has run, but the channel is closed.
    world.clock.advance(1);
    assert_eq!(ada.get(&path).await.ok()["status"], "closed");
    ada.post(&format!("{path}/messages"), send).await.refused(409, "channel_closed");
    // Its name is available at once.
    ada.post(&format!("/intents/{intent}/channels"), json!({ "name": "talk" })).await.is(201);
    world.sweep().await;
    let events = ada.get(&format!("/intents/{intent}/events?event_type=channel.closed")).await.ok();
    assert_eq!(events[0]["payload"]["reason"], "ttl_expired");
    assert_eq!(events.as_array().unwrap().len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resolved_intent_closes_its_channels_and_expires_what_waits() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let (_, other) = talk(&ada, json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    let ask = json!({ "sender": "agent.ada", "to": "agent.bob", "message_type": "request", "payload": {} });
    let waits = ada.post(&messages, ask.clone()).await.is(201)["id"].as_str().unwrap().to_owned();
    let answered = ada.post(&messages, ask).await.is(201)["id"].as_str().unwrap().to_owned();
    let bob = world.agent("agent.bob").await;
    bob.post(&format!("{messages}/{answered}/reply"), json!({ "sender": "agent.bob", "payload": {} }))
        .await
        .is(201);
    ada.seen(&json!(1))
        .post(&format!("/intents/{intent}/status"), json!({ "status": "completed" }))
        .await
        .ok();
    assert_eq!(ada.get(&format!("/channels/{channel}")).await.ok()["status"], "closed");
    assert_eq!(ada.get(&format!("/channels/{other}")).await.ok()["status"], "open", "another intent's");
    assert_eq!(ada.get(&format!("{messages}/{waits}")).await.ok()["status"], "expired");
    assert_eq!(ada.get(&format!("{messages}/{answered}")).await.ok()["status"], "delivered");
    ada.post(&messages, json!({ "sender": "agent.ada" })).await.refused(409, "channel_closed");
    bob.post(&format!("{messages}/{waits}/reply"), json!({ "sender": "agent.bob" }))
        .await
        .refused(409, "channel_closed");
    ada.post(&format!("/intents/{intent}/channels"), json!({ "name": "new" }))
        .await
        .refused(409, "intent_resolved");
    ada.post(&format!("/intents/{intent}/channels/new/messages"), json!({ "sender": "agent.ada" }))
        .await
        .refused(409, "intent_resolved");
    // The messages are kept for later readers.
    assert_eq!(ada.get(&messages).await.ok().as_array().unwrap().len(), 3);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_kept_for_the_retention_after_the_end() {
    let world =
        World::with(Setup { settings: vec![("ENTENTE_MESSAGE_RETENTION_DAYS", "2")], live: false }).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({ "options": { "audit": true } })).await;
    let messages = format!("/channels/{channel}/messages");
    ada.post(&messages, json!({ "sender": "agent.ada", "payload": { "kept": "in the log" } })).await.is(201);
    ada.seen(&json!(1))
        .post(&format!("/intents/{intent}/status"), json!({ "status": "abandoned" }))
        .await
        .ok();
    world.pass(2 * 24 * 3600 - 1).await;
    assert_eq!(ada.get(&messages).await.ok().as_array().unwrap().len(), 1);
    world.pass(1).await;
    assert_eq!(ada.get(&messages).await.ok(), json!([]));
    let channel = ada.get(&format!("/channels/{channel}")).await.ok();
    assert_eq!(channel["message_count"], 1, "that they were is not forgotten");
    let events = ada.get(&format!("/intents/{intent}/events?event_type=channel.message")).await.ok();
    assert_eq!(events[0]["payload"]["payload"]["kept"], "in the log");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_not_there_yet_opens_a_channel() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (intent, _) = talk(&ada, json!({})).await;
    let path = format!("/intents/{intent}/channels/progress/messages");
    let body = json!({ "sender": "agent.ada", "payload": { "n": 1 } });
    // A refused message creates no channel.
    let wrong = json!({ "sender": "agent.ada", "to": "role:nobody", "payload": {} });
    ada.post(&path, wrong).await.refused(422, "no_recipient");
    assert_eq!(ada.get(&format!("/intents/{intent}/channels")).await.ok().as_array().unwrap().len(), 1);
    let first = ada.once("k1").post(&path, body.clone()).await.is(201);
    assert_eq!(ada.once("k1").post(&path, body.clone()).await.is(201)["id"], first["id"]);
    let second = ada.post(&path, body).await.is(201);
    assert_eq!(first["channel_id"], second["channel_id"]);
    let channel = ada.get(&format!("/channels/{}", first["channel_id"].as_str().unwrap())).await.ok();
    assert_eq!(channel["name"], "progress");
    assert_eq!(channel["member_policy"], "intent");
    assert_eq!(channel["message_count"], 2);
    // After the channel is closed, the name creates another.
    ada.patch(&format!("/channels/{}", channel["id"].as_str().unwrap()), json!({ "status": "closed" }))
        .await
        .ok();
    let third = ada.post(&path, json!({ "sender": "agent.ada", "payload": {} })).await.is(201);
    assert_ne!(third["channel_id"], first["channel_id"]);
    world.end().await;
}
