//! Envelopes (AEE 1): their contents, and the rules for ingesting them.
//!
//! An envelope is parsed once, strictly, into the members that the gateway needs; the original bytes are
//! stored and delivered (AEE §6.7). Breaking a MUST is a refusal that names every fault at once, breaking a
//! SHOULD a [`Warning`]. Signatures are in `signing.rs`, the pairing of replies and tasks in `pairing.rs`,
//! the age limit in `window.rs`, reserved intents in `purposes.rs`, boundary rules in `policy.rs`, quotas in
//! `quotas.rs`, and connections for unsigned envelopes in `transport.rs`. The server decides which callers
//! may send, and routes envelopes.

pub mod approvals;
pub mod check;
pub mod drafts;
pub mod logs;
pub mod pairing;
pub mod policy;
pub mod purposes;
pub mod quotas;
pub mod receipt;
pub mod redaction;
pub mod schemas;
pub mod signing;
pub mod transport;
pub mod warnings;
pub mod window;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::canonical::{Digest, Unambiguous, hex, sha256, text};
use crate::clock::Timestamp;
use crate::payload::scan;
use crate::refusal::{Code, Refusal};

pub use crate::aee::envelopes::check::check;
use crate::aee::envelopes::signing::{Scope, Sig, is_opaque};
pub use crate::aee::envelopes::warnings::Warning;

/// The version of AEE (§3).
pub const VERSION: &str = "1";

/// Maximum bytes of `id`, `corr` and `reply_to`: longer texts are not identifiers, and each is part of an
/// index.
pub const ID_BYTES: usize = 128;

/// Maximum bytes of an envelope; not more, because an envelope is stored, signed and delivered whole.
pub const ENVELOPE_BYTES: usize = 256 * 1024;

/// The type of an envelope (AEE §4).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum EnvelopeType {
    /// It asks for something to be done.
    Task,
    /// The result of a task.
    Result,
    /// A notification.
    Event,
    /// The failure of a task.
    Error,
    /// The progress of a task or another activity.
    Stream,
}

impl EnvelopeType {
    /// All variants.
    pub const ALL: [Self; 5] = [Self::Task, Self::Result, Self::Event, Self::Error, Self::Stream];

    /// Returns the type's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Result => "result",
            Self::Event => "event",
            Self::Error => "error",
            Self::Stream => "stream",
        }
    }

    /// Parses a type's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }

    /// Whether it ends a task; exactly these types must name the task (AEE §6.3).
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Result | Self::Error)
    }
}

/// The urgency stated by the sender (AEE §3).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// It can wait.
    Low,
    /// The usual urgency.
    Normal,
    /// Before others.
    High,
    /// Immediately.
    Urgent,
}

impl Priority {
    /// All variants, the lowest first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Normal, Self::High, Self::Urgent];

    /// Returns the priority's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
            Self::Urgent => "urgent",
        }
    }

    /// Parses a priority's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }

    /// Returns the next lower priority; the lowest stays.
    #[must_use]
    pub fn lowered(self) -> Self {
        match self {
            Self::Urgent => Self::High,
            Self::High => Self::Normal,
            Self::Normal | Self::Low => Self::Low,
        }
    }

    /// Seconds by which an envelope of this priority is preferred to earlier ones.
    ///
    /// It is a time and not a rank, so that any envelope waiting longer comes first: urgent ones never starve
    /// low ones (AEE §11.6).
    #[must_use]
    pub fn lead_seconds(self) -> u32 {
        match self {
            Self::Low => 0,
            Self::Normal => 30,
            Self::High => 120,
            Self::Urgent => 600,
        }
    }
}

/// The trace that an envelope belongs to, as stated by the sender (AEE §6.9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceNote {
    /// `trace_id`.
    pub trace_id: Option<String>,
    /// `span_id`.
    pub span_id: Option<String>,
}

/// The parts of `requires` that the gateway acts on; everything else is for the recipient (AEE §6.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requires {
    /// Milliseconds that the sender waits.
    pub timeout_ms: Option<u64>,
    /// Whether a person has to approve first.
    pub human_approval: bool,
}

/// An envelope referred to in another one's `payload.references` (AEE §10.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The envelope's id.
    pub id: String,
    /// The expected hash, if given.
    pub hash: Option<String>,
}

/// A valid envelope (AEE §6), as parsed by the gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// `id`.
    pub id: String,
    /// `ts`, as written.
    pub ts: String,
    /// The moment that `ts` names, if it is a valid time.
    pub sent_at: Option<Timestamp>,
    /// `type`.
    pub kind: EnvelopeType,
    /// `from`.
    pub sender: String,
    /// `to`.
    pub recipient: String,
    /// `intent`: the purpose.
    pub purpose: String,
    /// `corr`: the thread.
    pub corr: String,
    /// `reply_to`: the envelope that it answers.
    pub reply_to: Option<String>,
    /// `trace`.
    pub trace: Option<TraceNote>,
    /// `priority`, as stated by the sender.
    pub priority: Priority,
    /// `requires`.
    pub requires: Requires,
    /// The envelopes that the payload refers to.
    pub references: Vec<Reference>,
    /// All members, known and unknown.
    pub members: Map<String, Value>,
    /// The violations of SHOULDs.
    pub warnings: Vec<Warning>,
}

impl Envelope {
    /// Whether the signature covers the ten members of AEE §8 alone, so that `priority` and `requires` are
    /// unsigned.
    #[must_use]
    pub fn is_partly_signed(&self) -> bool {
        Sig::read(&self.members).is_ok_and(|sig| sig.is_some_and(|sig| sig.scope == Scope::Core))
    }

    /// Returns the trusted `priority` and `requires`: if unsigned in a signed envelope, at most the defaults
    /// (AEE §11.6), except that a required human approval remains required.
    #[must_use]
    pub fn believed(&self) -> (Priority, Requires) {
        if self.is_partly_signed() {
            let Requires { human_approval, .. } = self.requires;
            return (self.priority.min(Priority::Normal), Requires { timeout_ms: None, human_approval });
        }
        (self.priority, self.requires)
    }

    /// Returns the payload, an object.
    #[must_use]
    pub fn payload(&self) -> &Value {
        static NOTHING: Value = Value::Null;
        self.members.get("payload").unwrap_or(&NOTHING)
    }

    /// Returns `sig`, if present.
    #[must_use]
    pub fn sig(&self) -> Option<&Value> {
        self.members.get("sig").filter(|sig| !sig.is_null())
    }

    /// Whether it has a signature that counts: an opaque one, which the gateway cannot verify, is none (AEE-W-9.6).
    #[must_use]
    pub fn is_signed(&self) -> bool {
        is_signed(&self.members)
    }

    /// Whether it is addressed to a broadcast channel (AEE §5.2).
    #[must_use]
    pub fn is_broadcast(&self) -> bool {
        is_bus(&self.recipient)
    }
}

/// Whether an envelope with these members claims a signature that counts; see [`Envelope::is_signed`].
#[must_use]
pub fn is_signed(members: &Map<String, Value>) -> bool {
    members.get("sig").is_some_and(|sig| !sig.is_null()) && !is_opaque(members)
}

/// Whether an entity is a broadcast channel (AEE §5.2).
#[must_use]
pub fn is_bus(entity: &str) -> bool {
    entity.strip_prefix("bus.").is_some_and(|name| !name.is_empty())
}

/// Parses an envelope from its bytes: UTF-8, one JSON object, no duplicate member, no NUL, not too deep,
/// valid.
///
/// # Errors
/// [`Code::TooLarge`], [`Code::TooDeep`], [`Code::NulCharacter`], [`Code::InvalidJson`], and the errors of
/// [`check()`].
pub fn read(bytes: &[u8]) -> Result<Envelope, Refusal> {
    check(members(bytes)?)
}

/// Parses the members of an envelope without validating them.
///
/// # Errors
/// As [`read`], except those of [`check()`].
pub fn members(bytes: &[u8]) -> Result<Map<String, Value>, Refusal> {
    if bytes.len() > ENVELOPE_BYTES {
        let message = format!(
            "The envelope has {} bytes, at most {ENVELOPE_BYTES} are taken. Send large data by reference.",
            bytes.len()
        );
        return Err(Refusal::new(Code::TooLarge, message));
    }
    scan(bytes)?;
    let read: Result<Unambiguous, _> = serde_json::from_slice(bytes);
    let Unambiguous(value) = read.map_err(|fault| {
        Refusal::new(
            Code::InvalidJson,
            format!("The envelope is not JSON that every reader takes for the same: {fault}."),
        )
    })?;
    match value {
        Value::Object(members) => Ok(members),
        _ => Err(Refusal::new(Code::InvalidEnvelope, "An envelope is a JSON object (AEE §3).")),
    }
}

/// Returns the hash that references use: `sha256:` and hexadecimal over the canonical form (RFC 8785) with
/// signature.
#[must_use]
pub fn hash(members: &Map<String, Value>) -> String {
    format!("sha256:{}", hex(&digest(members)))
}

fn digest(members: &Map<String, Value>) -> Digest {
    // A map of JSON values always has a JSON form.
    sha256(text(members).unwrap_or_default())
}
