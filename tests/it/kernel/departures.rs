//! Departures (RFC-0016, RFC-0021 §7.2): draining and deregistering, and the effects on an agent's channels and
//! pending requests.

use entente_harness::agents::registered;
use entente_harness::{Client, Value, World, json, talk};

async fn send(client: &Client, channel: &str, body: Value) -> String {
    let sent = client.post(&format!("/channels/{channel}/messages"), body).await.is(201);
    sent["id"].as_str().unwrap().to_owned()
}

async fn status(client: &Client, channel: &str, id: &str) -> String {
    let message = client.get(&format!("/channels/{channel}/messages/{id}")).await.ok();
    message["status"].as_str().unwrap().to_owned()
}

/// Returns the departure notices on a channel.
async fn notices(client: &Client, channel: &str) -> Vec<Value> {
    let list = client.get(&format!("/channels/{channel}/messages")).await.ok();
    list.as_array().unwrap().iter().filter(|m| m["payload"]["event"] == "agent_departed").cloned().collect()
}

fn request(to: &str) -> Value {
    json!({ "sender": "agent.ada", "to": to, "message_type": "request", "payload": {} })
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_drains_finishes_what_it_has() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let role = json!({ "role_id": "r", "drain_timeout_seconds": 60 });
    let bob = registered(&world, "agent.bob", role).await;
    let (_, channel) = talk(&ada, json!({})).await;
    let had = send(&ada, &channel, request("role:r")).await;
    let draining = bob.post("/agents/agent.bob/drain", json!({})).await.is(200);
    assert_eq!(draining["status"], "draining");
    // It gets no new work by its role, but it can answer its requests and be addressed by name.
    let messages = format!("/channels/{channel}/messages");
    ada.post(&messages, request("role:r")).await.refused(422, "no_recipient");
    bob.post(&format!("{messages}/{had}/reply"), json!({ "sender": "agent.bob" })).await.is(201);
    send(&ada, &channel, request("agent.bob")).await;
    // A heartbeat does not end the draining, and a second drain does not restart its timeout.
    world.clock.advance(30);
    assert_eq!(bob.post("/agents/agent.bob/heartbeat", json!({})).await.ok()["agent_status"], "draining");
    bob.post("/agents/agent.bob/drain", json!({})).await.is(200);
    world.pass(29).await;
    assert_eq!(bob.get("/agents/agent.bob").await.ok()["status"], "draining");
    world.pass(1).await;
    assert_eq!(bob.get("/agents/agent.bob").await.ok()["status"], "deregistered");
    assert_eq!(notices(&ada, &channel).await.len(), 1);
    let events = world.admin().await.get("/audit?event_type=agent.status_changed").await.ok();
    let told: Vec<&Value> = events.as_array().unwrap().iter().map(|e| &e["payload"]["new_status"]).collect();
    assert_eq!(told, ["deregistered", "draining"]);
    assert_eq!(events[0]["actor"], "entente");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_ends_early_when_it_is_called_off() {
    let world = World::start().await;
    let bob = registered(&world, "agent.bob", json!({ "drain_timeout_seconds": 60 })).await;
    let cy = registered(&world, "agent.cy", json!({})).await;
    bob.post("/agents/agent.bob/drain", json!({})).await.ok();
    cy.post("/agents/agent.cy/drain", json!({})).await.ok();
    bob.patch("/agents/agent.bob/status", json!({ "status": "active" })).await.ok();
    world.pass(3600).await;
    assert_eq!(bob.get("/agents/agent.bob").await.ok()["status"], "active");
    assert_eq!(
        cy.get("/agents/agent.cy").await.ok()["status"],
        "draining",
        "without a timeout it takes its time"
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_departure_is_told_where_it_matters() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = world.agent("agent.ada").await;
    let bob = registered(&world, "agent.bob", json!({ "role_id": "r" })).await;
    registered(&world, "agent.cy", json!({ "role_id": "two" })).await;
    bob.post("/agents/register", json!({ "agent_id": "agent.bob", "role_id": "r" })).await.ok();
    let wall = json!({ "member_policy": "explicit", "members": ["agent.ada", "agent.bob", "agent.cy"] });
    let (intent, member) = talk(&ada, wall.clone()).await;
    let (_, asked) = talk(&ada, json!({})).await;
    let (_, unconcerned) = talk(&ada, json!({})).await;
    let (_, closed) = talk(&ada, wall).await;
    ada.patch(&format!("/channels/{closed}"), json!({ "status": "closed" })).await.ok();
    // Requests to it alone, by name and by role; to another agent; to all; and a message that is no request.
    let direct = send(&ada, &asked, request("agent.bob")).await;
    let by_role = send(&ada, &asked, request("role:r")).await;
    let elsewhere = send(&ada, &member, request("agent.bob")).await;
    let other = send(&ada, &asked, request("agent.cy")).await;
    let open = send(&ada, &asked, request("*")).await;
    let notify = send(&ada, &asked, json!({ "sender": "agent.ada", "to": "agent.bob", "payload": {} })).await;
    let done = send(&ada, &asked, request("agent.bob")).await;
    let reply = format!("/channels/{asked}/messages/{done}/reply");
    bob.post(&reply, json!({ "sender": "agent.bob" })).await.is(201);

    let record = bob.delete("/agents/agent.bob").await.is(200);
    assert_eq!(record["status"], "deregistered");
    for (channel, id) in [(&asked, &direct), (&asked, &by_role), (&member, &elsewhere)] {
        assert_eq!(status(&ada, channel, id).await, "expired");
    }
    for (channel, id) in [(&asked, &other), (&asked, &open), (&asked, &notify), (&asked, &done)] {
        assert_eq!(status(&ada, channel, id).await, "delivered");
    }
    let late = format!("/channels/{asked}/messages/{direct}/reply");
    bob.post(&late, json!({ "sender": "agent.bob" })).await.refused(409, "message_expired");
    let channel = ada.get(&format!("/channels/{member}")).await.ok();
    assert_eq!(channel["members"], json!(["agent.ada", "agent.cy"]));
    bob.get(&format!("/channels/{member}/messages")).await.refused(403, "not_a_member");
    for channel in [&member, &asked] {
        let told = notices(&ada, channel).await;
        assert_eq!(told.len(), 1);
        assert_eq!(told[0]["payload"], json!({ "event": "agent_departed", "agent_id": "agent.bob" }));
        assert_eq!((&told[0]["message_type"], &told[0]["to"]), (&json!("notify"), &json!(null)));
    }
    for channel in [&unconcerned, &closed] {
        assert_eq!(notices(&ada, channel).await, [json!(null); 0]);
    }
    let was = ada.get(&format!("/channels/{closed}")).await.ok();
    assert_eq!(
        was["members"],
        json!(["agent.ada", "agent.bob", "agent.cy"]),
        "what is over is not rewritten"
    );
    // The intent's log records the change of members, the system log the departure.
    let changed = ada.get(&format!("/intents/{intent}/events?limit=1")).await.ok();
    assert_eq!(changed[0]["payload"]["departed"], "agent.bob");
    assert_eq!(changed[0]["actor"], "agent.bob");
    let left = admin.get("/audit?limit=1").await.ok();
    let said = json!({ "agent_id": "agent.bob", "old_status": "active", "new_status": "deregistered" });
    assert_eq!(left[0]["payload"], said);
    // A repeated departure changes nothing, by either path.
    assert_eq!(bob.delete("/agents/agent.bob").await.is(200), record);
    let again = bob.patch("/agents/agent.bob/status", json!({ "status": "deregistered" })).await.is(200);
    assert_eq!(again, record);
    assert_eq!(notices(&ada, &member).await.len(), 1);
    assert_eq!(admin.get("/audit?limit=1").await.ok(), left);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_its_keeper_sends_an_agent_away() {
    let world = World::start().await;
    let bob = registered(&world, "agent.bob", json!({})).await;
    let eve = world.agent("agent.eve").await;
    eve.delete("/agents/agent.bob").await.refused(403, "may_not_act_as");
    eve.patch("/agents/agent.bob/status", json!({ "status": "deregistered" }))
        .await
        .refused(403, "may_not_act_as");
    eve.delete("/agents/agent.eve").await.refused(404, "not_found");
    assert_eq!(bob.get("/agents/agent.bob").await.ok()["status"], "active");
    let admin = world.admin().await;
    admin.delete("/agents/agent.bob").await.is(200);
    let left = admin.get("/audit?limit=1").await.ok();
    assert_eq!(left[0]["actor"], "service.bootstrap");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_departure_does_not_open_a_channel_whose_time_ran_out() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = registered(&world, "agent.bob", json!({})).await;
    let options = json!({ "members": ["agent.bob"], "options": { "ttl_seconds": 60 } });
    let (_, channel) = talk(&ada, options).await;
    world.clock.advance(60);
    let before = ada.get(&format!("/channels/{channel}")).await.ok();
    assert_eq!(before["status"], "closed");
    bob.delete("/agents/agent.bob").await.ok();
    for _ in 0..2 {
        let after = ada.get(&format!("/channels/{channel}")).await.ok();
        assert_eq!((&after["status"], &after["closed_at"]), (&before["status"], &before["closed_at"]));
        assert_eq!(after["message_count"], 0);
        world.sweep().await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audited_channels_log_has_the_notice() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = registered(&world, "agent.bob", json!({})).await;
    let options = json!({ "members": ["agent.bob"], "options": { "audit": true } });
    let (intent, channel) = talk(&ada, options).await;
    bob.delete("/agents/agent.bob").await.ok();
    let notice = notices(&ada, &channel).await.pop().unwrap();
    // RFC-0021 §6: every message.
    let events = ada.get(&format!("/intents/{intent}/events?event_type=channel.message")).await.ok();
    assert_eq!(events.as_array().unwrap().len(), 1);
    let payload = json!({
        "channel_id": channel, "channel_name": "talk", "message_id": notice["id"], "message_type": "notify",
        "to": null, "payload": { "event": "agent_departed", "agent_id": "agent.bob" }
    });
    assert_eq!(events[0]["payload"], payload);
    assert_eq!(events[0]["actor"], notice["sender"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_departure_in_the_middle_of_talk_leaves_nothing_behind() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = registered(&world, "agent.bob", json!({})).await;
    let mut channels = Vec::new();
    for _ in 0..4 {
        channels.push(talk(&ada, json!({ "members": ["agent.bob"] })).await.1);
    }
    let talk = async |channel: &str| {
        for _ in 0..10 {
            send(&ada, channel, request("agent.bob")).await;
        }
    };
    let leaving = [bob.delete("/agents/agent.bob"), bob.delete("/agents/agent.bob")];
    let (_, left) = tokio::join!(
        futures_util::future::join_all(channels.iter().map(|channel| talk(channel))),
        futures_util::future::join_all(leaving)
    );
    left.iter().for_each(|reply| assert_eq!(reply.is(200)["status"], "deregistered"));
    for channel in &channels {
        assert_eq!(notices(&ada, channel).await.len(), 1, "told once");
        assert_eq!(ada.get(&format!("/channels/{channel}")).await.ok()["members"], json!([]));
    }
    world.end().await;
}
