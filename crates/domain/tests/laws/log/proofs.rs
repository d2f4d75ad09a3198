//! Proofs (RFC-0018): an agent signs everything that its readers see, and an agent with a key must sign correctly.

use entente_domain::clock::{Timestamp, rfc3339};
use entente_domain::identity::agent_keys::{AgentKey, End};
use entente_domain::identity::identities::Identity;
use entente_domain::identity::signatures::{Signer, statement};
use entente_domain::ids::{ChannelId, EventId, IntentId, MessageId};
use entente_domain::log::chains::Break;
use entente_domain::log::events::{Draft as EventDraft, Kind, Sealed, Tail, seal};
use entente_domain::log::proofs::{PROOF_TYPE, judge, judge_event, of_event, verify};
use entente_domain::openintent::messages::proofs::{in_metadata, of_message, readable};
use entente_domain::openintent::messages::{Draft, MessageType};
use entente_domain::payload::Payload;
use entente_domain::refusal::Code;
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use uuid::Uuid;

use super::events::edit;
use crate::any::{self, at};

fn ada() -> Signer {
    Signer::from_seed(&[1; 32])
}

fn second(n: i64) -> Timestamp {
    at(n * 1_000_000)
}

fn intent() -> IntentId {
    IntentId::from(Uuid::from_u128(5))
}

fn known(ended: Option<(Timestamp, End)>) -> Identity {
    let key = AgentKey {
        public_key: ada().public_key(),
        registered_at: second(1_000),
        valid_from: second(1_000),
        expires_at: None,
        ended_at: ended.map(|(end, _)| end),
        ended_by: ended.map(|(_, how)| how),
    };
    Identity { agent_id: "agent.ada".to_owned(), keys: vec![key] }
}

/// Returns an event of Ada's with a proof of these members, signed by this key.
fn signed(payload: &Value, proof: Value, signer: &Signer) -> EventDraft {
    let mut draft = EventDraft::of(Kind::IntentCreated, "agent.ada", payload.clone());
    (draft.event_type, draft.posted) = ("note".to_owned(), true);
    let mut proof = proof;
    let form = of_event(intent(), "note", "agent.ada", &draft.payload, &proof);
    proof["signature"] = json!(signer.sign(statement(&form)).show());
    draft.proof = Some(proof);
    draft
}

fn usual() -> Value {
    json!({ "type": PROOF_TYPE, "created": rfc3339(second(2_000)), "verification_method": ada().public_key().did() })
}

fn verdict(draft: &EventDraft, known: Option<&Identity>, strict: bool) -> Result<bool, Code> {
    judge_event(intent(), draft, known, second(2_000), strict).map_err(|refusal| refusal.code)
}

/// The form that clients sign, written by hand: `crates/domain/src/log/README.md`, "What agents sign".
#[test]
fn the_form_of_an_event_is_what_is_written_down() {
    let proof = json!({ "type": PROOF_TYPE, "created": "2026-11-21T08:00:00Z", "signature": "left out" });
    let payload = json!({ "n": 1.0 });
    let form = of_event(intent(), "note", "agent.ada", payload.as_object().unwrap(), &proof);
    let expected = format!(
        r#"{{"actor":"agent.ada","event_type":"note","intent_id":"{}","payload":{{"n":1}},"proof":{{"created":"2026-11-21T08:00:00Z","type":"{PROOF_TYPE}"}}}}"#,
        intent()
    );
    assert_eq!(statement(&form), expected);
}

#[test]
fn the_form_of_a_message_is_what_its_readers_see() {
    let channel = ChannelId::from(Uuid::from_u128(6));
    let request = MessageId::from(Uuid::from_u128(8));
    let form = |message_type, to: Option<&str>, correlation_id| {
        let draft = Draft {
            sender: "agent.ada".to_owned(),
            to: to.map(str::to_owned),
            message_type,
            correlation_id,
            payload: Payload::empty(),
            metadata: None,
            expires_at: None,
        };
        of_message(channel, &draft, &json!({ "q": 1 }), &json!({ "type": PROOF_TYPE, "signature": "x" }))
    };
    let base = |message_type: &str| {
        json!({
            "channel_id": channel, "sender": "agent.ada", "message_type": message_type, "payload": { "q": 1 },
            "proof": { "type": PROOF_TYPE },
        })
    };
    let with = |mut form: Value, member: &str, value: Value| {
        form[member] = value;
        form
    };
    for to in ["agent.bob", "role:writer", "*"] {
        assert_eq!(form(MessageType::Notify, Some(to), None), with(base("notify"), "to", json!(to)));
    }
    assert_eq!(form(MessageType::Notify, None, None), base("notify"));
    for to in [None, Some("*")] {
        assert_eq!(form(MessageType::Broadcast, to, None), with(base("broadcast"), "to", json!("*")));
        assert_eq!(form(MessageType::Request, to, None), with(base("request"), "to", json!("*")));
    }
    let response = with(base("response"), "correlation_id", json!(request));
    for to in [None, Some("agent.bob")] {
        assert_eq!(form(MessageType::Response, to, Some(request)), response);
    }
}

#[test]
fn an_agent_with_a_key_is_held_to_it() {
    let payload = json!({ "n": 1 });
    let good = signed(&payload, usual(), &ada());
    assert_eq!(verdict(&good, Some(&known(None)), false), Ok(true));
    assert_eq!(verdict(&good, Some(&known(None)), true), Ok(true));
    let eve = signed(&payload, usual(), &Signer::from_seed(&[2; 32]));
    assert_eq!(verdict(&eve, Some(&known(None)), false), Err(Code::BadProof));
    let revoked = known(Some((second(1_500), End::Revoked)));
    assert_eq!(verdict(&good, Some(&revoked), false), Err(Code::BadProof));
    let mut without = good.clone();
    without.proof.as_mut().unwrap().as_object_mut().unwrap().remove("signature");
    assert_eq!(verdict(&without, Some(&known(None)), false), Err(Code::BadProof));
    // Another actor, event type or intent with the same content.
    let other = EventDraft { actor: "agent.bob".to_owned(), ..good.clone() };
    assert_eq!(verdict(&other, Some(&known(None)), false), Err(Code::BadProof));
    let other = EventDraft { event_type: "nota".to_owned(), ..good.clone() };
    assert_eq!(verdict(&other, Some(&known(None)), false), Err(Code::BadProof));
    let elsewhere = IntentId::from(Uuid::from_u128(6));
    assert!(judge_event(elsewhere, &good, Some(&known(None)), second(2_000), false).is_err());
}

#[test]
fn the_members_of_a_proof_mean_something() {
    let proof = |member: &str, value: Value| {
        let mut proof = usual();
        proof[member] = value;
        signed(&json!({}), proof, &ada())
    };
    let verdict = |draft: &EventDraft| verdict(draft, Some(&known(None)), false);
    let did = ada().public_key().did();
    for method in [
        did.clone(),
        format!("{did}#{}", &did[8..]),
        ada().public_key().to_string(),
        "my own word".to_owned(),
    ] {
        assert_eq!(verdict(&proof("verification_method", json!(method))), Ok(true), "{method}");
    }
    let eve = Signer::from_seed(&[2; 32]).public_key();
    for method in [eve.did(), eve.to_string(), "did:key:z6Mkagent.ada".to_owned()] {
        assert_eq!(verdict(&proof("verification_method", json!(method))), Err(Code::BadProof), "{method}");
    }
    assert_eq!(verdict(&proof("created", json!(null))), Ok(true));
    assert_eq!(verdict(&proof("created", json!(rfc3339(second(2_300))))), Ok(true), "clocks differ");
    assert_eq!(verdict(&proof("created", json!(rfc3339(second(2_301))))), Err(Code::BadProof));
    assert_eq!(verdict(&proof("created", json!("today"))), Err(Code::BadProof));
    assert_eq!(
        verdict(&proof("domain", json!("example"))),
        Ok(true),
        "a member more is signed with the others"
    );
    assert_eq!(verdict(&proof("nonce", json!(9_007_199_254_740_993_u64))), Err(Code::Unprocessable));
    assert_eq!(verdict(&proof("nonce", json!(1e300))), Ok(true), "a double is signed as it is");
}

#[test]
fn what_cannot_be_checked_is_kept_and_refused_in_strict_mode() {
    let good = signed(&json!({}), usual(), &ada());
    assert_eq!(verdict(&good, None, false), Ok(false));
    assert_eq!(verdict(&good, None, true), Err(Code::BadProof));
    for kind in [json!("Ed25519Signature2020"), json!(null), json!(7)] {
        let mut proof = usual();
        proof["type"] = kind;
        let other = signed(&json!({}), proof, &ada());
        assert_eq!(verdict(&other, Some(&known(None)), false), Ok(false));
        assert_eq!(verdict(&other, Some(&known(None)), true), Err(Code::BadProof));
    }
    let none = EventDraft { proof: None, ..good };
    assert_eq!(verdict(&none, Some(&known(None)), true), Ok(false), "no proof is no wrong one");
}

#[test]
fn a_proof_is_found_however_its_name_is_written() {
    let raw = |text: &str| {
        Payload::new("metadata", RawValue::from_string(text.to_owned()).unwrap(), 1_000).unwrap()
    };
    let found = |text: &str| in_metadata(Some(&raw(text))).unwrap();
    assert_eq!(in_metadata(None).unwrap(), None);
    assert_eq!(found(r#"{"trace_id":"x"}"#), None);
    assert_eq!(found(r#"{"a":{"proof":1}}"#), None, "only at the top");
    assert_eq!(found(r#"{"proof":null}"#), None);
    assert_eq!(found(r#"{"proof":{"type":"x"}}"#), Some(json!({ "type": "x" })));
    assert_eq!(found("{\"pr\\u006fof\":1}"), Some(json!(1)));
    assert_eq!(
        found(r#"{"proof":{},"n":1e999}"#),
        Some(json!({})),
        "what stands beside it is the sender's own"
    );
    assert_eq!(found(r#"{"n":1e999,"word":"\u00e9"}"#), None);
    assert!(in_metadata(Some(&raw(r#"{"proof":{"n":1e999}}"#))).is_err());
    assert!(in_metadata(Some(&raw(r#"{"proof":{"type":"a","type":"b"}}"#))).is_err());
    assert!(
        in_metadata(Some(&raw(r#"{"proof":{"type":"a"},"proof":{"type":"b"}}"#))).is_err(),
        "which of them?"
    );
    assert!(readable(&raw(r#"{"n":1,"n":2}"#)).is_err(), "two readers, two messages");
    for (number, fits) in [("9007199254740993", false), ("100000000000000000001", false), ("1e20", true)] {
        assert_eq!(readable(&raw(&format!(r#"{{"n":[{number}]}}"#))).is_ok(), fits, "{number}");
    }
    assert!(in_metadata(Some(&raw(r#"{"proof":{"n":100000000000000000001}}"#))).is_err());
    assert_eq!(
        found(r#"{"proof":{"n":1e20},"n":100000000000000000001}"#),
        Some(json!({ "n": 1e20 })),
        "what stands beside it is the sender's own"
    );
}

/// Returns a log of one event whose proof the server has verified.
fn log(draft: EventDraft, now: Timestamp) -> Vec<Sealed> {
    let draft = EventDraft { proof_verified: true, ..draft };
    let mut tail = Tail::empty(second(0));
    vec![Sealed::from(&seal(draft, &mut tail, intent(), EventId::from(Uuid::from_u128(1)), now))]
}

#[test]
fn a_log_is_checked_against_the_keys_of_its_time() {
    let draft = signed(&json!({}), usual(), &ada());
    let events = log(draft.clone(), second(2_000));
    assert_eq!(verify(&events, &[known(None)]), []);
    let named = |found: Vec<Break>| found.iter().map(|fault| fault.sequence).collect::<Vec<_>>();
    assert_eq!(named(verify(&events, &[])), [1], "nobody's key");
    let stranger = Identity { agent_id: "agent.bob".to_owned(), ..known(None) };
    assert_eq!(named(verify(&events, &[stranger])), [1]);
    // A key that ended later was valid at that time; one that ended long before, or began long after, was not.
    for how in [End::Rotated, End::Revoked] {
        assert_eq!(verify(&events, &[known(Some((second(2_001), how)))]), []);
        assert_eq!(named(verify(&events, &[known(Some((second(1_500), how)))])), [1]);
    }
    assert_eq!(named(verify(&log(draft.clone(), second(600)), &[known(None)])), [1]);
    let mut gone = log(draft.clone(), second(2_000));
    gone[0].proof = None;
    assert_eq!(named(verify(&gone, &[known(None)])), [1]);
    // Without the server's mark as verified, nothing is claimed.
    let mut kept = log(draft, second(2_000));
    kept[0].proof_verified = false;
    assert_eq!(verify(&kept, &[]), []);
}

proptest! {
    #[test]
    fn whatever_is_changed_the_proof_does_not_fit(
        payload in any::object(), in_payload: bool, dice in proptest::collection::vec(0_usize..1_000, 24),
    ) {
        let good = signed(&Value::Object(payload), usual(), &ada());
        prop_assert_eq!(verdict(&good, Some(&known(None)), false), Ok(true));
        let mut forged = good.clone();
        let changed = if in_payload { &mut forged.payload } else {
            forged.proof.as_mut().and_then(Value::as_object_mut).unwrap()
        };
        edit(changed, &mut dice.into_iter());
        let says = |draft: &EventDraft| statement(&json!([draft.payload, draft.proof]));
        prop_assume!(says(&forged) != says(&good));
        let ruling = verdict(&forged, Some(&known(None)), false);
        // A proof of an unchecked type is stored, but not marked as verified.
        prop_assert!(ruling != Ok(true), "{:?}", forged);
        let form = json!({});
        prop_assert!(judge("agent.ada", good.proof.as_ref().unwrap(), &form, Some(&known(None)), second(2_000), false).is_err());
    }
}
