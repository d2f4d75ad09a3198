//! Redacted envelopes (AEE §11.5): the gateway delivers an envelope of its own that refers to the original,
//! never the original with a part missing.

use serde_json::{Map, Value, json};

use super::policy::redacted;
use super::{Envelope, VERSION, check, hash};
use crate::clock::{Timestamp, rfc3339};
use crate::ids::Chance;
use crate::refusal::Refusal;

/// An envelope to be delivered in place of another one.
#[derive(Debug, Clone)]
pub struct RedactedEnvelope<'a> {
    /// The original.
    pub original: &'a Envelope,
    /// The sender: the gateway's own name.
    pub sender: &'a str,
    /// The recipient.
    pub recipient: &'a str,
    /// The envelope that it answers.
    pub reply_to: Option<&'a str>,
    /// JSON Pointers to the parts of the payload to leave out.
    pub without: &'a [String],
}

impl RedactedEnvelope<'_> {
    /// Writes the envelope; members unknown to AEE are left out, because no rule covers their contents.
    ///
    /// # Errors
    /// The remainder is not a valid envelope.
    pub fn write(self, at: Timestamp, chance: &dyn Chance) -> Result<Envelope, Refusal> {
        let original = self.original;
        let same = |name: &str| original.members.get(name).cloned().unwrap_or_default();
        // The gateway does not vouch for unsigned members (AEE §8).
        let (priority, believed) = original.believed();
        let requires = match (original.is_partly_signed(), believed.human_approval) {
            (false, _) => same("requires"),
            (true, true) => json!({ "human_approval": true }),
            (true, false) => Value::Null,
        };
        let parts = [
            ("v", json!(VERSION)),
            ("id", json!(crate::ids::envelope_id(at, chance))),
            ("ts", json!(rfc3339(at))),
            ("type", json!(original.kind)),
            ("from", json!(self.sender)),
            ("to", json!(self.recipient)),
            ("intent", json!(original.purpose)),
            ("corr", json!(original.corr)),
            ("reply_to", json!(self.reply_to)),
            ("trace", same("trace")),
            ("priority", json!(priority)),
            ("requires", requires),
            ("payload", Value::Object(self.payload())),
            ("sig", Value::Null),
        ];
        check(parts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    fn payload(&self) -> Map<String, Value> {
        let original = self.original;
        let mut payload =
            original.payload().as_object().map(|all| redacted(all, self.without)).unwrap_or_default();
        let mut reference = json!({ "id": original.id, "type": "aee.envelope", "corr": original.corr });
        // The hash of an unsigned envelope would confirm a correct guess of the redacted parts.
        if original.is_signed()
            && let Value::Object(members) = &mut reference
        {
            members.insert("hash".to_owned(), json!(hash(&original.members)));
        }
        if let Value::Array(all) = payload.entry("references").or_insert_with(|| json!([])) {
            all.push(reference);
        }
        payload
    }
}
