//! Vault encryption: a value decrypts only with its key and in its place.

use entente_domain::ids::{ToolCredentialId, VaultId};
use entente_domain::openintent::tools::vault_keys::{Keyring, OpenError, Place, Sealed, VaultKey};
use proptest::collection::vec;
use proptest::prelude::*;
use uuid::Uuid;

use crate::any::Dice;

fn place(vault: u128, credential: u128, version: i32) -> Place {
    Place {
        vault_id: VaultId::from(Uuid::from_u128(vault)),
        credential_id: ToolCredentialId::from(Uuid::from_u128(credential)),
        version,
    }
}

#[test]
fn a_key_is_read_from_base64_and_shows_only_its_id() {
    let text = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
    let key = VaultKey::parse(text).unwrap();
    assert_eq!(key.id(), VaultKey::new([7; 32]).id());
    assert_eq!(format!("{key:?}"), format!("VaultKey({})", key.id()));
    assert_eq!(key.id().len(), 16);
    for wrong in ["", "BwcH", "not base64 at all, and long enough to be something", &text[..40]] {
        assert!(VaultKey::parse(wrong).is_none(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn what_is_sealed_opens_in_its_place_alone(
        plain in vec(any::<u8>(), 0..200), bytes in any::<[u8; 32]>(), other in any::<[u8; 32]>(), dice in any::<u128>(),
        here in (any::<u128>(), any::<u128>(), any::<i32>()), there in (any::<u128>(), any::<u128>(), any::<i32>()),
    ) {
        prop_assume!(bytes != other && here != there);
        let (here, there) = (place(here.0, here.1, here.2), place(there.0, there.1, there.2));
        let ring = Keyring::new(Some(VaultKey::new(bytes)), Vec::new());
        let sealed = ring.seal(&plain, here, &Dice(dice)).unwrap();
        prop_assert!(ring.open(&sealed, here).unwrap().as_slice() == plain);
        prop_assert_eq!(ring.open(&sealed, there).unwrap_err(), OpenError::Broken);
        if plain.len() > 8 {
            prop_assert!(!sealed.bytes.windows(plain.len()).any(|part| part == plain));
        }
        // Not with another key; with both keys as before. An old key decrypts, but does not encrypt.
        let stranger = Keyring::new(Some(VaultKey::new(other)), Vec::new());
        prop_assert_eq!(stranger.open(&sealed, here).unwrap_err(), OpenError::KeyMissing);
        let both = Keyring::new(Some(VaultKey::new(other)), vec![VaultKey::new(bytes)]);
        prop_assert!(both.open(&sealed, here).unwrap().as_slice() == plain);
        prop_assert_eq!(both.retired(), vec![sealed.key_id.clone()]);
        prop_assert_ne!(both.seal(&plain, here, &Dice(dice)).unwrap().key_id, sealed.key_id);
    }

    #[test]
    fn nothing_that_was_changed_opens(plain in vec(any::<u8>(), 1..100), dice in any::<u128>(), at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let ring = Keyring::new(Some(VaultKey::new([7; 32])), Vec::new());
        let sealed = ring.seal(&plain, place(1, 2, 3), &Dice(dice)).unwrap();
        let mut bytes = sealed.bytes.clone();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let changed = Sealed { bytes, ..sealed.clone() };
        prop_assert_eq!(ring.open(&changed, place(1, 2, 3)).unwrap_err(), OpenError::Broken);
        let short = Sealed { bytes: sealed.bytes[..at].to_vec(), ..sealed };
        prop_assert_eq!(ring.open(&short, place(1, 2, 3)).unwrap_err(), OpenError::Broken);
    }
}
