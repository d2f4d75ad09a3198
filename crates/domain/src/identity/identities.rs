//! Identities (RFC-0018): registration, rotation and revocation of agents' Ed25519 keys.
//!
//! The lifecycle of a key is in [`crate::identity::agent_keys`], keys and signatures as such in [`crate::identity::signatures`],
//! proofs on events and messages in [`crate::log::proofs`]. An agent proves its first key by signing a challenge;
//! after that the key in force names the next one. Keys are never deleted and never reused, so that their
//! signatures can always be verified.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::canonical::exact;
use crate::clock::{Timestamp, parse, plus_seconds, rfc3339};
use crate::identity::agent_keys::{AgentKey, End, KeyStatus};
use crate::identity::signatures::{PublicKey, Signature, statement};
use crate::ids::Chance;
use crate::limits::{DURATION_SECONDS, IDENTITY_KEYS, METADATA_BYTES};
use crate::refusal::{Code, Refusal};

/// The only supported algorithm (OI-12.1).
pub const ALGORITHM: &str = "Ed25519";

/// Seconds to answer a challenge: enough for a person to fetch a key from a safe.
pub const CHALLENGE_SECONDS: u32 = 300;

/// Maximum number of keys tried per signature, the newest first, so that an agent with a thousand keys does
/// not cost a thousand times the work.
const TRIED: usize = 32;

/// An agent and all its keys, past and present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The agent.
    pub agent_id: String,
    /// Its keys, oldest first; at least one.
    pub keys: Vec<AgentKey>,
}

impl Identity {
    /// Returns the last key.
    #[must_use]
    pub fn last(&self) -> Option<&AgentKey> {
        self.keys.last()
    }

    /// Returns the key that is valid at the given time.
    #[must_use]
    pub fn in_force(&self, now: Timestamp) -> Option<&AgentKey> {
        self.keys.iter().rfind(|key| key.in_force(now))
    }

    /// Returns `now`, or the latest change of these keys if this server's clock is behind: a rotated or
    /// revoked key stays so, regardless of any clock.
    #[must_use]
    pub fn present(&self, now: Timestamp) -> Timestamp {
        self.last().map_or(now, |last| now.max(last.ended_at.unwrap_or(last.valid_from)))
    }

    fn knows(&self, key: PublicKey) -> bool {
        self.keys.iter().any(|known| known.public_key == key)
    }

    /// Returns the identity with one more key, which replaces the last one.
    fn succeeded(&self, next: AgentKey, how: End) -> Self {
        let mut keys = self.keys.clone();
        if let Some(last) = keys.last_mut()
            && last.ended_at.is_none()
        {
            (last.ended_at, last.ended_by) = (Some(next.valid_from), Some(how));
        }
        keys.push(next);
        Self { agent_id: self.agent_id.clone(), keys }
    }
}

/// An open challenge of an agent; only the latest one of an agent is valid, and only once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// The agent.
    pub agent_id: String,
    /// The key to be proved.
    pub public_key: PublicKey,
    /// The expiry date requested for that key.
    pub key_expires_at: Option<Timestamp>,
    /// The text to be signed: 32 random bytes.
    pub bytes: [u8; 32],
    /// When the challenge expires.
    pub expires_at: Timestamp,
}

impl Challenge {
    /// Returns the challenge as sent to the agent: base64url without padding.
    #[must_use]
    pub fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.bytes)
    }
}

/// Parses a key in a body's `member`: `ed25519:…` or `did:key:…`.
///
/// # Errors
/// [`Code::Unprocessable`].
pub fn read_key(member: &str, text: &str) -> Result<PublicKey, Refusal> {
    PublicKey::parse(text).or_else(|_no| PublicKey::of_did(text)).map_err(|_no_key| {
        let message = format!(
            "`{member}` is no Ed25519 public key that can be trusted. Send `ed25519:` and its 32 bytes in base64url \
             without padding."
        );
        Refusal::field(Code::Unprocessable, member, "public_key", message)
    })
}

/// Input for the registration of a key.
#[derive(Debug, Clone)]
pub struct KeyAsk {
    /// The key in text form.
    pub public_key: String,
    /// Its algorithm.
    pub key_algorithm: Option<String>,
    /// The expiry date of the key.
    pub key_expires_at: Option<Timestamp>,
}

/// Begins the registration of a key: the agent has to sign the returned challenge with it.
///
/// # Errors
/// The agent has a key in force ([`Code::IdentityExists`]), or had this one before; the key or its algorithm
/// is invalid; its expiry date is in the past or too far away.
pub fn challenge(
    agent_id: &str,
    known: Option<&Identity>,
    ask: &KeyAsk,
    now: Timestamp,
    chance: &dyn Chance,
) -> Result<Challenge, Refusal> {
    if let Some(algorithm) = &ask.key_algorithm
        && !algorithm.eq_ignore_ascii_case(ALGORITHM)
    {
        let message = "The only key algorithm is `Ed25519` (RFC-0018). Send a key of that kind.";
        return Err(Refusal::field(Code::Unprocessable, "key_algorithm", "enum", message));
    }
    let public_key = read_key("public_key", &ask.public_key)?;
    check_end("key_expires_at", ask.key_expires_at, now)?;
    check_new(known, public_key, "public_key", now)?;
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&chance.bits().to_be_bytes());
    bytes[16..].copy_from_slice(&chance.bits().to_be_bytes());
    Ok(Challenge {
        agent_id: agent_id.to_owned(),
        public_key,
        key_expires_at: ask.key_expires_at,
        bytes,
        expires_at: plus_seconds(now, CHALLENGE_SECONDS),
    })
}

fn check_end(member: &str, end: Option<Timestamp>, now: Timestamp) -> Result<(), Refusal> {
    let Some(end) = end else { return Ok(()) };
    if end <= now {
        let message = format!("`{member}` lies in the past (it is {} now). Send a later time.", rfc3339(now));
        return Err(Refusal::field(Code::AlreadyExpired, member, "past", message));
    }
    if end > plus_seconds(now, DURATION_SECONDS) {
        let message = format!("`{member}` is more than ten years away. Send an earlier time, or none.");
        return Err(Refusal::field(Code::Unprocessable, member, "too_far", message));
    }
    Ok(())
}

/// Checks that a key may be registered now.
fn check_new(known: Option<&Identity>, key: PublicKey, member: &str, now: Timestamp) -> Result<(), Refusal> {
    let Some(known) = known else { return Ok(()) };
    if known.in_force(now).is_some() {
        return Err(Refusal::new(
            Code::IdentityExists,
            "This agent has a key already. Rotate it with the old key's signature, or revoke it and register again.",
        ));
    }
    check_fresh(known, key, member)
}

fn check_fresh(known: &Identity, key: PublicKey, member: &str) -> Result<(), Refusal> {
    if known.knows(key) {
        let message = format!("This agent has or had the key of `{member}` before. Make a fresh one.");
        return Err(Refusal::field(Code::Unprocessable, member, "used", message));
    }
    if known.keys.len() >= IDENTITY_KEYS {
        let message = format!("An agent has at most {IDENTITY_KEYS} keys in its life. Use another agent id.");
        return Err(Refusal::field(Code::Unprocessable, member, "too_many", message));
    }
    Ok(())
}

fn bad_signature(what: &str) -> Refusal {
    Refusal::field(
        Code::BadSignature,
        "signature",
        "signature",
        format!("The signature is not one of {what} by the key that it has to be by. Nothing was changed."),
    )
}

fn read_signature(member: &str, text: &str) -> Result<Signature, Refusal> {
    Signature::parse(text).ok_or_else(|| {
        let message = format!("`{member}` is no Ed25519 signature: 64 bytes in base64url.");
        Refusal::field(Code::BadSignature, member, "signature", message)
    })
}

/// Completes a registration; the signature may be over the challenge's bytes or over its text, as the RFC
/// does not specify which, and both prove the key (OI-12.3).
///
/// # Errors
/// The challenge is not open; the signature is by another key ([`Code::BadSignature`]); the errors of
/// [`challenge`].
pub fn complete(
    known: Option<&Identity>,
    open: Option<&Challenge>,
    said: &str,
    signature: &str,
    now: Timestamp,
) -> Result<Identity, Refusal> {
    let open = open.filter(|open| now < open.expires_at && open.text() == said.trim_end_matches('='));
    let open = open.ok_or_else(|| {
        let message = "This challenge is not open: it ran out, was used, or a later one took its place. Ask for a new one.";
        Refusal::field(Code::Unprocessable, "challenge", "challenge", message)
    })?;
    check_new(known, open.public_key, "public_key", now)?;
    check_end("key_expires_at", open.key_expires_at, now)?;
    let signature = read_signature("signature", signature)?;
    if !open.public_key.made(&signature, open.bytes) && !open.public_key.made(&signature, open.text()) {
        return Err(bad_signature("the challenge"));
    }
    let key = AgentKey {
        public_key: open.public_key,
        registered_at: now,
        valid_from: now,
        expires_at: open.key_expires_at,
        ended_at: None,
        ended_by: None,
    };
    Ok(match known {
        Some(known) => known.succeeded(key, End::Replaced),
        None => Identity { agent_id: open.agent_id.clone(), keys: vec![key] },
    })
}

/// A rotation: the new identity, and the signed statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Rotation {
    /// The identity with the new key.
    pub identity: Identity,
    /// The body without its signatures, which both keys sign.
    pub statement: Map<String, Value>,
    /// Whether the new key has signed too.
    pub new_key_proved: bool,
}

/// Replaces the key in force by the next one: `signature` is the old key's over the canonical form of the
/// body without `signature` and `new_signature` (OI-12.4); `new_signature`, if present, is the new key's
/// over the same.
///
/// # Errors
/// No key is in force, or `old_public_key` is another; the new key is invalid, or was used before; a
/// signature is wrong ([`Code::BadSignature`]).
pub fn rotate(known: &Identity, body: &Map<String, Value>, now: Timestamp) -> Result<Rotation, Refusal> {
    let text = |member: &str| body.get(member).and_then(Value::as_str);
    let need = |member: &str| {
        text(member).ok_or_else(|| {
            let message = format!("`{member}` is missing, or no text.");
            Refusal::field(Code::InvalidRequest, member, "missing", message)
        })
    };
    if text("action").is_some_and(|action| action != "rotate") {
        let message = "`action` must be `rotate`: what is signed says what it is for.";
        return Err(Refusal::field(Code::InvalidRequest, "action", "enum", message));
    }
    let (old, new) = (
        read_key("old_public_key", need("old_public_key")?)?,
        read_key("new_public_key", need("new_public_key")?)?,
    );
    let signature = read_signature("signature", need("signature")?)?;
    let proof = text("new_signature").map(|text| read_signature("new_signature", text)).transpose()?;
    let statement_of = stripped(body)?;
    let signed = statement(&statement_of);
    if signed.len() > METADATA_BYTES {
        let message =
            format!("A rotation has at most {METADATA_BYTES} bytes. Leave out what it does not need.");
        return Err(Refusal::new(Code::TooLarge, message));
    }
    let current = known.in_force(now).filter(|key| key.public_key == old).ok_or_else(|| {
        let message = "`old_public_key` is not the key that this agent has in force. Read the identity again; a key that \
                       was revoked or has expired names no other.";
        Refusal::field(Code::Unprocessable, "old_public_key", "not_in_force", message)
    })?;
    check_fresh(known, new, "new_public_key")?;
    let expires_at = match body.get("key_expires_at").filter(|end| !end.is_null()) {
        None => None,
        Some(end) => Some(end.as_str().and_then(parse).ok_or_else(|| {
            let message = "`key_expires_at` is no RFC 3339 time such as 2027-11-21T08:00:00Z.";
            Refusal::field(Code::InvalidRequest, "key_expires_at", "type", message)
        })?),
    };
    check_end("key_expires_at", expires_at, now)?;
    if !old.made(&signature, &signed) || proof.is_some_and(|proof| !new.made(&proof, &signed)) {
        return Err(bad_signature("the rotation's canonical form (RFC 8785, without its signatures)"));
    }
    let key = AgentKey {
        public_key: new,
        registered_at: current.registered_at,
        valid_from: now,
        expires_at,
        ended_at: None,
        ended_by: None,
    };
    let identity = known.succeeded(key, End::Rotated);
    Ok(Rotation { identity, statement: statement_of, new_key_proved: proof.is_some() })
}

/// Returns a body without its signatures, if it means the same to every reader of its canonical form.
fn stripped(body: &Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    let mut rest = body.clone();
    rest.remove("signature");
    rest.remove("new_signature");
    rest.values().try_for_each(exact)?;
    Ok(rest)
}

/// Revokes the last key; `None` if it has ended already.
#[must_use]
pub fn revoke(known: &Identity, now: Timestamp) -> Option<Identity> {
    let mut next = known.clone();
    let last = next.keys.last_mut().filter(|key| key.ended_at.is_none())?;
    (last.ended_at, last.ended_by) = (Some(now), Some(End::Revoked));
    Some(next)
}

/// Checks that a valid key of the agent, among its newest ones, signed the canonical form of a value.
///
/// # Errors
/// The reason: `revoked`, `expired`, `superseded` or `bad_signature`.
pub fn check(
    known: &Identity,
    value: &impl Serialize,
    signature: &str,
    now: Timestamp,
) -> Result<(), &'static str> {
    let signature = Signature::parse(signature).ok_or("bad_signature")?;
    let signed = statement(value);
    let maker = known.keys.iter().rev().take(TRIED).find(|key| key.public_key.made(&signature, &signed));
    match maker.ok_or("bad_signature")?.status_at(now) {
        KeyStatus::Active => Ok(()),
        other => Err(other.as_str()),
    }
}
