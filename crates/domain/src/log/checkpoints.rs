//! Checkpoints (RFC-0019): the server's signed statement that a log had a certain content up to a certain
//! event. A log that is rewritten as a whole still hashes and links, but no longer matches a checkpoint's
//! Merkle root.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical::{self, Digest};
use crate::clock::{Timestamp, rfc3339};
use crate::identity::principals::check_name;
use crate::identity::signatures::{PublicKey, Signature, Signer, statement};
use crate::ids::{CheckpointId, EventId, IntentId};
use crate::limits::{ANCHOR_BYTES, URL_BYTES};
use crate::log::chains::Break;
use crate::log::deleted::DeletedEvents;
use crate::log::events::Sealed;
use crate::log::merkle::Tree;
use crate::refusal::{Code, Refusal};

/// The kind of log that a checkpoint covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointScope {
    /// The log of an intent.
    Intent,
    /// The system log.
    Server,
}

impl CheckpointScope {
    /// Parses a scope's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "intent" => Some(Self::Intent),
            "server" => Some(Self::Server),
            _ => None,
        }
    }
}

/// An external witness's statement that a checkpoint existed at a certain time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// The kind of witness.
    #[serde(rename = "type")]
    #[schema(example = "external-timestamp")]
    pub kind: String,
    /// The name of the witness.
    #[schema(example = "timestamps.example")]
    pub provider: String,
    /// Where the witness keeps the record.
    pub reference: String,
    /// The witness's receipt.
    pub timestamp_proof: String,
    /// When it was witnessed, RFC 3339.
    pub anchored_at: String,
}

impl Anchor {
    /// Checks that the anchor is valid.
    ///
    /// # Errors
    /// No provider, a member that is too long, or neither a reference nor a proof.
    pub fn check(self) -> Result<Self, Refusal> {
        check_name("provider", &self.provider)?;
        check_name("type", &self.kind)?;
        let parts = [
            ("reference", &self.reference, URL_BYTES),
            ("timestamp_proof", &self.timestamp_proof, ANCHOR_BYTES),
        ];
        for (member, text, limit) in parts {
            if text.len() > limit {
                let message = format!("`{member}` has {} bytes, at most {limit} are allowed.", text.len());
                return Err(Refusal::field(Code::TooLarge, member, "too_large", message));
            }
        }
        if self.reference.is_empty() && self.timestamp_proof.is_empty() {
            let message =
                "An anchor needs a `reference` or a `timestamp_proof`: what shows that the provider saw it.";
            return Err(Refusal::field(Code::InvalidRequest, "reference", "missing", message));
        }
        Ok(self)
    }
}

/// A checkpoint in its signed and exported form; parsing refuses unknown members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The checkpoint's id.
    pub checkpoint_id: CheckpointId,
    /// The intent; null for the system log.
    #[serde(deserialize_with = "Option::deserialize")]
    pub intent_id: Option<IntentId>,
    /// The kind of log.
    pub scope: CheckpointScope,
    /// The Merkle root over the hashes of the covered events.
    pub merkle_root: String,
    /// Number of events covered.
    pub event_count: i64,
    /// The first event covered: always 1, so that a checkpoint covers the whole log up to its end.
    pub first_sequence: i64,
    /// The last event covered.
    pub last_sequence: i64,
    /// When it was taken, RFC 3339 with `Z` and six digits.
    pub created_at: String,
    /// The server key that signed it, as a `did:key`.
    pub signed_by: String,
    /// The signature over the canonical form of all other members.
    pub signature: String,
    /// The external witness, if any; it is signed too, because anchoring signs the checkpoint again.
    #[serde(deserialize_with = "Option::deserialize")]
    pub anchor: Option<Anchor>,
}

impl Checkpoint {
    /// Takes a checkpoint of a log with these leaves.
    ///
    /// # Errors
    /// The log is empty.
    pub fn take(
        intent_id: IntentId,
        tree: &Tree,
        id: CheckpointId,
        now: Timestamp,
        signer: &Signer,
    ) -> Result<Self, Refusal> {
        let (Some(root), Ok(count)) = (tree.root(tree.len()), i64::try_from(tree.len())) else {
            let message = "The log has no events yet; there is nothing to vouch for.";
            return Err(Refusal::new(Code::Unprocessable, message));
        };
        let system = intent_id == IntentId::SYSTEM;
        let bare = Self {
            checkpoint_id: id,
            intent_id: (!system).then_some(intent_id),
            scope: if system { CheckpointScope::Server } else { CheckpointScope::Intent },
            merkle_root: canonical::show(&root),
            event_count: count,
            first_sequence: 1,
            last_sequence: count,
            created_at: rfc3339(now),
            signed_by: String::new(),
            signature: String::new(),
            anchor: None,
        };
        Ok(bare.signed(signer))
    }

    /// Returns the text that is signed.
    fn statement(&self) -> String {
        let mut form = serde_json::to_value(self).unwrap_or_default();
        form.as_object_mut().and_then(|members| members.remove("signature"));
        statement(&form)
    }

    fn signed(mut self, signer: &Signer) -> Self {
        self.signed_by = signer.public_key().did();
        self.signature = signer.sign(self.statement()).show();
        self
    }

    /// Adds an external witness's anchor and signs again.
    ///
    /// Signs only checkpoints signed by this very key: an attacker with write access to the database, signing
    /// with another key, must not obtain the server's signature.
    ///
    /// # Errors
    /// The checkpoint has no valid signature of this key.
    pub fn anchored(self, anchor: Anchor, signer: &Signer) -> Result<Self, String> {
        if let Some(fault) = self.signature_fault(&[signer.public_key()]) {
            return Err(fault);
        }
        Ok(Self { anchor: Some(anchor), ..self }.signed(signer))
    }

    /// Returns why the signature is invalid, if it is; `trusted` lists the acceptable keys (any key if
    /// empty).
    #[must_use]
    pub fn signature_fault(&self, trusted: &[PublicKey]) -> Option<String> {
        let Ok(key) = PublicKey::of_did(&self.signed_by) else {
            return Some("its `signed_by` is no key".to_owned());
        };
        if !trusted.is_empty() && !trusted.contains(&key) {
            return Some(format!("it is signed by {}, which is not a key of the server", self.signed_by));
        }
        let made =
            Signature::read(&self.signature).is_some_and(|signature| key.made(&signature, self.statement()));
        (!made)
            .then(|| "its signature is not over what it says: it was changed after it was signed".to_owned())
    }

    /// Returns the log that the checkpoint claims to cover.
    #[must_use]
    pub fn log(&self) -> Option<IntentId> {
        match (self.scope, self.intent_id) {
            (CheckpointScope::Intent, Some(intent)) => Some(intent),
            (CheckpointScope::Server, None) => Some(IntentId::SYSTEM),
            _ => None,
        }
    }

    /// Returns the number of leaves covered, if the checkpoint's numbers agree.
    #[must_use]
    pub fn count(&self) -> Option<usize> {
        let agree = self.first_sequence == 1 && self.event_count == self.last_sequence;
        usize::try_from(self.event_count).ok().filter(|count| agree && *count > 0)
    }

    /// Returns why the checkpoint does not match the beginning of this log, if it does not.
    fn fault(&self, log: IntentId, tree: &Tree, trusted: &[PublicKey]) -> Option<String> {
        if let Some(fault) = self.signature_fault(trusted) {
            return Some(fault);
        }
        if self.log() != Some(log) {
            return Some("it is of another log".to_owned());
        }
        let Some(count) = self.count() else { return Some("its numbers do not agree".to_owned()) };
        let Some(root) = tree.root(count) else {
            return Some(format!("it covers {count} events, the log has {}: its end is missing", tree.len()));
        };
        (canonical::read(&self.merkle_root) != Some(root)).then(|| {
            format!("the log up to event {count} does not give its Merkle root: it was rewritten after the checkpoint")
        })
    }
}

/// Returns the leaves of a log: its events' hashes, up to the first missing or malformed one.
#[must_use]
pub fn leaves(events: &[Sealed]) -> Vec<Digest> {
    events.iter().map_while(|event| canonical::read(event.event_hash.as_deref()?)).collect()
}

/// Returns the leaves of a log whose oldest events were deleted.
#[must_use]
pub fn all_leaves(deleted: &DeletedEvents, events: &[Sealed]) -> Vec<Digest> {
    let mut all = deleted.0.clone();
    all.extend(leaves(events));
    all
}

/// Returns the checkpoints that a log contradicts, the earliest first, with the reasons.
#[must_use]
pub fn verify(
    log: IntentId,
    events: &[Sealed],
    checkpoints: &[Checkpoint],
    trusted: &[PublicKey],
) -> Vec<Break> {
    verify_rest(log, &DeletedEvents::default(), events, checkpoints, trusted)
}

/// As [`verify`], for a log whose oldest events retention has deleted: a checkpoint that holds must cover all of them,
/// because nothing else vouches for their hashes.
#[must_use]
pub fn verify_rest(
    log: IntentId,
    deleted: &DeletedEvents,
    events: &[Sealed],
    checkpoints: &[Checkpoint],
    trusted: &[PublicKey],
) -> Vec<Break> {
    let id_of =
        |sequence| events.iter().find(|event: &&Sealed| event.sequence == sequence).map(|event| event.id);
    verify_leaves(log, deleted.len(), all_leaves(deleted, events), id_of, checkpoints, trusted)
}

/// As [`verify_rest`], for a log of which only the hashes are known, of which the first `deleted` are of deleted events;
/// `id_of` finds the id of an event by its sequence.
#[must_use]
pub fn verify_leaves(
    log: IntentId,
    deleted: usize,
    leaves: Vec<Digest>,
    id_of: impl Fn(i64) -> Option<EventId>,
    checkpoints: &[Checkpoint],
    trusted: &[PublicKey],
) -> Vec<Break> {
    let tree = Tree::new(leaves);
    let mut faults = Vec::new();
    let mut covered = 0;
    let mut ordered: Vec<&Checkpoint> = checkpoints.iter().collect();
    ordered.sort_by_key(|checkpoint| (checkpoint.last_sequence, checkpoint.checkpoint_id));
    for checkpoint in ordered {
        let Some(reason) = checkpoint.fault(log, &tree, trusted) else {
            covered = covered.max(checkpoint.count().unwrap_or(0));
            continue;
        };
        faults.push(Break {
            sequence: checkpoint.last_sequence,
            event_id: id_of(checkpoint.last_sequence).unwrap_or(EventId::from(uuid::Uuid::nil())),
            checkpoint_id: Some(checkpoint.checkpoint_id.to_string()),
            reason: format!("checkpoint {}: {reason}", checkpoint.checkpoint_id),
        });
    }
    if covered < deleted {
        faults.push(Break {
            sequence: i64::try_from(deleted).unwrap_or(i64::MAX),
            event_id: EventId::from(uuid::Uuid::nil()),
            checkpoint_id: None,
            reason: "no checkpoint that holds covers the deleted events up to this one: nothing vouches for their hashes"
                .to_owned(),
        });
    }
    faults
}

/// The system log's record of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told<'a> {
    /// The log covered.
    pub log: IntentId,
    /// The Merkle root.
    pub merkle_root: &'a str,
    /// The signature.
    pub signature: &'a str,
}

/// Reads the record from the event that was written when the checkpoint was taken.
#[must_use]
pub fn told(payload: &serde_json::Map<String, Value>) -> Option<(CheckpointId, Told<'_>)> {
    let id = payload.get("checkpoint_id")?.as_str()?.parse().ok()?;
    let log = match payload.get("intent_id")? {
        Value::Null => IntentId::SYSTEM,
        intent => intent.as_str()?.parse().ok()?,
    };
    let text = |member: &str| payload.get(member)?.as_str();
    Some((id, Told { log, merkle_root: text("merkle_root")?, signature: text("signature")? }))
}

/// Reads a checkpoint's new signature from the event that was written when it was anchored.
#[must_use]
pub fn told_again(payload: &serde_json::Map<String, Value>) -> Option<(CheckpointId, &str)> {
    let text = |member: &str| payload.get(member)?.as_str();
    Some((text("checkpoint_id")?.parse().ok()?, text("signature")?))
}
