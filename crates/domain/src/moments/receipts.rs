//! Receipts of decisions: the server's attestation of which answer was given over which question.
//!
//! The subject is the digest of the question's slots as the person saw them (binding moment §6: SHA-256 over their
//! canonical form), so a receipt can be compared with those of other systems over the same slots. It has no words of
//! the person: they are in the moment only, and a hash of a short answer could be guessed.

use serde_json::{Map, Value, json};

use super::{Brief, Moment, PROFILE};
use crate::canonical::{Digest, hex, sha256, text};
use crate::clock::rfc3339;
use crate::identity::attestations::{Attestation, Statement};
use crate::identity::signatures::{PublicKey, Signer};

/// Type of a receipt's predicate (in-toto `predicateType`).
pub const PREDICATE: &str = "urn:entente:decision:1";

/// Returns the answer to a moment without the person's words; `None` if there is none.
#[must_use]
pub fn committed(moment: &Moment) -> Option<Value> {
    let settled = moment.resolution.as_ref()?;
    let mut answer = json!({
        "kind": settled.kind, "by": settled.by, "at": rfc3339(settled.at), "via": settled.via,
    });
    if let Some(option) = settled.option_idx {
        answer["option_idx"] = json!(option);
    }
    Some(answer)
}

/// Returns the receipt of a moment's answer; `None` without an answer or a question.
#[must_use]
pub fn receipt(moment: &Moment, signer: &Signer) -> Option<Attestation> {
    let (answer, digest) = (committed(moment)?, seen(moment.digest.as_deref()?)?);
    let id = moment.id.to_string();
    let predicate = stated(&json!(id), &json!(moment.agent_id), &answer);
    Some(Statement::about(&id, &digest, PREDICATE, predicate).signed(signer))
}

fn stated(moment_id: &Value, agent_id: &Value, resolution: &Value) -> Value {
    json!({ "moment_id": moment_id, "agent_id": agent_id, "profile": PROFILE, "resolution": resolution })
}

/// Parses the digest of a question: `sha256:` and hexadecimal digits.
fn seen(shown: &str) -> Option<Digest> {
    let digits = shown.strip_prefix("sha256:")?.as_bytes();
    let mut digest = Digest::default();
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    (format!("sha256:{}", hex(&digest)) == shown).then_some(digest)
}

/// Returns why a recorded decision contradicts itself, if it does: its question has another digest, or its receipt is
/// not the server's over this question and this answer. `trusted` are the acceptable keys, any if empty.
#[must_use]
pub fn fault(decision: &Map<String, Value>, trusted: &[PublicKey]) -> Option<String> {
    let member = |name: &str| decision.get(name).unwrap_or(&Value::Null);
    let digest = member("digest").as_str().and_then(seen);
    if let Some(brief) = decision.get("brief") {
        let read = serde_json::from_value::<Brief>(brief.clone()).is_ok();
        let found = text(brief).ok().map(sha256);
        if !read || found != digest {
            return Some("its question does not have the digest that it says".to_owned());
        }
    }
    let Some(receipt) = decision.get("receipt") else {
        let answered = decision.contains_key("resolution") && digest.is_some();
        return answered.then(|| "it is answered and has no receipt".to_owned());
    };
    let opened = serde_json::from_value::<Attestation>(receipt.clone())
        .map_err(|e| e.to_string())
        .and_then(|receipt| receipt.open(trusted));
    let statement = match opened {
        Ok((statement, _key)) => statement,
        Err(fault) => return Some(format!("its receipt: {fault}")),
    };
    let (moment, agent) = (member("moment_id"), member("agent_id"));
    let id = moment.as_str().unwrap_or_default();
    let same = digest.is_some_and(|digest| statement.is_about(id, &digest))
        && statement.predicate_type == PREDICATE
        && statement.predicate == stated(moment, agent, member("resolution"));
    (!same).then(|| "its receipt is of another decision".to_owned())
}
