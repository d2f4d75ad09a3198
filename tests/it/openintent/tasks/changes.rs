//! Changes of tasks by `PATCH` (OI-8), as clients of the reference server send them: under a version, with steps
//! omitted, and never out of a final status.

use super::{act, intent, now, status, task, told};
use entente_harness::{Setup, World, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_made_under_the_version_that_was_read() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = intent(&ada).await;
    let id = task(&ada, &intent, json!({})).await;
    let path = format!("/tasks/{id}");
    let missing =
        ada.patch(&path, json!({ "status": "claimed" })).await.refused(428, "precondition_required");
    assert!(missing["message"].as_str().unwrap().starts_with("If-Match header required"), "{missing}");
    ada.with("if-match", "soon").patch(&path, json!({})).await.refused(428, "precondition_required");
    let claimed = ada.seen(&json!(1)).patch(&path, json!({ "status": "claimed" })).await.is(200);
    assert_eq!((&claimed["version"], &claimed["assigned_agent"]), (&json!(2), &json!("agent.ada")));
    let stale = ada.seen(&json!(1)).patch(&path, json!({ "status": "running" })).await;
    assert_eq!(stale.refused(409, "version_conflict")["current_version"], 2);
    // A patch without changes creates no version; one without a status has its event too.
    assert_eq!(ada.seen(&json!(2)).patch(&path, json!({})).await.is(200), claimed);
    assert_eq!(ada.seen(&json!(2)).patch(&path, json!({ "status": "claimed" })).await.is(200), claimed);
    let body =
        json!({ "name": "renamed", "priority": "low", "metadata": { "a": 1 }, "output": { "so": "far" } });
    let renamed = ada.seen(&json!(2)).patch(&path, body).await.is(200);
    assert_eq!((&renamed["name"], &renamed["version"]), (&json!("renamed"), &json!(3)));
    assert_eq!((&renamed["metadata"], &renamed["task_metadata"]), (&json!({ "a": 1 }), &json!({ "a": 1 })));
    let events = ada.get(&format!("/intents/{intent}/events?event_type=task.created")).await.ok();
    assert_eq!(events[0]["payload"]["updated"], json!(["output", "name", "priority", "metadata"]));
    ada.seen(&json!(3)).patch(&path, json!({ "status": "banana" })).await.refused(422, "invalid_request");
    ada.seen(&json!(3)).patch(&path, json!({ "name": "" })).await.refused(422, "invalid_request");
    assert_eq!(now(&ada, &id).await, renamed);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_that_are_left_out_are_done_on_the_way() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = intent(&ada).await;
    let id = task(&ada, &intent, json!({})).await;
    let body = json!({ "status": "completed", "output": { "n": 1 } });
    let done = bob.seen(&json!(1)).patch(&format!("/tasks/{id}"), body).await.is(200);
    assert_eq!((&done["status"], &done["version"]), (&json!("completed"), &json!(2)));
    assert_eq!((&done["assigned_agent"], &done["output"]), (&json!("agent.bob"), &json!({ "n": 1 })));
    let types = told(&ada, &intent, &id).await;
    assert_eq!(types[3..], ["task.claimed", "task.started", "task.completed"]);
    for status in ["pending", "ready", "claimed", "running", "blocked", "failed", "cancelled", "skipped"] {
        let back = bob.seen(&json!(2)).patch(&format!("/tasks/{id}"), json!({ "status": status })).await;
        back.refused(409, "invalid_transition");
    }
    // A client reads back the status that it wrote: `failed` is final, whatever attempts are left.
    for status in ["claimed", "running", "blocked", "completed", "failed", "cancelled", "skipped"] {
        let id = task(&ada, &intent, json!({})).await;
        let body = json!({ "status": status, "error": "why", "blocked_reason": "because" });
        let after = bob.seen(&json!(1)).patch(&format!("/tasks/{id}"), body).await.is(200);
        assert_eq!(after["status"], status);
    }
    // A task with open dependencies stays pending.
    let first = task(&ada, &intent, json!({})).await;
    let second = task(&ada, &intent, json!({ "depends_on": [first] })).await;
    for status in ["ready", "claimed", "running", "completed"] {
        let jump = ada.seen(&json!(1)).patch(&format!("/tasks/{second}"), json!({ "status": status })).await;
        jump.refused(409, "invalid_transition");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_given_to_an_agent_and_taken_back() {
    let world = World::start().await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    let intent = intent(&ada).await;
    let id = task(&ada, &intent, json!({})).await;
    let path = format!("/tasks/{id}");
    let kept = ada.seen(&json!(1)).patch(&path, json!({ "assigned_agent": "agent.bob" })).await.is(200);
    assert_eq!((&kept["status"], &kept["assigned_agent"]), (&json!("ready"), &json!("agent.bob")));
    eve.seen(&json!(2)).patch(&path, json!({ "status": "claimed" })).await.refused(409, "claim_conflict");
    let free = ada.seen(&json!(2)).patch(&path, json!({ "assigned_agent": null })).await.is(200);
    assert_eq!(free["assigned_agent"], json!(null));
    // It can be claimed for another agent, but not carried out on its behalf.
    for status in ["running", "completed"] {
        let body = json!({ "status": status, "assigned_agent": "agent.bob" });
        eve.seen(&json!(3)).patch(&path, body).await.refused(403, "forbidden");
    }
    let body = json!({ "status": "claimed", "assigned_agent": "agent.bob" });
    let claimed = eve.seen(&json!(3)).patch(&path, body).await.is(200);
    assert_eq!((&claimed["status"], &claimed["assigned_agent"]), (&json!("claimed"), &json!("agent.bob")));
    // Naming the assigned agent does not make the caller that agent.
    let body = json!({ "status": "completed", "assigned_agent": "agent.bob" });
    eve.seen(&json!(4)).patch(&path, body.clone()).await.refused(403, "forbidden");
    act(&bob, &id, "start", json!({})).await;
    assert_eq!(bob.seen(&json!(5)).patch(&path, body).await.is(200)["status"], "completed");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_a_task_is_for_is_heard_beside_a_status_too() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = intent(&ada).await;
    // Unclaimed: it is reserved for the agent, in its current status or the one it returns to.
    for status in ["ready", "pending", "blocked"] {
        let id = task(&ada, &intent, json!({})).await;
        let path = format!("/tasks/{id}");
        let body = json!({ "status": status, "assigned_agent": "agent.bob" });
        let kept = ada.seen(&json!(1)).patch(&path, body).await.is(200);
        let expected = if status == "blocked" { "blocked" } else { "ready" };
        assert_eq!((&kept["status"], &kept["assigned_agent"]), (&json!(expected), &json!("agent.bob")));
        assert_eq!(kept["version"], 2);
        let body = json!({ "status": expected, "assigned_agent": null });
        let free = ada.seen(&json!(2)).patch(&path, body).await.is(200);
        assert_eq!((&free["status"], &free["assigned_agent"]), (&json!(expected), &json!(null)));
    }
    // Claimed: it is either released and reserved for the other agent, or refused with a conflict.
    let id = task(&ada, &intent, json!({})).await;
    let path = format!("/tasks/{id}");
    act(&bob, &id, "claim", json!({})).await;
    act(&bob, &id, "start", json!({})).await;
    let seen = now(&ada, &id).await;
    let body = json!({ "status": "running", "assigned_agent": "agent.ada" });
    ada.seen(&seen["version"]).patch(&path, body).await.refused(409, "claim_conflict");
    assert_eq!(now(&ada, &id).await, seen);
    let body = json!({ "status": "ready", "assigned_agent": "agent.ada" });
    let kept = bob.seen(&seen["version"]).patch(&path, body).await.is(200);
    assert_eq!((&kept["status"], &kept["assigned_agent"]), (&json!("ready"), &json!("agent.ada")));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dependencies_change_without_a_circle_while_nobody_has_the_task() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = intent(&ada).await;
    let a = task(&ada, &intent, json!({})).await;
    let b = task(&ada, &intent, json!({ "depends_on": [a] })).await;
    let c = task(&ada, &intent, json!({ "depends_on": [b] })).await;
    for (id, on) in [(&a, &a), (&a, &b), (&a, &c), (&b, &c)] {
        let circle = ada.seen(&json!(1)).patch(&format!("/tasks/{id}"), json!({ "depends_on": [on] })).await;
        circle.refused(422, "unprocessable");
    }
    let foreign = task(&ada, &super::intent(&ada).await, json!({})).await;
    let elsewhere =
        ada.seen(&json!(1)).patch(&format!("/tasks/{a}"), json!({ "depends_on": [foreign] })).await;
    elsewhere.refused(422, "unprocessable");
    // A ready task becomes pending again, and one without other dependencies becomes ready.
    let d = task(&ada, &intent, json!({})).await;
    let waits = ada.seen(&json!(1)).patch(&format!("/tasks/{a}"), json!({ "depends_on": [d] })).await.is(200);
    assert_eq!((&waits["status"], &waits["version"]), (&json!("pending"), &json!(2)));
    let ready = ada.seen(&json!(1)).patch(&format!("/tasks/{b}"), json!({ "depends_on": [] })).await.is(200);
    assert_eq!(ready["status"], "ready");
    assert_eq!(now(&ada, &a).await["blocks"], json!([]));
    act(&ada, &b, "claim", json!({})).await;
    let late = ada.seen(&json!(3)).patch(&format!("/tasks/{b}"), json!({ "depends_on": [d] })).await;
    late.refused(409, "invalid_transition");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_mode_leaves_no_step_out() {
    let world = World::with(Setup { settings: vec![("ENTENTE_STRICT_RFC0021", "true")], live: false }).await;
    let ada = world.agent("agent.ada").await;
    let intent = intent(&ada).await;
    let id = task(&ada, &intent, json!({})).await;
    let path = format!("/tasks/{id}");
    for status in ["running", "completed"] {
        ada.seen(&json!(1))
            .patch(&path, json!({ "status": status }))
            .await
            .refused(409, "invalid_transition");
    }
    for (version, status) in [(1, "claimed"), (2, "running"), (3, "completed")] {
        assert_eq!(
            ada.seen(&json!(version)).patch(&path, json!({ "status": status })).await.is(200)["status"],
            status
        );
    }
    // Capabilities must be registered, and a plan must be active.
    let able = task(&ada, &intent, json!({ "capabilities_required": ["ocr"] })).await;
    ada.post(&format!("/tasks/{able}/claim"), json!({})).await.refused(403, "forbidden");
    let id = task(&ada, &intent, json!({})).await;
    let plan = ada.post("/plans", json!({ "intent_id": intent, "tasks": [id] })).await.ok()["id"].clone();
    ada.post(&format!("/tasks/{id}/claim"), json!({})).await.refused(409, "invalid_transition");
    ada.post(&format!("/plans/{}/activate", plan.as_str().unwrap()), json!({})).await.ok();
    act(&ada, &id, "claim", json!({})).await;
    ada.post(&format!("/tasks/{id}/complete"), json!({})).await.refused(409, "invalid_transition");
    assert_eq!(status(&ada, &id).await, "claimed");
    world.end().await;
}
