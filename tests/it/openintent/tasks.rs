//! Tasks (RFC-0012): creation, claims, completion, failures and retries. `tasks/follows.rs` covers their
//! consequences, `tasks/races.rs` races, `tasks/crash.rs` crashes, `tasks/changes.rs` changes by `PATCH`.

mod changes;
mod crash;
mod follows;
mod hostile;
mod races;
mod together;

use entente_harness::agents::registered;
use entente_harness::tasks::{act, intent, task};
use entente_harness::{Client, Value, World, json};

/// Returns a task.
pub async fn now(client: &Client, id: &str) -> Value {
    client.get(&format!("/tasks/{id}")).await.is(200)
}

/// Returns a task's status.
pub async fn status(client: &Client, id: &str) -> String {
    now(client, id).await["status"].as_str().unwrap().to_owned()
}

/// Claims and completes a task.
pub async fn complete(client: &Client, id: &str) -> Value {
    act(client, id, "claim", json!({})).await;
    act(client, id, "complete", json!({})).await
}

/// Returns the types of an intent's events about a task, oldest first.
pub async fn told(client: &Client, intent: &str, id: &str) -> Vec<String> {
    let events = client.get(&format!("/intents/{intent}/events?limit=1000")).await.ok();
    let about = events.as_array().unwrap().iter().rev().filter(|event| event["payload"]["task_id"] == id);
    about.map(|event| event["event_type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_has_all_its_members_and_is_ready_at_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = intent(&ada).await;
    let made = ada.post("/tasks", json!({ "intent_id": intent, "name": "read" })).await.is(200);
    let id = made["id"].as_str().unwrap();
    let expected = json!({
        "id": id, "intent_id": intent, "plan_id": null, "parent_task_id": null, "name": "read", "description": null,
        "status": "pending", "priority": "normal", "input": {}, "output": null, "artifacts": [], "assigned_agent": null,
        "claim_token": null, "lease_id": null, "capabilities_required": [], "depends_on": [], "blocks": [],
        "retry_policy": null, "timeout_seconds": null, "attempt": 1, "max_attempts": 3, "permissions": "inherit",
        "memory_policy": null, "requires_tools": [], "blocked_reason": null, "error": null, "metadata": {},
        "task_metadata": {}, "version": 1, "created_by": "agent.ada", "created_at": "2026-11-21T08:00:00.000000Z",
        "started_at": null, "completed_at": null, "due_at": null,
    });
    assert_eq!(made, expected);
    // It has no dependencies, so it is ready, with the version of the response.
    let ready = ada.get(&format!("/tasks/{id}")).await;
    assert_eq!(ready.header("etag"), "\"1\"");
    let mut expected = expected;
    expected["status"] = json!("ready");
    assert_eq!(ready.is(200), expected);
    assert_eq!(ada.get(&format!("/intents/{intent}/tasks")).await.is(200), json!([expected]));
    assert_eq!(told(&ada, &intent, id).await, ["task.created", "task.ready"]);
    // The RFC's path, every member, and a retry.
    let full = json!({
        "name": "write", "description": "in full", "priority": "high", "input": { "n": 1 }, "parent_task_id": id,
        "capabilities_required": ["prose"], "depends_on": [id, id], "retry_policy": "fixed:5", "timeout_seconds": 60,
        "max_attempts": 2, "permissions": "own", "memory_policy": { "max_entries": 3 },
        "requires_tools": [{ "service": "search" }], "metadata": { "k": "v" },
    });
    let path = format!("/intents/{intent}/tasks");
    let second = ada.once("k").post(&path, full.clone()).await.is(200);
    for (member, value) in full.as_object().unwrap() {
        let value = if member == "depends_on" { &json!([id]) } else { value };
        assert_eq!(&second[member], value, "{member}");
    }
    assert_eq!(ada.once("k").post(&path, full).await.is(200), second);
    assert_eq!(now(&ada, id).await["blocks"], json!([second["id"]]));
    assert_eq!(ada.get(&path).await.ok().as_array().unwrap().len(), 2);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_asks_are_refused_and_leave_nothing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (home, elsewhere) = (intent(&ada).await, intent(&ada).await);
    let foreign = task(&ada, &elsewhere, json!({})).await;
    let path = format!("/intents/{home}/tasks");
    let nobody = "task_01J9ZK4T6Q8R2V5X7Y9B1C3D5F";
    for (wrong, status, code) in [
        (json!({}), 422, "invalid_request"),
        (json!({ "name": " " }), 422, "invalid_request"),
        (json!({ "name": "t", "depends_on": [foreign] }), 422, "unprocessable"),
        (json!({ "name": "t", "depends_on": [nobody] }), 422, "unprocessable"),
        (json!({ "name": "t", "depends_on": ["task-123"] }), 422, "unprocessable"),
        (json!({ "name": "t", "parent_task_id": foreign }), 422, "unprocessable"),
        (json!({ "name": "t", "plan_id": "plan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" }), 422, "unprocessable"),
        (json!({ "name": "t", "max_attempts": 0 }), 422, "invalid_request"),
        (json!({ "name": "t", "timeout_seconds": 0 }), 422, "invalid_request"),
        (json!({ "name": "t", "retry_policy": "fixed:never" }), 422, "invalid_request"),
        (json!({ "name": "t", "input": { "x": "x".repeat(300_000) } }), 413, "too_large"),
    ] {
        ada.post(&path, wrong).await.refused(status, code);
    }
    ada.post("/tasks", json!({ "name": "t" })).await.refused(422, "invalid_request");
    ada.post("/tasks", json!({ "name": "t", "intent_id": "nothing" })).await.refused(404, "not_found");
    assert_eq!(ada.get(&path).await.ok(), json!([]));
    ada.get(&format!("/tasks/{nobody}")).await.refused(404, "not_found");
    ada.post(&format!("/tasks/{nobody}/claim"), json!({})).await.refused(404, "not_found");
    ada.seen(&json!(1)).patch(&format!("/tasks/{nobody}"), json!({})).await.refused(404, "not_found");
    ada.get(&format!("{path}?status=banana")).await.refused(422, "invalid_parameter");
    // A resolved intent accepts no new tasks.
    ada.seen(&json!(1)).post(&format!("/intents/{home}/status"), json!({ "status": "completed" })).await.ok();
    ada.post(&path, json!({ "name": "t" })).await.refused(409, "intent_resolved");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_claimed_started_reported_and_completed_by_one_agent() {
    let world = World::start().await;
    // No 409 contains that name, because a client would take the word for a lease conflict (OI-3.5.3).
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.lease").await, world.agent("agent.eve").await);
    let intent = intent(&ada).await;
    let id = task(&ada, &intent, json!({ "name": "lease" })).await;
    bob.post(&format!("/tasks/{id}/complete"), json!({})).await.refused(409, "invalid_transition");
    world.clock.advance(1);
    // Without a body, as some clients do.
    let claimed = bob.send("POST", &format!("/tasks/{id}/claim"), None).await.is(200);
    assert_eq!((&claimed["status"], &claimed["assigned_agent"]), (&json!("claimed"), &json!("agent.lease")));
    assert_eq!((&claimed["claim_token"], &claimed["version"]), (&json!(1), &json!(2)));
    eve.post(&format!("/tasks/{id}/claim"), json!({})).await.refused(409, "claim_conflict");
    for verb in ["start", "progress", "complete", "fail", "block", "release", "cancel", "skip"] {
        eve.post(&format!("/tasks/{id}/{verb}"), json!({})).await.refused(403, "forbidden");
    }
    world.clock.advance(1);
    let started = act(&bob, &id, "start", json!({ "claim_token": 1 })).await;
    assert_eq!(
        (&started["status"], &started["started_at"]),
        (&json!("running"), &json!("2026-11-21T08:00:02.000000Z"))
    );
    bob.seen(&json!(2))
        .post(&format!("/tasks/{id}/progress"), json!({}))
        .await
        .refused(409, "version_conflict");
    let same = act(&bob, &id, "progress", json!({ "percent": 40, "message": "half of it" })).await;
    assert_eq!(same["version"], started["version"]);
    world.clock.advance(1);
    let output = json!({ "pages": 12, "exact": 9_007_199_254_740_993_i64 });
    let body = json!({ "output": output, "artifacts": ["https://example.org/a"] });
    let done = act(&bob, &id, "complete", body).await;
    assert_eq!((&done["status"], &done["output"]), (&json!("completed"), &output));
    assert_eq!(done["artifacts"], json!(["https://example.org/a"]));
    assert_eq!(
        (&done["completed_at"], &done["claim_token"]),
        (&json!("2026-11-21T08:00:03.000000Z"), &json!(null))
    );
    assert_eq!(now(&ada, &id).await, done);
    // An ended task cannot change any more.
    for verb in ["claim", "start", "fail", "cancel", "skip", "block", "unblock", "release", "escalate"] {
        bob.post(&format!("/tasks/{id}/{verb}"), json!({})).await.refused(409, "invalid_transition");
    }
    let types =
        ["created", "ready", "claimed", "started", "progress", "completed"].map(|t| format!("task.{t}"));
    assert_eq!(told(&ada, &intent, &id).await, types);
    let events = ada.get(&format!("/intents/{intent}/events?event_type=task.progress")).await.ok();
    assert_eq!((&events[0]["payload"]["percent"], &events[0]["actor"]), (&json!(40), &json!("agent.lease")));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_intents_managers_go_on_with_what_another_has() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = intent(&ada).await;
    let id = task(&bob, &intent, json!({})).await;
    act(&bob, &id, "claim", json!({})).await;
    assert_eq!(act(&ada, &id, "start", json!({})).await["assigned_agent"], "agent.bob");
    assert_eq!(act(&ada, &id, "complete", json!({})).await["status"], "completed");
    // The creator of a task may cancel it, whichever agent has claimed it.
    let cy = world.agent("agent.cy").await;
    let id = task(&bob, &intent, json!({})).await;
    act(&cy, &id, "claim", json!({})).await;
    assert_eq!(act(&bob, &id, "cancel", json!({ "reason": "no longer" })).await["status"], "cancelled");
    // An agent with read access may do nothing.
    let entries = json!([{ "principal_id": "agent.cy", "permission": "read" }]);
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed", "entries": entries }))
        .await
        .ok();
    let id = task(&ada, &intent, json!({})).await;
    cy.get(&format!("/tasks/{id}")).await.is(200);
    cy.post(&format!("/tasks/{id}/claim"), json!({})).await.refused(403, "forbidden");
    bob.post(&format!("/tasks/{id}/claim"), json!({})).await.refused(404, "not_found");
    ada.post(&format!("/tasks/{id}/delegate"), json!({ "to": "agent.cy" }))
        .await
        .refused(422, "unprocessable");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn capabilities_are_what_the_record_says() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = intent(&ada).await;
    let bob = registered(&world, "agent.bob", json!({ "capabilities": ["ocr"] })).await;
    let cy = registered(&world, "agent.cy", json!({ "capabilities": ["ocr", "prose"] })).await;
    let need = json!({ "capabilities_required": ["ocr", "prose"] });
    let (first, second) = (task(&ada, &intent, need.clone()).await, task(&ada, &intent, need).await);
    let refused = bob.post(&format!("/tasks/{first}/claim"), json!({})).await.refused(403, "forbidden");
    assert!(refused["message"].as_str().unwrap().contains("prose"), "{refused}");
    // An agent without a record is trusted; a draining one takes no new tasks.
    act(&world.agent("agent.eve").await, &second, "claim", json!({})).await;
    cy.post("/agents/agent.cy/drain", json!({})).await.ok();
    cy.post(&format!("/tasks/{first}/claim"), json!({})).await.refused(403, "forbidden");
    cy.patch("/agents/agent.cy/status", json!({ "status": "active" })).await.ok();
    act(&cy, &first, "claim", json!({})).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_fails_is_followed_by_another_while_there_are_any() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = intent(&ada).await;
    let id = task(&ada, &intent, json!({ "max_attempts": 3, "retry_policy": "exponential:10" })).await;
    act(&bob, &id, "claim", json!({})).await;
    let again = act(&bob, &id, "fail", json!({ "error": "no network" })).await;
    assert_eq!(
        (&again["status"], &again["attempt"], &again["error"]),
        (&json!("pending"), &json!(2), &json!("no network"))
    );
    assert_eq!(
        (&again["assigned_agent"], &again["due_at"]),
        (&json!(null), &json!("2026-11-21T08:00:10.000000Z"))
    );
    bob.post(&format!("/tasks/{id}/claim"), json!({})).await.refused(409, "invalid_transition");
    world.pass(9).await;
    assert_eq!(status(&ada, &id).await, "pending");
    // In effect as soon as it is due, in lists too, before a sweep. A claim at that moment logs the due change
    // first.
    world.clock.advance(1);
    assert_eq!(status(&ada, &id).await, "ready");
    let list = format!("/intents/{intent}/tasks?status=");
    assert_eq!(ada.get(&format!("{list}ready")).await.ok()[0]["id"], id.as_str());
    assert_eq!(ada.get(&format!("{list}pending")).await.ok(), json!([]));
    assert_eq!(act(&ada, &id, "claim", json!({})).await["claim_token"], 2);
    // The delay doubles after the second attempt, and the third is the last.
    let again = act(&ada, &id, "fail", json!({})).await;
    assert_eq!((&again["attempt"], &again["due_at"]), (&json!(3), &json!("2026-11-21T08:00:30.000000Z")));
    world.pass(20).await;
    act(&bob, &id, "claim", json!({})).await;
    let failed = act(&bob, &id, "fail", json!({ "error": "still none" })).await;
    assert_eq!((&failed["status"], &failed["error"]), (&json!("failed"), &json!("still none")));
    let types = told(&ada, &intent, &id).await;
    let expected = [
        "created", "ready", "claimed", "retrying", "ready", "claimed", "retrying", "ready", "claimed",
        "failed",
    ];
    assert_eq!(types, expected.map(|word| format!("task.{word}")));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_takes_too_long_has_failed_the_instant_it_has() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = intent(&ada).await;
    let id = task(&ada, &intent, json!({ "max_attempts": 2, "timeout_seconds": 60 })).await;
    let waiting = task(&ada, &intent, json!({ "depends_on": [id] })).await;
    let token = act(&bob, &id, "claim", json!({})).await["claim_token"].clone();
    world.clock.advance(59);
    act(&bob, &id, "start", json!({})).await;
    // While the task is blocked, its timeout is suspended.
    act(&bob, &id, "block", json!({ "reason": "who knows" })).await;
    world.pass(600).await;
    assert_eq!(act(&bob, &id, "unblock", json!({})).await["status"], "running");
    world.clock.advance(60);
    let again = now(&ada, &id).await;
    assert_eq!(
        (&again["status"], &again["attempt"], &again["assigned_agent"]),
        (&json!("ready"), &json!(2), &json!(null))
    );
    // The late agent has lost its claim, before a sweep has run; the next claim has another token.
    let late = json!({ "claim_token": token });
    bob.post(&format!("/tasks/{id}/complete"), late).await.refused(409, "claim_conflict");
    act(&ada, &id, "claim", json!({})).await;
    for verb in ["complete", "fail", "release", "block", "delegate", "progress"] {
        let late = json!({ "claim_token": token, "to": "agent.eve" });
        bob.post(&format!("/tasks/{id}/{verb}"), late).await.refused(409, "claim_conflict");
    }
    bob.post(&format!("/tasks/{id}/complete"), json!({})).await.refused(403, "forbidden");
    world.pass(60).await;
    let failed = now(&ada, &id).await;
    assert_eq!(failed["status"], "failed");
    assert!(failed["error"].as_str().unwrap().contains("60 seconds"), "{failed}");
    assert_eq!(status(&ada, &waiting).await, "blocked");
    let events = ada.get(&format!("/intents/{intent}/events?event_type=task.failed")).await.ok();
    assert_eq!(events[0]["actor"], "entente");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_blocked_escalated_handed_back_and_delegated() {
    let world = World::start().await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    let intent = intent(&ada).await;
    let id = task(&ada, &intent, json!({})).await;
    act(&bob, &id, "claim", json!({})).await;
    let blocked = act(&bob, &id, "block", json!({ "reason": "no access" })).await;
    assert_eq!((&blocked["status"], &blocked["blocked_reason"]), (&json!("blocked"), &json!("no access")));
    assert_eq!(blocked["assigned_agent"], "agent.bob");
    assert_eq!(act(&bob, &id, "unblock", json!({})).await["status"], "claimed");
    let escalated = act(&bob, &id, "escalate", json!({ "to": "human.ada", "reason": "may I?" })).await;
    assert_eq!((&escalated["status"], &escalated["blocked_reason"]), (&json!("blocked"), &json!("may I?")));
    act(&ada, &id, "unblock", json!({})).await;
    let free = act(&bob, &id, "release", json!({})).await;
    assert_eq!(
        (&free["status"], &free["assigned_agent"], &free["attempt"]),
        (&json!("ready"), &json!(null), &json!(1))
    );
    // A delegated task cannot be claimed by others.
    let kept = act(&ada, &id, "delegate", json!({ "to": "agent.eve", "reason": "you know it" })).await;
    assert_eq!((&kept["status"], &kept["assigned_agent"]), (&json!("ready"), &json!("agent.eve")));
    bob.post(&format!("/tasks/{id}/claim"), json!({})).await.refused(409, "claim_conflict");
    act(&eve, &id, "claim", json!({})).await;
    // The agent that has claimed it may delegate it.
    act(&eve, &id, "delegate", json!({ "assigned_agent": "agent.bob" })).await;
    complete(&bob, &id).await;
    ada.post(&format!("/tasks/{id}/delegate"), json!({})).await.refused(422, "invalid_request");
    let types =
        ["claimed", "blocked", "unblocked", "escalated", "unblocked", "ready", "delegated", "claimed"];
    let all = told(&ada, &intent, &id).await;
    assert_eq!(all[2..10], types.map(|word| format!("task.{word}")));
    world.end().await;
}
