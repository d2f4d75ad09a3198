//! Warnings on accepted envelopes (AEE's SHOULDs): requirements, errors, nested envelopes, secrets.

use entente_domain::aee::envelopes::{EnvelopeType, Requires, Warning};
use entente_domain::refusal::Code;
use serde_json::{Value, json};

use super::{accepted, at_fault, object, remarked, sample, with};

const TASK: EnvelopeType = EnvelopeType::Task;

fn requires(value: Value) -> super::Members {
    with(TASK, "requires", value)
}

#[test]
fn warnings_have_one_word_each() {
    for warning in Warning::ALL {
        assert_eq!(Warning::parse(warning.as_str()), Some(*warning));
        assert_eq!(json!(warning), warning.as_str());
        assert!(warning.meaning().ends_with('.'));
    }
    assert_eq!(Warning::parse("nothing"), None);
}

/// AEE §6.10: unknown keys are ignored; a known one of the wrong type counts as absent.
#[test]
fn requirements_that_make_no_sense_are_passed_over() {
    remarked(requires(json!({ "foo": 1, "decision_evidence": "full" })), &[]);
    remarked(requires(json!({ "foo": 1, "timeout_ms": "soon" })), &[Warning::RequiresType]);
    for odd in [
        json!({ "timeout_ms": "soon" }),
        json!({ "timeout_ms": -1 }),
        json!({ "timeout_ms": 0 }),
        json!({ "timeout_ms": true }),
        json!({ "evidence": 1 }),
        json!({ "format": {} }),
        json!({ "min_confidence": 1.01 }),
        json!({ "min_confidence": "0.5" }),
    ] {
        let envelope = accepted(requires(odd));
        assert_eq!(
            (&envelope.warnings[..], envelope.requires),
            (&[Warning::RequiresType][..], Requires::default())
        );
    }
    for plain in [json!(null), json!({}), json!({ "timeout_ms": null, "evidence": null })] {
        let envelope = accepted(requires(plain));
        assert_eq!((&envelope.warnings[..], envelope.requires), (&[][..], Requires::default()));
    }
    // An invalid member does not affect the others.
    let mixed = accepted(requires(json!({ "timeout_ms": "soon", "human_approval": true })));
    assert!(mixed.requires.human_approval);
}

/// AEE §3, field 12: it is a boolean. Any other value may be meant as a request for approval, so the envelope is
/// refused, whatever its type, and never delivered as if no approval had been requested.
#[test]
fn consent_is_true_or_false_and_nothing_else() {
    for odd in [
        json!("true"),
        json!("yes"),
        json!(1),
        json!(0),
        json!("false"),
        json!(null),
        json!([true]),
        json!({}),
    ] {
        for kind in EnvelopeType::ALL {
            let asked = with(kind, "requires", json!({ "human_approval": odd, "timeout_ms": 5 }));
            at_fault(asked, Code::InvalidEnvelope, "requires/human_approval bool_type");
        }
    }
    for (plain, asks) in [(json!(true), true), (json!(false), false)] {
        assert_eq!(accepted(requires(json!({ "human_approval": plain }))).requires.human_approval, asks);
    }
    // Keys that AEE does not define are left to the recipient (§6.10).
    remarked(requires(json!({ "Human_Approval": "yes" })), &[]);
}

#[test]
fn a_timeout_is_a_number_of_milliseconds() {
    for (given, read) in [
        (json!(30_000), 30_000),
        (json!(0.5), 1),
        (json!(1500.2), 1501),
        (json!(1e300), u64::MAX),
        (json!(u64::MAX), u64::MAX),
    ] {
        assert_eq!(accepted(requires(json!({ "timeout_ms": given }))).requires.timeout_ms, Some(read));
    }
}

#[test]
fn large_requirements_are_remarked_upon() {
    // `{"note":""}` has 11 bytes.
    remarked(requires(json!({ "note": "x ".repeat(1018) + "y" })), &[]);
    remarked(requires(json!({ "note": "x ".repeat(1019) })), &[Warning::RequiresLarge]);
}

#[test]
fn what_looks_like_a_secret_is_remarked_upon() {
    for secret in [
        "sk-proj-0123456789abcdef",
        "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln",
        "ghp_0123456789abcdefghijABCDEFGHIJ",
        "AKIAIOSFODNN7EXAMPLE",
        "ent_0123456789abcdefghij",
        "-----BEGIN PRIVATE KEY-----",
        "dGhpcyBpcyBhIHNlY3JldCBvZiBzb21lIGxlbmd0aDEyMw==",
    ] {
        for place in [json!(secret), json!([{ "deep": [secret] }])] {
            remarked(requires(json!({ "auth": place })), &[Warning::PossibleSecretInRequires]);
        }
    }
    for plain in [
        "a long sentence about sk- and eyJ that holds no secret at all",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "https://example.org/a/very/long/address?with=parts&and=more",
        "0192f0c1-7a3e-7cc3-98c4-dc0c0c07398f",
    ] {
        remarked(requires(json!({ "note": plain })), &[]);
    }
}

#[test]
fn an_error_should_be_complete() {
    let error = |payload: Value| with(EnvelopeType::Error, "payload", payload);
    let whole =
        json!({ "code": "E_X", "message": "why", "retryable": false, "backoff_ms": 1, "evidence_refs": [] });
    remarked(error(whole.clone()), &[]);
    for (name, wrong) in [("code", json!(7)), ("message", json!(null)), ("retryable", json!("no"))] {
        let mut lacking = object(whole.clone());
        lacking.remove(name);
        remarked(error(Value::from(lacking)), &[Warning::ErrorPayloadIncomplete]);
        let mut odd = whole.clone();
        odd[name] = wrong;
        remarked(error(odd), &[Warning::ErrorPayloadIncomplete]);
    }
    // Payloads of other types are not checked for this.
    for kind in EnvelopeType::ALL.into_iter().filter(|kind| *kind != EnvelopeType::Error) {
        remarked(with(kind, "payload", json!({})), &[]);
    }
}

/// AEE §10.2 and §10.3: an envelope in a payload causes a warning and has no effect.
#[test]
fn an_envelope_within_an_envelope_is_only_a_payload() {
    let inner = Value::from(with(TASK, "to", json!("agent.third")));
    for payload in [json!({ "archive": [{ "one": inner }] }), inner.clone()] {
        let result = with(EnvelopeType::Result, "payload", payload);
        let outer = accepted(result.clone());
        assert_eq!(outer.warnings, [Warning::LooksLikeNestedEnvelope]);
        let plain = accepted(sample(EnvelopeType::Result));
        assert_eq!((outer.recipient, outer.references), (plain.recipient, plain.references));
    }
    let five = json!({ "log": { "v": "1", "id": "x", "type": "event", "from": "a", "intent": "b" } });
    remarked(with(TASK, "payload", five), &[]);
}

#[test]
fn warnings_add_up() {
    let mut odd = with(TASK, "requires", json!({ "timeout_ms": "soon", "key": "sk-0123456789abcdef" }));
    odd.insert("id".to_owned(), json!("my-own-id"));
    odd.insert("ts".to_owned(), json!("this morning"));
    odd.insert("reply_to".to_owned(), json!("x"));
    remarked(
        odd,
        &[
            Warning::RequiresType,
            Warning::PossibleSecretInRequires,
            Warning::IdNotUlidOrUuid,
            Warning::TsUnparseable,
            Warning::ReplyToShouldBeNull,
        ],
    );
}
