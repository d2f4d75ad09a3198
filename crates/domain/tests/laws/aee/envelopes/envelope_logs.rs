//! Logged envelope lines (AEE §7.2): how a body is split into lines, valid lines, and the connections over which
//! unsigned content is accepted (AEE §11.3).

use entente_domain::aee::envelopes::logs::{MEMBERS, read, split};
use entente_domain::aee::envelopes::transport::is_private;
use entente_domain::limits::BATCH;
use entente_domain::refusal::Code;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

fn line() -> Value {
    json!({ "v": "1", "id": "01JFB2R1", "type": "event", "from": "agent.ada", "intent": "ops.log" })
}

fn changed(name: &str, value: Value) -> Vec<u8> {
    let mut line = line();
    line[name] = value;
    line.to_string().into_bytes()
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
fn a_line_has_the_five_members_and_each_fits() {
    let kept = read(line().to_string().as_bytes()).unwrap();
    assert_eq!(
        (kept.id.as_str(), kept.sender.as_str(), kept.purpose.as_str()),
        ("01JFB2R1", "agent.ada", "ops.log")
    );
    assert_eq!(kept.corr, None);
    for name in MEMBERS {
        let mut less = line();
        less.as_object_mut().unwrap().remove(name);
        let refusal = read(less.to_string().as_bytes()).unwrap_err();
        assert_eq!((refusal.code, refusal.errors.len()), (Code::InvalidEnvelope, 1), "{name}");
        assert_eq!((refusal.errors[0].loc[1].as_str(), refusal.errors[0].kind.as_str()), (name, "missing"));
    }
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
