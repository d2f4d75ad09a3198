//! Payloads: the scan over the bytes agrees with a walk over the parsed value, and the text is kept unchanged.

use std::fmt::Write as _;

use entente_domain::limits::JSON_DEPTH;
use entente_domain::payload::{Payload, scan};
use entente_domain::refusal::Code;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::any;

/// Returns the nesting depth of a value: 0 for one that is neither array nor object.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(members) => members.iter().any(|(key, value)| key.contains('\0') || has_nul(value)),
        _ => false,
    }
}

/// Returns the expected result of the scan for a text that parses as this value.
fn expected(value: &Value) -> Result<(), &'static [Code]> {
    match (depth(value) > JSON_DEPTH, has_nul(value)) {
        (false, false) => Ok(()),
        (true, false) => Err(&[Code::TooDeep]),
        (false, true) => Err(&[Code::NulCharacter]),
        (true, true) => Err(&[Code::TooDeep, Code::NulCharacter]),
    }
}

fn agrees(json: &str, value: &Value) {
    match (scan(json.as_bytes()), expected(value)) {
        (Ok(()), Ok(())) => {}
        (Err(refusal), Err(codes)) => assert!(codes.contains(&refusal.code), "{:?} for {json}", refusal.code),
        (said, expected) => panic!("{said:?} instead of {expected:?} for {json}"),
    }
}

/// Writes a string as JSON; `ways` selects one of JSON's notations for each character.
fn write_string(out: &mut String, text: &str, ways: &mut impl Iterator<Item = u8>) {
    out.push('"');
    for c in text.chars() {
        let way = ways.next().unwrap_or(0);
        let must = c < ' ' || c == '"' || c == '\\';
        match c {
            '"' | '\\' | '/' if way.is_multiple_of(2) => {
                out.push('\\');
                out.push(c);
            }
            '\n' if way.is_multiple_of(2) => out.push_str("\\n"),
            _ if must || way.is_multiple_of(3) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    if way.is_multiple_of(2) {
                        write!(out, "\\u{unit:04X}").unwrap();
                    } else {
                        write!(out, "\\u{unit:04x}").unwrap();
                    }
                }
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

fn write(out: &mut String, value: &Value, ways: &mut impl Iterator<Item = u8>) {
    let blank = |way: Option<u8>| ["", "", " ", "\n\t"][usize::from(way.unwrap_or(0) % 4)];
    out.push_str(blank(ways.next()));
    match value {
        Value::String(text) => write_string(out, text, ways),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write(out, item, ways);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (key, value)) in members.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write_string(out, key, ways);
                out.push(':');
                write(out, value, ways);
            }
            out.push('}');
        }
        plain => out.push_str(&plain.to_string()),
    }
    out.push_str(blank(ways.next()));
}

#[test]
fn the_deepest_nesting_is_the_limit() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |levels: usize| format!("{}1{}", open.repeat(levels), close.repeat(levels));
        assert_eq!(scan(nested(JSON_DEPTH).as_bytes()), Ok(()));
        assert_eq!(scan(nested(JSON_DEPTH + 1).as_bytes()).unwrap_err().code, Code::TooDeep);
    }
    let wide = format!("[{}1]", "[1],".repeat(JSON_DEPTH * 2));
    assert_eq!(scan(wide.as_bytes()), Ok(()), "side by side is not deep");
    let quoted = format!("\"{}\"", "[".repeat(JSON_DEPTH * 2));
    assert_eq!(scan(quoted.as_bytes()), Ok(()), "a bracket in a string is a letter");
}

#[test]
fn half_a_pair_is_no_character() {
    for half in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\uD83Dx""#,
        r#""\ud83d\n""#,
        r#""\ud83d\ud83d""#,
        r#""\ud83d\u0041""#,
        r#"{"\ude00":1}"#,
        r#""\\\ud83d""#,
        r#""\ud83d\ude00\ude00""#,
        r#""\ud83d""#,
    ] {
        assert_eq!(scan(half.as_bytes()).unwrap_err().code, Code::InvalidJson, "{half}");
    }
    for whole in [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\\u0000""#, r#""\uD83D\uDE00x""#, r#""\ue000""#] {
        assert_eq!(scan(whole.as_bytes()), Ok(()), "{whole}");
    }
}

proptest! {
    #[test]
    fn the_scan_agrees_with_a_walk(value in any::json(), ways in vec(any::<u8>(), 64)) {
        let mut json = String::new();
        write(&mut json, &value, &mut ways.into_iter().cycle());
        agrees(&json, &value);
    }

    #[test]
    fn the_scan_agrees_with_a_walk_on_deep_values(
        value in any::json(), levels in JSON_DEPTH - 4..JSON_DEPTH + 3, object: bool, ways in vec(any::<u8>(), 16),
    ) {
        let mut deep = value;
        for _ in 0..levels {
            deep = if object { serde_json::json!({ "a": deep }) } else { serde_json::json!([deep]) };
        }
        let mut json = String::new();
        write(&mut json, &deep, &mut ways.into_iter().cycle());
        agrees(&json, &deep);
    }

    /// The scan finds the ends of strings and the nesting in every text that the parser accepts.
    #[test]
    fn the_scan_understands_whatever_parses(soup in "([\\[\\]{},:\"]|\\\\|\\\\u|[0dD][08cC][0-9aF]{2}|a|1| ){0,24}") {
        let said = scan(soup.as_bytes());
        if let Ok(value) = serde_json::from_str::<Value>(&soup) {
            agrees(&soup, &value);
        } else if serde_json::from_str::<&RawValue>(&soup).is_ok() {
            // Well-formed, but without a value: half a surrogate pair.
            prop_assert!(said.is_err(), "{soup}");
        }
    }

    #[test]
    fn strings_with_strange_escapes_are_understood(
        parts in vec(prop_oneof![
            Just("\\ud83d"), Just("\\ude00"), Just("\\u0000"), Just("\\\\"), Just("\\\""), Just("u0000"), Just("\\u00e4"),
            Just("["), Just("ä"), Just("\\n"), Just("\\uD800"),
        ], 0..8),
    ) {
        let json = format!("[\"{}\",\"\"]", parts.concat());
        match serde_json::from_str::<Value>(&json) {
            Ok(value) => agrees(&json, &value),
            Err(_half) => prop_assert!(scan(json.as_bytes()).is_err(), "{json}"),
        }
    }

    #[test]
    fn no_bytes_break_the_scan(bytes in vec(prop_oneof![any::<u8>(), Just(b'"'), Just(b'\\'), Just(b'u')], 0..40)) {
        let _ = scan(&bytes);
    }

    #[test]
    fn a_payload_is_kept_letter_by_letter(value in any::json(), ways in vec(any::<u8>(), 32), room in -2_isize..3) {
        let mut json = String::new();
        write(&mut json, &value, &mut ways.into_iter().cycle());
        let raw: Box<RawValue> = serde_json::from_str(&json).unwrap();
        let bytes = raw.get().len();
        let limit = bytes.saturating_add_signed(room);
        match Payload::new("payload", raw, limit) {
            Ok(payload) => {
                prop_assert!(value.is_object() && bytes <= limit);
                prop_assert_eq!(payload.as_str(), json.trim());
                prop_assert_eq!(serde_json::to_string(&payload).unwrap(), json.trim());
                prop_assert_eq!(Payload::stored(payload.as_str().to_owned()).unwrap(), payload);
            }
            Err(refusal) if value.is_object() => {
                prop_assert_eq!(refusal.code, Code::TooLarge);
                prop_assert!(bytes > limit);
            }
            Err(refusal) => prop_assert_eq!(refusal.code, Code::InvalidRequest),
        }
    }
}

#[test]
fn the_empty_payload_is_an_object() {
    assert_eq!(Payload::empty().as_str(), "{}");
    assert!(Payload::stored("{".to_owned()).is_err());
}
