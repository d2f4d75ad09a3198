//! Another agent's graphs and portfolios, for the test of every operation.

use entente_harness::{Client, Value, World, json};

/// Creates the objects that the paths refer to.
pub async fn make(_: &World, owner: &Client, intent: &str) -> Vec<(&'static str, String)> {
    let folio = owner.post("/portfolios", json!({ "name": "private" })).await.is(200);
    let folio = folio["id"].as_str().unwrap().to_owned();
    owner.post(&format!("/portfolios/{folio}/intents"), json!({ "intent_id": intent })).await.is(200);
    let first = owner.post("/intents", json!({ "title": "private" })).await.is(200);
    let first = first["id"].as_str().unwrap().to_owned();
    let version = owner.get(&format!("/intents/{intent}")).await.ok()["version"].clone();
    let path = format!("/intents/{intent}/dependencies");
    owner.seen(&version).post(&path, json!({ "dependency_id": first })).await.is(200);
    vec![("portfolio_id", folio), ("dependency_id", first)]
}

/// Valid bodies.
pub fn body(path: &str) -> Option<Value> {
    match path.strip_prefix("/api/v1/")? {
        "portfolios" => Some(json!({ "name": "theirs" })),
        "portfolios/{portfolio_id}/intents" => {
            Some(json!({ "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" }))
        }
        "portfolios/{portfolio_id}/status" => Some(json!({ "status": "completed" })),
        "intents/{intent_id}/children" => Some(json!({ "title": "theirs" })),
        "intents/{intent_id}/dependencies" => {
            Some(json!({ "dependency_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" }))
        }
        _ => None,
    }
}
