//! Persons in AEE: unreadable consent requests are refused instead of ignored (§3), only a person's own key may
//! send or read for that person (§11.5), and members that a signature does not cover are not trusted (§8).

use serde_json::Map;

use super::{mail, task_envelope, two, with};
use entente_harness::envelopes::core_signed;
use entente_harness::identities::key;
use entente_harness::keys;
use entente_harness::mcp::{Era, Mcp};
use entente_harness::people::logged_in;
use entente_harness::{Client, Receiver, Setup, Value, World, json, subscribe};

#[tokio::test]
async fn consent_that_nobody_can_read_is_sent_back_at_every_door() {
    let (world, ada, bob) = two().await;
    let mcp = Mcp::new(&ada, Era::Stateless);
    let odd = [
        json!("true"),
        json!("yes"),
        json!(1),
        json!(0),
        json!("false"),
        json!(null),
        json!([true]),
        json!({}),
    ];
    for (n, value) in odd.into_iter().enumerate() {
        let requires = json!({ "requires": { "human_approval": value, "timeout_ms": 1000 } });
        let asked =
            with(task_envelope(&world, &format!("envelope-{n}"), ("agent.ada", "agent.bob")), requires);
        let refused = ada.post("/aee/envelopes", asked.clone()).await.refused(422, "invalid_envelope");
        assert_eq!(refused["errors"][0]["loc"], json!(["body", "requires", "human_approval"]), "{refused}");
        let batch = ada.post("/aee/envelopes/batch", json!([asked])).await.is(207);
        assert_eq!(batch["results"][0]["error"]["code"], "invalid_envelope", "{batch}");
        mcp.refused("send_envelope", json!({ "envelope": asked }), "invalid_envelope").await;
    }
    assert_eq!(mail(&bob, "agent.bob").await, [], "nothing of it was handed out");
    // Members that are not about consent are ignored as before (§6.10).
    let soon = json!({ "requires": { "timeout_ms": "soon", "Human_Approval": "yes" } });
    let receipt = ada
        .post("/aee/envelopes", with(task_envelope(&world, "envelope-x", ("agent.ada", "agent.bob")), soon));
    assert_eq!(receipt.await.is(202)["warnings"], json!(["id_not_ulid_or_uuid", "requires_type"]));
    world.end().await;
}

/// Asserts that a key can neither send nor read for a person, through any endpoint.
async fn no_proxy(world: &World, client: &Client, person: &str) {
    let from = task_envelope(world, &format!("forged-{person}"), (person, "agent.bob"));
    client.post("/aee/envelopes", from.clone()).await.refused(403, "from_mismatch");
    let batch = client.post("/aee/envelopes/batch", json!([from])).await.is(207);
    assert_eq!(batch["results"][0]["error"]["code"], "from_mismatch");
    let mailbox = format!("/aee/mailboxes/{person}");
    client.get(&mailbox).await.refused(404, "not_found");
    client.get(&format!("/aee/stream?entity={person}")).await.refused(404, "not_found");
    client.send("PUT", &mailbox, None).await.refused(404, "not_found");
    client.post(&format!("{mailbox}/pick"), json!({})).await.refused(404, "not_found");
    client.post(&format!("{mailbox}/ack"), json!({ "up_to": 1 })).await.refused(404, "not_found");
    client
        .send("PUT", &format!("/aee/buses/bus.ops/subscriptions/{person}"), None)
        .await
        .refused(404, "not_found");
    let endpoint = json!({ "webhook_url": "https://example.com/x", "mailbox": person });
    client.post("/subscriptions", endpoint).await.refused(404, "not_found");
    let registered =
        json!({ "entity": person, "kid": "k", "algorithm": "ed25519", "public_key": key(9).public_key() });
    client.post("/aee/keys", registered).await.refused(404, "not_found");
    let mcp = Mcp::new(client, Era::Stateless);
    mcp.refused("send_envelope", json!({ "envelope": from }), "from_mismatch").await;
    mcp.refused("read_mailbox", json!({ "entity": person, "ack": true }), "not_found").await;
}

#[tokio::test]
async fn no_key_but_a_persons_own_speaks_or_reads_for_that_person() {
    let (world, ada, _bob) = two().await;
    let (eve, dan) = (world.human("human.eve").await, world.human("dan").await);
    let (any, admin) = (world.any(), world.admin().await);
    let narrow =
        keys::key(&world, &admin, "agent.narrow", json!({ "act_as": ["human.eve", "dan"] })).await.client;
    for person in ["human.eve", "dan"] {
        let own = if person == "dan" { &dan } else { &eve };
        for id in ["one", "two"] {
            let id = format!("envelope-{id}-{person}");
            ada.post("/aee/envelopes", task_envelope(&world, &id, ("agent.ada", person))).await.is(202);
        }
        for client in [&any, &any.acting_as(person), &narrow, &narrow.acting_as(person)] {
            no_proxy(&world, client, person).await;
        }
        narrow.get(&format!("/aee/envelopes/envelope-one-{person}")).await.refused(404, "not_found");
        assert_eq!(mail(own, person).await.len(), 2, "it lies there as it did");
        own.post(&format!("/aee/mailboxes/{person}/ack"), json!({ "up_to": 1 })).await.ok();
        own.get(&format!("/aee/envelopes/envelope-one-{person}")).await.ok();
        own.post(
            "/aee/envelopes",
            task_envelope(&world, &format!("envelope-own-{person}"), (person, "agent.bob")),
        )
        .await
        .is(202);
    }
    narrow.get("/aee/threads/thread-00000001").await.refused(404, "not_found");
    // A name of the form of a person's is reserved too, even if nobody has it.
    no_proxy(&world, &any, "human.nobody").await;
    // A principal known not to be a person follows the ordinary act-as rules.
    world.agent("human.robot").await;
    any.post("/aee/envelopes", task_envelope(&world, "envelope-robot", ("human.robot", "agent.bob")))
        .await
        .is(202);
    any.get("/aee/mailboxes/human.robot").await.ok();
    world.end().await;
}

#[tokio::test]
async fn a_mailbox_is_its_persons_alone_from_when_it_is_a_persons() {
    let (world, ada, _bob) = two().await;
    let receiver = Receiver::start().await;
    let any = world.any().acting_as("mia");
    any.send("PUT", "/aee/mailboxes/mia", None).await.ok();
    subscribe(&any, &receiver.url(), json!({ "mailbox": "mia" })).await;
    ada.post("/aee/envelopes", task_envelope(&world, "envelope-1", ("agent.ada", "mia"))).await.is(202);
    world.hooks().await;
    assert_eq!(receiver.got().len(), 1, "nobody says that it is a person's");
    let mia = world.human("mia").await;
    ada.post("/aee/envelopes", task_envelope(&world, "envelope-2", ("agent.ada", "mia"))).await.is(202);
    world.hooks().await;
    assert_eq!(receiver.got().len(), 1, "what was set up before sends on no more");
    any.get("/aee/mailboxes/mia").await.refused(404, "not_found");
    assert_eq!(mail(&mia, "mia").await.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn what_a_signature_does_not_bind_is_not_believed() {
    let settings = vec![("ENTENTE_AEE_RELAYS", "agent.gateway=partner.**")];
    let world = World::with(Setup { settings, live: false }).await;
    let (gateway, bob) = (world.agent("agent.gateway").await, world.agent("agent.bob").await);
    let eve = world.human("human.eve").await;
    let made = json!({ "entity": "partner.a", "kid": "one", "algorithm": "ed25519", "public_key": key(1).public_key() });
    world.any().post("/aee/keys", made).await.is(201);
    let said = |id: &str, more: Value| with(task_envelope(&world, id, ("partner.a", "agent.bob")), more);
    let send = async |envelope: Value| gateway.post("/aee/envelopes", envelope).await.is(202);
    // A relay may have added these unsigned members, so they get their defaults.
    let pressing = json!({ "priority": "urgent", "requires": { "timeout_ms": 5, "evidence": true } });
    let carried = with(core_signed(said("envelope-1", json!({})), 1), pressing.clone());
    let receipt = send(carried.clone()).await;
    assert_eq!(receipt["verified"], json!({ "by": "sig", "kid": "one", "scope": "core" }));
    assert_eq!((&receipt["effective_priority"], receipt.get("deadline")), (&json!("normal"), None));
    assert_eq!(receipt["warnings"], json!(["id_not_ulid_or_uuid", "partly_signed", "priority_lowered"]));
    assert_eq!(mail(&bob, "agent.bob").await[0].1, carried, "it is handed out as it came");
    let item = bob.get("/aee/mailboxes/agent.bob").await.ok()["items"][0].clone();
    assert_eq!(item["verified"], receipt["verified"], "and who gets it is told");
    let kept = bob.get("/aee/envelopes/envelope-1").await.ok();
    assert_eq!(kept["verified"], receipt["verified"]);
    // With the whole envelope signed, all members count.
    let mut whole = Map::clone(said("envelope-2", pressing).as_object().unwrap());
    let signer = entente_domain::aee::envelopes::signing::SigningKey::Ed25519(Box::new(key(1)));
    entente_domain::aee::envelopes::signing::sign(&mut whole, "one", &signer).unwrap();
    let receipt = send(Value::Object(whole)).await;
    assert_eq!(receipt["effective_priority"], "urgent");
    assert!(receipt["deadline"].is_string());
    // Members that ask for more care are trusted even if unsigned. A priority that is already low causes no
    // warning.
    let careful = core_signed(said("envelope-3", json!({ "priority": "low" })), 1);
    let careful = with(careful, json!({ "requires": { "human_approval": true } }));
    let receipt = send(careful).await;
    assert_eq!((&receipt["status"], &receipt["effective_priority"]), (&json!("held"), &json!("low")));
    assert_eq!(receipt["warnings"], json!(["id_not_ulid_or_uuid"]));
    let waiting = eve.get("/aee/approvals").await.ok();
    assert_eq!(waiting[0]["verified"]["scope"], "core", "who decides is told too");
    let inbox = logged_in(&world, "human.eve", false).await.get("/inbox").await;
    assert!(inbox.text.contains("only its core is signed"), "{}", inbox.text);
    world.end().await;
}

/// A redaction rule makes the gateway deliver an envelope of its own. That must not give weight to unsigned
/// members.
#[tokio::test]
async fn the_gateway_does_not_vouch_for_what_nobody_signed() {
    let settings = vec![("ENTENTE_AEE_RELAYS", "agent.gateway=partner.**")];
    let world = World::with(Setup { settings, live: false }).await;
    let (gateway, bob) = (world.agent("agent.gateway").await, world.agent("agent.bob").await);
    let admin = world.admin().await;
    admin.put("/aee/rules/private", json!({ "from": "partner.**", "redact": ["/n"] })).await.ok();
    let made = json!({ "entity": "partner.a", "kid": "one", "algorithm": "ed25519", "public_key": key(1).public_key() });
    world.any().post("/aee/keys", made).await.is(201);
    let signed = core_signed(task_envelope(&world, "envelope-1", ("partner.a", "agent.bob")), 1);
    let carried = with(signed, json!({ "priority": "urgent", "requires": { "timeout_ms": 5 } }));
    gateway.post("/aee/envelopes", carried).await.is(202);
    let (_, instead) = mail(&bob, "agent.bob").await.remove(0);
    assert_eq!((&instead["from"], &instead["payload"]["n"]), (&json!("service.entente"), &Value::Null));
    assert_eq!((&instead["priority"], &instead["requires"]), (&json!("normal"), &Value::Null));
    world.end().await;
}

#[tokio::test]
async fn what_waits_for_a_person_is_between_who_asked_and_who_decides() {
    let (world, ada, bob) = two().await;
    let (eve, admin) = (world.human("human.eve").await, world.admin().await);
    let watching = json!({ "scopes": ["mail:read", "mail:write", "admin"] });
    let watch = keys::key(&world, &admin, "agent.watch", watching).await.client;
    let held = |id: &str| {
        let more = json!({ "requires": { "human_approval": true, "timeout_ms": 60_000 }, "payload": { "secret": id } });
        with(task_envelope(&world, id, ("agent.ada", "agent.bob")), more)
    };
    for id in ["envelope-1", "envelope-2"] {
        ada.post("/aee/envelopes", held(id)).await.is(202);
    }
    let thread = "/aee/threads/thread-00000001";
    for client in [&watch, &bob] {
        client.get(thread).await.refused(404, "not_found");
        client.get("/aee/envelopes/envelope-1").await.refused(404, "not_found");
    }
    assert_eq!(ada.get(thread).await.ok()["envelopes"].as_array().unwrap().len(), 2);
    eve.post("/aee/approvals/envelope-1", json!({ "decision": "approve" })).await.ok();
    eve.post("/aee/approvals/envelope-2", json!({ "decision": "decline" })).await.ok();
    // Operators see a task that was handed out, like any other; a declined one was delivered nowhere.
    let seen = watch.get(thread).await.ok();
    let ids: Vec<&Value> =
        seen["envelopes"].as_array().unwrap().iter().map(|leaf| &leaf["envelope"]["id"]).collect();
    assert!(ids.contains(&&json!("envelope-1")) && !ids.contains(&&json!("envelope-2")), "{seen}");
    world.end().await;
}

/// AEE §3.1: no member of `trace` is required.
#[tokio::test]
async fn a_trace_needs_no_member() {
    let (world, ada, bob) = two().await;
    let traces = [json!({}), json!({ "trace_id": "9f3c" }), json!({ "span_id": "a1", "x": 1 }), json!(null)];
    for (n, trace) in traces.into_iter().enumerate() {
        let said = with(
            task_envelope(&world, &format!("envelope-{n}"), ("agent.ada", "agent.bob")),
            json!({ "trace": trace }),
        );
        ada.post("/aee/envelopes", said).await.is(202);
    }
    assert_eq!(mail(&bob, "agent.bob").await.len(), 4);
    for (n, trace) in [json!({ "trace_id": 1 }), json!("9f3c"), json!([])].into_iter().enumerate() {
        let said = with(
            task_envelope(&world, &format!("envelope-x{n}"), ("agent.ada", "agent.bob")),
            json!({ "trace": trace }),
        );
        ada.post("/aee/envelopes", said).await.refused(422, "invalid_envelope");
    }
    world.end().await;
}
