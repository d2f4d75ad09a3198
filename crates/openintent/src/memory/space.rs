//! Room in an agent's memory: checks that the entry's intent or task is open, and evicts entries to make
//! room.

use entente_domain::ids::{MemoryId, TaskId};
use entente_domain::log::events::Kind;
use entente_domain::openintent::memory::room;
use entente_domain::openintent::memory::room::{TaskRoom, Used};
use entente_domain::openintent::memory::{MemoryEntry, MemoryType};
use entente_domain::openintent::tasks::Task;
use entente_domain::refusal::Code;
use entente_kernel::access::membership::Membership;
use entente_kernel::{Outcome, not_found, refuse};

use super::tx::MemoryTx;
use super::{Evicted, Home, Tried};
use crate::Ctx;
use crate::memory_entries::rows;
use crate::tasks;

/// Requires that the intent is unresolved and, for working memory, that the task is unfinished; returns the
/// task's memory policy.
pub(super) async fn require_open(
    work: &mut MemoryTx,
    membership: Option<&Membership>,
    memory_type: MemoryType,
    home: Home,
) -> Outcome<TaskRoom> {
    if let Some(membership) = membership {
        tasks::require_unresolved(membership)?;
    }
    let Some(task) = home.task_id else { return Ok(TaskRoom::default()) };
    let task = tasks::load_all(&mut work.tx, &[task]).await?.pop().ok_or_else(|| not_found("task"))?;
    let task = task.at(work.now);
    if memory_type != MemoryType::Working {
        return Ok(TaskRoom::default());
    }
    if task.status.is_terminal() {
        let message = format!(
            "The task is {}; it has no working memory any more. Keep it as `episodic` or `semantic`.",
            task.status.as_str()
        );
        return Err(refuse(Code::InvalidTransition, message));
    }
    Ok(room_of(&task))
}

/// Evicts entries to make room for a new one.
pub(super) async fn make_room(
    ctx: &Ctx,
    work: &mut MemoryTx,
    entry: &MemoryEntry,
    policy: &TaskRoom,
) -> Outcome<Tried<Vec<Evicted>>> {
    let used = used(work, entry).await?;
    let bytes = entry.bytes();
    if room::make(1, bytes, &used, policy, &[]).is_ok() {
        return Ok(Tried::Done(Vec::new()));
    }
    let task = task_of(entry);
    let candidates = rows::evictable(&mut work.tx, &entry.agent_id, &entry.namespace, task).await?;
    let go = room::make(1, bytes, &used, policy, &candidates)?;
    let missing = work.missing(go.iter().filter_map(|one| one.intent_id));
    if !missing.is_empty() {
        return Ok(Tried::Needs(missing));
    }
    let ids: Vec<MemoryId> = go.iter().map(|one| one.id).collect();
    let gone = rows::load_all(&mut work.tx, &ids).await?;
    work.remove(ctx, Kind::MemoryEvicted, &gone, entente_domain::identity::principals::SYSTEM).await?;
    let evicted = gone.into_iter().map(|one| Evicted { id: one.id, key: one.key, version: one.version });
    Ok(Tried::Done(evicted.collect()))
}

/// Requires room for an existing entry to grow; evicts nothing, because its agent can choose.
pub(super) async fn require_room(work: &mut MemoryTx, entry: &MemoryEntry, more: i64) -> Outcome<()> {
    if more <= 0 {
        return Ok(());
    }
    let task = match task_of(entry) {
        Some(task) => tasks::load_all(&mut work.tx, &[task]).await?.pop(),
        None => None,
    };
    let used = used(work, entry).await?;
    room::make(0, more, &used, &task.as_ref().map(room_of).unwrap_or_default(), &[])?;
    Ok(())
}

/// Amounts used by an entry's agent: in total, in the namespace and for the task.
async fn used(work: &mut MemoryTx, entry: &MemoryEntry) -> Outcome<Used> {
    let used = rows::used(&mut work.tx, &entry.agent_id, &entry.namespace, task_of(entry)).await?;
    Ok(Used { entries: work.store.entries, bytes: work.store.bytes, ..used })
}

/// Task whose policy applies to an entry: policies concern only working memory.
fn task_of(entry: &MemoryEntry) -> Option<TaskId> {
    entry.task_id.filter(|_| entry.memory_type == MemoryType::Working)
}

fn room_of(task: &Task) -> TaskRoom {
    task.memory_policy.as_ref().map(TaskRoom::of).unwrap_or_default()
}
