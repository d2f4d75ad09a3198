//! Encryption of vault secrets (RFC-0014): AES-256-GCM with a key of the operator that is never stored in the
//! database. A sealed secret opens only with that key and at its own location: a row moved to another vault,
//! credential or version does not open.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

use crate::canonical::sha256;
use crate::identity::signatures::parse_seed;
use crate::ids::{Chance, ToolCredentialId, VaultId};

/// Length of a key's id in hexadecimal digits: enough to distinguish an operator's few keys, too few to reveal
/// anything about them.
const ID_DIGITS: usize = 16;

/// Location of a sealed secret; it opens nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Vault.
    pub vault_id: VaultId,
    /// Credential.
    pub credential_id: ToolCredentialId,
    /// Version of its value, starting at 1.
    pub version: i32,
}

impl Place {
    /// Returns the additional authenticated data.
    ///
    /// Each part has a fixed length or ends at a character that it cannot contain.
    fn about(self) -> String {
        format!("entente vault 1|{}|{}|{}", self.vault_id, self.credential_id, self.version)
    }
}

/// A sealed secret, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Id of the sealing key.
    pub key_id: String,
    /// Nonce, ciphertext and tag.
    pub bytes: Vec<u8>,
}

/// An encryption key; its `Debug` output hides it.
#[derive(Clone)]
pub struct VaultKey {
    id: String,
    bytes: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for VaultKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VaultKey({})", self.id)
    }
}

impl VaultKey {
    /// Creates a key from bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        let bytes = Zeroizing::new(bytes);
        // The prefix ensures that no other use of the key yields the same digest.
        let digest = sha256([b"entente vault key\0".as_slice(), bytes.as_slice()].concat());
        Self { id: crate::canonical::hex(&digest).chars().take(ID_DIGITS).collect(), bytes }
    }

    /// Parses 32 bytes in base64; `None` if the text is invalid.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        parse_seed(text).map(Self::new)
    }

    /// Returns its id, which is stored with each sealed secret.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    fn cipher(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&AES_256_GCM, self.bytes.as_slice()).ok().map(LessSafeKey::new)
    }

    fn seal(&self, plain: &[u8], place: Place, nonce: [u8; NONCE_LEN]) -> Option<Vec<u8>> {
        let mut sealed = plain.to_vec();
        let about = place.about();
        self.cipher()?
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(about), &mut sealed)
            .ok()?;
        Some([nonce.as_slice(), &sealed].concat())
    }

    fn open(&self, bytes: &[u8], place: Place) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut buffer = Zeroizing::new(sealed.to_vec());
        let about = Aad::from(place.about());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = self.cipher()?.open_in_place(nonce, about, &mut buffer).ok()?.len();
        buffer.truncate(length);
        Some(buffer)
    }
}

/// Reason why a sealed secret did not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    /// This server lacks the sealing key.
    KeyMissing,
    /// The secret was modified, or sealed for another location.
    Broken,
}

/// Keys of a server: one for sealing, and earlier ones that only open.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    current: Option<VaultKey>,
    old: Vec<VaultKey>,
}

impl Keyring {
    /// Creates a keyring.
    #[must_use]
    pub fn new(current: Option<VaultKey>, old: Vec<VaultKey>) -> Self {
        Self { current, old }
    }

    /// Returns whether there is a sealing key: without one, vaults accept no secrets.
    #[must_use]
    pub fn seals(&self) -> bool {
        self.current.is_some()
    }

    /// Adds a sealing key, if there is none.
    #[must_use]
    pub fn or(self, key: impl FnOnce() -> Option<VaultKey>) -> Self {
        Self { current: self.current.or_else(key), ..self }
    }

    /// Returns the ids of all keys.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        self.current.iter().chain(&self.old).map(|key| key.id.clone()).collect()
    }

    /// Returns the ids of the keys that only open: their secrets need to be resealed.
    #[must_use]
    pub fn retired(&self) -> Vec<String> {
        let current = self.current.as_ref().map(VaultKey::id);
        self.old.iter().map(VaultKey::id).filter(|id| Some(*id) != current).map(str::to_owned).collect()
    }

    /// Seals data for a location; `None` without a sealing key.
    #[must_use]
    pub fn seal(&self, plain: &[u8], place: Place, chance: &dyn Chance) -> Option<Sealed> {
        let key = self.current.as_ref()?;
        let bits = chance.bits().to_be_bytes();
        let nonce = *bits.first_chunk::<NONCE_LEN>()?;
        Some(Sealed { key_id: key.id.clone(), bytes: key.seal(plain, place, nonce)? })
    }

    /// Opens data sealed for a location.
    ///
    /// # Errors
    /// The key is missing, or the data was not sealed for this location.
    pub fn open(&self, sealed: &Sealed, place: Place) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        let mut keys = self.current.iter().chain(&self.old);
        let key = keys.find(|key| key.id == sealed.key_id).ok_or(OpenError::KeyMissing)?;
        key.open(&sealed.bytes, place).ok_or(OpenError::Broken)
    }
}
