//! Federation: data for the test of every operation.

use entente_harness::{Value, json};

/// The body of a dispatch; its intent is filled in later.
pub fn body(path: &str) -> Option<Value> {
    path.ends_with("/federation/dispatch").then(|| json!({ "target_server": "https://b.example" }))
}

/// An unknown dispatch: a server without peers has none. `federation.rs` tests those of others.
pub const DISPATCH: &str = "disp_01J9ZK4T6Q8R2V5X7Y9B1C3D5F";
