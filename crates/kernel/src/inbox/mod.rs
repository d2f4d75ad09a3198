//! Inboxes of agents: references to all that reaches an agent, with a level of attention and a position per reader.
//!
//! `follower.rs` reads the logs behind their writers and writes entries; `matching.rs` finds whom a record is for;
//! `reading.rs` returns entries with their objects, as far as the agent may still read them; `looking.rs` shows an
//! inbox from outside and changes nothing; `rows.rs` and `readers.rs` have the rows.
//! The levels, quiet hours and digests are decided in `entente_domain::inbox`.

mod contents;
pub mod follower;
pub mod looking;
mod mail;
mod matching;
mod readers;
pub mod reading;
mod rows;
pub mod sweeps;

use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::check_name;
use entente_domain::inbox::Settings;
use sqlx::PgConnection;

use crate::identity::entities::speaks_for;
use crate::log::order;
use crate::wakeups::WakeKey;
use crate::{Caller, Ctx, Outcome, not_found};
pub use readers::Reader;
pub use rows::Entry;

/// An open inbox.
#[derive(Debug, Clone)]
pub struct Inbox {
    /// The agent.
    pub agent: String,
    /// Its settings.
    pub settings: Settings,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// Place of the last entry.
    pub last_place: i64,
    /// Number of the last ring.
    pub last_ring: i64,
    /// Number of stored entries.
    pub entries: i64,
    /// Number of entries evicted because it was full.
    pub evicted: i64,
}

/// Requires that the caller's key may act as the agent; any other inbox counts as missing.
///
/// # Errors
/// The key may not; a database error.
pub async fn require(conn: &mut PgConnection, caller: &Caller, agent: &str) -> Outcome<()> {
    if speaks_for(conn, caller, agent).await? { Ok(()) } else { Err(not_found("inbox")) }
}

/// Opens an agent's inbox, or replaces the settings of an open one.
///
/// # Errors
/// The settings are invalid; the agent is not the caller's.
pub async fn put(ctx: &Ctx, caller: &Caller, agent: &str, settings: &Settings) -> Outcome<Inbox> {
    caller.require(Scope::AgentsWrite)?;
    check_name("agent_id", agent)?;
    settings.check()?;
    let mut tx = ctx.pool.begin().await?;
    require(&mut tx, caller, agent).await?;
    if rows::set(&mut tx, agent, settings).await? {
        let inbox = rows::find(&mut tx, agent).await?;
        tx.commit().await?;
        // Quiet hours may be over for those who wait.
        ctx.feed.wake(WakeKey::AgentInbox(agent.to_owned()));
        return inbox.ok_or_else(|| not_found("inbox"));
    }
    drop(tx);
    open(ctx, caller, agent, settings).await
}

/// Opens the agent's inbox with the usual settings, unless it is open.
///
/// The first read does so. It must not be called within a transaction, because the inbox begins with the first item
/// after this call.
///
/// # Errors
/// The agent is not the caller's.
pub async fn ensure_open(ctx: &Ctx, caller: &Caller, agent: &str) -> Outcome<()> {
    caller.require(Scope::AgentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    require(&mut conn, caller, agent).await?;
    if rows::find(&mut conn, agent).await?.is_some() {
        return Ok(());
    }
    drop(conn);
    check_name("agent_id", agent)?;
    open(ctx, caller, agent, &Settings::default()).await?;
    Ok(())
}

async fn open(ctx: &Ctx, caller: &Caller, agent: &str, settings: &Settings) -> Outcome<Inbox> {
    let ends = order::advance(&mut *ctx.pool.acquire().await?).await?;
    let mut tx = ctx.pool.begin().await?;
    // The follower stops when there is no inbox: it takes the same row, so it sees this one or begins here.
    follower::begin_at(&mut tx, &ends).await?;
    rows::open(&mut tx, agent, caller.principal(), settings, &ends, ctx.now()).await?;
    let inbox = rows::find(&mut tx, agent).await?;
    tx.commit().await?;
    ctx.feed.inboxes().enable();
    inbox.ok_or_else(|| not_found("inbox"))
}

/// Returns an open inbox with its readers.
///
/// # Errors
/// It is not open, or not the caller's.
pub async fn get(ctx: &Ctx, caller: &Caller, agent: &str) -> Outcome<(Inbox, Vec<Reader>)> {
    caller.require(Scope::AgentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    require(&mut conn, caller, agent).await?;
    let inbox = rows::find(&mut conn, agent).await?.ok_or_else(|| not_found("inbox"))?;
    let readers = readers::of_inbox(&mut conn, agent).await?;
    Ok((inbox, readers))
}

/// Closes an inbox: its entries and readers are deleted. The entries' objects stay.
///
/// # Errors
/// It is not open, or not the caller's.
pub async fn close(ctx: &Ctx, caller: &Caller, agent: &str) -> Outcome<()> {
    caller.require(Scope::AgentsWrite)?;
    let mut tx = ctx.pool.begin().await?;
    require(&mut tx, caller, agent).await?;
    if !rows::close(&mut tx, agent).await? {
        return Err(not_found("inbox"));
    }
    readers::close(&mut tx, agent).await?;
    tx.commit().await?;
    ctx.feed.wake(WakeKey::AgentInbox(agent.to_owned()));
    Ok(())
}

/// Returns whether any inbox is open.
///
/// # Errors
/// A database error.
pub async fn is_any_open(ctx: &Ctx) -> Outcome<bool> {
    rows::any(&mut *ctx.pool.acquire().await?).await
}

/// Returns the current versions of the listened inboxes, for the poll that finds missed wake-ups.
///
/// # Errors
/// A database error.
pub(crate) async fn versions(ctx: &Ctx, listened: &[WakeKey]) -> Outcome<Vec<(WakeKey, i64)>> {
    let agents: Vec<&str> = listened
        .iter()
        .filter_map(|key| match key {
            WakeKey::AgentInbox(agent) => Some(agent.as_str()),
            _ => None,
        })
        .collect();
    if agents.is_empty() {
        return Ok(Vec::new());
    }
    let mut conn = ctx.pool.acquire().await?;
    let found = rows::versions(&mut conn, &agents).await?;
    Ok(found.into_iter().map(|(agent, version)| (WakeKey::AgentInbox(agent), version)).collect())
}
