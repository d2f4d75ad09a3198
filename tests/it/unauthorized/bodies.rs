//! Returns a body for every operation that takes one.

use entente_harness::identities::key;
use entente_harness::moments;
use entente_harness::{Value, json};

/// Bodies that the modules of resources define; they take precedence over those here.
const NOUNS: &[fn(&str) -> Option<Value>] = &[
    super::coord::body,
    super::governance::body,
    super::memory::body,
    super::vaults::body,
    super::triggers::body,
    super::graphs::body,
    super::federation::body,
    super::ledgers::body,
    super::spending::body,
    super::jobs::body,
    super::inboxes::body,
    super::people::body,
];

/// Returns a valid body, so that the refusal is about the caller and not about the body.
pub fn body(path: &str) -> Value {
    NOUNS.iter().find_map(|noun| noun(path)).unwrap_or_else(|| older(path))
}

fn older(path: &str) -> Value {
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
        "checkpoint" if path.contains("/jobs/") => json!({ "claim_token": "x", "checkpoint": 1 }),
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
        "checkpoints" => json!({ "scope": "server" }),
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
