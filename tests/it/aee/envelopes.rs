//! AEE envelopes over the API: ingest, refusals, replies and retention.

pub mod consent;
mod links;
mod logging;
mod pairs;
mod refutations;
mod threads;
pub mod trust;

use entente_domain::clock::rfc3339;

use entente_harness::envelopes::{answer, mail, task_envelope, two, with};
use entente_harness::{Setup, Value, World, json};

#[tokio::test]
async fn an_envelope_lies_in_its_recipients_mailbox_as_it_was_sent() {
    let (world, ada, bob) = two().await;
    let ts = rfc3339(world.ctx().now());
    // Blanks, escapes, unusual member order, unknown members and unusual number formats.
    let text = format!(
        "{{ \"x-unknown\" : [1e2, -0.0, {{\"a\":\"\\u00e9\\/\"}}],\n \"v\":\"1\",\"id\":\"01JFB2R1JZKQ9V3K8W8Y9W1F2A\", \"ts\":\"{ts}\",\
         \"type\":\"event\",\"from\":\"agent.ada\",\"to\":\"agent.bob\",\"intent\":\"ops.x\",\"corr\":\"thread-1\",\"priority\":\"low\",\
         \"payload\":{{ \"n\" : 1.50 }} }}"
    );
    let receipt = ada.send("POST", "/aee/envelopes", Some(text.clone())).await.is(202);
    assert_eq!((receipt["status"].as_str(), receipt["seq"].as_i64()), (Some("accepted"), Some(1)));
    assert_eq!(receipt["verified"], json!({ "by": "token" }));
    assert_eq!(receipt["warnings"], json!([]));
    let page = bob.get("/aee/mailboxes/agent.bob").await;
    assert!(page.text.contains(&text), "not to the byte: {}", page.text);
    let kept = bob.get("/aee/envelopes/01JFB2R1JZKQ9V3K8W8Y9W1F2A").await;
    assert!(kept.is(200).is_object() && kept.text.contains(&text));
    world
        .agent("agent.eve")
        .await
        .get("/aee/envelopes/01JFB2R1JZKQ9V3K8W8Y9W1F2A")
        .await
        .refused(404, "not_found");
    world.agent("agent.eve").await.get("/aee/mailboxes/agent.bob").await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test]
async fn what_breaks_a_rule_is_refused_with_every_fault() {
    let (world, ada, bob) = two().await;
    let good = task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"));
    let refusals = [
        (json!({ "v": "2" }), 422, "unsupported_version"),
        (json!({ "type": "Task" }), 422, "invalid_envelope"),
        (json!({ "payload": [] }), 422, "invalid_envelope"),
        (json!({ "from": "agent.bob" }), 403, "from_mismatch"),
        (json!({ "from": "service.entente" }), 403, "from_mismatch"),
        (json!({ "to": "agent.nobody" }), 404, "unknown_recipient"),
        (json!({ "intent": "aee.foo.bar" }), 422, "reserved_namespace"),
        (json!({ "ts": "2026-11-20T07:59:59Z" }), 422, "outside_window"),
        (json!({ "ts": "2026-11-21T08:05:01Z" }), 422, "outside_window"),
        (json!({ "sig": "x" }), 422, "sig_unverifiable"),
        (json!({ "to": "bus.empty" }), 422, "no_recipient"),
    ];
    for (more, status, code) in refusals {
        ada.post("/aee/envelopes", with(good.clone(), more)).await.refused(status, code);
    }
    let all = ada.post("/aee/envelopes", json!({ "v": "1", "id": "short", "priority": "critical" })).await;
    let all = all.refused(422, "invalid_envelope");
    let faulty: Vec<&str> =
        all["errors"].as_array().unwrap().iter().map(|e| e["loc"][1].as_str().unwrap()).collect();
    for member in ["ts", "type", "from", "to", "intent", "corr", "payload", "id", "priority"] {
        assert!(faulty.contains(&member), "{member} is not in {faulty:?}");
    }
    let mve5 =
        json!({ "v": "1", "id": "envelope-1", "type": "event", "from": "agent.ada", "intent": "ops.x" });
    ada.post("/aee/envelopes", mve5).await.refused(422, "mve5_not_routable");
    for text in ["{\"v\":\"1\",\"v\":\"1\"}", "nothing", "{\"a\":\"\\u0000\"}"] {
        let status = ada.send("POST", "/aee/envelopes", Some(text.to_owned())).await.status;
        assert!((400..=422).contains(&status), "{text}");
    }
    assert_eq!(mail(&bob, "agent.bob").await, [], "nothing of it was kept");
    world.end().await;
}

#[tokio::test]
async fn a_retry_gets_the_first_receipt_and_another_one_nothing() {
    let (world, ada, bob) = two().await;
    let task = task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"));
    let first = ada.post("/aee/envelopes", task.clone()).await.is(202);
    world.clock.advance(10);
    let again = ada.post("/aee/envelopes", task.clone()).await.refused(409, "duplicate_id");
    assert_eq!(again["receipt"], first);
    let other = with(task.clone(), json!({ "payload": { "n": 2 } }));
    assert!(ada.post("/aee/envelopes", other).await.refused(409, "duplicate_id")["receipt"].is_null());
    let theirs = task_envelope(&world, "envelope-1", ("agent.bob", "agent.ada"));
    assert!(bob.post("/aee/envelopes", theirs).await.refused(409, "duplicate_id")["receipt"].is_null());
    assert_eq!(mail(&bob, "agent.bob").await.len(), 1);
    world.end().await;
}

#[tokio::test]
async fn an_envelope_without_an_age_is_taken_in_once_for_good() {
    let (world, ada, bob) = two().await;
    let untimed = |id: &str| {
        let envelope = task_envelope(&world, id, ("agent.ada", "agent.bob"));
        with(envelope, json!({ "ts": "yesterday at noon", "type": "event" }))
    };
    let first = ada.post("/aee/envelopes", untimed("envelope-1")).await.is(202);
    assert!(first["warnings"].as_array().unwrap().contains(&json!("ts_unparseable")));
    ada.post("/aee/envelopes", task_envelope(&world, "envelope-2", ("agent.ada", "agent.bob"))).await.is(202);
    world.pass(31 * 86_400).await;
    ada.get("/aee/envelopes/envelope-1").await.refused(404, "not_found");
    // The envelope is purged and has no timestamp, but its id is still remembered.
    let again = ada.post("/aee/envelopes", untimed("envelope-1")).await.refused(409, "duplicate_id");
    assert!(again["receipt"].is_null());
    let batch = json!([untimed("envelope-1"), untimed("envelope-3")]);
    assert_eq!(ada.post("/aee/envelopes/batch", batch).await.is(207)["accepted"], 1);
    // A purged id may be reused by an envelope with a timestamp, because that is a different one.
    for id in ["envelope-1", "envelope-2"] {
        ada.post("/aee/envelopes", task_envelope(&world, id, ("agent.ada", "agent.bob"))).await.is(202);
    }
    assert_eq!(mail(&bob, "agent.bob").await.len(), 3);
    world.pass(31 * 86_400).await;
    ada.post("/aee/envelopes", untimed("envelope-1")).await.refused(409, "duplicate_id");
    ada.post("/aee/envelopes", untimed("envelope-3")).await.refused(409, "duplicate_id");
    let kept: Vec<Vec<u8>> =
        sqlx::query_scalar("SELECT digest FROM aee_untimed").fetch_all(&world.ctx().pool).await.unwrap();
    assert_eq!(kept.len(), 2, "only those whose age nobody can judge");
    assert!(kept.iter().all(|digest| digest.len() == 32));
    world.end().await;
    let strict = Setup { settings: vec![("ENTENTE_STRICT_RFC0021", "true")], live: false };
    let world = World::with(strict).await;
    let ada = world.agent("agent.ada").await;
    let odd =
        with(task_envelope(&world, "envelope-1", ("agent.ada", "agent.ada")), json!({ "ts": "2026-11-21" }));
    ada.post("/aee/envelopes", odd).await.refused(422, "invalid_envelope");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_send_the_same_one_is_taken_in() {
    let (world, ada, bob) = two().await;
    for round in 0..5 {
        let task = task_envelope(&world, &format!("envelope-{round}"), ("agent.ada", "agent.bob"));
        let sent =
            futures_util::future::join_all((0..16).map(|_| ada.post("/aee/envelopes", task.clone()))).await;
        let taken = sent.iter().filter(|reply| reply.status == 202).count();
        assert_eq!(taken, 1, "{:?}", sent.iter().map(|reply| reply.status).collect::<Vec<_>>());
        assert!(sent.iter().all(|reply| [202, 409].contains(&reply.status)));
    }
    assert_eq!(
        mail(&bob, "agent.bob").await.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5]
    );
    world.end().await;
}

#[tokio::test]
async fn a_batch_is_taken_in_one_by_one() {
    let (world, ada, bob) = two().await;
    let task = |id: &str| task_envelope(&world, id, ("agent.ada", "agent.bob"));
    let bad = with(task("envelope-2"), json!({ "to": "agent.nobody" }));
    let batch = json!([task("envelope-1"), bad, task("envelope-1"), task("envelope-3")]);
    let reply = ada.post("/aee/envelopes/batch", batch).await.is(207);
    assert_eq!((reply["accepted"].as_i64(), reply["refused"].as_i64()), (Some(2), Some(2)));
    assert_eq!(reply["results"][1]["error"]["code"], "unknown_recipient");
    assert_eq!(reply["results"][2]["error"]["code"], "duplicate_id");
    let lines = format!("{}\n\n{}\n", task("envelope-4"), task("envelope-5"));
    ada.send("POST", "/aee/envelopes/batch", Some(lines)).await.is(202);
    let ids: Vec<Value> =
        mail(&bob, "agent.bob").await.into_iter().map(|(_, envelope)| envelope["id"].clone()).collect();
    assert_eq!(ids, ["envelope-1", "envelope-3", "envelope-4", "envelope-5"]);
    world.end().await;
}

#[tokio::test]
async fn a_service_may_speak_for_its_agents_and_for_nobody_else() {
    let (world, _ada, bob) = two().await;
    let any = world.any();
    any.post("/aee/envelopes", task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"))).await.is(202);
    let named = any.acting_as("agent.bob");
    let odd = task_envelope(&world, "envelope-2", ("urn:x", "agent.bob"));
    bob.post("/aee/envelopes", odd).await.refused(403, "from_mismatch");
    named.get("/aee/mailboxes/agent.bob").await.ok();
    // An entity that is no principal has a mailbox once that is opened.
    let to = task_envelope(&world, "envelope-3", ("agent.bob", "urn:ada:7"));
    bob.post("/aee/envelopes", to.clone()).await.refused(404, "unknown_recipient");
    any.put("/aee/mailboxes/urn:ada:7", json!({})).await.ok();
    bob.post("/aee/envelopes", to).await.is(202);
    world.end().await;
}

#[tokio::test]
async fn a_wrong_hash_is_found_by_parties_and_tells_strangers_nothing() {
    let (world, ada, bob) = two().await;
    ada.post("/aee/envelopes", task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob"))).await.is(202);
    let refers = |id: &str, from: &str, hash: &str| {
        let reference = json!({ "type": "aee.envelope", "id": "envelope-1", "hash": hash });
        let payload = json!({ "payload": { "references": [reference] } });
        with(task_envelope(&world, id, (from, "agent.bob")), payload)
    };
    let kept = bob.get("/aee/envelopes/envelope-1").await.ok();
    let right = entente_domain::aee::envelopes::hash(kept["envelope"].as_object().unwrap());
    for (client, who) in [(&ada, "agent.ada"), (&bob, "agent.bob")] {
        let wrong = refers(&format!("{who}-wrong"), who, "sha256:00");
        client.post("/aee/envelopes", wrong).await.refused(422, "reference_hash_mismatch");
        client.post("/aee/envelopes", refers(&format!("{who}-right"), who, &right)).await.is(202);
    }
    // Otherwise an agent could find out by guessing what, or whether, others have written.
    let eve = world.agent("agent.eve").await;
    eve.post("/aee/envelopes", refers("envelope-eve-1", "agent.eve", "sha256:00")).await.is(202);
    eve.post("/aee/envelopes", refers("envelope-eve-2", "agent.eve", &right)).await.is(202);
    world.end().await;
}
