//! Parses arbitrary bytes as an envelope: nothing panics, and an accepted envelope keeps its meaning when it
//! is written and parsed again.

#![no_main]

use entente_domain::aee::envelopes::signing::{Scope, Sig, SigningKey, VerifyingKey, input, sign};
use entente_domain::aee::envelopes::{hash, logs, members, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    drop(logs::read(bytes));
    let Ok(found) = members(bytes) else { return };
    let written = serde_json::to_vec(&found).expect("it can be written");
    let again = members(&written).expect("what was read can be read again");
    assert_eq!(hash(&found), hash(&again));
    drop(Sig::read(&found));
    let secret = vec![7; 32];
    let mut signed = found.clone();
    if sign(&mut signed, "k", &SigningKey::Hs256(secret.clone())).is_ok() {
        let sig = Sig::read(&signed).expect("it can be read").expect("it is there");
        sig.verify(&signed, &VerifyingKey::Hs256(secret)).expect("what is signed verifies");
        assert_eq!(input(&found, Scope::Whole).ok(), input(&signed, Scope::Whole).ok());
    }
    if let Ok(envelope) = read(bytes) {
        assert_eq!(envelope.members, found);
        assert!(envelope.id.len() >= 8 && !envelope.sender.is_empty() && envelope.payload().is_object());
    }
});
