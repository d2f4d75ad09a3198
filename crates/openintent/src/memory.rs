//! Agents' memory (RFC-0015): creating, finding, changing and deleting entries. The entries' rows and the ends of
//! working memory are in `memory_entries.rs`, lists in `memory/lists.rs`, totals and history in `memory/store.rs`,
//! expiry in `memory/expiry.rs`.
//!
//! An agent's memory is its own. Agents that can read an intent also see the entries for it, unless
//! restricted; to all others an entry counts as missing.

mod expiry;
mod lists;
mod space;
mod store;
mod tx;

use std::collections::BTreeSet;

use entente_domain::access::Level;
use entente_domain::clock::plus_seconds;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, MemoryId, TaskId};
use entente_domain::limits::{MEMORY_CHANGES, MEMORY_USE_SECONDS};
use entente_domain::log::events::Kind;
use entente_domain::openintent::memory as domain;
use entente_domain::openintent::memory::{Given, MemoryAsk, MemoryChange, MemoryEntry, MemoryType};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::membership;
use entente_kernel::access::membership::Membership;
use entente_kernel::{AppError, Caller, Outcome, idempotency, not_found, refuse};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

pub use expiry::expire_due;
pub use lists::{MemoryFilter, MemoryPage};
pub use store::{Change, Version};

use crate::Ctx;
use crate::memory::lists::Look;
use crate::memory::tx::MemoryTx;
use crate::memory_entries::rows;
use crate::tasks;

/// Noun of the refusal for a missing entry.
const NOUN: &str = "memory entry";

/// Attempts of an operation that finds out under its locks which others it needs.
const TRIES: u32 = 3;

/// Intent or task that an entry is for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Home {
    /// Intent of the entry.
    pub intent_id: Option<IntentId>,
    /// Task of that intent.
    pub task_id: Option<TaskId>,
}

/// A new entry and the entries evicted for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Made {
    /// The new entry.
    pub entry: MemoryEntry,
    /// Evicted entries, without their values.
    pub evicted: Vec<Evicted>,
}

/// An evicted entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Evicted {
    /// Its id.
    pub id: MemoryId,
    /// Key in the same namespace.
    pub key: String,
    /// Last version.
    pub version: i64,
}

/// Result of an attempt: done, or the further intents to lock.
enum Tried<T> {
    Done(T),
    Needs(Vec<IntentId>),
}

/// Creates an entry in an agent's memory; without room, evicts others by priority and last use.
///
/// # Errors
/// The caller may not act as the agent; the intent or task does not exist, is not writable or is over; the
/// key is taken; there is no room; the request is invalid.
pub async fn create(
    ctx: &Ctx,
    caller: &Caller,
    agent: &str,
    ask: MemoryAsk,
    home: Home,
    once: Option<&Idempotency>,
) -> Outcome<Made> {
    caller.require(Scope::IntentsWrite)?;
    let caller = caller.acting_as(caller.speaker("agent_id", Some(agent), ctx.settings.strict)?);
    let home = at_home(ctx, home).await?;
    let mut intents: BTreeSet<IntentId> = home.intent_id.into_iter().collect();
    for _ in 0..TRIES {
        match create_under(ctx, &caller, ask.clone(), home, &intents, once).await? {
            Tried::Done(made) => return Ok(made),
            Tried::Needs(more) => intents.extend(more),
        }
    }
    Err(AppError::Overtaken)
}

/// Completes a `Home`: a task implies its intent.
async fn at_home(ctx: &Ctx, home: Home) -> Outcome<Home> {
    let Some(task_id) = home.task_id else { return Ok(home) };
    let mut connection = ctx.pool.acquire().await?;
    let task = tasks::load_all(&mut connection, &[task_id]).await?.pop().ok_or_else(|| not_found("task"))?;
    if home.intent_id.is_some_and(|intent| intent != task.intent_id) {
        // The same refusal as for a missing task, which may belong to an intent hidden from the caller.
        return Err(not_found("task"));
    }
    Ok(Home { intent_id: Some(task.intent_id), ..home })
}

async fn create_under(
    ctx: &Ctx,
    caller: &Caller,
    ask: MemoryAsk,
    home: Home,
    intents: &BTreeSet<IntentId>,
    once: Option<&Idempotency>,
) -> Outcome<Tried<Made>> {
    let claim = once.map(|once| (caller, once));
    let mut work = MemoryTx::open(ctx, &caller.agent, intents, caller.trace, claim).await?;
    let membership = membership_at(&mut work, ctx, caller, home).await?;
    if let Some(done) = idempotency::find(&mut work.tx, caller, once).await? {
        return Ok(Tried::Done(done));
    }
    let policy = space::require_open(&mut work, membership.as_ref(), ask.memory_type, home).await?;
    let now = work.now;
    let id = MemoryId::mint(now, &*ctx.chance);
    let entry = domain::create(ask, &caller.agent, home.intent_id, home.task_id, id, now)?;
    let there = rows::under(&mut work.tx, &entry.agent_id, &entry.namespace, &entry.key).await?;
    if let Some(there) = there {
        if !there.is_due(now) {
            return Err(taken(&there).into());
        }
        let missing = work.missing(there.intent_id);
        if !missing.is_empty() {
            return Ok(Tried::Needs(missing));
        }
        work.remove(ctx, Kind::MemoryExpired, &[there], entente_domain::identity::principals::SYSTEM).await?;
    }
    let evicted = match space::make_room(ctx, &mut work, &entry, &policy).await? {
        Tried::Done(evicted) => evicted,
        Tried::Needs(missing) => return Ok(Tried::Needs(missing)),
    };
    work.insert(ctx, &entry).await?;
    work.save().await?;
    let made = Made { entry, evicted };
    idempotency::keep(&mut work.tx, caller, once, &made, now).await?;
    work.commit(ctx).await?;
    Ok(Tried::Done(made))
}

/// Requires that the caller may write to the entry's intent and returns its access.
async fn membership_at(
    work: &mut MemoryTx,
    ctx: &Ctx,
    caller: &Caller,
    home: Home,
) -> Outcome<Option<Membership>> {
    let Some(intent) = home.intent_id else { return Ok(None) };
    let membership = if home.task_id.is_some() {
        tasks::visit(&mut work.tx, ctx, caller, intent, "task").await?
    } else {
        membership::require(&mut work.tx, &caller.agent, intent, Level::Read, ctx.now()).await?
    };
    membership.access.require(Level::Write)?;
    Ok(Some(membership))
}

fn taken(there: &MemoryEntry) -> Refusal {
    // Repeats no client text (OI-3.5.3).
    let message = format!(
        "There is an entry under this key in this namespace: {}. Change it with PATCH under its version.",
        there.id
    );
    Refusal { current_version: Some(there.version), ..Refusal::new(Code::AlreadyExists, message) }
}

/// Whether the caller is the memory's agent or may act as it.
fn is_own(ctx: &Ctx, caller: &Caller, agent: &str) -> bool {
    caller.speaker("agent_id", Some(agent), ctx.settings.strict).is_ok()
}

/// Loads an entry that the caller may see, whether it is the caller's own, and the access to its intent.
async fn visible(
    conn: &mut PgConnection,
    ctx: &Ctx,
    caller: &Caller,
    id: MemoryId,
) -> Outcome<(MemoryEntry, bool, Option<Membership>)> {
    let entry = rows::load(conn, id, ctx.now()).await?.ok_or_else(|| not_found(NOUN))?;
    let own = is_own(ctx, caller, &entry.agent_id);
    let who = if own { &entry.agent_id } else { &caller.agent };
    let membership = match entry.intent_id {
        Some(intent) => membership::find(conn, who, intent, ctx.now()).await?,
        None => None,
    };
    let reads = membership.as_ref().is_some_and(|membership| membership.access.reaches(Level::Read));
    if own || (entry.is_shared() && reads) { Ok((entry, own, membership)) } else { Err(not_found(NOUN)) }
}

/// Returns one entry and records its use by its agent, at most once a minute.
///
/// # Errors
/// The entry does not exist or is not visible.
pub async fn get(ctx: &Ctx, caller: &Caller, id: MemoryId) -> Outcome<MemoryEntry> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    let (entry, own, _) = visible(&mut connection, ctx, caller, id).await?;
    if own && plus_seconds(entry.used_at, MEMORY_USE_SECONDS) <= ctx.now() {
        rows::touch(&mut connection, id, ctx.now()).await?;
    }
    Ok(entry)
}

/// Lists an agent's entries: all for itself, for others those shared on intents that they can read.
///
/// # Errors
/// The caller lacks the scope.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    agent: &str,
    filter: &MemoryFilter,
) -> Outcome<Vec<MemoryEntry>> {
    caller.require(Scope::IntentsRead)?;
    let look = Look { owner: agent, viewer: &caller.agent, own: is_own(ctx, caller, agent) };
    let mut connection = ctx.pool.acquire().await?;
    lists::of_agent(&mut connection, look, filter, ctx.now()).await
}

/// Lists the entries that agents share on an intent, and the caller's own.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn of_intent(
    ctx: &Ctx,
    caller: &Caller,
    intent: IntentId,
    page: MemoryPage,
) -> Outcome<Vec<MemoryEntry>> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    membership::require(&mut connection, &caller.agent, intent, Level::Read, ctx.now()).await?;
    lists::of_intent(&mut connection, intent, &caller.agent, page, ctx.now()).await
}

/// Begins the transaction for an existing entry; its agent and intent never change.
async fn begin_on(ctx: &Ctx, caller: &Caller, id: MemoryId, once: Option<&Idempotency>) -> Outcome<MemoryTx> {
    let mut connection = ctx.pool.acquire().await?;
    let (entry, ..) = visible(&mut connection, ctx, caller, id).await?;
    drop(connection);
    let intents = entry.intent_id.into_iter().collect();
    let claim = once.map(|once| (caller, once));
    MemoryTx::open(ctx, &entry.agent_id, &intents, caller.trace, claim).await
}

/// Changes an entry, if the caller has seen its current version. Under the idempotency key of [`create`], returns the entry
/// as it was created.
///
/// Semantic entries on an intent may be corrected by any agent that can write to it; all others only by their
/// own agent.
///
/// # Errors
/// The entry does not exist, is not visible or is not the caller's to change; the version is stale; it is
/// archived; there is no room; the change is invalid.
pub async fn change(
    ctx: &Ctx,
    caller: &Caller,
    id: MemoryId,
    seen: i64,
    change: MemoryChange,
    once: Option<&Idempotency>,
) -> Outcome<MemoryEntry> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = begin_on(ctx, caller, id, once).await?;
    let (entry, own, membership) = visible(&mut work.tx, ctx, caller, id).await?;
    if let Some(done) = idempotency::find::<Made>(&mut work.tx, caller, once).await? {
        return Ok(done.entry);
    }
    if !own && entry.memory_type != MemoryType::Semantic {
        return Err(refuse(
            Code::Forbidden,
            "Only the agent whose memory this is changes it, unless it is `semantic`.",
        ));
    }
    if !own && !sets_right(&change) {
        return Err(refuse(
            Code::Forbidden,
            "Only the agent whose memory this is says how long and for whom it is kept; others set its `value` and `tags` right.",
        ));
    }
    if let Some(membership) = membership {
        membership.access.require(Level::Write)?;
    }
    entry.require_version(seen)?;
    let by = if own { entry.agent_id.clone() } else { caller.agent.clone() };
    let changed = entry.changed(change, &by, work.now)?;
    if let Some(next) = &changed {
        space::require_room(&mut work, &entry, next.bytes() - entry.bytes()).await?;
        work.update(ctx, &entry, next).await?;
        work.save().await?;
    }
    let made = Made { entry: changed.unwrap_or(entry), evicted: Vec::new() };
    let now = work.now;
    idempotency::keep(&mut work.tx, caller, once, &made, now).await?;
    work.commit(ctx).await?;
    Ok(made.entry)
}

/// Whether a change only corrects the content, and not the retention or visibility.
fn sets_right(change: &MemoryChange) -> bool {
    let MemoryChange { value: _, tags: _, pinned, priority, sensitivity, ttl, expires_at } = change;
    pinned.is_none()
        && priority.is_none()
        && matches!((sensitivity, ttl, expires_at), (Given::Nothing, Given::Nothing, Given::Nothing))
}

/// Deletes an entry, if the caller has seen its current version or names none.
///
/// # Errors
/// The entry does not exist, is not visible or is not the caller's; the version is stale.
pub async fn remove(ctx: &Ctx, caller: &Caller, id: MemoryId, seen: Option<i64>) -> Outcome<()> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = begin_on(ctx, caller, id, None).await?;
    let (entry, own, _) = visible(&mut work.tx, ctx, caller, id).await?;
    if !own {
        return Err(refuse(Code::Forbidden, "Only the agent whose memory this is forgets it."));
    }
    seen.map_or(Ok(()), |seen| entry.require_version(seen))?;
    let by = entry.agent_id.clone();
    work.remove(ctx, Kind::MemoryDeleted, &[entry], &by).await?;
    work.save().await?;
    work.commit(ctx).await
}

/// Returns the current and earlier versions of an entry, newest first.
///
/// For its agent only: an entry shared now need not have been shared before.
///
/// # Errors
/// The entry does not exist, is not visible or is not the caller's.
pub async fn versions(ctx: &Ctx, caller: &Caller, id: MemoryId) -> Outcome<Vec<Version>> {
    caller.require(Scope::IntentsRead)?;
    // One snapshot: the entry with its history of that moment.
    let mut tx = ctx.snapshot().await?;
    let (entry, own, _) = visible(&mut tx, ctx, caller, id).await?;
    if !own {
        return Err(refuse(Code::Forbidden, "Only the agent whose memory this is sees what it was before."));
    }
    let before = store::versions(&mut tx, id).await?;
    Ok(std::iter::once(entry.into()).chain(before).collect())
}

/// Lists the changes of an agent's memory after a number, oldest first; only the last [`MEMORY_CHANGES`] are
/// kept.
///
/// # Errors
/// The caller may not act as the agent.
pub async fn changes(
    ctx: &Ctx,
    caller: &Caller,
    agent: &str,
    after: i64,
    limit: u32,
) -> Outcome<Vec<Change>> {
    caller.require(Scope::IntentsRead)?;
    let agent = caller.speaker("agent_id", Some(agent), ctx.settings.strict)?;
    let mut connection = ctx.pool.acquire().await?;
    store::changes(&mut connection, &agent, after, i64::from(limit).min(MEMORY_CHANGES)).await
}
