//! The finding of a check: the server does as its clause says, or something else, or cannot be checked for a reason.

use std::fmt::Display;

use serde_json::Value;

/// Why a check did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The server does something else.
    Failed {
        /// The outcome that the clause wants.
        expected: String,
        /// The actual outcome.
        came: String,
    },
    /// The server cannot be checked, for this reason.
    Skipped(String),
}

/// Result of a check.
pub(crate) type Outcome = Result<(), Finding>;

/// Returns a failure.
pub(crate) fn failed(expected: impl Into<String>, came: impl Display) -> Finding {
    Finding::Failed { expected: expected.into(), came: came.to_string() }
}

/// Returns the reason why a check is not made.
pub(crate) fn skipped(reason: impl Into<String>) -> Finding {
    Finding::Skipped(reason.into())
}

/// Fails unless a condition holds.
pub(crate) fn ensure(holds: bool, expected: impl Into<String>, came: impl Display) -> Outcome {
    if holds { Ok(()) } else { Err(failed(expected, came)) }
}

/// Returns the text at a JSON pointer.
pub(crate) fn text(value: &Value, pointer: &str) -> Result<String, Finding> {
    let found = value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    found.map(str::to_owned).ok_or_else(|| failed(format!("a text at `{pointer}`"), value))
}

/// Fails unless the value at a JSON pointer is this one.
pub(crate) fn same(value: &Value, pointer: &str, expected: impl Into<Value>) -> Outcome {
    let expected = expected.into();
    let found = value.pointer(pointer);
    ensure(
        found == Some(&expected),
        format!("`{pointer}` is {expected}"),
        format!("{} in {value}", found.map_or("nothing".to_owned(), Value::to_string)),
    )
}

/// Fails unless an object has all of these members.
pub(crate) fn members(value: &Value, names: &[&str]) -> Outcome {
    let missing: Vec<&str> = names.iter().copied().filter(|name| value.get(name).is_none()).collect();
    ensure(
        missing.is_empty(),
        format!("the members {}", names.join(", ")),
        format!("without {}: {value}", missing.join(", ")),
    )
}

/// Returns the elements of a list.
pub(crate) fn list(value: &Value) -> Result<&Vec<Value>, Finding> {
    value.as_array().ok_or_else(|| failed("a list", value))
}
