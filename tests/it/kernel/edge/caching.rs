//! Documents that clients keep: their entity tags, and the answers to those who have them already.

use entente_harness::{Client, Reply, World, json};

async fn known(client: &Client, method: &str, path: &str, tags: &str) -> Reply {
    client.with("if-none-match", tags).send(method, path, None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_sent_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (public, brief, private) = ("public, no-cache", "public, max-age=300", "private, no-cache");
    let mut tags = Vec::new();
    for (path, kept) in [
        ("//openapi.json", public),
        ("//docs", public),
        ("//docs/api/", public),
        ("//docs/groups/jobs.json", public),
        ("//docs/api/swagger-ui-bundle.js", public),
        ("//assets/entente.css", public),
        ("//assets/entente.js", public),
        ("//.well-known/openintent.json", brief),
        ("//.well-known/openintent-compat.json", brief),
        ("//.well-known/oauth-protected-resource", brief),
        ("//.well-known/oauth-protected-resource/mcp", brief),
        ("//.well-known/oauth-authorization-server", brief),
        ("/aee/schemas/envelope/aee-v1.schema.json", private),
        ("/aee/schemas/intents/aee.status.ping.task.schema.json", private),
    ] {
        let first = ada.get(path).await;
        assert_eq!((first.status, first.header("cache-control")), (200, kept), "{path}");
        let tag = first.header("etag").to_owned();
        assert!(tag.starts_with('"') && tag.len() == 34, "{path}: {tag}");
        assert_eq!(ada.get(path).await.header("etag"), tag, "{path}");
        for given in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
            for method in ["GET", "HEAD"] {
                let again = known(&ada, method, path, &given).await;
                assert_eq!((again.status, again.text.as_str()), (304, ""), "{method} {path} {given}");
                assert_eq!((again.header("etag"), again.header("cache-control")), (tag.as_str(), kept));
            }
        }
        for given in ["\"other\"", "W/\"other\"", "nonsense"] {
            assert_eq!(known(&ada, "GET", path, given).await.text, first.text, "{path} {given}");
        }
        // Compressed, it is the same document in other bytes.
        let small = accepting_gzip(&ada).send("HEAD", path, None).await;
        if small.headers.contains_key("content-encoding") {
            let weak = small.header("etag").to_owned();
            assert_eq!(weak, format!("W/{tag}"), "{path}");
            assert_eq!(known(&accepting_gzip(&ada), "GET", path, &weak).await.status, 304, "{path}");
            assert_eq!(known(&ada, "GET", path, &weak).await.status, 304, "{path}");
        } else {
            assert!(first.text.len() <= 1_024, "{path} is large and not compressed");
        }
        tags.push(tag);
    }
    let count = tags.len();
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), count, "each content has its own tag");
    world.end().await;
}

/// Returns the client as one that accepts gzip; for HEAD, whose answer has no body to decode.
fn accepting_gzip(client: &Client) -> Client {
    client.with("accept-encoding", "gzip")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_change_or_be_secret_is_never_kept() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = ada.post("/intents", json!({ "title": "t" })).await.ok();
    let path = format!("/intents/{}", intent["id"].as_str().unwrap());
    // Its version is for writes. A change of its leases, say, does not change it.
    let known = known(&ada, "GET", &path, "\"1\"").await;
    assert_eq!((known.status, known.header("etag")), (200, "\"1\""));
    for path in [
        path.as_str(),
        "/intents",
        "/principals/me",
        "/server/config",
        "//healthz",
        "//metrics",
        "//login",
        "//nowhere",
    ] {
        for method in ["GET", "HEAD"] {
            let answer = ada.send(method, path, None).await;
            assert_eq!(answer.header("cache-control"), "no-store", "{method} {path}");
        }
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_published_anew_is_another_document() {
    let world = World::start().await;
    let owner = world.agent("agent.owner").await;
    let path = "/aee/schemas/intents/ops.backup.check.task.schema.json";
    owner.put(path, json!({ "type": "object" })).await.ok();
    let tag = owner.get(path).await.header("etag").to_owned();
    assert_eq!(known(&owner, "GET", path, &tag).await.status, 304);
    owner.put(path, json!({ "type": "object", "required": ["cluster"] })).await.ok();
    let again = known(&owner, "GET", path, &tag).await;
    assert_eq!(again.ok()["required"], json!(["cluster"]));
    assert_ne!(again.header("etag"), tag);
    // Nobody without a key learns that it is still the same.
    assert_eq!(known(&world.anon(), "GET", path, again.header("etag")).await.status, 401);
    world.end().await;
}
