//! Intents with a policy (RFC-0013), and their events.

use crate::{Client, Value, json};

/// Creates an intent of `client` with a policy; returns its id.
pub async fn governed(client: &Client, policy: Value) -> String {
    let made =
        client.post("/intents", json!({ "title": "governed", "governance_policy": policy })).await.ok();
    assert_eq!(made["governance_policy"], policy);
    made["id"].as_str().unwrap().to_owned()
}

/// Returns the events of a type, oldest first.
pub async fn told(client: &Client, intent: &str, event_type: &str) -> Vec<Value> {
    let path = format!("/intents/{intent}/events?event_type={event_type}");
    let mut events = client.get(&path).await.ok().as_array().unwrap().clone();
    events.reverse();
    events
}
