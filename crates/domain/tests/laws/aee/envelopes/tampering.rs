//! The coverage of a signature (AEE §8): everything but itself, or the ten members for signatures of other
//! implementations.

use entente_domain::aee::envelopes::EnvelopeType;
use entente_domain::aee::envelopes::signing::Sig;
use entente_domain::canonical;
use entente_domain::refusal::Code;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::signing::{core_signed, judged, keys, signed};
use super::{FIELDS, Members, object, sample};
use crate::any;

/// Returns an envelope with all fields, unknown ones, and nested values in each.
fn rich() -> Members {
    let mut members = sample(EnvelopeType::Result);
    members.insert("ttl".to_owned(), json!(60));
    members.insert("route".to_owned(), json!({ "via": ["gateway.a", { "hop": null }] }));
    members.insert("payload".to_owned(), json!({ "status": "ok", "failed": [{ "node": "n1", "n": 0.5 }] }));
    members
}

/// Collects all places of a value as JSON Pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| places(value, &format!("{at}/{name}"), found));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| places(value, &format!("{at}/{index}"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn other(value: &Value) -> Value {
    match value {
        Value::Null => json!(false),
        Value::Bool(is) => json!(!is),
        Value::Number(_) => json!(7),
        Value::String(text) => json!(format!("{text} ")),
        Value::Array(items) => Value::from([&items[..], &[json!(0)]].concat()),
        Value::Object(members) => {
            let mut more = members.clone();
            more.insert("more".to_owned(), json!(null));
            Value::from(more)
        }
    }
}

/// Returns the envelope with the value at each place changed, and without it.
fn changes(members: &Members) -> Vec<(String, Members)> {
    let whole = Value::from(members.clone());
    let mut all = Vec::new();
    places(&whole, "", &mut all);
    let mut changed = Vec::new();
    for place in all.iter().filter(|place| *place != "/sig" && !place.starts_with("/sig/")) {
        let mut one = whole.clone();
        let value = one.pointer_mut(place).unwrap();
        *value = other(value);
        changed.push((format!("{place} changed"), object(one)));
        let Some((parent, last)) = place.rsplit_once('/') else { continue };
        let mut one = whole.clone();
        match one.pointer_mut(parent).unwrap() {
            Value::Object(members) => drop(members.remove(last)),
            Value::Array(items) => drop(items.remove(last.parse().unwrap())),
            _ => {}
        }
        changed.push((format!("{place} taken out"), object(one)));
    }
    changed
}

#[test]
fn a_signature_binds_every_member_known_or_not_and_what_is_in_it() {
    for (key, check) in keys() {
        let members = signed(rich(), &key);
        let changes = changes(&members);
        assert!(changes.len() > 50, "{}", changes.len());
        for (what, changed) in changes {
            let refusal = judged(&changed, &check).expect_err(&what);
            assert_eq!(refusal.code, Code::BadSignature, "{what}");
        }
    }
}

/// A relay might want to strip `requires.human_approval`, `priority` and `trace`.
#[test]
fn nobody_can_strip_what_is_required() {
    let [(key, check), _] = keys();
    let mut asked = sample(EnvelopeType::Task);
    asked.insert("requires".to_owned(), json!({ "human_approval": true, "timeout_ms": 5000 }));
    let asked = signed(asked, &key);
    for requires in [None, Some(json!(null)), Some(json!({})), Some(json!({ "timeout_ms": 5000 }))] {
        let mut stripped = asked.clone();
        match requires {
            None => drop(stripped.remove("requires")),
            Some(requires) => drop(stripped.insert("requires".to_owned(), requires)),
        }
        assert_eq!(judged(&stripped, &check).unwrap_err().code, Code::BadSignature);
    }
}

#[test]
fn the_narrow_scope_binds_the_ten_and_no_others() {
    let [_, (_, wrong_key)] = keys();
    let [(_, check), _] = keys();
    let members = core_signed(rich());
    assert_eq!(judged(&members, &check), Ok(()));
    assert!(judged(&members, &wrong_key).is_err());
    let bound = ["v", "id", "ts", "type", "from", "to", "intent", "corr", "reply_to", "payload"];
    for (what, changed) in changes(&members) {
        let name = what.split(['/', ' ']).nth(1).unwrap_or_default();
        let free = !bound.contains(&name);
        assert_eq!(judged(&changed, &check).is_ok(), free, "{what}");
    }
    assert_eq!(FIELDS.iter().filter(|name| !bound.contains(*name)).count(), 4);
    // An absent `reply_to` is canonicalised as null.
    let mut event = sample(EnvelopeType::Event);
    event.remove("reply_to");
    let mut event = core_signed(event);
    assert_eq!(judged(&event, &check), Ok(()));
    event.insert("reply_to".to_owned(), json!(null));
    assert_eq!(judged(&event, &check), Ok(()));
    event.insert("reply_to".to_owned(), json!("01JFB2R1JZKQ9V3K8W8Y9W1F2A"));
    assert!(judged(&event, &check).is_err());
}

/// Changing the scope in transit changes the signed bytes.
#[test]
fn a_scope_cannot_be_swapped() {
    let [(key, check), _] = keys();
    let mut narrowed = signed(sample(EnvelopeType::Task), &key);
    narrowed["sig"]["scope"] = json!("core");
    assert_eq!(judged(&narrowed, &check).unwrap_err().code, Code::BadSignature);
    let mut widened = core_signed(sample(EnvelopeType::Task));
    widened["sig"].as_object_mut().unwrap().remove("scope");
    assert_eq!(judged(&widened, &check).unwrap_err().code, Code::BadSignature);
}

/// A signature of the same key for another purpose is invalid here, because of the prefix.
#[test]
fn a_signature_over_the_plain_canonical_form_is_none() {
    let [(_, check), _] = keys();
    let mut members = sample(EnvelopeType::Task);
    members.remove("sig");
    let signer = entente_domain::identity::signatures::Signer::from_seed(&[7; 32]);
    let made = signer.sign(canonical::text(&members).unwrap());
    let sig = json!({ "alg": "ed25519", "kid": "key-2", "value": made.show(), "profile": "aee-jcs-1" });
    members.insert("sig".to_owned(), sig);
    assert!(Sig::read(&members).is_ok());
    assert_eq!(judged(&members, &check).unwrap_err().code, Code::BadSignature);
}

proptest! {
    #[test]
    fn what_is_signed_verifies_and_what_was_changed_does_not(
        kind in select(&EnvelopeType::ALL[..]),
        more in any::object(),
        payload in any::object(),
        (name, value) in ("[a-z]{0,6}", any::json()),
        place in any::<Index>(),
    ) {
        let mut members = more;
        members.extend(sample(kind));
        members.insert("payload".to_owned(), Value::from(payload));
        for (key, check) in keys() {
            let members = signed(members.clone(), &key);
            prop_assert_eq!(judged(&members, &check), Ok(()));
            // It still verifies after it was serialised and parsed.
            let text = serde_json::to_string(&members).unwrap();
            if let Ok(read) = entente_domain::aee::envelopes::members(text.as_bytes()) {
                prop_assert_eq!(judged(&read, &check), Ok(()));
            }
            let mut changed = Value::from(members.clone());
            let mut all = Vec::new();
            places(&changed, "", &mut all);
            all.retain(|place| !place.starts_with("/sig") && !place.contains('~') && !place.is_empty());
            if let Some(at) = changed.pointer_mut(&all[place.index(all.len())]) {
                *at = other(at);
            }
            if name != "sig" {
                changed[&name] = value.clone();
            }
            let same = canonical::text(&changed).unwrap() == canonical::text(&members).unwrap();
            prop_assert_eq!(judged(&object(changed), &check).is_ok(), same);
        }
    }
}
