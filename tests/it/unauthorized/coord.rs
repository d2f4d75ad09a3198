//! Another agent's coordinators and suspensions.

use entente_harness::{Client, Value, World, json};

/// Creates the objects that the paths refer to.
pub async fn make(_world: &World, owner: &Client, intent: &str) -> Vec<(&'static str, String)> {
    let ask = json!({ "intent_id": intent, "agent_id": "agent.owner", "role": "private" });
    let made = owner.post("/coordinators", ask).await.is(200);
    vec![("coordinator_id", made["id"].as_str().unwrap().to_owned())]
}

/// Valid bodies.
pub fn body(path: &str) -> Option<Value> {
    let said = match path.rsplit('/').next()? {
        "coordinators" => json!({ "agent_id": "agent.stranger" }),
        "{coordinator_id}" => json!({ "status": "paused" }),
        "decisions" if path.ends_with("v1/decisions") => json!({
            "coordinator_id": "agent.owner", "decision_type": "plan_created", "summary": "theirs", "rationale": "",
        }),
        "suspend" => json!({ "question": "Theirs?", "response_type": "confirm" }),
        "respond" => json!({ "suspension_id": "x", "value": "yes" }),
        _ => return None,
    };
    Some(said)
}
