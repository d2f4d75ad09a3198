//! Proofs on messages (RFC-0018, RFC-0021 "Relationship"): where a message has its proof, and its signed form. The
//! verification is in [`crate::log::proofs`].

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::canonical::{Unambiguous, exact_text, inexact, numbers};
use crate::ids::ChannelId;
use crate::log::proofs::unsigned;
use crate::openintent::messages::{Draft, MessageType};
use crate::payload::Payload;
use crate::refusal::{Code, Refusal};

/// Returns the signed form of a message.
///
/// `to` is the address as readers see it: `*` for everybody. A response has no `to`, because the request it names
/// determines the recipient.
#[must_use]
pub fn of_message(channel_id: ChannelId, draft: &Draft, payload: &Value, proof: &Value) -> Value {
    let mut form = json!({
        "channel_id": channel_id, "sender": draft.sender, "message_type": draft.message_type, "payload": payload,
        "proof": unsigned(proof),
    });
    let to = match (draft.message_type, draft.to.as_deref()) {
        (MessageType::Response, _) => None,
        (MessageType::Broadcast, _) | (MessageType::Request, None) => Some("*"),
        (_, to) => to,
    };
    if let Some(to) = to {
        form["to"] = json!(to);
    }
    if let Some(request) = draft.correlation_id {
        form["correlation_id"] = json!(request);
    }
    form
}

/// Returns the proof in a message's metadata, if there is one; a quick text search skips parsing in most other cases.
///
/// # Errors
/// [`Code::Unprocessable`]: the metadata cannot be read as JSON values, or the proof has a number that reading changes.
pub fn in_metadata(metadata: Option<&Payload>) -> Result<Option<Value>, Refusal> {
    let Some(text) = metadata.map(Payload::as_str) else { return Ok(None) };
    // A member name may also be written with escapes.
    if !text.contains("\"proof\"") && !text.contains("\\u") {
        return Ok(None);
    }
    // Other metadata belongs to the sender and stays verbatim.
    let Proofs(found) = serde_json::from_str(text).map_err(|e| unreadable("metadata", &e))?;
    let Some(raw) = found else { return Ok(None) };
    let Unambiguous(proof) = serde_json::from_str(raw.get()).map_err(|e| unreadable("metadata", &e))?;
    if let Some(number) = numbers::rounded(raw.get().as_bytes()) {
        return Err(inexact(number));
    }
    Ok(Some(proof).filter(|proof| !proof.is_null()))
}

/// Text of the member `proof` of an object.
struct Proofs<'a>(Option<&'a RawValue>);

impl<'de> Deserialize<'de> for Proofs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ProofReader)
    }
}

struct ProofReader;

impl<'de> Visitor<'de> for ProofReader {
    type Value = Proofs<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Proofs<'de>, A::Error> {
        let mut found = None;
        while let Some((name, value)) = members.next_entry::<String, &RawValue>()? {
            if name == "proof" && found.replace(value).is_some() {
                return Err(A::Error::custom("`proof` is there twice"));
            }
        }
        Ok(Proofs(found))
    }
}

/// Parses the payload of a signed message.
///
/// # Errors
/// [`Code::Unprocessable`]: JSON readers would disagree on the signed content.
pub fn readable(payload: &Payload) -> Result<Value, Refusal> {
    let read = serde_json::from_str(payload.as_str()).map_err(|e| unreadable("payload", &e));
    let Unambiguous(value) = read?;
    exact_text(payload.as_str())?;
    Ok(value)
}

fn unreadable(member: &str, why: &serde_json::Error) -> Refusal {
    let message = format!(
        "The message has a proof, and not every reader would read its `{member}` as one thing: {why}."
    );
    Refusal::field(Code::Unprocessable, member, "number", message)
}
