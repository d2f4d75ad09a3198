//! Policies and the other resources: a refused operation leaves nothing behind, and no path bypasses a policy.

use super::{become_, governed, told, version, violates};
use entente_harness::{World, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_cost_that_is_refused_leaves_nothing() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = governed(&ada, json!({ "max_cost": 10 })).await;
    let path = format!("/intents/{intent}/costs");
    let cost = |amount: &str, unit: &str| json!({ "cost_type": "tokens", "amount": amount, "unit": unit });
    violates(&ada.post(&path, cost("1000", "usd")).await, "max_cost");
    violates(&ada.post(&path, cost("1000", "usd")).await, "max_cost");
    ada.post(&path, cost("10", "usd")).await.ok();
    violates(&ada.post(&path, cost("0.01", "usd")).await, "max_cost");
    // Each unit separately: units are never added together.
    ada.post(&path, cost("10", "eur")).await.ok();
    let costs = ada.get(&path).await.ok();
    assert_eq!(costs["costs"].as_array().unwrap().len(), 2, "{costs}");
    assert_eq!(told(&ada, &intent, "governance.violation").await.len(), 1, "once a minute");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_is_refused_calls_no_question_off() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let intent = governed(&agent, json!({ "require_status_reason": true })).await;
    become_(&agent, &intent, "active", Some("now")).await.ok();
    let question = json!({ "question": "Go on?", "response_type": "text", "principal_id": "human.ada", "timeout_seconds": 600 });
    agent.post(&format!("/intents/{intent}/suspend"), question).await.is(201);
    let before = (version(&agent, &intent).await, ada.get("/moments/inbox").await.ok());
    assert_eq!(before.1["moments"].as_array().unwrap().len(), 1);
    violates(&become_(&agent, &intent, "active", None).await, "require_status_reason");
    let after = (version(&agent, &intent).await, ada.get("/moments/inbox").await.ok());
    assert_eq!((before.0, &before.1["moments"]), (after.0, &after.1["moments"]));
    become_(&agent, &intent, "active", Some("it was answered aside")).await.ok();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_gets_round_those_who_are_assigned() {
    let world = World::start().await;
    let (ada, eve) = (world.agent("agent.ada").await, world.agent("agent.eve").await);
    let other = ada.post("/intents", json!({ "title": "other" })).await.ok()["id"].clone();
    let intent = governed(&ada, json!({ "write_scope": "assigned_only" })).await;
    let path = format!("/intents/{intent}");
    let policy = json!({ "strategy": "fixed", "max_retries": 1, "fallback_agent_id": "agent.eve", "failure_threshold": 1 });
    let question = json!({ "question": "Go on?", "response_type": "text" });
    let tries = [
        eve.put(&format!("{path}/retry-policy"), policy).await,
        eve.post(&format!("{path}/failures"), json!({ "attempt_number": 1 })).await,
        eve.post(&format!("{path}/costs"), json!({ "cost_type": "tokens", "amount": 1, "unit": "usd" })).await,
        eve.post(&format!("{path}/attachments"), json!({ "filename": "a", "mime_type": "text/plain", "size": 1, "storage_url": "https://files.example/a" })).await,
        eve.seen(&version(&ada, &intent).await).post(&format!("{path}/dependencies"), json!({ "dependency_id": other })).await,
        eve.post(&format!("{path}/suspend"), question).await,
    ];
    for reply in &tries {
        violates(reply, "write_scope");
    }
    assert_eq!(ada.get(&format!("{path}/agents")).await.ok(), json!([]), "nobody was assigned");
    assert_eq!(version(&ada, &intent).await, 1);
    world.end().await;
}
