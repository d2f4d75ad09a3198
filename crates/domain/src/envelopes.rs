//! Envelopes (AEE 1): what a letter between agents, services and people says, and whether it may be taken in.
//!
//! An envelope is read once, strictly, into what the gateway needs of it; the bytes it came in are what is kept and handed
//! on (AEE §6.7). Breaking a MUST is a refusal that names every fault at once, breaking a SHOULD a [`Warning`]. How one is
//! signed is `signing.rs`, how a reply finds its task `pairing.rs`, when one is too old `window.rs`, which names are whose
//! `purposes.rs`, what may cross a boundary `policy.rs`, how many one sender may send `quotas.rs`, and over which
//! connection unsigned `transport.rs`. Who may send and to whom it goes is the server's.

pub mod approvals;
pub mod check;
pub mod letters;
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

pub use self::check::check;
use self::signing::{Scope, Sig};
pub use self::warnings::Warning;

/// The version of AEE (§3).
pub const VERSION: &str = "1";

/// Bytes of an envelope: four times what a message's payload may have would be too much for a letter that is kept, signed
/// and handed out whole.
pub const ENVELOPE_BYTES: usize = 256 * 1024;

/// What an envelope is (AEE §4).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum EnvelopeType {
    /// It asks for something to be done.
    Task,
    /// What came of a task.
    Result,
    /// It tells something.
    Event,
    /// Why nothing came of a task.
    Error,
    /// How far something is.
    Stream,
}

impl EnvelopeType {
    /// Every type.
    pub const ALL: [Self; 5] = [Self::Task, Self::Result, Self::Event, Self::Error, Self::Stream];

    /// The type as it is written.
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

    /// Reads a type; `None` when there is no such type.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }

    /// Whether it ends a task: exactly those must say which (AEE §6.3).
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Result | Self::Error)
    }
}

/// How pressing its sender says it is (AEE §3).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// It can wait.
    Low,
    /// As usual.
    Normal,
    /// Before others.
    High,
    /// At once.
    Urgent,
}

impl Priority {
    /// Every priority, the least first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Normal, Self::High, Self::Urgent];

    /// The priority as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
            Self::Urgent => "urgent",
        }
    }

    /// Reads a priority; `None` when there is no such priority.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }

    /// The next lower one; the least stays.
    #[must_use]
    pub fn lowered(self) -> Self {
        match self {
            Self::Urgent => Self::High,
            Self::High => Self::Normal,
            Self::Normal | Self::Low => Self::Low,
        }
    }

    /// By how many seconds an envelope of this priority passes those that came before it. Because it is a time and not a
    /// rank, whatever waits longer than that comes first: the urgent never starve the low (AEE §11.6).
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

/// The trace that an envelope belongs to, in its sender's words (AEE §6.9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceNote {
    /// `trace_id`.
    pub trace_id: Option<String>,
    /// `span_id`.
    pub span_id: Option<String>,
}

/// What the gateway acts on of `requires`; everything else in it is for the recipient (AEE §6.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requires {
    /// Milliseconds until the sender no longer waits.
    pub timeout_ms: Option<u64>,
    /// Whether a person has to agree first.
    pub human_approval: bool,
}

/// An envelope that another one speaks of in `payload.references` (AEE §10.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Its id.
    pub id: String,
    /// What it must hash to, if that is said.
    pub hash: Option<String>,
}

/// An envelope that is valid (AEE §6), as the gateway knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// `id`.
    pub id: String,
    /// `ts`, as it is written.
    pub ts: String,
    /// The moment that `ts` names, when it names one.
    pub sent_at: Option<Timestamp>,
    /// `type`.
    pub kind: EnvelopeType,
    /// `from`.
    pub sender: String,
    /// `to`.
    pub recipient: String,
    /// `intent`: what it is about.
    pub purpose: String,
    /// `corr`: the thread that it belongs to.
    pub corr: String,
    /// `reply_to`: what it answers.
    pub reply_to: Option<String>,
    /// `trace`.
    pub trace: Option<TraceNote>,
    /// `priority`, as its sender says.
    pub priority: Priority,
    /// `requires`.
    pub requires: Requires,
    /// The envelopes that its payload refers to.
    pub references: Vec<Reference>,
    /// All of it, known and unknown members.
    pub members: Map<String, Value>,
    /// What is not as it should be.
    pub warnings: Vec<Warning>,
}

impl Envelope {
    /// Whether its signature binds the ten members of AEE §8 alone: `priority` and `requires` are nobody's word then.
    #[must_use]
    pub fn is_partly_signed(&self) -> bool {
        Sig::read(&self.members).is_ok_and(|sig| sig.is_some_and(|sig| sig.scope == Scope::Core))
    }

    /// What is believed of its `priority` and `requires`. What nobody has signed of one that is signed gets no more than an
    /// envelope that says nothing (AEE §11.6), and never less care: a person who has to agree is asked.
    #[must_use]
    pub fn believed(&self) -> (Priority, Requires) {
        if self.is_partly_signed() {
            let Requires { human_approval, .. } = self.requires;
            return (self.priority.min(Priority::Normal), Requires { timeout_ms: None, human_approval });
        }
        (self.priority, self.requires)
    }

    /// Its payload, an object.
    #[must_use]
    pub fn payload(&self) -> &Value {
        static NOTHING: Value = Value::Null;
        self.members.get("payload").unwrap_or(&NOTHING)
    }

    /// `sig`, when there is one.
    #[must_use]
    pub fn sig(&self) -> Option<&Value> {
        self.members.get("sig").filter(|sig| !sig.is_null())
    }

    /// Whether it goes to whoever listens to a channel (AEE §5.2).
    #[must_use]
    pub fn is_broadcast(&self) -> bool {
        is_bus(&self.recipient)
    }
}

/// Whether an entity is a broadcast channel (AEE §5.2).
#[must_use]
pub fn is_bus(entity: &str) -> bool {
    entity.strip_prefix("bus.").is_some_and(|name| !name.is_empty())
}

/// Reads an envelope from the bytes it came in: UTF-8, one JSON object, no member twice, no NUL, not too deep, valid.
///
/// # Errors
/// [`Code::TooLarge`], [`Code::TooDeep`], [`Code::NulCharacter`], [`Code::InvalidJson`], and what [`check()`] finds.
pub fn read(bytes: &[u8]) -> Result<Envelope, Refusal> {
    check(members(bytes)?)
}

/// Reads the members of an envelope without judging them.
///
/// # Errors
/// As [`read`], but for those of [`check()`].
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

/// The hash of an envelope with its signature, as references name it: `sha256:` and hexadecimal over its canonical form
/// (RFC 8785).
#[must_use]
pub fn hash(members: &Map<String, Value>) -> String {
    format!("sha256:{}", hex(&digest(members)))
}

fn digest(members: &Map<String, Value>) -> Digest {
    // A map of JSON values always has a JSON form.
    sha256(text(members).unwrap_or_default())
}
