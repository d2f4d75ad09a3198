//! Checks client-supplied metadata and labels, which the server stores but does not interpret.

use serde_json::{Map, Value};

use crate::limits::METADATA_BYTES;
use crate::refusal::{Code, Refusal};

/// Checks a client-defined object.
///
/// # Errors
/// The object is larger than [`METADATA_BYTES`].
pub fn check(member: &str, object: &Map<String, Value>) -> Result<(), Refusal> {
    let bytes = serde_json::to_string(object).map_or(0, |text| text.len());
    if bytes <= METADATA_BYTES {
        return Ok(());
    }
    let message = format!(
        "`{member}` has {bytes} bytes, at most {METADATA_BYTES} are allowed. Keep documents elsewhere and refer to them."
    );
    Err(Refusal::field(Code::TooLarge, member, "too_large", message))
}

/// Checks a text for lists and logs: 1 to `most` bytes, no control characters, no leading or trailing blank.
///
/// # Errors
/// [`Code::InvalidRequest`] at the body's `member`.
pub fn check_label(member: &str, text: &str, most: usize) -> Result<(), Refusal> {
    let fault = if text.is_empty() {
        "is empty".to_owned()
    } else if text.len() > most {
        format!("has {} bytes, at most {most} are allowed", text.len())
    } else if text.chars().any(char::is_control) {
        "has a control character".to_owned()
    } else if text.trim() != text {
        "begins or ends with a blank".to_owned()
    } else {
        return Ok(());
    };
    Err(Refusal::field(Code::InvalidRequest, member, "invalid_label", format!("`{member}` {fault}.")))
}
