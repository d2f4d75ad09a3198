//! Identities (RFC-0018): a key must be proved, keys succeed each other and are never reused, and a tampered
//! signature belongs to nobody.

use entente_domain::clock::Timestamp;
use entente_domain::identity::agent_keys::{AgentKey, End, KeyStatus};
use entente_domain::identity::identities::{
    CHALLENGE_SECONDS, Challenge, Identity, KeyAsk, challenge, check, complete, revoke, rotate,
};
use entente_domain::identity::signatures::{Signer, statement};
use entente_domain::ids::Chance;
use entente_domain::limits::IDENTITY_KEYS;
use entente_domain::refusal::Code;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::any::{self, Dice, at};
use crate::log::events::edit;

fn key(n: u8) -> Signer {
    Signer::from_seed(&[n; 32])
}

fn second(n: i64) -> Timestamp {
    at(n * 1_000_000)
}

fn ask(signer: &Signer) -> KeyAsk {
    KeyAsk {
        public_key: signer.public_key().to_string(),
        key_algorithm: Some("Ed25519".to_owned()),
        key_expires_at: None,
    }
}

fn opened(signer: &Signer, known: Option<&Identity>, now: Timestamp) -> Challenge {
    challenge("agent.ada", known, &ask(signer), now, &Dice(77)).unwrap()
}

fn proved(signer: &Signer, known: Option<&Identity>, now: Timestamp) -> Identity {
    let open = opened(signer, known, now);
    complete(known, Some(&open), &open.text(), &signer.sign(open.bytes).show(), now).unwrap()
}

/// Returns the body of a rotation, signed with these keys.
fn rotation(old: &Signer, new: &Signer, more: &Value) -> Map<String, Value> {
    let mut body = json!({
        "action": "rotate", "old_public_key": old.public_key(), "new_public_key": new.public_key(),
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let signature = old.sign(statement(&body)).show();
    body["signature"] = json!(signature);
    body.as_object().unwrap().clone()
}

#[test]
fn a_challenge_is_signed_as_bytes_or_as_text() {
    let ada = key(1);
    let open = opened(&ada, None, second(0));
    assert_eq!(open.text().len(), 43);
    for signature in [ada.sign(open.bytes), ada.sign(open.text())] {
        let made = complete(None, Some(&open), &open.text(), &signature.show(), second(1)).unwrap();
        let expected = AgentKey {
            public_key: ada.public_key(),
            registered_at: second(1),
            valid_from: second(1),
            expires_at: None,
            ended_at: None,
            ended_by: None,
        };
        assert_eq!(made, Identity { agent_id: "agent.ada".to_owned(), keys: vec![expected] });
    }
}

#[test]
fn a_registration_is_refused_for_each_fault_alone() {
    let (ada, eve) = (key(1), key(2));
    let open = opened(&ada, None, second(0));
    let signed = ada.sign(open.bytes).show();
    let code = |challenge: Option<&Challenge>, said: &str, signature: &str, now| {
        complete(None, challenge, said, signature, now).unwrap_err().code
    };
    assert_eq!(code(None, &open.text(), &signed, second(1)), Code::Unprocessable);
    assert_eq!(code(Some(&open), "other", &signed, second(1)), Code::Unprocessable);
    let end = i64::from(CHALLENGE_SECONDS);
    assert_eq!(code(Some(&open), &open.text(), &signed, second(end)), Code::Unprocessable);
    assert!(complete(None, Some(&open), &open.text(), &signed, second(end - 1)).is_ok());
    assert_eq!(code(Some(&open), &open.text(), &eve.sign(open.bytes).show(), second(1)), Code::BadSignature);
    assert_eq!(code(Some(&open), &open.text(), &ada.sign("other").show(), second(1)), Code::BadSignature);
    assert_eq!(code(Some(&open), &open.text(), "no signature", second(1)), Code::BadSignature);
}

#[test]
fn what_is_no_key_is_not_registered() {
    let refused = |ask: KeyAsk| challenge("agent.ada", None, &ask, second(10), &Dice(1)).unwrap_err().code;
    let ada = key(1);
    assert_eq!(refused(KeyAsk { public_key: "ed25519:AAAA".to_owned(), ..ask(&ada) }), Code::Unprocessable);
    let weak = format!("ed25519:{}", "A".repeat(43));
    assert_eq!(refused(KeyAsk { public_key: weak, ..ask(&ada) }), Code::Unprocessable);
    assert_eq!(refused(KeyAsk { key_algorithm: Some("RSA".to_owned()), ..ask(&ada) }), Code::Unprocessable);
    assert_eq!(refused(KeyAsk { key_expires_at: Some(second(10)), ..ask(&ada) }), Code::AlreadyExpired);
    let far = second(11 * 365 * 24 * 3_600);
    assert_eq!(refused(KeyAsk { key_expires_at: Some(far), ..ask(&ada) }), Code::Unprocessable);
    let did = KeyAsk { public_key: ada.public_key().did(), key_algorithm: None, ..ask(&ada) };
    assert_eq!(
        challenge("agent.ada", None, &did, second(10), &Dice(1)).unwrap().public_key,
        ada.public_key()
    );
}

#[test]
fn a_key_in_force_is_rotated_or_revoked_and_not_registered_over() {
    let (ada, next, third) = (key(1), key(2), key(3));
    let first = proved(&ada, None, second(0));
    let over = challenge("agent.ada", Some(&first), &ask(&next), second(1), &Dice(1)).unwrap_err();
    assert_eq!(over.code, Code::IdentityExists);
    // A challenge opened before another registration was completed does not replace that one.
    let late = opened(&next, None, second(0));
    let done = complete(Some(&first), Some(&late), &late.text(), &next.sign(late.bytes).show(), second(1));
    assert_eq!(done.unwrap_err().code, Code::IdentityExists);

    let transition = rotate(&first, &rotation(&ada, &next, &json!({})), second(5)).unwrap();
    assert!(!transition.new_key_proved);
    let keys = &transition.identity.keys;
    assert_eq!((keys[0].ended_at, keys[0].ended_by), (Some(second(5)), Some(End::Rotated)));
    assert_eq!((keys[1].valid_from, keys[1].registered_at), (second(5), second(0)));
    let gone = revoke(&transition.identity, second(9)).unwrap();
    assert_eq!(gone.keys[1].status_at(second(9)), KeyStatus::Revoked);
    assert_eq!(revoke(&gone, second(10)), None, "again, it changes nothing");
    assert_eq!(
        rotate(&gone, &rotation(&next, &third, &json!({})), second(10)).unwrap_err().code,
        Code::Unprocessable
    );
    // The agent may register again, but not with one of its earlier keys.
    for known in [&ada, &next] {
        let again = challenge("agent.ada", Some(&gone), &ask(known), second(10), &Dice(1)).unwrap_err();
        assert_eq!(again.code, Code::Unprocessable);
    }
    let fresh = proved(&third, Some(&gone), second(11));
    assert_eq!((fresh.keys.len(), fresh.last().unwrap().registered_at), (3, second(11)));
    assert_eq!(fresh.keys[1], gone.keys[1], "a revoked key stays what it was");
}

#[test]
fn a_key_ends_the_instant_its_time_runs_out() {
    let (ada, next) = (key(1), key(2));
    let ask = KeyAsk { key_expires_at: Some(second(100)), ..ask(&ada) };
    let open = challenge("agent.ada", None, &ask, second(0), &Dice(1)).unwrap();
    let known = complete(None, Some(&open), &open.text(), &ada.sign(open.bytes).show(), second(0)).unwrap();
    let (payload, signature) = (json!({ "n": 1 }), ada.sign(r#"{"n":1}"#).show());
    assert_eq!(check(&known, &payload, &signature, second(99)), Ok(()));
    assert_eq!(check(&known, &payload, &signature, second(100)), Err("expired"));
    assert!(rotate(&known, &rotation(&ada, &next, &json!({})), second(99)).is_ok());
    assert!(rotate(&known, &rotation(&ada, &next, &json!({})), second(100)).is_err());
    let fresh = proved(&next, Some(&known), second(100));
    assert_eq!(fresh.keys[0].ended_by, Some(End::Replaced));
    assert_eq!(fresh.in_force(second(100)).unwrap().public_key, next.public_key());
}

#[test]
fn a_rotation_is_refused_for_each_fault_alone() {
    let (ada, next, eve) = (key(1), key(2), key(3));
    let known = proved(&ada, None, second(0));
    let code = |body: Map<String, Value>| rotate(&known, &body, second(1)).unwrap_err().code;
    assert_eq!(code(rotation(&eve, &next, &json!({}))), Code::Unprocessable, "another old key");
    assert_eq!(code(rotation(&ada, &ada, &json!({}))), Code::Unprocessable, "the same key");
    assert_eq!(code(rotation(&ada, &next, &json!({ "action": "revoke" }))), Code::InvalidRequest);
    assert_eq!(code(rotation(&ada, &next, &json!({ "n": 9_007_199_254_740_993_u64 }))), Code::Unprocessable);
    assert_eq!(code(rotation(&ada, &next, &json!({ "note": "x".repeat(20_000) }))), Code::TooLarge);
    assert_eq!(code(rotation(&ada, &next, &json!({ "key_expires_at": "soon" }))), Code::InvalidRequest);
    assert_eq!(
        code(rotation(&ada, &next, &json!({ "key_expires_at": "1970-01-01T00:00:00Z" }))),
        Code::AlreadyExpired
    );
    let body = rotation(&ada, &next, &json!({}));
    for member in ["old_public_key", "new_public_key", "signature"] {
        let mut without = body.clone();
        without.remove(member);
        assert_eq!(code(without), Code::InvalidRequest, "{member}");
    }
    let mut swapped = body.clone();
    swapped.insert("new_public_key".to_owned(), json!(eve.public_key()));
    assert_eq!(code(swapped), Code::BadSignature);
    // The new key's own signature is verified if present.
    let signed = statement(&json!({
        "action": "rotate", "old_public_key": ada.public_key(), "new_public_key": next.public_key(),
    }));
    let mut proved = body.clone();
    proved.insert("new_signature".to_owned(), json!(next.sign(&signed).show()));
    assert!(rotate(&known, &proved, second(1)).unwrap().new_key_proved);
    proved.insert("new_signature".to_owned(), json!(ada.sign(&signed).show()));
    assert_eq!(code(proved), Code::BadSignature);
    // A rotation cannot be replayed.
    let transition = rotate(&known, &body, second(1)).unwrap().identity;
    assert_eq!(rotate(&transition, &body, second(2)).unwrap_err().code, Code::Unprocessable);
}

#[test]
fn an_agent_has_so_many_keys_in_its_life() {
    let mut known = proved(&key(1), None, second(0));
    known.keys = vec![known.keys[0].clone(); IDENTITY_KEYS];
    let full = rotate(&known, &rotation(&key(1), &key(2), &json!({})), second(1));
    assert_eq!(full.unwrap_err().code, Code::Unprocessable);
}

#[test]
fn a_verdict_says_why_a_signature_does_not_count() {
    let (ada, next) = (key(1), key(2));
    let known = proved(&ada, None, second(0));
    let transition = rotate(&known, &rotation(&ada, &next, &json!({})), second(5)).unwrap().identity;
    let payload = json!({ "b": 2, "a": 1.0 });
    let by = |signer: &Signer| signer.sign(r#"{"a":1,"b":2}"#).show();
    assert_eq!(check(&transition, &payload, &by(&next), second(6)), Ok(()));
    assert_eq!(check(&transition, &payload, &by(&ada), second(6)), Err("superseded"));
    assert_eq!(check(&transition, &payload, &by(&ada), second(4)), Ok(()), "then it counted");
    assert_eq!(check(&transition, &payload, &by(&key(3)), second(6)), Err("bad_signature"));
    assert_eq!(check(&transition, &payload, "x", second(6)), Err("bad_signature"));
    let gone = revoke(&transition, second(7)).unwrap();
    assert_eq!(check(&gone, &payload, &by(&next), second(7)), Err("revoked"));
}

#[test]
fn what_was_rotated_or_revoked_stays_so_whatever_a_clock_says() {
    let (ada, next) = (key(1), key(2));
    let known = proved(&ada, None, second(10));
    let transition = rotate(&known, &rotation(&ada, &next, &json!({})), second(50)).unwrap().identity;
    assert_eq!(transition.present(second(20)), second(50));
    assert_eq!(transition.present(second(60)), second(60));
    assert_eq!(transition.in_force(transition.present(second(20))).unwrap().public_key, next.public_key());
    let gone = revoke(&transition, second(70)).unwrap();
    assert_eq!(gone.present(second(20)), second(70));
    assert_eq!(gone.in_force(gone.present(second(20))), None);
    assert_eq!(gone.last().unwrap().status_at(gone.present(second(20))), KeyStatus::Revoked);
}

#[test]
fn a_signature_is_tried_with_the_newest_keys_only() {
    let mut known = proved(&key(1), None, second(0));
    for n in 1..60 {
        known =
            rotate(&known, &rotation(&key(n), &key(n + 1), &json!({})), second(n.into())).unwrap().identity;
    }
    let verdict = |n: u8| check(&known, &json!({}), &key(n).sign("{}").show(), second(100));
    assert_eq!((verdict(60), verdict(59), verdict(29)), (Ok(()), Err("superseded"), Err("superseded")));
    assert_eq!((verdict(28), verdict(1)), (Err("bad_signature"), Err("bad_signature")));
}

/// Random bits that differ on each call.
struct Counting(std::sync::atomic::AtomicU64);

impl Chance for Counting {
    fn bits(&self) -> u128 {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed).into()
    }
}

#[test]
fn a_challenge_is_all_chance() {
    let chance = Counting(std::sync::atomic::AtomicU64::new(1));
    let made = challenge("agent.ada", None, &ask(&key(1)), second(0), &chance).unwrap();
    let mut expected = [0; 32];
    (expected[15], expected[31]) = (1, 2);
    assert_eq!(made.bytes, expected);
}

proptest! {
    #[test]
    fn a_payload_that_was_tampered_with_is_not_what_was_signed(
        payload in any::object(), dice in proptest::collection::vec(0_usize..1_000, 24),
    ) {
        let ada = key(1);
        let known = proved(&ada, None, second(0));
        let signature = ada.sign(statement(&payload)).show();
        prop_assert_eq!(check(&known, &payload, &signature, second(1)), Ok(()));
        let mut forged = payload.clone();
        edit(&mut forged, &mut dice.into_iter());
        prop_assume!(statement(&forged) != statement(&payload));
        prop_assert_eq!(check(&known, &forged, &signature, second(1)), Err("bad_signature"));
    }

    #[test]
    fn a_rotation_that_was_tampered_with_is_refused(more in any::object(), dice in proptest::collection::vec(0_usize..1_000, 24)) {
        let (ada, next) = (key(1), key(2));
        let known = proved(&ada, None, second(0));
        let words = ["signature", "new_signature", "action", "old_public_key", "new_public_key", "key_expires_at"];
        let more: Map<String, Value> = more.into_iter().filter(|(name, _)| !words.contains(&name.as_str())).collect();
        let body = rotation(&ada, &next, &Value::Object(more));
        prop_assert!(rotate(&known, &body, second(1)).is_ok());
        let mut forged = body.clone();
        edit(&mut forged, &mut dice.into_iter());
        prop_assume!(statement(&forged) != statement(&body));
        prop_assert!(rotate(&known, &forged, second(1)).is_err());
    }
}
