//! Keys and signatures (RFC-0018): text forms of Ed25519 public keys, the signed form of data, and the server's own
//! key, which signs checkpoints and exports (RFC-0019). Ownership and validity of agents' keys are in
//! [`crate::identity::identities`].
//!
//! All signatures are over the canonical form (RFC 8785), so that members may be sent in any order.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use ed25519_dalek::{Signature as Ed25519, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::canonical;

/// Prefix of an Ed25519 key in a `did:key`: the multicodec `ed25519-pub`, 0xed, as a varint.
const MULTICODEC: [u8; 2] = [0xed, 0x01];

/// The text is not a public key of the expected form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an Ed25519 public key")]
pub struct NotAKey;

/// An Ed25519 public key for verification.
///
/// Excludes points of small order, which accept almost any signature, and non-canonical encodings (RFC 8032 §5.1.3).
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Parses the 32 bytes of a key.
    ///
    /// # Errors
    /// The bytes are not a point, or are a point of small order or in a non-canonical encoding.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, NotAKey> {
        let key = VerifyingKey::from_bytes(bytes).map_err(|_e| NotAKey)?;
        if key.is_weak() || key.to_edwards().compress().to_bytes() != *bytes {
            return Err(NotAKey);
        }
        Ok(Self(key))
    }

    /// Parses `ed25519:` and base64url without padding (OI-12.1); the only text form of a key.
    ///
    /// # Errors
    /// Any other text.
    pub fn parse(text: &str) -> Result<Self, NotAKey> {
        let encoded = text.strip_prefix("ed25519:").ok_or(NotAKey)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_e| NotAKey)?;
        Self::from_bytes(&bytes.try_into().map_err(|_length| NotAKey)?)
    }

    /// Parses a `did:key` of an Ed25519 key.
    ///
    /// # Errors
    /// Any other text.
    pub fn of_did(text: &str) -> Result<Self, NotAKey> {
        let encoded = text.strip_prefix("did:key:z").ok_or(NotAKey)?;
        // A key has 48 characters; decoding base58 takes quadratic time.
        if encoded.len() > 64 {
            return Err(NotAKey);
        }
        let bytes = bs58::decode(encoded).into_vec().map_err(|_e| NotAKey)?;
        let key = bytes.strip_prefix(&MULTICODEC).ok_or(NotAKey)?;
        Self::from_bytes(&key.try_into().map_err(|_length| NotAKey)?)
    }

    /// Returns the key's 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Returns the key as a decentralised identifier: `did:key:z…`.
    #[must_use]
    pub fn did(self) -> String {
        let bytes: Vec<u8> = MULTICODEC.iter().chain(self.as_bytes()).copied().collect();
        format!("did:key:z{}", bs58::encode(bytes).into_string())
    }

    /// Returns whether this key made a signature over these bytes.
    ///
    /// Strict: rejects malleable signatures, and those that fit several messages.
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
    /// Parses a client's signature; `None` if it is invalid.
    ///
    /// Accepts both base64 alphabets, padded or not, because libraries differ, with or without a leading `ed25519:`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let encoded = text.strip_prefix("ed25519:").unwrap_or(text);
        let bytes = [URL_SAFE_NO_PAD, URL_SAFE, STANDARD_NO_PAD, STANDARD]
            .iter()
            .find_map(|engine| engine.decode(encoded).ok())?;
        bytes.try_into().ok().map(Self)
    }

    /// Parses only the output of [`Self::show`]: the server's own signatures have a single text form.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::parse(text).filter(|signature| signature.show() == text)
    }

    /// Creates a signature from bytes; `None` unless there are 64.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 64] {
        self.0
    }

    /// Returns the signature in base64url without padding.
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

/// A signing key; its secret half is never displayed, and is wiped from memory on drop.
#[derive(Clone)]
pub struct Signer(SigningKey);

impl Signer {
    /// Derives the key from a seed of 32 bytes.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// Returns the public half.
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

/// Parses a seed from a setting: base64 of 32 bytes, in either alphabet; `None` if it is invalid.
#[must_use]
pub fn parse_seed(text: &str) -> Option<[u8; 32]> {
    [STANDARD, URL_SAFE_NO_PAD, URL_SAFE, STANDARD_NO_PAD]
        .iter()
        .find_map(|engine| engine.decode(text).ok())?
        .try_into()
        .ok()
}

/// Returns the signed form of a JSON value: its canonical form (RFC 8785).
#[must_use]
pub fn statement(value: &impl Serialize) -> String {
    // Signed values consist of strings, numbers and JSON values, so the canonical form always exists.
    canonical::text(value).unwrap_or_default()
}
