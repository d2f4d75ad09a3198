//! Governance objects that the paths refer to (RFC-0013).

use entente_harness::{Client, Value, World, json};

/// Creates an approval request and an escalation as the owner.
pub async fn make(_world: &World, owner: &Client, intent: &str) -> Vec<(&'static str, String)> {
    let asked = json!({ "action": "private", "reason": "private" });
    let approval = owner.post(&format!("/intents/{intent}/approvals"), asked).await.ok();
    let escalation =
        owner.post(&format!("/intents/{intent}/escalations"), json!({ "reason": "private" })).await.ok();
    let id = |made: &Value| made["id"].as_str().unwrap().to_owned();
    // A lineage has the id of a message; the test has none with answers.
    let lineage = "lin_01J9ZK4T6Q8R2V5X7Y9B1C3D5F".to_owned();
    vec![("approval_id", id(&approval)), ("escalation_id", id(&escalation)), ("lineage_id", lineage)]
}

/// Valid bodies.
pub fn body(path: &str) -> Option<Value> {
    match path.rsplit('/').next()? {
        "governance" => Some(json!({ "completion_mode": "auto" })),
        "log-filter" => Some(json!({ "filter": "warn" })),
        "strict" => Some(json!({ "strict": true })),
        "loop-policy" => Some(json!({ "hops": 12 })),
        "approvals" if path.contains("/intents/") => Some(json!({ "action": "complete" })),
        "escalations" => Some(json!({ "reason": "theirs" })),
        "resolve" if path.contains("/escalations/") => Some(json!({ "resolution": "theirs" })),
        _ => None,
    }
}
