//! Idempotency keys: equal requests have equal fingerprints, all others have different ones.

use entente_domain::idempotency::{Idempotency, derived_id};
use entente_domain::limits::IDEMPOTENCY_KEY_BYTES;
use entente_domain::refusal::Code;
use proptest::collection::vec;
use proptest::prelude::*;

fn claim(key: &str, operation: &str, body: &[u8]) -> Idempotency {
    Idempotency::new(key, operation, body).unwrap()
}

#[test]
fn a_key_has_1_to_255_printable_letters() {
    let longest = "x".repeat(IDEMPOTENCY_KEY_BYTES);
    for key in ["k", "a b", "~!", &longest] {
        assert_eq!(claim(key, "POST /", b"").key, key);
    }
    for key in ["", " ", "\t", "a\nb", "a\0", "ä", "\u{7f}", &format!("{longest}x")] {
        assert_eq!(Idempotency::new(key, "POST /", b"").unwrap_err().code, Code::InvalidParameter, "{key:?}");
    }
    assert_eq!(Idempotency::mismatch().code, Code::IdempotencyMismatch);
}

/// Generates short byte strings that often coincide, including the byte that could be taken for a boundary.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just(0), Just(b'a'), Just(b'b'), any::<u8>()], 0..5)
}

fn operation() -> impl Strategy<Value = String> {
    prop_oneof!["[ab\u{0}]{0,4}", "POST /v1/[a-z]{1,5}"]
}

proptest! {
    #[test]
    fn a_fingerprint_tells_what_was_asked(
        a in (operation(), bytes()), b in (operation(), bytes()), key in "[a-z]{1,9}", other in "[a-z]{1,9}",
    ) {
        let (left, right) = (claim(&key, &a.0, &a.1), claim(&key, &b.0, &b.1));
        prop_assert_eq!(left.fingerprint == right.fingerprint, a == b, "{:?} and {:?}", a, b);
        prop_assert_eq!(claim(&other, &a.0, &a.1).fingerprint, left.fingerprint, "the key is looked up, not asked");
    }

    /// In a repeated batch, an item counts as the same only if it is equal, at the same position and for the same
    /// operation. The rest of the batch may differ, because a retry may correct refused items.
    #[test]
    fn an_item_of_a_batch_tells_what_was_asked(
        a in (operation(), bytes(), 0_usize..3), b in (operation(), bytes(), 0_usize..3),
        bodies in (bytes(), bytes()), key in "[a-z]{1,9}",
    ) {
        let left = claim(&key, &a.0, &bodies.0).item(a.2, &a.1);
        let right = claim(&key, &b.0, &bodies.1).item(b.2, &b.1);
        prop_assert_eq!(left.key == right.key, a.2 == b.2);
        prop_assert_eq!(left.fingerprint == right.fingerprint, (&a.0, &a.1) == (&b.0, &b.1), "{:?} and {:?}", a, b);
    }

    /// A client's own key `k#0` and the first item of the batch `k` are distinct.
    #[test]
    fn an_item_is_no_request_of_its_own(operation in operation(), item in bytes(), body in bytes(), key in "[a-z]{1,9}") {
        let first = claim(&key, &operation, &body).item(0, &item);
        let own = claim(&first.key, &operation, &item);
        prop_assert_ne!(first.fingerprint, own.fingerprint);
    }

    /// An id tells its parts and the secret apart, wherever a byte of one could be taken for a byte of another.
    #[test]
    fn a_derived_id_tells_its_parts_and_its_secret(
        a in (operation(), operation(), operation()), b in (operation(), operation(), operation()),
        one in any::<[u8; 32]>(), other in any::<[u8; 32]>(),
    ) {
        let of = |secret: &[u8; 32], parts: &(String, String, String)| {
            derived_id(secret, &parts.0, &[&parts.1, &parts.2]).unwrap()
        };
        prop_assert_eq!(of(&one, &a) == of(&one, &b), a == b, "{:?} and {:?}", a, b);
        prop_assert_eq!(of(&one, &a) == of(&other, &a), one == other);
        prop_assert_eq!(of(&one, &a).len(), a.0.len() + 65);
    }
}
