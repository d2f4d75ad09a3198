//! Another agent's memory, and a valid body.

use entente_harness::{Client, Value, World, json};

/// Creates a private entry as the owner.
pub async fn make(_world: &World, owner: &Client, _intent: &str) -> Vec<(&'static str, String)> {
    let ask = json!({ "namespace": "private", "key": "private", "value": { "is": "private" } });
    let made = owner.post("/memory", ask).await.is(200);
    vec![("memory_id", made["id"].as_str().unwrap().to_owned())]
}

/// A write into the memory of another agent, which is refused.
pub fn body(path: &str) -> Option<Value> {
    let ask = json!({ "agent_id": "agent.owner", "key": "theirs", "value": {} });
    path.ends_with("/memory").then_some(ask)
}
