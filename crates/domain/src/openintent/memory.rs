//! Agent memory (RFC-0015): values that an agent stores under a key in one of its own namespaces.
//!
//! Agent, namespace, key, type and scope of an entry are fixed at creation. Eviction is in `memory/room.rs`, parsing
//! of lifetimes in `memory/ttl.rs`, and key ranges for searches in `memory/range.rs`.

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
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$word,)+];

            /// Returns the wire name.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$word => $wire,)+ }
            }

            /// Parses the wire name; `None` if it is unknown.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text)
            }
        }
    };
}

words! {
    /// Type of a memory entry (RFC-0015).
    MemoryType {
        /// Needed for current work: ends with its task or intent.
        Working = "working",
        /// Past events: the least recently used entry is evicted when space runs out.
        Episodic = "episodic",
        /// Knowledge: stays until deleted; any agent with write access to its intent may correct it.
        Semantic = "semantic",
    }
}

words! {
    /// Eviction priority: among evictable entries, lower priorities are evicted first.
    MemoryPriority {
        /// Evicted first.
        Low = "low",
        /// The default.
        Normal = "normal",
        /// Evicted last.
        High = "high",
    }
}

words! {
    /// Sensitivity of an entry; the first three levels are labels for its readers.
    MemorySensitivity {
        /// Anyone may know it.
        Public = "public",
        /// For members of the organisation.
        Internal = "internal",
        /// For those with a need to know.
        Confidential = "confidential",
        /// Visible only to its own agent, regardless of scope.
        Restricted = "restricted",
    }
}

/// An entry of an agent's memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryEntry {
    /// Identifier.
    pub id: MemoryId,
    /// Agent that owns the entry.
    pub agent_id: String,
    /// Namespace, one of the agent's own.
    pub namespace: String,
    /// Key, unique among the active entries of the namespace.
    pub key: String,
    /// Stored value.
    pub value: Map<String, Value>,
    /// Memory type.
    pub memory_type: MemoryType,
    /// Intent that the entry is scoped to.
    pub intent_id: Option<IntentId>,
    /// Task of that intent that the entry is scoped to.
    pub task_id: Option<TaskId>,
    /// Tags.
    pub tags: Vec<String>,
    /// Lifetime as it was given.
    pub ttl: Option<String>,
    /// Whether the entry is exempt from eviction.
    pub pinned: bool,
    /// Eviction priority.
    pub priority: MemoryPriority,
    /// Sensitivity.
    pub sensitivity: Option<MemorySensitivity>,
    /// Agent that last wrote a semantic entry; `None` for other types.
    pub curated_by: Option<String>,
    /// Version, incremented by each change; guards writes (`If-Match`).
    pub version: i64,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Agent that made the last change.
    pub updated_by: String,
    /// Expiry time.
    pub expires_at: Option<Timestamp>,
    /// Time of archival: its task or intent has ended, and the entry is read-only.
    pub archived_at: Option<Timestamp>,
    /// Approximate time of the last use.
    pub used_at: Timestamp,
}

/// Request to create an entry.
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
    /// Lifetime; excludes `expires_at`.
    pub ttl: Option<String>,
    /// Expiry time; excludes `ttl`.
    pub expires_at: Option<Timestamp>,
    /// As [`MemoryEntry::pinned`].
    pub pinned: bool,
    /// As [`MemoryEntry::priority`].
    pub priority: MemoryPriority,
    /// As [`MemoryEntry::sensitivity`].
    pub sensitivity: Option<MemorySensitivity>,
}

/// Change of an optional member: absent, null or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Given<T> {
    /// The member is absent: no change.
    #[default]
    Nothing,
    /// The member is null: remove the value.
    Null,
    /// The new value.
    Value(T),
}

impl<T> Given<T> {
    /// Applies `make` to the value, if there is one.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Given<U> {
        match self {
            Self::Nothing => Given::Nothing,
            Self::Null => Given::Null,
            Self::Value(value) => Given::Value(make(value)),
        }
    }

    /// Returns the new value, if there is one.
    fn value(self) -> Option<T> {
        if let Self::Value(value) = self { Some(value) } else { None }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(member: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(member)?.map_or(Self::Null, Self::Value))
    }
}

/// A change of an entry; members that are `None` stay as they are.
#[derive(Debug, Clone, Default)]
pub struct MemoryChange {
    /// Replacement of the whole value.
    pub value: Option<Map<String, Value>>,
    /// Replacement of all tags.
    pub tags: Option<Vec<String>>,
    /// Whether the entry is exempt from eviction.
    pub pinned: Option<bool>,
    /// Eviction priority.
    pub priority: Option<MemoryPriority>,
    /// Sensitivity.
    pub sensitivity: Given<MemorySensitivity>,
    /// Lifetime, counted from now.
    pub ttl: Given<String>,
    /// Expiry time.
    pub expires_at: Given<Timestamp>,
}

/// Creates an entry of `agent`, optionally scoped to an intent and a task of it.
///
/// # Errors
/// An invalid name, too large a value, too many tags, or an expiry time in the past or too far in the future.
pub fn create(
    ask: MemoryAsk,
    agent: &str,
    intent_id: Option<IntentId>,
    task_id: Option<TaskId>,
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
    /// Returns whether the entry has expired, even if the expiry is not recorded yet.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Returns whether agents with read access to the entry's intent may see it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.intent_id.is_some() && self.sensitivity != Some(MemorySensitivity::Restricted)
    }

    /// Returns the size that counts towards the agent's quota, in bytes.
    #[must_use]
    pub fn bytes(&self) -> i64 {
        let value = serde_json::to_string(&self.value).map_or(0, |text| text.len());
        let tags: usize = self.tags.iter().map(String::len).sum();
        i64::try_from(value + tags + self.key.len() + self.namespace.len()).unwrap_or(i64::MAX)
    }

    /// Requires that a change was made against the current version.
    ///
    /// # Errors
    /// [`Code::VersionConflict`] with the current version.
    pub fn require_version(&self, seen: i64) -> Result<(), Refusal> {
        if seen == self.version { Ok(()) } else { Err(Refusal::version_conflict(self.version)) }
    }

    /// Returns the entry after a change by `by`; `None` if nothing changes.
    ///
    /// # Errors
    /// The entry is archived, or the change is invalid.
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

    /// Returns the event payload: everything but the value.
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

/// Checks and deduplicates the tags.
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

/// Returns the expiry time, with the `ttl` text that it was computed from.
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
