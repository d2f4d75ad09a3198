//! What the sweep needs to know of federation.

use crate::harness::{Value, json};

/// The body of a dispatch; its intent is filled in.
pub fn body(path: &str) -> Option<Value> {
    path.ends_with("/federation/dispatch").then(|| json!({ "target_server": "https://b.example" }))
}

/// A dispatch of nobody's: a server that knows no peers has none. Those of others are `federation.rs`'s to try.
pub const DISPATCH: &str = "disp_01J9ZK4T6Q8R2V5X7Y9B1C3D5F";
