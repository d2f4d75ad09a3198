//! Bundles: an intent in one sealed file, with its log, messages, jobs, money, decisions and children
//! (docs/wire/bundle.md).
//!
//! A bundle is lines of canonical JSON (RFC 8785). Each line but the last is `{"body":…,"hash":…,"kind":…}`; its hash
//! covers the line and the hash of the line before, so that every message is under one chain, also one that no log
//! records. The last line is an attestation ([`crate::identity::attestations`]) of the digest of all lines before it.
//! `writing.rs` writes the lines, `reading.rs` verifies them one by one, `log.rs` verifies the intent's log among them,
//! `past.rs` makes envelopes of them.

mod log;
pub mod past;
mod reading;
mod writing;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::canonical::{self, Unambiguous};
use crate::openintent::intents::Intent;

pub use self::reading::{Reader, Report, of_export, verify};
pub use self::writing::{Writer, put_json};

/// Name and version of the format.
pub const FORMAT: &str = "entente-bundle/1";

/// Type of the predicate of a bundle's attestation (in-toto `predicateType`).
pub const PREDICATE: &str = "urn:entente:bundle:1";

/// Bytes of the longest line that is read: more than the largest message or result that a server stores.
pub const LINE_BYTES: usize = 64 * 1024 * 1024;

/// Kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// The first line: the intent, the end of its log, and the kinds of lines that are left out.
    Bundle,
    /// Hashes of the oldest events, which retention has deleted.
    Deleted,
    /// The keys of an actor whose proofs the server has verified.
    Identity,
    /// An event of the intent's log.
    Event,
    /// A checkpoint of the log.
    Checkpoint,
    /// A channel; its messages follow.
    Channel,
    /// A message.
    Message,
    /// A job of the intent; its events follow.
    Job,
    /// An event of a job, or its end.
    JobEvent,
    /// A cost that was reported for the intent (RFC-0009).
    Cost,
    /// The charge of a cost, whichever way it was reported.
    Charge,
    /// A budget of the intent.
    Budget,
    /// A binding moment, with the receipt of its answer.
    Decision,
    /// An intent below this one.
    Child,
}

impl Section {
    /// All kinds, in the order of the file.
    pub const ALL: [Self; 14] = [
        Self::Bundle,
        Self::Deleted,
        Self::Identity,
        Self::Event,
        Self::Checkpoint,
        Self::Channel,
        Self::Message,
        Self::Job,
        Self::JobEvent,
        Self::Cost,
        Self::Charge,
        Self::Budget,
        Self::Decision,
        Self::Child,
    ];

    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bundle => "bundle",
            Self::Deleted => "deleted",
            Self::Identity => "identity",
            Self::Event => "event",
            Self::Checkpoint => "checkpoint",
            Self::Channel => "channel",
            Self::Message => "message",
            Self::Job => "job",
            Self::JobEvent => "job_event",
            Self::Cost => "cost",
            Self::Charge => "charge",
            Self::Budget => "budget",
            Self::Decision => "decision",
            Self::Child => "child",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|section| section.as_str() == text)
    }

    /// Returns the section that its lines stand among: messages follow their channel, events their job.
    fn group(self) -> Self {
        match self {
            Self::Message => Self::Channel,
            Self::JobEvent => Self::Job,
            own => own,
        }
    }
}

/// The first line of a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// When it was taken, RFC 3339.
    pub exported_at: String,
    /// The agent that took it; the bundle has the parts that this agent may read.
    pub exported_by: String,
    /// The intent at that time.
    pub intent: Intent,
    /// Number of events ever in its log.
    pub event_count: i64,
    /// The hash of the last event.
    #[serde(deserialize_with = "Option::deserialize")]
    pub head: Option<String>,
    /// Remains of the oldest events, if retention has deleted some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<DeletedPart>,
    /// Kinds that the scopes of the key did not allow.
    pub left_out: Vec<String>,
}

/// Remains of the deleted events of an intent, besides their hashes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeletedPart {
    /// Their number.
    pub event_count: usize,
    /// The intent as they made it. The chain does not cover it; the seal does.
    pub intent: Intent,
}

/// A line of a bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its kind.
    pub section: Section,
    /// Its content.
    pub body: Map<String, Value>,
    /// Its hash, as it says.
    pub hash: String,
}

impl Line {
    /// Parses a line of a bundle; `None` if it is none, such as the last one, which is the seal.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let Unambiguous(Value::Object(mut members)) = serde_json::from_slice(text).ok()? else { return None };
        let (body, hash, kind) = (members.remove("body")?, members.remove("hash")?, members.remove("kind")?);
        let (Value::Object(body), Value::String(hash), Value::String(kind)) = (body, hash, kind) else {
            return None;
        };
        members.is_empty().then_some(Self { section: Section::parse(&kind)?, body, hash })
    }
}

/// Returns the hash of a line: over the hash of the line before it, 32 zero bytes before the first, and its text.
fn chained(previous: &canonical::Digest, bare: &str) -> canonical::Digest {
    let mut text = previous.to_vec();
    text.extend_from_slice(bare.as_bytes());
    canonical::sha256(text)
}

/// Returns the text of a line without its hash, as it is hashed.
fn bare(section: Section, body: &str) -> String {
    format!(r#"{{"body":{body},"kind":"{}"}}"#, section.as_str())
}
