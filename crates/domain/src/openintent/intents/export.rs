//! The export of one intent, and its verification from the file alone (RFC-0019). The server's signature over
//! the file is its [`crate::log::seals::Seal`].

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::canonical::{self, Unambiguous};
use crate::clock::{Timestamp, parse, rfc3339};
use crate::identity::identities::Identity;
use crate::identity::signatures::{PublicKey, Signer};
use crate::log::chains::{Break, verify_end};
use crate::log::checkpoints;
use crate::log::checkpoints::Checkpoint;
use crate::log::deleted::DeletedEvents;
use crate::log::events::{Event, Sealed, Tail};
use crate::log::proofs;
use crate::log::seals::Seal;
use crate::openintent::intents::{Intent, replay};

/// The name and version of the file format.
pub const FORMAT: &str = "entente-export/2";

/// The format of a log whose oldest events retention has deleted: with their hashes and the intent that they made.
/// Verifiers of an earlier release refuse it.
pub const FORMAT_3: &str = "entente-export/3";

/// The previous format, which is still read: without checkpoints, identities and a seal.
pub const FORMAT_1: &str = "entente-export/1";

/// One intent with its whole log; a file with other members is refused, because nothing would vouch for them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// [`FORMAT`], or [`FORMAT_3`] if events were deleted.
    pub format: String,
    /// When it was taken, RFC 3339.
    pub exported_at: String,
    /// The intent at that time.
    pub intent: Intent,
    /// Number of events in its log.
    pub event_count: i64,
    /// The hash of the last event; with the count it reveals whether the end of the log is missing.
    pub head: Option<String>,
    /// Remains of the oldest events, which retention has deleted.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub deleted: Option<DeletedPart>,
    /// Its log, oldest first.
    pub events: Vec<Sealed>,
    /// The checkpoints that were taken of the log.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub checkpoints: Option<Vec<Checkpoint>>,
    /// The identities of the actors whose proofs the server has verified.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub identities: Option<Vec<Identity>>,
    /// The server's signature over the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub seal: Option<Seal>,
}

/// Remains of the deleted events of an intent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeletedPart {
    /// Their hashes, oldest first: the first leaves of the log's Merkle tree.
    pub event_hashes: Vec<String>,
    /// The intent as they made it. The chain does not cover it; the seal does.
    pub intent: Intent,
}

/// Reads a member that is absent in the older format.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(member: D) -> Result<Option<T>, D::Error> {
    T::deserialize(member).map(Some)
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The intent.
    pub intent_id: String,
    /// Number of events in the file.
    pub event_count: usize,
    /// Number of older events that retention has deleted: their hashes are in the file, and checkpoints cover them.
    pub deleted_count: usize,
    /// The hash of the last event: two exports that agree on it agree on everything before it.
    pub head: Option<String>,
    /// Number of checkpoints compared.
    pub checkpoint_count: usize,
    /// The server key that signed the file, as a `did:key`; `None` for the format without a signature.
    pub signed_by: Option<String>,
    /// The faults of the chain, the checkpoints and the proofs.
    pub breaks: Vec<Break>,
    /// The members of the intent that differ from the state derived from its log.
    pub contradictions: Vec<String>,
    /// The parts of the file that the server did not sign.
    pub unsigned: Vec<String>,
}

impl Report {
    /// Whether no fault was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.breaks.is_empty() && self.contradictions.is_empty() && self.unsigned.is_empty()
    }
}

impl Export {
    /// Creates an export of an intent and its events, oldest first.
    #[must_use]
    pub fn new(intent: Intent, events: &[Event], now: Timestamp) -> Self {
        let events: Vec<Sealed> = events.iter().map(Sealed::from).collect();
        let (event_count, head) =
            events.last().map_or((0, None), |last| (last.sequence, last.event_hash.clone()));
        Self {
            format: FORMAT.to_owned(),
            exported_at: rfc3339(now),
            intent,
            event_count,
            head,
            deleted: None,
            events,
            checkpoints: Some(Vec::new()),
            identities: Some(Vec::new()),
            seal: None,
        }
    }

    /// Sets the expected end of the log from its tail.
    #[must_use]
    pub fn ending_at(self, tail: &Tail) -> Self {
        Self { event_count: tail.sequence, head: tail.head.as_ref().map(canonical::show), ..self }
    }

    /// Adds the hashes of the deleted events, and the intent that they made.
    #[must_use]
    pub fn after(self, deleted: &DeletedEvents, intent: Option<Intent>) -> Self {
        let Some(intent) = intent.filter(|_| !deleted.is_empty()) else { return self };
        let event_hashes = deleted.0.iter().map(canonical::show).collect();
        Self { format: FORMAT_3.to_owned(), deleted: Some(DeletedPart { event_hashes, intent }), ..self }
    }

    /// Adds the checkpoints of the log, and the identities of the actors whose proofs were verified.
    #[must_use]
    pub fn vouched_for(self, checkpoints: Vec<Checkpoint>, identities: Vec<Identity>) -> Self {
        Self { checkpoints: Some(checkpoints), identities: Some(identities), ..self }
    }

    /// Adds the server's signature.
    #[must_use]
    pub fn sealed(self, signer: &Signer) -> Self {
        let bare = Self { seal: None, ..self };
        let seal = Seal::over(&members(&bare), signer);
        Self { seal: Some(seal), ..bare }
    }

    /// Verifies the export like a file without trusted keys, see [`Self::verify_file`].
    #[must_use]
    pub fn verify(&self) -> Report {
        self.verdict(&members(self), &[])
    }

    /// Verifies a file.
    ///
    /// Checks the chain and its end; that the log produces the intent; that it matches the roots of its
    /// checkpoints; that the proofs are by the keys of their actors; and that the server signed every member
    /// of the file. `trusted` are the server's keys known from another source; without any, every file
    /// vouches for its own key.
    ///
    /// # Errors
    /// The text is not an export; the message names the fault and its position.
    pub fn verify_file(text: &[u8], trusted: &[PublicKey]) -> Result<Report, String> {
        let Unambiguous(file) = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        // The server writes canonical numbers; the hash of another one would be that of its neighbour.
        if let Some(number) = canonical::numbers::unheld(text) {
            return Err(canonical::inexact(number).message);
        }
        let Value::Object(members) = file else { return Err("it is no JSON object".to_owned()) };
        let export = Self::read(&members)?;
        Ok(export.verdict(&members, trusted))
    }

    /// Parses the members of a file; an error names the member and its position.
    fn read(members: &Map<String, Value>) -> Result<Self, String> {
        let event = |value: &Value| {
            let place = value.get("sequence").unwrap_or(&Value::Null).to_string();
            (place, serde_json::from_value::<Sealed>(value.clone()).err())
        };
        let checkpoint = |value: &Value| {
            let place = value.get("checkpoint_id").unwrap_or(&Value::Null).to_string();
            (place, serde_json::from_value::<Checkpoint>(value.clone()).err())
        };
        first_fault(members, "events", event)?;
        first_fault(members, "checkpoints", checkpoint)?;
        readable::<Intent>(members, "intent")?;
        readable::<DeletedPart>(members, "deleted")?;
        readable::<Vec<Identity>>(members, "identities")?;
        readable::<Seal>(members, "seal")?;
        serde_json::from_value(Value::Object(members.clone())).map_err(|e| e.to_string())
    }

    fn verdict(&self, members: &Map<String, Value>, trusted: &[PublicKey]) -> Report {
        let mut contradictions: Vec<String> = self.form_fault().into_iter().collect();
        let begun = self.deleted.as_ref().map(|deleted| deleted.intent.clone());
        match self.events.iter().try_fold(begun, |intent, sealed| replay(intent, &opened(sealed)?)) {
            Ok(Some(made)) => contradictions.extend(differences(&self.intent, &made)),
            Ok(None) => contradictions.push("the log does not begin with the intent's creation".to_owned()),
            Err(fault) => contradictions.push(fault),
        }
        let hashes = self.deleted.as_ref().map_or(&[][..], |deleted| &deleted.event_hashes);
        let deleted = DeletedEvents::read(hashes).unwrap_or_else(|| {
            contradictions.push("a hash of `deleted.event_hashes` is none".to_owned());
            DeletedEvents::default()
        });
        let mut breaks = deleted.verify_rest(&self.events);
        breaks.extend(verify_end(&self.events, self.event_count, self.head.as_deref()));
        let checkpoints = self.checkpoints.as_deref().unwrap_or_default();
        breaks.extend(checkpoints::verify_rest(self.intent.id, &deleted, &self.events, checkpoints, trusted));
        breaks.extend(proofs::verify(&self.events, self.identities.as_deref().unwrap_or_default()));
        let unsigned = match &self.seal {
            Some(seal) => seal.faults(members, trusted),
            None if trusted.is_empty() => Vec::new(),
            None => vec!["the file has no signature of the server".to_owned()],
        };
        Report {
            intent_id: self.intent.id.to_string(),
            event_count: self.events.len(),
            deleted_count: deleted.len(),
            head: self.events.last().and_then(|event| event.event_hash.clone()),
            checkpoint_count: checkpoints.len(),
            signed_by: self.seal.as_ref().map(|seal| seal.signed_by.clone()),
            breaks,
            contradictions,
            unsigned,
        }
    }

    /// Returns the fault of the format: each version has its members, and no others.
    fn form_fault(&self) -> Option<String> {
        let parts = [self.checkpoints.is_some(), self.identities.is_some(), self.seal.is_some()];
        let deleted = self.deleted.as_ref().map(|deleted| deleted.event_hashes.is_empty());
        match self.format.as_str() {
            FORMAT_3 if parts == [true; 3] && deleted == Some(false) => None,
            FORMAT if parts == [true; 3] && deleted.is_none() => None,
            FORMAT_1 if parts == [false; 3] && deleted.is_none() => None,
            FORMAT_3 | FORMAT | FORMAT_1 => Some(format!(
                "a file of the format `{}` has other members: one was taken away or added",
                self.format
            )),
            other => {
                let known = format!("`{FORMAT_3}`, `{FORMAT}` and `{FORMAT_1}`");
                Some(format!("the format is `{other}`, this verifier reads {known}"))
            }
        }
    }
}

/// Returns the members of a file without its seal.
fn members(export: &Export) -> Map<String, Value> {
    match serde_json::to_value(export) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

/// Returns the first unreadable item of a list, with its position and fault.
fn first_fault(
    members: &Map<String, Value>,
    list: &str,
    read: impl Fn(&Value) -> (String, Option<serde_json::Error>),
) -> Result<(), String> {
    let Some(Value::Array(items)) = members.get(list) else { return Ok(()) };
    for (at, item) in items.iter().enumerate() {
        if let (place, Some(fault)) = read(item) {
            return Err(format!("`{list}[{at}]` ({place}): {fault}"));
        }
    }
    Ok(())
}

fn readable<T: DeserializeOwned>(members: &Map<String, Value>, member: &str) -> Result<(), String> {
    let Some(value) = members.get(member) else { return Ok(()) };
    serde_json::from_value::<T>(value.clone()).map_err(|e| format!("`{member}`: {e}")).map(drop)
}

/// Returns an event of a file as the log has it.
pub(crate) fn opened(sealed: &Sealed) -> Result<Event, String> {
    let created_at = parse(&sealed.created_at)
        .ok_or_else(|| format!("event {}: `created_at` is no time", sealed.sequence))?;
    Ok(Event {
        id: sealed.id,
        intent_id: sealed.intent_id,
        event_type: sealed.event_type.clone(),
        actor: sealed.actor.clone(),
        payload: sealed.payload.clone(),
        created_at,
        sequence: sealed.sequence,
        seq: 0,
        previous_event_hash: None,
        event_hash: canonical::Digest::default(),
        posted: sealed.posted,
        trace_id: None,
        parent_event_id: None,
        proof: None,
        proof_verified: false,
    })
}

/// Whether two values are equal in canonical form, which the log is kept in (1.0 is 1).
fn same(claimed: &impl Serialize, made: &impl Serialize) -> bool {
    matches!((canonical::text(claimed), canonical::text(made)), (Ok(claimed), Ok(made)) if claimed == made)
}

/// Returns the members of a claimed intent that differ from the one that its log makes.
pub(crate) fn differences(claimed: &Intent, made: &Intent) -> Vec<String> {
    let pairs = [
        ("id", claimed.id == made.id),
        ("title", claimed.title == made.title),
        ("description", claimed.description == made.description),
        ("created_by", claimed.created_by == made.created_by),
        ("parent_id", claimed.parent_id == made.parent_id),
        ("depends_on", claimed.depends_on == made.depends_on),
        ("constraints", same(&claimed.constraints, &made.constraints)),
        ("governance_policy", same(&claimed.governance_policy, &made.governance_policy)),
        ("state", same(&claimed.state, &made.state)),
        ("status", claimed.status == made.status),
        ("confidence", claimed.confidence.total_cmp(&made.confidence).is_eq()),
        ("version", claimed.version == made.version),
        ("created_at", claimed.created_at == made.created_at),
        ("updated_at", claimed.updated_at == made.updated_at),
    ];
    pairs
        .into_iter()
        .filter(|(_, same)| !same)
        .map(|(member, _)| format!("the intent's `{member}` is not what its log makes of it"))
        .collect()
}
