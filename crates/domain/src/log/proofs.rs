//! Proofs (RFC-0018): agents' signatures on their events and messages, their verification, and the signed form of
//! events. The signed form of messages is in `openintent/messages/proofs.rs`, key ownership in
//! [`crate::identity::identities`].
//!
//! A proof is `{type, created, verification_method, signature}`. It signs the canonical form of the members known to
//! the client, including the proof itself without its `signature` ([`of_event`]). A proof of another type, or by an
//! agent without an identity here, is stored unverified, so that clients that sign for other servers keep working.
//! Proofs by an agent with an identity must be valid.

use std::collections::HashMap;

use chrono::TimeDelta;
use serde_json::{Map, Value, json};

use crate::canonical::exact;
use crate::clock::{Timestamp, parse};
use crate::identity::agent_keys::{AgentKey, KeyStatus};
use crate::identity::identities::Identity;
use crate::identity::signatures::{PublicKey, Signature, statement};
use crate::ids::IntentId;
use crate::log::chains::Break;
use crate::log::events::{Draft, Sealed};
use crate::refusal::{Code, Refusal};

/// Proof type that is verified.
pub const PROOF_TYPE: &str = "Ed25519Signature2026";

/// Maximum difference between two correct clocks.
const SKEW: TimeDelta = TimeDelta::seconds(300);

/// Returns a proof as it is signed: without its signature.
pub(crate) fn unsigned(proof: &Value) -> Value {
    let mut bare = proof.clone();
    if let Value::Object(members) = &mut bare {
        members.remove("signature");
    }
    bare
}

/// Returns the signed form of an event.
#[must_use]
pub fn of_event(
    intent_id: IntentId,
    event_type: &str,
    actor: &str,
    payload: &Map<String, Value>,
    proof: &Value,
) -> Value {
    json!({
        "intent_id": intent_id, "event_type": event_type, "actor": actor, "payload": payload, "proof": unsigned(proof),
    })
}

fn bad(kind: &str, message: impl Into<String>) -> Refusal {
    Refusal::field(Code::BadProof, "proof", kind, message)
}

/// Returns whether a proof is of the verified type.
#[must_use]
pub fn is_checked(proof: &Value) -> bool {
    proof.get("type").and_then(Value::as_str) == Some(PROOF_TYPE)
}

/// Verifies the proof on data sent by `actor`: `true` if it is valid, `false` if it is stored unverified.
///
/// # Errors
/// [`Code::BadProof`]: the actor has an identity, and the proof was not made with its active key, or not over `form`.
/// In strict mode also any proof that cannot be verified.
pub fn judge(
    actor: &str,
    proof: &Value,
    form: &Value,
    known: Option<&Identity>,
    now: Timestamp,
    strict: bool,
) -> Result<bool, Refusal> {
    let unchecked = |kind: &str, why: String| if strict { Err(bad(kind, why)) } else { Ok(false) };
    if !is_checked(proof) {
        return unchecked(
            "type",
            format!("The proof is of a type that is not checked. Send one of `{PROOF_TYPE}`."),
        );
    }
    let Some(known) = known else {
        return unchecked(
            "no_identity",
            format!(
                "`{actor}` has no identity that the proof could be checked with. Register its key first."
            ),
        );
    };
    exact(proof)?;
    let present = known.present(now);
    let Some(key) = known.in_force(present) else {
        let status = known.last().map_or("missing", |key| key.status_at(present).as_str());
        return Err(bad(
            "no_key",
            format!("The key of `{actor}` is {status}. Register a new one, or send no proof."),
        ));
    };
    if key.valid_from > now + SKEW {
        // A later verification would reject a proof accepted now.
        let message = format!(
            "The server's clock is behind the registration of the key of `{actor}`. Have it set, or send no proof."
        );
        return Err(bad("clock", message));
    }
    check_created(proof, now)?;
    if names_another(proof, key.public_key) {
        return Err(bad(
            "verification_method",
            format!("`verification_method` is not the key that `{actor}` has in force."),
        ));
    }
    let signature = proof.get("signature").and_then(Value::as_str).and_then(Signature::parse);
    if signature.is_some_and(|signature| key.public_key.made(&signature, statement(form))) {
        return Ok(true);
    }
    Err(bad(
        "signature",
        format!(
            "The proof's signature is not one by the key of `{actor}` over the canonical form of what was sent (RFC 8785; \
             ARCHITECTURE.md, \"What agents sign\"). Sign it again, or send no proof."
        ),
    ))
}

fn check_created(proof: &Value, now: Timestamp) -> Result<(), Refusal> {
    let Some(created) = proof.get("created").filter(|created| !created.is_null()) else { return Ok(()) };
    let at = created.as_str().and_then(parse);
    let at = at.ok_or_else(|| bad("created", "The proof's `created` is no RFC 3339 time."))?;
    if at > now + SKEW {
        return Err(bad("created", "The proof's `created` lies in the future. Set the clock that signs."));
    }
    Ok(())
}

/// Returns whether `verification_method` names a different key; values that are no key names are ignored.
fn names_another(proof: &Value, key: PublicKey) -> bool {
    let Some(method) = proof.get("verification_method").and_then(Value::as_str) else { return false };
    let name = method.split('#').next().unwrap_or(method);
    let is_a_key = name.starts_with("did:key:") || name.starts_with("ed25519:");
    is_a_key && name != key.did() && name != key.to_string()
}

/// Returns the faults in a log's proofs that were verified on receipt: each must still match a key that its actor had
/// at the time, according to these identities.
#[must_use]
pub fn verify(events: &[Sealed], identities: &[Identity]) -> Vec<Break> {
    let mut keys: HashMap<&str, Vec<&AgentKey>> = HashMap::new();
    for identity in identities {
        keys.entry(&identity.agent_id).or_default().extend(&identity.keys);
    }
    let fault = |event: &Sealed| {
        let Some(proof) = &event.proof else {
            return Some(Break::of(event, "the proof that was checked is gone"));
        };
        let signature = proof.get("signature").and_then(Value::as_str).and_then(Signature::parse);
        let at = parse(&event.created_at);
        let form = of_event(event.intent_id, &event.event_type, &event.actor, &event.payload, proof);
        let signed = statement(&form);
        let lives = |key: &&&AgentKey| {
            at.is_some_and(|at| key.valid_from <= at + SKEW && key.status_at(at - SKEW) == KeyStatus::Active)
        };
        let known = keys.get(event.actor.as_str()).into_iter().flatten().filter(lives);
        // Try the key active at the time first; the agent may have had many keys shortly before and after.
        let (then, near): (Vec<_>, Vec<_>) = known.partition(|key| at.is_some_and(|at| key.in_force(at)));
        let made =
            |key: &&AgentKey| signature.is_some_and(|signature| key.public_key.made(&signature, &signed));
        let counts = then.into_iter().chain(near).any(made);
        (!counts).then(|| Break::of(event, "its proof is not one by a key that its actor had then"))
    };
    events.iter().filter(|event| event.proof_verified).filter_map(fault).collect()
}

/// As [`judge`], for an event that a client posts.
///
/// # Errors
/// As [`judge`].
pub fn judge_event(
    intent_id: IntentId,
    draft: &Draft,
    known: Option<&Identity>,
    now: Timestamp,
    strict: bool,
) -> Result<bool, Refusal> {
    let Some(proof) = &draft.proof else { return Ok(false) };
    let form = of_event(intent_id, &draft.event_type, &draft.actor, &draft.payload, proof);
    judge(&draft.actor, proof, &form, known, now, strict)
}
