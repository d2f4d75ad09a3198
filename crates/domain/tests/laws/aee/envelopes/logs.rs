//! Log lines of five members (AEE §7.2): which are valid, and that none is an envelope.

use entente_domain::aee::envelopes::logs::{MEMBERS, is_mve5, read};
use entente_domain::aee::envelopes::{EnvelopeType, check};
use entente_domain::refusal::Code;
use serde_json::{Value, json};

use super::{Members, faults, object, sample};

fn line() -> Members {
    object(json!({ "v": "1", "id": "12345678", "type": "event", "from": "agent.a", "intent": "ops.x" }))
}

fn bytes(members: Members) -> Vec<u8> {
    Value::from(members).to_string().into_bytes()
}

#[test]
fn five_members_are_a_line_and_no_envelope() {
    let read = read(&bytes(line())).unwrap();
    assert_eq!(
        (read.id.as_str(), read.kind, read.sender.as_str()),
        ("12345678", EnvelopeType::Event, "agent.a")
    );
    assert_eq!((read.purpose.as_str(), read.corr), ("ops.x", None));
    let refusal = check(line()).unwrap_err();
    assert_eq!(refusal.code, Code::Mve5NotRoutable);
    assert!(refusal.message.contains("/aee/logs"));
    // Further members that are not for routing are allowed.
    let mut more = line();
    more.extend(object(json!({ "ts": "2026-11-21T10:00:00Z", "priority": "low", "level": "info" })));
    assert!(is_mve5(&more));
    assert_eq!(check(more).unwrap_err().code, Code::Mve5NotRoutable);
    // With a routing member it is an incomplete envelope.
    for name in ["to", "corr", "payload"] {
        let mut half = line();
        half.insert(name.to_owned(), json!(null));
        assert!(!is_mve5(&half));
        assert_eq!(check(half).unwrap_err().code, Code::InvalidEnvelope);
    }
}

#[test]
fn a_line_is_read_as_strictly_as_an_envelope() {
    for name in MEMBERS {
        let mut lacking = line();
        lacking.remove(name);
        assert!(!is_mve5(&lacking));
        let refusal = read(&bytes(lacking)).unwrap_err();
        assert_eq!(
            (refusal.code, faults(&refusal)),
            (Code::InvalidEnvelope, vec![format!("{name} missing")])
        );
        let long = "x".repeat(201);
        for wrong in
            [json!(null), json!(""), json!(7), json!([]), json!(long), json!("a\u{1b}[0m\r\nb2345678")]
        {
            let mut odd = line();
            odd.insert(name.to_owned(), wrong);
            assert_eq!(faults(&read(&bytes(odd)).unwrap_err()), [format!("{name} value")]);
        }
    }
    assert_eq!(faults(&read(b"{}").unwrap_err()).len(), 5);
    assert_eq!(read(br#"{"v":"1","v":"1"}"#).unwrap_err().code, Code::InvalidJson);
    assert_eq!(read(b"not json").unwrap_err().code, Code::InvalidJson);
}

#[test]
fn a_full_envelope_is_a_line_too() {
    for kind in EnvelopeType::ALL {
        let envelope = sample(kind);
        let line = read(&bytes(envelope.clone())).unwrap();
        assert_eq!((line.kind, json!(line.corr)), (kind, envelope["corr"].clone()));
    }
}
