//! Signatures of envelopes: the profile `aee-jcs-1`, which specifies the details that AEE §8 leaves open.
//!
//! The signed text is `aee-jcs-1`, a line feed, and the canonical form (RFC 8785) of the whole envelope
//! except `sig`. This includes `priority`, `requires` and unknown members, so that no intermediary can remove
//! `requires.human_approval` unnoticed. The algorithm is that of the registered key, never the one claimed by
//! the envelope.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sha2::Sha256;

use crate::canonical::{exact, exact_text, numbers, text};
use crate::identity::signatures::{PublicKey, Signature, Signer};
use crate::refusal::{Code, Refusal};

/// The name of the profile.
pub const PROFILE: &str = "aee-jcs-1";

/// The members that every signature covers (AEE §8).
const CORE: [&str; 10] = ["v", "id", "ts", "type", "from", "to", "intent", "corr", "reply_to", "payload"];

/// Allowed bytes of a shared secret: fewer can be guessed, more add nothing.
pub const SHARED_BYTES: std::ops::RangeInclusive<usize> = 32..=64;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const SAFE: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);
const SHOWN: GeneralPurpose = base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The algorithm of an envelope's signature (AEE §8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub enum Algorithm {
    /// Ed25519: anybody can verify it.
    #[serde(rename = "ed25519")]
    Ed25519,
    /// HMAC-SHA256: it proves the sender to the gateway only.
    #[serde(rename = "HS256")]
    Hs256,
}

impl Algorithm {
    /// Returns the algorithm's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ed25519 => "ed25519",
            Self::Hs256 => "HS256",
        }
    }

    /// Parses an algorithm's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Ed25519, Self::Hs256].into_iter().find(|one| one.as_str() == text)
    }
}

/// The members that a signature covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = SignatureScope)]
pub enum Scope {
    /// Everything except the signature itself.
    Whole,
    /// The ten members of AEE §8, an absent `reply_to` as null: for signers of other implementations.
    Core,
}

impl Scope {
    /// Returns the scope's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Core => "core",
        }
    }

    /// Parses a scope's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Whole, Self::Core].into_iter().find(|one| one.as_str() == text)
    }
}

/// A signature in an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sig {
    /// The claimed algorithm.
    pub algorithm: Algorithm,
    /// The sender's key that made it.
    pub kid: String,
    /// The members that it covers.
    pub scope: Scope,
    value: Vec<u8>,
}

/// A key for verifying signatures.
#[derive(Clone, PartialEq, Eq)]
pub enum VerifyingKey {
    /// A public key.
    Ed25519(PublicKey),
    /// A secret shared with the gateway.
    Hs256(Vec<u8>),
}

impl std::fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ed25519(key) => write!(f, "{key}"),
            Self::Hs256(_) => f.write_str("HS256(…)"),
        }
    }
}

/// A key for signing.
pub enum SigningKey {
    /// A private key.
    Ed25519(Box<Signer>),
    /// A shared secret.
    Hs256(Vec<u8>),
}

fn unverifiable(why: &str) -> Refusal {
    let message =
        format!("`sig` cannot be verified: {why}. Sign by the profile {PROFILE}, or leave `sig` out.");
    Refusal::field(Code::SigUnverifiable, "sig", "sig_unverifiable", message)
}

/// Returns the refusal of every wrong signature, the same for all causes.
#[must_use]
pub fn wrong() -> Refusal {
    Refusal::field(
        Code::BadSignature,
        "sig",
        "bad_signature",
        "`sig` is not by the key that it names over what was sent (AEE §11.2). Sign the envelope as it is sent, with a \
         key in force of the entity in `from`.",
    )
}

impl Sig {
    /// Parses an envelope's `sig`; `None` if it has none.
    ///
    /// # Errors
    /// [`Code::SigUnverifiable`]: a text, an unknown profile or algorithm, or no key named. A signature must
    /// be verified before anything else (AEE §11.2), so it cannot be ignored.
    pub fn read(members: &Map<String, Value>) -> Result<Option<Self>, Refusal> {
        let sig = match members.get("sig") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Object(sig)) => sig,
            Some(_) => return Err(unverifiable("it is no object, and no verifier for others is set up")),
        };
        let word = |name: &str| sig.get(name).and_then(Value::as_str);
        if word("profile") != Some(PROFILE) {
            return Err(unverifiable("its `profile` is missing or unknown"));
        }
        let scope = match sig.get("scope") {
            None => Scope::Whole,
            Some(Value::String(scope)) if scope == "core" => Scope::Core,
            Some(_) => return Err(unverifiable("its `scope` is unknown")),
        };
        let algorithm = word("alg").and_then(Algorithm::parse);
        let algorithm =
            algorithm.ok_or_else(|| unverifiable("its `alg` is neither `ed25519` nor `HS256`"))?;
        let kid =
            word("kid").filter(|kid| !kid.is_empty()).ok_or_else(|| unverifiable("it names no `kid`"))?;
        let value = word("value").and_then(decode).ok_or_else(|| unverifiable("its `value` is no Base64"))?;
        Ok(Some(Self { algorithm, kid: kid.to_owned(), scope, value }))
    }

    /// Verifies the signature over its envelope.
    ///
    /// # Errors
    /// [`Code::BadSignature`]: it was not made with this key, or not with its algorithm.
    /// [`Code::SigUnverifiable`]: the envelope has a number that canonical JSON would change, so that it is
    /// not fully covered.
    pub fn verify(&self, members: &Map<String, Value>, key: &VerifyingKey) -> Result<(), Refusal> {
        let input = input(members, self.scope)?;
        let fits = match (key, self.algorithm) {
            (VerifyingKey::Ed25519(key), Algorithm::Ed25519) => {
                Signature::of_bytes(&self.value).is_some_and(|signature| key.made(&signature, &input))
            }
            (VerifyingKey::Hs256(secret), Algorithm::Hs256) => {
                mac(secret, &input).is_some_and(|mac| mac.verify_slice(&self.value).is_ok())
            }
            _ => false,
        };
        if fits { Ok(()) } else { Err(wrong()) }
    }
}

/// Whether an envelope's `sig` is an object of the draft's own form: `alg`, `kid` and `value` without a profile
/// (AEE §8).
///
/// The draft names neither the signed bytes nor a form of them, so nobody can verify such a signature; an operator may
/// let it pass unverified (AEE-W-9.6). One that claims the profile is never opaque.
#[must_use]
pub fn is_opaque(members: &Map<String, Value>) -> bool {
    let Some(Value::Object(sig)) = members.get("sig") else { return false };
    let text = |name: &str| sig.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    !sig.contains_key("profile") && ["alg", "kid", "value"].into_iter().all(text)
}

/// Decodes Base64 in any of its forms: standard or URL-safe, padded or not.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    PLAIN.decode(text).or_else(|_other| SAFE.decode(text)).ok()
}

/// Encodes Base64 as signatures use it: URL-safe, without padding.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    SHOWN.encode(bytes)
}

fn mac(secret: &[u8], input: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    mac.update(input);
    Some(mac)
}

/// Returns the bytes to be signed.
///
/// # Errors
/// [`Code::SigUnverifiable`]: canonical JSON would change a number.
pub fn input(members: &Map<String, Value>, scope: Scope) -> Result<Vec<u8>, Refusal> {
    static ABSENT: Value = Value::Null;
    let bound: BTreeMap<&str, &Value> = match scope {
        Scope::Whole => members
            .iter()
            .filter(|(name, _)| *name != "sig")
            .map(|(name, value)| (name.as_str(), value))
            .collect(),
        Scope::Core => {
            let absent = |name| (name == "reply_to").then_some(&ABSENT);
            CORE.into_iter()
                .filter_map(|name| Some((name, members.get(name).or_else(|| absent(name))?)))
                .collect()
        }
    };
    bound.values().try_for_each(|value| exact(value)).map_err(|fault| inexact(&fault))?;
    let canonical = text(&bound).map_err(|_no_json| unverifiable("it has no canonical form"))?;
    Ok([PROFILE.as_bytes(), b"\n", canonical.as_bytes()].concat())
}

fn inexact(fault: &Refusal) -> Refusal {
    unverifiable(fault.message.trim_end_matches('.'))
}

/// Checks the numbers in an envelope's text that a signature covers; [`input`] no longer sees those that the parser
/// has rounded (AEE-W-6.2).
///
/// # Errors
/// [`Code::SigUnverifiable`]: canonical JSON would change a number.
pub fn check_numbers(body: &[u8], scope: Scope) -> Result<(), Refusal> {
    if numbers::unheld(body).is_none() {
        return Ok(());
    }
    let members: BTreeMap<String, &RawValue> =
        serde_json::from_slice(body).map_err(|_no_json| unverifiable("it is in no JSON object"))?;
    let covered = members.iter().filter(|(name, _)| match scope {
        Scope::Whole => *name != "sig",
        Scope::Core => CORE.contains(&name.as_str()),
    });
    covered.map(|(_, raw)| raw.get()).try_for_each(exact_text).map_err(|fault| inexact(&fault))
}

/// Signs a whole envelope, replacing any signature that it has.
///
/// # Errors
/// As [`input`].
pub fn sign(members: &mut Map<String, Value>, kid: &str, key: &SigningKey) -> Result<(), Refusal> {
    let input = input(members, Scope::Whole)?;
    let (algorithm, value) = match key {
        SigningKey::Ed25519(signer) => (Algorithm::Ed25519, signer.sign(&input).to_bytes().to_vec()),
        SigningKey::Hs256(secret) => {
            let mac = mac(secret, &input).ok_or_else(|| unverifiable("the secret cannot be used"))?;
            (Algorithm::Hs256, mac.finalize().into_bytes().to_vec())
        }
    };
    let sig = json!({ "alg": algorithm, "kid": kid, "value": encode(&value), "profile": PROFILE });
    members.insert("sig".to_owned(), sig);
    Ok(())
}
