//! A person's contact point, and bodies of the operations on it.

use entente_harness::{Value, World, json};

/// Creates a contact point of a person, and returns its id.
pub async fn contact_point(world: &World) -> String {
    let ada = world.human("human.ada").await;
    let ask = json!({ "kind": "slack", "address": "https://hooks.example/private" });
    let made = ada.post("/people/human.ada/contact-points", ask).await.is(201);
    made["id"].as_str().unwrap().to_owned()
}

/// Returns the body of an operation.
pub fn body(path: &str) -> Option<Value> {
    match path.rsplit('/').next() {
        Some("contact-points") => Some(json!({ "kind": "slack", "address": "https://hooks.example/theirs" })),
        Some("confirm") if path.contains("/contact-points/") => Some(json!({ "code": "12345678" })),
        Some("test") if path.contains("/contact-points/") => Some(json!({})),
        Some("{contact_point_id}") => Some(json!({ "active": false })),
        _ => None,
    }
}
