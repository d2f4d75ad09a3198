//! Plans (RFC-0012): groups of tasks, their states, their checkpoints, and the effects of their tasks' ends.

use crate::openintent::tasks::{complete, status};
use entente_harness::tasks::{act, intent, task};
use entente_harness::{Client, Value, World, json};

async fn plan(client: &Client, intent: &str, more: Value) -> Value {
    let mut ask = json!({ "intent_id": intent });
    ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.post("/plans", ask).await.is(200)
}

fn id(plan: &Value) -> &str {
    plan["id"].as_str().unwrap()
}

async fn now(client: &Client, plan: &Value) -> Value {
    client.get(&format!("/plans/{}", id(plan))).await.is(200)
}

async fn verb(client: &Client, plan: &Value, verb: &str) -> Value {
    client.post(&format!("/plans/{}/{verb}", id(plan)), json!({})).await.is(200)
}

/// Returns the types of an intent's events about plans, oldest first.
async fn told(client: &Client, intent: &str) -> Vec<String> {
    let events = client.get(&format!("/intents/{intent}/events?limit=1000")).await.ok();
    let types = events.as_array().unwrap().iter().rev().map(|event| event["event_type"].as_str().unwrap());
    types.filter(|kind| kind.starts_with("plan.")).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_has_all_its_members_and_its_tasks() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada).await;
    let (a, b) = (task(&ada, &home, json!({})).await, task(&ada, &home, json!({})).await);
    let made = plan(&ada, &home, json!({ "tasks": [b, a], "metadata": { "k": 1 } })).await;
    let expected = json!({
        "id": made["id"], "intent_id": home, "state": "draft", "tasks": [b, a], "checkpoints": [], "conditions": [],
        "on_failure": "pause_and_escalate", "on_complete": "notify", "metadata": { "k": 1 }, "plan_metadata": { "k": 1 },
        "version": 1, "created_by": "agent.ada", "created_at": "2026-11-21T08:00:00.000000Z",
        "updated_at": "2026-11-21T08:00:00.000000Z",
    });
    assert_eq!(made, expected);
    assert_eq!(now(&ada, &made).await, expected);
    // A task created for the plan joins it, which is no change of the plan.
    let c = task(&ada, &home, json!({ "plan_id": made["id"] })).await;
    let joined = now(&ada, &made).await;
    assert_eq!((&joined["tasks"], &joined["version"]), (&json!([b, a, c]), &json!(1)));
    assert_eq!(ada.get(&format!("/intents/{home}/plans")).await.is(200), json!([joined]));
    let list = format!("/intents/{home}/tasks?plan_id={}", id(&made));
    assert_eq!(ada.get(&list).await.ok().as_array().unwrap().len(), 3);
    // Tasks of another intent or of another plan are refused.
    let foreign = task(&ada, &intent(&ada).await, json!({})).await;
    for tasks in [json!([foreign]), json!([a]), json!(["task-123"])] {
        let wrong = ada.post(&format!("/intents/{home}/plans"), json!({ "tasks": tasks })).await;
        wrong.refused(422, "unprocessable");
    }
    let path = format!("/plans/{}", id(&made));
    ada.patch(&path, json!({ "tasks": [c] })).await.refused(428, "precondition_required");
    let changed =
        ada.seen(&json!(1)).patch(&path, json!({ "tasks": [c], "on_failure": "fail" })).await.is(200);
    assert_eq!((&changed["tasks"], &changed["version"]), (&json!([c]), &json!(2)));
    let stale = ada.seen(&json!(1)).patch(&path, json!({ "state": "active" })).await;
    assert_eq!(stale.refused(409, "version_conflict")["current_version"], 2);
    ada.post(&format!("/intents/{home}/plans"), json!({ "tasks": [a, b] })).await.is(200);
    ada.get("/plans/plan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F").await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tasks_of_a_plan_at_rest_are_not_claimed() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada).await;
    let (a, b) = (task(&ada, &home, json!({})).await, task(&ada, &home, json!({})).await);
    let plan = plan(&ada, &home, json!({ "tasks": [a, b] })).await;
    // A draft blocks no tasks, because clients never activate one (unlike in strict mode).
    act(&ada, &a, "claim", json!({})).await;
    assert_eq!(verb(&ada, &plan, "activate").await["state"], "active");
    assert_eq!(verb(&ada, &plan, "pause").await["state"], "paused");
    ada.post(&format!("/tasks/{b}/claim"), json!({})).await.refused(409, "invalid_transition");
    let jump = ada.seen(&json!(1)).patch(&format!("/tasks/{b}"), json!({ "status": "completed" })).await;
    jump.refused(409, "invalid_transition");
    act(&ada, &a, "complete", json!({})).await;
    assert_eq!(verb(&ada, &plan, "resume").await["state"], "active");
    complete(&ada, &b).await;
    assert_eq!(now(&ada, &plan).await["state"], "completed");
    let types = ["created", "activated", "paused", "resumed", "completed"].map(|word| format!("plan.{word}"));
    assert_eq!(told(&ada, &home).await, types);
    ada.post(&format!("/plans/{}/activate", id(&plan)), json!({})).await.refused(409, "invalid_transition");
    let late = json!({ "intent_id": home, "name": "late", "plan_id": plan["id"] });
    ada.post("/tasks", late).await.refused(422, "unprocessable");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_fails_for_good_is_the_plans_failure() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    // `on_failure` takes effect at once; the final state follows when all tasks have ended.
    for (on_failure, at_once, in_the_end) in [
        ("pause_and_escalate", "paused", "failed"),
        ("notify", "active", "failed"),
        ("retry", "active", "failed"),
        ("fail", "failed", "failed"),
    ] {
        let home = intent(&ada).await;
        let (a, b) =
            (task(&ada, &home, json!({ "max_attempts": 2 })).await, task(&ada, &home, json!({})).await);
        let more = json!({ "tasks": [a, b], "state": "active", "on_failure": on_failure });
        let plan = plan(&ada, &home, more).await;
        for _ in 0..2 {
            assert_eq!(now(&ada, &plan).await["state"], "active", "an attempt is no failure");
            act(&ada, &a, "claim", json!({})).await;
            act(&ada, &a, "fail", json!({})).await;
        }
        assert_eq!(now(&ada, &plan).await["state"], at_once, "{on_failure}");
        if at_once == "failed" {
            assert_eq!(status(&ada, &b).await, "cancelled");
        } else {
            if at_once == "paused" {
                verb(&ada, &plan, "resume").await;
            }
            complete(&ada, &b).await;
        }
        assert_eq!(now(&ada, &plan).await["state"], in_the_end, "{on_failure}");
        assert_eq!(told(&ada, &home).await.last().unwrap(), "plan.failed");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_tasks_that_are_over_is_over_when_it_is_put_to_work() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    for (verb_of_task, state) in [("complete", "completed"), ("fail", "failed")] {
        let home = intent(&ada).await;
        let a = task(&ada, &home, json!({ "max_attempts": 1 })).await;
        act(&ada, &a, "claim", json!({})).await;
        act(&ada, &a, verb_of_task, json!({})).await;
        let plan = plan(&ada, &home, json!({ "tasks": [a] })).await;
        assert_eq!(plan["state"], "draft");
        let over = verb(&ada, &plan, "activate").await;
        assert_eq!((&over["state"], &over["version"]), (&json!(state), &json!(2)));
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_open_ends_with_its_plan() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    for (state, ended) in [("completed", "skipped"), ("failed", "cancelled"), ("cancelled", "cancelled")] {
        let home = intent(&ada).await;
        let a = task(&ada, &home, json!({})).await;
        let b = task(&ada, &home, json!({ "depends_on": [a] })).await;
        let outside = task(&ada, &home, json!({ "depends_on": [b] })).await;
        let channel = json!({ "name": "about it", "task_id": b });
        let channel = ada.post(&format!("/intents/{home}/channels"), channel).await.is(201)["id"].clone();
        let plan = plan(&ada, &home, json!({ "tasks": [a, b] })).await;
        ada.seen(&json!(1)).patch(&format!("/plans/{}", id(&plan)), json!({ "state": state })).await.is(200);
        assert_eq!((status(&ada, &a).await, status(&ada, &b).await), (ended.to_owned(), ended.to_owned()));
        assert_eq!(status(&ada, &outside).await, "blocked");
        let channel = ada.get(&format!("/channels/{}", channel.as_str().unwrap())).await.ok();
        assert_eq!(channel["status"], "closed");
        assert_eq!(now(&ada, &plan).await["state"], state);
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_waits_at_its_checkpoints_for_a_decision() {
    let world = World::start().await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    let home = intent(&ada).await;
    let a = task(&ada, &home, json!({})).await;
    let b = task(&ada, &home, json!({ "depends_on": [a] })).await;
    let gates = json!([
        { "id": "release-review", "name": "Review", "after_task": a, "approvers": ["agent.bob"] },
        { "name": "Note", "after": b, "requires_approval": false },
        { "name": "Last", "after_task": b },
    ]);
    let plan = plan(&ada, &home, json!({ "tasks": [a, b], "state": "active", "checkpoints": gates })).await;
    assert_eq!(plan["checkpoints"][1]["id"], "checkpoint-2");
    assert_eq!(plan["checkpoints"][0]["status"], "pending");
    let decide = |gate: &str, what: &str| format!("/plans/{}/checkpoints/{gate}/{what}", id(&plan));
    bob.post(&decide("release-review", "approve"), json!({})).await.refused(404, "not_found");
    complete(&ada, &a).await;
    assert_eq!(now(&ada, &plan).await["checkpoints"][0]["status"], "reached");
    ada.post(&format!("/tasks/{b}/claim"), json!({})).await.refused(409, "invalid_transition");
    for other in [&ada, &eve] {
        other.post(&decide("release-review", "approve"), json!({})).await.refused(403, "forbidden");
    }
    // Rewriting the plan does not bypass a checkpoint.
    let version = now(&ada, &plan).await["version"].clone();
    let anew = json!({ "checkpoints": [{ "id": "checkpoint-2", "after_task": b, "requires_approval": false },
                                       { "id": "checkpoint-3", "after_task": b }] });
    let written = ada.seen(&version).patch(&format!("/plans/{}", id(&plan)), anew).await.is(200);
    assert_eq!(written["checkpoints"][2]["id"], "release-review");
    // After a rejection the plan is paused; it does not reach the same checkpoint again.
    let rejected =
        bob.post(&decide("release-review", "reject"), json!({ "decided_by": "agent.bob" })).await.is(200);
    assert_eq!(
        (&rejected["state"], &rejected["checkpoints"][2]["status"]),
        (&json!("paused"), &json!("rejected"))
    );
    verb(&ada, &plan, "resume").await;
    complete(&ada, &b).await;
    let last = now(&ada, &plan).await;
    assert_eq!((&last["state"], &last["checkpoints"][0]["status"]), (&json!("active"), &json!("approved")));
    // The last checkpoint names no approvers, so the intent's managers decide; its approval completes the plan.
    eve.post(&decide("checkpoint-3", "approve"), json!({})).await.refused(403, "forbidden");
    let done = ada.post(&decide("checkpoint-3", "approve"), json!({})).await.is(200);
    assert_eq!(
        (&done["state"], &done["checkpoints"][1]["approved_by"]),
        (&json!("completed"), &json!("agent.ada"))
    );
    let types = told(&ada, &home).await;
    let expected = [
        "checkpoint_reached",
        "created",
        "checkpoint_rejected",
        "paused",
        "resumed",
        "checkpoint_reached",
        "checkpoint_reached",
        "checkpoint_approved",
        "completed",
    ];
    assert_eq!(types[2..], expected.map(|word| format!("plan.{word}")));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_at_rest_is_not_done_until_somebody_has_it_go_on() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada).await;
    let (a, b) = (task(&ada, &home, json!({})).await, task(&ada, &home, json!({})).await);
    let gates = json!([{ "id": "review", "after_task": a }]);
    let plan = plan(&ada, &home, json!({ "tasks": [a, b], "state": "active", "checkpoints": gates })).await;
    act(&ada, &b, "claim", json!({})).await;
    complete(&ada, &a).await;
    let path = format!("/plans/{}/checkpoints/review/reject", id(&plan));
    assert_eq!(ada.post(&path, json!({})).await.is(200)["state"], "paused");
    // A claimed task continues, but its end does not resume a rejected plan.
    act(&ada, &b, "complete", json!({})).await;
    assert_eq!(now(&ada, &plan).await["state"], "paused");
    assert_eq!(verb(&ada, &plan, "resume").await["state"], "completed");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_over_decides_nothing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada).await;
    let (a, b) = (task(&ada, &home, json!({})).await, task(&ada, &home, json!({})).await);
    let gates = json!([{ "id": "review", "after_task": a }]);
    let plan = plan(&ada, &home, json!({ "tasks": [a, b], "state": "active", "checkpoints": gates })).await;
    complete(&ada, &a).await;
    let version = now(&ada, &plan).await["version"].clone();
    let path = format!("/plans/{}", id(&plan));
    let over = ada.seen(&version).patch(&path, json!({ "state": "cancelled" })).await.is(200);
    for word in ["approve", "reject"] {
        let late = ada.post(&format!("{path}/checkpoints/review/{word}"), json!({})).await;
        late.refused(409, "invalid_transition");
    }
    assert_eq!(now(&ada, &plan).await, over);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_is_passed_makes_no_failed_plan_a_success() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada).await;
    let (a, b) = (task(&ada, &home, json!({})).await, task(&ada, &home, json!({})).await);
    let lost = task(&ada, &home, json!({})).await;
    ada.seen(&json!(1)).patch(&format!("/tasks/{lost}"), json!({ "status": "failed" })).await.is(200);
    let gates = json!([{ "id": "review", "after_task": a }]);
    let plan = plan(&ada, &home, json!({ "tasks": [a, b], "state": "active", "checkpoints": gates })).await;
    complete(&ada, &a).await;
    let version = now(&ada, &plan).await["version"].clone();
    let path = format!("/plans/{}", id(&plan));
    ada.seen(&version).patch(&path, json!({ "tasks": [a, lost] })).await.is(200);
    let done = ada.post(&format!("{path}/checkpoints/review/approve"), json!({})).await.is(200);
    assert_eq!(done["state"], "failed");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_made_of_tasks_that_are_over_is_over() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada).await;
    let a = task(&ada, &home, json!({})).await;
    complete(&ada, &a).await;
    let made = plan(&ada, &home, json!({ "tasks": [a], "state": "active" })).await;
    assert_eq!(made["state"], "completed");
    assert_eq!(now(&ada, &made).await, made);
    assert_eq!(told(&ada, &home).await, ["plan.created", "plan.activated", "plan.completed"]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_is_written_late_is_reached_all_the_same() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada).await;
    let a = task(&ada, &home, json!({})).await;
    complete(&ada, &a).await;
    let gates = json!([{ "id": "review", "after_task": a }]);
    let more = json!({ "tasks": [a], "state": "active", "checkpoints": gates });
    let made = plan(&ada, &home, more).await;
    let stands = (&made["state"], &made["checkpoints"][0]["status"]);
    assert_eq!(stands, (&json!("active"), &json!("reached")));
    let path = format!("/plans/{}/checkpoints/review/approve", id(&made));
    assert_eq!(ada.post(&path, json!({})).await.is(200)["state"], "completed");
    // The same for a checkpoint added to an existing plan.
    let b = task(&ada, &home, json!({})).await;
    let c = task(&ada, &home, json!({})).await;
    let other = plan(&ada, &home, json!({ "tasks": [b, c] })).await;
    complete(&ada, &b).await;
    let late = json!({ "checkpoints": [{ "id": "review", "after_task": b }] });
    let path = format!("/plans/{}", id(&other));
    let late = ada.seen(&json!(1)).patch(&path, late).await.is(200);
    assert_eq!((&late["checkpoints"][0]["status"], &late["version"]), (&json!("reached"), &json!(2)));
    ada.post(&format!("/tasks/{c}/claim"), json!({})).await.refused(409, "invalid_transition");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ends_with_its_plan_has_a_new_version() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada).await;
    let a = task(&ada, &home, json!({})).await;
    let plan = plan(&ada, &home, json!({ "tasks": [a], "state": "active" })).await;
    ada.seen(&json!(1))
        .patch(&format!("/plans/{}", id(&plan)), json!({ "state": "cancelled" }))
        .await
        .is(200);
    let ended = ada.get(&format!("/tasks/{a}")).await;
    assert_eq!(ended.header("etag"), "\"2\"");
    assert_eq!(ended.is(200)["status"], "cancelled");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_has_as_many_plans_as_it_needs() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada).await;
    let first = plan(&ada, &home, json!({})).await;
    // A thousand completed plans, inserted without a thousand requests.
    sqlx::query(
        "INSERT INTO plans SELECT gen_random_uuid(), intent_id, 'completed', checkpoints, conditions, on_failure, on_complete,
             metadata, version, created_by, created_at, updated_at FROM plans, generate_series(1, 1000)",
    )
    .execute(&world.ctx().pool)
    .await
    .unwrap();
    let mut found = Vec::new();
    for offset in [0, 1_000] {
        let page = ada.get(&format!("/intents/{home}/plans?offset={offset}")).await.is(200);
        found.extend(page.as_array().unwrap().clone());
    }
    assert_eq!(found.len(), 1_001);
    assert!(found.contains(&first));
    // The draft sorts last, beyond every page, but is cancelled with its intent.
    sqlx::query("UPDATE plans SET id = 'ffffffff-ffff-ffff-ffff-ffffffffffff' WHERE state = 'draft'")
        .execute(&world.ctx().pool)
        .await
        .unwrap();
    ada.seen(&json!(1)).post(&format!("/intents/{home}/status"), json!({ "status": "abandoned" })).await.ok();
    let open: i64 = sqlx::query_scalar("SELECT count(*) FROM plans WHERE state = 'draft'")
        .fetch_one(&world.ctx().pool)
        .await
        .unwrap();
    assert_eq!(open, 0);
    world.end().await;
}
