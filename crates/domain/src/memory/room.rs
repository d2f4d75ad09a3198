//! Room in an agent's memory: what has to go for what comes. What was least recently used goes first, of what is least
//! wanted; what is pinned or semantic never does, and then what comes is refused.

use serde_json::{Map, Value};

use crate::ids::{IntentId, MemoryId};
use crate::limits::{MEMORY_BYTES, MEMORY_ENTRIES, MEMORY_NAMESPACE_ENTRIES};
use crate::refusal::{Code, Refusal};

/// What an agent has in its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// Entries, archived ones too.
    pub entries: i64,
    /// Their bytes.
    pub bytes: i64,
    /// Entries in force in the namespace.
    pub in_namespace: i64,
    /// Entries in force for the task.
    pub for_task: i64,
    /// Their bytes.
    pub task_bytes: i64,
}

/// What the task says of its working memory (RFC-0012, `memory_policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskRoom {
    /// The most entries.
    pub entries: Option<i64>,
    /// The most bytes.
    pub bytes: Option<i64>,
}

impl TaskRoom {
    /// What a task's policy says. What is no number says nothing.
    #[must_use]
    pub fn of(policy: &Map<String, Value>) -> Self {
        let number = |name: &str| policy.get(name).and_then(Value::as_i64).filter(|number| *number >= 0);
        Self {
            entries: number("max_entries"),
            bytes: number("max_total_size_kb").map(|kb| kb.saturating_mul(1_024)),
        }
    }
}

/// An entry of the same agent that may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: MemoryId,
    /// The intent that it is for, whose log hears of it.
    pub intent_id: Option<IntentId>,
    /// Its bytes.
    pub bytes: i64,
    /// Whether it is in force in the namespace of the new one, and so counts there.
    pub in_namespace: bool,
    /// Whether it is in force for the task that the new one is for, in whichever namespace.
    pub of_task: bool,
}

/// Which of the candidates have to go, in the order given, so that as many `entries` and `bytes` more have room.
///
/// # Errors
/// [`Code::TooLarge`]: without what must stay there is no room.
pub fn make<'a>(
    (entries, bytes): (i64, i64),
    used: &Used,
    task: &TaskRoom,
    candidates: &'a [Candidate],
) -> Result<Vec<&'a Candidate>, Refusal> {
    let within = |limit: Option<i64>, used: i64, more: i64| {
        // What only gets smaller always fits.
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
