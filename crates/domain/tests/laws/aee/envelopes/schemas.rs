//! Payload schemas: which are accepted, the faults that they find, and that none takes a server's time.

use std::time::Instant;

use entente_domain::aee::envelopes::EnvelopeType;
use entente_domain::aee::envelopes::schemas::{FAULTS, PROTOCOL, Schema, Subject};
use entente_domain::refusal::Code;
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(schema: &Value) -> Schema {
    Schema::read(schema.to_string().as_bytes()).unwrap()
}

fn refused(schema: &Value, place: &[&str]) {
    let refusal = Schema::read(schema.to_string().as_bytes()).unwrap_err();
    assert_eq!(refusal.code, Code::Unprocessable, "{schema}: {refusal}");
    assert_eq!(refusal.errors[0].loc[1..], *place, "{schema}: {refusal}");
}

#[test]
fn a_schema_finds_what_does_not_fit_and_where() {
    let schema = read(&json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.org/check",
        "type": "object", "required": ["cluster"], "additionalProperties": false,
        "properties": { "cluster": { "type": "string" }, "nodes": { "type": "array", "items": { "$ref": "#/$defs/node" } } },
        "$defs": { "node": { "type": "object", "properties": { "a/b": { "type": "integer" } } } },
    }));
    assert_eq!(schema.faults(&json!({ "cluster": "x", "nodes": [{ "a/b": 1 }] })), []);
    let faults = schema.faults(&json!({ "nodes": [{}, { "a/b": "secret" }] }));
    let mut places: Vec<_> = faults.iter().map(|fault| (fault.kind.as_str(), fault.loc.join("|"))).collect();
    places.sort_unstable();
    assert_eq!(
        places,
        [("required", "body|payload".to_owned()), ("type", "body|payload|nodes|1|a/b".to_owned())]
    );
    assert!(faults.iter().all(|fault| !fault.msg.contains("secret")), "{faults:?}");
    let wrong: Vec<i32> = (0..500).collect();
    let many = read(&json!({ "properties": { "n": { "items": { "type": "string" } } } }));
    assert_eq!(many.faults(&json!({ "n": wrong })).len(), FAULTS);
}

#[test]
fn a_schema_stands_for_itself() {
    refused(&json!({ "$ref": "https://example.org/other.json" }), &["$ref"]);
    refused(&json!({ "properties": { "a": { "$ref": "other.json#/x" } } }), &["properties", "a", "$ref"]);
    refused(
        &json!({ "properties": { "a": { "$ref": "file:///etc/passwd" } } }),
        &["properties", "a", "$ref"],
    );
    refused(
        &json!({ "properties": { "a": { "$id": "https://x.example/", "$ref": "#/b" } } }),
        &["properties", "a", "$id"],
    );
    refused(&json!({ "$ref": "#/$defs/none" }), &["$defs", "none"]);
    refused(&json!({ "$dynamicRef": "#a" }), &["$dynamicRef"]);
    refused(&json!({ "$schema": "http://json-schema.org/draft-07/schema#" }), &["$schema"]);
    refused(&json!({ "type": "text" }), &["type"]);
    refused(&json!({ "minLength": -1 }), &["minLength"]);
    refused(&json!({ "properties": { "a": 1 } }), &["properties", "a"]);
    assert_eq!(Schema::read(b"{").unwrap_err().code, Code::InvalidJson);
    assert_eq!(Schema::read(&vec![b' '; 70_000]).unwrap_err().code, Code::TooLarge);
    // Only looks like a reference: a member of that name, and data.
    read(&json!({ "properties": { "$ref": { "type": "string" }, "$id": true }, "const": { "$ref": "x" } }));
}

/// Schemas that would keep a server busy practically forever.
#[test]
fn what_looks_too_often_is_no_schema() {
    let twice = |next: &str| json!({ "allOf": [{ "$ref": next }, { "$ref": next }] });
    let mut chain = serde_json::Map::new();
    for n in 0..40 {
        chain.insert(n.to_string(), twice(&format!("#/$defs/{}", n + 1)));
    }
    chain.insert("40".to_owned(), json!({}));
    refused(&json!({ "$defs": chain, "$ref": "#/$defs/0" }), &[]);
    // Each level of the payload applies the next one twice.
    let deep = json!({ "anyOf": [{ "items": { "$ref": "#" } }, { "prefixItems": [{ "$ref": "#" }], "items": { "$ref": "#" } }] });
    refused(&deep, &[]);
    refused(&json!({ "$ref": "#/$defs/a", "$defs": { "a": { "allOf": [{ "$ref": "#" }] } } }), &[]);
    refused(&json!({ "allOf": vec![json!({}); 600] }), &[]);
    refused(&json!({ "pattern": "((a{100}){100}){100}" }), &["pattern"]);
    refused(&json!({ "pattern": "(?=a)(a+)+$" }), &["pattern"]);
}

#[test]
fn what_goes_into_itself_once_is_one() {
    let tree = read(&json!({
        "type": "object", "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" }, "n": { "type": "integer" } },
    }));
    let mut payload = json!({ "n": 1 });
    for _ in 0..50 {
        payload = json!({ "left": payload, "right": { "n": 2 } });
    }
    assert_eq!(tree.faults(&payload), []);
    payload["right"]["n"] = json!("2");
    assert_eq!(tree.faults(&payload).len(), 1);
}

#[test]
fn a_check_is_soon_over() {
    let hostile = read(
        &json!({ "additionalProperties": { "pattern": "(a+)+$" }, "allOf": vec![json!({ "items": { "type": "object" } }); 300] }),
    );
    let began = Instant::now();
    assert_eq!(hostile.faults(&json!({ "a": format!("{}!", "a".repeat(200_000)) })).len(), 1);
    let many = hostile.faults(&Value::from(vec![1; 100_000]));
    assert_eq!(many[0].kind, "too_large");
    assert!(began.elapsed().as_secs() < 5, "it took {:?}", began.elapsed());
}

/// Each check can find several faults, and collecting all of them would take too much memory.
#[test]
fn what_fits_nowhere_is_said_in_few_words() {
    let part = json!({
        "type": "string", "const": 1, "enum": [1], "minimum": 5, "multipleOf": 7, "exclusiveMinimum": 9, "maximum": 1,
    });
    let hostile = read(&json!({ "properties": { "a": { "items": { "allOf": vec![part; 440] } } } }));
    for items in [1_000, 4_500, 100_000] {
        let payload = json!({ "a": vec![3; items] });
        let began = Instant::now();
        assert_eq!(hostile.faults(&payload).len(), 1, "{items}");
        assert!(hostile.fault(&payload).is_some());
        assert!(began.elapsed().as_secs() < 5, "{items} took {:?}", began.elapsed());
    }
    assert_eq!(hostile.faults(&json!({ "a": [3] })).len(), FAULTS);
}

#[test]
fn the_protocols_own_are_schemas() {
    for (purpose, kind, text) in PROTOCOL {
        let subject = Subject { purpose: purpose.to_owned(), kind };
        assert_eq!(Subject::of_file(&subject.file()), Some(subject));
        Schema::read(text.as_bytes()).unwrap();
    }
}

#[test]
fn a_file_names_an_intent_and_a_type() {
    let task = Subject { purpose: "ops.backup.check".to_owned(), kind: EnvelopeType::Task };
    assert_eq!(Subject::of_file("ops.backup.check.task.schema.json"), Some(task));
    for none in [
        "task.schema.json",
        "ops.event.schema.json",
        "ops.x.task.json",
        "../up.task.schema.json",
        "a/b.task.schema.json",
        "a b.task.schema.json",
        ".hid.task.schema.json",
        "ab.task.schema.json",
    ] {
        assert_eq!(Subject::of_file(none), None, "{none}");
    }
}

proptest! {
    /// Reading a schema and validating with it always ends, with a bounded number of faults.
    #[test]
    fn reading_ends(schema in any_schema(), payload in any_payload()) {
        if let Ok(schema) = Schema::read(schema.to_string().as_bytes()) {
            prop_assert!(schema.faults(&payload).len() <= FAULTS);
        }
    }
}

fn any_payload() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(1)), Just(json!("a")), Just(json!(null))];
    leaf.prop_recursive(6, 40, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            (inner.clone(), inner).prop_map(|(a, b)| json!({ "a": a, "b": b })),
        ]
    })
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({ "type": "integer" })),
        Just(json!(true)),
        Just(json!({ "$ref": "#" })),
        Just(json!({ "$ref": "#/$defs/a" })),
    ];
    let inner = leaf.prop_recursive(5, 30, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..3).prop_map(|list| json!({ "allOf": list })),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|list| json!({ "anyOf": list })),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| json!({ "properties": { "a": a }, "additionalProperties": b })),
            inner.clone().prop_map(|a| json!({ "items": a, "unevaluatedProperties": false })),
            inner.prop_map(|a| json!({ "not": a })),
        ]
    });
    (inner.clone(), inner).prop_map(|(a, root)| json!({ "$defs": { "a": a }, "anyOf": [root] }))
}
