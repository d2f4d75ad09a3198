//! The redacted copy that is delivered when a rule removes something from an envelope, and the reply to it (AEE
//! §11.5).

use entente_domain::identity::principals::PrincipalKind;
use entente_kernel::identity::seeds;

use entente_harness::envelopes::trap;
use entente_harness::envelopes::{answer, mail, task_envelope, two, with};
use entente_harness::{Client, Value, World, json};

/// Starts a server with two agents and a redaction rule between them.
async fn apart(more: Value) -> (World, Client, Client, Client) {
    let (world, ada, bob) = two().await;
    let admin = world.admin().await;
    let rule = with(json!({ "from": "agent.ada", "redact": ["/customer/email"] }), more);
    let set = admin.put("/aee/rules/private", rule).await;
    assert!([200, 201].contains(&set.status), "{set:?}");
    (world, ada, bob, admin)
}

fn secret(world: &World, id: &str, to: &str) -> Value {
    let payload = json!({ "customer": { "email": "dan@secret.example", "n": 1 } });
    with(task_envelope(world, id, ("agent.ada", to)), json!({ "payload": payload }))
}

/// Returns the only envelope in a mailbox.
async fn only(client: &Client, entity: &str) -> Value {
    let all = mail(client, entity).await;
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].1.clone()
}

#[tokio::test]
async fn something_else_is_handed_on_and_its_answer_comes_back() {
    let (world, ada, bob, _admin) = apart(json!({})).await;
    let task = with(
        secret(&world, "envelope-1", "agent.bob"),
        json!({ "trace": { "trace_id": "9f3c", "span_id": "a1" } }),
    );
    let receipt = ada.post("/aee/envelopes", task.clone()).await.is(202);
    assert_eq!((&receipt["status"], &receipt["reply"]), (&json!("redacted"), &Value::Null));
    let page = bob.get("/aee/mailboxes/agent.bob").await.ok();
    assert!(!page.to_string().contains("dan@secret.example"), "{page}");
    let item = &page["items"][0];
    assert_eq!((&item["original_id"], &item["verified"]["by"]), (&json!("envelope-1"), &json!("gateway")));
    let made = only(&bob, "agent.bob").await;
    let reference = json!({ "id": "envelope-1", "type": "aee.envelope", "corr": task["corr"] });
    assert_eq!(made["payload"], json!({ "customer": { "n": 1 }, "references": [reference] }));
    assert_eq!((&made["from"], &made["to"]), (&json!("service.entente"), &json!("agent.bob")));
    for member in ["type", "intent", "corr", "priority", "trace", "reply_to"] {
        assert_eq!(made[member], task[member], "{member}");
    }
    // Only its sender may read the original.
    bob.get("/aee/envelopes/envelope-1").await.refused(404, "not_found");
    assert_eq!(ada.get("/aee/envelopes/envelope-1").await.ok()["envelope"], task);
    let seen = bob.get("/aee/threads/thread-00000001").await.ok();
    assert_eq!(seen["envelopes"].as_array().unwrap().len(), 1);
    let fetch = json!({ "intent": "aee.context.fetch", "payload": { "id": "envelope-1" } });
    let fetch = with(task_envelope(&world, "envelope-f", ("agent.bob", "service.entente")), fetch);
    let fetched = bob.post("/aee/envelopes", fetch).await.is(200);
    assert_eq!(fetched["reply"]["payload"]["found"], false, "{fetched}");
    // A retry has no effect.
    ada.post("/aee/envelopes", task.clone()).await.refused(409, "duplicate_id");
    only(&bob, "agent.bob").await;
    // Progress and results reach the original sender as replies to the original task.
    let stream = with(answer(&world, "envelope-s", &made, "stream"), json!({ "payload": { "done": 0.5 } }));
    bob.post("/aee/envelopes", stream).await.is(202);
    let result = with(answer(&world, "envelope-r", &made, "result"), json!({ "payload": { "sum": 7 } }));
    assert_eq!(bob.post("/aee/envelopes", result.clone()).await.is(202)["reply"], Value::Null);
    let told = mail(&ada, "agent.ada").await;
    assert_eq!(told.len(), 2, "{told:?}");
    for ((_, one), (kind, from)) in told.iter().zip([("stream", "envelope-s"), ("result", "envelope-r")]) {
        assert_eq!((&one["type"], &one["from"]), (&json!(kind), &json!("service.entente")));
        assert_eq!((&one["reply_to"], &one["corr"]), (&json!("envelope-1"), &task["corr"]));
        assert_eq!(one["payload"]["references"][0]["id"], *from);
    }
    assert_eq!(told[1].1["payload"]["sum"], 7);
    let late = with(result, json!({ "id": "envelope-r2" }));
    bob.post("/aee/envelopes", late).await.refused(409, "task_closed");
    let thread = ada.get("/aee/threads/thread-00000001").await.ok();
    let mut leaves = thread["envelopes"].as_array().unwrap().iter();
    let leaf = leaves.find(|leaf| leaf["envelope"]["id"] == "envelope-1").unwrap();
    assert_eq!(leaf["pairs"], json!([{ "respondent": "agent.bob", "status": "closed" }]));
    assert_eq!(mail(&ada, "agent.ada").await.len(), 2);
    world.end().await;
}

#[tokio::test]
async fn the_answer_goes_by_the_rules_of_its_own_link() {
    let (world, ada, bob, admin) = apart(json!({})).await;
    ada.post("/aee/envelopes", secret(&world, "envelope-1", "agent.bob")).await.is(202);
    let made = only(&bob, "agent.bob").await;
    let back = json!({ "from": "agent.bob", "to": "agent.ada", "deny": ["ops.**"] });
    admin.put("/aee/rules/back", back).await.ok();
    let result =
        with(answer(&world, "envelope-r", &made, "result"), json!({ "payload": { "pin": 1, "sum": 7 } }));
    bob.post("/aee/envelopes", result.clone()).await.refused(403, "intent_not_allowed");
    let back = json!({ "from": "agent.bob", "to": "agent.ada", "redact": ["/pin"] });
    admin.put("/aee/rules/back", back).await.ok();
    bob.post("/aee/envelopes", result).await.is(202);
    let told = only(&ada, "agent.ada").await;
    assert_eq!((&told["payload"]["sum"], &told["payload"]["pin"]), (&json!(7), &Value::Null));
    ada.get("/aee/envelopes/envelope-r").await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test]
async fn what_is_handed_on_is_taken_in_with_the_original_or_not_at_all() {
    let (world, ada, bob, _admin) = apart(json!({})).await;
    trap(&world).await;
    // The batch fails and is then processed one by one.
    let poison = secret(&world, "envelope-poison", "agent.bob");
    let batch =
        json!([secret(&world, "envelope-1", "agent.bob"), poison, secret(&world, "envelope-2", "agent.bob")]);
    let reply = ada.post("/aee/envelopes/batch", batch).await.is(207);
    assert_eq!((&reply["accepted"], reply["results"].as_array().unwrap().len()), (&json!(2), 3));
    assert_eq!(reply["results"][2]["accepted"]["id"], "envelope-2");
    let page = bob.get("/aee/mailboxes/agent.bob").await.ok();
    let originals: Vec<&Value> =
        page["items"].as_array().unwrap().iter().map(|item| &item["original_id"]).collect();
    assert_eq!(originals, ["envelope-1", "envelope-2"]);
    world.end().await;
}

#[tokio::test]
async fn the_same_twice_in_one_batch_is_handed_on_once() {
    let (world, ada, bob, _admin) = apart(json!({})).await;
    let others = (0..3).map(|n| secret(&world, &format!("envelope-{n}"), "agent.bob"));
    let twice = (0..3).map(|_| secret(&world, "envelope-twice", "agent.bob"));
    let batch: Vec<Value> = others.chain(twice).collect();
    let reply = ada.post("/aee/envelopes/batch", json!(batch)).await.is(207);
    assert_eq!((&reply["accepted"], &reply["refused"]), (&json!(4), &json!(2)));
    assert_eq!(mail(&bob, "agent.bob").await.len(), 4);
    world.end().await;
}

#[tokio::test]
async fn who_was_not_asked_reaches_nobody_through_the_gateway() {
    let (world, ada, bob, _admin) = apart(json!({})).await;
    ada.post("/aee/envelopes", secret(&world, "envelope-1", "agent.bob")).await.is(202);
    let made = only(&bob, "agent.bob").await;
    let eve = world.agent("agent.eve").await;
    for (id, kind) in [("envelope-e1", "stream"), ("envelope-e2", "result"), ("envelope-e3", "event")] {
        let forged = with(answer(&world, id, &made, kind), json!({ "from": "agent.eve" }));
        let status = eve.post("/aee/envelopes", forged).await.status;
        assert!(status == 202 || status == 422, "{kind}: {status}");
    }
    assert_eq!(mail(&ada, "agent.ada").await, []);
    world.end().await;
}

#[tokio::test]
async fn a_task_that_was_handed_on_runs_out_once() {
    let (world, ada, bob, _admin) = apart(json!({})).await;
    let hasty = json!({ "requires": { "timeout_ms": 30_000 } });
    ada.post("/aee/envelopes", with(secret(&world, "envelope-1", "agent.bob"), hasty)).await.is(202);
    let made = only(&bob, "agent.bob").await;
    world.clock.advance(30);
    bob.post("/aee/envelopes", answer(&world, "envelope-r", &made, "result"))
        .await
        .refused(409, "task_closed");
    world.sweep().await;
    let told = only(&ada, "agent.ada").await;
    assert_eq!((&told["payload"]["code"], &told["reply_to"]), (&json!("E_TIMEOUT"), &json!("envelope-1")));
    world.end().await;
}

#[tokio::test]
async fn a_channel_gets_something_else_too_and_each_answers_for_itself() {
    let (world, ada, bob, _admin) = apart(json!({ "to": "bus.ops" })).await;
    let eve = world.agent("agent.eve").await;
    for (client, who) in [(&ada, "agent.ada"), (&bob, "agent.bob"), (&eve, "agent.eve")] {
        client.put(&format!("/aee/buses/bus.ops/subscriptions/{who}"), json!({})).await.ok();
    }
    ada.post("/aee/envelopes", secret(&world, "envelope-1", "bus.ops")).await.is(202);
    assert_eq!(mail(&ada, "agent.ada").await, [], "not to who sent it");
    for (n, (client, who)) in [(&bob, "agent.bob"), (&eve, "agent.eve")].into_iter().enumerate() {
        let made = only(client, who).await;
        assert_eq!((&made["to"], &made["payload"]["customer"]), (&json!("bus.ops"), &json!({ "n": 1 })));
        let id = format!("envelope-r{n}");
        let result = with(answer(&world, &id, &made, "result"), json!({ "from": who }));
        client.post("/aee/envelopes", result).await.is(202);
    }
    assert_eq!(mail(&ada, "agent.ada").await.len(), 2);
    // This rule does not apply to envelopes sent directly to an agent.
    let plain = secret(&world, "envelope-2", "agent.bob");
    assert_eq!(ada.post("/aee/envelopes", plain).await.is(202)["status"], "accepted");
    world.end().await;
}

#[tokio::test]
async fn what_a_person_agrees_to_is_handed_on_by_the_rules() {
    let (world, ada, bob, _admin) = apart(json!({})).await;
    seeds::seed(world.ctx(), PrincipalKind::Human, "human.eve", "key-of-eve").await.unwrap();
    let eve = world.client("key-of-eve");
    let task =
        with(secret(&world, "envelope-1", "agent.bob"), json!({ "requires": { "human_approval": true } }));
    assert_eq!(ada.post("/aee/envelopes", task).await.is(202)["status"], "held");
    assert_eq!(mail(&bob, "agent.bob").await, []);
    eve.post("/aee/approvals/envelope-1", json!({ "decision": "approve" })).await.ok();
    let made = only(&bob, "agent.bob").await;
    assert_eq!(
        (&made["from"], &made["payload"]["customer"]),
        (&json!("service.entente"), &json!({ "n": 1 }))
    );
    bob.get("/aee/envelopes/envelope-1").await.refused(404, "not_found");
    bob.post("/aee/envelopes", answer(&world, "envelope-r", &made, "result")).await.is(202);
    assert_eq!(only(&ada, "agent.ada").await["reply_to"], "envelope-1");
    world.end().await;
}

#[tokio::test]
async fn a_task_that_was_answered_past_the_gateway_has_one_end() {
    let (world, ada, bob, _admin) = apart(json!({})).await;
    let task = secret(&world, "envelope-1", "agent.bob");
    ada.post("/aee/envelopes", task.clone()).await.is(202);
    let made = only(&bob, "agent.bob").await;
    // The reference in the redacted copy names the original, so the first reply goes directly to that.
    bob.post("/aee/envelopes", answer(&world, "envelope-r1", &task, "result")).await.is(202);
    let second = answer(&world, "envelope-r2", &made, "result");
    bob.post("/aee/envelopes", second).await.refused(409, "task_closed");
    assert_eq!(only(&ada, "agent.ada").await["id"], "envelope-r1");
    ada.get("/aee/envelopes/envelope-r2").await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test]
async fn what_would_be_too_large_to_be_handed_on_is_refused() {
    let (world, ada, bob, _admin) = apart(json!({})).await;
    let long = |size: usize| {
        let payload = json!({ "customer": { "email": "x" }, "said": "x".repeat(size) });
        with(secret(&world, "envelope-1", "agent.bob"), json!({ "payload": payload }))
    };
    let most = 256 * 1024 - long(0).to_string().len();
    let refused = ada.post("/aee/envelopes", long(most)).await.refused(413, "too_large");
    assert!(refused["detail"].as_str().unwrap().contains("hands this on"), "{refused}");
    assert_eq!(mail(&bob, "agent.bob").await, []);
    world.end().await;
}
