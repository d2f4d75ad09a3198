//! Keys and signatures (RFC-0018): Ed25519 public keys as they are written, what a signature is over, and the server's own
//! key, which signs checkpoints and exports (RFC-0019). Whose key it is, and since when, is [`crate::identities`].
//!
//! Everything that is signed here is signed in its canonical form (RFC 8785), so that members may be sent in any order.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use ed25519_dalek::{Signature as Ed25519, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::canonical;

/// What stands before the key in a `did:key` of Ed25519: the multicodec `ed25519-pub`, 0xed, as a varint.
const MULTICODEC: [u8; 2] = [0xed, 0x01];

/// The text is not a public key of the kind that is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an Ed25519 public key")]
pub struct NotAKey;

/// An Ed25519 public key that a signature can be checked with. One that would take almost any signature (of small order)
/// is none, and neither is one that is not written in the one way that a point has (RFC 8032 §5.1.3).
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Reads the 32 bytes of a key.
    ///
    /// # Errors
    /// They are no point, one of small order, or one written in another way than its own.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, NotAKey> {
        let key = VerifyingKey::from_bytes(bytes).map_err(|_e| NotAKey)?;
        if key.is_weak() || key.to_edwards().compress().to_bytes() != *bytes {
            return Err(NotAKey);
        }
        Ok(Self(key))
    }

    /// Reads `ed25519:` and base64url without padding (contract 12). A key has one text.
    ///
    /// # Errors
    /// The text is anything else.
    pub fn parse(text: &str) -> Result<Self, NotAKey> {
        let encoded = text.strip_prefix("ed25519:").ok_or(NotAKey)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_e| NotAKey)?;
        Self::from_bytes(&bytes.try_into().map_err(|_length| NotAKey)?)
    }

    /// Reads a `did:key` of an Ed25519 key.
    ///
    /// # Errors
    /// The text is anything else.
    pub fn of_did(text: &str) -> Result<Self, NotAKey> {
        let encoded = text.strip_prefix("did:key:z").ok_or(NotAKey)?;
        // A key has 48 letters; base58 of a long text would take time that grows with its square.
        if encoded.len() > 64 {
            return Err(NotAKey);
        }
        let bytes = bs58::decode(encoded).into_vec().map_err(|_e| NotAKey)?;
        let key = bytes.strip_prefix(&MULTICODEC).ok_or(NotAKey)?;
        Self::from_bytes(&key.try_into().map_err(|_length| NotAKey)?)
    }

    /// The key's 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// The key as a decentralised identifier: `did:key:z…`.
    #[must_use]
    pub fn did(self) -> String {
        let bytes: Vec<u8> = MULTICODEC.iter().chain(self.as_bytes()).copied().collect();
        format!("did:key:z{}", bs58::encode(bytes).into_string())
    }

    /// Whether this key made a signature over these bytes. Strict: a signature that could be written in another way, or that
    /// fits several messages, is none.
    #[must_use]
    pub fn made(self, signature: &Signature, bytes: impl AsRef<[u8]>) -> bool {
        self.0.verify_strict(bytes.as_ref(), &Ed25519::from_bytes(&signature.0)).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ed25519:{}", URL_SAFE_NO_PAD.encode(self.0.as_bytes()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for PublicKey {
    type Error = NotAKey;

    fn try_from(text: String) -> Result<Self, NotAKey> {
        Self::parse(&text)
    }
}

/// A signature: 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; 64]);

impl Signature {
    /// Reads a client's signature: base64 of either alphabet, padded or not, as libraries write it, with or without
    /// `ed25519:` before it; `None` when it is anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let encoded = text.strip_prefix("ed25519:").unwrap_or(text);
        let bytes = [URL_SAFE_NO_PAD, URL_SAFE, STANDARD_NO_PAD, STANDARD]
            .iter()
            .find_map(|engine| engine.decode(encoded).ok())?;
        bytes.try_into().ok().map(Self)
    }

    /// Reads what [`Self::show`] wrote, and nothing else: the server's own signatures have one text.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::parse(text).filter(|signature| signature.show() == text)
    }

    /// A signature of these bytes; `None` when there are not 64.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 64] {
        self.0
    }

    /// base64url without padding.
    #[must_use]
    pub fn show(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.show())
    }
}

/// A key that signs. Its secret half is shown nowhere and wiped from memory when it is dropped.
#[derive(Clone)]
pub struct Signer(SigningKey);

impl Signer {
    /// The key that grows from a seed of 32 bytes.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// The public half.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs some bytes.
    #[must_use]
    pub fn sign(&self, bytes: impl AsRef<[u8]>) -> Signature {
        Signature(self.0.sign(bytes.as_ref()).to_bytes())
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.public_key().did())
    }
}

/// Reads a seed from a setting: base64 of 32 bytes, of either alphabet; `None` when it is anything else.
#[must_use]
pub fn parse_seed(text: &str) -> Option<[u8; 32]> {
    [STANDARD, URL_SAFE_NO_PAD, URL_SAFE, STANDARD_NO_PAD]
        .iter()
        .find_map(|engine| engine.decode(text).ok())?
        .try_into()
        .ok()
}

/// What is signed of a JSON value: its canonical form (RFC 8785).
#[must_use]
pub fn statement(value: &impl Serialize) -> String {
    // What is signed is made of strings, numbers and JSON values: it always has a canonical form.
    canonical::text(value).unwrap_or_default()
}
