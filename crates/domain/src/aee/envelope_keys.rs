//! Signing keys of envelopes (AEE §8, §11.2): registration, validity and revocation.
//!
//! A key belongs to an entity and is named by a `kid` that is only meaningful within that entity. It is
//! registered and revoked, never changed: one key material has one name for good, so that revoking the name
//! revokes the material. Signatures are in `envelopes/signing.rs`;
//! `crates/aee/src/envelope_keys.rs` decides which caller may act for an entity.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::aee::envelopes::Envelope;
use crate::aee::envelopes::signing::{Algorithm, SHARED_BYTES, Sig, VerifyingKey, decode, wrong};
use crate::canonical::{hex, sha256};
use crate::clock::Timestamp;
use crate::identity::identities::read_key;
use crate::identity::signatures::PublicKey;
use crate::ids::Chance;
use crate::limits::ENVELOPE_KEYS;
use crate::refusal::{Code, Refusal};

/// Maximum bytes of a `kid`, which is part of paths and of every signature.
pub const KID_BYTES: usize = 128;

/// The stage of a key's lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EnvelopeKeyStatus {
    /// It is not valid yet.
    Pending,
    /// It is valid.
    Active,
    /// It is no longer valid.
    Expired,
    /// It was revoked.
    Revoked,
}

/// A key of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvelopeKey {
    /// The entity; the key signs envelopes with this `from`.
    pub entity: String,
    /// The key's name among the entity's keys.
    pub kid: String,
    /// The key that signatures are verified with.
    pub key: VerifyingKey,
    /// When it becomes valid.
    pub not_before: Timestamp,
    /// When it stops being valid.
    pub not_after: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// The principal that registered it.
    pub created_by: String,
    /// When it was registered.
    pub created_at: Timestamp,
}

impl EnvelopeKey {
    /// Returns the only algorithm that the key may be used with.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self.key {
            VerifyingKey::Ed25519(_) => Algorithm::Ed25519,
            VerifyingKey::Hs256(_) => Algorithm::Hs256,
        }
    }

    /// Returns the public key; `None` for a shared secret.
    #[must_use]
    pub fn public_key(&self) -> Option<PublicKey> {
        match self.key {
            VerifyingKey::Ed25519(key) => Some(key),
            VerifyingKey::Hs256(_) => None,
        }
    }

    /// Returns the status at the given time.
    #[must_use]
    pub fn status_at(&self, now: Timestamp) -> EnvelopeKeyStatus {
        // Revocation ignores the time, because the clock of the server that revoked the key may be ahead.
        if self.revoked_at.is_some() {
            EnvelopeKeyStatus::Revoked
        } else if self.not_after.is_some_and(|end| end <= now) {
            EnvelopeKeyStatus::Expired
        } else if self.not_before > now {
            EnvelopeKeyStatus::Pending
        } else {
            EnvelopeKeyStatus::Active
        }
    }

    /// Whether the key's signatures are valid at the given time.
    #[must_use]
    pub fn in_force(&self, now: Timestamp) -> bool {
        self.status_at(now) == EnvelopeKeyStatus::Active
    }
}

/// A dummy key: signatures of unknown keys are verified with it, so that no caller can tell an unknown key
/// from a wrong signature.
const NOBODYS: [u8; 32] = [0; 32];

/// Verifies an envelope's signature with the named key of its sender, if there is one.
///
/// # Errors
/// [`Code::BadSignature`], the same for every cause: no such key, a key that is revoked, expired or not valid
/// yet, a key for another algorithm, or a wrong signature. [`Code::SigUnverifiable`] if no signature could
/// cover all of the envelope.
pub fn verify(
    known: Option<&EnvelopeKey>,
    envelope: &Envelope,
    sig: &Sig,
    now: Timestamp,
) -> Result<(), Refusal> {
    let counts =
        |key: &&EnvelopeKey| key.entity == envelope.sender && key.kid == sig.kid && key.in_force(now);
    if let Some(known) = known.filter(counts) {
        return sig.verify(&envelope.members, &known.key);
    }
    sig.verify(&envelope.members, &VerifyingKey::Hs256(NOBODYS.to_vec()))?;
    Err(wrong())
}

/// Input for the registration of a key.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The key's name.
    pub kid: Option<String>,
    /// The key's algorithm.
    pub algorithm: Algorithm,
    /// The public key, for Ed25519.
    pub public_key: Option<String>,
    /// The secret in Base64, for HS256; generated if absent.
    pub secret: Option<Shared>,
    /// When it becomes valid; defaults to now.
    pub not_before: Option<Timestamp>,
    /// When it stops being valid.
    pub not_after: Option<Timestamp>,
}

/// A shared secret in text form; its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Shared(pub String);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared(…)")
    }
}

/// The outcome of a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registered {
    /// The key is new; a generated secret is shown this once.
    New(EnvelopeKey, Option<Shared>),
    /// The key was registered before.
    Same(EnvelopeKey),
}

fn lacking(member: &str, kind: &str, message: &str) -> Refusal {
    Refusal::field(Code::InvalidRequest, member, kind, message)
}

/// Reads the key material, and generates a secret if none is given.
fn material(ask: &Ask, chance: &dyn Chance) -> Result<(VerifyingKey, Option<Shared>), Refusal> {
    match ask.algorithm {
        Algorithm::Ed25519 => {
            if ask.secret.is_some() {
                let message = "`secret` is for HS256. Keep the private half of an Ed25519 key to yourself.";
                return Err(lacking("secret", "unexpected", message));
            }
            let text = ask.public_key.as_deref().ok_or_else(|| {
                let message =
                    "`public_key` is missing: the public half, `ed25519:` and its 32 bytes in base64url.";
                lacking("public_key", "missing", message)
            })?;
            Ok((VerifyingKey::Ed25519(public_key(text)?), None))
        }
        Algorithm::Hs256 => {
            if ask.public_key.is_some() {
                let message =
                    "`public_key` is for ed25519. HS256 has a `secret`, which is made when none is given.";
                return Err(lacking("public_key", "unexpected", message));
            }
            let Some(Shared(text)) = &ask.secret else {
                let bytes = [chance.bits().to_le_bytes(), chance.bits().to_le_bytes()].concat();
                let shown = Shared(URL_SAFE_NO_PAD.encode(&bytes));
                return Ok((VerifyingKey::Hs256(bytes), Some(shown)));
            };
            let bytes = decode(text).filter(|bytes| SHARED_BYTES.contains(&bytes.len()));
            let bytes = bytes.ok_or_else(|| {
                let message = "`secret` must be 32 to 64 bytes in Base64. Leave it out to have one made.";
                Refusal::field(Code::Unprocessable, "secret", "secret", message)
            })?;
            Ok((VerifyingKey::Hs256(bytes), None))
        }
    }
}

/// Parses a public key: `ed25519:…`, a `did:key`, or its 32 bytes in any Base64.
fn public_key(text: &str) -> Result<PublicKey, Refusal> {
    let bare = decode(text).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    match bare.and_then(|bytes| PublicKey::from_bytes(&bytes).ok()) {
        Some(key) => Ok(key),
        None => read_key("public_key", text),
    }
}

/// Generates a key's name; for a public key it is always the same, so that registering the key again changes
/// nothing.
fn name(key: &VerifyingKey, chance: &dyn Chance) -> String {
    match key {
        VerifyingKey::Ed25519(key) => format!("ed25519-{}", hex(&sha256(key.as_bytes())[..8])),
        VerifyingKey::Hs256(_) => format!("hs256-{}", hex(&chance.bits().to_be_bytes()[..8])),
    }
}

fn check_kid(kid: &str) -> Result<(), Refusal> {
    let lawful = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:~@=+".contains(&byte);
    // A name of dots alone would be lost in a path.
    if (1..=KID_BYTES).contains(&kid.len()) && kid.bytes().all(lawful) && kid.bytes().any(|byte| byte != b'.')
    {
        return Ok(());
    }
    let message =
        "`kid` must have 1 to 128 letters, digits or any of `-_.:~@=+`. Leave it out to have one made.";
    Err(lacking("kid", "characters", message))
}

fn taken(message: &str) -> Refusal {
    Refusal::new(Code::AlreadyExists, message)
}

/// Registers a key of an entity; `known` are all keys that it ever had.
///
/// Repeating a registration changes nothing.
///
/// # Errors
/// [`Code::InvalidRequest`], [`Code::Unprocessable`]: the key or its validity period is invalid.
/// [`Code::AlreadyExpired`]. [`Code::AlreadyExists`]: the name belongs to another key, the material has
/// another name, or it was revoked. [`Code::TooLarge`]: the entity has reached the maximum number of keys.
pub fn register(
    entity: &str,
    known: &[EnvelopeKey],
    ask: &Ask,
    by: &str,
    now: Timestamp,
    chance: &dyn Chance,
) -> Result<Registered, Refusal> {
    ask.kid.as_deref().map_or(Ok(()), check_kid)?;
    let (key, shown) = material(ask, chance)?;
    if let Some(same) = known.iter().find(|one| one.key == key) {
        return again(same, ask).map(|()| Registered::Same(same.clone()));
    }
    let kid = ask.kid.clone().unwrap_or_else(|| name(&key, chance));
    if known.iter().any(|one| one.kid == kid) {
        return Err(taken(
            "This entity has or had another key of this `kid`, and a name is never given twice. Choose another one.",
        ));
    }
    let not_before = ask.not_before.unwrap_or(now);
    if ask.not_after.is_some_and(|end| end <= now) {
        let message = "`not_after` lies in the past: the key would never count.";
        return Err(Refusal::field(Code::AlreadyExpired, "not_after", "past", message));
    }
    if ask.not_after.is_some_and(|end| end <= not_before) {
        let message = "`not_after` must come after `not_before`: the key would never count.";
        return Err(Refusal::field(Code::Unprocessable, "not_after", "order", message));
    }
    if known.len() >= ENVELOPE_KEYS {
        let message = format!(
            "This entity has had {ENVELOPE_KEYS} keys, revoked ones included, as many as it may in its life."
        );
        return Err(Refusal::new(Code::TooLarge, message));
    }
    let made = EnvelopeKey {
        entity: entity.to_owned(),
        kid,
        key,
        not_before,
        not_after: ask.not_after,
        revoked_at: None,
        created_by: by.to_owned(),
        created_at: now,
    };
    Ok(Registered::New(made, shown))
}

/// Checks that a registration matches the existing key.
fn again(same: &EnvelopeKey, ask: &Ask) -> Result<(), Refusal> {
    if same.revoked_at.is_some() {
        return Err(taken("This key was revoked, and a key that was is never one again. Make a new one."));
    }
    if ask.kid.as_ref().is_some_and(|kid| *kid != same.kid) {
        return Err(taken(
            "This entity has this key under another `kid`. A key has one name, so that it can be revoked. Make a new one.",
        ));
    }
    if ask.not_before.is_some_and(|at| at != same.not_before) || ask.not_after != same.not_after {
        return Err(taken(
            "This key is registered with another time, and a key is never changed. Register a new one with an overlap.",
        ));
    }
    Ok(())
}

/// Revokes a key; `None` if it was revoked before.
#[must_use]
pub fn revoke(known: &EnvelopeKey, now: Timestamp) -> Option<EnvelopeKey> {
    known.revoked_at.is_none().then(|| EnvelopeKey { revoked_at: Some(now), ..known.clone() })
}
