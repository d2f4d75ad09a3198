//! Misplaced questions (binding moment §7.4): found at any depth, in any notation of the name.

use entente_domain::payload::questions::carries_question;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::any;

#[test]
fn a_question_is_found_wherever_it_is_put() {
    let moment = json!({ "synopsis": "Ship it." });
    for carrying in [
        json!({ "binding_moment": moment }),
        json!({ "binding_moment": null }),
        json!({ "result": { "structuredContent": { "binding_moment": moment } } }),
        json!({ "all": [1, [{ "x": { "binding_moment": moment } }]] }),
        json!({ "binding_moment\\": 1, "a": "\"", "binding_moment": 1 }),
    ] {
        assert!(carries_question(&carrying.to_string()), "{carrying}");
    }
    for text in [
        "{\"binding_moment\" \n\t: {}}",
        r#"{"binding\u005fmoment":{}}"#,
        r#"{"a":"\\","\u0062inding_moment":{}}"#,
        // Found by readers that keep the first of two members.
        r#"{"a":{"binding_moment":{}},"a":1}"#,
    ] {
        assert!(carries_question(text), "{text}");
    }
}

#[test]
fn the_word_alone_is_no_question() {
    for plain in [
        json!({ "binding_moment_id": "bm_1" }),
        json!({ "emits_binding_moment": true }),
        json!({ "note": "binding_moment", "list": ["binding_moment", "\"binding_moment\":"] }),
        json!({ "text": "{\"binding_moment\":{}}" }),
        json!({ "Binding_Moment": 1, "ä\u{1}": "\u{1}" }),
    ] {
        assert!(!carries_question(&plain.to_string()), "{plain}");
    }
    for broken in ["", "\"", "{\"binding_moment", "{\"binding_moment\"", "\\u\"\\"] {
        assert!(!carries_question(broken), "{broken}");
    }
}

fn named(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.contains_key("binding_moment") || members.values().any(named),
        Value::Array(items) => items.iter().any(named),
        _ => false,
    }
}

proptest! {
    #[test]
    fn it_finds_what_a_reader_of_json_finds(mut outer in any::object(), inner in any::object(), put: bool) {
        if put {
            outer.insert("in".to_owned(), json!([{ "binding_moment": inner }]));
        }
        let outer = Value::Object(outer);
        prop_assert_eq!(carries_question(&outer.to_string()), named(&outer));
    }
}
