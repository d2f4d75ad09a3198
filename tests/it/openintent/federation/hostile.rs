//! Servers that are no peers, impostors, and hostile peers: nothing is accepted from the first two, and from a peer
//! only the permitted requests.

use entente_domain::clock::offset;
use entente_domain::openintent::federation::signing::sign;

use super::{Two, did, events, peer, setup, signed, signer, types, url};
use entente_harness::{Reply, Value, World, json};

/// Returns a delivery of peer `a` to `b`.
#[expect(clippy::needless_pass_by_value, reason = "`json!` makes one at each call")]
fn delivery(two: &Two, more: Value) -> Value {
    let mut body = json!({
        "dispatch_id": "d-1", "source_server": url(two.ports.0), "target_server": url(two.ports.1), "intent_id": "i-1",
        "intent_title": "Translate", "intent_state": { "half": 0.5 },
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn deliver(two: &Two, text: String) -> Reply {
    two.b.anon().send("POST", "/federation/receive", Some(text)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_taken_that_a_peer_has_not_signed_for_us_just_now() {
    let two = Two::start().await;
    let plain = delivery(&two, json!({}));
    // Unsigned, without a key and with any agent's key.
    deliver(&two, plain.to_string()).await.refused(403, "signature_required");
    two.bob.post("/federation/receive", plain.clone()).await.refused(403, "signature_required");
    two.b.client("wrong").post("/federation/receive", plain.clone()).await.refused(401, "unauthenticated");
    // Signed with another key, modified, or without a valid signature value.
    let forged = signed(&plain, "created_at", 9, &two.b);
    deliver(&two, forged).await.refused(403, "bad_signature");
    let good = signed(&plain, "created_at", 1, &two.b);
    deliver(&two, good.replace("Translate", "Transfer")).await.refused(403, "bad_signature");
    deliver(&two, good.replace("0.5", "0.50000000000000001")).await.is(200);
    let mut nonsense = plain.clone();
    nonsense["signature"] = json!(7);
    deliver(&two, nonsense.to_string()).await.refused(403, "bad_signature");
    // From an unknown server, and for another target.
    let stranger = delivery(&two, json!({ "source_server": "https://evil.example" }));
    deliver(&two, signed(&stranger, "created_at", 9, &two.b)).await.refused(403, "forbidden");
    let other = delivery(&two, json!({ "target_server": "https://c.example", "dispatch_id": "d-2" }));
    deliver(&two, signed(&other, "created_at", 1, &two.b)).await.refused(403, "forbidden");
    // Too old, from the future, without a timestamp.
    for seconds in [-301, 301] {
        let now = two.b.ctx().now() + chrono::TimeDelta::seconds(seconds);
        let old = sign(
            delivery(&two, json!({ "dispatch_id": "d-3" })).as_object().unwrap().clone(),
            "created_at",
            &signer(1),
            now,
        );
        deliver(&two, old).await.refused(422, "outside_window");
    }
    // Parsers disagree about a duplicate member.
    let twice = good.replacen('{', r#"{"intent_title":"x","#, 1);
    deliver(&two, twice).await.refused(422, "invalid_request");
    assert_eq!(
        two.bob.get("/intents").await.ok()["intents"].as_array().unwrap().len(),
        1,
        "the one good letter"
    );
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_shown_again_does_nothing_again() {
    let two = Two::start().await;
    let good = signed(&delivery(&two, json!({})), "created_at", 1, &two.b);
    let first = deliver(&two, good.clone()).await.is(200);
    assert_eq!(deliver(&two, good.clone()).await.is(200), first);
    let (one, other) = tokio::join!(
        deliver(&two, signed(&delivery(&two, json!({ "dispatch_id": "d-2" })), "created_at", 1, &two.b)),
        deliver(&two, signed(&delivery(&two, json!({ "dispatch_id": "d-2" })), "created_at", 1, &two.b))
    );
    assert_eq!(one.is(200), other.is(200));
    let changed = signed(&delivery(&two, json!({ "intent_title": "other" })), "created_at", 1, &two.b);
    deliver(&two, changed).await.refused(409, "idempotency_mismatch");
    two.b.clock.advance(301);
    deliver(&two, good).await.refused(422, "outside_window");
    assert_eq!(two.bob.get("/intents").await.ok()["intents"].as_array().unwrap().len(), 2);
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_cannot_have_us_call_anybody_else() {
    let two = Two::start().await;
    let own = format!("http://127.0.0.1:{}/", two.ports.1);
    for place in [
        "http://169.254.169.254/latest",
        "https://127.0.0.1/",
        "http://elsewhere.example/",
        "file:///etc/passwd",
        &own,
    ] {
        let body = delivery(&two, json!({ "callback_url": place }));
        deliver(&two, signed(&body, "created_at", 1, &two.b)).await.refused(422, "unprocessable");
    }
    assert_eq!(two.b.any().get("/intents").await.ok()["intents"], json!([]));
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_or_no_delivery_is_refused() {
    let two = Two::start().await;
    let large = delivery(&two, json!({ "intent_state": { "a": "x".repeat(1_100_000) } }));
    deliver(&two, signed(&large, "created_at", 1, &two.b)).await.refused(413, "too_large");
    let long = delivery(&two, json!({ "intent_title": "x".repeat(501) }));
    deliver(&two, signed(&long, "created_at", 1, &two.b)).await.refused(422, "invalid_request");
    let beyond = delivery(&two, json!({ "intent_state": { "n": 9_007_199_254_740_993_u64 } }));
    deliver(&two, signed(&beyond, "created_at", 1, &two.b)).await.refused(422, "unprocessable");
    for body in ["", "[]", "{}", "{\"dispatch_id\": 1}", "{\"signature\": \"x\"}"] {
        let reply = deliver(&two, body.to_owned()).await;
        assert!([400, 422].contains(&reply.status), "{body}: {}", reply.text);
    }
    let nul = signed(&delivery(&two, json!({ "intent_description": "a\u{0}" })), "created_at", 1, &two.b);
    deliver(&two, nul).await.refused(422, "nul_character");
    assert_eq!(two.b.any().get("/intents").await.ok()["intents"], json!([]));
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_tells_only_of_what_was_given_to_it() {
    let port = super::free_port();
    let ports = (super::free_port(), super::free_port());
    // `a` has `b` and a third server as peers.
    let setups = (
        setup(ports.0, 1, &json!([peer(ports.1, 2), peer(port, 3)])),
        setup(ports.1, 2, &json!([peer(ports.0, 1)])),
    );
    let (a, b) = (World::with(setups.0.clone()).await, World::with(setups.1.clone()).await);
    let (ada, bob) = (a.agent("agent.ada").await, b.agent("agent.public.bob").await);
    let two = Two { a, b, ports, setups, ada, bob };
    let intent = two.intent().await;
    let sent = two.dispatch(&intent, json!({})).await;
    two.carry().await;
    let tell = async |body: Value, seed: u8| {
        let text = signed(&body, "timestamp", seed, &two.a);
        two.a.anon().send("POST", "/federation/callbacks", Some(text)).await
    };
    let body = json!({ "dispatch_id": sent["dispatch_id"], "event_type": "completed", "state_delta": {} });
    tell(body.clone(), 3).await.refused(404, "not_found");
    tell(body.clone(), 9).await.refused(403, "bad_signature");
    two.a.anon().post("/federation/callbacks", body.clone()).await.refused(403, "signature_required");
    two.ada.post("/federation/callbacks", body.clone()).await.refused(403, "signature_required");
    // An API key of another peer is no better than that peer's signature.
    two.a.agent(&did(port)).await.post("/federation/callbacks", body.clone()).await.refused(404, "not_found");
    let other = json!({ "dispatch_id": "disp_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "event_type": "completed" });
    tell(other, 2).await.refused(404, "not_found");
    tell(json!({ "dispatch_id": sent["dispatch_id"], "event_type": "banana" }), 2)
        .await
        .refused(422, "invalid_request");
    let stale = sign(
        body.as_object().unwrap().clone(),
        "timestamp",
        &signer(2),
        two.a.ctx().now() - chrono::TimeDelta::seconds(301),
    );
    two.a.anon().send("POST", "/federation/callbacks", Some(stale)).await.refused(422, "outside_window");
    let before = types(&two.ada, &intent["id"]).await;
    assert_eq!(before, ["intent_created", "federation.dispatched", "federation.callback"]);
    // The peer's own callback counts, once.
    let delta = json!({ "dispatch_id": sent["dispatch_id"], "event_type": "budget_warning", "state_delta": { "spent": 0.9 } });
    let heard = tell(delta.clone(), 2).await.is(200);
    assert_eq!((&heard["received"], &heard["event_type"]), (&json!(true), &json!("budget_warning")));
    tell(delta.clone(), 2).await.is(200);
    let key = two.a.agent(&did(ports.1)).await;
    key.post("/federation/callbacks", delta).await.is(200);
    tell(body.clone(), 2).await.is(200);
    let mut late = body;
    late["event_type"] = json!("failed");
    tell(late, 2).await.is(200);
    let log = events(&two.ada, &intent["id"]).await;
    let kinds: Vec<&str> = log[3..].iter().map(|event| event["event_type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["federation.budget_warning", "federation.completed", "federation.failed"]);
    let path = format!("/federation/dispatches/{}", sent["dispatch_id"].as_str().unwrap());
    assert_eq!(two.ada.get(&path).await.ok()["state"], "completed", "what is over stays as it ended");
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peers_own_key_stands_for_its_signature_and_for_no_other_peers() {
    let two = Two::start().await;
    let theirs = two.b.agent(&did(two.ports.0)).await;
    // As the SDK's client sends it: without a target, a timestamp or a signature.
    let mut body = delivery(&two, json!({}));
    body.as_object_mut().unwrap().remove("target_server");
    let taken = theirs.post("/federation/receive", body.clone()).await.is(200);
    assert_eq!(theirs.post("/federation/receive", body.clone()).await.is(200), taken);
    let copy = two.bob.get(&format!("/intents/{}", taken["local_intent_id"].as_str().unwrap())).await.ok();
    assert_eq!(copy["created_by"], did(two.ports.0));
    // The peer owns the delivered intent under the same name.
    let path = format!("/intents/{}/acl", taken["local_intent_id"].as_str().unwrap());
    theirs.put(&path, json!({ "default_policy": "closed", "entries": [] })).await.ok();
    two.bob
        .get(&format!("/intents/{}", taken["local_intent_id"].as_str().unwrap()))
        .await
        .refused(403, "access_closed");
    body["source_server"] = json!("https://c.example");
    theirs.post("/federation/receive", body).await.refused(403, "forbidden");
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_may_be_let_neither_give_nor_take() {
    let ports = (super::free_port(), super::free_port());
    let mut shut = peer(ports.0, 1);
    shut["receive_from"] = json!(false);
    shut["dispatch_to"] = json!(false);
    let setups = (setup(ports.0, 1, &json!([peer(ports.1, 2)])), setup(ports.1, 2, &json!([shut])));
    let (a, b) = (World::with(setups.0.clone()).await, World::with(setups.1.clone()).await);
    let (ada, bob) = (a.agent("agent.ada").await, b.agent("agent.public.bob").await);
    let two = Two { a, b, ports, setups, ada, bob };
    let now = offset(two.b.ctx().now());
    assert!(now.ends_with("+00:00"));
    deliver(&two, signed(&delivery(&two, json!({})), "created_at", 1, &two.b))
        .await
        .refused(403, "forbidden");
    let intent = two.bob.post("/intents", json!({ "title": "t" })).await.ok();
    let ask = json!({ "intent_id": intent["id"], "target_server": url(two.ports.0) });
    two.bob.post("/federation/dispatch", ask).await.refused(403, "forbidden");
    two.end().await;
}
