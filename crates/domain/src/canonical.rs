//! Canonical JSON (RFC 8785) and the hashes over it, which make a log verifiable (RFC-0019).
//!
//! RFC 8785 writes numbers as IEEE doubles. An integer between two doubles would silently become another one, so
//! [`exact`] refuses it where a value is going to be hashed. A number that the parser rounds is already a double
//! when it gets there; [`exact_text`] refuses it in the text, and `entente-http` in every body that it parses.

pub mod numbers;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Number, Value};
use sha2::{Digest as _, Sha256};

use crate::refusal::{Code, Refusal};

/// A JSON value in which no object has a member twice, so that every reader reads it alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Unambiguous(pub Value);

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, is: bool) -> Result<Value, E> {
        Ok(Value::Bool(is))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(Unambiguous(item)) = items.next_element()? {
            read.push(item);
        }
        Ok(Value::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some((name, Unambiguous(value))) = members.next_entry::<String, Unambiguous>()? {
            if read.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format!("`{}` is there twice", shown(&name))));
            }
        }
        Ok(Value::Object(read))
    }
}

/// Characters of a member name quoted in an error: the name may be as long as the whole request.
const SHOWN: usize = 60;

fn shown(name: &str) -> String {
    let mut letters = name.chars();
    let mut shown: String = letters.by_ref().take(SHOWN).collect();
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// A SHA-256 digest.
pub type Digest = [u8; 32];

/// The largest integer below which every integer is a double, RFC 8785 Appendix D: 2^53.
const DENSE: u64 = 1 << 53;

/// Returns the canonical text of a value.
///
/// # Errors
/// The value has no JSON form, such as a map whose keys are not strings.
pub fn text(value: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json_canonicalizer::to_string(value)
}

/// Returns the SHA-256 digest of some bytes.
#[must_use]
pub fn sha256(bytes: impl AsRef<[u8]>) -> Digest {
    Sha256::digest(bytes).into()
}

/// Encodes bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

/// Formats a digest for the wire: `sha256:` and base64url without padding (OI-13.2).
#[must_use]
pub fn show(digest: &Digest) -> String {
    format!("sha256:{}", URL_SAFE_NO_PAD.encode(digest))
}

/// Parses the output of [`show`]; `None` for anything else.
#[must_use]
pub fn read(shown: &str) -> Option<Digest> {
    URL_SAFE_NO_PAD.decode(shown.strip_prefix("sha256:")?).ok()?.try_into().ok()
}

/// Checks that a value means the same to every reader of its canonical form.
///
/// # Errors
/// [`Code::Unprocessable`] naming the first integer that no double holds.
pub fn exact(value: &Value) -> Result<(), Refusal> {
    match value {
        Value::Number(number) => {
            let dense = number.as_i64().is_some_and(|integer| integer.unsigned_abs() <= DENSE);
            if dense || number.is_f64() || numbers::holds(&number.to_string()) {
                return Ok(());
            }
            Err(inexact(&number.to_string()))
        }
        Value::Array(items) => items.iter().try_for_each(exact),
        Value::Object(members) => members.values().try_for_each(exact),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

/// As [`exact`], for JSON text: also finds the numbers that a parser rounds.
///
/// # Errors
/// As [`exact`].
pub fn exact_text(json: &str) -> Result<(), Refusal> {
    numbers::unheld(json.as_bytes()).map_or(Ok(()), |number| Err(inexact(number)))
}

/// Returns the refusal of a number that no double holds.
#[must_use]
pub fn inexact(number: &str) -> Refusal {
    Refusal::new(
        Code::Unprocessable,
        format!(
            "{} lies between two IEEE 754 doubles, as most integers beyond ±2^53 do, and would become another number in \
             what is hashed or signed (RFC 8785). Send it as a string.",
            shown(number)
        ),
    )
}
