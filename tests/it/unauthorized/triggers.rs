//! Another agent's trigger, for the test of every operation.

use entente_harness::{Client, Value, World, json};

/// Creates the objects that the paths refer to.
pub async fn make(_world: &World, owner: &Client, _intent: &str) -> Vec<(&'static str, String)> {
    let made = owner.post("/triggers", json!({ "name": "private", "type": "webhook" })).await.is(200);
    vec![("trigger_id", made["trigger_id"].as_str().unwrap().to_owned()), ("token", "0".repeat(64))]
}

/// Valid bodies.
pub fn body(path: &str) -> Option<Value> {
    path.contains("/triggers").then(|| json!({ "name": "theirs", "type": "webhook" }))
}
