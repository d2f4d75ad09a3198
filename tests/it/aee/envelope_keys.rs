//! Envelope signing keys (AEE §8, §11.2): registration, listing, rotation with an overlap, immediate revocation on
//! all servers, ownership, and that a secret is shown only once.

use std::net::{SocketAddr, UdpSocket};

use entente_aee::envelope_keys::{still_in_force, verify};
use entente_domain::aee::envelopes::signing::{Sig, SigningKey, decode, sign};
use entente_domain::aee::envelopes::{Envelope, check};
use entente_domain::identity::signatures::Signer;

use entente_harness::envelopes::task_envelope;
use entente_harness::identities::key;
use entente_harness::{Client, Setup, Value, World, json};

fn pair(kid: &str, signer: &Signer) -> Value {
    json!({ "kid": kid, "algorithm": "ed25519", "public_key": signer.public_key() })
}

fn private(signer: &Signer) -> SigningKey {
    SigningKey::Ed25519(Box::new(signer.clone()))
}

/// Returns a signed envelope from `from` with its signature.
fn signed(from: &str, kid: &str, key: &SigningKey) -> (Envelope, Sig) {
    let letter = json!({
        "v": "1", "id": "01JFB2R1JZKQ9V3K8W8Y9W1F2A", "ts": "2026-11-21T08:00:00Z", "type": "task", "from": from,
        "to": "agent.bob", "intent": "ops.backup.check", "corr": "01JFB2QX0K8X5K6ZJ9G2C0C1MW", "priority": "normal",
        "payload": { "cluster": "one" },
    });
    let mut letter = letter.as_object().unwrap().clone();
    sign(&mut letter, kid, key).unwrap();
    let sig = Sig::read(&letter).unwrap().unwrap();
    (check(letter).unwrap(), sig)
}

/// Returns the server's verdict on a signature: the reason if it is refused.
async fn judged(world: &World, (envelope, sig): &(Envelope, Sig)) -> Result<(), String> {
    verify(&world.ctx().aee, envelope, sig).await.map_err(|e| e.to_string())
}

/// Returns the keys of an entity that are in force within a transaction.
async fn counting(world: &World, entity: &str, kids: &[&str]) -> Vec<String> {
    let asked: Vec<(String, String)> =
        kids.iter().map(|kid| (entity.to_owned(), (*kid).to_owned())).collect();
    let mut connection = world.ctx().pool.acquire().await.unwrap();
    let found = still_in_force(&mut connection, &asked, world.ctx().now()).await.unwrap();
    let mut kids: Vec<String> = found.into_iter().map(|(_, kid)| kid).collect();
    kids.sort();
    kids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_registered_listed_and_revoked() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let made = ada.post("/aee/keys", pair("2026-11", &key(1))).await.is(201);
    let mut expected = json!({
        "entity": "agent.ada", "kid": "2026-11", "algorithm": "ed25519", "public_key": key(1).public_key(),
        "status": "active", "not_before": "2026-11-21T08:00:00.000000Z", "not_after": null, "revoked_at": null,
        "created_by": "agent.ada", "created_at": "2026-11-21T08:00:00.000000Z", "secret": null,
    });
    assert_eq!(made, expected);
    assert_eq!(
        ada.post("/aee/keys", pair("2026-11", &key(1))).await.is(200),
        expected,
        "the same is no new one"
    );
    ada.post("/aee/keys", pair("2026-11", &key(2))).await.refused(409, "already_exists");
    ada.post("/aee/keys", pair("2026-12", &key(1))).await.refused(409, "already_exists");
    expected.as_object_mut().unwrap().remove("secret");
    assert_eq!(ada.get("/aee/keys").await.ok(), json!([expected]));
    assert_eq!(ada.get("/aee/keys?entity=agent.ada").await.ok(), json!([expected]));
    let letter = signed("agent.ada", "2026-11", &private(&key(1)));
    assert_eq!(judged(&world, &letter).await, Ok(()));
    world.clock.advance(60);
    expected["status"] = json!("revoked");
    expected["revoked_at"] = json!("2026-11-21T08:01:00.000000Z");
    assert_eq!(ada.delete("/aee/keys/2026-11").await.is(200), expected);
    world.clock.advance(60);
    assert_eq!(ada.delete("/aee/keys/2026-11").await.is(200), expected, "again, nothing changes");
    assert!(judged(&world, &letter).await.is_err());
    ada.post("/aee/keys", pair("2026-11", &key(1))).await.refused(409, "already_exists");
    ada.post("/aee/keys", pair("2026-11", &key(3))).await.refused(409, "already_exists");
    assert_eq!(ada.get("/aee/keys").await.ok(), json!([expected]), "what was revoked stays");
    let told = world.admin().await.get("/audit?limit=1000").await.ok();
    let told: Vec<(&str, &str)> = told.as_array().unwrap().iter().filter_map(of_envelopes).collect();
    assert_eq!(told, [("envelope.key_revoked", "2026-11"), ("envelope.key_registered", "2026-11")]);
    world.end().await;
}

fn of_envelopes(event: &Value) -> Option<(&str, &str)> {
    let kind = event["event_type"].as_str().unwrap();
    kind.starts_with("envelope.").then(|| (kind, event["payload"]["kid"].as_str().unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_rotated_with_an_overlap_and_end_the_instant_they_say() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let mut old = pair("old", &key(1));
    old["not_after"] = json!("2026-11-21T09:00:00Z");
    let mut next = pair("next", &key(2));
    next["not_before"] = json!("2026-11-21T08:30:00Z");
    ada.post("/aee/keys", old).await.is(201);
    assert_eq!(ada.post("/aee/keys", next).await.is(201)["status"], "pending");
    let (by_old, by_next) =
        (signed("agent.ada", "old", &private(&key(1))), signed("agent.ada", "next", &private(&key(2))));
    for (until, expected) in [
        (0, vec!["old"]),
        (1_799, vec!["old"]),
        (1_800, vec!["next", "old"]),
        (3_599, vec!["next", "old"]),
        (3_600, vec!["next"]),
    ] {
        let passed =
            (world.ctx().now() - entente_domain::clock::parse("2026-11-21T08:00:00Z").unwrap()).num_seconds();
        world.clock.advance(until - passed);
        assert_eq!(counting(&world, "agent.ada", &["old", "next", "none"]).await, expected, "{until}");
        assert_eq!(judged(&world, &by_old).await.is_ok(), expected.contains(&"old"), "{until}");
        assert_eq!(judged(&world, &by_next).await.is_ok(), expected.contains(&"next"), "{until}");
    }
    let statuses = ada.get("/aee/keys").await.ok();
    assert_eq!((&statuses[0]["status"], &statuses[1]["status"]), (&json!("active"), &json!("expired")));
    let mut late = pair("late", &key(3));
    late["not_after"] = json!("2026-11-21T09:00:00Z");
    ada.post("/aee/keys", late).await.refused(422, "already_expired");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_counts_on_every_server_at_once() {
    let one = World::start().await;
    let two = World::on(Setup::default(), one.database.clone()).await;
    let ada = one.agent("agent.ada").await;
    ada.post("/aee/keys", pair("one", &key(1))).await.is(201);
    one.agent("agent.bob").await;
    let through_two = two.client("key-of-agent.ada");
    let send = async |id: &str, kid: &str| {
        let mut letter = task_envelope(&two, id, ("agent.ada", "agent.bob")).as_object().unwrap().clone();
        sign(&mut letter, kid, &private(&key(1))).unwrap();
        through_two.post("/aee/envelopes", Value::from(letter)).await
    };
    assert_eq!(send("envelope-1", "one").await.is(202)["verified"]["kid"], "one");
    assert_eq!(counting(&two, "agent.ada", &["one"]).await, ["one"]);
    ada.delete("/aee/keys/one").await.is(200);
    // That server has the key cached, and checks whether it is still in force.
    let refused = send("envelope-2", "one").await;
    refused.refused(403, "bad_signature");
    assert!(counting(&two, "agent.ada", &["one"]).await.is_empty());
    // The same message as for an unknown key.
    let unknown = send("envelope-3", "never").await;
    unknown.refused(403, "bad_signature");
    assert_eq!(unknown.json()["message"], refused.json()["message"]);
    two.server.stop().await;
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entitys_keys_are_whoevers_may_act_as_it() {
    let world = World::start().await;
    let (ada, eve, admin) =
        (world.agent("agent.ada").await, world.agent("agent.eve").await, world.admin().await);
    ada.post("/aee/keys", pair("one", &key(1))).await.is(201);
    let mut theirs = pair("two", &key(2));
    theirs["entity"] = json!("agent.ada");
    // The same response for existing and missing keys and for unknown entities.
    for entity in ["agent.ada", "agent.nobody"] {
        theirs["entity"] = json!(entity);
        eve.post("/aee/keys", theirs.clone()).await.refused(404, "not_found");
        eve.get(&format!("/aee/keys?entity={entity}")).await.refused(404, "not_found");
        eve.delete(&format!("/aee/keys/one?entity={entity}")).await.refused(404, "not_found");
    }
    eve.delete("/aee/keys/one").await.refused(404, "not_found");
    assert_eq!(eve.get("/aee/keys").await.ok(), json!([]));
    // The same name, or even the same key, at another entity is a separate registration.
    eve.post("/aee/keys", pair("one", &key(1))).await.is(201);
    assert_eq!(judged(&world, &signed("agent.eve", "one", &private(&key(1)))).await, Ok(()));
    eve.delete("/aee/keys/one").await.is(200);
    assert_eq!(judged(&world, &signed("agent.ada", "one", &private(&key(1)))).await, Ok(()));
    assert!(judged(&world, &signed("agent.eve", "one", &private(&key(1)))).await.is_err());
    // A principal that may act as the entity, and an admin.
    let any = world.any();
    assert_eq!(any.acting_as("agent.ada").get("/aee/keys").await.ok()[0]["kid"], "one");
    theirs["entity"] = json!("agent.ada");
    assert_eq!(any.post("/aee/keys", theirs).await.is(201)["created_by"], "service.any");
    assert_eq!(admin.get("/aee/keys?entity=agent.ada").await.ok().as_array().unwrap().len(), 2);
    admin.delete("/aee/keys/one?entity=agent.ada").await.is(200);
    assert!(judged(&world, &signed("agent.ada", "one", &private(&key(1)))).await.is_err());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_secret_is_shown_once_and_told_to_nobody() {
    let world = World::start().await;
    let (ada, admin) = (world.agent("agent.ada").await, world.admin().await);
    let ask = json!({ "kid": "shared", "algorithm": "HS256" });
    let made = ada.once("k1").post("/aee/keys", ask.clone()).await.is(201);
    let secret = made["secret"].as_str().unwrap();
    assert_eq!((decode(secret).unwrap().len(), &made["public_key"]), (32, &Value::Null));
    let letter = signed("agent.ada", "shared", &SigningKey::Hs256(decode(secret).unwrap()));
    assert_eq!(judged(&world, &letter).await, Ok(()));
    let again = ada.once("k1").post("/aee/keys", ask.clone()).await.is(201);
    assert_eq!((&again["kid"], &again["secret"]), (&json!("shared"), &Value::Null), "once is once");
    ada.post("/aee/keys", ask).await.refused(409, "already_exists");
    let given = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA";
    let brought = json!({ "kid": "given", "algorithm": "HS256", "secret": given });
    assert_eq!(ada.post("/aee/keys", brought.clone()).await.is(201)["secret"], Value::Null);
    assert_eq!(ada.post("/aee/keys", brought).await.is(200)["secret"], Value::Null);
    let by_given = signed("agent.ada", "given", &SigningKey::Hs256(decode(given).unwrap()));
    assert_eq!(judged(&world, &by_given).await, Ok(()));
    for wrong in [json!("AQID"), json!(42)] {
        let refused = ada.post("/aee/keys", json!({ "algorithm": "HS256", "secret": wrong })).await;
        refused.is(422);
        assert!(!refused.text.contains("AQID"), "{}", refused.text);
    }
    let told = [
        ada.get("/aee/keys").await,
        admin.get("/aee/keys?entity=agent.ada").await,
        admin.get("/audit?limit=1000").await,
        ada.delete("/aee/keys/shared").await,
    ];
    for reply in told {
        assert!(reply.text.contains("shared"), "{}", reply.text);
        assert!(!reply.text.contains(secret) && !reply.text.contains(given), "{}", reply.text);
    }
    let kept: Vec<String> =
        sqlx::query_scalar("SELECT outcome FROM idempotency").fetch_all(&world.ctx().pool).await.unwrap();
    assert!(!kept.is_empty() && kept.iter().all(|outcome| !outcome.contains(secret)));
    world.end().await;
}

/// Returns a client of the agent that connects over a non-loopback address; `None` on a machine without a network.
fn from_elsewhere(world: &World, agent: &str) -> Option<Client> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // This sends nothing: it only determines the local address of that route.
    socket.connect("192.0.2.77:9").ok()?;
    let own = socket.local_addr().unwrap().ip();
    let key = format!("key-of-{agent}");
    (!own.is_loopback()).then(|| Client::new(SocketAddr::new(own, world.address.port()), Some(&key)))
}

#[tokio::test(flavor = "multi_thread")]
async fn over_plain_http_from_elsewhere_nothing_is_believed_that_nobody_signed() {
    for (tls, status) in [("false", 403), ("true", 201)] {
        let settings = vec![("ENTENTE_BIND", "0.0.0.0:0"), ("ENTENTE_TLS_TERMINATED", tls)];
        let world = World::with(Setup { settings, live: false }).await;
        let ada = world.agent("agent.ada").await;
        ada.post("/aee/keys", pair("near", &key(1))).await.is(201);
        if let Some(far) = from_elsewhere(&world, "agent.ada") {
            let reply = far.post("/aee/keys", pair("far", &key(2))).await;
            reply.is(status);
            assert_eq!(status == 403, reply.text.contains("ENTENTE_TLS_TERMINATED"), "{}", reply.text);
            // An unsigned envelope is refused too; a signature is valid over any connection.
            let said = task_envelope(&world, "envelope-1", ("agent.ada", "agent.ada"));
            let plain = far.post("/aee/envelopes", said).await;
            plain.is(if status == 403 { 403 } else { 202 });
            assert_eq!(status == 403, plain.text.contains("signature_required"), "{}", plain.text);
            let mut said = task_envelope(&world, "envelope-2", ("agent.ada", "agent.ada"));
            sign(said.as_object_mut().unwrap(), "near", &private(&key(1))).unwrap();
            far.post("/aee/envelopes", said).await.is(202);
            // Reads and revocations are allowed from any address.
            far.get("/aee/keys").await.is(200);
            far.delete("/aee/keys/near").await.is(200);
        }
        world.end().await;
    }
}
