//! The server's own replies to tasks that are addressed to it (AEE §9.2).

use entente_aee::answers::{Answer, INFO, REFUTED, answer, health};
use entente_aee::refutations;
use entente_domain::aee::envelopes;
use entente_domain::aee::envelopes::{Envelope, EnvelopeType};
use entente_kernel::Caller;
use entente_kernel::identity::authentication;
use tokio_util::sync::CancellationToken;

use crate::aee::rules::envelope;
use entente_harness::envelopes::{mail, task_envelope, two, with};
use entente_harness::{Value, World, json};

/// The server's entity name in these tests.
const SERVER: &str = "service.entente";

async fn caller(world: &World, agent: &str) -> Caller {
    world.agent(agent).await;
    let grant = authentication::authenticate(world.ctx(), &format!("key-of-{agent}"), None).await.unwrap();
    Caller::new(grant, None, world.ctx().now()).unwrap()
}

async fn ask(world: &World, caller: &Caller, intent: &str, payload: Value) -> Answer {
    let asked = Envelope { sender: caller.agent.clone(), ..envelope("task", intent, payload) };
    answer(&world.ctx().aee, caller, SERVER, &asked).await.unwrap()
}

/// Like [`ask`], but asserts a result and returns its payload.
async fn told(world: &World, caller: &Caller, intent: &str, payload: Value) -> Value {
    let answer = ask(world, caller, intent, payload).await;
    assert_eq!(answer.kind, EnvelopeType::Result, "{}", answer.payload);
    answer.payload
}

/// Like [`ask`], but asserts a complete error and returns its code.
async fn failed(world: &World, caller: &Caller, intent: &str, payload: Value) -> Value {
    let answer = ask(world, caller, intent, payload).await;
    assert_eq!(answer.kind, EnvelopeType::Error, "{}", answer.payload);
    assert!(
        answer.payload["message"].is_string() && answer.payload["retryable"] == false,
        "{}",
        answer.payload
    );
    answer.payload["code"].clone()
}

/// Stores an envelope from agent.a to agent.b; returns its id and hash.
async fn kept(world: &World) -> (String, String) {
    world.agent("agent.b").await;
    let said = task_envelope(world, "01JFB2R1JZKQ9V3K8W8Y9W1F2A", ("agent.a", "agent.b"));
    let said = with(said, json!({ "payload": { "cluster": "private" } }));
    world.agent("agent.a").await.post("/aee/envelopes", said.clone()).await.is(202);
    (said["id"].as_str().unwrap().to_owned(), envelopes::hash(said.as_object().unwrap()))
}

#[tokio::test]
async fn the_server_answers_the_protocols_own_intents() {
    let world = World::start().await;
    let me = caller(&world, "agent.a").await;
    assert_eq!(told(&world, &me, "aee.status.ping", json!({})).await, json!({ "pong": true }));
    let spec = told(&world, &me, "aee.spec.query", json!({})).await;
    assert_eq!(spec["aee_version"], "1");
    assert!(spec["extensions"].as_array().unwrap().contains(&json!("aee-jcs-1")));
    let info = told(&world, &me, INFO, json!({})).await;
    assert_eq!((&info["entity"], &info["limits"]["envelope_bytes"]), (&json!(SERVER), &json!(262_144)));
    for (filter, count) in [
        (json!({}), 8),
        (json!({ "namespace_filter": "aee." }), 7),
        (json!({ "namespace_filter": "aee" }), 7),
        (json!({ "namespace_filter": "aee.status" }), 2),
        (json!({ "namespace_filter": "ae" }), 0),
    ] {
        let listed = told(&world, &me, "aee.capability.list", filter.clone()).await;
        assert_eq!(listed["intents"].as_array().unwrap().len(), count, "{filter}: {listed}");
    }
    world.end().await;
}

#[tokio::test]
async fn what_the_server_does_not_understand_is_an_error() {
    let world = World::start().await;
    let me = caller(&world, "agent.a").await;
    assert_eq!(failed(&world, &me, "ops.backup.check", json!({})).await, "E_INTENT_UNSUPPORTED");
    for (intent, payload) in [
        ("aee.status.ping", json!({ "x": 1 })),
        ("aee.status.health", json!({ "x": 1 })),
        ("aee.spec.query", json!({ "x": 1 })),
        ("aee.capability.list", json!({ "namespace_filter": 1 })),
        ("aee.context.fetch", json!({})),
        ("aee.context.refute", json!({ "id": "01JFB2R1JZKQ9V3K8W8Y9W1F2A" })),
        ("aee.validate.payload", json!({ "intent": "ops.x" })),
        (
            "aee.validate.payload",
            json!({ "intent": "ops.x", "payload_to_validate": {}, "type_hint": "event" }),
        ),
    ] {
        assert_eq!(failed(&world, &me, intent, payload).await, "E_INVALID_PAYLOAD", "{intent}");
    }
    world.end().await;
}

#[tokio::test]
async fn health_is_what_is_found() {
    let world = World::start().await;
    let ctx = world.ctx();
    let me = caller(&world, "agent.a").await;
    assert_eq!(told(&world, &me, "aee.status.health", json!({})).await["status"], "healthy");
    ctx.metrics.webhook_lag.set(90.0);
    let slow = health(&ctx.aee).await;
    assert_eq!((&slow["status"], &slow["checks"]["webhook_lag_ms"]), (&json!("degraded"), &json!(90_000)));
    ctx.metrics.webhook_lag.set(0.0);
    sqlx::query("UPDATE _sqlx_migrations SET version = -version WHERE version = (SELECT max(version) FROM _sqlx_migrations)")
        .execute(&ctx.pool)
        .await
        .unwrap();
    let old = health(&ctx.aee).await;
    assert_eq!((&old["status"], &old["checks"]["migrations"]), (&json!("unhealthy"), &json!(false)));
    let away = entente_store::options("postgres://nobody@127.0.0.1:1/none").unwrap();
    let away = entente_store::pool(away, 1, &CancellationToken::new());
    let gone = health(&ctx.with_pool(away).aee).await;
    assert_eq!((&gone["status"], &gone["checks"]["database"]), (&json!("unhealthy"), &json!(false)));
    world.end().await;
}

#[tokio::test]
async fn an_envelope_is_fetched_by_its_parties_only() {
    let world = World::start().await;
    let (id, hash) = kept(&world).await;
    let (one, other, stranger) =
        (caller(&world, "agent.a").await, caller(&world, "agent.b").await, caller(&world, "agent.c").await);
    for party in [&one, &other] {
        let found = told(&world, party, "aee.context.fetch", json!({ "id": id, "hash": hash })).await;
        assert_eq!((&found["found"], &found["hash"]), (&json!(true), &json!(hash)));
        assert_eq!(found["envelope"]["payload"]["cluster"], "private");
    }
    let none = json!({ "found": false });
    // A stranger gets the same reply as for an unknown envelope, even with its id or hash.
    for payload in [
        json!({ "id": id }),
        json!({ "id": id, "hash": "sha256:x" }),
        json!({ "id": "01JFB2R1JZKQ9V3K8W8Y9W1F00" }),
    ] {
        assert_eq!(told(&world, &stranger, "aee.context.fetch", payload).await, none);
    }
    let wrong = json!({ "id": id, "hash": "sha256:a1b2c3" });
    assert_eq!(failed(&world, &one, "aee.context.fetch", wrong).await, "E_HASH_MISMATCH");
    // Whoever submits a task for another entity gets that entity's view, not its own.
    let for_another = Envelope {
        sender: "agent.c".to_owned(),
        ..envelope("task", "aee.context.fetch", json!({ "id": id, "hash": hash }))
    };
    assert_eq!(answer(&world.ctx().aee, &one, SERVER, &for_another).await.unwrap().payload, none);
    let locator = format!("store://envelopes/{id}");
    assert_eq!(
        told(&world, &one, "aee.context.fetch", json!({ "id": id, "locator": locator })).await["found"],
        true
    );
    for elsewhere in
        [json!({ "id": id, "locator": "store://other" }), json!({ "id": id, "corr": "another-thread" })]
    {
        assert_eq!(told(&world, &one, "aee.context.fetch", elsewhere).await, none);
    }
    world.end().await;
}

#[tokio::test]
async fn a_refutation_is_told_to_whoever_said_it() {
    let world = World::start().await;
    let (id, _) = kept(&world).await;
    let (other, stranger) = (caller(&world, "agent.b").await, caller(&world, "agent.c").await);
    let refuted =
        ask(&world, &other, "aee.context.refute", json!({ "id": id, "reason": "it is not so" })).await;
    assert_eq!(refuted.payload, json!({ "acknowledged": true }));
    let [notice] = refuted.notices.as_slice() else { panic!("{refuted:?}") };
    assert_eq!(
        (notice.kind, notice.recipient.as_str(), notice.purpose.as_str()),
        (EnvelopeType::Event, "agent.a", REFUTED)
    );
    assert_eq!(
        (&notice.payload()["by"], &notice.payload()["reason"]),
        (&json!("agent.b"), &json!("it is not so"))
    );
    assert_eq!(notice.warnings, []);
    let kept = refuted.refutation.unwrap();
    assert_eq!(
        (kept.envelope_id, kept.entity.as_str(), kept.reason.as_str()),
        (id.clone(), "agent.b", "it is not so")
    );
    // A refutation takes effect together with its task: a refused task refutes nothing.
    let bob = world.agent("agent.b").await;
    let task = |task: &str, reason: &str| {
        let more = json!({ "intent": "aee.context.refute", "payload": { "id": id, "reason": reason } });
        with(task_envelope(&world, task, ("agent.b", SERVER)), more)
    };
    bob.post("/aee/envelopes", task("envelope-r1", "it is not so")).await.is(200);
    // A second refutation by the same entity replaces the first.
    bob.post("/aee/envelopes", task("envelope-r2", "it was never so")).await.is(200);
    bob.post("/aee/envelopes", task("envelope-r1", "it is as I like")).await.refused(409, "duplicate_id");
    let denied = ask(&world, &stranger, "aee.context.refute", json!({ "id": id, "reason": "mine" })).await;
    assert_eq!(denied.payload, json!({ "acknowledged": false }));
    assert!(denied.notices.is_empty() && denied.refutation.is_none());
    let mut connection = world.ctx().pool.acquire().await.unwrap();
    let shown = refutations::of(&mut connection, &[&id]).await.unwrap();
    assert_eq!(shown.len(), 1);
    assert_eq!((shown[0].entity.as_str(), shown[0].reason.as_str()), ("agent.b", "it was never so"));
    drop(connection);
    world.end().await;
}

#[tokio::test]
async fn a_payload_is_validated_by_what_is_published() {
    let world = World::start().await;
    let me = caller(&world, "agent.a").await;
    let admin = world.admin().await;
    let path = "/aee/schemas/intents/ops.check.result.schema.json?policy=off";
    admin.put(path, json!({ "properties": { "n/m": { "type": "integer" } } })).await.ok();
    let validate = async |hint: Option<&str>, given: Value| {
        let mut payload = json!({ "intent": "ops.check", "payload_to_validate": given });
        if let Some(hint) = hint {
            payload["type_hint"] = json!(hint);
        }
        told(&world, &me, "aee.validate.payload", payload).await
    };
    assert_eq!(validate(Some("result"), json!({ "n/m": 1 })).await, json!({ "valid": true, "errors": [] }));
    let wrong = validate(Some("result"), json!({ "n/m": "x" })).await;
    assert_eq!((&wrong["valid"], &wrong["errors"][0]["path"]), (&json!(false), &json!("/n~1m")));
    // The message type defaults to `task`, and no task schema exists.
    let none = validate(None, json!({})).await;
    assert_eq!((&none["valid"], &none["errors"][0]["type"]), (&json!(false), &json!("no_schema")));
    world.end().await;
}

#[tokio::test]
async fn the_claim_names_its_tests() {
    let world = World::start().await;
    let claim = world.agent("agent.a").await.get("/aee/conformance").await.ok();
    assert_eq!((&claim["aee_version"], &claim["level"]), (&json!("1"), &json!("MVE-Required")));
    let clauses = claim["clauses"].as_array().unwrap();
    assert!(clauses.len() >= 10, "{claim}");
    let named: Vec<&Value> = clauses.iter().flat_map(|clause| clause["tests"].as_array().unwrap()).collect();
    // `house_rules.rs` checks that each of them exists, because the claim is the section of CONFORMANCE.md.
    assert!(named.iter().any(|test| **test == "answers::the_claim_names_its_tests"), "{claim}");
    assert!(clauses.iter().all(|clause| clause["status"].as_str().is_some_and(|status| !status.is_empty())));
    world.end().await;
}

#[tokio::test]
async fn the_server_answers_through_the_door_and_rules_hold_there() {
    let (world, ada, bob) = two().await;
    let admin = world.admin().await;
    let ask = |id: &str, from: &str, intent: &str, payload: Value| {
        with(task_envelope(&world, id, (from, SERVER)), json!({ "intent": intent, "payload": payload }))
    };
    let pong = ada
        .post("/aee/envelopes", ask("envelope-1", "agent.ada", "aee.status.ping", json!({})))
        .await
        .is(200);
    assert!(pong.to_string().contains(r#""pong":true"#), "{pong}");
    // The server's own envelopes carry the trace of the request (AEE §6.9).
    let traced = ada.with("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let ping = ask("envelope-p", "agent.ada", "aee.status.ping", json!({}));
    let pong = traced.post("/aee/envelopes", ping).await.is(200);
    assert_eq!(pong["reply"]["trace"]["trace_id"], "0af7651916cd43dd8448eb211c80319c", "{pong}");
    // The sender is notified of a refutation once: a retry is a duplicate and notifies nobody.
    ada.post("/aee/envelopes", task_envelope(&world, "envelope-2", ("agent.ada", "agent.bob"))).await.is(202);
    let refute = json!({ "id": "envelope-2", "reason": "it is not so" });
    let refute = ask("envelope-3", "agent.bob", "aee.context.refute", refute);
    let refuted = bob.post("/aee/envelopes", refute.clone()).await.is(200);
    assert!(refuted.to_string().contains(r#""acknowledged":true"#), "{refuted}");
    bob.post("/aee/envelopes", refute).await.refused(409, "duplicate_id");
    let heard = mail(&ada, "agent.ada").await;
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!((&heard[0].1["intent"], &heard[0].1["payload"]["by"]), (&json!(REFUTED), &json!("agent.bob")));
    // Rules and schemas take effect as soon as they are set.
    let send = async |id: &str| {
        ada.post(
            "/aee/envelopes",
            with(task_envelope(&world, id, ("agent.ada", "agent.bob")), json!({ "priority": "urgent" })),
        )
        .await
    };
    let schema = "/aee/schemas/intents/ops.backup.check.task.schema.json";
    admin.put(schema, json!({ "required": ["cluster"] })).await.ok();
    assert_eq!(
        send("envelope-4").await.is(202)["warnings"],
        json!(["id_not_ulid_or_uuid", "payload_invalid"])
    );
    admin.put(&format!("{schema}?policy=enforce"), json!({ "required": ["cluster"] })).await.ok();
    send("envelope-5").await.refused(422, "payload_invalid");
    admin.delete(schema).await.is(204);
    admin.put("/aee/rules/calm", json!({ "max_priority": "normal" })).await.ok();
    let calm = send("envelope-6").await.is(202);
    assert_eq!(calm["effective_priority"], "normal");
    assert_eq!(calm["warnings"], json!(["id_not_ulid_or_uuid", "priority_lowered"]));
    admin.put("/aee/rules/none", json!({ "to": "agent.bob", "deny": ["ops.**"] })).await.ok();
    send("envelope-7").await.refused(403, "intent_not_allowed");
    world.end().await;
}

#[tokio::test]
async fn what_is_fetched_is_told_within_the_limits_and_not_kept_twice() {
    let (world, ada, bob) = two().await;
    let mut deep = json!(1);
    for _ in 0..61 {
        deep = json!([deep]);
    }
    let large = json!("x".repeat(262_144 - 400));
    for (id, said, whole) in [
        ("envelope-small", json!("a word"), true),
        ("envelope-large", large, false),
        ("envelope-deep", deep, false),
    ] {
        let task = with(
            task_envelope(&world, id, ("agent.ada", "agent.bob")),
            json!({ "payload": { "said": said } }),
        );
        ada.post("/aee/envelopes", task.clone()).await.is(202);
        let ask = json!({ "intent": "aee.context.fetch", "payload": { "id": id } });
        let ask = with(task_envelope(&world, &format!("fetch-{id}"), ("agent.bob", SERVER)), ask);
        let reply = bob.post("/aee/envelopes", ask).await.is(200)["reply"].clone();
        envelopes::read(reply.to_string().as_bytes()).unwrap();
        let told = &reply["payload"];
        assert_eq!(
            (&told["found"], &told["hash"]),
            (&json!(true), &json!(envelopes::hash(task.as_object().unwrap())))
        );
        assert_eq!((told["envelope"] == task, told["omitted"].is_null()), (whole, whole), "{id}");
        let again = format!("/aee/envelopes/{}", reply["id"].as_str().unwrap());
        bob.get(&again).await.refused(404, "not_found");
    }
    world.end().await;
}
