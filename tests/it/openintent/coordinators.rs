//! Coordinators (RFC-0013): appointment, heartbeats, replacement, decisions and guardrails.

use entente_harness::{Client, Setup, Value, World, ids, json, talk};

async fn goal(client: &Client) -> String {
    talk(client, json!({})).await.0
}

#[expect(clippy::needless_pass_by_value, reason = "it is read better where it is called")]
fn of(intent: &str, agent: &str, more: Value) -> Value {
    let mut body = json!({ "intent_id": intent, "agent_id": agent });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn appoint(client: &Client, intent: &str, agent: &str, more: Value) -> Value {
    client.post("/coordinators", of(intent, agent, more)).await.is(200)
}

fn at(made: &Value) -> String {
    format!("/coordinators/{}", made["id"].as_str().unwrap())
}

async fn beat(client: &Client, made: &Value) -> entente_harness::Reply {
    client.send("POST", &format!("{}/heartbeat", at(made)), None).await
}

fn decision(made: &Value, kind: &str) -> Value {
    json!({
        "coordinator_id": made["id"], "intent_id": made["intent_id"], "decision_type": kind, "summary": "Four tasks.",
        "rationale": "Two can go on at once.", "alternatives_considered": [{ "description": "one task" }],
        "confidence": 0.85,
    })
}

/// Returns the types of an intent's events about coordinators and assignments, oldest first.
async fn told(client: &Client, intent: &str) -> Vec<String> {
    let events = client.get(&format!("/intents/{intent}/events")).await.ok();
    let types =
        events.as_array().unwrap().iter().rev().map(|one| one["event_type"].as_str().unwrap().to_owned());
    types.filter(|one| one.starts_with("coordinator.") || one.contains("assigned")).collect()
}

async fn roles(client: &Client, intent: &str) -> Vec<(String, String)> {
    let list = client.get(&format!("/intents/{intent}/agents")).await.ok();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(|one| (text(&one["agent_id"]), text(&one["role"]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_appointment_is_what_the_contract_says() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    let rails = json!({ "max_budget_usd": 50.0, "on_exceed": "pause" });
    let asked = json!({ "guardrails": rails, "metadata": { "k": 1 }, "supervisor_id": "human.eve" });
    let made = appoint(&ada, &intent, "agent.bob", asked).await;
    let expected = json!({
        "id": made["id"], "intent_id": intent, "portfolio_id": null, "agent_id": "agent.bob", "role": "coordinator",
        "supervisor_id": "human.eve", "appointed_by": "agent.ada", "coordinator_type": "llm", "scope": "intent",
        "status": "active", "guardrails": rails, "heartbeat_interval_seconds": 60, "last_heartbeat": null,
        "granted_at": "2026-11-21T08:00:00.000000Z", "expires_at": "2026-11-21T08:05:00.000000Z", "ended_at": null,
        "version": 1, "metadata": { "k": 1 }, "lease_metadata": { "k": 1 },
    });
    assert_eq!(made, expected);
    assert_eq!(bob.get(&at(&made)).await.is(200), made);
    assert_eq!(bob.get(&format!("/intents/{intent}/coordinators")).await.is(200), json!([made]));
    // It has the coordinator role for channels and tasks.
    assert_eq!(roles(&ada, &intent).await, [("agent.bob".to_owned(), "coordinator".to_owned())]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_admins_appoint_and_one_holds_a_role() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    // On an open intent everyone may do everything except appoint coordinators.
    bob.post("/coordinators", of(&intent, "agent.bob", json!({}))).await.refused(403, "forbidden");
    let made = appoint(&ada, &intent, "agent.bob", json!({})).await;
    let again = of(&intent, "agent.eve", json!({}));
    ada.post("/coordinators", again.clone()).await.refused(409, "already_exists");
    let twice = of(&intent, "agent.bob", json!({ "role": "reviewer" }));
    ada.post("/coordinators", twice).await.refused(409, "already_exists");
    let other = appoint(&ada, &intent, "agent.eve", json!({ "role": "reviewer" })).await;
    let wrong = of(&intent, "agent.eve", json!({ "replaces": other["id"] }));
    ada.post("/coordinators", wrong).await.refused(422, "unprocessable");
    for (bad, code) in [
        (json!({ "heartbeat_interval_seconds": 0, "role": "x" }), "invalid_request"),
        (json!({ "guardrails": { "on_exceed": "explode" }, "role": "x" }), "invalid_request"),
        (json!({ "scope": "portfolio" }), "unprocessable"),
        (json!({ "expires_at": "2020-01-01T00:00:00Z", "role": "x" }), "already_expired"),
    ] {
        ada.post("/coordinators", of(&intent, "agent.zoe", bad)).await.refused(422, code);
    }
    // A retry returns the same appointment.
    let named =
        ada.once("one").post("/coordinators", of(&intent, "agent.zoe", json!({ "role": "x" }))).await.is(200);
    let retry =
        ada.once("one").post("/coordinators", of(&intent, "agent.zoe", json!({ "role": "x" }))).await.is(200);
    assert_eq!(named, retry);
    assert_eq!(ada.get(&at(&made)).await.ok()["status"], "active");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_keep_it_and_silence_ends_it() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    let made = appoint(&ada, &intent, "agent.bob", json!({})).await;
    beat(&ada, &made).await.refused(403, "forbidden");
    for _ in 0..5 {
        world.pass(60).await;
        let heard = beat(&bob, &made).await.is(200);
        assert_eq!((&heard["status"], &heard["coordinator_status"]), (&json!("ok"), &json!("active")));
    }
    // Five heartbeats, one of which is logged.
    assert_eq!(told(&ada, &intent).await, ["agent_assigned", "coordinator.heartbeat"]);
    // Silent: the status is in effect at once, before a sweep records it.
    world.clock.advance(120);
    assert_eq!(bob.get(&at(&made)).await.ok()["status"], "unresponsive");
    world.sweep().await;
    assert_eq!(beat(&bob, &made).await.ok()["coordinator_status"], "active");
    world.clock.advance(300);
    assert_eq!(bob.get(&at(&made)).await.ok()["status"], "failed_over");
    beat(&bob, &made).await.refused(409, "invalid_transition");
    world.sweep().await;
    world.sweep().await;
    assert_eq!(
        told(&ada, &intent).await[2..],
        [
            "coordinator.unresponsive",
            "coordinator.resumed",
            "coordinator.unresponsive",
            "coordinator.failed_over",
            "agent_unassigned"
        ]
    );
    assert!(roles(&ada, &intent).await.is_empty());
    // Its role is available again.
    appoint(&ada, &intent, "agent.eve", json!({})).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_one_is_replaced_and_one_that_is_heard_of_only_by_name() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    ada.post(&format!("/intents/{intent}/agents"), json!({ "agent_id": "agent.bob", "role": "worker" }))
        .await
        .ok();
    let first = appoint(&ada, &intent, "agent.bob", json!({})).await;
    world.clock.advance(120);
    let second = appoint(&ada, &intent, "agent.eve", json!({})).await;
    assert_eq!(bob.get(&at(&first)).await.ok()["status"], "failed_over");
    // It has its previous role again.
    let both =
        [("agent.bob".to_owned(), "worker".to_owned()), ("agent.eve".to_owned(), "coordinator".to_owned())];
    let mut now = roles(&ada, &intent).await;
    now.sort();
    assert_eq!(now, both);
    let third = appoint(&ada, &intent, "agent.zoe", json!({ "replaces": second["id"] })).await;
    assert_eq!(ada.get(&at(&second)).await.ok()["status"], "failed_over");
    let list = ada.get(&format!("/intents/{intent}/coordinators")).await.ok();
    assert_eq!(ids(&list).len(), 3);
    assert_eq!(list[2]["id"], third["id"]);
    let told = told(&ada, &intent).await;
    assert!(told.contains(&"coordinator.replaced".to_owned()), "{told:?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_appointments_at_once_make_one() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let other = World::on(Setup::default(), world.database.clone()).await;
    let there = other.client("key-of-agent.ada");
    let intent = goal(&ada).await;
    let (one, two) = tokio::join!(
        ada.post("/coordinators", of(&intent, "agent.bob", json!({}))),
        there.post("/coordinators", of(&intent, "agent.eve", json!({})))
    );
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{} {}", one.text, two.text);
    other.end().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_the_appointed_agents() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    let made = appoint(&ada, &intent, "agent.bob", json!({})).await;
    ada.post("/decisions", decision(&made, "plan_created")).await.refused(403, "forbidden");
    let said = bob.once("d").post("/decisions", decision(&made, "plan_created")).await.is(200);
    assert_eq!(said, bob.once("d").post("/decisions", decision(&made, "plan_created")).await.is(200));
    assert_eq!(said["type"], "coordinator.decision");
    assert_eq!((&said["agent_id"], &said["coordinator_id"]), (&json!("agent.bob"), &made["id"]));
    assert_eq!(said["alternatives_considered"], json!([{ "description": "one task" }]));
    // The coordinator may be given by its agent's name too.
    world.clock.advance(1);
    let mut by_name = decision(&made, "failure_handled");
    by_name["coordinator_id"] = json!("agent.bob");
    let second = bob.post("/decisions", by_name).await.is(200);
    let list = format!("/intents/{intent}/coordinator-decisions");
    assert_eq!(ada.get(&list).await.is(200), json!([second, said]));
    assert_eq!(ada.get(&format!("{list}?limit=1")).await.is(200), json!([second]));
    let older = format!("{list}?before={}", second["id"].as_str().unwrap());
    assert_eq!(ada.get(&older).await.is(200), json!([said]));
    let id = made["id"].as_str().unwrap();
    assert_eq!(ada.get(&format!("/decisions?coordinator_id={id}")).await.is(200), json!([second, said]));
    assert_eq!(ada.get(&format!("/decisions?intent_id={intent}")).await.is(200), json!([second, said]));
    ada.get("/decisions").await.refused(422, "invalid_parameter");
    for (member, bad) in
        [("summary", json!(" ")), ("confidence", json!(2)), ("alternatives_considered", json!([1]))]
    {
        let mut wrong = decision(&made, "plan_created");
        wrong[member] = bad;
        bob.post("/decisions", wrong).await.refused(422, "invalid_request");
    }
    // The log has the decision with its rationale.
    let events = ada.get(&format!("/intents/{intent}/events?event_type=coordinator.decision")).await.ok();
    assert_eq!(events[1]["payload"]["rationale"], "Two can go on at once.");
    // The appointment does not extend to another agent's intent.
    let mut elsewhere = decision(&made, "plan_created");
    elsewhere["intent_id"] = json!(goal(&bob).await);
    bob.post("/decisions", elsewhere).await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_rests_goes_on_and_finishes() {
    let world = World::start().await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    let intent = goal(&ada).await;
    let made = appoint(&ada, &intent, "agent.bob", json!({ "supervisor_id": "agent.eve" })).await;
    let path = at(&made);
    let rest = json!({ "status": "paused", "reason": "looking" });
    eve.patch(&path, rest.clone()).await.refused(428, "precondition_required");
    bob.seen(&json!(1)).patch(&path, rest.clone()).await.refused(403, "forbidden");
    let rests = eve.seen(&json!(1)).patch(&path, rest.clone()).await.is(200);
    assert_eq!(
        (&rests["status"], &rests["version"], &rests["expires_at"]),
        (&json!("paused"), &json!(2), &json!(null))
    );
    let stale = eve.seen(&json!(1)).patch(&path, rest).await.refused(409, "version_conflict");
    assert_eq!(stale["current_version"], 2);
    // A paused coordinator may not decide, and its silence has no effect.
    bob.post("/decisions", decision(&made, "plan_created")).await.refused(409, "invalid_transition");
    world.pass(3600).await;
    assert_eq!(ada.get(&path).await.ok()["status"], "paused");
    let on = eve.seen(&json!(2)).patch(&path, json!({ "status": "active" })).await.is(200);
    assert_eq!(on["status"], "active");
    let bound = json!({ "guardrails": { "max_plan_versions": 1 } });
    eve.seen(&json!(3)).patch(&path, bound).await.is(200);
    let free = ada.seen(&json!(4)).patch(&path, json!({ "guardrails": null })).await.is(200);
    assert_eq!(free["guardrails"], json!(null));
    let done = bob.seen(&json!(5)).patch(&path, json!({ "status": "completed" })).await.is(200);
    assert_eq!(done["status"], "completed");
    assert!(roles(&ada, &intent).await.is_empty());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guardrails_are_kept() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = goal(&ada).await;
    let rails = json!({ "guardrails": { "max_plan_versions": 2, "on_exceed": "pause_and_escalate" } });
    let made = appoint(&ada, &intent, "agent.bob", rails).await;
    for kind in ["plan_created", "plan_modified", "task_assigned"] {
        bob.post("/decisions", decision(&made, kind)).await.is(200);
    }
    let refused = bob.post("/decisions", decision(&made, "plan_modified")).await.refused(403, "forbidden");
    assert!(refused["message"].as_str().unwrap().contains("guardrail_violation"));
    // The decision was not recorded, and the coordinator is paused.
    assert_eq!(ada.get(&at(&made)).await.ok()["status"], "paused");
    let list = ada.get(&format!("/intents/{intent}/coordinator-decisions")).await.ok();
    assert_eq!(list.as_array().unwrap().len(), 3);
    // A coordinator without a decision for too long is reported once and paused.
    let intent = goal(&ada).await;
    let rails = json!({ "guardrails": { "require_progress_every_minutes": 2 } });
    let made = appoint(&ada, &intent, "agent.bob", rails).await;
    for _ in 0..2 {
        world.pass(60).await;
        beat(&bob, &made).await.is(200);
    }
    world.sweep().await;
    assert_eq!(ada.get(&at(&made)).await.ok()["status"], "paused");
    let told = told(&ada, &intent).await;
    assert_eq!(told.iter().filter(|one| *one == "coordinator.stalled").count(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_with_its_intent() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = goal(&ada).await;
    let made = appoint(&ada, &intent, "agent.bob", json!({})).await;
    let status = format!("/intents/{intent}/status");
    ada.seen(&json!(1)).post(&status, json!({ "status": "completed" })).await.ok();
    assert_eq!(ada.get(&at(&made)).await.ok()["status"], "completed");
    ada.post("/coordinators", of(&intent, "agent.eve", json!({}))).await.refused(409, "intent_resolved");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_find_nothing() {
    let world = World::start().await;
    let (ada, eve) = (world.agent("agent.ada").await, world.agent("agent.eve").await);
    let intent = goal(&ada).await;
    let made = appoint(&ada, &intent, "agent.bob", json!({})).await;
    let acl = json!({ "default_policy": "closed", "entries": [] });
    ada.put(&format!("/intents/{intent}/acl"), acl).await.ok();
    // A coordinator of a closed intent is one that does not exist, as for a task or a channel of it (OI-7.3).
    let none = "/coordinators/coord_01J9ZK4T6Q8R2V5X7Y9B1C3D5F";
    let unknown = eve.get(none).await.refused(404, "not_found");
    for path in [at(&made), format!("/decisions?coordinator_id={}", made["id"].as_str().unwrap())] {
        let hidden = eve.get(&path).await.refused(404, "not_found");
        assert_eq!(hidden["message"], unknown["message"], "{path}");
    }
    for path in [at(&made), none.to_owned()] {
        eve.seen(&json!(1)).patch(&path, json!({ "status": "paused" })).await.refused(404, "not_found");
        eve.send("POST", &format!("{path}/heartbeat"), None).await.refused(404, "not_found");
    }
    // The intent itself is closed, so that access can be asked for; with it, its coordinators are seen.
    let of_intent =
        [format!("/intents/{intent}/coordinators"), format!("/intents/{intent}/coordinator-decisions")];
    for path in of_intent {
        eve.get(&path).await.refused(403, "access_closed");
    }
    eve.get(&format!("/decisions?intent_id={intent}")).await.refused(403, "access_closed");
    eve.post("/decisions", decision(&made, "plan_created")).await.refused(403, "access_closed");
    eve.post("/coordinators", of(&intent, "agent.eve", json!({}))).await.refused(403, "access_closed");
    let entry = json!({ "principal_id": "agent.eve", "permission": "read" });
    ada.post(&format!("/intents/{intent}/acl/entries"), entry).await.is(200);
    assert_eq!(eve.get(&at(&made)).await.is(200)["id"], made["id"]);
    beat(&eve, &made).await.refused(403, "forbidden");
    // An appointed agent without access finds its appointment no more.
    beat(&world.agent("agent.bob").await, &made).await.refused(404, "not_found");
    world.end().await;
}
