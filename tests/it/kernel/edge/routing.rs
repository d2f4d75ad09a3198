//! Routes are found by their segments (`crates/http/src/routes/index.rs`), as the router of actix alone would find them.

use entente_harness::{World, json};

#[tokio::test]
async fn a_path_finds_its_route_and_nothing_else() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = ada.post("/intents", json!({ "title": "t" })).await.ok();
    let id = intent["id"].as_str().unwrap();
    // Both prefixes, and what a client needs not encode, in fixed segments and in parameters.
    let encoded = format!("%69{}", id.strip_prefix('i').unwrap());
    for path in [
        format!("//v1/intents/{id}"),
        format!("/%69ntents/{id}"),
        format!("//v1/%69ntents/{encoded}"),
        format!("/intents/{encoded}?x=%2F"),
    ] {
        assert_eq!(ada.get(&path).await.ok()["id"], id, "{path}");
    }
    // A fixed segment comes before a parameter, with its own methods only.
    ada.get("/jobs/claim").await.refused(404, "JOB_NOT_FOUND");
    // One segment too many or too few, an empty one, an encoded slash, and a noun that is only a beginning.
    for path in [
        format!("/intents/{id}/"),
        format!("/intents/{id}/events/0/0/0/0"),
        "/intents//events".to_owned(),
        format!("/intents%2F{id}"),
        format!("/intent/{id}"),
        format!("/intentsx/{id}"),
        "/".to_owned(),
        String::new(),
        "//v1".to_owned(),
        format!("//api/v1//intents/{id}"),
    ] {
        let refused = ada.get(&path).await;
        assert!(refused.status == 404 && refused.text.contains("no such path"), "{path}: {}", refused.text);
    }
    let refused = ada.put(&format!("/intents/{id}/events"), json!({})).await;
    assert_eq!((refused.status, refused.header("allow")), (405, "GET, HEAD, POST"));
    // The rest of a path is one parameter, whatever the method.
    for path in ["/ext-authz", "/ext-authz/v1/chat/completions", "//v1/ext-authz/%61/b"] {
        assert_eq!(world.any().get(path).await.status, 200, "{path}");
    }
    assert_eq!(world.any().delete("/ext-authz/a/b").await.status, 200);
    world.end().await;
}
