//! Assignments and delegations (RFC-0001, OI-11.5.2): only an agent that is assigned to the intent itself hands it on.

use entente_harness::{Client, Value, World, json, talk};

async fn assign(client: &Client, intent: &str, agent: &str) -> Value {
    client.post(&format!("/intents/{intent}/agents"), json!({ "agent_id": agent })).await.is(200)
}

/// Returns the delegator of an agent's assignment, which the list and the last event must agree on.
async fn delegator(client: &Client, intent: &str, agent: &str) -> Value {
    let of_agent = |list: &Value, member: &str| {
        let found = list.as_array().unwrap().iter();
        let payload = |one: &Value| if member.is_empty() { one.clone() } else { one[member].clone() };
        found.map(payload).find(|one| one["agent_id"] == agent).unwrap()
    };
    let listed = client.get(&format!("/intents/{intent}/agents")).await.ok();
    let told = client.get(&format!("/intents/{intent}/events?event_type=agent_assigned")).await.ok();
    let (listed, told) = (of_agent(&listed, ""), of_agent(&told, "payload"));
    assert!(told.as_object().unwrap().contains_key("delegated_by"), "{told}");
    assert_eq!(listed["delegated_by"], told["delegated_by"], "the list and the log disagree");
    listed["delegated_by"].clone()
}

#[tokio::test]
async fn only_an_agent_that_has_the_intent_hands_it_on() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, _) = talk(&ada, json!({})).await;
    // Ada created the intent, and has not taken it on.
    let made = assign(&ada, &intent, "agent.bob").await;
    assert_eq!(made["delegated_by"], json!(null));
    assert_eq!(delegator(&ada, &intent, "agent.bob").await, json!(null));
    let made = assign(&bob, &intent, "agent.cy").await;
    assert_eq!(made["delegated_by"], "agent.bob");
    assert_eq!(delegator(&ada, &intent, "agent.cy").await, "agent.bob");
    // An agent that changes its own assignment hands nothing on.
    assert_eq!(assign(&bob, &intent, "agent.bob").await["delegated_by"], json!(null));
    assert_eq!(delegator(&ada, &intent, "agent.bob").await, json!(null));
    // The last assignment counts.
    assert_eq!(assign(&ada, &intent, "agent.cy").await["delegated_by"], json!(null));
    assert_eq!(delegator(&ada, &intent, "agent.cy").await, json!(null));
    // An agent that gave the intent back has nothing to hand on.
    bob.delete(&format!("/intents/{intent}/agents/agent.bob")).await.ok();
    assert_eq!(assign(&bob, &intent, "agent.dee").await["delegated_by"], json!(null));
    assert_eq!(delegator(&ada, &intent, "agent.dee").await, json!(null));
    // Nor does an operator who acts as an agent without the intent.
    let operator = world.any().acting_as("agent.eve");
    assert_eq!(assign(&operator, &intent, "agent.fay").await["delegated_by"], json!(null));
    // Another intent is another matter.
    let (other, _) = talk(&ada, json!({})).await;
    assign(&ada, &other, "agent.ada").await;
    assert_eq!(assign(&ada, &other, "agent.bob").await["delegated_by"], "agent.ada");
    world.end().await;
}

#[tokio::test]
async fn a_retry_of_the_request_is_the_same_delegation() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, _) = talk(&ada, json!({})).await;
    assign(&ada, &intent, "agent.bob").await;
    let path = format!("/intents/{intent}/agents");
    let first = bob.once("one").post(&path, json!({ "agent_id": "agent.cy" })).await.is(200);
    bob.delete(&format!("{path}/agent.bob")).await.ok();
    let again = bob.once("one").post(&path, json!({ "agent_id": "agent.cy" })).await.is(200);
    assert_eq!((&first, &first["delegated_by"]), (&again, &json!("agent.bob")));
    world.end().await;
}

#[tokio::test]
async fn coordinators_and_fallbacks_follow_the_same_rule() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (intent, _) = talk(&ada, json!({})).await;
    let appoint = async |agent: &str, role: &str| {
        let ask = json!({ "intent_id": intent, "agent_id": agent, "role": role });
        ada.post("/coordinators", ask).await.is(200);
    };
    appoint("agent.cy", "coordinator").await;
    assert_eq!(delegator(&ada, &intent, "agent.cy").await, json!(null));
    assign(&ada, &intent, "agent.ada").await;
    appoint("agent.dee", "reviewer").await;
    assert_eq!(delegator(&ada, &intent, "agent.dee").await, "agent.ada");
    // A failure of an agent without the intent hands nothing on.
    let policy = json!({ "strategy": "none", "fallback_agent_id": "agent.eve" });
    ada.put(&format!("/intents/{intent}/retry-policy"), policy.clone()).await.is(200);
    bob.post(&format!("/intents/{intent}/failures"), json!({})).await.is(200);
    assert_eq!(delegator(&ada, &intent, "agent.eve").await, json!(null));
    let (other, _) = talk(&ada, json!({})).await;
    assign(&ada, &other, "agent.bob").await;
    ada.put(&format!("/intents/{other}/retry-policy"), policy).await.is(200);
    bob.post(&format!("/intents/{other}/failures"), json!({})).await.is(200);
    assert_eq!(delegator(&ada, &other, "agent.eve").await, "agent.bob");
    world.end().await;
}
