//! Tampering by someone with write access to the database (RFC-0019) is detected: each column of a log and of its
//! checkpoints counts, and a completely rewritten log contradicts its earlier checkpoints.

use entente_domain::bundles::Section;
use entente_domain::canonical;
use entente_domain::identity::signatures::statement;
use entente_domain::ids::IntentId;
use entente_domain::log::checkpoints::Checkpoint;
use entente_domain::log::events::{Event, hash};
use sqlx::AssertSqlSafe;

use entente_harness::identities::{key, proved, register};
use entente_harness::{BundleFile, Client, Setup, Value, World, json};

/// Creates an intent with seven events, the fourth of which is signed by its actor; returns its id and its UUID.
async fn seven(ada: &Client) -> (String, String) {
    let intent = ada.post("/intents", json!({ "title": "t" })).await.ok();
    let id = intent["id"].as_str().unwrap().to_owned();
    for n in 2..8 {
        let note = match n {
            4 => proved(&id, "agent.ada", "signed", &key(1)),
            _ => json!({
                "event_type": "note", "payload": { "n": n }, "trace_id": "0af7651916cd43dd8448eb211c80319c",
                "parent_event_id": "evt_x",
            }),
        };
        ada.post(&format!("/intents/{id}/events"), note).await.ok();
    }
    let uuid = id.parse::<IntentId>().unwrap().uuid().to_string();
    (id, uuid)
}

async fn run(world: &World, statement: &str) {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
        .execute(&world.ctx().pool)
        .await
        .unwrap_or_else(|e| panic!("{statement}: {e}"));
}

/// Returns the columns of a table, so that none is forgotten.
async fn columns(world: &World, table: &str) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT column_name::text FROM information_schema.columns WHERE table_name = $1 ORDER BY 1",
    )
    .bind(table)
    .fetch_all(&world.ctx().pool)
    .await
    .unwrap()
}

/// Returns the values of `member` in a verification's breaks: sequences of events or ids of checkpoints.
fn named(found: &Value, member: &str) -> Vec<Value> {
    let breaks = found["breaks"].as_array().unwrap().iter();
    breaks.filter(|fault| fault.get(member).is_some()).map(|fault| fault[member].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_column_of_a_log_counts() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    register(&ada, "agent.ada", &key(1)).await;
    let (id, uuid) = seven(&ada).await;
    run(&world, "CREATE TABLE kept AS SELECT * FROM events").await;
    let mut tried = 0;
    for column in columns(&world, "events").await {
        let value = match column.as_str() {
            // The position in the global stream; not part of the record.
            "xid" => continue,
            "intent_id" | "id" => "gen_random_uuid()",
            // The position among the messages; the log is the same as long as the order is.
            "seq" => "seq + 1000",
            "sequence" => "sequence + 1000",
            "event_type" | "actor" | "trace_id" | "parent_event_id" => "'x'",
            "payload" | "proof" => "'{}'",
            "created_at" => "created_at + interval '1 microsecond'",
            "previous_event_hash" | "event_hash" => "sha256('x')",
            "posted" | "proof_verified" => &format!("NOT {column}"),
            other => panic!("`{other}` is new: is it under the hash?"),
        };
        tried += 1;
        run(
            &world,
            &format!("UPDATE events SET {column} = {value} WHERE intent_id = '{uuid}' AND sequence = 4"),
        )
        .await;
        let found = ada.get(&format!("/intents/{id}/events/verify")).await.ok();
        assert_eq!((&found["valid"], &found["chain_valid"]), (&json!(false), &json!(false)), "{column}");
        // The event itself or, if it was moved, the one after it.
        let named = named(&found, "sequence");
        let moved = [json!(4), json!(5), json!(1004)];
        assert!(named.iter().any(|sequence| moved.contains(sequence)), "{column}: {found}");
        let report = BundleFile::of(&ada, &format!("/intents/{id}")).await.report();
        assert!(!report.log.breaks.is_empty(), "{column}: {report:?}");
        run(&world, "DELETE FROM events; INSERT INTO events SELECT * FROM kept").await;
        assert_eq!(ada.get(&format!("/intents/{id}/events/verify")).await.ok()["valid"], true);
    }
    assert_eq!(tried, 15);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_column_of_a_checkpoint_counts() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    register(&ada, "agent.ada", &key(1)).await;
    let (id, _) = seven(&ada).await;
    let made = admin.post("/admin/checkpoints", json!({ "intent_id": id })).await.is(201);
    let checkpoint = made["checkpoint_id"].clone();
    let anchor = format!("/admin/checkpoints/{}/anchor", checkpoint.as_str().unwrap());
    admin.post(&anchor, json!({ "provider": "w", "reference": "r" })).await.is(200);
    run(&world, "CREATE TABLE kept AS SELECT * FROM checkpoints").await;
    for column in columns(&world, "checkpoints").await {
        let value = match column.as_str() {
            "id" | "intent_id" => "gen_random_uuid()",
            "merkle_root" => "sha256('x')",
            "event_count" | "first_sequence" | "last_sequence" => &format!("{column} - 1"),
            "created_at" => "created_at + interval '1 microsecond'",
            "signed_by" => "'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK'",
            "signature" => "reverse(signature)",
            "anchor" => "replace(anchor, '\"w\"', '\"v\"')",
            // Where retention has got to; a checkpoint says nothing about it.
            "spent" => continue,
            other => panic!("`{other}` is new: is it signed?"),
        };
        run(&world, &format!("UPDATE checkpoints SET {column} = {value}")).await;
        let found = ada.get(&format!("/intents/{id}/events/verify")).await.ok();
        let house = admin.get("/audit/verify").await.ok();
        let named = [named(&found, "checkpoint_id"), named(&house, "checkpoint_id")].concat();
        assert!(named.contains(&checkpoint), "{column}: {found} {house}");
        run(&world, "DELETE FROM checkpoints; INSERT INTO checkpoints SELECT * FROM kept").await;
    }
    // A deleted one: the system log still records it.
    run(&world, "DELETE FROM checkpoints").await;
    assert_eq!(
        ada.get(&format!("/intents/{id}/events/verify")).await.ok()["valid"],
        true,
        "nothing is left to say so"
    );
    assert_eq!(named(&admin.get("/audit/verify").await.ok(), "checkpoint_id"), [checkpoint]);
    run(&world, "INSERT INTO checkpoints SELECT * FROM kept").await;
    // One that cannot even be parsed.
    run(&world, "UPDATE checkpoints SET anchor = '{'").await;
    let found = ada.get(&format!("/intents/{id}/events/verify")).await.ok();
    assert_eq!((&found["valid"], &found["checkpoint_count"]), (&json!(false), &json!(1)));
    run(&world, "DELETE FROM checkpoints; INSERT INTO checkpoints SELECT * FROM kept").await;
    assert_eq!(admin.get("/audit/verify").await.ok()["valid"], true);
    world.end().await;
}

/// Someone with write access to the database can replace the server's key with another, or delete all keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_another_signed_is_neither_trusted_nor_signed_again() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    register(&ada, "agent.ada", &key(1)).await;
    let (id, _) = seven(&ada).await;
    let made = admin.post("/admin/checkpoints", json!({ "intent_id": id })).await.is(201);
    let anchor = format!("/admin/checkpoints/{}/anchor", made["checkpoint_id"].as_str().unwrap());
    let eve = key(9);
    let mut forged: Checkpoint = serde_json::from_value(made).unwrap();
    forged.signed_by = eve.public_key().did();
    let mut form = serde_json::to_value(&forged).unwrap();
    form.as_object_mut().unwrap().remove("signature");
    forged.signature = eve.sign(statement(&form)).show();
    assert_eq!(forged.signature_fault(&[eve.public_key()]), None);
    run(
        &world,
        &format!(
            "UPDATE checkpoints SET signed_by = '{}', signature = '{}'",
            forged.signed_by, forged.signature
        ),
    )
    .await;
    for statement in ["SELECT 1", "DELETE FROM server_keys"] {
        run(&world, statement).await;
        let found = ada.get(&format!("/intents/{id}/events/verify")).await.ok();
        assert_eq!(named(&found, "checkpoint_id"), [json!(forged.checkpoint_id)], "{statement}");
    }
    admin.post(&anchor, json!({ "provider": "w", "reference": "r" })).await.refused(422, "unprocessable");
    world.end().await;
}

/// Changes an event's payload and consistently rewrites the log from there, including its stored tail.
async fn rewrite(world: &World, intent: IntentId, sequence: i64) {
    let mut log: Vec<Event> = entente_kernel::audit::events::whole_log(world.ctx(), intent).await.unwrap();
    let mut previous = None;
    for event in &mut log {
        if event.sequence == sequence {
            event.payload.insert("n".to_owned(), json!(1_000));
        }
        event.previous_event_hash = previous;
        event.event_hash = hash(event);
        previous = Some(event.event_hash);
        let statement = "UPDATE events SET payload = $3, previous_event_hash = $4, event_hash = $5
             WHERE intent_id = $1 AND sequence = $2";
        sqlx::query(statement)
            .bind(intent.uuid())
            .bind(event.sequence)
            .bind(canonical::text(&event.payload).unwrap())
            .bind(event.previous_event_hash.map(Vec::from))
            .bind(event.event_hash.to_vec())
            .execute(&world.ctx().pool)
            .await
            .unwrap();
    }
    sqlx::query("UPDATE intent_clock SET head_hash = $2 WHERE intent_id = $1")
        .bind(intent.uuid())
        .bind(previous.map(Vec::from))
        .execute(&world.ctx().pool)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_made_anew_contradicts_its_checkpoints() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    register(&ada, "agent.ada", &key(1)).await;
    let (id, _) = seven(&ada).await;
    let mut taken = Vec::new();
    for _ in 0..3 {
        let made = admin.post("/admin/checkpoints", json!({ "intent_id": id })).await.is(201);
        taken.push(made["checkpoint_id"].clone());
        ada.post(&format!("/intents/{id}/events"), json!({ "event_type": "note" })).await.ok();
    }
    let verify = format!("/intents/{id}/events/verify");
    assert_eq!(ada.get(&verify).await.ok()["valid"], true);
    rewrite(&world, id.parse().unwrap(), 8).await;
    let found = ada.get(&verify).await.ok();
    assert_eq!(found["valid"], false);
    assert_eq!(
        named(&found, "checkpoint_id"),
        taken[1..],
        "the first still stands, the next covers the change"
    );
    assert!(
        found["events"].as_array().unwrap().iter().all(|event| event["verified"] == true),
        "the chain is whole"
    );
    // Nor is a new checkpoint signed over it.
    let said =
        admin.post("/admin/checkpoints", json!({ "intent_id": id })).await.refused(422, "unprocessable");
    assert!(said["message"].as_str().unwrap().contains(taken[1].as_str().unwrap()), "{said}");
    let report = BundleFile::of(&ada, &format!("/intents/{id}")).await.report();
    assert_eq!(report.log.breaks[0].checkpoint_id.as_deref(), taken[1].as_str());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_exchanged_is_found_by_what_it_signed() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    register(&ada, "agent.ada", &key(1)).await;
    let (id, _) = seven(&ada).await;
    let verify = format!("/intents/{id}/events/verify");
    let file = BundleFile::of(&ada, &format!("/intents/{id}")).await;
    assert_eq!(file.bodies(Section::Identity)[0]["keys"][0]["public_key"], json!(key(1).public_key()));
    assert!(file.report().is_clean());
    let other = canonical::hex(key(2).public_key().as_bytes());
    for statement in [
        &format!("UPDATE identity_keys SET public_key = decode('{other}', 'hex')"),
        "UPDATE identity_keys SET ended_at = '2026-11-20T08:00:00Z', ended_by = 'revoked'",
        "DELETE FROM identity_keys",
    ] {
        run(&world, "CREATE TABLE kept AS SELECT * FROM identity_keys").await;
        run(&world, statement).await;
        assert_eq!(named(&ada.get(&verify).await.ok(), "sequence"), [4], "{statement}");
        run(
            &world,
            "DELETE FROM identity_keys; INSERT INTO identity_keys SELECT * FROM kept; DROP TABLE kept",
        )
        .await;
    }
    assert_eq!(ada.get(&verify).await.ok()["valid"], true);
    world.end().await;
}

/// The checkpoint's signature from before the anchor stays valid forever, but the system log records the anchor.
#[tokio::test(flavor = "multi_thread")]
async fn a_witness_that_was_taken_away_is_missed() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    let intent = ada.post("/intents", json!({ "title": "t" })).await.ok();
    let made = admin.post("/admin/checkpoints", json!({ "intent_id": intent["id"] })).await.is(201);
    let anchor = format!("/admin/checkpoints/{}/anchor", made["checkpoint_id"].as_str().unwrap());
    let first = admin.post(&anchor, json!({ "provider": "w", "reference": "1" })).await.is(200);
    admin.post(&anchor, json!({ "provider": "w", "reference": "2" })).await.is(200);
    assert_eq!(admin.get("/audit/verify").await.ok()["valid"], true);
    let before = format!("'{}'", canonical::text(&first["anchor"]).unwrap());
    for (anchor, signed) in [("NULL", &made), (before.as_str(), &first)] {
        let signature = signed["signature"].as_str().unwrap();
        run(&world, &format!("UPDATE checkpoints SET anchor = {anchor}, signature = '{signature}'")).await;
        let found = admin.get("/audit/verify").await.ok();
        assert_eq!(named(&found, "checkpoint_id"), [made["checkpoint_id"].clone()], "{anchor}");
        assert_eq!(named(&found, "sequence").len(), 1, "{found}");
    }
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_with_absurd_numbers_proves_nothing() {
    let world = World::start().await;
    let (admin, ada) = (world.admin().await, world.agent("agent.ada").await);
    register(&ada, "agent.ada", &key(1)).await;
    let (id, _) = seven(&ada).await;
    let made = admin.post("/admin/checkpoints", json!({ "intent_id": id })).await.is(201);
    let checkpoint = made["checkpoint_id"].as_str().unwrap();
    let event = ada.get(&format!("/intents/{id}/events")).await.ok()[0]["id"].as_str().unwrap().to_owned();
    for count in ["-1", "0", "9223372036854775807"] {
        run(&world, &format!("UPDATE checkpoints SET event_count = {count}, last_sequence = {count}")).await;
        let both = format!("/verify/consistency?from_checkpoint={checkpoint}&to_checkpoint={checkpoint}");
        assert_eq!(ada.get(&both).await.ok()["consistent"], false, "{count}");
        let proof = ada.get(&format!("/checkpoints/{checkpoint}/proof/{event}")).await;
        if !count.starts_with('9') {
            proof.refused(404, "not_found");
        }
        assert_eq!(ada.get(&format!("/intents/{id}/events/verify")).await.ok()["valid"], false);
    }
    world.server.stop().await;
}

/// A log with an unreadable tail does not block the checkpoints of others.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_read_holds_up_no_other() {
    let settings = vec![("ENTENTE_CHECKPOINT_EVERY", "10")];
    let world = World::with(Setup { settings, live: false }).await;
    let ada = world.agent("agent.ada").await;
    register(&ada, "agent.ada", &key(1)).await;
    let (mut logs, mut ids) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let (id, uuid) = seven(&ada).await;
        for _ in 0..3 {
            ada.post(&format!("/intents/{id}/events"), json!({ "event_type": "note" })).await.ok();
        }
        logs.push(uuid);
        ids.push(id);
    }
    let broken = usize::from(logs[0] >= logs[1]);
    run(&world, &format!("UPDATE intent_clock SET head_hash = 'x' WHERE intent_id = '{}'", logs[broken]))
        .await;
    world.sweep().await;
    let taken = ada.get("/checkpoints").await.ok();
    assert_eq!(taken[0]["intent_id"], json!(ids[1 - broken]), "{taken}");
    // Verification reports it as invalid instead of failing.
    let found = ada.get(&format!("/intents/{}/events/verify", ids[broken])).await.ok();
    assert_eq!(found["valid"], false);
    world.server.stop().await;
}
