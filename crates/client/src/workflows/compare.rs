//! How what a file says is compared with what a server has.

use entente_domain::canonical::{hex, sha256};
use serde_json::{Map, Value};

/// A key under which the same is done once, however often it is sent.
pub(super) fn once(parts: &[&str]) -> String {
    format!("workflow-{}", hex(&sha256(parts.join("\0"))))
}

/// What of `wanted` is not so in `found`.
pub(super) fn differing(wanted: &Map<String, Value>, found: &Value) -> Map<String, Value> {
    let differs = |(name, value): &(&String, &Value)| found[name.as_str()] != **value;
    wanted.iter().filter(differs).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The names of members, for people.
pub(super) fn names(members: &Map<String, Value>) -> String {
    members.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// An object of those members of which something is said.
pub(super) fn said<const N: usize>(members: [(&str, Option<Value>); N]) -> Map<String, Value> {
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Two things to say, or the one that there is.
pub(super) fn both(first: &str, second: &str) -> String {
    [first, second].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}
