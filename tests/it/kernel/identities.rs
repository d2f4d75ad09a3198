//! Agents' keys (RFC-0018): registration by a signed challenge, rotation signed by the old key, revocation by the
//! agent's principal, and signatures.

use entente_domain::identity::signatures::Signer;

use entente_harness::identities::{by, key, proved, register};
use entente_harness::{Setup, Value, World, json, send, talk};

fn rotation(old: &Signer, new: &Signer) -> Value {
    let mut body =
        json!({ "action": "rotate", "new_public_key": new.public_key(), "old_public_key": old.public_key() });
    body["signature"] = json!(by(old, &body));
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_registered_by_signing_a_challenge() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (path, signer) = ("/agents/agent.ada/identity", key(1));
    let ask = json!({ "public_key": signer.public_key(), "key_algorithm": "Ed25519" });
    bob.get(path).await.refused(404, "not_found");
    bob.post(path, ask.clone()).await.refused(403, "may_not_act_as");
    let opened = ada.post(path, ask.clone()).await.is(200);
    assert_eq!(opened["challenge_expires_at"], "2026-11-21T08:05:00.000000Z");
    let challenge = opened["challenge"].as_str().unwrap().to_owned();
    let answer = json!({ "challenge": challenge, "signature": signer.sign(&challenge).show() });
    let complete = format!("{path}/challenge");
    bob.post(&complete, answer.clone()).await.refused(403, "may_not_act_as");
    let wrong = json!({ "challenge": challenge, "signature": key(2).sign(&challenge).show() });
    ada.post(&complete, wrong).await.refused(403, "bad_signature");
    world.clock.advance(10);
    let made = ada.post(&complete, answer.clone()).await.is(201);
    let public_key = signer.public_key().to_string();
    let did = signer.public_key().did();
    let expected = json!({
        "agent_id": "agent.ada", "public_key": public_key, "did": did, "key_algorithm": "Ed25519", "status": "active",
        "registered_at": "2026-11-21T08:00:10.000000Z", "key_expires_at": null, "revoked_at": null,
        "previous_keys": [], "metadata": {},
        "keys": [{
            "public_key": public_key, "did": did, "status": "active", "valid_from": "2026-11-21T08:00:10.000000Z",
            "expires_at": null, "ended_at": null, "ended_by": null,
        }],
    });
    assert_eq!(made, expected);
    assert_eq!(bob.get(path).await.ok(), expected, "everybody may check");
    // A challenge is valid once, and an agent has one key at a time.
    ada.post(&complete, answer).await.refused(422, "unprocessable");
    ada.post(path, ask).await.refused(409, "identity_exists");
    let admin = world.admin().await;
    let told = admin.get("/audit?limit=3").await.ok();
    let told = told.as_array().unwrap().iter().filter(|event| event["actor"] == "agent.ada");
    let kinds: Vec<&str> = told.map(|event| event["event_type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["agent.identity.registered", "agent.identity.challenge_issued"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_registered_is_refused() {
    let world = World::start().await;
    let (ada, any) = (world.agent("agent.ada").await, world.any());
    let path = "/agents/agent.ada/identity";
    for (member, value, code) in [
        ("public_key", json!("ed25519:AAAA"), "unprocessable"),
        ("public_key", json!(format!("ed25519:{}", "A".repeat(43))), "unprocessable"),
        ("public_key", json!(7), "invalid_request"),
        ("key_algorithm", json!("RSA"), "unprocessable"),
        ("key_expires_at", json!("2026-11-21T08:00:00Z"), "already_expired"),
        ("key_expires_at", json!("soon"), "invalid_request"),
    ] {
        let mut ask = json!({ "public_key": key(1).public_key() });
        ask[member] = value;
        ada.post(path, ask).await.refused(422, code);
    }
    // An unregistered name has no identity, even for a service that may act as any agent.
    let ask = json!({ "public_key": key(1).public_key() });
    any.post("/agents/agent.ghost/identity", ask.clone()).await.refused(404, "not_found");
    let none = json!({ "payload": {}, "signature": "x" });
    any.post("/agents/agent.ghost/identity/verify", none).await.refused(404, "not_found");
    any.post("/agents/agent.ghost/identity/rotate", rotation(&key(1), &key(2)))
        .await
        .refused(404, "not_found");
    any.post("/agents/agent.ghost/identity/revoke", json!({})).await.refused(404, "not_found");
    let answer = json!({ "challenge": "x", "signature": "x" });
    any.post("/agents/agent.ghost/identity/challenge", answer.clone()).await.refused(404, "not_found");
    ada.post("/agents/agent.ada/identity/challenge", answer).await.refused(422, "unprocessable");
    any.post("/agents/register", json!({ "agent_id": "agent.ghost" })).await.ok();
    register(&any, "agent.ghost", &key(1)).await;
    // A challenge ends with its timeout or with the next challenge.
    let first = ada.post(path, ask.clone()).await.ok();
    let signed = |opened: &Value| {
        let challenge = opened["challenge"].as_str().unwrap();
        json!({ "challenge": challenge, "signature": key(1).sign(challenge).show() })
    };
    let second = ada.post(path, ask.clone()).await.ok();
    ada.post(&format!("{path}/challenge"), signed(&first)).await.refused(422, "unprocessable");
    world.clock.advance(300);
    ada.post(&format!("{path}/challenge"), signed(&second)).await.refused(422, "unprocessable");
    ada.get(path).await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_a_registration_is_done_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (path, signer) = ("/agents/agent.ada/identity", key(1));
    let ask = json!({ "public_key": signer.public_key() });
    let opened = ada.once("a").post(path, ask.clone()).await.ok();
    assert_eq!(ada.once("a").post(path, ask).await.ok(), opened);
    let challenge = opened["challenge"].as_str().unwrap();
    let answer = json!({ "challenge": challenge, "signature": signer.sign(challenge).show() });
    let made = ada.once("b").post(&format!("{path}/challenge"), answer.clone()).await.is(201);
    assert_eq!(ada.once("b").post(&format!("{path}/challenge"), answer).await.is(201), made);
    let turn = rotation(&signer, &key(2));
    let turned = ada.once("c").post(&format!("{path}/rotate"), turn.clone()).await.is(200);
    assert_eq!(ada.once("c").post(&format!("{path}/rotate"), turn.clone()).await.is(200), turned);
    ada.post(&format!("{path}/rotate"), turn).await.refused(422, "unprocessable");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_is_worth_what_its_key_is() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (first, second) = (key(1), key(2));
    register(&ada, "agent.ada", &first).await;
    let path = "/agents/agent.ada/identity";
    let payload = json!({ "b": 1.0, "a": "ä" });
    let verify = async |signature: &str| {
        let asked = json!({ "payload": { "a": "ä", "b": 1 }, "signature": signature });
        let found = bob.post(&format!("{path}/verify"), asked).await.is(200);
        assert_eq!(found["agent_id"], "agent.ada");
        (found["valid"].as_bool().unwrap(), found["reason"].clone())
    };
    assert_eq!(verify(&by(&first, &payload)).await, (true, json!(null)));
    assert_eq!(verify(&by(&second, &payload)).await, (false, json!("bad_signature")));
    assert_eq!(verify("no signature").await, (false, json!("bad_signature")));
    bob.post(&format!("{path}/rotate"), rotation(&first, &second)).await.refused(403, "may_not_act_as");
    ada.post(&format!("{path}/rotate"), rotation(&second, &key(3))).await.refused(422, "unprocessable");
    let mut forged = rotation(&first, &second);
    forged["new_public_key"] = json!(key(3).public_key());
    ada.post(&format!("{path}/rotate"), forged).await.refused(403, "bad_signature");
    world.clock.advance(60);
    let turned = ada.post(&format!("{path}/rotate"), rotation(&first, &second)).await.is(200);
    assert_eq!(turned["public_key"], json!(second.public_key()));
    assert_eq!(turned["previous_keys"], json!([first.public_key()]));
    assert_eq!(turned["keys"][0]["ended_by"], "rotated");
    assert_eq!(turned["keys"][0]["ended_at"], "2026-11-21T08:01:00.000000Z");
    assert_eq!(turned["registered_at"], "2026-11-21T08:00:00.000000Z");
    assert_eq!(verify(&by(&first, &payload)).await, (false, json!("superseded")));
    assert_eq!(verify(&by(&second, &payload)).await, (true, json!(null)));
    bob.post(&format!("{path}/revoke"), json!({})).await.refused(403, "may_not_act_as");
    let gone = ada.send("POST", &format!("{path}/revoke"), None).await.is(200);
    assert_eq!(
        (&gone["status"], &gone["revoked_at"]),
        (&json!("revoked"), &json!("2026-11-21T08:01:00.000000Z"))
    );
    assert_eq!(verify(&by(&second, &payload)).await, (false, json!("revoked")));
    assert_eq!(
        ada.post(&format!("{path}/revoke"), json!({})).await.is(200),
        gone,
        "again, it changes nothing"
    );
    // An admin may revoke it, but nothing else.
    register(&ada, "agent.ada", &key(4)).await;
    let admin = world.admin().await;
    let gone = admin.post(&format!("{path}/revoke"), json!({ "reason": "stolen" })).await.is(200);
    assert_eq!(gone["status"], "revoked");
    let told = admin.get("/audit?event_type=agent.identity.revoked").await.ok();
    assert_eq!(told[0]["payload"]["reason"], "stolen");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_ends_the_instant_its_time_runs_out() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (path, signer) = ("/agents/agent.ada/identity", key(1));
    let ask = json!({ "public_key": signer.public_key(), "key_expires_at": "2026-11-21T09:00:00Z" });
    let opened = ada.post(path, ask).await.ok();
    let challenge = opened["challenge"].as_str().unwrap();
    let answer = json!({ "challenge": challenge, "signature": signer.sign(challenge).show() });
    let made = ada.post(&format!("{path}/challenge"), answer).await.is(201);
    assert_eq!(made["key_expires_at"], "2026-11-21T09:00:00.000000Z");
    let asked = json!({ "payload": {}, "signature": by(&signer, &json!({})) });
    world.clock.advance(3_599);
    assert_eq!(ada.post(&format!("{path}/verify"), asked.clone()).await.ok()["valid"], true);
    world.clock.advance(1);
    let found = ada.post(&format!("{path}/verify"), asked).await.ok();
    assert_eq!((&found["valid"], &found["reason"]), (&json!(false), &json!("expired")));
    assert_eq!(ada.get(path).await.ok()["status"], "expired");
    let again = register(&ada, "agent.ada", &key(2)).await;
    assert_eq!(again["keys"][0]["ended_by"], "replaced");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_on_an_event_is_checked() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = ada.post("/intents", json!({ "title": "t" })).await.ok();
    let intent = intent["id"].as_str().unwrap();
    let path = format!("/intents/{intent}/events");
    let note = proved(intent, "agent.ada", "before", &key(1));
    // Without a registered key the proof is stored as unverified.
    let kept = ada.post(&path, note.clone()).await.is(200);
    assert_eq!((&kept["proof"], &kept["proof_verified"]), (&note["proof"], &json!(false)));
    register(&ada, "agent.ada", &key(1)).await;
    let note = proved(intent, "agent.ada", "after", &key(1));
    let made = ada.post(&path, note.clone()).await.is(200);
    assert_eq!((&made["proof"], &made["proof_verified"]), (&note["proof"], &json!(true)));
    let listed = ada.get(&path).await.ok();
    assert_eq!(listed[0], made);
    let plain = json!({ "event_type": "note", "payload": {} });
    assert!(ada.post(&path, plain).await.ok().get("proof_verified").is_none());
    let mut forged = note.clone();
    forged["payload"]["text"] = json!("other");
    let said = ada.post(&path, forged).await.refused(422, "bad_proof");
    assert_eq!(said["errors"][0]["loc"], json!(["body", "proof"]));
    ada.post(&path, proved(intent, "agent.ada", "x", &key(2))).await.refused(422, "bad_proof");
    let other = ada.post("/intents", json!({ "title": "t" })).await.ok();
    let elsewhere = format!("/intents/{}/events", other["id"].as_str().unwrap());
    ada.post(&elsewhere, note.clone()).await.refused(422, "bad_proof");
    let count = ada.get(&path).await.ok().as_array().unwrap().len();
    assert_eq!(count, 4, "what was refused left nothing");
    ada.post("/agents/agent.ada/identity/revoke", json!({})).await.ok();
    ada.post(&path, note).await.refused(422, "bad_proof");
    assert_eq!(ada.get(&format!("{path}/verify")).await.ok()["valid"], true);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_mode_keeps_no_proof_that_it_cannot_check() {
    let world = World::with(Setup { settings: vec![("ENTENTE_STRICT_RFC0021", "true")], live: false }).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let note = proved(&intent, "agent.ada", "x", &key(1));
    ada.post(&format!("/intents/{intent}/events"), note).await.refused(422, "bad_proof");
    let said = json!({
        "sender": "agent.ada", "message_type": "notify", "payload": {}, "metadata": { "proof": { "type": "other" } }
    });
    ada.post(&format!("/channels/{channel}/messages"), said).await.refused(422, "bad_proof");
    world.end().await;
}

/// Returns a message with its proof as a client makes it.
fn signed(channel: &str, body: Value, signer: &Signer) -> Value {
    let mut form = body.clone();
    let proof = json!({ "type": "Ed25519Signature2026", "created": "2026-11-21T08:00:00Z" });
    form["channel_id"] = json!(channel);
    form["proof"] = proof.clone();
    let mut body = body;
    body["metadata"] = json!({ "trace": "kept", "proof": proof });
    body["metadata"]["proof"]["signature"] = json!(by(signer, &form));
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audited_message_takes_its_proof_into_the_log() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    register(&ada, "agent.ada", &key(1)).await;
    let (intent, channel) = talk(&ada, json!({ "options": { "audit": true } })).await;
    let ask = json!({ "sender": "agent.ada", "to": "*", "message_type": "request", "payload": { "q": 1 } });
    let request = send(&ada, &channel, signed(&channel, ask, &key(1))).await;
    let answer = json!({
        "sender": "agent.ada", "message_type": "response", "correlation_id": request["id"], "payload": {}
    });
    let answer = send(&ada, &channel, signed(&channel, answer, &key(1))).await;
    let events = ada.get(&format!("/intents/{intent}/events?event_type=channel.message")).await.ok();
    for (event, message) in [(&events[1], &request), (&events[0], &answer)] {
        let logged = &event["payload"];
        let mut proof = logged["proof"].clone();
        assert_eq!(proof, message["metadata"]["proof"]);
        let signature = proof.as_object_mut().unwrap().remove("signature").unwrap();
        let mut form = json!({
            "channel_id": logged["channel_id"], "sender": event["actor"], "message_type": logged["message_type"],
            "payload": logged["payload"], "proof": proof,
        });
        match logged.get("correlation_id") {
            Some(request) => form["correlation_id"] = request.clone(),
            None => form["to"] = logged["to"].clone(),
        }
        let verify = json!({ "payload": form, "signature": signature });
        assert_eq!(ada.post("/agents/agent.ada/identity/verify", verify).await.ok()["valid"], true);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_on_a_message_is_checked() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let messages = format!("/channels/{channel}/messages");
    let notify =
        json!({ "sender": "agent.ada", "to": "agent.bob", "message_type": "notify", "payload": { "n": 1 } });
    // Without an identity the proof is stored as it is.
    let early = signed(&channel, notify.clone(), &key(9));
    assert_eq!(send(&ada, &channel, early.clone()).await["metadata"], early["metadata"]);
    register(&ada, "agent.ada", &key(1)).await;
    register(&bob, "agent.bob", &key(2)).await;
    let good = signed(&channel, notify.clone(), &key(1));
    assert_eq!(send(&ada, &channel, good.clone()).await["metadata"], good["metadata"]);
    ada.post(&messages, early).await.refused(422, "bad_proof");
    let mut forged = good.clone();
    forged["payload"]["n"] = json!(2);
    ada.post(&messages, forged).await.refused(422, "bad_proof");
    let mut redirected = good.clone();
    redirected["to"] = json!("agent.eve");
    ada.post(&messages, redirected).await.refused(422, "bad_proof");
    let escaped = good.to_string().replace("\"proof\"", "\"pr\\u006fof\"").replace("\"n\":1", "\"n\":2");
    ada.send("POST", &messages, Some(escaped)).await.refused(422, "bad_proof");
    // A proof of another type is not checked.
    let mut other = notify.clone();
    other["metadata"] = json!({ "proof": { "type": "JsonWebSignature2020", "jws": "x" } });
    send(&ada, &channel, other).await;
    // A broadcast request, its response, a batch and an ask; each takes another code path.
    let ask = json!({ "sender": "agent.ada", "to": "*", "message_type": "request", "payload": {} });
    let request = send(&ada, &channel, signed(&channel, ask, &key(1))).await;
    let answer = json!({
        "sender": "agent.bob", "message_type": "response", "correlation_id": request["id"], "payload": { "a": 1 }
    });
    let mut reply = signed(&channel, answer, &key(2));
    reply.as_object_mut().unwrap().remove("message_type");
    let path = format!("{messages}/{}/reply", request["id"].as_str().unwrap());
    let mut wrong = reply.clone();
    wrong["payload"]["a"] = json!(2);
    bob.post(&path, wrong).await.refused(422, "bad_proof");
    bob.post(&path, reply).await.is(201);
    let mut bad = good.clone();
    bad["payload"] = json!({});
    let batch = json!({ "messages": [bad, good] });
    let done = ada.post(&format!("{messages}/batch"), batch).await.is(207);
    assert_eq!(done["results"][0]["error"]["code"], "bad_proof");
    assert_eq!(done["results"][1]["message"]["payload"], json!({ "n": 1 }));
    let mut asked = signed(&channel, json!({ "to": "agent.bob", "payload": {} }), &key(1));
    asked["timeout"] = json!(1);
    ada.post(&format!("/channels/{channel}/ask"), asked).await.refused(422, "bad_proof");
    // The signature covers the channel's id, which a sender by name does not know.
    ada.post(&format!("/intents/{intent}/channels/talk/messages"), good.clone())
        .await
        .refused(422, "bad_proof");
    assert_eq!(ada.get(&messages).await.ok().as_array().unwrap().len(), 6);
    // A reader can verify it with the returned fields.
    let read = bob.get(&messages).await.ok()[1].clone();
    let mut form = json!({
        "channel_id": read["channel_id"], "sender": read["sender"], "to": read["to"],
        "message_type": read["message_type"], "payload": read["payload"], "proof": read["metadata"]["proof"],
    });
    let signature = form["proof"].as_object_mut().unwrap().remove("signature").unwrap();
    let verify = json!({ "payload": form, "signature": signature });
    assert_eq!(bob.post("/agents/agent.ada/identity/verify", verify).await.ok()["valid"], true);
    world.end().await;
}
