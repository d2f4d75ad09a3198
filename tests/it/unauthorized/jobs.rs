//! Bodies for jobs after their submission.

use entente_harness::{Value, json};

/// Returns a valid body for an operation on a job, or on an agent's queue.
pub fn body(path: &str) -> Option<Value> {
    if path.ends_with("/queue") {
        return Some(json!({ "state": "open" }));
    }
    let (_, rest) = path.split_once("/jobs/")?;
    Some(match rest {
        "rerun" => json!({ "idempotency_key": "x" }),
        "{job_id}/signals" => json!({ "name": "input" }),
        "{job_id}/signals/wait" => json!({ "claim_token": "x" }),
        "{job_id}/signals/ack" => json!({ "claim_token": "x", "seq": 0 }),
        _ => return None,
    })
}
