//! Agents' memory (RFC-0015): what an agent wants to know again, under a key in a namespace of its own.
//!
//! Whose it is never changes, nor where it is: its agent, namespace, key, type and scope are given when it is made. What
//! has to go when there is no room is `memory/room.rs`; how long an entry is kept is read by `memory/ttl.rs`; what keys are
//! looked for is a range, `memory/range.rs`.

pub mod range;
pub mod room;
pub mod ttl;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::clock::{Timestamp, plus_seconds, rfc3339};
use crate::ids::{IntentId, MemoryId, TaskId};
use crate::limits::{DURATION_SECONDS, MEMORY_KEY_BYTES, MEMORY_TAG_BYTES, MEMORY_TAGS, MEMORY_VALUE_BYTES};
use crate::refusal::{Code, Refusal};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $word:ident = $wire:tt,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
        pub enum $name { $($(#[$of])* #[serde(rename = $wire)] $word,)+ }

        impl $name {
            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$word,)+];

            /// The word as it is written.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$word => $wire,)+ }
            }

            /// Reads the word; `None` when there is no such word.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text)
            }
        }
    };
}

words! {
    /// What kind of memory an entry is (RFC-0015).
    MemoryType {
        /// What is needed for the work at hand: ends with the task or the intent that it is for.
        Working = "working",
        /// What happened: the least recently used goes when there is no room.
        Episodic = "episodic",
        /// What is known: stays until it is deleted, and whoever may write to its intent may set it right.
        Semantic = "semantic",
    }
}

words! {
    /// How much an entry is wanted: of two that may go the one that is wanted less goes first.
    MemoryPriority {
        /// Goes first.
        Low = "low",
        /// The usual.
        Normal = "normal",
        /// Goes last.
        High = "high",
    }
}

words! {
    /// How sensitive an entry is. The first three are labels for those who read it.
    MemorySensitivity {
        /// Everybody may know it.
        Public = "public",
        /// Those who work here may know it.
        Internal = "internal",
        /// Those who need it may know it.
        Confidential = "confidential",
        /// Nobody but its agent sees it, whatever its scope is.
        Restricted = "restricted",
    }
}

/// An entry of an agent's memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryEntry {
    /// Its id.
    pub id: MemoryId,
    /// Whose it is.
    pub agent_id: String,
    /// The namespace, one of its agent's own.
    pub namespace: String,
    /// The key, unique in the namespace among what is in force.
    pub key: String,
    /// The value.
    pub value: Map<String, Value>,
    /// What kind of memory it is.
    pub memory_type: MemoryType,
    /// The intent that it is for.
    pub intent_id: Option<IntentId>,
    /// The task of that intent that it is for.
    pub task_id: Option<TaskId>,
    /// Its tags.
    pub tags: Vec<String>,
    /// How long it is kept, as it was given.
    pub ttl: Option<String>,
    /// Whether it is never evicted.
    pub pinned: bool,
    /// How much it is wanted.
    pub priority: MemoryPriority,
    /// How sensitive it is.
    pub sensitivity: Option<MemorySensitivity>,
    /// Who set it right last, of what is known.
    pub curated_by: Option<String>,
    /// Rises with each change; guards writes (`If-Match`).
    pub version: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Who changed it.
    pub updated_by: String,
    /// Until when it is kept.
    pub expires_at: Option<Timestamp>,
    /// Since when it is only kept to be read: what it was for is over.
    pub archived_at: Option<Timestamp>,
    /// When it was last used, about.
    pub used_at: Timestamp,
}

/// What is asked for in a new entry.
#[derive(Debug, Clone)]
pub struct MemoryAsk {
    /// As [`MemoryEntry::namespace`].
    pub namespace: String,
    /// As [`MemoryEntry::key`].
    pub key: String,
    /// As [`MemoryEntry::value`].
    pub value: Map<String, Value>,
    /// As [`MemoryEntry::memory_type`].
    pub memory_type: MemoryType,
    /// As [`MemoryEntry::tags`].
    pub tags: Vec<String>,
    /// How long it is kept; or else
    pub ttl: Option<String>,
    /// until when.
    pub expires_at: Option<Timestamp>,
    /// As [`MemoryEntry::pinned`].
    pub pinned: bool,
    /// As [`MemoryEntry::priority`].
    pub priority: MemoryPriority,
    /// As [`MemoryEntry::sensitivity`].
    pub sensitivity: Option<MemorySensitivity>,
}

/// What a change says of something that need not be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Given<T> {
    /// Nothing: it stays.
    #[default]
    Nothing,
    /// That it goes.
    Null,
    /// What it is to be.
    Value(T),
}

impl<T> Given<T> {
    /// The same of what is made of it.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Given<U> {
        match self {
            Self::Nothing => Given::Nothing,
            Self::Null => Given::Null,
            Self::Value(value) => Given::Value(make(value)),
        }
    }

    /// What is to be, if it is to be.
    fn value(self) -> Option<T> {
        if let Self::Value(value) = self { Some(value) } else { None }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(member: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(member)?.map_or(Self::Null, Self::Value))
    }
}

/// A change of an entry. What is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct MemoryChange {
    /// The whole value.
    pub value: Option<Map<String, Value>>,
    /// All tags.
    pub tags: Option<Vec<String>>,
    /// Whether it is never evicted.
    pub pinned: Option<bool>,
    /// How much it is wanted.
    pub priority: Option<MemoryPriority>,
    /// How sensitive it is.
    pub sensitivity: Given<MemorySensitivity>,
    /// How long it is kept, from now.
    pub ttl: Given<String>,
    /// Until when it is kept.
    pub expires_at: Given<Timestamp>,
}

/// Makes an entry of `agent`'s, for an intent and maybe a task of it.
///
/// # Errors
/// A name that is none, too large a value, too many tags, an end that is past or too far.
pub fn create(
    ask: MemoryAsk,
    agent: &str,
    (intent_id, task_id): (Option<IntentId>, Option<TaskId>),
    id: MemoryId,
    now: Timestamp,
) -> Result<MemoryEntry, Refusal> {
    check_word("namespace", &ask.namespace, MEMORY_KEY_BYTES)?;
    check_word("key", &ask.key, MEMORY_KEY_BYTES)?;
    check_value(&ask.value)?;
    let (ttl, expires_at) = kept_until(ask.ttl, ask.expires_at, now)?;
    Ok(MemoryEntry {
        id,
        agent_id: agent.to_owned(),
        namespace: ask.namespace,
        key: ask.key,
        value: ask.value,
        memory_type: ask.memory_type,
        intent_id,
        task_id,
        tags: tags(ask.tags)?,
        ttl,
        pinned: ask.pinned,
        priority: ask.priority,
        sensitivity: ask.sensitivity,
        curated_by: (ask.memory_type == MemoryType::Semantic).then(|| agent.to_owned()),
        version: 1,
        created_at: now,
        updated_at: now,
        updated_by: agent.to_owned(),
        expires_at,
        archived_at: None,
        used_at: now,
    })
}

impl MemoryEntry {
    /// Whether its time is over, written down or not.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Whether others than its agent may see it: those who can read its intent.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.intent_id.is_some() && self.sensitivity != Some(MemorySensitivity::Restricted)
    }

    /// The bytes that it counts for.
    #[must_use]
    pub fn bytes(&self) -> i64 {
        let value = serde_json::to_string(&self.value).map_or(0, |text| text.len());
        let tags: usize = self.tags.iter().map(String::len).sum();
        i64::try_from(value + tags + self.key.len() + self.namespace.len()).unwrap_or(i64::MAX)
    }

    /// Requires that a change is made under the version that is current.
    ///
    /// # Errors
    /// [`Code::VersionConflict`] with the current version.
    pub fn require_version(&self, seen: i64) -> Result<(), Refusal> {
        if seen == self.version { Ok(()) } else { Err(Refusal::version_conflict(self.version)) }
    }

    /// The entry after a change by `by`; `None` when that changes nothing.
    ///
    /// # Errors
    /// It is archived; the change is not lawful.
    pub fn changed(&self, change: MemoryChange, by: &str, now: Timestamp) -> Result<Option<Self>, Refusal> {
        if self.archived_at.is_some() {
            let message =
                "What this entry was for is over: it is archived, and stays as it is until it is deleted.";
            return Err(Refusal::new(Code::InvalidTransition, message));
        }
        let mut next = self.clone();
        if let Some(value) = change.value {
            check_value(&value)?;
            next.value = value;
        }
        if let Some(given) = change.tags {
            next.tags = tags(given)?;
        }
        next.pinned = change.pinned.unwrap_or(self.pinned);
        next.priority = change.priority.unwrap_or(self.priority);
        match change.sensitivity {
            Given::Nothing => {}
            given => next.sensitivity = given.value(),
        }
        if change.ttl != Given::Nothing || change.expires_at != Given::Nothing {
            (next.ttl, next.expires_at) = kept_until(change.ttl.value(), change.expires_at.value(), now)?;
        }
        if next == *self {
            return Ok(None);
        }
        next.version += 1;
        next.updated_at = now;
        next.used_at = now;
        by.clone_into(&mut next.updated_by);
        if self.memory_type == MemoryType::Semantic {
            next.curated_by = Some(by.to_owned());
        }
        Ok(Some(next))
    }

    /// What logs say of it: everything but its value.
    #[must_use]
    pub fn described(&self) -> Value {
        json!({
            "entry_id": self.id, "agent_id": self.agent_id, "namespace": self.namespace, "key": self.key,
            "memory_type": self.memory_type, "task_id": self.task_id, "version": self.version,
        })
    }
}

fn check_word(member: &str, word: &str, limit: usize) -> Result<(), Refusal> {
    let fault = if word.is_empty() {
        "is empty".to_owned()
    } else if word.len() > limit {
        format!("is longer than {limit} bytes")
    } else if word.chars().any(char::is_control) {
        "has a control character".to_owned()
    } else {
        return Ok(());
    };
    let message = format!("`{member}` {fault}. Choose another.");
    Err(Refusal::field(Code::InvalidRequest, member, "invalid_name", message))
}

fn check_value(value: &Map<String, Value>) -> Result<(), Refusal> {
    let bytes = serde_json::to_string(value).map_or(0, |text| text.len());
    if bytes <= MEMORY_VALUE_BYTES {
        return Ok(());
    }
    let message = format!(
        "`value` has {bytes} bytes, at most {MEMORY_VALUE_BYTES} are allowed. Keep large data elsewhere and its address here."
    );
    Err(Refusal::field(Code::TooLarge, "value", "too_large", message))
}

/// The tags, each once.
fn tags(given: Vec<String>) -> Result<Vec<String>, Refusal> {
    let mut tags: Vec<String> = Vec::with_capacity(given.len().min(MEMORY_TAGS));
    for tag in given {
        check_word("tags", &tag, MEMORY_TAG_BYTES)?;
        if tag.contains(',') {
            let message = "`tags` has a tag with a comma, and could not be searched for. Make it two tags.";
            return Err(Refusal::field(Code::InvalidRequest, "tags", "invalid_name", message));
        }
        if !tags.contains(&tag) {
            tags.push(tag);
        }
        if tags.len() > MEMORY_TAGS {
            let message = format!("`tags` has more than {MEMORY_TAGS} tags. Give fewer.");
            return Err(Refusal::field(Code::TooLarge, "tags", "too_long", message));
        }
    }
    Ok(tags)
}

/// Until when an entry is kept, with the words that said so.
fn kept_until(
    ttl: Option<String>,
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(Option<String>, Option<Timestamp>), Refusal> {
    let refuse = |code, kind, message| Err(Refusal::field(code, "expires_at", kind, message));
    match (ttl, expires_at) {
        (Some(_), Some(_)) => {
            let message = "`ttl` and `expires_at` both say how long the entry is kept. Give one of them.";
            refuse(Code::Unprocessable, "twice", message.to_owned())
        }
        (Some(ttl), None) => {
            let end = plus_seconds(now, ttl::seconds(&ttl)?);
            Ok((Some(ttl), Some(end)))
        }
        (None, Some(end)) if end <= now => {
            let message = format!(
                "`expires_at` lies in the past (it is {} now). Give a later one or none.",
                rfc3339(now)
            );
            refuse(Code::AlreadyExpired, "past", message)
        }
        (None, Some(end)) if end > plus_seconds(now, DURATION_SECONDS) => {
            let message = "`expires_at` is more than ten years away. Leave it out for an entry that stays.";
            refuse(Code::Unprocessable, "too_far", message.to_owned())
        }
        (None, end) => Ok((None, end)),
    }
}
