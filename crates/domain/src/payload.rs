//! Payloads: JSON objects that are checked once and then passed on as the text they came in.
//!
//! A payload is never re-serialised between sender and reader, which keeps it exact and the hot path cheap. Code that
//! needs the contents (state, event payloads) uses `serde_json` values instead; see [`crate::canonical`].

pub mod questions;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::limits::JSON_DEPTH;
use crate::refusal::{Code, Refusal};

/// A JSON object as the sender wrote it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Payload(Box<RawValue>);

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Payload {
    /// Wraps a member of a body that has passed [`scan`].
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] if it is not an object, [`Code::TooLarge`] over `limit` bytes.
    pub fn new(member: &str, raw: Box<RawValue>, limit: usize) -> Result<Self, Refusal> {
        if !raw.get().starts_with('{') {
            return Err(Refusal::field(
                Code::InvalidRequest,
                member,
                "object_type",
                format!(
                    "`{member}` must be a JSON object. Put other values into a member of one, like {{\"value\": …}}."
                ),
            ));
        }
        if raw.get().len() > limit {
            return Err(Refusal::field(
                Code::TooLarge,
                member,
                "too_large",
                format!(
                    "`{member}` has {} bytes, at most {limit} are allowed. Send large data by reference.",
                    raw.get().len()
                ),
            ));
        }
        Ok(Self(raw))
    }

    /// Returns the empty object.
    #[must_use]
    pub fn empty() -> Self {
        Self(RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// Wraps stored text.
    ///
    /// # Errors
    /// The text is not JSON, so the stored data is corrupt.
    pub fn stored(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    /// Returns the text of the object.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

/// Scans JSON text for content that cannot be stored or safely parsed: nesting over [`JSON_DEPTH`], NUL, lone surrogates.
///
/// Makes one pass over the bytes without parsing; the parser checks the syntax.
///
/// # Errors
/// [`Code::TooDeep`], [`Code::NulCharacter`] or [`Code::InvalidJson`] for a lone surrogate.
pub fn scan(json: &[u8]) -> Result<(), Refusal> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                if depth > JSON_DEPTH {
                    return Err(Refusal::new(
                        Code::TooDeep,
                        format!("The JSON is nested more than {JSON_DEPTH} levels deep. Flatten it."),
                    ));
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => at = scan_string(json, at + 1)?,
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Scans a string after its opening quote; returns the position of the closing quote, or a position at or after the
/// end of the text.
fn scan_string(json: &[u8], mut at: usize) -> Result<usize, Refusal> {
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => return Ok(at),
            b'\\' if json.get(at + 1) == Some(&b'u') => {
                let unit = hex4(json.get(at + 2..at + 6));
                at += 6;
                match unit {
                    Some(0) => {
                        return Err(Refusal::new(
                            Code::NulCharacter,
                            "The JSON has a string with a NUL character (\\u0000), which cannot be stored. Remove it.",
                        ));
                    }
                    Some(0xD800..=0xDBFF) => {
                        let low = (json.get(at..at + 2) == Some(b"\\u"))
                            .then(|| hex4(json.get(at + 2..at + 6)))
                            .flatten();
                        if !matches!(low, Some(0xDC00..=0xDFFF)) {
                            return Err(lone_surrogate());
                        }
                        at += 6;
                    }
                    Some(0xDC00..=0xDFFF) => return Err(lone_surrogate()),
                    Some(_) | None => {}
                }
            }
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    Ok(at)
}

fn lone_surrogate() -> Refusal {
    Refusal::new(
        Code::InvalidJson,
        "The JSON has one half of a surrogate pair (\\ud800 to \\udfff), which is no character.",
    )
}

fn hex4(digits: Option<&[u8]>) -> Option<u32> {
    let text = std::str::from_utf8(digits?).ok()?;
    u32::from_str_radix(text, 16).ok()
}
