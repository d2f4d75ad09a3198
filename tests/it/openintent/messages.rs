//! Messages (RFC-0021 §2 to §4): types, addressing, visibility, statuses. `messages/reading.rs` covers
//! cursors and eviction, `messages/batches.rs` batches, `messages/strict.rs` strict mode.

pub(crate) mod asks;
pub(crate) mod batches;
mod reading;
mod strict;

use entente_harness::{Setup, Value, World, ids, json, send, talk};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_what_rfc_0021_says() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let body = json!({
        "sender": "agent.ada", "to": "agent.bob", "message_type": "request",
        "payload": { "question": "What schema?", "n": 1.50, "text": "ä\u{1f600}" }, "metadata": { "priority": "high" },
        "expires_at": "2026-11-21T08:05:00Z"
    });
    let message = send(&ada, &channel, body).await;
    let id = message["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("msg_") && id.len() == 30);
    let expected = json!({
        "id": id, "channel_id": channel, "sender": "agent.ada", "to": "agent.bob", "message_type": "request",
        "correlation_id": null, "payload": { "question": "What schema?", "n": 1.50, "text": "ä\u{1f600}" },
        "metadata": { "priority": "high" }, "status": "delivered", "created_at": "2026-11-21T08:00:00.000000Z",
        "expires_at": "2026-11-21T08:05:00.000000Z", "read_at": null
    });
    assert_eq!(message, expected);
    assert_eq!(ada.get(&format!("/channels/{channel}/messages/{id}")).await.ok(), expected);
    assert_eq!(ada.get(&format!("/channels/{channel}/messages")).await.ok(), json!([expected]));
    let counted = ada.get(&format!("/channels/{channel}")).await.ok();
    assert_eq!(counted["message_count"], 1);
    assert_eq!(counted["last_message_at"], "2026-11-21T08:00:00.000000Z");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_comes_back_letter_by_letter() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let payload = r#"{"z":1,"a":{"b":[1.0,1e2,123456789012345678901234567890]}, "dup":1,"dup":2,"\u00e4":"\ud83d\ude00"}"#;
    let body = format!(r#"{{"sender":"agent.ada","payload":{payload}}}"#);
    let reply = ada.send("POST", &format!("/channels/{channel}/messages"), Some(body)).await;
    assert!(reply.text.contains(payload), "{}", reply.text);
    let list = ada.get(&format!("/channels/{channel}/messages")).await;
    assert!(list.text.contains(payload), "{}", list.text);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_type_has_its_address() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let m = |kind: &str, to: Value| json!({ "sender": "agent.ada", "message_type": kind, "to": to, "payload": {} });
    assert_eq!(send(&ada, &channel, m("broadcast", json!(null))).await["to"], "*");
    assert_eq!(send(&ada, &channel, m("broadcast", json!("*"))).await["to"], "*");
    assert_eq!(send(&ada, &channel, m("notify", json!(null))).await["to"], json!(null));
    assert_eq!(send(&ada, &channel, m("notify", json!("agent.bob"))).await["to"], "agent.bob");
    assert_eq!(send(&ada, &channel, m("request", json!(""))).await["to"], "*", "to nobody is to everybody");
    assert_eq!(send(&ada, &channel, m("message", json!(null))).await["message_type"], "notify");
    assert_eq!(send(&ada, &channel, json!({ "sender": "agent.ada" })).await["message_type"], "notify");
    let messages = format!("/channels/{channel}/messages");
    ada.post(&messages, m("broadcast", json!("agent.bob"))).await.refused(422, "unprocessable");
    ada.post(&messages, m("banana", json!(null))).await.refused(422, "invalid_request");
    ada.post(&messages, m("response", json!("agent.bob"))).await.refused(422, "not_a_request");
    ada.post(&messages, m("request", json!("role:"))).await.refused(422, "invalid_request");
    let stray = json!({ "sender": "agent.ada", "message_type": "notify", "correlation_id": "msg_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" });
    ada.post(&messages, stray).await.refused(422, "unprocessable");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_mode_wants_every_type_by_the_letter() {
    let world = World::with(Setup { settings: vec![("ENTENTE_STRICT_RFC0021", "true")], live: false }).await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    let m = |kind: &str| json!({ "sender": "agent.ada", "message_type": kind, "payload": {} });
    ada.post(&messages, m("request")).await.refused(422, "unprocessable");
    ada.post(&messages, m("message")).await.refused(422, "invalid_request");
    let notify = send(&ada, &channel, m("notify")).await["id"].as_str().unwrap().to_owned();
    let bob = world.agent("agent.bob").await;
    bob.post(&format!("{messages}/{notify}/reply"), json!({ "sender": "agent.bob", "payload": {} }))
        .await
        .refused(422, "not_a_request");
    // A key for any agent reads as the agent it acts as.
    send(&ada, &channel, json!({ "sender": "agent.ada", "to": "agent.bob", "payload": {} })).await;
    assert_eq!(world.any().acting_as("agent.eve").get(&messages).await.ok().as_array().unwrap().len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_answered_by_those_it_is_for() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let eve = world.agent("agent.eve").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    let ask =
        json!({ "sender": "agent.ada", "to": "agent.bob", "message_type": "request", "payload": { "q": 1 } });
    let request = send(&ada, &channel, ask).await["id"].as_str().unwrap().to_owned();
    let reply = json!({ "sender": "agent.bob", "payload": { "a": 2 }, "metadata": { "m": 1 } });
    let response = bob.post(&format!("{messages}/{request}/reply"), reply).await.is(201);
    assert_eq!(response["message_type"], "response");
    assert_eq!(response["correlation_id"], request.as_str());
    assert_eq!(response["to"], "agent.ada");
    assert_eq!(response["metadata"], json!({ "m": 1 }));
    // A further response is allowed (§3.2), also as an ordinary message.
    let again = json!({ "sender": "agent.bob", "message_type": "response", "correlation_id": request, "payload": {} });
    assert_eq!(send(&bob, &channel, again).await["to"], "agent.ada");
    // An impostor may not respond, neither in its own name nor in another's.
    eve.post(&format!("{messages}/{request}/reply"), json!({ "sender": "agent.eve" }))
        .await
        .refused(403, "forbidden");
    eve.post(&format!("{messages}/{request}/reply"), json!({ "sender": "agent.bob" }))
        .await
        .refused(403, "may_not_act_as");
    let foreign = talk(&ada, json!({})).await.1;
    bob.post(&format!("/channels/{foreign}/messages/{request}/reply"), json!({ "sender": "agent.bob" }))
        .await
        .refused(404, "not_found");
    bob.post(&format!("{messages}/msg_nonsense/reply"), json!({ "sender": "agent.bob" }))
        .await
        .refused(404, "not_found");
    // Clients of the reference server reply to messages that are no requests (OI-10.3.1).
    let notify = send(&ada, &channel, json!({ "sender": "agent.ada", "payload": {} })).await;
    let path = format!("{messages}/{}/reply", notify["id"].as_str().unwrap());
    bob.post(&path, json!({ "sender": "agent.bob", "payload": {} })).await.is(201);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_is_who_the_key_says() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    ada.post(&messages, json!({ "sender": "agent.bob", "payload": {} })).await.refused(403, "may_not_act_as");
    ada.acting_as("agent.bob")
        .post(&messages, json!({ "sender": "agent.bob" }))
        .await
        .refused(403, "may_not_act_as");
    ada.post(&messages, json!({ "payload": {} })).await.refused(422, "invalid_request");
    // A key for any agent may send as any, whatever the header says (OI-1.1).
    world.any().post(&messages, json!({ "sender": "agent.x" })).await.is(201);
    world.any().acting_as("agent.y").post(&messages, json!({ "sender": "agent.x" })).await.is(201);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn directed_mail_is_seen_by_its_parties_and_the_managers() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let cy = world.agent("agent.cy").await;
    let eve = world.agent("agent.eve").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    let direct = json!({ "sender": "agent.bob", "to": "agent.cy", "payload": { "secret": 1 } });
    let direct = send(&bob, &channel, direct).await["id"].as_str().unwrap().to_owned();
    let open = send(&bob, &channel, json!({ "sender": "agent.bob", "payload": {} })).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let all = [direct.clone(), open.clone()];
    for (who, sees) in [(&ada, &all[..]), (&bob, &all[..]), (&cy, &all[..]), (&eve, &all[1..])] {
        assert_eq!(ids(&who.get(&messages).await.ok()), sees);
    }
    eve.get(&format!("{messages}/{direct}")).await.refused(404, "not_found");
    cy.get(&format!("{messages}/{direct}")).await.ok();
    // A key for any agent reads on behalf of others (OI-1.6).
    assert_eq!(ids(&world.any().acting_as("agent.eve").get(&messages).await.ok()), all);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explicit_channel_is_for_its_members() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let eve = world.agent("agent.eve").await;
    let options = json!({ "member_policy": "explicit", "members": ["agent.ada", "agent.bob"] });
    let (intent, channel) = talk(&ada, options).await;
    let messages = format!("/channels/{channel}/messages");
    send(&bob, &channel, json!({ "sender": "agent.bob", "payload": {} })).await;
    eve.post(&messages, json!({ "sender": "agent.eve", "payload": {} })).await.refused(403, "not_a_member");
    eve.get(&messages).await.refused(403, "not_a_member");
    ada.post(&messages, json!({ "sender": "agent.ada", "to": "agent.eve", "payload": {} }))
        .await
        .refused(403, "not_a_member");
    // Everyone on the intent may see that it exists and its members.
    assert_eq!(
        eve.get(&format!("/channels/{channel}")).await.ok()["members"],
        json!(["agent.ada", "agent.bob"])
    );
    assert_eq!(eve.get(&format!("/intents/{intent}/channels")).await.ok().as_array().unwrap().len(), 1);
    ada.patch(&format!("/channels/{channel}"), json!({ "members": ["agent.ada", "agent.eve"] })).await.ok();
    assert_eq!(eve.get(&messages).await.ok().as_array().unwrap().len(), 1);
    bob.get(&messages).await.refused(403, "not_a_member");
    bob.post(&messages, json!({ "sender": "agent.bob", "payload": {} })).await.refused(403, "not_a_member");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_is_resolved_when_the_message_is_sent() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) =
        talk(&ada, json!({ "member_policy": "explicit", "members": ["agent.ada", "agent.b1", "agent.b2"] }))
            .await;
    let messages = format!("/channels/{channel}/messages");
    let ask =
        json!({ "sender": "agent.ada", "to": "role:billing", "message_type": "request", "payload": {} });
    ada.post(&messages, ask.clone()).await.refused(422, "no_recipient");
    let mut holders = Vec::new();
    for id in ["agent.b1", "agent.b2", "agent.outside", "agent.drains"] {
        let agent = world.agent(id).await;
        agent.post("/agents/register", json!({ "agent_id": id, "role_id": "billing" })).await.ok();
        holders.push(agent);
    }
    holders[3].post("/agents/agent.drains/drain", json!({})).await.ok();
    let request = send(&ada, &channel, ask).await;
    assert_eq!(request["to"], "role:billing");
    let id = request["id"].as_str().unwrap();
    for holder in &holders[..2] {
        assert_eq!(ids(&holder.get(&messages).await.ok()), [id]);
        assert_eq!(ids(&holder.get(&format!("{messages}?to=role:billing")).await.ok()), [id]);
    }
    holders[2].get(&messages).await.refused(403, "not_a_member");
    // An agent that takes the role later was not addressed.
    let late = world.agent("agent.late").await;
    late.post("/agents/register", json!({ "agent_id": "agent.late", "role_id": "billing" })).await.ok();
    ada.patch(&format!("/channels/{channel}"), json!({ "member_policy": "intent" })).await.ok();
    assert_eq!(ids(&late.get(&messages).await.ok()), [""; 0]);
    late.post(&format!("{messages}/{id}/reply"), json!({ "sender": "agent.late" }))
        .await
        .refused(403, "forbidden");
    for (n, holder) in ["agent.b1", "agent.b2"].iter().zip(&holders) {
        holder.post(&format!("{messages}/{id}/reply"), json!({ "sender": n, "payload": {} })).await.is(201);
    }
    assert_eq!(ada.get(&format!("{messages}?to=agent.ada")).await.ok().as_array().unwrap().len(), 2);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_message_is_no_longer_delivered() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    let m = |kind: &str| {
        json!({
            "sender": "agent.ada", "to": "agent.bob", "message_type": kind, "payload": {}, "expires_at": "2026-11-21T08:01:00Z"
        })
    };
    let request = send(&ada, &channel, m("request")).await["id"].as_str().unwrap().to_owned();
    let answered = send(&ada, &channel, m("request")).await["id"].as_str().unwrap().to_owned();
    let notify = send(&ada, &channel, m("notify")).await["id"].as_str().unwrap().to_owned();
    let read = send(&ada, &channel, m("notify")).await["id"].as_str().unwrap().to_owned();
    bob.post(&format!("{messages}/{answered}/reply"), json!({ "sender": "agent.bob" })).await.is(201);
    bob.patch(&format!("{messages}/{read}"), json!({ "status": "read" })).await.ok();
    bob.patch(&format!("{messages}/{request}"), json!({ "status": "read" })).await.ok();
    for swept in [false, true] {
        if swept {
            world.sweep().await;
        } else {
            world.clock.advance(60);
        }
        let status = async |id: &str| ada.get(&format!("{messages}/{id}")).await.ok()["status"].clone();
        assert_eq!(status(&request).await, "expired", "read, but not answered");
        assert_eq!(status(&answered).await, "delivered");
        assert_eq!(status(&notify).await, "expired");
        assert_eq!(status(&read).await, "read");
        let seen = ids(&bob.get(&messages).await.ok());
        assert!(!seen.contains(&request) && !seen.contains(&notify) && seen.contains(&answered));
        assert!(ids(&ada.get(&messages).await.ok()).contains(&request), "its sender sees what became of it");
        let late = bob.post(&format!("{messages}/{request}/reply"), json!({ "sender": "agent.bob" })).await;
        late.refused(409, "message_expired");
        bob.patch(&format!("{messages}/{notify}"), json!({ "status": "read" }))
            .await
            .refused(409, "message_expired");
    }
    ada.post(&messages, m("notify")).await.refused(422, "already_expired");
    let naive = json!({ "sender": "agent.ada", "payload": {}, "expires_at": "2026-11-21T08:02:00" });
    assert_eq!(
        send(&ada, &channel, naive).await["expires_at"],
        "2026-11-21T08:02:00.000000Z",
        "taken as UTC"
    );
    let wrong = json!({ "sender": "agent.ada", "payload": {}, "expires_at": "tomorrow" });
    ada.post(&messages, wrong).await.refused(422, "invalid_request");
    world.pass(60).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_recipients_mark_a_message_read() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let eve = world.agent("agent.eve").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    let direct =
        send(&ada, &channel, json!({ "sender": "agent.ada", "to": "agent.bob", "payload": {} })).await;
    let path = format!("{messages}/{}", direct["id"].as_str().unwrap());
    let read = json!({ "status": "read" });
    ada.patch(&path, read.clone()).await.refused(403, "forbidden");
    eve.patch(&path, read.clone()).await.refused(404, "not_found");
    bob.patch(&path, json!({ "status": "banana" })).await.refused(422, "invalid_request");
    bob.patch(&path, json!({ "status": "expired" })).await.refused(422, "invalid_request");
    world.clock.advance(3);
    let marked = bob.patch(&path, read.clone()).await.is(200);
    assert_eq!(marked["status"], "read");
    assert_eq!(marked["read_at"], "2026-11-21T08:00:03.000000Z");
    world.clock.advance(3);
    assert_eq!(bob.patch(&path, read.clone()).await.ok(), marked, "again changes nothing");
    assert_eq!(ada.get(&path).await.ok(), marked);
    // Everyone but its sender may mark a broadcast as read.
    let all =
        send(&ada, &channel, json!({ "sender": "agent.ada", "message_type": "broadcast", "payload": {} }))
            .await;
    let path = format!("{messages}/{}", all["id"].as_str().unwrap());
    ada.patch(&path, read.clone()).await.refused(403, "forbidden");
    bob.patch(&path, read.clone()).await.ok();
    eve.patch(&path, read).await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_messages_are_refused_with_a_word_on_what_to_do() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    let raw = async |text: String| ada.send("POST", &messages, Some(text)).await;
    raw(String::new()).await.refused(400, "invalid_json");
    raw("{".to_owned()).await.refused(400, "invalid_json");
    raw("nonsense".to_owned()).await.refused(400, "invalid_json");
    raw(r#"{"sender":"agent.ada","payload":{}} trailing"#.to_owned()).await.refused(400, "invalid_json");
    raw(r#"{"sender":"agent.ada","payload":{"x":"\ud800"}}"#.to_owned()).await.refused(400, "invalid_json");
    raw(r#"{"sender":"agent.ada","payload":{"x":"a\u0000b"}}"#.to_owned())
        .await
        .refused(422, "nul_character");
    raw(r#"{"sender":"agent\u0000ada","payload":{}}"#.to_owned()).await.refused(422, "nul_character");
    let deep = format!(r#"{{"sender":"agent.ada","payload":{{"x":{}{}}}}}"#, "[".repeat(70), "]".repeat(70));
    raw(deep).await.refused(422, "too_deep");
    let deepest =
        format!(r#"{{"sender":"agent.ada","payload":{{"x":{}{}}}}}"#, "[".repeat(62), "]".repeat(62));
    raw(deepest).await.is(201);
    for payload in ["[]", "\"x\"", "7", "true"] {
        let refused = raw(format!(r#"{{"sender":"agent.ada","payload":{payload}}}"#))
            .await
            .refused(422, "invalid_request");
        assert_eq!(refused["detail"][0]["loc"], json!(["body", "payload"]));
    }
    let wrong = raw(r#"{"sender":5,"payload":{}}"#.to_owned()).await.refused(422, "invalid_request");
    assert_eq!(wrong["detail"][0]["loc"], json!(["body", "sender"]));
    let missing = raw(r#"{"payload":{}}"#.to_owned()).await.refused(422, "invalid_request");
    assert_eq!(missing["errors"][0]["type"], "missing");
    assert_eq!(missing["errors"][0]["loc"], json!(["body", "sender"]));
    raw(json!({ "sender": "agent.ada", "payload": { "x": "y".repeat(300_000) } }).to_string())
        .await
        .refused(413, "too_large");
    raw(json!({ "sender": "agent.ada", "metadata": { "x": "y".repeat(20_000) } }).to_string())
        .await
        .refused(413, "too_large");
    raw(json!({ "sender": "agent.ada", "payload": { "x": "y".repeat(3_000_000) } }).to_string())
        .await
        .refused(413, "too_large");
    ada.post("/channels/chan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F/messages", json!({ "sender": "agent.ada" }))
        .await
        .refused(404, "not_found");
    ada.post("/channels/nonsense/messages", json!({ "sender": "agent.ada" })).await.refused(404, "not_found");
    assert_eq!(ada.get(&messages).await.ok().as_array().unwrap().len(), 1);
    world.end().await;
}
