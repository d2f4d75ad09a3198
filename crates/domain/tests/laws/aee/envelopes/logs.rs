//! Log lines of five members (AEE §7.2): how a body is split into lines, which are valid, that none is an envelope, and
//! the connections over which unsigned content is accepted (AEE §11.3).

use entente_domain::aee::envelopes::logs::{MEMBERS, is_mve5, read, split};
use entente_domain::aee::envelopes::transport::is_private;
use entente_domain::aee::envelopes::{EnvelopeType, check};
use entente_domain::limits::BATCH;
use entente_domain::refusal::Code;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Members, faults, object, sample};

fn line() -> Members {
    object(json!({ "v": "1", "id": "12345678", "type": "event", "from": "agent.a", "intent": "ops.x" }))
}

fn bytes(members: Members) -> Vec<u8> {
    Value::from(members).to_string().into_bytes()
}

/// Returns the line with another value of one member.
fn changed(name: &str, value: Value) -> Vec<u8> {
    let mut line = line();
    line.insert(name.to_owned(), value);
    bytes(line)
}

proptest! {
    #[test]
    fn every_line_comes_back_with_its_place(lines in vec("[a-z{}\" ]{0,6}", 0..30), windows in any::<bool>()) {
        let end = if windows { "\r\n" } else { "\n" };
        let body = lines.join(end);
        let expected: Vec<(usize, &[u8])> = lines
            .iter()
            .enumerate()
            .map(|(index, line)| (index, line.trim().as_bytes()))
            .filter(|(_, line)| !line.is_empty())
            .collect();
        match split(body.as_bytes()) {
            Ok(found) => prop_assert_eq!(found, expected),
            Err(refusal) => {
                prop_assert_eq!(refusal.code, Code::InvalidRequest);
                prop_assert!(expected.is_empty());
            }
        }
    }
}

#[test]
fn a_body_has_so_many_lines() {
    let full = "x\n".repeat(BATCH);
    assert_eq!(split(full.as_bytes()).unwrap().len(), BATCH);
    assert_eq!(split(format!("\n{full}\n\n").as_bytes()).unwrap().len(), BATCH, "blank ones are none");
    assert_eq!(split(format!("{full}x").as_bytes()).unwrap_err().code, Code::TooLarge);
}

#[test]
fn each_member_of_a_line_has_its_bounds() {
    for (name, wrong) in [
        ("v", json!("2")),
        ("v", json!(1)),
        ("id", json!("short")),
        ("id", json!("i".repeat(129))),
        ("type", json!("note")),
        ("from", json!("")),
        ("from", json!("f".repeat(201))),
        ("intent", json!("ab")),
        ("intent", json!("i".repeat(201))),
        ("intent", json!(["ops.log"])),
    ] {
        let refusal = read(&changed(name, wrong)).unwrap_err();
        assert_eq!((refusal.code, refusal.errors[0].loc[1].as_str()), (Code::InvalidEnvelope, name));
    }
}

#[test]
fn a_thread_is_found_by_its_name_when_it_has_one() {
    let corr = |value| read(&changed("corr", value)).unwrap().corr;
    assert_eq!(corr(json!("01JFB2QX")).as_deref(), Some("01JFB2QX"));
    // Too long for the index, but the line is stored.
    for unusable in [json!("c".repeat(129)), json!(7), json!(null)] {
        assert_eq!(corr(unusable), None);
    }
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

#[test]
fn only_this_machine_and_what_comes_through_tls_is_private() {
    let said = |peer: &str, tls| is_private(Some(peer.parse().unwrap()), tls);
    for near in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
        assert!(said(near, false), "{near}");
    }
    for far in ["192.0.2.1", "10.0.0.1", "::ffff:192.0.2.1", "fe80::1", "0.0.0.0"] {
        assert!(!said(far, false) && said(far, true), "{far}");
    }
    assert!(!is_private(None, false), "who cannot be told is not near");
}
