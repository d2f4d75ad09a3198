//! Bodies of the operations on inboxes.

use crate::harness::{Value, json};

/// Returns the body of an operation.
pub fn body(path: &str) -> Option<Value> {
    match path.rsplit('/').next() {
        Some("seen") if path.contains("/inbox/") => Some(json!({ "place": 0 })),
        Some("inbox") => Some(json!({ "may_wake": [] })),
        _ => None,
    }
}
