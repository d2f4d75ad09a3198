//! Reading envelopes from bytes (AEE §3, AEE-W-6): one meaning for every reader, or a refusal; and no input that
//! does harm.

use entente_domain::aee::envelopes::{ENVELOPE_BYTES, EnvelopeType, hash, members, read};
use entente_domain::canonical;
use entente_domain::limits::JSON_DEPTH;
use entente_domain::refusal::Code;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::{sample, with};
use crate::any;

fn text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

fn code(bytes: impl AsRef<[u8]>) -> Code {
    members(bytes.as_ref()).unwrap_err().code
}

#[test]
fn a_member_that_is_there_twice_is_refused_at_any_depth() {
    for twice in [
        r#"{"to":"agent.a","to":"agent.b"}"#,
        r#"{"payload":{"a":1,"a":1}}"#,
        r#"{"payload":{"list":[0,{"deep":{"a":1,"b":2,"a":3}}]}}"#,
        r#"{"sig":{"kid":"a","kid":"b"}}"#,
        r#"{"":1,"":2}"#,
        r#"{"to":1,"\u0074o":2}"#,
    ] {
        assert_eq!(code(twice), Code::InvalidJson, "{twice}");
    }
    // The same name at two places is allowed.
    members(br#"{"a":{"a":[{"a":1},{"a":2}]}}"#).unwrap();
}

#[test]
fn a_name_that_is_there_twice_is_not_repeated_whole() {
    let message =
        |name: &str| members(format!("{{\"{name}\":1,\"{name}\":2}}").as_bytes()).unwrap_err().message;
    assert!(message("payload").contains("`payload` is there twice"));
    let whole = "ä".repeat(60);
    assert!(message(&whole).contains(&format!("`{whole}` is there twice")));
    for long in ["ä".repeat(61), "x".repeat(120_000)] {
        let message = message(&long);
        assert!(message.contains("…` is there twice") && message.len() < 500, "{} bytes", message.len());
    }
}

#[test]
fn what_is_not_one_json_object_in_utf_8_is_refused() {
    for broken in ["", " ", "{", "{\"a\":1,}", "{\"a\":01}", "{} {}", "{'a':1}", "{\"a\":NaN}", "\u{feff}{}"]
    {
        assert_eq!(code(broken), Code::InvalidJson, "{broken}");
    }
    for latin in [&b"{\"a\":\"\xe4\"}"[..], b"{\"a\":\"\xc0\x80\"}", b"{\"\xff\":1}", b"\xff\xfe{\0}\0"] {
        assert_eq!(code(latin), Code::InvalidJson, "{latin:?}");
    }
    for other in ["[]", "null", "\"{}\"", "1"] {
        assert_eq!(code(other), Code::InvalidEnvelope, "{other}");
    }
    for half in [r#"{"a":"\ud800"}"#, r#"{"a":"\udc00\ud800"}"#, r#"{"\udfff":1}"#] {
        assert_eq!(code(half), Code::InvalidJson, "{half}");
    }
    assert_eq!(members(r#"{"a":"😀","b":"\ud83d\ude00"}"#.as_bytes()).unwrap()["b"], "😀");
}

#[test]
fn a_nul_is_refused_wherever_it_stands() {
    for nul in [r#"{"a":"\u0000"}"#, r#"{"payload":{"x\u0000":1}}"#, r#"{"payload":[["\\\u0000"]]}"#] {
        assert_eq!(code(nul), Code::NulCharacter, "{nul}");
    }
    members(br#"{"a":"\\u0000"}"#).unwrap();
}

#[test]
fn depth_and_size_have_an_end() {
    let deep = |levels: usize| format!("{{\"a\":{}1{}}}", "[".repeat(levels), "]".repeat(levels));
    members(deep(JSON_DEPTH - 1).as_bytes()).unwrap();
    assert_eq!(code(deep(JSON_DEPTH)), Code::TooDeep);
    assert_eq!(code(deep(100_000)), Code::TooDeep);
    let size = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
    members(size(ENVELOPE_BYTES).as_bytes()).unwrap();
    assert_eq!(code(size(ENVELOPE_BYTES + 1)), Code::TooLarge);
}

#[test]
fn numbers_of_any_size_may_stand_in_what_is_not_signed() {
    let huge = r#"{"payload":{"n":123456789012345678901234567890,"m":9007199254740993,"x":1e300}}"#;
    assert_eq!(members(huge.as_bytes()).unwrap()["payload"]["m"], 9_007_199_254_740_993_i64);
    assert_eq!(code(r#"{"n":1e999}"#), Code::InvalidJson);
}

/// AEE-W-9.5: over the canonical form with the signature, as others can compute it.
#[test]
fn the_hash_is_over_the_canonical_form() {
    let one = members(br#"{"b":2.0,"a":{"y":null,"x":"\u00e4"}}"#).unwrap();
    let other = members("{ \"a\": {\"x\":\"ä\", \"y\":null}, \"b\": 2 }".as_bytes()).unwrap();
    let expected = canonical::hex(&canonical::sha256(r#"{"a":{"x":"ä","y":null},"b":2}"#));
    assert_eq!((hash(&one), hash(&other)), (format!("sha256:{expected}"), format!("sha256:{expected}")));
    let sample = sample(EnvelopeType::Task);
    for (name, value) in [("sig", json!("x")), ("unknown", json!(null)), ("payload", json!({}))] {
        assert_ne!(hash(&with(EnvelopeType::Task, name, value)), hash(&sample), "{name}");
    }
}

proptest! {
    #[test]
    fn no_bytes_hurt(bytes in vec(any::<u8>(), 0..400)) {
        drop(members(&bytes));
        drop(read(&bytes));
        drop(entente_domain::aee::envelopes::logs::read(&bytes));
    }

    #[test]
    fn no_change_of_an_envelope_hurts(
        changes in vec((any::<Index>(), "[{}\\[\\]\",:\\\\u0-9a-f\u{0}ä-]{0,6}", 0_usize..6), 1..6),
    ) {
        let mut bytes = text(&sample(EnvelopeType::Error)).into_bytes();
        for (at, put, taken) in changes {
            let from = at.index(bytes.len() + 1);
            let to = (from + taken).min(bytes.len());
            bytes.splice(from..to, put.bytes());
        }
        drop(read(&bytes));
    }

    #[test]
    fn what_was_written_is_read_as_it_was(object in any::object()) {
        let written = text(&object);
        match members(written.as_bytes()) {
            Ok(found) => prop_assert_eq!(found, object),
            Err(refusal) => {
                prop_assert_eq!(refusal.code, Code::NulCharacter);
                prop_assert!(written.contains("\\u0000"));
            }
        }
    }

    /// A duplicate member at any place is refused; without it the envelope is accepted.
    #[test]
    fn a_second_member_of_a_name_is_never_passed_over(
        name in "[a-zä\"\\\\]{0,4}", first in any::json(), second in any::json(), depth in 0_usize..6,
    ) {
        let name = text(&name);
        let mut twice = format!("{{\"x y\":0,{name}:{},{name}:{}}}", text(&first), text(&second));
        let mut once = format!("{{\"x y\":0,{name}:{}}}", text(&first));
        for level in 0..depth {
            let around = |inner: &str| if level % 2 == 0 { format!("[0,{inner}]") } else { format!("{{\"in\":{inner}}}") };
            (twice, once) = (around(&twice), around(&once));
        }
        prop_assume!(!once.contains("\\u0000") && !twice.contains("\\u0000"));
        prop_assert_eq!(code(format!("{{\"a\":{twice}}}")), Code::InvalidJson);
        let once = format!("{{\"a\":{once}}}");
        prop_assert!(members(once.as_bytes()).is_ok());
    }

    /// Another implementation of RFC 8785 writes the same.
    #[test]
    fn another_canonical_form_is_the_same(value in any::json()) {
        prop_assert_eq!(canonical::text(&value).unwrap(), serde_jcs::to_string(&value).unwrap());
    }

    #[test]
    fn the_hash_does_not_depend_on_how_it_was_written(object in any::object(), spaces in "[ \n\t]{0,3}") {
        prop_assume!(!text(&object).contains("\\u0000"));
        let parts: Vec<String> = object
            .iter()
            .rev()
            .map(|(name, value): (&String, &Value)| format!("{}{spaces}:{spaces}{}", text(name), text(value)))
            .collect();
        let shuffled = format!("{{{spaces}{}{spaces}}}", parts.join(","));
        prop_assert_eq!(hash(&members(shuffled.as_bytes()).unwrap()), hash(&object));
    }
}
