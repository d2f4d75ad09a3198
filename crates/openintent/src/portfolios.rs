//! Portfolios (RFC-0004): creating them, their members, and totals over these. Tables `portfolios` and
//! `portfolio_members` (`portfolios/rows.rs`).
//!
//! A portfolio belongs to its creator. Nobody else sees it, except keys with the scope `admin`; to all others it does
//! not exist. It grants no access to intents: a caller sees, and gets totals of, only those intents that it may read.
//! One portfolio may therefore look different to two callers. Changes of portfolios are recorded in the system log,
//! under its lock.

mod rows;

use std::fmt;

use entente_domain::access::Level;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, MembershipId, PortfolioId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::intents::Intent;
use entente_domain::openintent::portfolios as domain;
use entente_domain::openintent::portfolios::{
    Aggregate, Membership, MembershipRole, Portfolio, PortfolioAsk, PortfolioStatus,
};
use entente_kernel::access::membership;
use entente_kernel::intents;
use entente_kernel::{Caller, IntentTx, Outcome, not_found};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::Ctx;
use crate::suspensions;

/// Creates a portfolio without any intents.
///
/// # Errors
/// Fails if the request is invalid.
pub async fn create(
    ctx: &Ctx,
    caller: &Caller,
    created_by: &str,
    ask: PortfolioAsk,
    once: Option<&Idempotency>,
) -> Outcome<Portfolio> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let now = work.now();
    let portfolio = domain::create(ask, created_by, PortfolioId::mint(now, &*ctx.chance), now)?;
    rows::insert(work.conn(), &portfolio).await?;
    work.record(event_draft(Kind::PortfolioCreated, &portfolio, created_by, json!({})));
    work.finish(portfolio).await
}

/// Builds the log event of a portfolio; its `agent_id` names the creator, so that the creator is notified.
fn event_draft(kind: Kind, portfolio: &Portfolio, actor: &str, more: Value) -> Draft {
    let mut payload = json!({ "portfolio_id": portfolio.id, "agent_id": portfolio.created_by });
    if let (Some(members), Value::Object(more)) = (payload.as_object_mut(), more) {
        members.extend(more);
    }
    Draft::of(kind, actor, payload)
}

/// Filter for portfolios.
#[derive(Debug, Clone)]
pub struct PortfolioFilter {
    /// Only portfolios of this creator.
    pub created_by: Option<String>,
    /// Only portfolios older than this one: the cursor.
    pub before: Option<PortfolioId>,
    /// Maximum number of results.
    pub limit: u32,
}

/// A portfolio with the totals of its intents.
#[derive(Debug)]
pub struct Summed {
    /// The portfolio.
    pub portfolio: Portfolio,
    /// Totals over those of its intents that the caller can read.
    pub sums: Aggregate,
}

/// A page of portfolios, and the cursor of the next page if there is one.
#[derive(Debug)]
pub struct PortfolioPage {
    /// The portfolios, newest first.
    pub portfolios: Vec<Summed>,
    /// The last of them, if others follow.
    pub next: Option<PortfolioId>,
}

/// Lists the portfolios that the caller can see.
///
/// # Errors
/// Fails if the scope is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &PortfolioFilter) -> Outcome<PortfolioPage> {
    caller.require(Scope::IntentsRead)?;
    let asked = filter.created_by.as_deref();
    let found = match (caller.has(Scope::Admin), asked) {
        (false, Some(other)) if other != caller.agent => Vec::new(),
        (true, None) => rows::all(&ctx.pool, filter).await?,
        (false, _) => rows::of_creator(&ctx.pool, &caller.agent, filter).await?,
        (true, Some(creator)) => rows::of_creator(&ctx.pool, creator, filter).await?,
    };
    summed(ctx, caller, found, filter.limit).await
}

/// Lists the portfolios that contain an intent and that the caller can see.
///
/// # Errors
/// Fails if the intent does not exist or is not readable.
pub async fn of_intent(
    ctx: &Ctx,
    caller: &Caller,
    intent: IntentId,
    filter: &PortfolioFilter,
) -> Outcome<PortfolioPage> {
    caller.require(Scope::IntentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    membership::require(&mut conn, &caller.agent, intent, Level::Read, ctx.now()).await?;
    drop(conn);
    let found = rows::of_intent(&ctx.pool, intent, &caller.agent, caller.has(Scope::Admin), filter).await?;
    summed(ctx, caller, found, filter.limit).await
}

async fn summed(ctx: &Ctx, caller: &Caller, mut found: Vec<Portfolio>, limit: u32) -> Outcome<PortfolioPage> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().map(|portfolio| portfolio.id).filter(|_| more);
    let ids: Vec<PortfolioId> = found.iter().map(|portfolio| portfolio.id).collect();
    let mut conn = ctx.pool.acquire().await?;
    let mut sums = rows::sums(&mut conn, &ids, &caller.agent, ctx.now()).await?;
    let shown = |portfolio: Portfolio| {
        let sums = sums.remove(&portfolio.id).unwrap_or_default();
        Summed { portfolio, sums }
    };
    Ok(PortfolioPage { portfolios: found.into_iter().map(shown).collect(), next })
}

/// The page of a portfolio's intents to return.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Only intents after this position.
    pub after: Option<Cursor>,
    /// Maximum number of intents.
    pub limit: u32,
}

/// The end of a page of a portfolio's intents; it stays a valid position when the intent there is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Priority of the last intent.
    pub priority: i32,
    /// Id of its membership, which orders those of equal priority.
    pub id: MembershipId,
}

impl Cursor {
    /// Parses a cursor; returns `None` if it is malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (priority, id) = text.split_once('.')?;
        Some(Self { priority: priority.parse().ok()?, id: id.parse().ok()? })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.priority, self.id)
    }
}

/// A portfolio with a page of its intents.
#[derive(Debug)]
pub struct PortfolioView {
    /// The portfolio.
    pub portfolio: Portfolio,
    /// Those of its intents that the caller can read: highest priority first, then in the order in which they were
    /// added.
    pub intents: Vec<Intent>,
    /// Their memberships, in the same order.
    pub memberships: Vec<Membership>,
    /// Totals over all of its intents that the caller can read, independent of the page.
    pub sums: Aggregate,
    /// Start of the next page, if others follow.
    pub next: Option<Cursor>,
}

/// Returns one portfolio.
///
/// # Errors
/// Fails if it does not exist or the caller cannot see it.
pub async fn get(ctx: &Ctx, caller: &Caller, id: PortfolioId, cut: Cut) -> Outcome<PortfolioView> {
    caller.require(Scope::IntentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    let portfolio = require(&mut conn, caller, id).await?;
    let mut memberships = rows::memberships(&mut conn, id, cut, &caller.agent, ctx.now()).await?;
    let limit = usize::try_from(cut.limit).unwrap_or(usize::MAX);
    let there = memberships.len();
    memberships.truncate(limit);
    let mut ids: Vec<IntentId> = memberships.iter().map(|one| one.intent_id).collect();
    ids.truncate(intents::fitting(&mut conn, &ids).await?);
    memberships.truncate(ids.len());
    let last = memberships.last().map(|one| Cursor { priority: one.priority, id: one.id });
    let next = last.filter(|_| memberships.len() < there);
    let intents = intents::load_all(&mut conn, &ids).await?;
    let intents = suspensions::seen(&mut conn, ctx, intents).await?;
    // If the page contains all intents, the totals are computed from it.
    let sums = if cut.after.is_none() && next.is_none() {
        intents.iter().map(|intent| intent.status).collect()
    } else {
        rows::sums(&mut conn, &[id], &caller.agent, ctx.now()).await?.remove(&id).unwrap_or_default()
    };
    Ok(PortfolioView { portfolio, intents, memberships, sums, next })
}

/// Loads a portfolio, if the caller can see it.
async fn require(conn: &mut PgConnection, caller: &Caller, id: PortfolioId) -> Outcome<Portfolio> {
    let found = rows::load(conn, id).await?;
    let visible = |portfolio: &Portfolio| portfolio.created_by == caller.agent || caller.has(Scope::Admin);
    found.filter(visible).ok_or_else(|| not_found("portfolio"))
}

/// Changes a portfolio's status.
///
/// # Errors
/// Fails if the caller sees no such portfolio, or if its rule `require_all_completed` forbids the change.
pub async fn set_status(
    ctx: &Ctx,
    caller: &Caller,
    id: PortfolioId,
    status: PortfolioStatus,
) -> Outcome<Summed> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let before = require(work.conn(), caller, id).await?;
    let now = work.now();
    let sums = rows::sums(work.conn(), &[id], &caller.agent, now).await?.remove(&id).unwrap_or_default();
    let portfolio = before.moved(status, &sums, now)?;
    rows::update(work.conn(), &portfolio).await?;
    let more = json!({ "status": status, "old_status": before.status, "new_status": status });
    work.record(event_draft(Kind::PortfolioStatusChanged, &portfolio, &caller.agent, more));
    work.commit().await?;
    Ok(Summed { portfolio, sums })
}

/// Request to add an intent to a portfolio.
#[derive(Debug, Clone, Copy)]
pub struct MembershipAsk {
    /// The intent.
    pub intent_id: IntentId,
    /// Its role in the portfolio.
    pub role: MembershipRole,
    /// Intents of a higher priority are listed first.
    pub priority: i32,
}

/// Adds an intent to a portfolio; one that is a member already keeps its membership id and gets the new role and
/// priority.
///
/// # Errors
/// Fails if the caller sees no such portfolio, if the intent does not exist or is not readable, or if the portfolio
/// is full.
pub async fn add(
    ctx: &Ctx,
    caller: &Caller,
    id: PortfolioId,
    ask: MembershipAsk,
    once: Option<&Idempotency>,
) -> Outcome<Membership> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    let portfolio = require(work.conn(), caller, id).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    membership::require(work.conn(), &caller.agent, ask.intent_id, Level::Read, ctx.now()).await?;
    let now = work.now();
    let place = if let Some(there) = rows::place(work.conn(), id, ask.intent_id).await? {
        there
    } else {
        domain::check_room(rows::count(work.conn(), id).await?)?;
        let (portfolio_id, intent_id) = (id, ask.intent_id);
        let id = MembershipId::mint(now, &*ctx.chance);
        Membership { id, portfolio_id, intent_id, role: ask.role, priority: ask.priority, added_at: now }
    };
    let place = Membership { role: ask.role, priority: ask.priority, ..place };
    rows::put(work.conn(), &place, &caller.agent).await?;
    rows::update(work.conn(), &Portfolio { updated_at: now, ..portfolio.clone() }).await?;
    let more = json!({ "intent_id": ask.intent_id, "role": ask.role, "priority": ask.priority });
    work.record(event_draft(Kind::PortfolioIntentAdded, &portfolio, &caller.agent, more));
    work.finish(place).await
}

/// Removes an intent from a portfolio, even one that the caller can no longer read.
///
/// # Errors
/// Fails if the caller sees no such portfolio, or if the intent is not in it.
pub async fn remove(ctx: &Ctx, caller: &Caller, id: PortfolioId, intent: IntentId) -> Outcome<()> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let portfolio = require(work.conn(), caller, id).await?;
    if !rows::take(work.conn(), id, intent).await? {
        return Err(not_found("intent in this portfolio"));
    }
    let now = work.now();
    rows::update(work.conn(), &Portfolio { updated_at: now, ..portfolio.clone() }).await?;
    let more = json!({ "intent_id": intent });
    work.record(event_draft(Kind::PortfolioIntentRemoved, &portfolio, &caller.agent, more));
    work.commit().await
}
