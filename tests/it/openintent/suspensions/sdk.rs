//! The way of the unmodified SDK (RFC-0025 §5): first the status, then the record in the state, then polling the
//! state. `tests/clients/test_suspensions.py` runs the SDK's own agents.

use super::{goal, now, respond, types, waiting};
use entente_harness::moments::{answer, at, dialogue, option};
use entente_harness::{Client, Reply, Value, World, json};

#[expect(clippy::needless_pass_by_value, reason = "it is read better where it is called")]
fn record(id: &str, more: Value) -> Value {
    let mut record = json!({
        "id": id, "question": "Deploy?", "response_type": "confirm", "context": { "principal_id": "human.ada" },
        "fallback_policy": "fail", "choices": [{ "value": "yes", "label": "Yes", "style": "primary" }, { "value": "no", "label": "No" }],
        "suspended_at": "2026-11-21T08:00:00.123456", "timeout_seconds": 600,
    });
    record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    record
}

/// Sets the intent's status, as the SDK does first; returns the new version.
async fn status(client: &Client, intent: &str, status: &str) -> Value {
    let version = client.get(&format!("/intents/{intent}")).await.ok()["version"].clone();
    let path = format!("/intents/{intent}/status");
    client.seen(&version).post(&path, json!({ "status": status })).await.is(200)["version"].clone()
}

async fn put(client: &Client, intent: &str, version: &Value, value: Value) -> Reply {
    let patches = json!({ "patches": [{ "op": "set", "path": "_suspension", "value": value }] });
    client.seen(version).post(&format!("/intents/{intent}/state"), patches).await
}

async fn ask(client: &Client, intent: &str, id: &str, more: Value) -> Value {
    let version = status(client, intent, "suspended_awaiting_input").await;
    put(client, intent, &version, record(id, more)).await.is(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_in_the_state_is_a_question_in_the_inbox() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let intent = goal(&agent).await;
    ask(&agent, &intent, "one", json!({})).await;
    let moment = waiting(&ada).await;
    assert_eq!(moment["binding_moment"]["question"]["stem"], "Deploy?");
    assert_eq!(moment["expires_at"], "2026-11-21T08:10:00.000000Z");
    ada.post(&format!("{}/resolution", at(&moment)), answer(&moment, option(0))).await.is(200);
    let (status, found) = now(&agent, &intent).await;
    assert_eq!((status.as_str(), &found["response"]), ("active", &json!("yes")));
    assert_eq!(types(&agent, &intent, "intent.").await, ["intent.suspended", "intent.resumed"]);
    // In the merge form as well.
    let version =
        crate::openintent::suspensions::sdk::status(&agent, &intent, "suspended_awaiting_input").await;
    let merge = json!({ "state": { "_suspension": record("two", json!({ "question": "Again?" })) } });
    agent.seen(&version).post(&format!("/intents/{intent}/state"), merge).await.is(200);
    assert_eq!(waiting(&ada).await["binding_moment"]["question"]["stem"], "Again?");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_writes_an_answer_but_the_server() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let intent = goal(&agent).await;
    // A record requires a suspended intent.
    let early = put(&agent, &intent, &json!(1), record("one", json!({}))).await;
    early.refused(409, "invalid_transition");
    let asked = ask(&agent, &intent, "one", json!({})).await;
    let path = format!("/intents/{intent}/state");
    let forged =
        record("one", json!({ "resolution": "responded", "response": "yes", "responded_by": "human.ada" }));
    put(&agent, &intent, &asked["version"], forged).await.refused(409, "invalid_transition");
    for patches in [
        json!([{ "op": "set", "path": "_suspension/resolution", "value": "responded" }]),
        json!([{ "op": "set", "path": "/_suspension/question", "value": "Something else?" }]),
        json!([{ "op": "remove", "path": "_suspension" }]),
    ] {
        agent
            .seen(&asked["version"])
            .post(&path, json!({ "patches": patches }))
            .await
            .refused(409, "invalid_transition");
    }
    put(&agent, &intent, &asked["version"], record("two", json!({})))
        .await
        .refused(409, "invalid_transition");
    // Other parts of the state can be changed.
    let other = json!({ "patches": [{ "op": "set", "path": "progress", "value": 1 }] });
    agent.seen(&asked["version"]).post(&path, other).await.is(200);
    respond(&ada, &intent, &json!({ "id": "one" }), json!("no")).await.is(200);
    // An ended record cannot be changed, but it may be removed.
    let version = agent.get(&format!("/intents/{intent}")).await.ok()["version"].clone();
    let patches = json!([{ "op": "set", "path": "_suspension/response", "value": "yes" }]);
    agent.seen(&version).post(&path, json!({ "patches": patches })).await.refused(409, "invalid_transition");
    let gone = json!({ "patches": [{ "op": "remove", "path": "_suspension" }] });
    agent.seen(&version).post(&path, gone).await.is(200);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_refused_is_called_off_at_once() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let intent = goal(&agent).await;
    ask(&agent, &intent, "one", json!({})).await;
    let moment = waiting(&ada).await;
    ada.post(&format!("{}/resolution", at(&moment)), answer(&moment, dialogue("Not mine to say.")))
        .await
        .is(200);
    assert_eq!(now(&agent, &intent).await.1["cancelled_because"], "refused");
    // The SDK learns that there will be no answer, instead of an error in the middle.
    let after = ask(&agent, &intent, "two", json!({})).await;
    assert_eq!(
        (&after["status"], &after["state"]["_suspension"]["resolution"]),
        (&json!("active"), &json!("cancelled"))
    );
    assert_eq!(now(&agent, &intent).await.1["cancelled_because"], "refused_before");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_fits_nobody_waits_for_a_person() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let intent = goal(&agent).await;
    // Too long to be shown to a person, but the SDK's way returns no error.
    ask(&agent, &intent, "long", json!({ "question": "x".repeat(3_000) })).await;
    let list = agent.get(&format!("/intents/{intent}/suspensions")).await.ok();
    assert_eq!(list["suspensions"][0]["unasked"], "invalid_moment");
    let long = json!({ "id": "long" });
    respond(&world.any(), &intent, &long, json!("yes")).await.refused(403, "not_the_principal");
    respond(&ada, &intent, &long, json!("yes")).await.is(200);
    assert_eq!(now(&agent, &intent).await.0, "active");
    // A hint that names no person is ignored.
    ask(&agent, &intent, "slack", json!({ "context": {}, "channel_hint": "slack" })).await;
    let list = agent.get(&format!("/intents/{intent}/suspensions")).await.ok();
    assert_eq!(list["suspensions"][0]["unasked"], "nobody_to_ask");
    assert_eq!(list["suspensions"][1]["id"], "long");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ladder_is_a_second_person() {
    let world = World::start().await;
    let (agent, eve) = (world.agent("agent.a").await, world.human("human.eve").await);
    world.human("human.ada").await;
    let intent = goal(&agent).await;
    let policy = json!({
        "max_attempts": 3, "interval_seconds": 100, "strategy": "fixed", "final_fallback_policy": "use_default_and_continue",
        "escalation_ladder": [{ "attempt": 2, "channel_hint": "pager", "notify_to": "human.eve" }],
    });
    ask(&agent, &intent, "one", json!({ "retry_policy": policy, "fallback_value": "no" })).await;
    world.pass(100).await;
    assert_eq!(waiting(&eve).await["binding_moment"]["question"]["stem"], "Deploy?");
    world.pass(200).await;
    let (status, found) = now(&agent, &intent).await;
    assert_eq!(
        (status.as_str(), &found["resolution"], &found["response"]),
        ("active", &json!("expired"), &json!("no"))
    );
    world.end().await;
}
