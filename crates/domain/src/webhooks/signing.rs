//! Webhook signatures as defined by Standard Webhooks 1.0: secrets, signed content, header.
//!
//! A receiver verifies `webhook-signature` over `{webhook-id}.{webhook-timestamp}.{body}`. During the rotation of a
//! secret the header has several signatures, so that both ends need not switch at the same moment.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer as _, SigningKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::clock::Timestamp;
use crate::ids::Chance;
use crate::refusal::{Code, Refusal};

/// Length of a shared secret in bytes: shorter ones can be guessed, longer ones add nothing (Standard Webhooks).
const SHARED_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Signature scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// HMAC-SHA256 with a shared secret (`whsec_…`).
    V1,
    /// Ed25519: the receiver only needs the public half (`whpk_…`).
    V1a,
}

impl Scheme {
    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1a => "v1a",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::V1, Self::V1a].into_iter().find(|scheme| scheme.as_str() == text)
    }
}

/// A signing secret; its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// A secret shared by both ends.
    Shared(Vec<u8>),
    /// Private half of a key pair, as its 32-byte seed.
    Private([u8; 32]),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// Mints a secret of 256 random bits.
    #[must_use]
    pub fn mint(scheme: Scheme, chance: &dyn Chance) -> Self {
        let mut seed = [0; 32];
        for half in seed.chunks_mut(16) {
            half.copy_from_slice(&chance.bits().to_le_bytes());
        }
        match scheme {
            Scheme::V1 => Self::Shared(seed.to_vec()),
            Scheme::V1a => Self::Private(seed),
        }
    }

    /// Parses the output of [`Self::reveal`]; `None` if it is invalid.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(shared) = text.strip_prefix("whsec_") {
            let bytes = STANDARD.decode(shared).ok()?;
            return SHARED_BYTES.contains(&bytes.len()).then_some(Self::Shared(bytes));
        }
        let pair: [u8; 64] = STANDARD.decode(text.strip_prefix("whsk_")?).ok()?.try_into().ok()?;
        // The public half must belong to the private one.
        SigningKey::from_keypair_bytes(&pair).ok().map(|key| Self::Private(key.to_bytes()))
    }

    /// Parses a secret that a client chose.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`]; the refusal does not repeat the secret.
    pub fn given(text: &str, scheme: Scheme) -> Result<Self, Refusal> {
        let found = Self::parse(text).filter(|secret| secret.scheme() == scheme);
        found.ok_or_else(|| {
            let form = match scheme {
                Scheme::V1 => "`whsec_` and the base64 of 24 to 64 bytes",
                Scheme::V1a => "`whsk_` and the base64 of an Ed25519 key pair of 64 bytes",
            };
            let message = format!("`secret` must be {form}. Leave it out to get a fresh one.");
            Refusal::field(Code::InvalidRequest, "secret", "secret", message)
        })
    }

    /// Returns the signature scheme.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        match self {
            Self::Shared(_) => Scheme::V1,
            Self::Private(_) => Scheme::V1a,
        }
    }

    /// Returns the secret in clear: `whsec_…`, or `whsk_…`.
    #[must_use]
    pub fn reveal(&self) -> String {
        match self {
            Self::Shared(bytes) => format!("whsec_{}", STANDARD.encode(bytes)),
            Self::Private(seed) => {
                let pair = SigningKey::from_bytes(seed).to_keypair_bytes();
                format!("whsk_{}", STANDARD.encode(pair))
            }
        }
    }

    /// Returns the public key for receivers, if the scheme has one: `whpk_…`.
    #[must_use]
    pub fn public(&self) -> Option<String> {
        match self {
            Self::Shared(_) => None,
            Self::Private(seed) => {
                let public = SigningKey::from_bytes(seed).verifying_key();
                Some(format!("whpk_{}", STANDARD.encode(public.as_bytes())))
            }
        }
    }

    /// Signs a body: `v1,…` or `v1a,…`.
    #[must_use]
    pub fn sign(&self, id: &str, sent_at: i64, body: &[u8]) -> String {
        let head = format!("{id}.{sent_at}.");
        let signature = match self {
            Self::Shared(bytes) => {
                // HMAC accepts keys of any length.
                let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(bytes) else { return String::new() };
                mac.update(head.as_bytes());
                mac.update(body);
                STANDARD.encode(mac.finalize().into_bytes())
            }
            Self::Private(seed) => {
                let mut signed = head.into_bytes();
                signed.extend_from_slice(body);
                STANDARD.encode(SigningKey::from_bytes(seed).sign(&signed).to_bytes())
            }
        };
        format!("{},{signature}", self.scheme().as_str())
    }
}

/// Secrets of one receiver: the current one, and during rotation its predecessor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secrets {
    /// Current secret.
    pub current: Secret,
    /// Replaced secret, and the time until which both sign.
    pub before: Option<(Secret, Timestamp)>,
}

impl Secrets {
    /// Creates a set with one secret.
    #[must_use]
    pub fn one(current: Secret) -> Self {
        Self { current, before: None }
    }

    /// Returns the header `webhook-signature`, newest secret first.
    #[must_use]
    pub fn header(&self, id: &str, at: Timestamp, body: &[u8]) -> String {
        let sent_at = at.timestamp();
        let mut header = self.current.sign(id, sent_at, body);
        if let Some((before, until)) = &self.before
            && *until > at
        {
            header.push(' ');
            header.push_str(&before.sign(id, sent_at, body));
        }
        header
    }
}
