//! Limits between servers, and the exceptions: the end of an intent is always reported, and an intent's sharing
//! limits hold as long as it exists.

use super::{Two, did, events, signed, types, url};
use entente_harness::{Reply, Value, json};

/// Delivers an intent to `b` as `a` would, without requesting callbacks.
async fn deliver(two: &Two, id: &str, more: Value) -> Reply {
    let mut body = json!({
        "dispatch_id": id, "source_server": url(two.ports.0), "target_server": url(two.ports.1), "intent_id": "i-1",
        "intent_title": "Translate",
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    two.b.anon().send("POST", "/federation/receive", Some(signed(&body, "created_at", 1, &two.b))).await
}

/// Returns the id of the only intent of `b`.
async fn copy(two: &Two) -> String {
    two.bob.get("/intents").await.ok()["intents"][0]["id"].as_str().unwrap().to_owned()
}

async fn set(two: &Two, remote: &str, version: u64, name: &str) {
    let patch = json!({ "patches": [{ "op": "set", "path": name, "value": version }] });
    two.bob.seen(&json!(version)).post(&format!("/intents/{remote}/state"), patch).await.ok();
}

async fn end(two: &Two, remote: &str, version: u64) {
    let path = format!("/intents/{remote}/status");
    two.bob.seen(&json!(version)).post(&path, json!({ "status": "completed" })).await.ok();
}

async fn sql(world: &entente_harness::World, text: &'static str) {
    sqlx::raw_sql(text).execute(&world.ctx().pool).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_while_a_letter_waits_becomes_one_letter() {
    let two = Two::start().await;
    let intent = two.intent().await;
    two.dispatch(&intent, json!({})).await;
    two.carry().await;
    let remote = copy(&two).await;
    // Nothing is sent while the work continues.
    for (version, name) in [(1, "a"), (2, "b"), (3, "c")] {
        set(&two, &remote, version, name).await;
        two.b.sweep().await;
    }
    two.carry().await;
    two.carry().await;
    let log = events(&two.ada, &intent["id"]).await;
    let told: Vec<&Value> = log
        .iter()
        .map(|event| &event["payload"]["state_delta"])
        .filter(|delta| delta.as_object().is_some_and(|delta| !delta.is_empty()))
        .collect();
    assert_eq!(told, [&json!({ "a": 1 }), &json!({ "b": 2, "c": 3 })]);
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_is_told_and_heard_after_everything_else() {
    let two = Two::start().await;
    let intent = two.intent().await;
    let sent = two.dispatch(&intent, json!({})).await;
    two.carry().await;
    let remote = copy(&two).await;
    sql(&two.a, "UPDATE federation_dispatches SET callbacks = 10000").await;
    // Callbacks above the limit are neither sent by `b` nor accepted by `a`.
    let tell = async |word: &str, key: &str| {
        let body = json!({ "dispatch_id": sent["dispatch_id"], "event_type": word, "idempotency_key": key });
        let text = signed(&body, "timestamp", 2, &two.a);
        two.a.anon().send("POST", "/federation/callbacks", Some(text)).await
    };
    tell("state_delta", "k1").await.refused(413, "too_large");
    sql(&two.b, "UPDATE federation_deliveries SET callbacks = 10000").await;
    set(&two, &remote, 1, "a").await;
    two.carry().await;
    let house = two.b.admin().await.get("/audit?event_type=federation.undelivered").await.ok();
    assert_eq!(house, json!([]), "nothing was sent that is not heard");
    end(&two, &remote, 2).await;
    two.carry().await;
    assert_eq!(types(&two.ada, &intent["id"]).await.last().unwrap(), "federation.completed");
    tell("failed", "k2").await.refused(413, "too_large");
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_wants_to_hear_of_is_open_until_it_ends() {
    let two = Two::start().await;
    let fill = "INSERT INTO federation_deliveries (peer, dispatch_id, fingerprint, message, reported_seq, callbacks, created_at,
                    told_at, ended_at)
                SELECT d.peer, 'filler-' || n, d.fingerprint, '', 0, 0, d.created_at, d.told_at,
                    CASE WHEN n % 2 = 0 THEN d.created_at END
                FROM federation_deliveries d, generate_series(1, 9999) AS n";
    deliver(&two, "d-1", json!({})).await.is(200);
    // Half of them are open, the others have just been rejected.
    sql(&two.b, fill).await;
    deliver(&two, "d-2", json!({})).await.refused(429, "rate_limited");
    end(&two, &copy(&two).await, 1).await;
    two.b.sweep().await;
    deliver(&two, "d-2", json!({})).await.is(200);
    deliver(&two, "d-3", json!({})).await.refused(429, "rate_limited");
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_intent_came_with_holds_as_long_as_the_intent() {
    let two = Two::start().await;
    let scope = json!({ "delegation_scope": { "max_delegation_depth": 0 } });
    deliver(&two, "d-1", scope).await.is(200);
    let remote = copy(&two).await;
    let ask = json!({ "intent_id": remote, "target_server": did(two.ports.0) });
    let passed = async || {
        let refused = two.bob.post("/federation/dispatch", ask.clone()).await.refused(403, "forbidden");
        assert!(refused["message"].as_str().unwrap().contains("passed on"));
    };
    two.b.pass(200 * 86_400).await;
    passed().await;
    // Nor when it is reopened after its end.
    end(&two, &remote, 1).await;
    two.b.pass(40 * 86_400).await;
    two.b.pass(40 * 86_400).await;
    let path = format!("/intents/{remote}/status");
    two.bob.seen(&json!(2)).post(&path, json!({ "status": "active" })).await.ok();
    passed().await;
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_busy_for_a_long_time_is_still_told_of() {
    let two = Two::start().await;
    let intent = two.intent().await;
    two.dispatch(&intent, json!({})).await;
    two.carry().await;
    let remote = copy(&two).await;
    for version in 1..4 {
        for world in [&two.a, &two.b] {
            world.pass(50 * 86_400).await;
        }
        set(&two, &remote, version, "a").await;
        two.carry().await;
    }
    end(&two, &remote, 4).await;
    two.carry().await;
    assert_eq!(types(&two.ada, &intent["id"]).await.last().unwrap(), "federation.completed");
    two.end().await;
}
