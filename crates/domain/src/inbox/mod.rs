//! Inboxes of agents: entries that reach an agent, and how soon it should look at them. Each entry refers to a message,
//! an envelope, a job, a decision or a task, and has an attention level, which its sender asks for and the owner's
//! settings bound.
//!
//! [`quiet`] has the hours in which nothing wakes, [`digest`] the summary of many entries.

pub mod digest;
pub mod quiet;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use self::quiet::QuietHours;
use crate::aee::envelopes::Priority;
use crate::clock::Timestamp;
use crate::identity::principals::check_name;
use crate::openintent::messages::MessageType;
use crate::refusal::{Code, Refusal};

/// Number of entries that an inbox keeps: a month of a busy agent, or a day of a flooded one. Beyond it the oldest that its
/// readers have seen go first, then the oldest of the lowest level.
pub const ENTRIES: i64 = 10_000;

/// Number of entries to which a full inbox is cut, so that a flooded one is not cut with each entry.
pub const ENTRIES_AFTER_CUT: i64 = 9_500;

/// Seconds that an entry is kept: a month. An entry that a reader has not asked for by then is not news.
pub const KEPT_SECONDS: u32 = 30 * 24 * 3600;

/// Number of readers of one inbox: a session each, and a few tools.
pub const READERS: i64 = 50;

/// Times that one entry rings: somebody who has not come after these will not hear the next one.
pub const RINGS: i32 = 100;

/// Usual seconds after which an entry that nobody has seen rings again.
const REARM_SECONDS: u32 = 300;

/// Shortest time between two rings of an entry in seconds: a model's turn takes longer.
const REARM_LEAST: u32 = 10;

/// Longest time between two rings of an entry in seconds.
const REARM_MOST: u32 = 24 * 3600;

/// Names in one list of senders.
const SENDERS: usize = 100;

/// Longest name of a reader.
const READER_BYTES: usize = 64;

/// How soon an agent should look at an entry.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Attention {
    /// When it looks at everything: shown as a count and the newest of each source.
    Digest,
    /// At its next step.
    Next,
    /// Now.
    Wake,
}

impl Attention {
    /// All levels, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Wake, Self::Next, Self::Digest];

    /// Returns the level's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wake => "wake",
            Self::Next => "next",
            Self::Digest => "digest",
        }
    }

    /// Parses a level's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }

    /// Parses levels separated by commas; `None` if there is none, or one is unknown.
    #[must_use]
    pub fn parse_list(text: &str) -> Option<Vec<Self>> {
        let mut levels: Vec<Self> =
            text.split(',').map(|word| Self::parse(word.trim())).collect::<Option<_>>()?;
        levels.sort_unstable();
        levels.dedup();
        levels.reverse();
        Some(levels)
    }

    /// Returns the level at a moment: in quiet hours nothing wakes, except entries that break through.
    #[must_use]
    pub fn at(self, is_quiet: bool, breaks_through: bool) -> Self {
        if self == Self::Wake && is_quiet && !breaks_through { Self::Next } else { self }
    }
}

/// Kind of the object that an entry refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = InboxEntryKind)]
pub enum EntryKind {
    /// A message of a channel (RFC-0021).
    Message,
    /// An envelope (AEE).
    Mail,
    /// A job of the agent's that ended (ARCP).
    Job,
    /// A question that the agent asked a person (binding moments).
    Decision,
    /// A task or an intent that is assigned to the agent (RFC-0012, RFC-0001), or a loop of messages that it is in.
    Task,
}

impl EntryKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Message, Self::Mail, Self::Job, Self::Decision, Self::Task];

    /// Returns the kind's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Mail => "mail",
            Self::Job => "job",
            Self::Decision => "decision",
            Self::Task => "task",
        }
    }

    /// Parses a kind's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}

/// A ring of an entry that should wake, the first one or a later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// The agent whose inbox it is.
    pub agent: String,
    /// When the inbox was opened.
    pub opened_at: Timestamp,
    /// Place of the entry.
    pub place: i64,
    /// Kind of its object.
    pub kind: EntryKind,
    /// What happened.
    pub what: String,
    /// How often it rang before.
    pub rings: i32,
    /// When it happened.
    pub at: Timestamp,
}

/// Object of an entry, as far as the entry's level depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source<'a> {
    /// A message.
    Message {
        /// Its sender.
        sender: &'a str,
        /// The role that the sender's record names.
        role: Option<&'a str>,
        /// Its type.
        message_type: MessageType,
        /// Whether it is addressed to the agent or its role, not to everybody.
        is_directed: bool,
        /// The level that the sender asks for.
        asked: Option<Attention>,
    },
    /// An envelope.
    Mail {
        /// Its sender.
        sender: &'a str,
        /// The role that the sender's record names.
        role: Option<&'a str>,
        /// Its priority, after the policy.
        priority: Priority,
    },
    /// A job that ended.
    Job,
    /// A decision.
    Decision,
    /// A task.
    Task,
}

impl<'a> Source<'a> {
    /// Returns the word by which settings name it.
    fn word(self) -> &'static str {
        match self {
            Self::Message { is_directed: false, message_type: MessageType::Notify, .. } => {
                MessageType::Broadcast.as_str()
            }
            Self::Message { message_type, .. } => message_type.as_str(),
            Self::Mail { .. } => "mail",
            Self::Job => "job",
            Self::Decision => "decision",
            Self::Task => "task",
        }
    }

    /// Returns the usual level. Somebody waits for the answer to a request, and the agent for a response and a
    /// decision. Messages to everybody flood, so they are collected.
    fn usual(self) -> Attention {
        match self {
            Self::Message { message_type: MessageType::Request, is_directed: true, .. }
            | Self::Message { message_type: MessageType::Response, .. }
            | Self::Mail { priority: Priority::High | Priority::Urgent, .. }
            | Self::Decision => Attention::Wake,
            Self::Message { message_type: MessageType::Broadcast, .. }
            | Self::Message { message_type: MessageType::Notify, is_directed: false, .. }
            | Self::Mail { priority: Priority::Low, .. } => Attention::Digest,
            Self::Message { message_type: MessageType::Request | MessageType::Notify, .. }
            | Self::Mail { priority: Priority::Normal, .. }
            | Self::Job
            | Self::Task => Attention::Next,
        }
    }

    /// Returns the sender with its role, if another agent decided to send this.
    fn sender(self) -> Option<(&'a str, Option<&'a str>)> {
        match self {
            Self::Message { sender, role, .. } | Self::Mail { sender, role, .. } => Some((sender, role)),
            Self::Job | Self::Decision | Self::Task => None,
        }
    }
}

/// Words by which settings name sources.
const WORDS: [&str; 8] = ["request", "response", "notify", "broadcast", "mail", "job", "decision", "task"];

/// An agent's settings for its inbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
#[schema(as = InboxSettings, example = json!({
    "quiet_hours": { "from": "22:00", "to": "07:00", "time_zone": "Europe/Berlin", "except": ["role:on-call"] },
    "attention": { "broadcast": "digest", "job": "wake" }, "may_wake": ["agent.lead", "role:coordinator"],
    "rearm_seconds": 300,
}))]
pub struct Settings {
    /// Hours in which nothing wakes: `wake` is `next` then, and rings at their end.
    pub quiet_hours: Option<QuietHours>,
    /// Levels of entries whose sender asks for none, by `request`, `response`, `notify`, `broadcast` (messages to
    /// everybody), `mail`, `job`, `decision` and `task`.
    pub attention: BTreeMap<String, Attention>,
    /// Agents and roles (`role:…`) whose messages and envelopes may wake; null for all, an empty list for none.
    pub may_wake: Option<Vec<String>>,
    /// Seconds after which an entry that should wake and that no reader has seen rings again: 10 to 86,400; defaults to 300.
    pub rearm_seconds: Option<u32>,
}

/// The level of a new entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// The level.
    pub attention: Attention,
    /// Whether it wakes in quiet hours too.
    pub breaks_through: bool,
}

impl Settings {
    /// Checks settings that an agent sent.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`], with the member at fault.
    pub fn check(&self) -> Result<(), Refusal> {
        let fault = |member: &str, message: String| {
            Err(Refusal::field(Code::InvalidRequest, member, "value", message))
        };
        if let Some(unknown) = self.attention.keys().find(|word| !WORDS.contains(&word.as_str())) {
            let message = format!("`attention` has `{unknown}`; it may have {}.", WORDS.join(", "));
            return fault("attention", message);
        }
        if let Some(seconds) = self.rearm_seconds
            && !(REARM_LEAST..=REARM_MOST).contains(&seconds)
        {
            let message = format!("`rearm_seconds` must be from {REARM_LEAST} to {REARM_MOST}.");
            return fault("rearm_seconds", message);
        }
        check_senders("may_wake", self.may_wake.as_deref().unwrap_or_default())?;
        match &self.quiet_hours {
            Some(hours) => {
                check_senders("quiet_hours.except", &hours.except)?;
                hours.check()
            }
            None => Ok(()),
        }
    }

    /// Returns the level of an entry: as its sender asks, else as these settings say, else the usual one.
    /// Whoever may not wake the agent reaches its next step.
    #[must_use]
    pub fn level(&self, source: Source<'_>) -> Level {
        let asked = match source {
            Source::Message { asked, .. } => asked,
            _ => None,
        };
        let set = || self.attention.get(source.word()).copied();
        let wanted = asked.or_else(set).unwrap_or_else(|| source.usual());
        let may = match (&self.may_wake, source.sender()) {
            (Some(names), Some((sender, role))) => names_sender(names, sender, role),
            _ => true,
        };
        let attention = if may { wanted } else { wanted.min(Attention::Next) };
        let except = self.quiet_hours.as_ref().map_or(&[][..], |hours| &hours.except);
        let through = source.sender().is_some_and(|(sender, role)| names_sender(except, sender, role));
        Level { attention, breaks_through: attention == Attention::Wake && through }
    }

    /// Returns whether the level of an entry depends on its sender's role.
    #[must_use]
    pub fn names_roles(&self) -> bool {
        let except = self.quiet_hours.iter().flat_map(|hours| &hours.except);
        self.may_wake.iter().flatten().chain(except).any(|name| name.starts_with("role:"))
    }

    /// Returns whether these are quiet hours.
    #[must_use]
    pub fn is_quiet(&self, now: Timestamp) -> bool {
        self.quiet_hours.as_ref().is_some_and(|hours| hours.contain(now))
    }

    /// Returns when an entry that should wake rings next, unless it is seen: after the pause, and at the end of the quiet
    /// hours if that is in them.
    #[must_use]
    pub fn rings_at(&self, now: Timestamp, breaks_through: bool) -> Timestamp {
        let seconds = self.rearm_seconds.unwrap_or(REARM_SECONDS);
        let next = crate::clock::plus_seconds(now, seconds);
        let hours = self.quiet_hours.as_ref().filter(|_| !breaks_through);
        match hours {
            // It was held back until now, so it rings when they end, however soon that is.
            Some(hours) if hours.contain(now) => hours.end_after(now),
            Some(hours) if hours.contain(next) => hours.end_after(next),
            _ => next,
        }
    }
}

/// Returns whether a list of agents and roles names a sender.
fn names_sender(names: &[String], sender: &str, role: Option<&str>) -> bool {
    names.iter().any(|name| match name.strip_prefix("role:") {
        Some(named) => role == Some(named),
        None => name == sender,
    })
}

fn check_senders(member: &str, names: &[String]) -> Result<(), Refusal> {
    if names.len() > SENDERS {
        let message = format!("`{member}` has {} names, at most {SENDERS} are allowed.", names.len());
        return Err(Refusal::field(Code::InvalidRequest, member, "too_many", message));
    }
    names.iter().try_for_each(|name| check_name(member, name.strip_prefix("role:").unwrap_or(name)))
}

/// Checks the name of a reader.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn check_reader(name: &str) -> Result<(), Refusal> {
    let lawful = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if (1..=READER_BYTES).contains(&name.len()) && name.bytes().all(lawful) {
        return Ok(());
    }
    let message = format!(
        "`reader` is a name of up to {READER_BYTES} letters, digits, `-`, `_`, `.` and `:`, such as `session-1`."
    );
    Err(Refusal::field(Code::InvalidRequest, "reader", "pattern", message))
}

/// A position in an inbox: the place of an entry, and the number of the last ring. On the wire `place` or `place.ring`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct InboxCursor {
    /// Place of the last entry.
    pub place: i64,
    /// Number of the last ring in the inbox.
    pub ring: i64,
}

impl InboxCursor {
    /// Parses a position; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let whole =
            |text: &str| text.parse::<i64>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
        match text.split_once('.') {
            Some((place, ring)) => Some(Self { place: whole(place)?, ring: whole(ring)? }),
            // All rings so far: whoever names a place only has heard none.
            None => Some(Self { place: whole(text)?, ring: 0 }),
        }
    }
}

impl fmt::Display for InboxCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.place, self.ring)
    }
}

/// Returns the level that a message's metadata asks for: its member `attention`. Other words ask for nothing, because the
/// metadata is the client's own.
#[must_use]
pub fn asked_in(metadata: &str) -> Option<Attention> {
    #[derive(Deserialize)]
    struct Hint {
        attention: Option<serde_json::Value>,
    }
    // Most metadata has no such member, and is not parsed.
    if !metadata.contains("\"attention\"") {
        return None;
    }
    let hint: Hint = serde_json::from_str(metadata).ok()?;
    Attention::parse(hint.attention?.as_str()?)
}
