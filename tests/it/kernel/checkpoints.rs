//! Checkpoints (RFC-0019): creation by admins and by time, proofs, anchors and visibility.

use entente_domain::identity::signatures::PublicKey;
use entente_domain::ids::IntentId;
use entente_domain::log::checkpoints::Checkpoint;

use entente_harness::{Client, Setup, Value, World, ids, json, talk};

/// Creates an intent with this many notes and returns its id.
async fn noted(client: &Client, notes: usize) -> String {
    let intent = client.post("/intents", json!({ "title": "t" })).await.ok();
    let id = intent["id"].as_str().unwrap().to_owned();
    note(client, &id, notes).await;
    id
}

async fn note(client: &Client, intent: &str, notes: usize) {
    for n in 0..notes {
        let note = json!({ "event_type": "note", "payload": { "n": n } });
        client.post(&format!("/intents/{intent}/events"), note).await.ok();
    }
}

async fn take(admin: &Client, intent: &str) -> Value {
    admin.post("/admin/checkpoints", json!({ "intent_id": intent })).await.is(201)
}

/// Returns the server's public key from the public endpoint.
async fn server_key(world: &World) -> PublicKey {
    let found = world.anon().get("/server/keys").await.is(200);
    assert_eq!(found["keys"][0]["current"], true);
    PublicKey::of_did(found["keys"][0]["did"].as_str().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_is_the_servers_signed_word() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let intent = noted(&ada, 4).await;
    let made = take(&admin, &intent).await;
    let key = server_key(&world).await;
    assert_eq!(made["intent_id"], json!(intent));
    assert_eq!((&made["scope"], &made["anchor"]), (&json!("intent"), &json!(null)));
    assert_eq!(
        (&made["event_count"], &made["first_sequence"], &made["last_sequence"]),
        (&json!(5), &json!(1), &json!(5))
    );
    assert_eq!(
        (&made["signed_by"], &made["created_at"]),
        (&json!(key.did()), &json!("2026-11-21T08:00:00.000000Z"))
    );
    let read: Checkpoint = serde_json::from_value(made.clone()).unwrap();
    assert_eq!(read.signature_fault(&[key]), None);
    let path = format!("/checkpoints/{}", made["checkpoint_id"].as_str().unwrap());
    assert_eq!(ada.get(&path).await.ok(), made);
    assert_eq!(ada.get("/checkpoints").await.ok(), json!([made]));
    let told = admin.get("/audit?event_type=log.checkpoint.created").await.ok();
    assert_eq!(told[0]["payload"]["merkle_root"], made["merkle_root"]);
    assert_eq!(told[0]["payload"]["signature"], made["signature"]);
    // The system log, which contains that checkpoint's event.
    let house = admin.post("/admin/checkpoints", json!({ "scope": "server" })).await.is(201);
    assert_eq!((&house["intent_id"], &house["scope"]), (&json!(null), &json!("server")));
    let found = admin.get("/audit/verify").await.ok();
    assert_eq!((&found["valid"], &found["checkpoint_count"]), (&json!(true), &json!(1)));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_admins_take_them_and_only_of_what_is_there() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let intent = noted(&ada, 0).await;
    ada.post("/admin/checkpoints", json!({ "intent_id": intent })).await.refused(403, "scope_missing");
    for body in [
        json!({}),
        json!({ "scope": "intent" }),
        json!({ "scope": "server", "intent_id": intent }),
        json!({ "scope": "house" }),
    ] {
        admin.post("/admin/checkpoints", body).await.refused(422, "invalid_request");
    }
    let nobodys = json!({ "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" });
    admin.post("/admin/checkpoints", nobodys).await.refused(404, "not_found");
    let made = admin.once("k").post("/admin/checkpoints", json!({ "intent_id": intent })).await.is(201);
    assert_eq!(
        admin.once("k").post("/admin/checkpoints", json!({ "intent_id": intent })).await.is(201),
        made
    );
    assert_eq!(ada.get("/checkpoints").await.ok().as_array().unwrap().len(), 1);
    // A checkpoint of a broken log is refused.
    sqlx::raw_sql("UPDATE events SET actor = 'agent.eve' WHERE event_type = 'intent_created'")
        .execute(&world.ctx().pool)
        .await
        .unwrap();
    let said =
        admin.post("/admin/checkpoints", json!({ "intent_id": intent })).await.refused(422, "unprocessable");
    assert!(said["message"].as_str().unwrap().contains("event 1"), "{said}");
    sqlx::raw_sql("UPDATE events SET actor = 'agent.ada' WHERE event_type = 'intent_created'")
        .execute(&world.ctx().pool)
        .await
        .unwrap();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_is_seen_by_who_can_read_the_intent() {
    let world = World::start().await;
    let (admin, ada, eve) =
        (world.admin().await, world.agent("agent.ada").await, world.agent("agent.eve").await);
    let (open, closed) = (noted(&ada, 1).await, noted(&ada, 2).await);
    let acl = json!({ "default_policy": "closed", "entries": [] });
    ada.put(&format!("/intents/{closed}/acl"), acl).await.ok();
    let first = take(&admin, &open).await;
    world.clock.advance(1);
    let second = take(&admin, &closed).await;
    world.clock.advance(1);
    let house = admin.post("/admin/checkpoints", json!({ "scope": "server" })).await.is(201);
    let named = |list: Value| -> Vec<Value> {
        list.as_array().unwrap().iter().map(|one| one["checkpoint_id"].clone()).collect()
    };
    let id = |made: &Value| made["checkpoint_id"].clone();
    assert_eq!(named(eve.get("/checkpoints").await.ok()), [id(&first)]);
    assert_eq!(named(ada.get("/checkpoints").await.ok()), [id(&second), id(&first)], "the newest first");
    assert_eq!(named(admin.get("/checkpoints").await.ok()), [id(&house), id(&second), id(&first)]);
    assert_eq!(named(admin.get("/checkpoints?scope=server").await.ok()), [id(&house)]);
    assert_eq!(named(admin.get("/checkpoints?scope=intent&limit=1").await.ok()), [id(&second)]);
    let before = format!("/checkpoints?before={}", second["checkpoint_id"].as_str().unwrap());
    assert_eq!(named(admin.get(&before).await.ok()), [id(&first)]);
    assert_eq!(named(ada.get(&format!("/checkpoints?intent_id={open}")).await.ok()), [id(&first)]);
    admin.get("/checkpoints?scope=all").await.refused(422, "invalid_parameter");
    eve.get(&format!("/checkpoints?intent_id={closed}")).await.refused(403, "access_closed");
    let path = |made: &Value| format!("/checkpoints/{}", made["checkpoint_id"].as_str().unwrap());
    eve.get(&path(&second)).await.refused(404, "not_found");
    ada.get(&path(&house)).await.refused(404, "not_found");
    eve.get("/checkpoints/chk_nobodys").await.refused(404, "not_found");
    let event = ids(&ada.get(&format!("/intents/{closed}/events")).await.ok())[0].clone();
    eve.get(&format!("{}/proof/{event}", path(&second))).await.refused(404, "not_found");
    let both = format!("/verify/consistency?from_checkpoint={}&to_checkpoint={}", id(&second), id(&second));
    eve.get(&both.replace('"', "")).await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_proved_to_be_under_a_checkpoint() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let intent = noted(&ada, 4).await;
    let made = take(&admin, &intent).await;
    note(&ada, &intent, 1).await;
    let path = format!("/checkpoints/{}/proof", made["checkpoint_id"].as_str().unwrap());
    let mut events = ids(&ada.get(&format!("/intents/{intent}/events")).await.ok());
    events.reverse();
    for (index, event) in events[..5].iter().enumerate() {
        let proof = ada.get(&format!("{path}/{event}")).await.ok();
        assert_eq!((&proof["leaf_index"], &proof["merkle_root"]), (&json!(index), &made["merkle_root"]));
        assert_eq!(proof["proof_hashes"].as_array().unwrap().len(), 3);
        let digest = |value: &Value| entente_domain::canonical::read(value.as_str().unwrap()).unwrap();
        let steps = proof["proof_hashes"].as_array().unwrap().iter();
        let root = steps.fold(digest(&proof["event_hash"]), |hash, step| {
            let other = digest(&step["hash"]);
            let pair = if step["position"] == "left" { [other, hash] } else { [hash, other] };
            entente_domain::canonical::sha256(pair.concat())
        });
        assert_eq!(root, digest(&made["merkle_root"]));
    }
    ada.get(&format!("{path}/{}", events[5])).await.refused(404, "not_found");
    ada.get(&format!("{path}/evt_x")).await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_checkpoints_show_that_a_log_only_grew() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let (intent, other) = (noted(&ada, 2).await, noted(&ada, 0).await);
    let first = take(&admin, &intent).await;
    note(&ada, &intent, 3).await;
    let (second, elsewhere) = (take(&admin, &intent).await, take(&admin, &other).await);
    let compare = async |from: &Value, to: &Value| {
        let id = |one: &Value| one["checkpoint_id"].as_str().unwrap().to_owned();
        ada.get(&format!("/verify/consistency?from_checkpoint={}&to_checkpoint={}", id(from), id(to))).await
    };
    let found = compare(&first, &second).await.ok();
    assert_eq!((&found["consistent"], &found["reason"]), (&json!(true), &json!(null)));
    assert_eq!(found["from_checkpoint"], first["checkpoint_id"]);
    let third = ada.get(&format!("/intents/{intent}/events")).await.ok()[3].clone();
    assert_eq!(
        found["boundary_event"],
        json!({ "event_id": third["id"], "sequence": 3, "event_hash": third["event_hash"] })
    );
    compare(&second, &first).await.refused(422, "unprocessable");
    compare(&first, &elsewhere).await.refused(422, "unprocessable");
    ada.get("/verify/consistency?from_checkpoint=chk_x&to_checkpoint=chk_x").await.refused(404, "not_found");
    ada.get("/verify/consistency").await.refused(422, "invalid_parameter");
    // Simulates an event that was changed together with its hash; this check does not look at the chain after it.
    let uuid = intent.parse::<IntentId>().unwrap().uuid();
    sqlx::query("UPDATE events SET event_hash = sha256('x') WHERE intent_id = $1 AND sequence = 5")
        .bind(uuid)
        .execute(&world.ctx().pool)
        .await
        .unwrap();
    let found = compare(&first, &second).await.ok();
    assert_eq!(found["consistent"], false);
    assert!(found["reason"].as_str().unwrap().contains("rewritten"), "{found}");
    sqlx::query("DELETE FROM events WHERE intent_id = $1")
        .bind(uuid)
        .execute(&world.ctx().pool)
        .await
        .unwrap();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_witness_is_kept_and_signed() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let intent = noted(&ada, 1).await;
    let made = take(&admin, &intent).await;
    let path = format!("/admin/checkpoints/{}/anchor", made["checkpoint_id"].as_str().unwrap());
    let ask = json!({ "provider": "witness.example", "reference": "r/1" });
    ada.post(&path, ask.clone()).await.refused(403, "scope_missing");
    admin.post(&path, json!({ "provider": "witness.example" })).await.refused(422, "invalid_request");
    admin.post("/admin/checkpoints/chk_x/anchor", ask.clone()).await.refused(404, "not_found");
    world.clock.advance(60);
    let signed = admin.post(&path, ask).await.is(200);
    let anchor = json!({
        "type": "external-timestamp", "provider": "witness.example", "reference": "r/1", "timestamp_proof": "",
        "anchored_at": "2026-11-21T08:01:00.000000Z",
    });
    assert_eq!((&signed["anchor"], &signed["merkle_root"]), (&anchor, &made["merkle_root"]));
    assert_ne!(signed["signature"], made["signature"], "the signature is over the anchor too");
    let read: Checkpoint = serde_json::from_value(signed.clone()).unwrap();
    assert_eq!(read.signature_fault(&[server_key(&world).await]), None);
    let later =
        json!({ "provider": "other", "timestamp_proof": "x", "anchored_at": "2026-11-21T09:00:00+01:00" });
    let again = admin.post(&path, later).await.is(200);
    assert_eq!(again["anchor"]["anchored_at"], "2026-11-21T08:00:00.000000Z");
    let told = admin.get("/audit?event_type=log.checkpoint.anchored").await.ok();
    assert_eq!((told[1]["payload"]["anchor"].clone(), told.as_array().unwrap().len()), (anchor, 2));
    // The SDK, which cannot read a `Z` everywhere, gets its own time format; the signature is unchanged.
    let sdk = ada.acting_as("agent.ada").with("user-agent", "python-httpx/0.27.0");
    let shown = sdk.get(&format!("/checkpoints/{}", made["checkpoint_id"].as_str().unwrap())).await.ok();
    assert_eq!(
        (&shown["created_at"], &shown["signature"]),
        (&json!("2026-11-21T08:00:00.000000"), &again["signature"])
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_grows_gets_checkpoints_by_itself() {
    let settings = vec![("ENTENTE_CHECKPOINT_EVERY", "10")];
    let world = World::with(Setup { settings, live: false }).await;
    let ada = world.agent("agent.ada").await;
    let intent = noted(&ada, 8).await;
    world.sweep().await;
    assert_eq!(ada.get("/checkpoints").await.ok(), json!([]));
    note(&ada, &intent, 1).await;
    world.sweep().await;
    note(&ada, &intent, 9).await;
    world.sweep().await;
    let taken = ada.get("/checkpoints").await.ok();
    let ends: Vec<i64> =
        taken.as_array().unwrap().iter().map(|one| one["last_sequence"].as_i64().unwrap()).collect();
    assert_eq!(ends, [10]);
    note(&ada, &intent, 1).await;
    world.sweep().await;
    assert_eq!(ada.get("/checkpoints").await.ok()[0]["last_sequence"], 20);
    let admin = world.admin().await;
    assert_eq!(admin.get("/audit?event_type=log.checkpoint.created").await.ok()[0]["actor"], "entente");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_share_a_key_that_outlives_them() {
    let world = World::start().await;
    let first = server_key(&world).await;
    let other = World::on(Setup::default(), world.database.clone()).await;
    assert_eq!(server_key(&other).await, first);
    other.server.stop().await;
    // A key from the operator's settings is never stored in the database, and the earlier keys remain valid.
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let intent = noted(&ada, 1).await;
    let made = take(&admin, &intent).await;
    let settings = vec![("ENTENTE_SIGNING_KEY", "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=")];
    let other = World::on(Setup { settings, live: false }, world.database.clone()).await;
    let keys = other.anon().get("/server/keys").await.ok();
    let current: Vec<&Value> = keys["keys"].as_array().unwrap().iter().map(|key| &key["current"]).collect();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 2);
    assert_eq!(current.iter().filter(|is| **is == &json!(true)).count(), 1);
    let seeds: i64 = sqlx::query_scalar("SELECT count(*) FROM server_keys WHERE seed IS NOT NULL")
        .fetch_one(&world.ctx().pool)
        .await
        .unwrap();
    assert_eq!(seeds, 1);
    let found = other.client("key-of-agent.ada").get(&format!("/intents/{intent}/events/verify")).await.ok();
    assert_eq!((&found["valid"], &found["checkpoint_count"]), (&json!(true), &json!(1)));
    assert_ne!(
        made["signed_by"],
        keys["keys"].as_array().unwrap().iter().find(|k| k["current"] == true).unwrap()["did"]
    );
    other.server.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audited_talk_is_under_the_checkpoint() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let (intent, channel) = talk(&ada, json!({ "options": { "audit": true } })).await;
    ada.post(&format!("/channels/{channel}/messages"), json!({ "sender": "agent.ada" })).await.is(201);
    assert_eq!(take(&admin, &intent).await["event_count"], 3);
    world.end().await;
}
