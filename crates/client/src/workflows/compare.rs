//! Comparison of a workflow file with a server's records.

use entente_domain::canonical::{hex, sha256};
use serde_json::{Map, Value};

/// Returns an idempotency key derived from `parts`.
pub(super) fn once(parts: &[&str]) -> String {
    format!("workflow-{}", hex(&sha256(parts.join("\0"))))
}

/// Returns the members of `wanted` that differ in `found`.
pub(super) fn differing(wanted: &Map<String, Value>, found: &Value) -> Map<String, Value> {
    let differs = |(name, value): &(&String, &Value)| found[name.as_str()] != **value;
    wanted.iter().filter(differs).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the names of members, for people.
pub(super) fn names(members: &Map<String, Value>) -> String {
    members.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Returns an object of the members that have a value.
pub(super) fn said<const N: usize>(members: [(&str, Option<Value>); N]) -> Map<String, Value> {
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Joins two texts, either of which may be empty.
pub(super) fn both(first: &str, second: &str) -> String {
    [first, second].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}
