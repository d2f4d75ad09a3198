//! What the paths of agents' memory name, and a body that would be lawful.

use crate::harness::{Client, Value, World, json};

/// An entry of the owner's that is not shared.
pub async fn make(_world: &World, owner: &Client, _intent: &str) -> Vec<(&'static str, String)> {
    let ask = json!({ "namespace": "private", "key": "private", "value": { "is": "private" } });
    let made = owner.post("/memory", ask).await.is(200);
    vec![("memory_id", made["id"].as_str().unwrap().to_owned())]
}

/// Another's memory is nobody's to write into.
pub fn body(path: &str) -> Option<Value> {
    let ask = json!({ "agent_id": "agent.owner", "key": "theirs", "value": {} });
    path.ends_with("/memory").then_some(ask)
}
