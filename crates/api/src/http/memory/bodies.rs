//! The bodies of agents' memory: what is asked for, and what is shown.

use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, MemoryId, TaskId};
use entente_domain::keys::Dialect;
use entente_domain::memory::{
    Given, MemoryAsk, MemoryChange, MemoryEntry, MemoryPriority, MemorySensitivity, MemoryType,
};
use entente_kernel::memory::{Change, Home, Made, Version};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::http::body::id;
use crate::http::error::Problem;
use crate::http::wire::{GivenTime, NumberOrText, WireTime};

/// What an entry is for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MemoryScope)]
struct ScopeBody {
    /// The task.
    task_id: Option<TaskId>,
    /// The intent.
    intent_id: Option<IntentId>,
}

/// An entry of an agent's memory.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MemoryEntry)]
pub(super) struct EntryBody {
    /// Its id.
    id: MemoryId,
    /// Whose it is.
    #[schema(example = "agent.researcher")]
    agent_id: String,
    /// The namespace, one of its agent's own.
    #[schema(example = "findings")]
    namespace: String,
    /// The key, unique in the namespace.
    #[schema(example = "market/size")]
    key: String,
    /// The value.
    #[schema(value_type = Object)]
    value: Map<String, Value>,
    /// What kind of memory it is.
    memory_type: MemoryType,
    /// Guards writes: send it in `If-Match`.
    version: i64,
    /// What it is for; null when it is for nothing but its agent.
    scope: Option<ScopeBody>,
    /// Its tags.
    tags: Vec<String>,
    /// How long it is kept, as it was given.
    #[schema(example = "P7D")]
    ttl: Option<String>,
    /// Whether it is never evicted.
    pinned: bool,
    /// How much it is wanted.
    priority: MemoryPriority,
    /// How sensitive it is.
    sensitivity: Option<MemorySensitivity>,
    /// Who set it right last, of `semantic` memory.
    curated_by: Option<String>,
    /// When it was made.
    created_at: WireTime,
    /// When it last changed.
    updated_at: WireTime,
    /// Who changed it.
    updated_by: String,
    /// Until when it is kept.
    expires_at: Option<WireTime>,
    /// Since when it is only kept to be read: what it was for is over.
    archived_at: Option<WireTime>,
}

impl EntryBody {
    pub(super) fn new(entry: MemoryEntry, dialect: Dialect) -> Self {
        let time = |at: Timestamp| WireTime::new(at, dialect);
        Self {
            id: entry.id,
            agent_id: entry.agent_id,
            namespace: entry.namespace,
            key: entry.key,
            value: entry.value,
            memory_type: entry.memory_type,
            version: entry.version,
            scope: entry
                .intent_id
                .map(|intent| ScopeBody { task_id: entry.task_id, intent_id: Some(intent) }),
            tags: entry.tags,
            ttl: entry.ttl,
            pinned: entry.pinned,
            priority: entry.priority,
            sensitivity: entry.sensitivity,
            curated_by: entry.curated_by,
            created_at: time(entry.created_at),
            updated_at: time(entry.updated_at),
            updated_by: entry.updated_by,
            expires_at: entry.expires_at.map(time),
            archived_at: entry.archived_at.map(time),
        }
    }
}

/// An entry that had to make room.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EvictedMemory)]
struct EvictedBody {
    /// Its id.
    id: MemoryId,
    /// Its key, in the same namespace.
    key: String,
    /// The version that it had.
    version: i64,
}

/// A new entry.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MadeMemoryEntry)]
pub(super) struct MadeBody {
    #[serde(flatten)]
    entry: EntryBody,
    /// What had to make room for it.
    evicted: Vec<EvictedBody>,
}

impl MadeBody {
    pub(super) fn new(made: Made, dialect: Dialect) -> Self {
        let gone = made.evicted.into_iter();
        Self {
            entry: EntryBody::new(made.entry, dialect),
            evicted: gone.map(|one| EvictedBody { id: one.id, key: one.key, version: one.version }).collect(),
        }
    }
}

/// That an entry is forgotten.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeletedMemory)]
pub(super) struct DeletedBody {
    /// `deleted`.
    #[schema(example = "deleted")]
    status: &'static str,
    /// The entry.
    entry_id: MemoryId,
}

impl DeletedBody {
    pub(super) fn new(entry_id: MemoryId) -> Self {
        Self { status: "deleted", entry_id }
    }
}

/// What an entry is, or was before.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MemoryVersion)]
pub(super) struct VersionBody {
    /// Which version.
    version: i64,
    /// Its value.
    #[schema(value_type = Object)]
    value: Map<String, Value>,
    /// Its tags.
    tags: Vec<String>,
    /// Whether it is never evicted.
    pinned: bool,
    /// How much it is wanted.
    priority: MemoryPriority,
    /// How sensitive it is.
    sensitivity: Option<MemorySensitivity>,
    /// How long it is kept, as it was given.
    ttl: Option<String>,
    /// Until when it is kept.
    expires_at: Option<WireTime>,
    /// Who made it so.
    changed_by: String,
    /// When.
    changed_at: WireTime,
}

impl VersionBody {
    pub(super) fn new(version: Version, dialect: Dialect) -> Self {
        Self {
            version: version.version,
            value: version.value,
            tags: version.tags,
            pinned: version.pinned,
            priority: version.priority,
            sensitivity: version.sensitivity,
            ttl: version.ttl,
            expires_at: version.expires_at.map(|at| WireTime::new(at, dialect)),
            changed_by: version.changed_by,
            changed_at: WireTime::new(version.changed_at, dialect),
        }
    }
}

/// Something that happened to an agent's memory.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MemoryEvent)]
pub(super) struct ChangeShown {
    /// Its number among the agent's, without gaps.
    number: i64,
    /// `created`, `updated`, `deleted`, `evicted`, `expired`.
    #[schema(example = "evicted")]
    what: String,
    /// To which entry.
    entry_id: MemoryId,
    /// Where that was.
    namespace: String,
    /// Under which key.
    key: String,
    /// What kind of memory it was.
    memory_type: MemoryType,
    /// The version that it then had.
    version: i64,
    /// Whose doing it was.
    changed_by: String,
    /// When.
    changed_at: WireTime,
}

impl ChangeShown {
    pub(super) fn new(change: Change, dialect: Dialect) -> Self {
        Self {
            number: change.number,
            what: change.what,
            entry_id: change.entry_id,
            namespace: change.namespace,
            key: change.key,
            memory_type: change.memory_type,
            version: change.version,
            changed_by: change.changed_by,
            changed_at: WireTime::new(change.changed_at, dialect),
        }
    }
}

/// How long an entry is kept: seconds as a number, or in words.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Ttl {
    Seconds(u64),
    Words(String),
}

impl From<Ttl> for String {
    fn from(ttl: Ttl) -> Self {
        match ttl {
            Ttl::Seconds(seconds) => seconds.to_string(),
            Ttl::Words(words) => words,
        }
    }
}

/// What a new entry is for.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = NewMemoryScope)]
struct ScopeAsk {
    /// A task.
    task_id: Option<String>,
    /// An intent; that of the task when nothing is said.
    intent_id: Option<String>,
}

/// A new entry.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewMemoryEntry)]
#[schema(example = json!({ "agent_id": "agent.researcher", "namespace": "findings", "key": "market/size",
    "value": { "billions": 4.2 }, "memory_type": "episodic", "tags": ["market"], "ttl": "P7D" }))]
pub(super) struct AskBody {
    /// Whose it is; the acting agent when nothing is said.
    agent_id: Option<String>,
    /// The namespace; `default` when nothing is said.
    namespace: Option<String>,
    /// The key.
    key: String,
    /// The value.
    #[schema(value_type = Object)]
    value: Map<String, Value>,
    /// What kind of memory it is; `working` when nothing is said.
    memory_type: Option<MemoryType>,
    /// What it is for.
    scope: Option<ScopeAsk>,
    /// Its tags.
    tags: Option<Vec<String>>,
    /// How long it is kept: seconds, or weeks, days, hours, minutes and seconds as ISO 8601 has them.
    #[schema(value_type = Option<NumberOrText>)]
    ttl: Option<Ttl>,
    /// Until when it is kept.
    expires_at: Option<GivenTime>,
    /// Whether it is never evicted.
    pinned: Option<bool>,
    /// How much it is wanted; `normal` when nothing is said.
    priority: Option<MemoryPriority>,
    /// How sensitive it is.
    sensitivity: Option<MemorySensitivity>,
}

impl AskBody {
    /// Whose the entry is to be, what is asked for, and what it is for.
    pub(super) fn ask(self, acting: &str) -> Result<(String, MemoryAsk, Home), Problem> {
        let scope = self.scope.unwrap_or_default();
        let named = |text: Option<String>| text.filter(|text| !text.is_empty());
        let home = Home {
            intent_id: named(scope.intent_id).map(|text| id("intent", &text)).transpose()?,
            task_id: named(scope.task_id).map(|text| id("task", &text)).transpose()?,
        };
        let ask = MemoryAsk {
            namespace: self.namespace.unwrap_or_else(|| "default".to_owned()),
            key: self.key,
            value: self.value,
            memory_type: self.memory_type.unwrap_or(MemoryType::Working),
            tags: self.tags.unwrap_or_default(),
            ttl: self.ttl.map(String::from),
            expires_at: self.expires_at.map(|at| at.0),
            pinned: self.pinned.unwrap_or_default(),
            priority: self.priority.unwrap_or(MemoryPriority::Normal),
            sensitivity: self.sensitivity,
        };
        Ok((self.agent_id.unwrap_or_else(|| acting.to_owned()), ask, home))
    }
}

/// A change of an entry. What is missing stays.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = MemoryChange)]
#[schema(example = json!({ "value": { "billions": 4.3 }, "pinned": true }))]
pub(super) struct ChangeBody {
    /// The whole value.
    #[schema(value_type = Option<Object>)]
    value: Option<Map<String, Value>>,
    /// All tags.
    tags: Option<Vec<String>>,
    /// Whether it is never evicted.
    pinned: Option<bool>,
    /// How much it is wanted.
    priority: Option<MemoryPriority>,
    /// How sensitive it is; null for nothing.
    #[serde(default)]
    #[schema(value_type = Option<MemorySensitivity>)]
    sensitivity: Given<MemorySensitivity>,
    /// How long it is kept, from now; null for ever.
    #[serde(default)]
    #[schema(value_type = Option<NumberOrText>)]
    ttl: Given<Ttl>,
    /// Until when it is kept; null for ever.
    #[serde(default)]
    #[schema(value_type = Option<WireTime>)]
    expires_at: Given<GivenTime>,
}

impl ChangeBody {
    pub(super) fn change(self) -> MemoryChange {
        MemoryChange {
            value: self.value,
            tags: self.tags,
            pinned: self.pinned,
            priority: self.priority,
            sensitivity: self.sensitivity,
            ttl: self.ttl.map(String::from),
            expires_at: self.expires_at.map(|at| at.0),
        }
    }
}
