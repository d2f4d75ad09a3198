//! Tasks: creation, and the verbs on them.

use crate::{Client, Value, json};

/// Creates an intent of this client and returns its id.
pub async fn intent(client: &Client) -> String {
    client.post("/intents", json!({ "title": "work" })).await.ok()["id"].as_str().unwrap().to_owned()
}

/// Creates a task on an intent and returns its id.
pub async fn task(client: &Client, intent: &str, more: Value) -> String {
    let mut ask = json!({ "intent_id": intent, "name": "a task" });
    ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.post("/tasks", ask).await.is(200)["id"].as_str().unwrap().to_owned()
}

/// Performs an action on a task, asserts success and returns the task.
pub async fn act(client: &Client, id: &str, verb: &str, body: Value) -> Value {
    client.post(&format!("/tasks/{id}/{verb}"), body).await.is(200)
}
