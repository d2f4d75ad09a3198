//! Labels of jobs: short texts under keys that a submitter chooses, to find its jobs by (beyond ARCP).

use std::collections::BTreeMap;

use crate::refusal::{Code, Refusal};

/// Labels by key.
pub type Labels = BTreeMap<String, String>;

/// Maximum number of labels of a job: each is a row, and an entry of two indexes.
pub const LABELS: usize = 16;
/// Maximum characters of a label's key, and bytes of its value: both are in an index.
pub const KEY_CHARS: usize = 64;
/// Maximum bytes of a label's value.
pub const VALUE_BYTES: usize = 200;

/// Checks the labels of a job.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn check(labels: &Labels) -> Result<(), Refusal> {
    if labels.len() > LABELS {
        let message = format!("`labels` has more than {LABELS} members. Keep those that you search by.");
        return Err(Refusal::field(Code::InvalidRequest, "labels", "too_long", message));
    }
    labels.iter().try_for_each(|(key, value)| check_one(key, value))
}

/// Checks one label.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn check_one(key: &str, value: &str) -> Result<(), Refusal> {
    let is_key = |c: char| c.is_ascii_alphanumeric() || ".-_/".contains(c);
    if key.is_empty() || key.len() > KEY_CHARS || !key.chars().all(is_key) {
        let message = format!(
            "A key of `labels` has 1 to {KEY_CHARS} letters, digits, `.`, `-`, `_` and `/`, such as `team` or `ci/run`."
        );
        return Err(Refusal::field(Code::InvalidRequest, "labels", "pattern", message));
    }
    if value.len() > VALUE_BYTES || value.chars().any(char::is_control) {
        let message = format!(
            "The value of the label `{key}` must have at most {VALUE_BYTES} bytes, none of them a control character."
        );
        return Err(Refusal::field(Code::InvalidRequest, "labels", "length", message));
    }
    Ok(())
}

/// Parses a label of a search: `key=value`; `None` if it is none.
#[must_use]
pub fn parse(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=')?;
    check_one(key, value).ok()?;
    Some((key.to_owned(), value.to_owned()))
}
