//! Policies at a boundary (AEE §11.5): denials, lists, signatures, capped priorities and redactions.

use entente_domain::aee::envelopes::policy::{Checked, Passage, Rule, judge, redacted, unsigned};
use entente_domain::aee::envelopes::{Envelope, EnvelopeType, Priority};
use entente_domain::limits::LIST_ITEMS;
use entente_domain::refusal::Code;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{accepted, object, sample};
use crate::any;

fn rule(value: Value) -> Rule {
    serde_json::from_value(value).unwrap()
}

fn rules(values: &[Value]) -> Vec<Checked> {
    values.iter().map(|value| rule(value.clone()).check().unwrap()).collect()
}

fn envelope(from: &str, to: &str, purpose: &str) -> Envelope {
    let mut members = sample(EnvelopeType::Task);
    for (name, value) in [("from", from), ("to", to), ("intent", purpose)] {
        members.insert(name.to_owned(), json!(value));
    }
    accepted(members)
}

fn verdict(values: &[Value], purpose: &str) -> Result<Passage, Code> {
    let one = envelope("agent.ada", "partner.eu.billing", purpose);
    judge(&rules(values), &one, false).map_err(|refusal| refusal.code)
}

#[test]
fn without_rules_everything_passes_as_it_is() {
    assert_eq!(verdict(&[], "ops.delete"), Ok(Passage::default()));
    // An empty rule still marks a boundary.
    let boundary = Passage { boundary: true, ..Passage::default() };
    assert_eq!(verdict(&[json!({})], "ops.delete"), Ok(boundary));
}

#[test]
fn a_denial_beats_whatever_is_allowed() {
    let no = Err(Code::IntentNotAllowed);
    let allow = json!({ "allow": ["ops.**"] });
    let deny = json!({ "deny": ["ops.*.delete"] });
    for rules in [[allow.clone(), deny.clone()], [deny.clone(), allow.clone()]] {
        assert_eq!(verdict(&rules, "ops.vm.delete"), no);
        assert!(verdict(&rules, "ops.vm.create").is_ok());
        assert_eq!(verdict(&rules, "crm.vm.create"), no, "what is not listed is not allowed");
    }
    let both = json!({ "allow": ["ops.**"], "deny": ["ops.*.delete"] });
    assert_eq!(verdict(&[both], "ops.vm.delete"), no);
    // With two lists, only names on both are allowed.
    let lists = [json!({ "allow": ["a.**", "b.**"] }), json!({ "allow": ["b.**", "c.**"] })];
    assert_eq!(["a.x", "b.x", "c.x"].map(|purpose| verdict(&lists, purpose).is_ok()), [false, true, false]);
}

#[test]
fn a_rule_is_for_its_link_only() {
    let deny_all = |from: &str, to: &str| json!({ "from": from, "to": to, "deny": ["**"] });
    for (from, to, meant) in [
        ("**", "**", true),
        ("agent.*", "partner.**", true),
        ("agent.ada", "partner.eu.billing", true),
        ("agent.*", "partner.*", false),
        ("agent.b*", "**", false),
        ("service.**", "**", false),
        ("**", "partner.us.**", false),
        ("agent", "**", false),
    ] {
        assert_eq!(verdict(&[deny_all(from, to)], "ops.x").is_err(), meant, "{from} to {to}");
    }
}

#[test]
fn a_link_can_ask_for_signatures() {
    let must = [json!({ "to": "partner.**", "require_signature": true })];
    let one = envelope("agent.ada", "partner.eu", "ops.x");
    assert_eq!(judge(&rules(&must), &one, false), Err(unsigned()));
    assert_eq!(unsigned().code, Code::SignatureRequired);
    assert!(judge(&rules(&must), &one, true).is_ok());
    assert!(judge(&rules(&must), &envelope("agent.ada", "agent.bob", "ops.x"), false).is_ok());
}

#[test]
fn the_least_priority_is_believed_and_all_is_left_out_that_any_rule_names() {
    let several = [
        json!({ "max_priority": "high", "redact": ["/b", "/a"] }),
        json!({ "redact": ["/a/c", "/b"] }),
        json!({ "max_priority": "normal" }),
        json!({ "from": "nobody", "max_priority": "low", "redact": ["/z"] }),
    ];
    let passage = verdict(&several, "ops.x").unwrap();
    assert_eq!(passage.max_priority, Some(Priority::Normal));
    assert_eq!(passage.redact, ["/a", "/a/c", "/b"]);
}

#[test]
fn with_a_part_goes_all_that_is_in_it() {
    let passage = |redact: &[&str]| Passage {
        redact: redact.iter().map(|one| (*one).to_owned()).collect(),
        ..Passage::default()
    };
    for (redact, gone, more) in [
        (&["/a"][..], &[][..], &["/a"][..]),
        (&["/a", "/b"], &["/a"], &["/b"]),
        (&["/a/b", "/a/c/d"], &["/a"], &[]),
        (&["/ab", "/a"], &["/a"], &["/ab"]),
        (&["/a"], &["/a/b"], &["/a"]),
    ] {
        let gone: Vec<String> = gone.iter().map(|one| (*one).to_owned()).collect();
        assert_eq!(passage(redact).more_than(&gone), more, "{redact:?} without {gone:?}");
    }
}

#[test]
fn a_rule_that_cannot_be_read_is_refused() {
    let many = vec!["a.b"; LIST_ITEMS + 1];
    for bad in [
        json!({ "from": "" }),
        json!({ "to": "a**" }),
        json!({ "allow": ["ops.a**b"] }),
        json!({ "deny": ["x\u{7}"] }),
        json!({ "allow": many }),
        json!({ "deny": many }),
        json!({ "redact": vec!["/a"; LIST_ITEMS + 1] }),
        json!({ "redact": ["customer/email"] }),
        json!({ "redact": [""] }),
        json!({ "redact": ["/a~2b"] }),
        json!({ "redact": ["/a/b~"] }),
    ] {
        assert_eq!(rule(bad.clone()).check().unwrap_err().code, Code::Unprocessable, "{bad}");
    }
    rule(json!({ "redact": ["/a~1b/c~0d", "/"] })).check().unwrap();
    assert!(serde_json::from_value::<Rule>(json!({ "denny": ["**"] })).is_err(), "a slip is not passed over");
}

#[test]
fn what_is_left_out_is_gone_and_nothing_else() {
    let payload = json!({
        "customer": { "email": "e", "name": "n", "a/b": 1, "~": 2, "~1": 3 }, "list": [{ "pin": 1 }, 2, [3]], "": 4,
    });
    for (pointer, left) in [
        ("/customer", json!({ "list": payload["list"], "": 4 })),
        ("/customer/a~1b", changed(&payload, |all| drop(members(all, "customer").remove("a/b")))),
        ("/customer/~0", changed(&payload, |all| drop(members(all, "customer").remove("~")))),
        ("/customer/~01", changed(&payload, |all| drop(members(all, "customer").remove("~1")))),
        ("/list/0/pin", changed(&payload, |all| all["list"][0] = json!({}))),
        // The other items keep their positions.
        ("/list/1", changed(&payload, |all| all["list"][1] = json!(null))),
        ("/list/2/0", changed(&payload, |all| all["list"][2][0] = json!(null))),
        ("/", changed(&payload, |all| drop(all.as_object_mut().unwrap().remove("")))),
        ("/list/3", payload.clone()),
        ("/list/-", payload.clone()),
        ("/customer/email/x", payload.clone()),
        ("/nothing/at/all", payload.clone()),
    ] {
        let found = redacted(payload.as_object().unwrap(), &[pointer.to_owned()]);
        assert_eq!(Value::from(found), left, "{pointer}");
    }
    let all = ["/customer/email", "/customer", "/list", "/"].map(str::to_owned);
    assert_eq!(redacted(payload.as_object().unwrap(), &all), object(json!({})));
}

fn members<'a>(all: &'a mut Value, name: &str) -> &'a mut super::Members {
    all[name].as_object_mut().unwrap()
}

fn changed(payload: &Value, change: impl FnOnce(&mut Value)) -> Value {
    let mut payload = payload.clone();
    change(&mut payload);
    payload
}

proptest! {
    /// With any other redactions in any order, the delivered copy does not contain the secret.
    #[test]
    fn what_is_left_out_is_never_handed_on(
        payload in any::object(),
        path in proptest::collection::vec(prop_oneof!["[a-c]{1,2}", any::text()], 1..4),
        others in proptest::collection::vec("(/[a-c0-2~]{0,2}){1,3}", 0..4),
        first: bool,
    ) {
        const SECRET: &str = "the-secret-4711";
        let mut whole = Value::from(payload);
        let mut place = &mut whole;
        for name in &path {
            if !place.is_object() {
                *place = json!({});
            }
            place = &mut place[name.as_str()];
        }
        *place = json!({ "in": [SECRET] });
        let escaped: Vec<String> =
            path.iter().map(|name| name.replace('~', "~0").replace('/', "~1")).collect();
        let pointer = format!("/{}", escaped.join("/"));
        let mut pointers = others;
        pointers.insert(if first { 0 } else { pointers.len() }, pointer.clone());
        let left = Value::from(redacted(whole.as_object().unwrap(), &pointers));
        prop_assert!(!left.to_string().contains(SECRET));
        prop_assert!(left.pointer(&pointer).is_none());
    }

    /// An empty redaction changes nothing, and redacting twice equals redacting once.
    #[test]
    fn leaving_out_twice_is_leaving_out_once(
        payload in any::object(), pointers in proptest::collection::vec("(/[a-c0-2]{0,2}){1,3}", 0..4),
    ) {
        prop_assert_eq!(&redacted(&payload, &[]), &payload);
        let once = redacted(&payload, &pointers);
        prop_assert_eq!(redacted(&once, &pointers), once);
    }
}
