//! Request and response bodies of agents' memory.

use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{IntentId, MemoryId, TaskId};
use entente_domain::openintent::memory::{
    Given, MemoryAsk, MemoryChange, MemoryEntry, MemoryPriority, MemorySensitivity, MemoryType,
};
use entente_http::body::id;
use entente_http::error::Problem;
use entente_http::wire::{GivenTime, NumberOrText, WireTime};
use entente_openintent::memory::{Change, Home, Made, Version};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The task or intent that a memory entry belongs to.
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
    /// Entry id.
    id: MemoryId,
    /// Agent that owns the entry.
    #[schema(example = "agent.researcher")]
    agent_id: String,
    /// Namespace, private to its agent.
    #[schema(example = "findings")]
    namespace: String,
    /// Key, unique in the namespace.
    #[schema(example = "market/size")]
    key: String,
    /// The value.
    #[schema(value_type = Object)]
    value: Map<String, Value>,
    /// Kind of memory.
    memory_type: MemoryType,
    /// Version that guards writes: send it in `If-Match`.
    version: i64,
    /// The task or intent that the entry belongs to; null if it belongs to its agent alone.
    scope: Option<ScopeBody>,
    /// The entry's tags.
    tags: Vec<String>,
    /// Lifetime, as the client wrote it.
    #[schema(example = "P7D")]
    ttl: Option<String>,
    /// Whether the entry is exempt from eviction.
    pinned: bool,
    /// Priority against eviction.
    priority: MemoryPriority,
    /// Sensitivity of the entry.
    sensitivity: Option<MemorySensitivity>,
    /// Agent that last corrected the entry, for `semantic` memory.
    curated_by: Option<String>,
    /// When the entry was created.
    created_at: WireTime,
    /// When the entry last changed.
    updated_at: WireTime,
    /// Agent that made the last change.
    updated_by: String,
    /// When the entry expires.
    expires_at: Option<WireTime>,
    /// When the entry was archived (became read-only), because its task or intent ended.
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

/// An entry that was evicted for a new one.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EvictedMemory)]
struct EvictedBody {
    /// Entry id.
    id: MemoryId,
    /// Key, in the same namespace.
    key: String,
    /// Version at the time of the eviction.
    version: i64,
}

/// A newly created entry.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MadeMemoryEntry)]
pub(super) struct MadeBody {
    #[serde(flatten)]
    entry: EntryBody,
    /// The entries that were evicted for it.
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

/// The response to a deletion.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeletedMemory)]
pub(super) struct DeletedBody {
    /// Always `deleted`.
    #[schema(example = "deleted")]
    status: &'static str,
    /// Id of the deleted entry.
    entry_id: MemoryId,
}

impl DeletedBody {
    pub(super) fn new(entry_id: MemoryId) -> Self {
        Self { status: "deleted", entry_id }
    }
}

/// The current or an earlier version of an entry.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MemoryVersion)]
pub(super) struct VersionBody {
    /// Version number.
    version: i64,
    /// Value in this version.
    #[schema(value_type = Object)]
    value: Map<String, Value>,
    /// Tags in this version.
    tags: Vec<String>,
    /// Whether the entry was exempt from eviction.
    pinned: bool,
    /// Priority against eviction.
    priority: MemoryPriority,
    /// Sensitivity of the entry.
    sensitivity: Option<MemorySensitivity>,
    /// Lifetime, as the client wrote it.
    ttl: Option<String>,
    /// When the entry expires.
    expires_at: Option<WireTime>,
    /// Agent that wrote this version.
    changed_by: String,
    /// When this version was written.
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

/// A change to an agent's memory.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MemoryEvent)]
pub(super) struct ChangeShown {
    /// Number of the change, gapless per agent.
    number: i64,
    /// `created`, `updated`, `deleted`, `evicted`, `expired`.
    #[schema(example = "evicted")]
    what: String,
    /// Id of the changed entry.
    entry_id: MemoryId,
    /// Namespace of the entry.
    namespace: String,
    /// Key of the entry.
    key: String,
    /// Kind of memory.
    memory_type: MemoryType,
    /// Version of the entry at that time.
    version: i64,
    /// Agent that made the change.
    changed_by: String,
    /// When the change was made.
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

/// An entry's lifetime: a number of seconds, or an ISO 8601 duration.
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

/// The task or intent that a new entry belongs to.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = NewMemoryScope)]
struct ScopeAsk {
    /// The task.
    task_id: Option<String>,
    /// The intent; defaults to that of the task.
    intent_id: Option<String>,
}

/// An entry to create.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewMemoryEntry)]
#[schema(example = json!({ "agent_id": "agent.researcher", "namespace": "findings", "key": "market/size",
    "value": { "billions": 4.2 }, "memory_type": "episodic", "tags": ["market"], "ttl": "P7D" }))]
pub(super) struct AskBody {
    /// Agent that owns the entry; defaults to the acting agent.
    agent_id: Option<String>,
    /// Namespace; defaults to `default`.
    namespace: Option<String>,
    /// Key, unique in the namespace.
    key: String,
    /// The value.
    #[schema(value_type = Object)]
    value: Map<String, Value>,
    /// Kind of memory; defaults to `working`.
    memory_type: Option<MemoryType>,
    /// The task or intent that the entry belongs to.
    scope: Option<ScopeAsk>,
    /// The entry's tags.
    tags: Option<Vec<String>>,
    /// Lifetime: a number of seconds, or an ISO 8601 duration of weeks, days, hours, minutes and seconds.
    #[schema(value_type = Option<NumberOrText>)]
    ttl: Option<Ttl>,
    /// When the entry expires.
    expires_at: Option<GivenTime>,
    /// Whether the entry is exempt from eviction; defaults to false.
    pinned: Option<bool>,
    /// Priority against eviction; defaults to `normal`.
    priority: Option<MemoryPriority>,
    /// Sensitivity of the entry.
    sensitivity: Option<MemorySensitivity>,
}

impl AskBody {
    /// Returns the owning agent, the entry to create, and the task or intent that it belongs to.
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

/// A change of an entry; missing fields stay unchanged.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = MemoryChange)]
#[schema(example = json!({ "value": { "billions": 4.3 }, "pinned": true }))]
pub(super) struct ChangeBody {
    /// The whole new value.
    #[schema(value_type = Option<Object>)]
    value: Option<Map<String, Value>>,
    /// The complete new list of tags.
    tags: Option<Vec<String>>,
    /// Whether the entry is exempt from eviction.
    pinned: Option<bool>,
    /// Priority against eviction.
    priority: Option<MemoryPriority>,
    /// Sensitivity of the entry; null clears it.
    #[serde(default)]
    #[schema(value_type = Option<MemorySensitivity>)]
    sensitivity: Given<MemorySensitivity>,
    /// Lifetime from now on; null keeps the entry forever.
    #[serde(default)]
    #[schema(value_type = Option<NumberOrText>)]
    ttl: Given<Ttl>,
    /// When the entry expires; null keeps it forever.
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
