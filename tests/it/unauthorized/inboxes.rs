//! Bodies of the operations on inboxes, of turns and of hand-overs.

use entente_harness::{Value, json};

/// Returns the body of an operation.
pub fn body(path: &str) -> Option<Value> {
    match path.rsplit('/').next() {
        Some("seen") if path.contains("/inbox/") => Some(json!({ "place": 0 })),
        Some("handover") => Some(json!({ "to": "agent.owner" })),
        Some("turn") => Some(json!({ "claim": { "worker_id": "wrk_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" } })),
        Some("inbox") => Some(json!({ "may_wake": [] })),
        _ => None,
    }
}
