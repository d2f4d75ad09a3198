//! Checkpoints (RFC-0019): the server's signed word that a log had a certain content up to a certain event. A log that is
//! rewritten as a whole still hashes and links; it no longer gives the Merkle root of a checkpoint that somebody kept.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical::{self, Digest};
use crate::chains::Break;
use crate::clock::{Timestamp, rfc3339};
use crate::events::Sealed;
use crate::ids::{CheckpointId, EventId, IntentId};
use crate::limits::{ANCHOR_BYTES, URL_BYTES};
use crate::merkle::Tree;
use crate::principals::check_name;
use crate::refusal::{Code, Refusal};
use crate::signatures::{PublicKey, Signature, Signer, statement};

/// Which log a checkpoint is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointScope {
    /// An intent's.
    Intent,
    /// The house's.
    House,
}

impl CheckpointScope {
    /// Reads a scope; `None` when there is no such scope.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "intent" => Some(Self::Intent),
            "house" => Some(Self::House),
            _ => None,
        }
    }
}

/// What an outside witness said of a checkpoint: that it existed at a certain time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// What sort of witness.
    #[serde(rename = "type")]
    #[schema(example = "external-timestamp")]
    pub kind: String,
    /// Who.
    #[schema(example = "timestamps.example")]
    pub provider: String,
    /// Where it is to be found there.
    pub reference: String,
    /// Its receipt.
    pub timestamp_proof: String,
    /// When, RFC 3339.
    pub anchored_at: String,
}

impl Anchor {
    /// An anchor, when it is one.
    ///
    /// # Errors
    /// No provider, or a member that is too long.
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

/// A checkpoint, in the form in which it is signed and exported. It is read as strictly as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Its id.
    pub checkpoint_id: CheckpointId,
    /// The intent; null for the house's own log.
    #[serde(deserialize_with = "Option::deserialize")]
    pub intent_id: Option<IntentId>,
    /// Which log it is of.
    pub scope: CheckpointScope,
    /// The root over the hashes of its events.
    pub merkle_root: String,
    /// How many events it covers.
    pub event_count: i64,
    /// The first of them: always 1, so that a checkpoint vouches for the whole log up to its end.
    pub first_sequence: i64,
    /// The last of them.
    pub last_sequence: i64,
    /// When it was taken, RFC 3339 with `Z` and six digits.
    pub created_at: String,
    /// The server key that signed it, as a `did:key`.
    pub signed_by: String,
    /// Its signature over the canonical form of everything else.
    pub signature: String,
    /// The outside witness, if there is one. It is signed too: with it the checkpoint was signed again.
    #[serde(deserialize_with = "Option::deserialize")]
    pub anchor: Option<Anchor>,
}

impl Checkpoint {
    /// Takes a checkpoint of a log that has these leaves.
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
        let house = intent_id == IntentId::HOUSE;
        let bare = Self {
            checkpoint_id: id,
            intent_id: (!house).then_some(intent_id),
            scope: if house { CheckpointScope::House } else { CheckpointScope::Intent },
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

    /// What is signed.
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

    /// The checkpoint with the word of an outside witness. Only what this very key has signed is signed again: whoever can
    /// write to the database, and says so with a key of its own, must not get the server's signature for it.
    ///
    /// # Errors
    /// The checkpoint is not what this key has signed.
    pub fn anchored(self, anchor: Anchor, signer: &Signer) -> Result<Self, String> {
        if let Some(fault) = self.signature_fault(&[signer.public_key()]) {
            return Err(fault);
        }
        Ok(Self { anchor: Some(anchor), ..self }.signed(signer))
    }

    /// Why its signature does not count, if it does not. `trusted` are the keys that may have signed; none: any.
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

    /// The log that it says it is of.
    #[must_use]
    pub fn log(&self) -> Option<IntentId> {
        match (self.scope, self.intent_id) {
            (CheckpointScope::Intent, Some(intent)) => Some(intent),
            (CheckpointScope::House, None) => Some(IntentId::HOUSE),
            _ => None,
        }
    }

    /// How many leaves it covers, when its numbers agree.
    #[must_use]
    pub fn count(&self) -> Option<usize> {
        let agree = self.first_sequence == 1 && self.event_count == self.last_sequence;
        usize::try_from(self.event_count).ok().filter(|count| agree && *count > 0)
    }

    /// Why it does not stand for the beginning of this log, if it does not.
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

/// The leaves of a log: its events' hashes, up to the first that is none.
#[must_use]
pub fn leaves(events: &[Sealed]) -> Vec<Digest> {
    events.iter().map_while(|event| canonical::read(event.event_hash.as_deref()?)).collect()
}

/// Which checkpoints a log contradicts, the earliest first, and why.
#[must_use]
pub fn verify(
    log: IntentId,
    events: &[Sealed],
    checkpoints: &[Checkpoint],
    trusted: &[PublicKey],
) -> Vec<Break> {
    let tree = Tree::new(leaves(events));
    let mut faults = Vec::new();
    let mut ordered: Vec<&Checkpoint> = checkpoints.iter().collect();
    ordered.sort_by_key(|checkpoint| (checkpoint.last_sequence, checkpoint.checkpoint_id));
    for checkpoint in ordered {
        let Some(reason) = checkpoint.fault(log, &tree, trusted) else { continue };
        let last = events.iter().find(|event| event.sequence == checkpoint.last_sequence);
        faults.push(Break {
            sequence: checkpoint.last_sequence,
            event_id: last.map_or(EventId::from(uuid::Uuid::nil()), |event| event.id),
            checkpoint_id: Some(checkpoint.checkpoint_id.to_string()),
            reason: format!("checkpoint {}: {reason}", checkpoint.checkpoint_id),
        });
    }
    faults
}

/// What the house's log tells of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told<'a> {
    /// Its log.
    pub log: IntentId,
    /// Its root.
    pub merkle_root: &'a str,
    /// Its signature.
    pub signature: &'a str,
}

/// What the event of a checkpoint's making tells of it.
#[must_use]
pub fn told(payload: &serde_json::Map<String, Value>) -> Option<(CheckpointId, Told<'_>)> {
    let id = payload.get("checkpoint_id")?.as_str()?.parse().ok()?;
    let log = match payload.get("intent_id")? {
        Value::Null => IntentId::HOUSE,
        intent => intent.as_str()?.parse().ok()?,
    };
    let text = |member: &str| payload.get(member)?.as_str();
    Some((id, Told { log, merkle_root: text("merkle_root")?, signature: text("signature")? }))
}

/// The signature that a checkpoint has since it was anchored, as the event of that tells.
#[must_use]
pub fn told_again(payload: &serde_json::Map<String, Value>) -> Option<(CheckpointId, &str)> {
    let text = |member: &str| payload.get(member)?.as_str();
    Some((text("checkpoint_id")?.parse().ok()?, text("signature")?))
}
