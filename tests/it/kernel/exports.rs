//! Tampering is detected and located (RFC-0019): in an export, with nothing but the file, and in the database.

use entente_domain::openintent::intents::export::{Export, Report};
use serde_json::Map;

use entente_harness::{BundleFile, Client, Value, World, json};

/// Creates an intent with six events, the last two of which do not change it.
async fn six(ada: &Client) -> String {
    let intent = ada.post("/intents", json!({ "title": "t", "state": { "n": 1 } })).await.ok();
    let id = intent["id"].as_str().unwrap().to_owned();
    let patch = json!({ "patches": [{ "op": "set", "path": "n", "value": 2 }] });
    ada.seen(&json!(1)).post(&format!("/intents/{id}/state"), patch).await.ok();
    ada.seen(&json!(2)).post(&format!("/intents/{id}/status"), json!({ "status": "active" })).await.ok();
    ada.post(&format!("/intents/{id}/channels"), json!({ "name": "talk" })).await.is(201);
    for n in 0..2 {
        let note = json!({ "event_type": "note", "payload": { "text": format!("note {n}") } });
        ada.post(&format!("/intents/{id}/events"), note).await.ok();
    }
    id
}

async fn export(ada: &Client, id: &str) -> Value {
    BundleFile::of(ada, &format!("/intents/{id}")).await.log()
}

/// Returns a verifier's report on a file.
fn report(file: &Value) -> Report {
    serde_json::from_value::<Export>(file.clone()).unwrap().verify()
}

/// Returns the sequences of the events that a report names.
fn accused(report: &Report) -> Vec<i64> {
    let mut places: Vec<i64> = report.breaks.iter().map(|fault| fault.sequence).collect();
    places.dedup();
    places
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_the_intent_with_its_whole_log() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let id = six(&ada).await;
    world.clock.advance(60);
    let file = export(&ada, &id).await;
    let header = BundleFile::of(&ada, &format!("/intents/{id}")).await.header();
    assert_eq!(
        (&header["format"], &header["exported_by"]),
        (&json!("entente-bundle/1"), &json!("agent.ada"))
    );
    assert_eq!(file["exported_at"], "2026-11-21T08:01:00.000000Z");
    assert_eq!((&file["intent"]["id"], &file["intent"]["state"]), (&json!(id), &json!({ "n": 2 })));
    let sequences: Vec<i64> =
        file["events"].as_array().unwrap().iter().map(|e| e["sequence"].as_i64().unwrap()).collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5, 6], "the oldest first");
    assert_eq!((&file["event_count"], &file["head"]), (&json!(6), &file["events"][5]["event_hash"]));
    let found = report(&file);
    assert!(found.is_clean(), "{found:?}");
    assert_eq!((found.event_count, found.head.as_deref()), (6, file["head"].as_str()));
    // The SDK's dialect does not affect hashed data (OI-13.2).
    let sdk = ada.acting_as("agent.ada").with("user-agent", "python-httpx/0.27.0");
    assert!(report(&export(&sdk, &id).await).is_clean());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_changed_byte_of_an_export_is_found_in_its_place() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let file = export(&ada, &six(&ada).await).await;
    let events = file["events"].as_array().unwrap();
    let other_hash = events[0]["event_hash"].clone();
    for (at, member, value) in [
        (0, "/payload/title", json!("u")),
        (1, "/payload/patches/0/value", json!(3)),
        (2, "/payload/status", json!("blocked")),
        (3, "/payload/name", json!("tall")),
        (4, "/payload/text", json!("note 8")),
        (4, "/actor", json!("agent.eve")),
        (4, "/event_type", json!("nota")),
        (4, "/created_at", json!("2026-11-21T08:00:00.000001Z")),
        (4, "/id", events[5]["id"].clone()),
        (4, "/intent_id", json!("intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F")),
        (5, "/payload/text", json!("note 8")),
    ] {
        let mut forged = file.clone();
        *forged["events"][at].pointer_mut(member).unwrap() = value;
        let found = report(&forged);
        assert_eq!(accused(&found), [i64::try_from(at).unwrap() + 1], "{member} of {at}: {found:?}");
        assert!(found.breaks[0].reason.contains("content does not give its hash"), "{found:?}");
    }
    // A member that is omitted when false: removing it is detected, and writing it as `false` makes the export
    // invalid.
    let mut forged = file.clone();
    forged["events"][4].as_object_mut().unwrap().remove("posted");
    assert_eq!(accused(&report(&forged)), [5]);
    forged["events"][4]["posted"] = json!(false);
    assert!(serde_json::from_value::<Export>(forged).is_err());
    // A changed hash breaks two places: its own event, and the link of the next one.
    let mut forged = file.clone();
    forged["events"][2]["event_hash"] = other_hash.clone();
    assert_eq!(accused(&report(&forged)), [3, 4]);
    let mut forged = file.clone();
    forged["events"][2]["previous_event_hash"] = other_hash;
    assert_eq!(accused(&report(&forged)), [3]);
    let mut forged = file.clone();
    forged["events"][0]["previous_event_hash"] = file["events"][5]["event_hash"].clone();
    assert_eq!(accused(&report(&forged)), [1]);
    let mut forged = file.clone();
    forged["events"][3]["sequence"] = json!(40);
    assert_eq!(accused(&report(&forged)), [40, 5]);
    // Additions: a member that did not exist, and null instead of a hash.
    for (member, value) in
        [("trace_id", json!("0af7651916cd43dd8448eb211c80319c")), ("proof", json!({ "signature": "x" }))]
    {
        let mut forged = file.clone();
        forged["events"][4][member] = value;
        assert_eq!(accused(&report(&forged)), [5], "{member}");
    }
    let mut forged = file.clone();
    forged["events"][4].as_object_mut().unwrap().remove("event_hash");
    assert_eq!(accused(&report(&forged)), [5, 6]);
    let mut forged = file.clone();
    forged["events"][4].as_object_mut().unwrap().remove("posted");
    assert_eq!(accused(&report(&forged)), [5], "a client's word that passes for the server's");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_that_are_missing_moved_or_added_are_found() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let file = export(&ada, &six(&ada).await).await;
    let with = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut forged = file.clone();
        change(forged["events"].as_array_mut().unwrap());
        report(&forged)
    };
    assert_eq!(accused(&with(&|lines| drop(lines.remove(3)))), [5]);
    assert_eq!(accused(&with(&|lines| drop(lines.remove(0)))), [2]);
    assert_eq!(accused(&with(&|lines| lines.swap(3, 4))), [5, 4, 6]);
    assert_eq!(accused(&with(&|lines| lines.insert(4, lines[3].clone()))), [4]);
    // The end of the log: truncated, emptied, or with one more event that links and hashes correctly.
    for left in [5, 4, 1] {
        let found = with(&|lines| lines.truncate(left));
        assert_eq!(accused(&found), [i64::try_from(left).unwrap()]);
        assert!(found.breaks[0].reason.contains("event 6 was recorded"), "{found:?}");
    }
    let found = with(&|lines| lines.clear());
    assert_eq!(accused(&found), [0]);
    assert_eq!(found.contradictions, ["the log does not begin with the intent's creation"]);
    let mut shorter = file.clone();
    shorter["event_count"] = json!(5);
    shorter["head"] = file["events"][4]["event_hash"].clone();
    assert_eq!(accused(&report(&shorter)), [6], "one that was added after the end");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_that_is_not_what_its_log_makes_of_it_is_found() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let file = export(&ada, &six(&ada).await).await;
    for (member, value) in [
        ("title", json!("u")),
        ("description", json!("u")),
        ("created_by", json!("agent.eve")),
        ("state", json!({ "n": 3 })),
        ("status", json!("completed")),
        ("version", json!(4)),
        ("constraints", json!({ "budget": 1 })),
        ("updated_at", json!("2026-11-22T08:00:00Z")),
    ] {
        let mut forged = file.clone();
        forged["intent"][member] = value;
        let found = report(&forged);
        assert_eq!(
            found.contradictions,
            [format!("the intent's `{member}` is not what its log makes of it")]
        );
        assert_eq!(accused(&found), [0; 0]);
    }
    // The last events removed consistently, with count and head: the intent's own state still shows it.
    let mut forged = file.clone();
    let rest: Vec<Value> = file["events"].as_array().unwrap()[..2].to_vec();
    forged["event_count"] = json!(2);
    forged["head"] = rest[1]["event_hash"].clone();
    forged["events"] = json!(rest);
    let found = report(&forged);
    assert_eq!(accused(&found), [0; 0]);
    assert!(found.contradictions.iter().any(|word| word.contains("`status`")), "{found:?}");
    world.end().await;
}

/// Changes the database directly; returns the server's verification and its verdict on each event.
async fn behind(world: &World, client: &Client, path: &str, statement: &str) -> (Value, Map<String, Value>) {
    let done =
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())).execute(&world.ctx().pool).await.unwrap();
    assert!(done.rows_affected() > 0, "{statement} did nothing");
    let found = client.get(path).await.ok();
    assert_eq!(found["chain_valid"], found["valid"]);
    assert_eq!(found["chain_valid"], json!(found["breaks"] == json!([])));
    let verified = found["events"].as_array().unwrap().iter();
    let verdicts = verified.map(|event| (event["sequence"].to_string(), event["verified"].clone()));
    (found.clone(), verdicts.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_chain_is_shown_whole() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let id = six(&ada).await;
    let found = ada.get(&format!("/intents/{id}/events/verify")).await.ok();
    let log = export(&ada, &id).await;
    let events: Vec<Value> = log["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            json!({
                "sequence": event["sequence"], "event_hash": event["event_hash"],
                "previous_event_hash": event["previous_event_hash"], "verified": true
            })
        })
        .collect();
    let expected = json!({
        "intent_id": id, "event_count": 6, "first_sequence": 1, "last_sequence": 6, "chain_valid": true, "valid": true,
        "checkpoint_count": 0, "breaks": [], "events": events
    });
    assert_eq!(found, expected);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_changed_in_the_database_is_found() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    for (what, places) in [
        (
            "UPDATE events SET payload = '{\"text\":\"note 8\"}' WHERE intent_id = '$' AND sequence = 5",
            vec![5],
        ),
        ("UPDATE events SET actor = 'agent.eve' WHERE intent_id = '$' AND sequence = 1", vec![1]),
        (
            "UPDATE events SET created_at = created_at + interval '1 microsecond' WHERE intent_id = '$' AND sequence = 2",
            vec![2],
        ),
        ("UPDATE events SET event_type = 'comment' WHERE intent_id = '$' AND sequence = 3", vec![3]),
        ("UPDATE events SET posted = false WHERE intent_id = '$' AND sequence = 6", vec![6]),
        ("UPDATE events SET trace_id = 'x' WHERE intent_id = '$' AND sequence = 6", vec![6]),
        ("UPDATE events SET event_hash = sha256('x') WHERE intent_id = '$' AND sequence = 3", vec![3, 4]),
        ("UPDATE events SET previous_event_hash = NULL WHERE intent_id = '$' AND sequence = 3", vec![3]),
        ("DELETE FROM events WHERE intent_id = '$' AND sequence = 4", vec![5]),
        ("DELETE FROM events WHERE intent_id = '$' AND sequence = 6", vec![5]),
        ("DELETE FROM events WHERE intent_id = '$' AND sequence > 1", vec![1]),
        ("DELETE FROM events WHERE intent_id = '$'", vec![0]),
        ("UPDATE events SET payload = '{\"text\":' WHERE intent_id = '$' AND sequence = 5", vec![5, 6]),
        ("UPDATE events SET event_hash = 'x' WHERE intent_id = '$' AND sequence = 6", vec![6, 5]),
    ] {
        let id = six(&ada).await;
        let uuid = id.parse::<entente_domain::ids::IntentId>().unwrap().uuid().to_string();
        let path = format!("/intents/{id}/events/verify");
        let (found, verdicts) = behind(&world, &ada, &path, &what.replace('$', &uuid)).await;
        let mut named: Vec<i64> =
            found["breaks"].as_array().unwrap().iter().map(|b| b["sequence"].as_i64().unwrap()).collect();
        named.dedup();
        assert_eq!(named, places, "{what}");
        assert_eq!(found["chain_valid"], false);
        for (sequence, verified) in &verdicts {
            let accused = places.contains(&sequence.parse().unwrap());
            assert_eq!(verified, &json!(!accused), "{what}: {sequence}");
        }
        // Restored, so that the final check of all logs passes.
        sqlx::query("DELETE FROM events WHERE intent_id = $1::uuid")
            .bind(&uuid)
            .execute(&world.ctx().pool)
            .await
            .unwrap();
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_that_is_changed_in_the_database_is_found() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let id = six(&ada).await;
    sqlx::raw_sql("UPDATE intents SET state = '{\"n\":7}'").execute(&world.ctx().pool).await.unwrap();
    let found = report(&export(&ada, &id).await);
    assert_eq!(found.contradictions, ["the intent's `state` is not what its log makes of it"]);
    // An export of a truncated log reports it too.
    sqlx::raw_sql(
        "DELETE FROM events WHERE sequence = 6 AND intent_id <> '00000000-0000-0000-0000-000000000000'",
    )
    .execute(&world.ctx().pool)
    .await
    .unwrap();
    assert_eq!(accused(&report(&export(&ada, &id).await)), [5]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_houses_own_log_is_a_chain_too() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = world.agent("agent.ada").await;
    let found = admin.get("/audit/verify").await.ok();
    assert_eq!((&found["intent_id"], &found["chain_valid"]), (&json!(null), &json!(true)));
    assert_eq!(found["event_count"], 3, "three keys were made");
    ada.get("/audit/verify").await.refused(403, "scope_missing");
    ada.get("/audit").await.refused(403, "scope_missing");
    let kinds = admin.get("/audit?event_type=key.created&limit=2&offset=1").await.ok();
    assert_eq!(kinds.as_array().unwrap().len(), 2);
    assert_eq!(admin.get("/audit?since=2026-11-21T08:00:00Z").await.ok(), json!([]));
    admin.get("/audit?limit=0").await.refused(422, "invalid_parameter");
    let statement =
        "UPDATE events SET payload = replace(payload, 'agent.ada', 'agent.eve') WHERE sequence = 3";
    let (found, verdicts) = behind(&world, &admin, "/audit/verify", statement).await;
    assert_eq!(found["breaks"][0]["sequence"], 3);
    assert_eq!(Value::Object(verdicts), json!({ "1": true, "2": true, "3": false }));
    let undo = "UPDATE events SET payload = replace(payload, 'agent.eve', 'agent.ada') WHERE sequence = 3";
    let (found, _) = behind(&world, &admin, "/audit/verify", undo).await;
    assert_eq!(found["chain_valid"], true);
    world.end().await;
}
