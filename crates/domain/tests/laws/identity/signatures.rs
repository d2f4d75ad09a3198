//! Keys and signatures (RFC-0018): a key has one text and one identifier, invalid keys are refused, and a signature
//! fits one key and one message.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use entente_domain::identity::signatures::{PublicKey, Signature, Signer, parse_seed, statement};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use crate::any;

/// The example of the did:key method's specification.
const DID: &str = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";

fn hex32(text: &str) -> [u8; 32] {
    let byte = |at: usize| u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).unwrap();
    std::array::from_fn(byte)
}

#[test]
fn a_did_is_what_the_method_says() {
    let key = PublicKey::of_did(DID).unwrap();
    assert_eq!(*key.as_bytes(), hex32("2e6fcce36701dc791488e0d0b1745cc1e33a4c1c9fcc41c63bd343dbbe0970e6"));
    assert_eq!(key.did(), DID);
    assert_eq!(PublicKey::parse(&key.to_string()).unwrap(), key);
    let foreign = [
        "",
        "did:key:",
        "did:key:z",
        "did:web:example.com",
        // An X25519 key, recognised by its codec 0xec.
        "did:key:z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc",
        &DID.replace("z6Mk", "z6Mm"),
        &DID[..DID.len() - 1],
        &format!("{DID}1"),
        &format!("{DID}#{}", &DID[8..]),
        &format!("did:key:z{}", "1".repeat(100_000)),
    ];
    for text in foreign {
        assert!(PublicKey::of_did(text).is_err(), "{text}");
    }
}

/// RFC 8032 §7.1, tests 1 and 3.
#[test]
fn signatures_are_those_of_rfc_8032() {
    for (seed, public, message) in [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            &[][..],
        ),
        (
            "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            &[0xaf, 0x82][..],
        ),
    ] {
        let signer = Signer::from_seed(&hex32(seed));
        assert_eq!(*signer.public_key().as_bytes(), hex32(public));
        assert!(signer.public_key().made(&signer.sign(message), message));
    }
    let first = Signer::from_seed(&hex32("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"));
    let signature = [
        hex32("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"),
        hex32("5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"),
    ];
    assert_eq!(first.sign([]).show(), URL_SAFE_NO_PAD.encode(signature.concat()));
}

/// Keys of small order, for which almost any signature verifies, and non-canonical encodings of points.
#[test]
fn weak_and_ambiguous_keys_are_none() {
    let mut bad = vec![[0; 32], hex32(&format!("01{}", "00".repeat(31)))];
    bad.push(hex32("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"));
    bad.push(hex32("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"));
    bad.push(hex32(&format!("ec{}7f", "ff".repeat(30))));
    // y = p + 3 and more: the same as y = 3 and more in a longer encoding.
    bad.extend((0..16_u8).map(|n| hex32(&format!("{:02x}{}7f", 0xf0 + n, "ff".repeat(30)))));
    for bytes in bad {
        assert!(PublicKey::from_bytes(&bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn a_key_has_one_text() {
    let key = Signer::from_seed(&[1; 32]).public_key();
    let text = key.to_string();
    let encoded = text.strip_prefix("ed25519:").unwrap();
    let padded = format!("{text}=");
    let last = text.chars().last().unwrap();
    // The last letter carries four bits; other spare bits would decode to the same key.
    let alias = char::from(u8::try_from(last).unwrap() + 1);
    let aliased = format!("{}{alias}", &text[..text.len() - 1]);
    for other in [
        encoded,
        &padded,
        &aliased,
        &text.to_uppercase(),
        &format!("{text} "),
        &text[..text.len() - 1],
        "ed25519:",
    ] {
        assert!(PublicKey::parse(other).is_err(), "{other}");
    }
}

#[test]
fn a_secret_is_shown_nowhere() {
    let signer = Signer::from_seed(&[9; 32]);
    let shown = format!("{signer:?}");
    assert_eq!(shown, format!("Signer({})", signer.public_key().did()));
    assert_eq!(parse_seed(&STANDARD.encode([9; 32])), Some([9; 32]));
    assert_eq!(parse_seed(&URL_SAFE_NO_PAD.encode([0xff; 32])), Some([0xff; 32]));
    assert_eq!(parse_seed(&STANDARD.encode([9; 31])), None);
    assert_eq!(parse_seed("a good secret"), None);
}

/// A signature is independent of the notation (RFC 8785).
#[test]
fn a_statement_is_canonical() {
    assert_eq!(statement(&json!({ "b": 1.0, "a": ["ä", null] })), r#"{"a":["ä",null],"b":1}"#);
}

proptest! {
    #[test]
    fn a_key_comes_back_from_both_its_texts(seed: [u8; 32]) {
        let key = Signer::from_seed(&seed).public_key();
        prop_assert_eq!(PublicKey::parse(&key.to_string()).unwrap(), key);
        prop_assert_eq!(PublicKey::of_did(&key.did()).unwrap(), key);
        prop_assert_eq!(serde_json::from_value::<PublicKey>(json!(key)).unwrap(), key);
    }

    #[test]
    fn a_signature_fits_one_message_and_one_key(
        seed: [u8; 32], other: [u8; 32], message in vec(any::<u8>(), 0..80), at: Index, bit in 0_u32..8,
    ) {
        prop_assume!(seed != other);
        let (signer, stranger) = (Signer::from_seed(&seed), Signer::from_seed(&other));
        let signature = signer.sign(&message);
        let key = signer.public_key();
        prop_assert!(key.made(&signature, &message));
        prop_assert!(!stranger.public_key().made(&signature, &message));
        let mut changed = message.clone();
        changed.push(0);
        prop_assert!(!key.made(&signature, &changed));
        if !message.is_empty() {
            changed.pop();
            changed[at.index(message.len())] ^= 1 << bit;
            prop_assert!(!key.made(&signature, &changed));
        }
        // Every bit of the signature counts.
        let mut bytes = URL_SAFE_NO_PAD.decode(signature.show()).unwrap();
        bytes[at.index(64)] ^= 1 << bit;
        let forged = Signature::parse(&URL_SAFE_NO_PAD.encode(bytes)).unwrap();
        prop_assert!(!key.made(&forged, &message));
    }

    #[test]
    fn a_signature_is_read_however_it_is_written(seed: [u8; 32], message in any::text()) {
        let signature = Signer::from_seed(&seed).sign(&message);
        let bytes = URL_SAFE_NO_PAD.decode(signature.show()).unwrap();
        for text in [URL_SAFE.encode(&bytes), STANDARD.encode(&bytes), format!("ed25519:{}", signature.show())] {
            prop_assert_eq!(Signature::parse(&text), Some(signature));
            // The server's own signatures have one text.
            prop_assert_eq!(Signature::read(&text), None);
        }
        prop_assert_eq!(Signature::read(&signature.show()), Some(signature));
        prop_assert_eq!(Signature::parse(&URL_SAFE_NO_PAD.encode(&bytes[1..])), None);
    }
}
