//! Signatures between servers (RFC-0023), in the form that the OpenIntent SDK signs and verifies.
//!
//! The signed text is the JSON written by Python's `json.dumps` with sorted names and without blanks, without
//! the member `signature`. It is not RFC 8785: everything beyond ASCII is escaped, names are ordered by their
//! code points, and a number keeps its kind (`1.0` is not `1`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use crate::clock::{Timestamp, offset, parse};
use crate::identity::signatures::{PublicKey, Signature, Signer};
use crate::limits::FEDERATION_WINDOW_SECONDS;
use crate::refusal::{Code, Refusal};

/// The member that contains the signature.
pub const SIGNATURE: &str = "signature";

/// Returns the text that is signed.
#[must_use]
pub fn canonical(body: &Map<String, Value>) -> String {
    let mut text = String::new();
    object(body, Some(SIGNATURE), &mut text);
    text
}

fn object(members: &Map<String, Value>, without: Option<&str>, text: &mut String) {
    // UTF-8 sorts by bytes as by code points, which is Python's order.
    let mut sorted: Vec<(&String, &Value)> =
        members.iter().filter(|(name, _)| without != Some(name.as_str())).collect();
    sorted.sort_by_key(|(name, _)| *name);
    text.push('{');
    for (index, (name, member)) in sorted.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        string(name, text);
        text.push(':');
        json(member, text);
    }
    text.push('}');
}

fn json(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(is) => text.push_str(if *is { "true" } else { "false" }),
        Value::Number(written) => text.push_str(&number(written)),
        Value::String(letters) => string(letters, text),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                json(item, text);
            }
            text.push(']');
        }
        Value::Object(members) => object(members, None, text),
    }
}

fn string(letters: &str, text: &mut String) {
    text.push('"');
    for letter in letters.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            ' '..='~' => text.push(letter),
            _ => {
                let mut units = [0; 2];
                for unit in letter.encode_utf16(&mut units) {
                    text.push_str("\\u");
                    let digits = [12, 8, 4, 0].map(|shift| u32::from(*unit >> shift) & 0xF);
                    text.extend(digits.into_iter().filter_map(|digit| char::from_digit(digit, 16)));
                }
            }
        }
    }
    text.push('"');
}

/// Formats a number like Python: integers unchanged, floats in their shortest digits, with an exponent of at
/// least two digits from 1e16 on and below 1e-4.
fn number(written: &Number) -> String {
    match written.as_f64() {
        Some(number) if written.is_f64() => float(number),
        _ => written.to_string(),
    }
}

fn float(number: f64) -> String {
    // Rust writes the same shortest digits, always with an exponent: `-1.25e-7`.
    let shortest = format!("{number:e}");
    let Some((digits, exponent)) = shortest.split_once('e') else { return shortest };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = number.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Returns the signature of a body, if it has a readable one.
#[must_use]
pub fn signature(body: &Map<String, Value>) -> Option<Signature> {
    body.get(SIGNATURE).and_then(Value::as_str).and_then(Signature::parse)
}

/// Whether a body claims to be signed.
#[must_use]
pub fn is_signed(body: &Map<String, Value>) -> bool {
    !matches!(body.get(SIGNATURE), None | Some(Value::Null))
}

/// Signs a body as of now and returns the text to send: exactly the signed text, with the signature added.
#[must_use]
pub fn sign(mut body: Map<String, Value>, stamp: &str, signer: &Signer, now: Timestamp) -> String {
    body.insert(stamp.to_owned(), Value::from(offset(now)));
    let made = signer.sign(canonical(&body));
    body.insert(SIGNATURE.to_owned(), Value::from(STANDARD.encode(made.to_bytes())));
    let mut text = String::new();
    object(&body, None, &mut text);
    text
}

/// Formats a public key like the SDK: base64 of its bytes.
#[must_use]
pub fn show_key(key: &PublicKey) -> String {
    STANDARD.encode(key.as_bytes())
}

/// Parses a peer's key as configured: `ed25519:…`, `did:key:…`, or in the SDK's format; `None` if it is
/// invalid.
#[must_use]
pub fn parse_key(text: &str) -> Option<PublicKey> {
    let plain = || PublicKey::from_bytes(&STANDARD.decode(text).ok()?.try_into().ok()?).ok();
    PublicKey::parse(text).or_else(|_other| PublicKey::of_did(text)).ok().or_else(plain)
}

/// Checks that a body was signed by one of these keys.
///
/// # Errors
/// [`Code::SignatureRequired`] if it is not signed at all, [`Code::BadSignature`].
pub fn check(body: &Map<String, Value>, keys: &[PublicKey]) -> Result<(), Refusal> {
    if !is_signed(body) {
        return Err(unsigned());
    }
    let text = canonical(body);
    let made = signature(body).is_some_and(|signature| keys.iter().any(|key| key.made(&signature, &text)));
    if made { Ok(()) } else { Err(bad()) }
}

/// Returns the refusal of an unsigned body.
#[must_use]
pub fn unsigned() -> Refusal {
    Refusal::new(
        Code::SignatureRequired,
        "What comes from another server must be signed with its key (`signature`), or be sent with an API key of its own here.",
    )
}

/// Returns the refusal of a body signed by another key.
#[must_use]
pub fn bad() -> Refusal {
    Refusal::new(
        Code::BadSignature,
        "The signature is by none of the keys that this server's operator noted for that peer. Sign the JSON with sorted names, \
         no blanks and everything beyond ASCII escaped, without `signature`.",
    )
}

/// Checks that a body was signed recently, so that a recorded message cannot be replayed later.
///
/// # Errors
/// [`Code::OutsideWindow`].
pub fn check_fresh(body: &Map<String, Value>, stamp: &str, now: Timestamp) -> Result<(), Refusal> {
    let at = body.get(stamp).and_then(Value::as_str).and_then(parse);
    if at.is_some_and(|at| (now - at).num_seconds().abs() <= FEDERATION_WINDOW_SECONDS) {
        return Ok(());
    }
    let message = format!(
        "`{stamp}` must be the time at which this was signed, at most {FEDERATION_WINDOW_SECONDS} seconds from this server's \
         clock. Sign it anew for each attempt."
    );
    Err(Refusal::field(Code::OutsideWindow, stamp, "time", message))
}
