//! Idempotency keys: a request sent twice is executed once.
//!
//! The client chooses the key. The fingerprint covers the request, so that reusing a key for another request
//! is distinguished from a retry. Both are stored in the transaction of the operation
//! (`crates/kernel/src/idempotency.rs`).

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::canonical::{Digest, hex, sha256};
use crate::limits::IDEMPOTENCY_KEY_BYTES;
use crate::refusal::{Code, Refusal};

/// A client's claim that a request equals any other with this key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    /// The client's key, unique per principal.
    pub key: String,
    /// The fingerprint of the request.
    pub fingerprint: Digest,
    /// The digest of the operation, for the items of a batch.
    operation: Digest,
}

impl Idempotency {
    /// Parses the `Idempotency-Key` of a request for `operation` with this `body`.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`] if the key is empty, too long or not printable ASCII.
    pub fn new(key: &str, operation: &str, body: &[u8]) -> Result<Self, Refusal> {
        let printable = key.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        if key.trim().is_empty() || key.len() > IDEMPOTENCY_KEY_BYTES || !printable {
            return Err(Refusal::new(
                Code::InvalidParameter,
                format!(
                    "`Idempotency-Key` must have 1 to {IDEMPOTENCY_KEY_BYTES} printable ASCII characters."
                ),
            ));
        }
        let operation = sha256(operation);
        Ok(Self { key: key.to_owned(), fingerprint: fingerprint(operation, body), operation })
    }

    /// Returns the claim of the `index`th item of a batch: the same item at the same position for the same
    /// operation.
    ///
    /// The rest of the batch may differ, so that a retry can correct refused items.
    #[must_use]
    pub fn item(&self, index: usize, item: &[u8]) -> Self {
        let operation = sha256([b"item of ".as_slice(), &self.operation].concat());
        Self { key: format!("{}#{index}", self.key), fingerprint: fingerprint(operation, item), operation }
    }

    /// Returns the refusal of a key that was used before for another request.
    #[must_use]
    pub fn mismatch() -> Refusal {
        Refusal::new(
            Code::IdempotencyMismatch,
            "This Idempotency-Key was already used with another request. Use a new key for a new request.",
        )
    }
}

/// Returns a digest of both parts; the first has a fixed length, so that no byte can move between them
/// unnoticed.
fn fingerprint(operation: Digest, asked: &[u8]) -> Digest {
    sha256([&operation, asked].concat())
}

/// Returns an id that is the same for the same parts and secret: `prefix`, a dot and 64 hexadecimal digits. Nobody without
/// the secret can compute it from the parts, and so take it first; `None` only for an invalid secret.
#[must_use]
pub fn derived_id(secret: &Digest, prefix: &str, parts: &[&str]) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    for part in [prefix].iter().chain(parts) {
        // Digests have a fixed length, so that no byte can move between two parts unnoticed.
        mac.update(&sha256(part));
    }
    Some(format!("{prefix}.{}", hex(&mac.finalize().into_bytes())))
}
