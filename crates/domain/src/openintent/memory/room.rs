//! Eviction from an agent's memory: chooses the entries that make room for a new one. Lower priorities go first, and
//! among these the least recently used. Pinned and semantic entries are never evicted; if nothing else can go, the
//! new entry is refused.

use serde_json::{Map, Value};

use crate::ids::{IntentId, MemoryId};
use crate::limits::{MEMORY_BYTES, MEMORY_ENTRIES, MEMORY_NAMESPACE_ENTRIES};
use crate::refusal::{Code, Refusal};

/// Current usage of an agent's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// Number of entries, including archived ones.
    pub entries: i64,
    /// Their size in bytes.
    pub bytes: i64,
    /// Number of active entries in the namespace.
    pub in_namespace: i64,
    /// Number of active entries for the task.
    pub for_task: i64,
    /// Their size in bytes.
    pub task_bytes: i64,
}

/// Limits of a task's working memory (RFC-0012, `memory_policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskRoom {
    /// Maximum number of entries.
    pub entries: Option<i64>,
    /// Maximum size in bytes.
    pub bytes: Option<i64>,
}

impl TaskRoom {
    /// Reads the limits from a task's policy; values that are not numbers are ignored.
    #[must_use]
    pub fn of(policy: &Map<String, Value>) -> Self {
        let number = |name: &str| policy.get(name).and_then(Value::as_i64).filter(|number| *number >= 0);
        Self {
            entries: number("max_entries"),
            bytes: number("max_total_size_kb").map(|kb| kb.saturating_mul(1_024)),
        }
    }
}

/// An evictable entry of the same agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Identifier.
    pub id: MemoryId,
    /// Intent that the entry is scoped to; the eviction is recorded in its log.
    pub intent_id: Option<IntentId>,
    /// Size in bytes.
    pub bytes: i64,
    /// Whether the entry is active in the new entry's namespace, and so counts towards its limit.
    pub in_namespace: bool,
    /// Whether the entry is active for the new entry's task, in any namespace.
    pub of_task: bool,
}

/// Returns the candidates to evict, in the given order, to make room for so many more `entries` and `bytes`.
///
/// # Errors
/// [`Code::TooLarge`] if evicting all candidates does not make enough room.
pub fn make<'a>(
    entries: i64,
    bytes: i64,
    used: &Used,
    task: &TaskRoom,
    candidates: &'a [Candidate],
) -> Result<Vec<&'a Candidate>, Refusal> {
    let within = |limit: Option<i64>, used: i64, more: i64| {
        // A change that does not grow the memory always fits.
        if more <= 0 { 0 } else { limit.map_or(0, |limit| used.saturating_add(more).saturating_sub(limit)) }
    };
    let mut namespace = within(Some(MEMORY_NAMESPACE_ENTRIES), used.in_namespace, entries);
    let mut all = within(Some(MEMORY_ENTRIES), used.entries, entries);
    let mut size = within(Some(MEMORY_BYTES), used.bytes, bytes);
    let mut for_task = within(task.entries, used.for_task, entries);
    let mut task_size = within(task.bytes, used.task_bytes, bytes);
    let mut gone = Vec::new();
    for one in candidates {
        let helps = all > 0
            || size > 0
            || (namespace > 0 && one.in_namespace)
            || ((for_task > 0 || task_size > 0) && one.of_task);
        if !helps {
            continue;
        }
        all -= 1;
        size -= one.bytes;
        namespace -= i64::from(one.in_namespace);
        if one.of_task {
            for_task -= 1;
            task_size -= one.bytes;
        }
        gone.push(one);
    }
    let full = |member: &str, what: String| {
        let message = format!(
            "{what}, and too little of that may be evicted. Delete entries, unpin some, or give them a `ttl`."
        );
        Err(Refusal::field(Code::TooLarge, member, "full", message))
    };
    if namespace > 0 {
        return full(
            "namespace",
            format!("This namespace has {MEMORY_NAMESPACE_ENTRIES} entries, the most of an agent's"),
        );
    }
    if all > 0 {
        return full(
            "agent_id",
            format!("The agent's memory has {MEMORY_ENTRIES} entries, the most that it may"),
        );
    }
    if size > 0 {
        return full("value", format!("The agent's memory would have more than {MEMORY_BYTES} bytes"));
    }
    if for_task > 0 || task_size > 0 {
        return full(
            "scope",
            "The memory of this task is as large as its `memory_policy` lets it be".to_owned(),
        );
    }
    Ok(gone)
}
