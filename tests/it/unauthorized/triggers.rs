//! Somebody else's trigger, for the sweep over every operation.

use crate::harness::{Client, Value, World, json};

/// What the paths of triggers name.
pub async fn make(_world: &World, owner: &Client, _intent: &str) -> Vec<(&'static str, String)> {
    let made = owner.post("/triggers", json!({ "name": "private", "type": "webhook" })).await.is(200);
    vec![("trigger_id", made["trigger_id"].as_str().unwrap().to_owned()), ("token", "0".repeat(64))]
}

/// Bodies that would be lawful.
pub fn body(path: &str) -> Option<Value> {
    path.contains("/triggers").then(|| json!({ "name": "theirs", "type": "webhook" }))
}
