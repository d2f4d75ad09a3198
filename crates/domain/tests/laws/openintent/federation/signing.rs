//! The signed text, byte for byte, compared with the output of Python and the SDK.

use std::str::FromStr as _;

use entente_domain::identity::signatures::PublicKey;
use entente_domain::openintent::federation::signing::{canonical, check, parse_key, show_key};
use entente_domain::refusal::Code;
use serde_json::{Map, Value, json};

use super::{members, signer};

/// Python's `json.dumps` of numbers that `json.loads` has parsed.
const NUMBERS: [(&str, &str); 21] = [
    ("0.0", "0.0"),
    ("-0.0", "-0.0"),
    ("1.0", "1.0"),
    ("100.0", "100.0"),
    ("1e15", "1000000000000000.0"),
    ("1e16", "1e+16"),
    ("123456789012345.6", "123456789012345.6"),
    ("1.5e16", "1.5e+16"),
    ("1e22", "1e+22"),
    ("1e-4", "0.0001"),
    ("1e-5", "1e-05"),
    ("0.00012345", "0.00012345"),
    ("1.25e-7", "1.25e-07"),
    ("5e-324", "5e-324"),
    ("1.7976931348623157e308", "1.7976931348623157e+308"),
    ("0.1", "0.1"),
    ("-2.5e-10", "-2.5e-10"),
    ("9007199254740991", "9007199254740991"),
    ("-1", "-1"),
    ("2.0e-4", "0.0002"),
    ("1e100", "1e+100"),
];

#[test]
fn numbers_are_written_as_python_writes_them() {
    for (read, written) in NUMBERS {
        let body = Map::from_iter([("n".to_owned(), Value::from_str(read).unwrap())]);
        assert_eq!(canonical(&body), format!("{{\"n\":{written}}}"), "{read}");
    }
}

#[test]
fn everything_beyond_ascii_is_escaped_and_names_are_in_the_order_of_code_points() {
    let body = members(json!({
        "z": 1, "a": { "é": "ß\u{20ac}😀\u{7f}\u{1}\n\"\\/", "b": [1.0, true, null], "signature": "within" },
        "signature": "x", "\u{ffff}": 1, "\u{10000}": 2
    }));
    // Written by the SDK's own `_canonical_bytes`, except for the inner `signature`.
    let expected = concat!(
        r#"{"a":{"b":[1.0,true,null],"signature":"within","\u00e9":"\u00df\u20ac\ud83d\ude00\u007f\u0001\n\"\\/"},"#,
        r#""z":1,"\uffff":1,"\ud800\udc00":2}"#
    );
    assert_eq!(canonical(&body), expected);
}

#[test]
fn a_signature_of_the_sdk_is_good() {
    // Signed by `sign_envelope` of openintent 0.17.0 with the key of the bytes 0 to 31.
    let key = parse_key("A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=").unwrap();
    let mut body = members(json!({
        "dispatch_id": "d-1", "source_server": "https://a.example", "target_server": "https://b.example",
        "intent_id": "intent-1", "intent_title": "Übersetzen €😀", "intent_description": "",
        "intent_state": { "half": 0.5, "one": 1.0, "tiny": 1e-7, "n": 3 }, "intent_constraints": {},
        "created_at": "2026-11-21T08:00:00+00:00",
        "signature": "c0OXKMpM2zVM4JppZk22YBL1dX5IjYrgrFX/slmVflS+crDC0p80UdWjW219bmgKgnX02VrG/p5xxjQ48RiMBQ=="
    }));
    check(&body, &[signer(1).public_key(), key]).unwrap();
    body.insert("agent_id".to_owned(), json!("agent.other"));
    assert_eq!(check(&body, &[key]).unwrap_err().code, Code::BadSignature);
}

#[test]
fn a_key_is_read_in_the_three_ways_in_which_it_is_written() {
    let key: PublicKey = signer(7).public_key();
    for text in [show_key(&key), key.to_string(), key.did()] {
        assert_eq!(parse_key(&text), Some(key), "{text}");
    }
    for text in ["", "x", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="] {
        assert_eq!(parse_key(text), None, "{text}");
    }
}
