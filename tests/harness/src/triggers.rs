//! Triggers (RFC-0017): creation, lookup and firings.

use crate::{Client, Value, json};

/// Creates a trigger.
pub async fn trigger(client: &Client, kind: &str, more: Value) -> Value {
    let mut ask = json!({ "name": "review", "type": kind });
    ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.post("/triggers", ask).await.is(200)
}

/// Returns the path of a trigger.
pub fn path(trigger: &Value) -> String {
    format!("/triggers/{}", trigger["trigger_id"].as_str().unwrap())
}

/// Returns a trigger.
pub async fn now(client: &Client, trigger: &Value) -> Value {
    client.get(&path(trigger)).await.ok()
}

/// Returns a trigger's firings, oldest first: cause, status and reason.
pub async fn did(client: &Client, trigger: &Value) -> Vec<(String, String, Value)> {
    let history = client.get(&format!("{}/history", path(trigger))).await.ok();
    let word = |one: &Value, member: &str| one[member].as_str().unwrap().to_owned();
    let told = history.as_array().unwrap().iter().rev();
    told.map(|one| (word(one, "cause"), word(one, "status"), one["reason"].clone())).collect()
}

/// Returns all intents, oldest first; those of the same instant in no defined order.
pub async fn intents(client: &Client) -> Vec<Value> {
    let mut found = client.get("/intents?limit=1000").await.ok()["intents"].as_array().unwrap().clone();
    found.reverse();
    found
}
