//! Attestations: statements of the server about a digest, in a form that public tools verify. The statement is an
//! in-toto Statement v1, its envelope is DSSE v1 with one Ed25519 signature.
//!
//! The signed text begins with `DSSEv1`, so that it is never the canonical JSON that the same key signs elsewhere.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::signatures::{PublicKey, Signature, Signer, statement};
use crate::canonical::{Digest, hex};

/// Type of the statement (in-toto attestation framework).
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// Media type of the signed text.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// A statement about something with a digest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Attested>,
    /// Type of the predicate: a URI.
    #[serde(rename = "predicateType")]
    pub predicate_type: String,
    /// Content of the statement.
    pub predicate: Value,
}

/// Subject of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attested {
    name: String,
    digest: AttestedDigest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AttestedDigest {
    /// Hexadecimal digits.
    sha256: String,
}

/// A signed statement: a DSSE envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Attestation {
    /// The statement, in base64.
    pub payload: String,
    /// Media type of the statement.
    #[serde(rename = "payloadType")]
    #[schema(example = "application/vnd.in-toto+json")]
    pub payload_type: String,
    /// One signature.
    pub signatures: Vec<AttestationSignature>,
}

/// The signature of an attestation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttestationSignature {
    /// Signing key, as a `did:key`.
    pub keyid: String,
    /// Signature over DSSE's pre-authentication encoding, in base64.
    pub sig: String,
}

/// Returns the text that DSSE signs.
fn signed_text(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut text = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    text.extend_from_slice(payload);
    text
}

impl Statement {
    /// Creates a statement about the subject `name` with a digest.
    #[must_use]
    pub fn about(name: &str, sha256: &Digest, predicate_type: &str, predicate: Value) -> Self {
        let digest = AttestedDigest { sha256: hex(sha256) };
        Self {
            kind: STATEMENT_TYPE.to_owned(),
            subject: vec![Attested { name: name.to_owned(), digest }],
            predicate_type: predicate_type.to_owned(),
            predicate,
        }
    }

    /// Returns whether it is about this subject and nothing else.
    #[must_use]
    pub fn is_about(&self, name: &str, sha256: &Digest) -> bool {
        *self == Self::about(name, sha256, &self.predicate_type, self.predicate.clone())
    }

    /// Signs the statement.
    #[must_use]
    pub fn signed(&self, signer: &Signer) -> Attestation {
        let payload = statement(self);
        let signature = signer.sign(signed_text(PAYLOAD_TYPE, payload.as_bytes()));
        Attestation {
            payload: STANDARD.encode(payload),
            payload_type: PAYLOAD_TYPE.to_owned(),
            signatures: vec![AttestationSignature {
                keyid: signer.public_key().did(),
                sig: STANDARD.encode(signature.to_bytes()),
            }],
        }
    }
}

impl Attestation {
    /// Returns the statement and the key that signed it; `trusted` are the acceptable keys, any if empty.
    ///
    /// # Errors
    /// The envelope is not one of a single signed statement; the signature is not by its key, or the key is not trusted.
    pub fn open(&self, trusted: &[PublicKey]) -> Result<(Statement, PublicKey), String> {
        let [signature] = self.signatures.as_slice() else {
            return Err("an attestation has one signature".to_owned());
        };
        let key = PublicKey::of_did(&signature.keyid).ok().filter(|key| key.did() == signature.keyid);
        let key = key.ok_or("the `keyid` of the attestation is no key")?;
        let payload = STANDARD.decode(&self.payload).map_err(|e| format!("`payload`: {e}"))?;
        let sig = STANDARD.decode(&signature.sig).ok().and_then(|bytes| Signature::of_bytes(&bytes));
        if !sig.is_some_and(|sig| key.made(&sig, signed_text(&self.payload_type, &payload))) {
            return Err("the signature is not over the statement: one of them was changed".to_owned());
        }
        if !trusted.is_empty() && !trusted.contains(&key) {
            return Err(format!("it is signed by {}, which is not a key of the server", signature.keyid));
        }
        if self.payload_type != PAYLOAD_TYPE {
            return Err(format!("a statement has the type `{PAYLOAD_TYPE}`"));
        }
        let statement = serde_json::from_slice(&payload).map_err(|e| format!("the statement: {e}"))?;
        Ok((statement, key))
    }
}
