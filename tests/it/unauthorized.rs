//! The sweep over every operation of the OpenAPI document: without a key, with a key of the wrong scope, and as a
//! stranger, nobody gets in. A new operation is covered without a line here.

use entente::http::openapi::Document;

use super::envelopes::{letter, with};
use super::harness::{Client, Value, World, json};
use super::moments;
use super::openapi::operations;
use crate::identities::{key, register};

/// Operations that say nothing about anybody and need no key. At `/arcp` the first frame has it (`arcp_sessions.rs`).
const OPEN: [&str; 6] = ["/healthz", "/health", "/readyz", "/metrics", "/api/v1/server/keys", "/arcp"];

/// Operations about the caller itself or the directory of agents, which every key with the right scope may see; the
/// stranger's sweep leaves them out.
const NOBODYS: [&str; 43] = [
    // One's own mailbox and channels, when none is named.
    "GET /api/v1/aee/stream",
    "GET /api/v1/aee/subscriptions",
    // Each of a batch is answered for itself.
    "POST /api/v1/aee/envelopes/batch",
    "GET /api/v1/agents",
    // Schemas are there to be written by, by everybody.
    "GET /api/v1/aee/conformance",
    "GET /api/v1/aee/schemas",
    "GET /api/v1/aee/schemas/envelope/aee-v1.schema.json",
    "GET /api/v1/aee/schemas/intents/{file}",
    // Which agents run jobs everybody may know who may submit some; jobs and workers of others are not listed.
    "GET /api/v1/arcp/agents",
    "GET /api/v1/jobs",
    "GET /api/v1/jobs/events",
    "POST /api/v1/jobs",
    "GET /api/v1/workers",
    "POST /api/v1/workers",
    "POST /api/v1/agents",
    "POST /api/v1/agents/register",
    "GET /api/v1/agents/{agent_id}",
    "GET /api/v1/agents/{agent_id}/record",
    "GET /api/v1/events",
    // Identities are there to be checked with, by everybody.
    "GET /api/v1/agents/{agent_id}/identity",
    "POST /api/v1/agents/{agent_id}/identity/verify",
    // Those of others' intents are not listed.
    "GET /api/v1/checkpoints",
    "GET /api/v1/intents",
    "POST /api/v1/intents",
    "GET /api/v1/principals/me",
    "GET /api/v1/subscribe",
    "GET /api/v1/subscribe/agents/{agent_id}",
    "GET /api/v1/agents/{agent_id}/subscribe",
    // Anybody may ask for access to a closed intent: that is what the route is for (RFC-0011).
    "POST /api/v1/intents/{intent_id}/access-requests",
    // And may see what became of the own request; those of others are not listed.
    "GET /api/v1/intents/{intent_id}/access-requests",
    // Refused for want of the scope `admin`, which the sweep over scopes shows.
    "GET /api/v1/audit",
    "GET /api/v1/credentials",
    // One's own; those of others are not listed.
    "GET /api/v1/subscriptions",
    "POST /api/v1/subscriptions",
    // One's own; of another's entity there are none.
    "GET /api/v1/aee/keys",
    "GET /api/v1/aee/logs",
    "POST /api/v1/aee/logs",
    // One's own; those of others are not listed.
    "GET /api/v1/moments",
    "GET /api/v1/moments/inbox",
    "GET /api/v1/moments/rates",
    "GET /api/v1/moments/stream",
    // Whoever is an agent may ask a person.
    "POST /api/v1/moments",
    "POST /api/v1/moments/deliberations",
];

/// The things that the paths name: those of somebody else.
struct Places(Vec<(&'static str, String)>);

/// What has to do with envelopes, and with a person; the question to it.
async fn post(world: &World, owner: &Client) -> Value {
    let own = json!({ "kid": "private", "algorithm": "ed25519", "public_key": key(1).public_key() });
    owner.post("/aee/keys", own).await.is(201);
    owner.put("/aee/buses/bus.private/subscriptions/agent.owner", json!({})).await.ok();
    let letter = letter(world, "envelope-private", ("agent.owner", "agent.owner"));
    owner.post("/aee/envelopes", with(letter, json!({ "corr": "thread-private" }))).await.is(202);
    owner.put("/aee/schemas/intents/ops.owned.task.schema.json", json!({ "title": "private" })).await.ok();
    world.human("human.ada").await;
    owner.post("/moments", moments::question("human.ada")).await.is(201)
}

impl Places {
    async fn make(world: &World) -> Self {
        let owner = world.agent("agent.owner").await;
        let intent = owner.post("/intents", json!({ "title": "private" })).await.ok();
        let intent = intent["id"].as_str().unwrap().to_owned();
        let channel =
            owner.post(&format!("/intents/{intent}/channels"), json!({ "name": "talk" })).await.ok();
        let channel = channel["id"].as_str().unwrap().to_owned();
        let said = json!({ "sender": "agent.owner", "message_type": "request", "to": "agent.friend", "payload": {} });
        let message = owner.post(&format!("/channels/{channel}/messages"), said).await.ok();
        let task = json!({ "intent_id": intent, "name": "private" });
        let task = owner.post("/tasks", task).await.ok()["id"].as_str().unwrap().to_owned();
        let plan = json!({ "intent_id": intent, "checkpoints": [{ "id": "gate", "after_task": task }] });
        let plan = owner.post("/plans", plan).await.ok()["id"].as_str().unwrap().to_owned();
        let registration = json!({ "agent_id": "agent.owner", "endpoint": "https://owner.example/private" });
        owner.post("/agents/register", registration).await.ok();
        let hook = json!({ "webhook_url": "https://hooks.example/private", "intent_id": intent });
        let hook = owner.post("/subscriptions", hook).await.is(201);
        let acl = json!({
            "default_policy": "closed",
            "entries": [{ "principal_id": "agent.friend", "principal_type": "agent", "permission": "read" }],
        });
        let acl = owner.put(&format!("/intents/{intent}/acl"), acl).await.ok();
        let entry = acl["entries"][0]["id"].as_str().unwrap().to_owned();
        let outsider = world.agent("agent.outsider").await;
        let ask = json!({ "principal_id": "agent.outsider", "principal_type": "agent", "requested_permission": "read" });
        let request = outsider.post(&format!("/intents/{intent}/access-requests"), ask).await.ok();
        let lease =
            owner.post(&format!("/intents/{intent}/leases"), json!({ "scope": "research" })).await.ok();
        let me = owner.get("/principals/me").await.ok();
        register(&owner, "agent.owner", &key(1)).await;
        let checkpoint =
            world.admin().await.post("/admin/checkpoints", json!({ "intent_id": intent })).await.is(201);
        let events = owner.get(&format!("/intents/{intent}/events")).await.ok();
        // By the name that the paths have.
        owner.put("/arcp/agents/talk/versions/1", json!({})).await.ok();
        let worker = owner.post("/workers", json!({ "name": "private", "agents": ["talk"] })).await.is(201);
        let job = owner.post("/jobs", json!({ "agent": "talk", "input": "private" })).await.is(201);
        let moment = post(world, &owner).await;
        Self(vec![
            ("file", "ops.owned.task.schema.json".to_owned()),
            ("job_id", job["job_id"].as_str().unwrap().to_owned()),
            ("worker_id", worker["worker_id"].as_str().unwrap().to_owned()),
            ("reservation_id", "rsv_01J9ZK4T6Q8R2V5X7Y9B1C3D5F".to_owned()),
            ("version", "1".to_owned()),
            ("intent_id", intent),
            ("channel_id", channel),
            ("checkpoint_id", checkpoint["checkpoint_id"].as_str().unwrap().to_owned()),
            ("event_id", events[0]["id"].as_str().unwrap().to_owned()),
            ("message_id", message["id"].as_str().unwrap().to_owned()),
            ("task_id", task),
            ("plan_id", plan),
            ("name", "talk".to_owned()),
            ("agent_id", "agent.owner".to_owned()),
            ("principal_id", "agent.owner".to_owned()),
            ("key_id", me["key"]["id"].as_str().unwrap().to_owned()),
            ("kid", "private".to_owned()),
            ("entry_id", entry),
            ("request_id", request["id"].as_str().unwrap().to_owned()),
            ("lease_id", lease["id"].as_str().unwrap().to_owned()),
            ("subscription_id", hook["id"].as_str().unwrap().to_owned()),
            ("entity", "agent.owner".to_owned()),
            ("bus", "bus.private".to_owned()),
            ("corr", "thread-private".to_owned()),
            ("envelope_id", "envelope-private".to_owned()),
            ("moment_id", moment["id"].as_str().unwrap().to_owned()),
            // Nobody but an admin hears whether there is one.
            ("credential_id", "cred_01J9ZK4T6Q8R2V5X7Y9B1C3D5F".to_owned()),
        ])
    }

    fn fill(&self, path: &str) -> String {
        // What the path does not name but the query has to.
        let id =
            |name: &str| self.0.iter().find(|(known, _)| *known == name).map(|(_, id)| id.clone()).unwrap();
        let path = &match path {
            "/api/v1/verify/consistency" => {
                let one = id("checkpoint_id");
                format!("{path}?from_checkpoint={one}&to_checkpoint={one}")
            }
            "/api/v1/aee/keys/{kid}" => format!("{path}?entity=agent.owner"),
            _ => path.to_owned(),
        };
        let filled = self
            .0
            .iter()
            .fold(path.to_owned(), |path, (name, value)| path.replace(&format!("{{{name}}}"), value));
        assert!(!filled.contains('{'), "{path} names what this sweep does not know; add it to `Places`");
        filled
    }
}

/// Bodies that would be lawful, so that it is the caller who is refused and not the body.
fn body(path: &str) -> Value {
    let claim = json!({ "claim_token": "x" });
    match path.rsplit('/').next().unwrap() {
        "envelopes" => json!({
            "v": "1", "id": "envelope-theirs", "ts": "2026-11-21T08:00:00Z", "type": "event", "from": "agent.owner",
            "to": "agent.stranger", "intent": "ops.x", "corr": "thread-theirs", "priority": "low", "payload": {},
        }),
        "batch" if path.contains("/aee/") => json!([{ "v": "1" }]),
        "{envelope_id}" => json!({ "decision": "approve" }),
        "ack" if path.contains("/aee/") => json!({ "up_to": 0 }),
        _ if path.contains("/bridges/") => {
            json!({ "kind": "jobs", "entity": "agent.owner", "intents": ["**"], "agent": "talk" })
        }
        "jobs" => json!({ "agent": "talk" }),
        "workers" => json!({ "name": "theirs", "agents": ["talk"] }),
        "directive" => json!({ "directive": "terminate" }),
        "claim" if path.ends_with("/jobs/claim") => json!({ "worker_id": "wrk_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" }),
        "authorize" => json!({ "claim_token": "x", "capability": "tool.call", "target": "x" }),
        "events" if path.contains("/jobs/") => json!({ "claim_token": "x", "events": [] }),
        "delegate" if path.contains("/jobs/") => {
            json!({ "claim_token": "x", "delegate_id": "d", "agent": "talk" })
        }
        "result" | "error" | "settle" | "release" if path.contains("/jobs/") => claim,
        "messages" | "reply" => {
            json!({ "sender": "agent.stranger", "message_type": "broadcast", "payload": {} })
        }
        "batch" => json!({ "messages": [{ "sender": "agent.stranger", "payload": {} }] }),
        "ask" => json!({ "sender": "agent.stranger", "to": "agent.owner", "payload": {}, "timeout": 1 }),
        "intents" => json!({ "title": "theirs" }),
        "channels" | "tasks" => json!({ "name": "theirs" }),
        "agents" | "register" => json!({ "agent_id": "agent.stranger" }),
        "events" => json!({ "event_type": "comment", "actor": "agent.stranger", "payload": {} }),
        "state" => json!({ "patches": [{ "op": "set", "path": "a", "value": 1 }] }),
        "status" => json!({ "status": "active" }),
        "acl" => json!({ "default_policy": "open", "entries": [] }),
        "entries" => {
            json!({ "principal_id": "agent.stranger", "principal_type": "agent", "permission": "admin" })
        }
        "access-requests" => {
            json!({ "principal_id": "agent.stranger", "principal_type": "agent", "requested_permission": "admin" })
        }
        "approve" | "deny" => json!({ "decided_by": "agent.stranger" }),
        "leases" => json!({ "scope": "theirs" }),
        "arbitrate" => json!({ "reason": "theirs" }),
        "decisions" => json!({ "outcome": "theirs" }),
        "identity" => json!({ "public_key": key(2).public_key() }),
        "challenge" => json!({ "challenge": "x", "signature": "x" }),
        "verify" => json!({ "payload": {}, "signature": "x" }),
        "rotate" if path.contains("/credentials/") => claim,
        "rotate" if path.contains("/identity/") => json!({
            "action": "rotate", "new_public_key": key(2).public_key(), "old_public_key": key(1).public_key(),
            "signature": "x",
        }),
        "checkpoints" => json!({ "scope": "house" }),
        "anchor" => json!({ "provider": "theirs", "reference": "r/1" }),
        "replay" => json!({ "since": "2026-11-21T08:00:00Z" }),
        "principals" => json!({ "id": "agent.new", "kind": "agent" }),
        "keys" if path.contains("/aee/") => json!({ "entity": "agent.owner", "algorithm": "HS256" }),
        "keys" => json!({ "label": "theirs" }),
        "delegate" => json!({ "to": "agent.stranger" }),
        "moments" => moments::question("human.ada"),
        "deliberations" => json!({ "principal_id": "human.ada", "text": "not ready" }),
        "resolution" => moments::answer(&json!({ "envelope_digest": "sha256:x" }), moments::option(0)),
        "words" => json!({ "text": "more" }),
        "password" => json!({ "password": "four words are enough" }),
        _ if path.contains("/messages/") => json!({ "status": "read" }),
        _ => json!({}),
    }
}

async fn call(client: &Client, method: &str, places: &Places, template: &str) -> super::harness::Reply {
    let mut body = body(template);
    if template.ends_with("v1/tasks") || template.ends_with("v1/plans") {
        body["intent_id"] = json!(places.fill("{intent_id}"));
    }
    let sent = matches!(method, "POST" | "PUT" | "PATCH").then(|| body.to_string());
    client.with("if-match", "1").send(method, &format!("/{}", places.fill(template)), sent).await
}

fn all() -> Vec<(String, String)> {
    let document: Value = serde_json::from_str(&Document::collect().json).unwrap();
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
            // The resources of jobs say it in ARCP's words (§12).
            let jobs = ["jobs", "workers", "arcp", "credentials"].map(|first| format!("/api/v1/{first}"));
            let words = if jobs.iter().any(|first| path.starts_with(first)) {
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
    // The scopes are a closed list; this key has the one that opens the least.
    let made =
        admin.post("/principals/agent.narrow/keys", json!({ "scopes": ["agents:read"] })).await.is(201);
    let narrow = world.client(made["key"].as_str().unwrap());
    let open = [
        "/api/v1/agents",
        "/api/v1/agents/{agent_id}",
        "/api/v1/agents/{agent_id}/record",
        "/api/v1/agents/{agent_id}/identity",
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
