//! Webhook signatures: known answers of another implementation, and properties of every secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Verifier as _, VerifyingKey};
use entente_domain::clock::plus_seconds;
use entente_domain::webhooks::signing::{Scheme, Secret, Secrets};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::any::{Dice, at, moment};

#[test]
fn a_shared_secret_signs_as_the_standard_says() {
    // The example of Standard Webhooks; its signature was computed with Python's hmac.
    let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
    assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[test]
fn a_pair_signs_as_rfc_8032_says() {
    // RFC 8032, 7.1, test 1: this seed has this public key.
    let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    };
    let text = format!("whsk_{}", STANDARD.encode([bytes(seed), bytes(public)].concat()));
    let secret = Secret::parse(&text).unwrap();
    assert_eq!(secret.public().unwrap(), format!("whpk_{}", STANDARD.encode(bytes(public))));
    assert_eq!(secret.reveal(), text);
    let mut wrong = bytes(public);
    wrong[0] ^= 1;
    assert_eq!(Secret::parse(&format!("whsk_{}", STANDARD.encode([bytes(seed), wrong].concat()))), None);
}

#[test]
fn what_is_no_secret_is_refused_without_repeating_it() {
    let short = format!("whsec_{}", STANDARD.encode([7; 23]));
    let long = format!("whsec_{}", STANDARD.encode([7; 65]));
    for text in [short.as_str(), &long, "whsec_", "whsec_$$$$", "hunter2-hunter2-hunter2", "whpk_AAAA"] {
        let refusal = Secret::given(text, Scheme::V1).unwrap_err();
        assert!(text == "whsec_" || !refusal.message.contains(text), "{}", refusal.message);
    }
    let shared = Secret::mint(Scheme::V1, &Dice(5)).reveal();
    assert!(Secret::given(&shared, Scheme::V1a).is_err(), "of the other scheme");
}

proptest! {
    #[test]
    fn a_secret_survives_being_written(bytes in vec(any::<u8>(), 24..=64), dice in any::<u128>()) {
        let shared = format!("whsec_{}", STANDARD.encode(&bytes));
        prop_assert_eq!(Secret::parse(&shared).unwrap().reveal(), shared);
        for scheme in [Scheme::V1, Scheme::V1a] {
            let minted = Secret::mint(scheme, &Dice(dice));
            prop_assert_eq!(minted.scheme(), scheme);
            let debug = format!("{minted:?}");
            let revealed = minted.reveal();
            prop_assert!(!debug.contains(&revealed));
            prop_assert_eq!(Secret::parse(&revealed), Some(minted));
        }
    }

    #[test]
    fn a_signature_of_a_pair_verifies_with_its_public_half(
        dice in any::<u128>(), body in vec(any::<u8>(), 0..200), id in "[a-z]{3}_[A-Z0-9]{26}", when in 0_i64..1 << 40,
    ) {
        let secret = Secret::mint(Scheme::V1a, &Dice(dice));
        let public = STANDARD.decode(secret.public().unwrap().strip_prefix("whpk_").unwrap()).unwrap();
        let public = VerifyingKey::from_bytes(&public.try_into().unwrap()).unwrap();
        let signed = secret.sign(&id, when, &body);
        let bytes = STANDARD.decode(signed.strip_prefix("v1a,").unwrap()).unwrap();
        let signature = Signature::from_slice(&bytes).unwrap();
        let text = [format!("{id}.{when}.").into_bytes(), body].concat();
        prop_assert!(public.verify(&text, &signature).is_ok());
        prop_assert!(public.verify(&[&text[..], b"x"].concat(), &signature).is_err());
    }

    #[test]
    fn the_one_before_signs_along_until_its_end(when in moment(), overlap in 1_u32..100_000) {
        let (old, new) = (Secret::mint(Scheme::V1, &Dice(1)), Secret::mint(Scheme::V1, &Dice(2)));
        let end = plus_seconds(when, overlap);
        let secrets = Secrets { current: new.clone(), before: Some((old.clone(), end)) };
        let sign = |secret: &Secret, now: entente_domain::clock::Timestamp| secret.sign("evt_1", now.timestamp(), b"{}");
        prop_assert_eq!(
            secrets.header("evt_1", when, b"{}"),
            format!("{} {}", sign(&new, when), sign(&old, when))
        );
        prop_assert_eq!(secrets.header("evt_1", end, b"{}"), sign(&new, end));
        prop_assert_eq!(Secrets::one(new.clone()).header("evt_1", at(0), b"{}"), sign(&new, at(0)));
    }
}
