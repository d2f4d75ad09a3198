//! Calls every operation of the OpenAPI document without a key, with a key of the wrong scope and as a stranger;
//! all are refused. A new operation is covered without a line here.

pub(crate) mod bodies;
mod coord;
mod federation;
mod governance;
mod graphs;
mod inboxes;
mod jobs;
mod ledgers;
mod memory;
mod people;
mod places;
mod spending;
mod triggers;
mod vaults;

use entente_api::app;

use self::bodies::body;
use self::places::Places;
use super::openapi::operations;
use entente_harness::{Client, Value, World, json};

/// Public operations that need no key. At `/arcp` the first frame carries it (`arcp_sessions.rs`).
const OPEN: &[&str] = &[
    "/healthz",
    "/health",
    "/readyz",
    "/metrics",
    "/api/v1/server/keys",
    "/arcp",
    // Discovery by other servers and their requests, which are signed (`federation/hostile.rs`).
    "/.well-known/openintent-federation.json",
    "/.well-known/did.json",
    "/api/v1/federation/receive",
    "/api/v1/federation/callbacks",
    "/.well-known/openintent.json",
    "/.well-known/openintent-compat.json",
    "/api/v1/server/config",
    // A webhook's sender has no key and proves that it knows the trigger's secret (`triggers/hooks.rs`).
    "/api/v1/hooks/{trigger_id}",
    "/api/v1/hooks/{trigger_id}/{token}",
];

/// Operations on the caller itself or on the directory of agents, open to every key with the right scope. The test
/// with a stranger skips them.
const NOBODYS: &[&str] = &[
    // The caller's own mailbox and channels, if none is named.
    "GET /api/v1/aee/stream",
    "GET /api/v1/aee/subscriptions",
    // Each item of a batch has its own result.
    "POST /api/v1/aee/envelopes/batch",
    "GET /api/v1/agents",
    // Exported agents are public; the status counts only the caller's own dispatches.
    "GET /api/v1/federation/agents",
    "GET /api/v1/federation/status",
    // The caller's own entries, and shared ones on intents that it can read; others are not listed.
    "GET /api/v1/agents/{agent_id}/memory",
    // Schemas are public.
    "GET /api/v1/aee/conformance",
    "GET /api/v1/aee/schemas",
    "GET /api/v1/aee/schemas/envelope/aee-v1.schema.json",
    "GET /api/v1/aee/schemas/intents/{file}",
    // Every caller that may submit jobs may list the agents that run them. Jobs and workers of others are not
    // listed.
    "GET /api/v1/arcp/agents",
    // The caller's own limits, and those of its agents.
    "GET /api/v1/arcp/limits",
    "GET /api/v1/jobs",
    "GET /api/v1/jobs/events",
    "GET /api/v1/jobs/counts",
    "POST /api/v1/jobs/rerun",
    "POST /api/v1/jobs",
    "GET /api/v1/workers",
    "POST /api/v1/workers",
    "POST /api/v1/agents",
    "POST /api/v1/agents/register",
    "GET /api/v1/agents/{agent_id}",
    "GET /api/v1/agents/{agent_id}/record",
    "GET /api/v1/events",
    // Identities are public, so that everyone can verify with them.
    "GET /api/v1/agents/{agent_id}/identity",
    "POST /api/v1/agents/{agent_id}/identity/verify",
    // Those of others' intents are not listed.
    "GET /api/v1/checkpoints",
    "GET /api/v1/escalations",
    "GET /api/v1/intents",
    "POST /api/v1/intents",
    "GET /api/v1/principals/me",
    "GET /api/v1/subscribe",
    "GET /api/v1/subscribe/agents/{agent_id}",
    "GET /api/v1/agents/{agent_id}/subscribe",
    // Anybody may request access to a closed intent: that is the purpose of the route (RFC-0011).
    "POST /api/v1/intents/{intent_id}/access-requests",
    // Requesters see their own requests; those of others are not listed.
    "GET /api/v1/intents/{intent_id}/access-requests",
    // Refused for the missing scope `admin`, which the test of scopes covers.
    "GET /api/v1/audit",
    "GET /api/v1/bundles",
    "POST /api/v1/bundles",
    "GET /api/v1/log-filter",
    "PUT /api/v1/log-filter",
    "DELETE /api/v1/log-filter",
    "GET /api/v1/credentials",
    // The caller's own; those of others are not listed.
    "GET /api/v1/vaults",
    "POST /api/v1/vaults",
    "GET /api/v1/agents/{agent_id}/grants",
    "GET /api/v1/subscriptions",
    "POST /api/v1/subscriptions",
    "GET /api/v1/portfolios",
    "POST /api/v1/portfolios",
    // The caller's own; for another's entity the list is empty.
    "GET /api/v1/aee/keys",
    "GET /api/v1/aee/logs",
    "POST /api/v1/aee/logs",
    // What the caller may read; the rest is left out.
    "GET /api/v1/waits",
    "GET /api/v1/search",
    // The caller's own; those of others are not listed.
    "GET /api/v1/budgets",
    "GET /api/v1/spend",
    "GET /api/v1/stops",
    "POST /api/v1/spend/reservations",
    "GET /api/v1/ext-authz",
    "GET /api/v1/ext-authz/{path}",
    "GET /api/v1/moments",
    "GET /api/v1/moments/inbox",
    "GET /api/v1/moments/rates",
    "GET /api/v1/moments/stream",
    // The caller's own; those of others are not listed.
    "GET /api/v1/triggers",
    "POST /api/v1/triggers",
    // Every agent may ask a person, and sees who can be asked.
    "GET /api/v1/people",
    "POST /api/v1/moments",
    // The server's public key, for every person's browser.
    "GET /api/v1/contact-points/push-key",
    "POST /api/v1/moments/deliberations",
];

async fn call(client: &Client, method: &str, places: &Places, template: &str) -> entente_harness::Reply {
    let mut body = body(template);
    let on_intents = ["v1/tasks", "v1/plans", "v1/coordinators", "v1/decisions", "federation/dispatch"];
    if on_intents.iter().any(|end| template.ends_with(end)) {
        body["intent_id"] = json!(places.fill("{intent_id}"));
    }
    vaults::fill(&mut body, places);
    let sent = matches!(method, "POST" | "PUT" | "PATCH").then(|| body.to_string());
    let query = if template.ends_with("/search") { "?q=private" } else { "" };
    let path = format!("/{}{query}", places.fill(template));
    client.with("if-match", "1").send(method, &path, sent).await
}

fn all() -> Vec<(String, String)> {
    let document: Value = serde_json::from_str(&app::document().json).unwrap();
    let each = operations(&document).into_iter().map(|(path, method, _)| (path, method));
    each.filter(|(path, _)| !OPEN.contains(&path.as_str())).collect()
}

#[tokio::test]
async fn nobody_gets_in_without_a_key() {
    let world = World::start().await;
    let places = Places::make(&world).await;
    let strangers = [world.anon(), world.client("wrong"), world.client("ent_000000000000_x")];
    for (path, method) in all() {
        for client in &strangers {
            let reply = call(client, &method, &places, &path).await;
            // The job resources use ARCP's error codes (§12).
            let jobs = ["jobs", "workers", "arcp", "credentials"].map(|first| format!("/api/v1/{first}"));
            let own = path.starts_with("/api/v1/credentials") && !vaults::of_jobs(&method, &path);
            let words = if jobs.iter().any(|first| path.starts_with(first)) && !own {
                "UNAUTHENTICATED"
            } else {
                "unauthenticated"
            };
            let body = reply.refused(401, words);
            assert_eq!(
                body["message"], "Invalid or missing API key",
                "{method} {path} says more than it should"
            );
            assert!(reply.headers.contains_key("www-authenticate"), "{method} {path}");
        }
    }
    world.end().await;
}

#[tokio::test]
async fn a_key_opens_only_what_its_scopes_say() {
    let world = World::start().await;
    let places = Places::make(&world).await;
    let admin = world.admin().await;
    admin.post("/principals", json!({ "id": "agent.narrow", "kind": "agent" })).await.is(201);
    // The scopes are a closed list; this key has the least powerful one.
    let made =
        admin.post("/principals/agent.narrow/keys", json!({ "scopes": ["agents:read"] })).await.is(201);
    let narrow = world.client(made["key"].as_str().unwrap());
    let open = [
        "/api/v1/agents",
        "/api/v1/agents/{agent_id}",
        "/api/v1/agents/{agent_id}/record",
        "/api/v1/agents/{agent_id}/identity",
        "/api/v1/federation/agents",
    ];
    let verify = "/api/v1/agents/{agent_id}/identity/verify";
    for (path, method) in all() {
        let reply = call(&narrow, &method, &places, &path).await;
        let opened = method == "GET" && (open.contains(&path.as_str()) || path == "/api/v1/principals/me");
        if opened || path == verify {
            assert_eq!(reply.status, 200, "{method} {path}");
            continue;
        }
        assert!(
            [403, 404].contains(&reply.status),
            "{method} {path} answered {} to a key without its scope: {}",
            reply.status,
            reply.text
        );
    }
    world.end().await;
}

#[tokio::test]
async fn a_stranger_finds_nothing() {
    let world = World::start().await;
    let places = Places::make(&world).await;
    let stranger = world.agent("agent.stranger").await;
    let mut tried = 0;
    for (path, method) in all() {
        if NOBODYS.contains(&format!("{method} {path}").as_str()) {
            continue;
        }
        tried += 1;
        let reply = call(&stranger, &method, &places, &path).await;
        assert!(
            [403, 404].contains(&reply.status),
            "{method} {path} answered {} to a stranger: {}",
            reply.status,
            reply.text
        );
        assert!(
            !reply.text.contains("private"),
            "{method} {path} tells a stranger the title: {}",
            reply.text
        );
    }
    assert!(tried > 35, "only {tried} operations were tried");
    world.end().await;
}
