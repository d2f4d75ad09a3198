//! Envelope signing keys (AEE §8, §11.2): validity, that a name is never reused, and that a key that is no longer
//! in force looks like an unknown one.

use std::collections::HashSet;

use entente_domain::aee::envelope_keys::{
    Ask, EnvelopeKey, EnvelopeKeyStatus, Registered, Shared, register, revoke, verify,
};
use entente_domain::aee::envelopes::signing::{Algorithm, Sig, SigningKey, VerifyingKey, sign, wrong};
use entente_domain::aee::envelopes::{Envelope, check};
use entente_domain::clock::Timestamp;
use entente_domain::identity::signatures::Signer;
use entente_domain::limits::ENVELOPE_KEYS;
use entente_domain::refusal::{Code, Refusal};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::any::{Dice, at};

const ADA: &str = "agent.ada";

fn second(n: i64) -> Timestamp {
    at(n * 1_000_000)
}

fn signer(n: u8) -> Signer {
    Signer::from_seed(&[n; 32])
}

fn ed(kid: Option<&str>, n: u8) -> Ask {
    Ask {
        kid: kid.map(str::to_owned),
        algorithm: Algorithm::Ed25519,
        public_key: Some(signer(n).public_key().to_string()),
        secret: None,
        not_before: None,
        not_after: None,
    }
}

fn hs(kid: Option<&str>, secret: Option<&str>) -> Ask {
    let secret = secret.map(|text| Shared(text.to_owned()));
    Ask { algorithm: Algorithm::Hs256, public_key: None, secret, ..ed(kid, 1) }
}

/// 32 bytes in Base64.
const SECRET: &str = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA";

fn ask(known: &[EnvelopeKey], ask: &Ask, now: Timestamp) -> Result<Registered, Refusal> {
    register(ADA, known, ask, ADA, now, &Dice(7))
}

fn made(known: &[EnvelopeKey], this: &Ask, now: Timestamp) -> EnvelopeKey {
    match ask(known, this, now) {
        Ok(Registered::New(key, _)) => key,
        other => panic!("{other:?}"),
    }
}

fn code(known: &[EnvelopeKey], this: &Ask, now: Timestamp) -> Code {
    ask(known, this, now).unwrap_err().code
}

fn members(from: &str) -> Map<String, Value> {
    let letter = json!({
        "v": "1", "id": "01JFB2R1JZKQ9V3K8W8Y9W1F2A", "ts": "2026-11-21T08:00:00Z", "type": "task", "from": from,
        "to": "agent.bob", "intent": "ops.backup.check", "corr": "01JFB2QX0K8X5K6ZJ9G2C0C1MW", "priority": "normal",
        "payload": { "cluster": "one" },
    });
    letter.as_object().unwrap().clone()
}

fn signed(from: &str, kid: &str, key: &SigningKey) -> (Envelope, Sig) {
    let mut letter = members(from);
    sign(&mut letter, kid, key).unwrap();
    let sig = Sig::read(&letter).unwrap().unwrap();
    (check(letter).unwrap(), sig)
}

fn by(n: u8) -> SigningKey {
    SigningKey::Ed25519(Box::new(signer(n)))
}

proptest! {
    #[test]
    fn a_key_counts_from_its_first_instant_to_before_its_last_and_never_after_it_was_revoked(
        not_before in 0..10_i64, not_after in option::of(0..10_i64), revoked_at in option::of(0..10_i64), now in 0..10_i64,
    ) {
        let key = EnvelopeKey {
            not_before: second(not_before), not_after: not_after.map(second), revoked_at: revoked_at.map(second),
            ..made(&[], &ed(Some("one"), 1), second(0))
        };
        let counts = revoked_at.is_none() && not_before <= now && not_after.is_none_or(|end| now < end);
        prop_assert_eq!(key.in_force(second(now)), counts);
        prop_assert_eq!(key.status_at(second(now)) == EnvelopeKeyStatus::Active, counts);
        let (envelope, sig) = signed(ADA, "one", &by(1));
        prop_assert_eq!(verify(Some(&key), &envelope, &sig, second(now)).is_ok(), counts);
    }

    /// Any sequence of registrations and revocations.
    #[test]
    fn a_name_and_a_material_are_one_key_for_good(operations in vec((0..4_u8, 0..4_u8, any::<bool>()), 1..40)) {
        let mut known: Vec<EnvelopeKey> = Vec::new();
        for (n, (kid, key, revoked)) in operations.into_iter().enumerate() {
            let now = second(i64::try_from(n).unwrap());
            let kid = format!("kid-{kid}");
            if revoked {
                if let Some(one) = known.iter_mut().find(|one| one.kid == kid)
                    && let Some(ended) = revoke(one, now)
                {
                    *one = ended;
                }
                continue;
            }
            let before = known.clone();
            match ask(&known, &ed(Some(&kid), key), now) {
                Ok(Registered::New(one, shown)) => {
                    prop_assert!(shown.is_none(), "nobody gets the private half of a pair");
                    known.push(one);
                }
                Ok(Registered::Same(one)) => {
                    prop_assert!(one.kid == kid && one.revoked_at.is_none());
                    prop_assert!(before.contains(&one));
                }
                Err(refusal) => prop_assert_eq!(refusal.code, Code::AlreadyExists),
            }
        }
        let kids: HashSet<&str> = known.iter().map(|one| one.kid.as_str()).collect();
        let materials: HashSet<String> = known.iter().map(|one| one.public_key().unwrap().to_string()).collect();
        prop_assert_eq!((kids.len(), materials.len()), (known.len(), known.len()));
    }
}

#[test]
fn the_same_again_is_the_same() {
    let (first, again) = (ed(Some("one"), 1), ed(None, 1));
    let one = made(&[], &first, second(1));
    assert_eq!(one.not_before, second(1));
    for repeat in [first, again] {
        assert_eq!(ask(std::slice::from_ref(&one), &repeat, second(9)), Ok(Registered::Same(one.clone())));
    }
    // Without a given name, a public key always gets the same one.
    assert_eq!(made(&[], &ed(None, 2), second(1)).kid, made(&[], &ed(None, 2), second(2)).kid);
    // Registering a key again does not change it.
    let known = [one.clone()];
    assert_eq!(
        code(&known, &Ask { not_after: Some(second(50)), ..ed(Some("one"), 1) }, second(2)),
        Code::AlreadyExists
    );
    assert_eq!(
        code(&known, &Ask { not_before: Some(second(5)), ..ed(Some("one"), 1) }, second(2)),
        Code::AlreadyExists
    );
    assert_eq!(code(&known, &ed(Some("two"), 1), second(2)), Code::AlreadyExists, "one material, one name");
    assert_eq!(code(&known, &ed(Some("one"), 2), second(2)), Code::AlreadyExists, "one name, one material");
    let revoked = revoke(&one, second(3)).unwrap();
    assert_eq!(revoke(&revoked, second(4)), None);
    for ask in [ed(Some("one"), 1), ed(Some("two"), 1), ed(Some("one"), 2)] {
        assert_eq!(
            code(std::slice::from_ref(&revoked), &ask, second(5)),
            Code::AlreadyExists,
            "a revoked name and key are gone"
        );
    }
}

#[test]
fn a_public_key_is_read_in_each_of_its_forms() {
    let key = signer(1).public_key();
    let standard = "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=";
    for text in [key.to_string(), key.did(), key.to_string()[8..].to_owned(), standard.to_owned()] {
        let ask = Ask { public_key: Some(text.clone()), ..ed(Some("one"), 1) };
        assert_eq!(made(&[], &ask, second(1)).key, VerifyingKey::Ed25519(key), "{text}");
    }
}

#[test]
fn what_is_no_key_is_refused() {
    let now = second(10);
    let tables = [
        (Ask { public_key: None, ..ed(None, 1) }, Code::InvalidRequest),
        (Ask { public_key: Some("ed25519:AAAA".to_owned()), ..ed(None, 1) }, Code::Unprocessable),
        // Of small order: almost any signature would verify.
        (Ask { public_key: Some("A".repeat(43)), ..ed(None, 1) }, Code::Unprocessable),
        (Ask { secret: Some(Shared(SECRET.to_owned())), ..ed(None, 1) }, Code::InvalidRequest),
        (Ask { public_key: ed(None, 1).public_key, ..hs(None, None) }, Code::InvalidRequest),
        (hs(None, Some("AQID")), Code::Unprocessable),
        (hs(None, Some(&"A".repeat(42))), Code::Unprocessable),
        (hs(None, Some(&"A".repeat(87))), Code::Unprocessable),
        (hs(None, Some("not Base64, however long it may be, not at all")), Code::Unprocessable),
        (Ask { not_after: Some(now), ..ed(None, 1) }, Code::AlreadyExpired),
        (
            Ask { not_before: Some(second(20)), not_after: Some(second(20)), ..ed(None, 1) },
            Code::Unprocessable,
        ),
    ];
    for (this, expected) in tables {
        assert_eq!(code(&[], &this, now), expected, "{this:?}");
    }
    for kid in ["", ".", "..", "a/b", "a b", "ä", "a\n", "a%20b", &"k".repeat(129)] {
        assert_eq!(code(&[], &ed(Some(kid), 1), now), Code::InvalidRequest, "{kid:?}");
    }
    for kid in ["1", "2026-11", "a.b", "did:key:z6@x~_=+", &"k".repeat(128)] {
        assert_eq!(made(&[], &ed(Some(kid), 1), now).kid, kid);
    }
    // In bytes: secrets have 32 to 64.
    for letters in [43, 86] {
        made(&[], &hs(None, Some(&"A".repeat(letters))), now);
    }
}

#[test]
fn an_entity_has_so_many_keys_in_its_life() {
    let one = made(&[], &ed(Some("one"), 1), second(1));
    let many = |n: usize| -> Vec<EnvelopeKey> {
        let other = |n| EnvelopeKey { kid: format!("k{n}"), ..revoke(&one, second(2)).unwrap() };
        (0..n).map(other).collect()
    };
    made(&many(ENVELOPE_KEYS - 1), &ed(Some("two"), 2), second(3));
    assert_eq!(code(&many(ENVELOPE_KEYS), &ed(Some("two"), 2), second(3)), Code::TooLarge);
}

#[test]
fn a_secret_that_is_made_is_shown_and_works_and_is_in_no_text() {
    let Ok(Registered::New(key, Some(shown))) = ask(&[], &hs(Some("one"), None), second(1)) else { panic!() };
    let secret = entente_domain::aee::envelopes::signing::decode(&shown.0).unwrap();
    assert_eq!(secret.len(), 32);
    let (envelope, sig) = signed(ADA, "one", &SigningKey::Hs256(secret));
    assert_eq!(verify(Some(&key), &envelope, &sig, second(1)), Ok(()));
    let printed = format!("{key:?} {shown:?} {:?}", hs(None, Some(SECRET)));
    assert!(!printed.contains(&shown.0) && !printed.contains(SECRET), "{printed}");
}

#[test]
fn nothing_tells_what_is_wrong_with_a_key() {
    let now = second(10);
    let one = made(&[], &ed(Some("one"), 1), second(1));
    let (envelope, sig) = signed(ADA, "one", &by(1));
    assert_eq!(verify(Some(&one), &envelope, &sig, now), Ok(()));
    let (forged, false_sig) = signed(ADA, "one", &by(2));
    let (foreign, foreign_sig) = signed("agent.eve", "one", &by(1));
    let shared = made(&[], &hs(Some("one"), Some(SECRET)), second(1));
    let public = SigningKey::Hs256(signer(1).public_key().as_bytes().to_vec());
    let (confused, confused_sig) = signed(ADA, "one", &public);
    let (zero, zero_sig) = signed(ADA, "none", &SigningKey::Hs256(vec![0; 32]));
    let table = [
        ("unknown", None, &envelope, &sig),
        ("revoked", revoke(&one, now), &envelope, &sig),
        ("expired", Some(EnvelopeKey { not_after: Some(now), ..one.clone() }), &envelope, &sig),
        ("pending", Some(EnvelopeKey { not_before: second(11), ..one.clone() }), &envelope, &sig),
        ("another's", Some(one.clone()), &foreign, &foreign_sig),
        ("another name", Some(EnvelopeKey { kid: "two".to_owned(), ..one.clone() }), &envelope, &sig),
        ("another algorithm", Some(shared), &envelope, &sig),
        ("the public half as a secret", Some(one.clone()), &confused, &confused_sig),
        ("by another key", Some(one), &forged, &false_sig),
        ("by what stands for nobody's key", None, &zero, &zero_sig),
    ];
    for (what, known, envelope, sig) in table {
        assert_eq!(verify(known.as_ref(), envelope, sig, now), Err(wrong()), "{what}");
    }
}

#[test]
fn what_cannot_be_bound_is_said_of_every_key_alike() {
    let one = made(&[], &ed(Some("one"), 1), second(1));
    let (envelope, sig) = signed(ADA, "one", &by(1));
    let mut letter = envelope.members;
    letter.insert("extra".to_owned(), json!(9_007_199_254_740_993_i64));
    let envelope = check(letter).unwrap();
    let of = |known: Option<&EnvelopeKey>| verify(known, &envelope, &sig, second(2)).unwrap_err();
    assert_eq!(of(Some(&one)).code, Code::SigUnverifiable);
    assert_eq!(of(Some(&one)), of(None));
}
