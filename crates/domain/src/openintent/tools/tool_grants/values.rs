//! Compares parameter values with constraints. Allowed values match narrowly, denied values broadly: by the text that
//! would be sent, however it is written.

use std::cmp::Ordering;

use serde_json::Value;

use crate::globs::glob_matches;

/// Returns whether a value is allowed.
pub(super) fn fits(said: &Value, value: &Value) -> bool {
    match (said, value) {
        (Value::Null, _) => true,
        (Value::Array(items), value) => items.iter().any(|item| item == value || one(item, value)),
        (said, value) => one(said, value),
    }
}

/// Returns whether a value is denied: it equals or contains a denied value, or has the same text.
///
/// A query sends a list as its items, and a number or boolean as text.
pub(super) fn denies(said: &Value, value: &Value) -> bool {
    match said {
        Value::Null => true,
        Value::Array(items) => said == value || items.iter().any(|item| sends(item, value)),
        said => sends(said, value),
    }
}

fn sends(said: &Value, value: &Value) -> bool {
    match value {
        Value::Array(items) => said == value || items.iter().any(|item| sends(said, item)),
        value => one(said, value) || alike(said, value),
    }
}

fn one(said: &Value, value: &Value) -> bool {
    match (said, value) {
        (Value::String(glob), Value::String(text)) => glob_matches(glob, text),
        (said, value) => said == value,
    }
}

/// Returns whether two values have the same text, or are the same number in either form.
fn alike(said: &Value, value: &Value) -> bool {
    let texts = text(said).zip(text(value)).is_some_and(|(said, value)| glob_matches(&said, &value));
    let numbers = number(said).zip(number(value));
    texts || numbers.is_some_and(|(said, value)| said.partial_cmp(&value) == Some(Ordering::Equal))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(yes.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
