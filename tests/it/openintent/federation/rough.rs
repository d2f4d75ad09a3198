//! Failures between servers: a crash in the middle, a lost response, two servers that send the same message, a peer
//! that is away for long or for good. Every message arrives once; an undeliverable one is given up, and that is
//! reported.

use entente_openintent::federation::{claim, letter};

use super::{Two, again, did, events, free_port, peer, setup, types, url};
use entente_harness::{Act, Receiver, Value, World, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_before_it_sends_sends_when_it_is_back() {
    let two = Two::start().await;
    let intent = two.intent().await;
    two.dispatch(&intent, json!({})).await;
    // It had claimed the message when it died.
    let free = [(did(two.ports.1), 4)];
    assert_eq!(claim(&two.a.ctx().openintent, &free).await.unwrap().len(), 1);
    let Two { a, b, ports, setups, bob, .. } = two;
    let database = a.database.clone();
    a.server.stop().await;
    let a = again(&setups.0, &database).await;
    let ada = a.agent("agent.ada").await;
    assert_eq!(a.server.senders.federation.step().await.unwrap(), 0, "somebody may still have it in hand");
    a.clock.advance(91);
    assert_eq!(a.server.senders.federation.step().await.unwrap(), 1);
    let two = Two { a, b, ports, setups, ada, bob };
    let remote = two.bob.get("/intents").await.ok()["intents"][0]["id"].as_str().unwrap().to_owned();
    // The other server dies with pending callbacks.
    two.bob
        .seen(&json!(1))
        .post(&format!("/intents/{remote}/status"), json!({ "status": "completed" }))
        .await
        .ok();
    let Two { a, b, ports, setups, ada, bob } = two;
    let database = b.database.clone();
    b.server.stop().await;
    let b = again(&setups.1, &database).await;
    let two = Two { a, b, ports, setups, ada, bob };
    two.carry().await;
    assert_eq!(
        types(&two.ada, &intent["id"]).await,
        ["intent_created", "federation.dispatched", "federation.callback", "federation.completed"]
    );
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_makes_no_second_intent() {
    let two = Two::start().await;
    let intent = two.intent().await;
    two.dispatch(&intent, json!({ "agent_id": "agent.public.bob" })).await;
    let due = claim(&two.a.ctx().openintent, &[(did(two.ports.1), 4)]).await.unwrap().pop().unwrap();
    let (to, text) = letter(&two.a.ctx().openintent, &due).unwrap().unwrap();
    assert_eq!(to, format!("{}/api/v1/federation/receive", url(two.ports.1)));
    let first = two.b.anon().send("POST", "/federation/receive", Some(text.clone())).await.is(200);
    assert_eq!(first["accepted"], true);
    assert_eq!(two.b.anon().send("POST", "/federation/receive", Some(text)).await.is(200), first);
    // The response was not recorded, so the request is sent again with a new signature.
    two.a.clock.advance(91);
    assert_eq!(two.a.server.senders.federation.step().await.unwrap(), 1);
    assert_eq!(two.bob.get("/intents").await.ok()["intents"].as_array().unwrap().len(), 1);
    let log = events(&two.ada, &intent["id"]).await;
    assert_eq!(log.last().unwrap()["payload"]["remote_intent_id"], first["local_intent_id"]);
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_carry_each_letter_once() {
    let two = Two::start().await;
    let intent = two.intent().await;
    for _ in 0..6 {
        two.dispatch(&intent, json!({})).await;
    }
    let mut other = two.setups.0.clone();
    other.settings.retain(|(name, _)| *name != "ENTENTE_BIND");
    let other = World::on(other, two.a.database.clone()).await;
    let (one, another) =
        tokio::join!(two.a.server.senders.federation.step(), other.server.senders.federation.step());
    assert_eq!(one.unwrap() + another.unwrap(), 6);
    let found = two.bob.get("/intents").await.ok();
    assert_eq!(found["intents"].as_array().unwrap().len(), 6);
    // Callbacks are shared between servers too.
    let mut there = two.setups.1.clone();
    there.settings.retain(|(name, _)| *name != "ENTENTE_BIND");
    let there = World::on(there, two.b.database.clone()).await;
    for intent in found["intents"].as_array().unwrap() {
        let path = format!("/intents/{}/status", intent["id"].as_str().unwrap());
        two.bob.seen(&json!(1)).post(&path, json!({ "status": "completed" })).await.ok();
    }
    let told = |world: &World| {
        let ctx = world.ctx().clone();
        tokio::spawn(
            async move { entente_openintent::federation::report(&ctx.openintent, 500).await.unwrap() },
        )
    };
    let (one, another) = (told(&two.b), told(&there));
    one.await.unwrap();
    another.await.unwrap();
    two.carry().await;
    let log = types(&two.ada, &intent["id"]).await;
    let count = |word: &str| log.iter().filter(|kind| *kind == word).count();
    assert_eq!((count("federation.callback"), count("federation.completed")), (6, 6));
    other.server.stop().await;
    there.server.stop().await;
    two.end().await;
}

/// Starts one server whose only peer is at this port.
async fn alone(port: u16) -> (World, entente_harness::Client, Value) {
    let world = World::with(setup(free_port(), 1, &json!([peer(port, 2)]))).await;
    let ada = world.agent("agent.ada").await;
    let intent = ada.post("/intents", json!({ "title": "Translate" })).await.ok();
    (world, ada, intent)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_away_is_tried_for_a_day_and_then_given_up() {
    let port = free_port();
    let (world, ada, intent) = alone(port).await;
    let ask = json!({ "intent_id": intent["id"], "target_server": url(port) });
    let sent = ada.post("/federation/dispatch", ask).await.ok();
    let mut attempts = world.server.senders.federation.step().await.unwrap();
    assert_eq!(world.server.senders.federation.step().await.unwrap(), 0, "not at once again");
    for _ in 0..12 {
        world.clock.advance(44_000);
        attempts += world.server.senders.federation.step().await.unwrap();
    }
    assert_eq!(attempts, 8);
    let path = format!("/federation/dispatches/{}", sent["dispatch_id"].as_str().unwrap());
    let over = ada.get(&path).await.ok();
    assert_eq!((&over["status"], &over["state"]), (&json!("rejected"), &json!("dead")));
    let log = events(&ada, &intent["id"]).await;
    let last = log.last().unwrap();
    assert_eq!(
        (&last["event_type"], &last["payload"]["event_type"]),
        (&json!("federation.failed"), &json!("undelivered"))
    );
    let house = world.admin().await.get("/audit?event_type=federation.undelivered").await.ok();
    assert_eq!(
        (&house[0]["payload"]["attempts"], &house[0]["payload"]["kind"]),
        (&json!(8), &json!("dispatch"))
    );
    // An ended dispatch is kept for a month and then purged.
    world.pass(26 * 86_400).await;
    ada.get(&path).await.ok();
    world.pass(3 * 86_400).await;
    ada.get(&path).await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_peer_says_decides_whether_it_is_asked_again() {
    let receiver = Receiver::start().await;
    let (world, ada, intent) = alone(receiver.address.port()).await;
    let target = url(receiver.address.port());
    let cases = [
        (Act::Say(400, "what is this?"), 1, "rejected"),
        (Act::Say(422, "what is this?"), 1, "rejected"),
        // Errors that the peer can correct, or that are temporary, are retried.
        (Act::Say(401, "who are you?"), 2, "accepted"),
        (Act::Say(403, r#"{"code": "bad_signature"}"#), 2, "accepted"),
        (Act::Say(404, "not set up"), 2, "accepted"),
        (Act::Say(422, r#"{"code": "outside_window"}"#), 2, "accepted"),
        (Act::Say(429, ""), 2, "accepted"),
        (Act::Say(200, r#"{"accepted": false, "message": "no room"}"#), 1, "rejected"),
        (Act::Say(200, r#"{"accepted": true, "local_intent_id": "fed-1"}"#), 1, "accepted"),
        (Act::Say(503, "busy"), 2, "accepted"),
        (Act::Say(200, "<html>"), 2, "accepted"),
        (Act::Close, 2, "accepted"),
        (Act::Say(302, ""), 2, "accepted"),
    ];
    for (act, attempts, state) in cases {
        receiver.does([act.clone(), Act::Say(200, r#"{"accepted": true}"#)]);
        let ask = json!({ "intent_id": intent["id"], "target_server": target });
        let sent = ada.post("/federation/dispatch", ask).await.ok();
        let mut made = world.server.senders.federation.step().await.unwrap();
        world.clock.advance(100);
        made += world.server.senders.federation.step().await.unwrap();
        let path = format!("/federation/dispatches/{}", sent["dispatch_id"].as_str().unwrap());
        let now = ada.get(&path).await.ok();
        assert_eq!((made, &now["state"]), (attempts, &json!(state)), "{act:?}");
    }
    // Each attempt is signed with the current time.
    let got = receiver.got();
    let stamps: std::collections::BTreeSet<String> =
        got.iter().map(|got| got.body()["created_at"].to_string()).collect();
    assert!(stamps.len() >= 7);
    assert!(got.iter().all(|got| got.path == "/api/v1/federation/receive"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_never_says_a_word_again_has_failed() {
    let receiver = Receiver::start().await;
    receiver.does([Act::Say(200, r#"{"accepted": true}"#)]);
    let (world, ada, intent) = alone(receiver.address.port()).await;
    let ask = json!({ "intent_id": intent["id"], "target_server": url(receiver.address.port()) });
    let sent = ada.post("/federation/dispatch", ask).await.ok();
    world.server.senders.federation.step().await.unwrap();
    world.pass(89 * 86_400).await;
    let path = format!("/federation/dispatches/{}", sent["dispatch_id"].as_str().unwrap());
    assert_eq!(ada.get(&path).await.ok()["state"], "accepted");
    world.pass(2 * 86_400).await;
    assert_eq!(ada.get(&path).await.ok()["state"], "failed");
    let log = events(&ada, &intent["id"]).await;
    assert_eq!(log.last().unwrap()["payload"]["event_type"], "silent");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_resolved_before_it_is_sent_is_not_sent() {
    let receiver = Receiver::start().await;
    let (world, ada, intent) = alone(receiver.address.port()).await;
    let ask = json!({ "intent_id": intent["id"], "target_server": url(receiver.address.port()) });
    let sent = ada.post("/federation/dispatch", ask).await.ok();
    let path = format!("/intents/{}/status", intent["id"].as_str().unwrap());
    ada.seen(&json!(1)).post(&path, json!({ "status": "abandoned" })).await.ok();
    assert_eq!(world.server.senders.federation.step().await.unwrap(), 0);
    let path = format!("/federation/dispatches/{}", sent["dispatch_id"].as_str().unwrap());
    assert_eq!(ada.get(&path).await.ok()["state"], "dead");
    let log = events(&ada, &intent["id"]).await;
    assert_eq!(log.last().unwrap()["payload"]["event_type"], "called_off");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_taken_off_the_list_gets_nothing_any_more() {
    let receiver = Receiver::start().await;
    let (world, ada, intent) = alone(receiver.address.port()).await;
    let ask = json!({ "intent_id": intent["id"], "target_server": url(receiver.address.port()) });
    ada.post("/federation/dispatch", ask.clone()).await.ok();
    let database = world.database.clone();
    world.server.stop().await;
    let world = again(&setup(free_port(), 1, &json!([])), &database).await;
    let ada = world.agent("agent.ada").await;
    ada.post("/federation/dispatch", ask).await.refused(403, "forbidden");
    assert_eq!(world.server.senders.federation.step().await.unwrap(), 0);
    world.pass(4 * 86_400).await;
    assert_eq!(receiver.count(), 0);
    assert_eq!(types(&ada, &intent["id"]).await.last().unwrap(), "federation.failed");
    world.end().await;
}
