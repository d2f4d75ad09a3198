//! Another agent's attachments, costs, failures and retry policies.

use entente_harness::{Client, Value, World, json};

/// Creates the objects that the paths refer to.
pub async fn make(_world: &World, owner: &Client, intent: &str) -> Vec<(&'static str, String)> {
    let file = json!({ "filename": "private", "storage_url": "https://private.example/private" });
    let file = owner.post(&format!("/intents/{intent}/attachments"), file).await.ok();
    owner
        .post(
            &format!("/intents/{intent}/costs"),
            json!({ "cost_type": "private", "amount": 1, "unit": "u" }),
        )
        .await
        .ok();
    owner.put(&format!("/intents/{intent}/retry-policy"), json!({})).await.ok();
    owner.post(&format!("/intents/{intent}/failures"), json!({ "error_message": "private" })).await.ok();
    vec![("attachment_id", file["id"].as_str().unwrap().to_owned())]
}

/// Valid bodies.
pub fn body(path: &str) -> Option<Value> {
    match path.rsplit('/').next()? {
        "attachments" => Some(json!({ "filename": "theirs", "storage_url": "https://theirs.example/a" })),
        "costs" => Some(json!({ "cost_type": "theirs", "amount": 1, "unit": "u" })),
        _ => None,
    }
}
