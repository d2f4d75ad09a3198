//! The served schema and the domain rules agree (AEE §3.1): everything that the schema refuses is refused for the
//! same members, and all further refusals are named here.

use std::collections::BTreeSet;

use entente_domain::aee::envelopes::check::REQUIRED;
use entente_domain::aee::envelopes::{EnvelopeType, check};
use entente_domain::refusal::{Code, FieldError};
use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::{FIELDS, Members, sample};

const SCHEMA: &str = include_str!("../../../../../../openapi/aee/aee-v1.schema.json");

fn validator() -> Validator {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    assert!(jsonschema::meta::is_valid(&schema));
    jsonschema::validator_for(&schema).unwrap()
}

/// Whether the domain rules require this beyond the schema: maximum lengths and no control characters of texts, an
/// id that fits into a path, and resolvable references to envelopes (AEE §10.2). Neither accepts a log line (§7.2)
/// as an envelope.
fn is_beyond(fault: &FieldError) -> bool {
    matches!(fault.kind.as_str(), "too_long" | "control" | "characters")
        || fault.loc.iter().any(|part| part == "references")
}

/// Returns the members that the schema refuses.
fn of_schema(validator: &Validator, members: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for error in validator.iter_errors(members) {
        let place = error.instance_path().to_string();
        let first = place.split('/').nth(1).map(str::to_owned);
        found.insert(first.unwrap_or_else(|| match error.kind() {
            ValidationErrorKind::Required { property } => property.as_str().unwrap().to_owned(),
            other => panic!("{other:?}"),
        }));
    }
    found
}

/// Compares the two. Returns whether the envelope was accepted.
fn compare(validator: &Validator, members: Members) -> Result<bool, TestCaseError> {
    let whole = Value::from(members.clone());
    let schema = of_schema(validator, &whole);
    prop_assert_eq!(schema.is_empty(), validator.is_valid(&whole));
    match check(members) {
        Ok(_) => {
            prop_assert!(schema.is_empty(), "accepted, against the schema at {:?}: {}", schema, whole);
            Ok(true)
        }
        Err(refusal) if refusal.code == Code::Mve5NotRoutable => {
            prop_assert!(!schema.is_empty());
            Ok(false)
        }
        Err(refusal) => {
            let (beyond, law): (Vec<_>, Vec<_>) = refusal.errors.iter().partition(|fault| is_beyond(fault));
            let law: BTreeSet<String> = law.iter().map(|fault| fault.loc[1].clone()).collect();
            prop_assert_eq!(&law, &schema, "{}", whole);
            prop_assert!(!law.is_empty() || !beyond.is_empty());
            Ok(false)
        }
    }
}

/// Returns all values that a field is tested with; `None` omits it.
fn tries(name: &str) -> Vec<Option<Value>> {
    let mut values = vec![None];
    let plain =
        [json!(null), json!(true), json!(0), json!(1), json!(1.5), json!([]), json!(["1"]), json!({})];
    values.extend(plain.map(Some));
    let lengths = [0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 127, 128, 129, 199, 200, 201];
    for length in lengths {
        values.extend(["x", "ä", "😀", "\u{7}"].map(|letter| Some(json!(letter.repeat(length)))));
    }
    let words = ["1", "2", "task", "result", "event", "error", "stream", "Task", "TASK ", "low", "normal"];
    let more = ["high", "urgent", "critical", "agent.a", "bus.x", "2026-11-21T10:00:00Z", "a b c d e f"];
    values.extend(words.iter().chain(&more).map(|word| Some(json!(word))));
    if ["trace", "requires", "payload", "sig"].contains(&name) {
        let objects = [
            json!({ "trace_id": "a", "span_id": "b" }),
            json!({ "trace_id": "a", "span_id": "b", "more": 1 }),
            json!({ "trace_id": "a" }),
            json!({ "trace_id": null, "span_id": "b" }),
            json!({ "trace_id": 1, "span_id": [] }),
            json!({ "timeout_ms": "soon", "min_confidence": 7 }),
            json!({ "human_approval": true }),
            json!({ "human_approval": "true" }),
            json!({ "human_approval": null }),
            json!({ "alg": "none" }),
            json!({ "references": [{ "type": "aee.envelope" }] }),
            json!({ "references": [{ "type": "aee.envelope", "id": "12345678", "hash": 1 }] }),
            json!({ "references": { "type": "aee.envelope" } }),
        ];
        values.extend(objects.map(Some));
    }
    values
}

fn put(members: &mut Members, name: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(members.insert(name.to_owned(), value)),
        None => drop(members.remove(name)),
    }
}

#[test]
fn every_field_is_described_and_only_the_fourteen() {
    let schema: Map<String, Value> = serde_json::from_str(SCHEMA).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["required"], json!(REQUIRED));
    assert_eq!(schema["additionalProperties"], true);
    let properties = schema["properties"].as_object().unwrap();
    let named: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
    assert_eq!(named, BTreeSet::from(FIELDS));
    for (name, property) in properties {
        assert!(property["title"].is_string() && property["description"].is_string(), "{name}");
    }
}

#[test]
fn the_schema_and_the_law_agree_on_every_field() {
    let validator = validator();
    let (mut all, mut accepted) = (0, 0);
    for kind in EnvelopeType::ALL {
        for name in FIELDS.into_iter().chain(["unknown"]) {
            for value in tries(name) {
                let mut members = sample(kind);
                put(&mut members, name, value);
                all += 1;
                accepted += usize::from(compare(&validator, members).unwrap());
            }
        }
    }
    assert!(all > 5_000 && accepted > all / 5 && accepted < all * 4 / 5, "{accepted} of {all} were accepted");
}

#[test]
fn what_is_no_object_is_no_envelope() {
    let validator = validator();
    for text in ["null", "[]", "1", "\"x\"", "[{}]", "true"] {
        assert!(!validator.is_valid(&serde_json::from_str(text).unwrap()));
        assert!(entente_domain::aee::envelopes::read(text.as_bytes()).is_err());
    }
}

proptest! {
    #[test]
    fn the_schema_and_the_law_agree_on_several_fields(
        kind in select(&EnvelopeType::ALL[..]),
        changes in proptest::collection::vec(
            select(&FIELDS[..]).prop_flat_map(|name| (Just(name), select(tries(name)))), 0..6,
        ),
    ) {
        static ONCE: std::sync::LazyLock<Validator> = std::sync::LazyLock::new(validator);
        let mut members = sample(kind);
        for (name, value) in changes {
            put(&mut members, name, value);
        }
        compare(&ONCE, members)?;
    }
}
