//! Idempotency keys: the same request sent twice is done once.
//!
//! The key is the client's; the fingerprint is taken over what was asked, so that a key used again for something else
//! is told apart from a retry. Both are stored in the transaction of the deed (`src/app/idempotency.rs`).

use crate::canonical::{Digest, sha256};
use crate::limits::IDEMPOTENCY_KEY_BYTES;
use crate::refusal::{Code, Refusal};

/// A client's claim that a request is the same as any other with this key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The client's key, unique per principal.
    pub key: String,
    /// What was asked.
    pub fingerprint: Digest,
    /// What is to be done with it, for the items of a batch.
    operation: Digest,
}

impl Idempotency {
    /// Reads the `Idempotency-Key` of a request for `operation` with this `body`.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`] when the key is empty, too long or not printable ASCII.
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

    /// The claim of the `index`th item of a batch: the same item in the same place for the same operation. The rest of
    /// the batch may differ, so that a retry can put right what was refused.
    #[must_use]
    pub fn item(&self, index: usize, item: &[u8]) -> Self {
        let operation = sha256([b"item of ".as_slice(), &self.operation].concat());
        Self { key: format!("{}#{index}", self.key), fingerprint: fingerprint(operation, item), operation }
    }

    /// The key was used before, for something else.
    #[must_use]
    pub fn mismatch() -> Refusal {
        Refusal::new(
            Code::IdempotencyMismatch,
            "This Idempotency-Key was already used with another request. Use a new key for a new request.",
        )
    }
}

/// A digest of both parts. The first has a fixed length, so that no byte can move from one to the other unseen.
fn fingerprint(operation: Digest, asked: &[u8]) -> Digest {
    sha256([&operation, asked].concat())
}
