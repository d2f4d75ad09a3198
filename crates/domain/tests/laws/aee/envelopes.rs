//! The domain rules of envelopes (AEE 1): validity, warnings, replies, policies and signatures. One file per module
//! of `entente_domain::aee::envelopes`; their shared helpers are here.

mod approvals;
mod drafts;
mod examples;
mod fields;
mod logs;
mod pairing;
mod policy;
mod purposes;
mod quotas;
mod reading;
mod receipt;
mod redaction;
mod schema;
mod schemas;
mod signing;
mod tampering;
mod warnings;
mod window;

use entente_domain::aee::envelopes::{Envelope, EnvelopeType, Warning, check};
use entente_domain::refusal::{Code, Refusal};
use serde_json::{Map, Value, json};

/// The members of an envelope.
type Members = Map<String, Value>;

/// The fourteen fields of AEE §3.
const FIELDS: [&str; 14] = [
    "v", "id", "ts", "type", "from", "to", "intent", "corr", "reply_to", "trace", "priority", "requires",
    "payload", "sig",
];

/// Returns a valid envelope with every field.
fn sample(kind: EnvelopeType) -> Members {
    let answers = kind.is_terminal().then_some("01JFB2R1JZKQ9V3K8W8Y9W1F2A");
    let payload = match kind {
        EnvelopeType::Error => json!({ "code": "E_DISK", "message": "The disk is full", "retryable": true }),
        _ => json!({ "cluster": "north", "window": "24h" }),
    };
    object(json!({
        "v": "1", "id": "01JFB2S7T8N4J8B7QH1GJ8Z1Y2", "ts": "2026-11-21T10:00:00Z", "type": kind,
        "from": "agent.auditor", "to": "agent.manager", "intent": "ops.backup.check",
        "corr": "01JFB2QX0K8X5K6ZJ9G2C0C1MW", "reply_to": answers,
        "trace": { "trace_id": "9f3c", "span_id": "a12b" }, "priority": "high",
        "requires": { "timeout_ms": 30000, "evidence": true, "human_approval": false },
        "payload": payload, "sig": null,
    }))
}

fn object(value: Value) -> Members {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} is no object"),
    }
}

fn with(kind: EnvelopeType, name: &str, value: Value) -> Members {
    let mut members = sample(kind);
    members.insert(name.to_owned(), value);
    members
}

fn without(kind: EnvelopeType, name: &str) -> Members {
    let mut members = sample(kind);
    members.remove(name);
    members
}

fn accepted(members: Members) -> Envelope {
    check(members.clone()).unwrap_or_else(|refusal| panic!("{refusal:?} of {}", Value::from(members)))
}

fn refused(members: Members) -> Refusal {
    match check(members.clone()) {
        Ok(_) => panic!("{} was accepted", Value::from(members)),
        Err(refusal) => refusal,
    }
}

/// Returns the places and kinds of a refusal's faults, such as `payload/references/0/id missing`.
fn faults(refusal: &Refusal) -> Vec<String> {
    let places = refusal.errors.iter().map(|error| format!("{} {}", error.loc[1..].join("/"), error.kind));
    places.collect()
}

/// Asserts that an envelope is refused for one fault.
#[track_caller]
fn at_fault(members: Members, code: Code, fault: &str) {
    let refusal = refused(members);
    assert_eq!((refusal.code, faults(&refusal)), (code, vec![fault.to_owned()]));
}

/// Asserts that an envelope is accepted with these warnings.
#[track_caller]
fn remarked(members: Members, warnings: &[Warning]) {
    assert_eq!(accepted(members).warnings, warnings);
}
