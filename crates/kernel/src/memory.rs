//! Agents' memory (RFC-0015): keeping, finding, changing and forgetting. Table `memory_entries`, whose rows are in
//! `memory/rows.rs`; lists are `memory/lists.rs`; how much an agent has, and what happened to it, is `memory/store.rs`; what
//! ends by itself is `memory/ends.rs`.
//!
//! An agent's memory is its own. What is for an intent may be seen by whoever can read that, but for what is restricted;
//! for all others it is not there.

mod bench;
mod ends;
mod lists;
mod rows;
mod space;
mod store;

use std::collections::BTreeSet;

use entente_domain::access::Level;
use entente_domain::clock::plus_seconds;
use entente_domain::events::Kind;
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::{IntentId, MemoryId, TaskId};
use entente_domain::keys::Scope;
use entente_domain::limits::{MEMORY_CHANGES, MEMORY_USE_SECONDS};
use entente_domain::memory::{self as law, Given, MemoryAsk, MemoryChange, MemoryEntry, MemoryType};
use entente_domain::refusal::{Code, Refusal};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

pub use ends::expire_due;
pub(crate) use ends::{end_of_intent, end_of_tasks};
pub use lists::{Filter, Page};
pub use store::{Change, Version};

use self::bench::Bench;
use self::lists::Look;
use super::seats::Seat;
use super::{AppError, Caller, Ctx, Outcome, idempotency, not_found, refuse, seats, tasks};

/// What an entry is called when it is not there.
const NOUN: &str = "memory entry";

/// How often something is tried whose locks are only known once they are held.
const TRIES: u32 = 3;

/// What an entry is for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Home {
    /// An intent,
    pub intent_id: Option<IntentId>,
    /// and maybe a task of it.
    pub task_id: Option<TaskId>,
}

/// A new entry, and what had to make room for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Made {
    /// The entry.
    pub entry: MemoryEntry,
    /// What went, without its value.
    pub evicted: Vec<Evicted>,
}

/// An entry that had to make room.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Evicted {
    /// Its id.
    pub id: MemoryId,
    /// Its key, in the same namespace.
    pub key: String,
    /// The version that it had.
    pub version: i64,
}

/// Whether something was done, or needs the locks of more intents.
enum Tried<T> {
    Done(T),
    Needs(Vec<IntentId>),
}

/// Puts something into an agent's memory. When there is no room, what was least recently used in the namespace goes.
///
/// # Errors
/// The caller may not act as the agent; what it is for is not there, not writable or over; the key is taken; there is no
/// room; the ask is not lawful.
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

/// What an entry is for, in full: whoever names a task means its intent too.
async fn at_home(ctx: &Ctx, home: Home) -> Outcome<Home> {
    let Some(task_id) = home.task_id else { return Ok(home) };
    let mut connection = ctx.pool.acquire().await?;
    let task = tasks::load_all(&mut connection, &[task_id]).await?.pop().ok_or_else(|| not_found("task"))?;
    if home.intent_id.is_some_and(|intent| intent != task.intent_id) {
        // The same as if there were no such task: it may be of an intent that the caller knows nothing of.
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
    let mut bench = Bench::open(ctx, &caller.agent, intents, caller.trace, claim).await?;
    let seat = seat_at(&mut bench, ctx, caller, home).await?;
    if let Some(done) = idempotency::find(&mut bench.tx, caller, once).await? {
        return Ok(Tried::Done(done));
    }
    let policy = space::require_open(&mut bench, seat.as_ref(), ask.memory_type, home).await?;
    let now = bench.now;
    let id = MemoryId::mint(now, &*ctx.chance);
    let entry = law::create(ask, &caller.agent, (home.intent_id, home.task_id), id, now)?;
    let there = rows::under(&mut bench.tx, &entry.agent_id, &entry.namespace, &entry.key).await?;
    if let Some(there) = there {
        if !there.is_due(now) {
            return Err(taken(&there).into());
        }
        let missing = bench.missing(there.intent_id);
        if !missing.is_empty() {
            return Ok(Tried::Needs(missing));
        }
        bench.remove(ctx, Kind::MemoryExpired, &[there], entente_domain::principals::HOUSE).await?;
    }
    let evicted = match space::make_room(ctx, &mut bench, &entry, &policy).await? {
        Tried::Done(evicted) => evicted,
        Tried::Needs(missing) => return Ok(Tried::Needs(missing)),
    };
    bench.insert(ctx, &entry).await?;
    bench.save().await?;
    let made = Made { entry, evicted };
    idempotency::keep(&mut bench.tx, caller, once, &made, now).await?;
    bench.commit(ctx).await?;
    Ok(Tried::Done(made))
}

/// Where the caller stands with what an entry is to be for: it must be able to write there.
async fn seat_at(bench: &mut Bench, ctx: &Ctx, caller: &Caller, home: Home) -> Outcome<Option<Seat>> {
    let Some(intent) = home.intent_id else { return Ok(None) };
    let seat = if home.task_id.is_some() {
        tasks::visit(&mut bench.tx, ctx, caller, intent, "task").await?
    } else {
        seats::require(&mut bench.tx, &caller.agent, intent, Level::Read, ctx.now()).await?
    };
    seat.standing.require(Level::Write)?;
    Ok(Some(seat))
}

fn taken(there: &MemoryEntry) -> Refusal {
    // Repeats nothing that a client wrote (contract 3.5).
    let message = format!(
        "There is an entry under this key in this namespace: {}. Change it with PATCH under its version.",
        there.id
    );
    Refusal { current_version: Some(there.version), ..Refusal::new(Code::AlreadyExists, message) }
}

/// Whether the caller is the agent whose memory it is, or may speak for it.
fn is_own(ctx: &Ctx, caller: &Caller, agent: &str) -> bool {
    caller.speaker("agent_id", Some(agent), ctx.settings.strict).is_ok()
}

/// An entry that the caller may see, whether it is its own, and where the caller stands with its intent.
async fn visible(
    conn: &mut PgConnection,
    ctx: &Ctx,
    caller: &Caller,
    id: MemoryId,
) -> Outcome<(MemoryEntry, bool, Option<Seat>)> {
    let entry = rows::load(conn, id, ctx.now()).await?.ok_or_else(|| not_found(NOUN))?;
    let own = is_own(ctx, caller, &entry.agent_id);
    let who = if own { &entry.agent_id } else { &caller.agent };
    let seat = match entry.intent_id {
        Some(intent) => seats::seat(conn, who, intent, ctx.now()).await?,
        None => None,
    };
    let reads = seat.as_ref().is_some_and(|seat| seat.standing.reaches(Level::Read));
    if own || (entry.is_shared() && reads) { Ok((entry, own, seat)) } else { Err(not_found(NOUN)) }
}

/// One entry. That its agent has read it is noted, once a minute at the most.
///
/// # Errors
/// It is not there or not visible.
pub async fn get(ctx: &Ctx, caller: &Caller, id: MemoryId) -> Outcome<MemoryEntry> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    let (entry, own, _) = visible(&mut connection, ctx, caller, id).await?;
    if own && plus_seconds(entry.used_at, MEMORY_USE_SECONDS) <= ctx.now() {
        rows::touch(&mut connection, id, ctx.now()).await?;
    }
    Ok(entry)
}

/// An agent's entries: all of them for itself, for others what it shares on intents that they can read.
///
/// # Errors
/// The scope is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, agent: &str, filter: &Filter) -> Outcome<Vec<MemoryEntry>> {
    caller.require(Scope::IntentsRead)?;
    let look = Look { owner: agent, viewer: &caller.agent, own: is_own(ctx, caller, agent) };
    let mut connection = ctx.pool.acquire().await?;
    lists::of_agent(&mut connection, look, filter, ctx.now()).await
}

/// What agents share on an intent.
///
/// # Errors
/// The intent is not there or not readable.
pub async fn of_intent(
    ctx: &Ctx,
    caller: &Caller,
    intent: IntentId,
    page: Page,
) -> Outcome<Vec<MemoryEntry>> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    seats::require(&mut connection, &caller.agent, intent, Level::Read, ctx.now()).await?;
    lists::of_intent(&mut connection, intent, &caller.agent, page, ctx.now()).await
}

/// Opens the bench for an entry that is there: whose it is and what it is for never changes.
async fn bench_of(ctx: &Ctx, caller: &Caller, id: MemoryId) -> Outcome<Bench> {
    let mut connection = ctx.pool.acquire().await?;
    let (entry, ..) = visible(&mut connection, ctx, caller, id).await?;
    drop(connection);
    let intents = entry.intent_id.into_iter().collect();
    Bench::open(ctx, &entry.agent_id, &intents, caller.trace, None).await
}

/// Changes an entry, if the caller has seen its current version. What is known on an intent may be set right by whoever can
/// write there; all else only by its agent.
///
/// # Errors
/// It is not there, not visible or not the caller's to change; the version is stale; it is archived; there is no room; the
/// change is not lawful.
pub async fn change(
    ctx: &Ctx,
    caller: &Caller,
    id: MemoryId,
    seen: i64,
    change: MemoryChange,
) -> Outcome<MemoryEntry> {
    caller.require(Scope::IntentsWrite)?;
    let mut bench = bench_of(ctx, caller, id).await?;
    let (entry, own, seat) = visible(&mut bench.tx, ctx, caller, id).await?;
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
    if let Some(seat) = seat {
        seat.standing.require(Level::Write)?;
    }
    entry.require_version(seen)?;
    let by = if own { entry.agent_id.clone() } else { caller.agent.clone() };
    let Some(next) = entry.changed(change, &by, bench.now)? else { return Ok(entry) };
    space::require_room(&mut bench, &entry, next.bytes() - entry.bytes()).await?;
    bench.update(ctx, &entry, &next).await?;
    bench.save().await?;
    bench.commit(ctx).await?;
    Ok(next)
}

/// Whether a change says what is known, and nothing of how long and for whom it is kept.
fn sets_right(change: &MemoryChange) -> bool {
    let MemoryChange { value: _, tags: _, pinned, priority, sensitivity, ttl, expires_at } = change;
    pinned.is_none()
        && priority.is_none()
        && matches!((sensitivity, ttl, expires_at), (Given::Nothing, Given::Nothing, Given::Nothing))
}

/// Forgets an entry, if the caller has seen its current version or names none.
///
/// # Errors
/// It is not there, not visible or not the caller's; the version is stale.
pub async fn remove(ctx: &Ctx, caller: &Caller, id: MemoryId, seen: Option<i64>) -> Outcome<()> {
    caller.require(Scope::IntentsWrite)?;
    let mut bench = bench_of(ctx, caller, id).await?;
    let (entry, own, _) = visible(&mut bench.tx, ctx, caller, id).await?;
    if !own {
        return Err(refuse(Code::Forbidden, "Only the agent whose memory this is forgets it."));
    }
    seen.map_or(Ok(()), |seen| entry.require_version(seen))?;
    let by = entry.agent_id.clone();
    bench.remove(ctx, Kind::MemoryDeleted, &[entry], &by).await?;
    bench.save().await?;
    bench.commit(ctx).await
}

/// What an entry is and what it was before, the latest first. For its agent only: what is shared now need not have been.
///
/// # Errors
/// It is not there, not visible or not the caller's.
pub async fn versions(ctx: &Ctx, caller: &Caller, id: MemoryId) -> Outcome<Vec<Version>> {
    caller.require(Scope::IntentsRead)?;
    // One moment of the database: the entry and what it was then.
    let mut tx = ctx.snapshot().await?;
    let (entry, own, _) = visible(&mut tx, ctx, caller, id).await?;
    if !own {
        return Err(refuse(Code::Forbidden, "Only the agent whose memory this is sees what it was before."));
    }
    let before = store::versions(&mut tx, id).await?;
    Ok(std::iter::once(entry.into()).chain(before).collect())
}

/// What happened to an agent's memory after the change of this number, the oldest first: at most the last [`MEMORY_CHANGES`].
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
