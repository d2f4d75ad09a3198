//! Governance policies (RFC-0013): who sets them, their enforcement on every kind of work and endpoint, and the log
//! of violations. `approvals.rs` covers approvals.

mod whole;

use entente_harness::governance::{governed, told};
use entente_harness::jobs::Hand;
use entente_harness::mcp::{ERAS, Mcp};
use entente_harness::{BundleFile, Client, Reply, Value, World, ids, json, talk};

/// Asserts a refusal by a rule of the policy, in the format of the reference server's clients (OI-3.5.2).
#[track_caller]
pub fn violates(reply: &Reply, rule: &str) -> Value {
    let body = reply.refused(403, "governance_violation");
    assert_eq!(body["detail"]["error"], "governance_violation");
    assert_eq!(body["detail"]["rule"], rule, "{body}");
    assert_eq!(body["detail"]["message"], body["message"]);
    body["detail"].clone()
}

/// Returns the intent's version.
pub async fn version(client: &Client, intent: &str) -> Value {
    client.get(&format!("/intents/{intent}")).await.ok()["version"].clone()
}

/// Changes the intent's status at its current version.
pub async fn become_(client: &Client, intent: &str, status: &str, reason: Option<&str>) -> Reply {
    let body = json!({ "status": status, "reason": reason });
    client.seen(&version(client, intent).await).post(&format!("/intents/{intent}/status"), body).await
}

async fn assign(client: &Client, intent: &str, agent: &str) -> Reply {
    client.post(&format!("/intents/{intent}/agents"), json!({ "agent_id": agent })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_set_read_and_removed() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, _) = talk(&ada, json!({})).await;
    let path = format!("/intents/{intent}/governance");
    let none = ada.get(&path).await.is(200);
    assert_eq!((&none["intent_id"], &none["governance_policy"]), (&json!(intent), &json!({})));
    let usual = json!({
        "completion_mode": "auto", "write_scope": "any", "quorum_threshold": 0.6, "allowed_agents": [], "max_cost": null,
        "require_status_reason": false, "approvers": [], "allow_self_approval": false, "escalate_to": null,
    });
    assert_eq!(none["effective_policy"], usual);
    // There is no policy to remove, so nothing is logged.
    assert_eq!(ada.seen(&json!(1)).delete(&path).await.is(200)["version"], 1);

    let policy = json!({ "completion_mode": "quorum", "max_cost": 12.5, "my_own": ["x"] });
    ada.put(&path, policy.clone()).await.refused(400, "if_match_required");
    let stale = ada.seen(&json!(7)).put(&path, policy.clone()).await.refused(409, "version_conflict");
    assert_eq!(stale["current_version"], 1);
    ada.seen(&json!(1)).put(&path, json!({ "write_scope": "most" })).await.refused(422, "invalid_request");
    ada.seen(&json!(1)).put(&path, json!({ "escalate_to": "agent.bob" })).await.refused(422, "unprocessable");
    // Everyone may do everything here, except take control from the intent's creators.
    bob.seen(&json!(1)).put(&path, policy.clone()).await.refused(403, "forbidden");

    let set = ada.with("if-match", "\"1\"").put(&path, policy.clone()).await;
    assert_eq!(set.header("etag"), "\"2\"");
    let set = set.is(200);
    assert_eq!(
        (&set["version"], &set["governance_policy"], &set["status"]),
        (&json!(2), &policy, &json!("draft"))
    );
    let seen = bob.get(&path).await.is(200);
    assert_eq!((&seen["governance_policy"], &seen["version"]), (&policy, &json!(2)));
    assert_eq!(seen["effective_policy"]["max_cost"], 12.5);
    assert_eq!(seen["effective_policy"]["completion_mode"], "quorum");
    let events = told(&ada, &intent, "governance.policy_set").await;
    assert_eq!(events[0]["payload"], json!({ "governance_policy": policy, "version": 2 }));
    assert_eq!(events[0]["actor"], "agent.ada");

    bob.seen(&json!(2)).delete(&path).await.refused(403, "forbidden");
    ada.delete(&path).await.refused(400, "if_match_required");
    ada.seen(&json!(1)).delete(&path).await.refused(409, "version_conflict");
    let gone = ada.seen(&json!(2)).delete(&path).await.is(200);
    assert_eq!((&gone["version"], &gone["governance_policy"]), (&json!(3), &Value::Null));
    assert_eq!(told(&ada, &intent, "governance.policy_removed").await.len(), 1);
    // The log matches the current state.
    ada.seen(&json!(3)).put(&path, json!({ "require_status_reason": true })).await.is(200);
    ada.seen(&json!(4))
        .post(&format!("/intents/{intent}/state"), json!({ "state": { "a": 1 } }))
        .await
        .is(200);
    let export = BundleFile::of(&ada, &format!("/intents/{intent}")).await.header();
    assert_eq!(export["intent"]["governance_policy"], json!({ "require_status_reason": true }));
    become_(&ada, &intent, "completed", Some("done")).await.is(200);
    ada.seen(&json!(6)).delete(&path).await.refused(409, "intent_resolved");
    world.end().await;
}

/// Performs every kind of work on an intent; returns the name and response of each.
async fn works(client: &Client, intent: &str) -> Vec<(&'static str, Reply)> {
    let seen = client.seen(&version(client, intent).await);
    let at = |rest: &str| format!("/intents/{intent}/{rest}");
    let named = |what: &str| json!({ "name": what });
    vec![
        ("patch_state", seen.post(&at("state"), json!({ "state": { "a": 1 } })).await),
        ("set_status", seen.post(&at("status"), json!({ "status": "active" })).await),
        ("log_event", client.post(&at("events"), json!({ "event_type": "note" })).await),
        ("acquire_lease", client.post(&at("leases"), json!({ "scope": "x" })).await),
        ("create_task", client.post(&at("tasks"), named("theirs")).await),
        ("create_plan", client.post("/plans", json!({ "intent_id": intent })).await),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_for_those_who_are_assigned() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = governed(&ada, json!({ "write_scope": "assigned_only" })).await;
    let before = bob.get(&format!("/intents/{intent}")).await.ok();
    for (operation, reply) in works(&bob, &intent).await {
        let detail = violates(&reply, "write_scope");
        assert!(detail["message"].as_str().unwrap().contains("agent.bob"), "{operation}");
    }
    assert_eq!(bob.get(&format!("/intents/{intent}")).await.ok(), before, "nothing of it was done");
    // The creator is no exception, but may assign agents as a manager.
    violates(
        &ada.post(&format!("/intents/{intent}/events"), json!({ "event_type": "note" })).await,
        "write_scope",
    );
    violates(&assign(&bob, &intent, "agent.bob").await, "write_scope");
    assign(&ada, &intent, "agent.bob").await.ok();
    let task = bob.post(&format!("/intents/{intent}/tasks"), json!({ "name": "ours" })).await.ok();
    for (operation, reply) in works(&bob, &intent).await {
        if operation == "set_status" {
            // The version was read before the state was patched.
            reply.refused(409, "version_conflict");
        } else {
            reply.ok();
        }
    }
    // Channels, requests and escalations are not work.
    let eve = world.agent("agent.eve").await;
    let task = task["id"].as_str().unwrap();
    violates(
        &eve.seen(&json!(1)).patch(&format!("/tasks/{task}"), json!({ "status": "claimed" })).await,
        "write_scope",
    );
    eve.post(&format!("/intents/{intent}/channels"), json!({ "name": "talk" })).await.is(201);
    eve.post(&format!("/intents/{intent}/approvals"), json!({ "action": "look" })).await.is(200);
    eve.post(&format!("/intents/{intent}/escalations"), json!({ "reason": "let me in" })).await.is(200);
    eve.post(&format!("/intents/{intent}/arbitrate"), json!({ "reason": "let me in" })).await.is(200);
    // An unassigned agent loses its rights. Only managers may unassign others, but every agent may leave.
    let place = format!("/intents/{intent}/agents/agent.bob");
    violates(&eve.delete(&place).await, "write_scope");
    bob.delete(&place).await.ok();
    violates(
        &bob.post(&format!("/intents/{intent}/events"), json!({ "event_type": "note" })).await,
        "write_scope",
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn named_agents_are_the_only_ones() {
    let world = World::start().await;
    let (ada, bob, eve) =
        (world.agent("agent.ada").await, world.agent("agent.bob").await, world.agent("agent.eve").await);
    let policy = json!({ "allowed_agents": ["agent.bob"], "write_scope": "assigned_only" });
    let intent = governed(&ada, policy).await;
    // A named agent may assign itself; no one else can be assigned, not even by a manager.
    violates(&assign(&eve, &intent, "agent.eve").await, "allowed_agents");
    violates(&assign(&ada, &intent, "agent.eve").await, "allowed_agents");
    assign(&bob, &intent, "agent.bob").await.ok();
    bob.post(&format!("/intents/{intent}/events"), json!({ "event_type": "note" })).await.ok();
    let free = governed(&ada, json!({ "allowed_agents": ["agent.bob"] })).await;
    for (_, reply) in works(&eve, &free).await {
        violates(&reply, "allowed_agents");
    }
    bob.post(&format!("/intents/{free}/events"), json!({ "event_type": "note" })).await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_needs_its_reason() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = governed(&ada, json!({ "require_status_reason": true })).await;
    violates(&become_(&ada, &intent, "active", None).await, "require_status_reason");
    violates(&become_(&ada, &intent, "active", Some(" ")).await, "require_status_reason");
    become_(&ada, &intent, "active", Some("let us begin")).await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_tells_of_violations_and_is_not_flooded() {
    let world = World::start().await;
    let (ada, any) = (world.agent("agent.ada").await, world.any());
    let intent =
        governed(&ada, json!({ "write_scope": "assigned_only", "require_status_reason": true })).await;
    let note = async |agent: &str| {
        let note = json!({ "event_type": "note", "actor": agent });
        let reply = any.acting_as(agent).post(&format!("/intents/{intent}/events"), note).await;
        violates(&reply, "write_scope");
    };
    for _ in 0..5 {
        note("agent.bob").await;
    }
    let events = told(&ada, &intent, "governance.violation").await;
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&events[0]["actor"], &events[0]["payload"]["rule"]),
        (&json!("agent.bob"), &json!("write_scope"))
    );
    assert_eq!(events[0]["payload"]["operation"], "log_event");
    // Another agent is logged, and so is the same one a minute later.
    note("agent.eve").await;
    assert_eq!(told(&ada, &intent, "governance.violation").await.len(), 2);
    world.pass(60).await;
    note("agent.bob").await;
    assert_eq!(told(&ada, &intent, "governance.violation").await.len(), 3);
    // The limit holds across any number of agent names.
    for n in 0..70 {
        note(&format!("agent.{n}")).await;
    }
    assert_eq!(told(&ada, &intent, "governance.violation").await.len(), 2 + 60);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_set_on_one_server_holds_on_the_other() {
    let (world, other) = World::two().await;
    let (ada, bob) = (world.agent("agent.ada").await, other.agent("agent.bob").await);
    let (intent, _) = talk(&ada, json!({})).await;
    let looked = version(&bob, &intent).await;
    let policy = json!({ "write_scope": "assigned_only" });
    ada.seen(&looked).put(&format!("/intents/{intent}/governance"), policy).await.is(200);
    // The policy applies before the version check: a stale version is reported as a violation.
    let path = format!("/intents/{intent}");
    violates(&bob.seen(&looked).post(&format!("{path}/state"), json!({ "state": {} })).await, "write_scope");
    violates(&bob.post(&format!("{path}/events"), json!({ "event_type": "note" })).await, "write_scope");
    // Concurrent writers while the policy is set: every accepted write comes before it.
    let set = json!({ "write_scope": "any" });
    ada.seen(&json!(2)).put(&format!("{path}/governance"), set).await.is(200);
    let writers = futures_util::future::join_all((0..16).map(async |n| {
        let client = if n % 2 == 0 { world.any() } else { other.any() };
        let note = json!({ "event_type": "note", "actor": format!("agent.{n}") });
        client.post(&format!("{path}/events"), note).await
    }));
    let set = async {
        let policy = json!({ "write_scope": "assigned_only" });
        ada.seen(&json!(3)).put(&format!("{path}/governance"), policy).await.is(200)
    };
    let (written, _) = tokio::join!(writers, set);
    let events = ada.get(&format!("{path}/events?limit=1000")).await.ok();
    let events: Vec<&str> =
        events.as_array().unwrap().iter().rev().map(|event| event["event_type"].as_str().unwrap()).collect();
    let last = events.iter().rposition(|kind| *kind == "governance.policy_set").unwrap();
    assert!(!events[last..].contains(&"note"), "somebody wrote after the policy was set: {events:?}");
    let notes = events.iter().filter(|kind| **kind == "note").count();
    assert_eq!(notes, written.iter().filter(|reply| reply.status == 200).count());
    written.iter().filter(|reply| reply.status != 200).for_each(|reply| {
        violates(reply, "write_scope");
    });
    other.server.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_work_through_every_door() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    Hand::of(&ada, "echo@1").await;
    let intent = governed(&ada, json!({ "write_scope": "assigned_only" })).await;
    let ask = json!({ "agent": "echo", "intent_id": intent });
    let refused = bob.post("/jobs", ask.clone()).await.refused(403, "PERMISSION_DENIED");
    assert_eq!(refused["detail"]["rule"], "write_scope");
    for era in ERAS {
        Mcp::new(&bob, era).refused("submit_job", ask.clone(), "governance_violation").await;
    }
    assign(&ada, &intent, "agent.bob").await.ok();
    bob.post("/jobs", ask.clone()).await.is(201);
    Mcp::new(&bob, ERAS[0]).ok("submit_job", ask).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_policy_everything_is_as_it_was() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    for policy in [json!(null), json!({}), json!({ "require_all_completed": true })] {
        let made = ada.post("/intents", json!({ "title": "t", "governance_policy": policy })).await.ok();
        assert_eq!(made["governance_policy"], policy);
        let intent = made["id"].as_str().unwrap();
        bob.seen(&json!(1))
            .post(&format!("/intents/{intent}/state"), json!({ "state": { "a": 1 } }))
            .await
            .ok();
        bob.post(&format!("/intents/{intent}/events"), json!({ "event_type": "note" })).await.ok();
        assign(&bob, intent, "agent.eve").await.ok();
        bob.delete(&format!("/intents/{intent}/agents/agent.eve")).await.ok();
        become_(&bob, intent, "completed", None).await.ok();
        assert!(told(&ada, intent, "governance.violation").await.is_empty());
        assert!(told(&ada, intent, "governance.approval_enforced").await.is_empty());
    }
    // An invalid policy is refused at creation.
    for policy in [json!({ "completion_mode": "never" }), json!({ "max_cost": -1 })] {
        let refused = ada.post("/intents", json!({ "title": "t", "governance_policy": policy })).await;
        refused.refused(422, "invalid_request");
    }
    let nobody = json!({ "title": "t", "governance_policy": { "escalate_to": "human.nobody" } });
    ada.post("/intents", nobody).await.refused(422, "unprocessable");
    assert_eq!(ids(&ada.get("/intents").await.ok()["intents"]).len(), 3);
    world.end().await;
}
