//! Proofs and keys in error cases (RFC-0018): retries, clocks set back, channels that the sender cannot see.

use entente_domain::identity::signatures::statement;
use entente_domain::ids::IntentId;

use entente_harness::identities::{key, proved, register};
use entente_harness::{Value, World, json, talk};

/// Returns a message with its proof as a client makes it.
fn signed(channel: &str, n: u8, by: u8) -> Value {
    let mut proof = json!({ "type": "Ed25519Signature2026" });
    let mut message = json!({ "sender": "agent.ada", "message_type": "notify", "payload": { "n": n } });
    let mut form = message.clone();
    form["channel_id"] = json!(channel);
    form["proof"] = proof.clone();
    proof["signature"] = json!(key(by).sign(statement(&form)).show());
    message["metadata"] = json!({ "proof": proof });
    message
}

fn rotation(old: u8, new: u8) -> Value {
    let mut body = json!({
        "action": "rotate", "new_public_key": key(new).public_key(), "old_public_key": key(old).public_key(),
    });
    body["signature"] = json!(key(old).sign(statement(&body)).show());
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_a_signed_message_is_done_once_whatever_became_of_the_key() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    register(&ada, "agent.ada", &key(1)).await;
    let (_, channel) = talk(&ada, json!({})).await;
    let path = format!("/channels/{channel}/messages");
    let sent = ada.once("a").post(&path, signed(&channel, 1, 1)).await.is(201);
    let batch = json!({ "messages": [signed(&channel, 2, 1)] });
    let both = ada.once("b").post(&format!("{path}/batch"), batch.clone()).await.is(201);
    ada.post("/agents/agent.ada/identity/rotate", rotation(1, 2)).await.is(200);
    ada.post(&path, signed(&channel, 3, 1)).await.refused(422, "bad_proof");
    assert_eq!(ada.once("a").post(&path, signed(&channel, 1, 1)).await.is(201), sent);
    assert_eq!(ada.once("b").post(&format!("{path}/batch"), batch).await.is(201), both);
    ada.once("c").post(&path, signed(&channel, 3, 1)).await.refused(422, "bad_proof");
    assert_eq!(ada.get(&path).await.ok().as_array().unwrap().len(), 2);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_that_is_not_there_is_not_there_for_a_bad_proof() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    register(&ada, "agent.ada", &key(1)).await;
    let (intent, channel) = talk(&bob, json!({})).await;
    let acl = json!({ "default_policy": "closed", "entries": [] });
    bob.put(&format!("/intents/{intent}/acl"), acl).await.ok();
    let path = format!("/channels/{channel}/messages");
    ada.post(&path, signed(&channel, 1, 1)).await.refused(404, "not_found");
    ada.post(&path, signed(&channel, 1, 2)).await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_goes_back_revives_no_key() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let path = "/agents/agent.ada/identity";
    register(&ada, "agent.ada", &key(1)).await;
    world.clock.advance(120);
    ada.post(&format!("{path}/rotate"), rotation(1, 2)).await.is(200);
    // Another server, or this one after its clock was changed.
    world.clock.advance(-60);
    let (intent, channel) = talk(&ada, json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    ada.post(&messages, signed(&channel, 1, 1)).await.refused(422, "bad_proof");
    ada.post(&messages, signed(&channel, 1, 2)).await.is(201);
    let events = format!("/intents/{intent}/events");
    ada.post(&events, proved(&intent, "agent.ada", "old", &key(1))).await.refused(422, "bad_proof");
    let made = ada.post(&events, proved(&intent, "agent.ada", "new", &key(2))).await.is(200);
    assert_eq!(made["proof_verified"], true);
    assert_eq!(ada.get(&format!("{events}/verify")).await.ok()["valid"], true);
    let verify = async |by: u8| {
        let asked = json!({ "payload": {}, "signature": key(by).sign("{}").show() });
        ada.post(&format!("{path}/verify"), asked).await.ok()["reason"].clone()
    };
    assert_eq!((verify(1).await, verify(2).await), (json!("superseded"), json!(null)));
    assert_eq!(ada.get(path).await.ok()["keys"][0]["status"], "superseded");
    let gone = ada.post(&format!("{path}/revoke"), json!({})).await.is(200);
    assert_eq!(gone["status"], "revoked");
    assert_eq!(verify(2).await, json!("revoked"));
    ada.post(&messages, signed(&channel, 2, 2)).await.refused(422, "bad_proof");
    // Further back than any correct clock: the server accepts no proof that a later verification would reject.
    register(&ada, "agent.ada", &key(3)).await;
    world.clock.advance(-600);
    let (intent, _) = talk(&ada, json!({})).await;
    let events = format!("/intents/{intent}/events");
    ada.post(&events, proved(&intent, "agent.ada", "x", &key(3))).await.refused(422, "bad_proof");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_has_one_proof() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    register(&ada, "agent.ada", &key(1)).await;
    let (_, channel) = talk(&ada, json!({})).await;
    let mut twice = signed(&channel, 1, 1);
    let good = twice["metadata"]["proof"].to_string();
    twice["metadata"] = json!("@");
    let body = twice.to_string().replace("\"@\"", &format!(r#"{{"proof":{{"type":"x"}},"proof":{good}}}"#));
    let said = ada.send("POST", &format!("/channels/{channel}/messages"), Some(body)).await;
    said.refused(422, "unprocessable");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_none_is_nobodys() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    for (name, status, code) in [("a%00b", 422, "nul_character"), ("%01", 404, "not_found")] {
        ada.get(&format!("/agents/{name}/identity")).await.refused(status, code);
        let none = json!({ "payload": {}, "signature": "x" });
        ada.post(&format!("/agents/{name}/identity/verify"), none).await.refused(status, code);
    }
    let intent = ada.post("/intents", json!({ "title": "t" })).await.ok();
    let events = format!("/intents/{}/events?event_type=%00", intent["id"].as_str().unwrap());
    ada.get(&events).await.refused(422, "invalid_parameter");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_verified_and_exported_without_stopping_it() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let (intent, _) = talk(&ada, json!({})).await;
    let mut held = world.ctx().begin(&[intent.parse().unwrap(), IntentId::SYSTEM]).await.unwrap();
    sqlx::query("SET LOCAL idle_in_transaction_session_timeout = 0").execute(&mut *held).await.unwrap();
    let time = std::time::Duration::from_secs(5);
    for path in [format!("/intents/{intent}/events/verify"), format!("/intents/{intent}/export")] {
        let reply = tokio::time::timeout(time, ada.get(&path)).await.expect("nobody waits for a writer");
        assert_eq!(reply.status, 200);
    }
    tokio::time::timeout(time, admin.get("/audit/verify")).await.expect("nobody waits").ok();
    held.commit().await.unwrap();
    world.end().await;
}
