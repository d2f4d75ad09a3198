//! Canonical JSON (RFC 8785) and the hashes over it: what makes a log verifiable (RFC-0019).
//!
//! RFC 8785 writes numbers as IEEE doubles. An integer beyond ±(2^53 − 1) would silently become another one, so
//! [`exact`] refuses it where a value is going to be hashed. One of more than 64 bits is a double already when it comes
//! here, and cannot be told from one that was meant; both are refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::refusal::{Code, Refusal};

/// A SHA-256 digest.
pub type Digest = [u8; 32];

/// The largest integer that every JSON reader keeps exactly, RFC 8785 Appendix D: 2^53 − 1.
const EXACT_INTEGER: f64 = 9_007_199_254_740_991.0;

/// The canonical text of a value.
///
/// # Errors
/// The value has no JSON form, such as a map whose keys are not strings.
pub fn text(value: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json_canonicalizer::to_string(value)
}

/// SHA-256 of some bytes.
#[must_use]
pub fn sha256(bytes: impl AsRef<[u8]>) -> Digest {
    Sha256::digest(bytes).into()
}

/// Bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

/// A digest on the wire: `sha256:` and base64url without padding (contract 13).
#[must_use]
pub fn show(digest: &Digest) -> String {
    format!("sha256:{}", URL_SAFE_NO_PAD.encode(digest))
}

/// Reads what [`show`] wrote; `None` when it is anything else.
#[must_use]
pub fn read(shown: &str) -> Option<Digest> {
    URL_SAFE_NO_PAD.decode(shown.strip_prefix("sha256:")?).ok()?.try_into().ok()
}

/// Checks that a value means the same to every reader of its canonical form.
///
/// # Errors
/// [`Code::Unprocessable`] naming the first number that may have been an integer that a double cannot hold.
pub fn exact(value: &Value) -> Result<(), Refusal> {
    match value {
        Value::Number(number) => {
            // Rounding to a double never brings a larger integer down to the limit or below.
            if number.as_f64().is_none_or(|double| double.abs() > EXACT_INTEGER) {
                return Err(Refusal::new(
                    Code::Unprocessable,
                    format!(
                        "{number} is beyond ±(2^53 − 1) and would not survive hashing (RFC 8785). Send it as a string."
                    ),
                ));
            }
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(exact),
        Value::Object(members) => members.values().try_for_each(exact),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}
