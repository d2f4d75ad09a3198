//! What the secrets in vaults are sealed with (RFC-0014): AES-256-GCM under a key of the operator's that never comes near the
//! database. What is sealed opens with that key alone, and only in the place that it was sealed for: a row that somebody has
//! moved to another vault, credential or version does not open there.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

use crate::canonical::sha256;
use crate::ids::{Chance, ToolCredentialId, VaultId};
use crate::signatures::parse_seed;

/// Hexadecimal digits of a key's id: enough to tell the few keys of one operator apart, too few to say anything of the key.
const ID_DIGITS: usize = 16;

/// Where something is sealed: it opens nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The vault.
    pub vault_id: VaultId,
    /// The credential in it.
    pub credential_id: ToolCredentialId,
    /// Which of its values, from 1.
    pub version: i32,
}

impl Place {
    /// What is authenticated along with what is sealed. Each part has one length or ends at a character that it has not.
    fn about(self) -> String {
        format!("entente vault 1|{}|{}|{}", self.vault_id, self.credential_id, self.version)
    }
}

/// Something that was sealed, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The key that it was sealed with.
    pub key_id: String,
    /// The nonce, and what is sealed with its tag.
    pub bytes: Vec<u8>,
}

/// A key. Its `Debug` keeps it to itself.
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
    /// The key of these bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        let bytes = Zeroizing::new(bytes);
        // Not over the bytes alone: no other use of a key has the same digest.
        let digest = sha256([b"entente vault key\0".as_slice(), bytes.as_slice()].concat());
        Self { id: crate::canonical::hex(&digest).chars().take(ID_DIGITS).collect(), bytes }
    }

    /// Reads 32 bytes in base64; `None` when the text is something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        parse_seed(text).map(Self::new)
    }

    /// Its id, which is stored beside what it has sealed.
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

/// Why something did not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shut {
    /// This server has not the key that it was sealed with.
    KeyMissing,
    /// It was changed, or was sealed for another place.
    Broken,
}

/// The keys of a server: one that seals, and those before it, which only open.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    current: Option<VaultKey>,
    old: Vec<VaultKey>,
}

impl Keyring {
    /// These keys.
    #[must_use]
    pub fn new(current: Option<VaultKey>, old: Vec<VaultKey>) -> Self {
        Self { current, old }
    }

    /// Whether there is one that seals: without it vaults take nothing in.
    #[must_use]
    pub fn seals(&self) -> bool {
        self.current.is_some()
    }

    /// The same keys with one that seals, if there was none.
    #[must_use]
    pub fn or(self, key: impl FnOnce() -> Option<VaultKey>) -> Self {
        Self { current: self.current.or_else(key), ..self }
    }

    /// The ids of the keys that only open: what they have sealed is to be sealed anew.
    #[must_use]
    pub fn retired(&self) -> Vec<String> {
        let current = self.current.as_ref().map(VaultKey::id);
        self.old.iter().map(VaultKey::id).filter(|id| Some(*id) != current).map(str::to_owned).collect()
    }

    /// Seals something for a place; `None` without a key.
    #[must_use]
    pub fn seal(&self, plain: &[u8], place: Place, chance: &dyn Chance) -> Option<Sealed> {
        let key = self.current.as_ref()?;
        let bits = chance.bits().to_be_bytes();
        let nonce = *bits.first_chunk::<NONCE_LEN>()?;
        Some(Sealed { key_id: key.id.clone(), bytes: key.seal(plain, place, nonce)? })
    }

    /// Opens what was sealed for a place.
    ///
    /// # Errors
    /// The key is not there; what is there is not what was sealed here.
    pub fn open(&self, sealed: &Sealed, place: Place) -> Result<Zeroizing<Vec<u8>>, Shut> {
        let mut keys = self.current.iter().chain(&self.old);
        let key = keys.find(|key| key.id == sealed.key_id).ok_or(Shut::KeyMissing)?;
        key.open(&sealed.bytes, place).ok_or(Shut::Broken)
    }
}
