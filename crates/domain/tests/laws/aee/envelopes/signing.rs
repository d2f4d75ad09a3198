//! Envelope signatures: their form and which are accepted (AEE §8, §11.2, AEE-W-9).

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use entente_domain::aee::envelopes::EnvelopeType;
use entente_domain::aee::envelopes::signing::{
    Algorithm, PROFILE, Scope, Sig, SigningKey, VerifyingKey, check_numbers, decode, input, is_opaque, sign,
    wrong,
};
use entente_domain::identity::signatures::Signer;
use entente_domain::refusal::{Code, Refusal};
use serde_json::{Map, Value, json};

use super::{Members, object, sample, with};

const SEED: [u8; 32] = [7; 32];
const SECRET: [u8; 32] = [9; 32];

pub(super) fn keys() -> [(SigningKey, VerifyingKey); 2] {
    let signer = Signer::from_seed(&SEED);
    let public = VerifyingKey::Ed25519(signer.public_key());
    [
        (SigningKey::Ed25519(Box::new(signer)), public),
        (SigningKey::Hs256(SECRET.to_vec()), VerifyingKey::Hs256(SECRET.to_vec())),
    ]
}

pub(super) fn signed(mut members: Members, key: &SigningKey) -> Members {
    sign(&mut members, "key-2", key).unwrap();
    members
}

pub(super) fn judged(members: &Members, key: &VerifyingKey) -> Result<(), Refusal> {
    Sig::read(members)?.expect("it is signed").verify(members, key)
}

fn code(members: &Members, key: &VerifyingKey) -> Code {
    judged(members, key).unwrap_err().code
}

/// Returns the envelope with a member of its signature changed.
fn resigned(members: &Members, name: &str, value: Value) -> Members {
    let mut members = members.clone();
    let sig = members["sig"].as_object_mut().unwrap();
    match value {
        Value::Null => drop(sig.remove(name)),
        value => drop(sig.insert(name.to_owned(), value)),
    }
    members
}

/// Returns the envelope with a signature over the ten members only, as another implementation would sign it.
pub(super) fn core_signed(mut members: Members) -> Members {
    let made = Signer::from_seed(&SEED).sign(input(&members, Scope::Core).unwrap());
    let sig = json!({
        "alg": "ed25519", "kid": "key-2", "value": made.show(), "profile": PROFILE, "scope": "core",
    });
    members.insert("sig".to_owned(), sig);
    members
}

#[test]
fn what_is_signed_verifies_for_every_type_and_algorithm() {
    for (key, check) in keys() {
        for kind in EnvelopeType::ALL {
            let members = signed(sample(kind), &key);
            assert_eq!(judged(&members, &check), Ok(()));
            let sig = Sig::read(&members).unwrap().unwrap();
            assert_eq!((sig.kid.as_str(), sig.scope), ("key-2", Scope::Whole));
            assert_eq!(members["sig"]["alg"], sig.algorithm.as_str());
            // An existing `sig` is replaced and not signed.
            assert_eq!(signed(members.clone(), &key), members);
        }
    }
}

/// The signed bytes, written out so that others can reproduce them.
#[test]
fn the_input_is_the_prefix_and_the_canonical_form_without_sig() {
    let members = object(json!({
        "v": "1", "priority": "low", "unknown": [1.0, "ä"], "sig": { "x": 1 }, "payload": {}, "corr": "c", "to": "b",
        "ts": "t", "from": "a", "id": "i", "type": "event", "intent": "x.y",
    }));
    let whole = input(&members, Scope::Whole).unwrap();
    let expected = "aee-jcs-1\n{\"corr\":\"c\",\"from\":\"a\",\"id\":\"i\",\"intent\":\"x.y\",\"payload\":{},\
                    \"priority\":\"low\",\"to\":\"b\",\"ts\":\"t\",\"type\":\"event\",\"unknown\":[1,\"ä\"],\"v\":\"1\"}";
    assert_eq!(String::from_utf8(whole).unwrap(), expected);
    let core = input(&members, Scope::Core).unwrap();
    let expected = "aee-jcs-1\n{\"corr\":\"c\",\"from\":\"a\",\"id\":\"i\",\"intent\":\"x.y\",\"payload\":{},\
                    \"reply_to\":null,\"to\":\"b\",\"ts\":\"t\",\"type\":\"event\",\"v\":\"1\"}";
    assert_eq!(String::from_utf8(core).unwrap(), expected);
}

/// A known signature for comparison with other implementations.
#[test]
fn a_known_envelope_has_a_known_signature() {
    let members = object(json!({ "v": "1", "id": "01JFB2R1JZKQ9V3K8W8Y9W1F2A", "payload": { "n": 1 } }));
    let text = "aee-jcs-1\n{\"id\":\"01JFB2R1JZKQ9V3K8W8Y9W1F2A\",\"payload\":{\"n\":1},\"v\":\"1\"}";
    let signer = Signer::from_seed(&SEED);
    let [(ed, _), (hs, _)] = keys();
    assert_eq!(signed(members.clone(), &ed)["sig"]["value"], signer.sign(text).show());
    // `printf 'aee-jcs-1\n{…}' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0909…`
    let made = decode(signed(members, &hs)["sig"]["value"].as_str().unwrap()).unwrap();
    assert_eq!(entente_domain::canonical::hex(&made), HS256_BY_OPENSSL);
}

const HS256_BY_OPENSSL: &str = "650e43c04b1d6f184f9ec783a2cfb9061d2fe838269222fe3a774427cd1b8694";

#[test]
fn whatever_cannot_be_verified_is_refused() {
    let [(key, check), _] = keys();
    let good = signed(sample(EnvelopeType::Task), &key);
    for (name, value) in [
        ("profile", json!(null)),
        ("profile", json!("aee-jcs-2")),
        ("profile", json!(1)),
        ("scope", json!("all")),
        ("scope", json!(false)),
        ("alg", json!(null)),
        ("alg", json!("none")),
        ("alg", json!("Ed25519")),
        ("alg", json!("hs256")),
        ("kid", json!(null)),
        ("kid", json!("")),
        ("kid", json!(7)),
        ("value", json!(null)),
        ("value", json!("not base64!")),
        ("value", json!([1])),
    ] {
        assert_eq!(
            code(&resigned(&good, name, value.clone()), &check),
            Code::SigUnverifiable,
            "{name} {value}"
        );
    }
    for sig in [json!("opaque"), json!({}), json!({ "alg": "ed25519", "kid": "key-2", "value": "AAAA" })] {
        let refusal = Sig::read(&with(EnvelopeType::Task, "sig", sig)).unwrap_err();
        assert_eq!(refusal.code, Code::SigUnverifiable);
    }
    // Further members are allowed.
    assert_eq!(judged(&resigned(&good, "note", json!("x")), &check), Ok(()));
    assert_eq!(Sig::read(&with(EnvelopeType::Task, "sig", json!(null))), Ok(None));
    assert_eq!(Sig::read(&super::without(EnvelopeType::Task, "sig")), Ok(None));
}

/// The algorithm belongs to the key: a public key must not be usable as a shared secret.
#[test]
fn no_key_verifies_by_another_algorithm_than_its_own() {
    let [(ed, ed_check), (hs, hs_check)] = keys();
    let VerifyingKey::Ed25519(public) = &ed_check else { panic!() };
    let forger = SigningKey::Hs256(public.as_bytes().to_vec());
    let forged = signed(sample(EnvelopeType::Task), &forger);
    assert_eq!(code(&forged, &ed_check), Code::BadSignature);
    assert_eq!(code(&resigned(&forged, "alg", json!("ed25519")), &ed_check), Code::BadSignature);
    for (key, check) in [(&ed, &hs_check), (&hs, &ed_check)] {
        let members = signed(sample(EnvelopeType::Task), key);
        assert_eq!(code(&members, check), Code::BadSignature);
        for alg in [Algorithm::Ed25519, Algorithm::Hs256] {
            assert_eq!(code(&resigned(&members, "alg", json!(alg)), check), Code::BadSignature);
        }
    }
    // Nor does a signature with a false algorithm.
    let relabelled = resigned(&signed(sample(EnvelopeType::Task), &ed), "alg", json!("HS256"));
    assert_eq!(code(&relabelled, &ed_check), Code::BadSignature);
}

#[test]
fn another_key_of_the_same_kind_verifies_nothing() {
    let [(ed, _), (hs, _)] = keys();
    let other = VerifyingKey::Ed25519(Signer::from_seed(&[8; 32]).public_key());
    assert_eq!(code(&signed(sample(EnvelopeType::Task), &ed), &other), Code::BadSignature);
    let other = VerifyingKey::Hs256([8; 32].to_vec());
    let refusal = judged(&signed(sample(EnvelopeType::Task), &hs), &other).unwrap_err();
    assert_eq!(refusal, wrong(), "every reason has the same words");
}

#[test]
fn base64_is_read_in_all_its_forms_and_no_other() {
    let bytes = [0xfb, 0xef, 0xff, 0x00, 0x10];
    for engine in [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD] {
        assert_eq!(decode(&engine.encode(bytes)), Some(bytes.to_vec()));
    }
    // Mixed alphabets, blanks, too few letters, unused bits that are set.
    for bad in ["-+8A", "AA AA", "A", "AB", "AA=A", "AAA==", "====", "AAAA\n"] {
        assert_eq!(decode(bad), None, "{bad}");
    }
    for (key, check) in keys() {
        let good = signed(sample(EnvelopeType::Task), &key);
        let value = decode(good["sig"]["value"].as_str().unwrap()).unwrap();
        for engine in [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD] {
            assert_eq!(judged(&resigned(&good, "value", json!(engine.encode(&value))), &check), Ok(()));
        }
        for bad in [&value[..value.len() - 1], &[], &[value.as_slice(), &[0]].concat()[..]] {
            let short = resigned(&good, "value", json!(STANDARD.encode(bad)));
            assert_eq!(code(&short, &check), Code::BadSignature);
        }
    }
}

/// AEE-W-6.2: an integer that a double cannot represent would be bound only approximately (RFC 8785): such an envelope
/// is neither signed nor accepted.
#[test]
fn numbers_that_no_double_holds_cannot_be_signed() {
    let [(key, check), _] = keys();
    for (n, fits) in [
        ("9007199254740991", true),
        ("-9007199254740991", true),
        ("9007199254740992", true),
        ("9007199254740993", false),
        ("-9007199254740992", true),
        ("-9007199254740993", false),
        ("18446744073709551615", false),
        ("100000000000000000000", true),
        ("1e20", true),
        ("1e300", true),
        ("0.1", true),
    ] {
        let value: Value = serde_json::from_str(n).unwrap();
        for payload in [json!({ "n": value }), json!({ "deep": [{ "n": [value] }] })] {
            let mut members = with(EnvelopeType::Task, "payload", payload);
            match sign(&mut members, "key-2", &key) {
                Ok(()) => assert!(fits && judged(&members, &check).is_ok(), "{n}"),
                Err(refusal) => {
                    assert!(!fits && refusal.code == Code::SigUnverifiable, "{n}");
                    // A signature made all the same is refused too.
                    members.insert("sig".to_owned(), signed(sample(EnvelopeType::Task), &key)["sig"].clone());
                    assert_eq!(code(&members, &check), Code::SigUnverifiable);
                }
            }
        }
    }
    // An unsigned member need not be exact.
    let mut members = core_signed(sample(EnvelopeType::Task));
    members.insert("requires".to_owned(), json!({ "timeout_ms": u64::MAX }));
    assert_eq!(judged(&members, &check), Ok(()));
}

/// AEE-W-6.2: the parser rounds integers of more than 64 bits, so they are looked for in the text.
#[test]
fn a_rounded_number_is_found_in_what_the_signature_covers() {
    for (number, fits) in [("1e20", true), ("100000000000000000000", true), ("100000000000000000001", false)]
    {
        let code =
            |text: String, scope| check_numbers(text.as_bytes(), scope).map_err(|refusal| refusal.code);
        let expected = if fits { Ok(()) } else { Err(Code::SigUnverifiable) };
        for scope in [Scope::Whole, Scope::Core] {
            assert_eq!(code(format!(r#"{{"payload":{{"deep":[{number}]}},"sig":{{}}}}"#), scope), expected);
            assert_eq!(code(format!(r#"{{"payload":{{}},"sig":{{"n":{number}}}}}"#), scope), Ok(()));
        }
        let beside = format!(r#"{{"payload":{{"n":1}},"requires":{{"n":{number}}}}}"#);
        assert_eq!(code(beside.clone(), Scope::Whole), expected);
        assert_eq!(code(beside, Scope::Core), Ok(()), "an unsigned member need not be exact");
    }
}

/// AEE-W-9.6: only the draft's own form is opaque; whoever claims the profile is verified.
#[test]
fn a_signature_of_the_drafts_own_form_is_opaque() {
    let own = json!({ "alg": "ed25519", "kid": "k", "value": "c2ln" });
    let with = |name: &str, value: Value| {
        let mut sig = own.clone();
        sig[name] = value;
        members_with(sig)
    };
    assert!(is_opaque(&members_with(own.clone())) && is_opaque(&with("alg", json!("ES256"))));
    assert!(is_opaque(&with("more", json!(1))));
    let others = [
        members_with(json!("text")),
        members_with(json!(null)),
        members_with(json!({ "alg": "ed25519", "kid": "k" })),
        with("kid", json!("")),
        with("value", json!(7)),
        with("profile", json!("aee-jcs-1")),
        with("profile", json!(null)),
    ];
    for members in others {
        assert!(!is_opaque(&members), "{members:?}");
    }
    let read = Sig::read(&members_with(own)).unwrap_err();
    assert_eq!(read.code, Code::SigUnverifiable, "it is never taken for a verified one");
}

fn members_with(sig: Value) -> Map<String, Value> {
    Map::from_iter([("sig".to_owned(), sig)])
}

#[test]
fn secrets_are_shown_nowhere() {
    let [_, (_, check)] = keys();
    assert_eq!(format!("{check:?}"), "HS256(…)");
    assert_eq!([Algorithm::parse("HS256"), Algorithm::parse("none")], [Some(Algorithm::Hs256), None]);
}
