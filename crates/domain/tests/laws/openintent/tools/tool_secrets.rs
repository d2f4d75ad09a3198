//! Tool secrets: they survive encryption, and no shown value contains them.

use entente_domain::openintent::tools::auth_types::AuthType;
use entente_domain::openintent::tools::tool_secrets::{
    REDACTED, Scrubber, ToolSecret, check_plain, redacted,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

#[expect(clippy::needless_pass_by_value, reason = "it is read better where it is called")]
fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn secrets_are_taken_out_of_what_else_is_said() {
    let mut said = object(json!({ "api_key": "k-1", "base_url": "https://x.example", "password": null }));
    let secret = ToolSecret::take(&mut said).unwrap();
    assert_eq!(Value::Object(said), json!({ "base_url": "https://x.example" }));
    assert_eq!((secret.names(), secret.get("api_key")), (vec!["api_key".to_owned()], Some("k-1")));
    assert_eq!(format!("{secret:?}"), r#"ToolSecret(["api_key"])"#);
    let refusal = ToolSecret::take(&mut object(json!({ "token": { "deep": "hush" } }))).unwrap_err();
    assert!(!refusal.message.contains("hush"));
}

#[test]
fn what_sounds_like_a_secret_is_not_kept_in_clear() {
    for wrong in [
        json!({ "nested": { "password": "x" } }),
        json!({ "list": [{ "Client-Secret": "x" }] }),
        json!({ "tokens": ["x"] }),
    ] {
        assert!(check_plain("metadata", &object(wrong.clone())).is_err(), "{wrong}");
    }
    let fine = json!({ "token_url": "https://x.example", "endpoints": { "token": { "path": "/t" } }, "max_tokens": 5 });
    check_plain("metadata", &object(fine)).unwrap();
    let kept = redacted(object(
        json!({ "q": "x", "max_tokens": 5, "auth": { "apiKey": "k", "tokens": ["a", "b"] } }),
    ));
    let expected =
        json!({ "q": "x", "max_tokens": 5, "auth": { "apiKey": REDACTED, "tokens": [REDACTED, REDACTED] } });
    assert_eq!(Value::Object(kept), expected);
}

/// Returns a value that contains a text at one of several places.
fn hidden(text: &str, place: u8) -> Value {
    match place % 4 {
        0 => json!(text),
        1 => json!({ "a": [1, { "b": format!("before {text} after") }] }),
        2 => json!({ text: true }),
        _ => json!([null, format!("{text}{text}")]),
    }
}

/// Whether a predicate holds for a value or for any part of it.
fn anywhere(value: &Value, left: &dyn Fn(&Value) -> bool) -> bool {
    left(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| anywhere(item, left)),
            Value::Object(members) => {
                members.iter().any(|(name, item)| left(&json!(name)) || anywhere(item, left))
            }
            _ => false,
        }
}

proptest! {
    #[test]
    fn a_secret_survives_being_sealed(parts in vec("[ -~]{1,40}", 4)) {
        let mut secret = ToolSecret::default();
        for (name, text) in ["api_key", "password", "username", "client_secret"].iter().zip(&parts) {
            secret.put(name, text.clone()).unwrap();
        }
        prop_assert!(ToolSecret::from_bytes(&secret.to_bytes()).unwrap() == secret);
        let debug = format!("{secret:?}");
        prop_assert!(parts.iter().all(|text| text.len() < 9 || !debug.contains(text.as_str())));
    }

    #[test]
    fn nothing_of_a_secret_is_left_in_an_answer(text in "[!-~]{4,40}", place in any::<u8>()) {
        prop_assume!(!REDACTED.contains(&text));
        let secret = ToolSecret::given(AuthType::ApiKey, text.clone()).unwrap();
        let clean = secret.scrubber().value(hidden(&text, place));
        let left = |value: &Value| match value {
            Value::String(said) => said.contains(&text),
            _ => false,
        };
        prop_assert!(!anywhere(&clean, &left), "{clean}");
        prop_assert!(clean.to_string().contains(REDACTED));
    }

    #[test]
    fn numbers_are_scrubbed_too(number in 1_000_u64..u64::MAX) {
        let mut scrubber = Scrubber::default();
        scrubber.add(&number.to_string());
        prop_assert_eq!(scrubber.value(json!({ "n": number, "m": 7 })), json!({ "n": REDACTED, "m": 7 }));
    }
}
