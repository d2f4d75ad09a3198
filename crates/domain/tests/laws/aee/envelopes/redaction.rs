//! The redacted copy that the gateway delivers instead of an envelope.

use entente_domain::aee::envelopes::redaction::RedactedEnvelope;
use entente_domain::aee::envelopes::{Envelope, check, hash};
use serde_json::{Value, json};

use crate::any::{Dice, at};

fn original(payload: &Value, sig: &Value) -> Envelope {
    let text = json!({
        "v": "1", "id": "envelope-1", "ts": "2026-11-21T08:00:00Z", "type": "task", "from": "agent.a", "to": "agent.b",
        "intent": "ops.x", "corr": "thread-1", "priority": "high", "requires": { "timeout_ms": 5 }, "payload": payload,
        "trace": { "trace_id": "9f3c", "span_id": "a1" }, "sig": sig, "x-note": "secret",
    });
    check(text.as_object().unwrap().clone()).unwrap()
}

fn instead(original: &Envelope, without: &[&str]) -> Envelope {
    let without: Vec<String> = without.iter().map(|one| (*one).to_owned()).collect();
    let one = RedactedEnvelope {
        original,
        sender: "service.g",
        recipient: "agent.b",
        reply_to: None,
        without: &without,
    };
    one.write(at(1), &Dice(7)).unwrap()
}

#[test]
fn it_is_the_gateways_own_and_refers_to_the_original() {
    let original = original(&json!({ "name": "x", "customer": { "email": "secret", "n": 1 } }), &Value::Null);
    let made = instead(&original, &["/customer/email", "/nothing"]);
    assert!(made.id != original.id && !Value::Object(made.members.clone()).to_string().contains("secret"));
    let reference = json!({ "id": "envelope-1", "type": "aee.envelope", "corr": "thread-1" });
    let payload = json!({ "name": "x", "customer": { "n": 1 }, "references": [reference] });
    assert_eq!(
        (made.payload(), made.sender.as_str(), made.recipient.as_str()),
        (&payload, "service.g", "agent.b")
    );
    assert_eq!(
        (made.kind, &made.purpose, &made.corr, made.priority, made.requires, &made.trace),
        (
            original.kind,
            &original.purpose,
            &original.corr,
            original.priority,
            original.requires,
            &original.trace
        )
    );
    assert!(made.sig().is_none());
}

#[test]
fn it_has_the_hash_of_what_was_signed_and_of_nothing_else() {
    let payload = json!({ "pin": "1234" });
    let open = original(&payload, &Value::Null);
    assert!(
        !instead(&open, &["/pin"]).payload().to_string().contains("sha256:"),
        "a guess could be confirmed"
    );
    let signed =
        original(&payload, &json!({ "alg": "ed25519", "kid": "k", "value": "x", "profile": "aee-jcs-1" }));
    assert_eq!(instead(&signed, &["/pin"]).references[0].hash, Some(hash(&signed.members)));
}

#[test]
fn what_the_original_refers_to_stays() {
    let own = json!({ "id": "envelope-0", "type": "aee.envelope" });
    let more = original(&json!({ "references": [own] }), &Value::Null);
    let ids: Vec<String> = instead(&more, &[]).references.into_iter().map(|one| one.id).collect();
    assert_eq!(ids, ["envelope-0", "envelope-1"]);
    let odd = original(&json!({ "references": "none" }), &Value::Null);
    assert_eq!(instead(&odd, &[]).payload(), odd.payload());
}
