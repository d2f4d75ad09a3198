//! Graphs of intents (RFC-0002): parents and children, dependencies, and readiness. Table
//! `intent_dependencies`, read and written in `graphs/rows.rs`; `intents.rs` creates an intent with its
//! relations.
//!
//! Every query leaves out the intents that the caller may not read and does not traverse them: an intent
//! reachable only through one is left out as well and not counted.

mod rows;

use std::collections::{BTreeMap, HashSet};

use entente_domain::access::Level;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::limits::GRAPH_NODES;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::graphs as domain;
use entente_domain::openintent::graphs::{Readiness, Wait, check_walk};
use entente_domain::openintent::intents::{Intent, IntentStatus};
use entente_domain::openintent::portfolios::Aggregate;
use entente_kernel::PooledConnection;
use entente_kernel::access::governance;
use entente_kernel::access::governance::Attempt;
use entente_kernel::access::membership;
use entente_kernel::intents;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{Caller, IntentTx, Outcome, idempotency, lock_key, not_found};
use sqlx::PgConnection;

use crate::Ctx;
use crate::suspensions;

pub(crate) use rows::{add_all, levels};

/// Lock of all graphs, held while a dependency is added to an existing intent, before the check for cycles.
///
/// If two servers add opposite dependencies at once, the second sees the first. Additions are rare and short,
/// and the graph of two intents is only known after walking both.
const LOCK: i64 = 0x656e_7465_6e74_7267;

/// Adds a dependency to an intent.
///
/// # Errors
/// Either intent does not exist, or is not the caller's to write or to read; the version is stale; a cycle
/// would arise.
pub async fn depend(
    ctx: &Ctx,
    caller: &Caller,
    id: IntentId,
    seen: i64,
    dependency: IntentId,
    once: Option<&Idempotency>,
) -> Outcome<Intent> {
    caller.require(Scope::IntentsWrite)?;
    let mut locks = vec![lock_key(id), lock_key(dependency), LOCK];
    locks.extend(once.map(|once| idempotency::lock_key(caller.principal(), &once.key)));
    let mut tx = ctx.begin_locked(locks).await?;
    let membership = membership::require(&mut tx, &caller.agent, id, Level::Write, ctx.now()).await?;
    if let Some(done) = idempotency::find(&mut tx, caller, once).await? {
        return Ok(done);
    }
    let attempt =
        Attempt { intent_id: id, membership: &membership, agent: &caller.agent, operation: "add_dependency" };
    let mut tx = governance::admit_tx(ctx, caller, tx, attempt).await?;
    let mut log = IntentLog::open(&mut tx, id, caller.trace, ctx.now()).await?;
    let intent = intents::load(&mut tx, id).await?.ok_or_else(|| not_found("intent"))?;
    let intent = suspensions::settle(&mut tx, ctx, &mut log, intent).await?;
    intent.require_version(seen)?;
    let other = membership::find(&mut tx, &caller.agent, dependency, log.now()).await?;
    if !other.is_some_and(|membership| membership.access.reaches(Level::Read)) {
        return Err(not_found("dependency"));
    }
    let reached = rows::reached(&mut tx, dependency).await?;
    let next = domain::depend(&intent, dependency, &reached, log.now())?;
    intents::update(&mut tx, &next).await?;
    add_all(&mut tx, id, &[dependency]).await?;
    let payload = domain::dependency_payload(dependency, &next);
    log.record(ctx, Draft::of(Kind::DependencyAdded, &caller.agent, payload));
    log.save(&mut tx).await?;
    idempotency::keep(&mut tx, caller, once, &next, log.now()).await?;
    tx.commit().await?;
    ctx.feed.notify_committed(id);
    Ok(next)
}

/// Removes a dependency from an intent.
///
/// # Errors
/// The intent does not exist or is not writable; the version is stale; the dependency does not exist.
pub async fn let_go(
    ctx: &Ctx,
    caller: &Caller,
    id: IntentId,
    seen: i64,
    dependency: IntentId,
) -> Outcome<Intent> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, id, None).await?;
    let membership = membership::require(work.conn(), &caller.agent, id, Level::Write, ctx.now()).await?;
    let attempt = Attempt {
        intent_id: id,
        membership: &membership,
        agent: &caller.agent,
        operation: "remove_dependency",
    };
    let mut work = governance::admit(caller, work, attempt).await?;
    let (conn, log) = work.parts();
    let intent = intents::load(conn, id).await?.ok_or_else(|| not_found("intent"))?;
    let intent = suspensions::settle(conn, ctx, log, intent).await?;
    intent.require_version(seen)?;
    let next = domain::let_go(&intent, dependency, log.now())?;
    intents::update(conn, &next).await?;
    rows::remove(conn, id, dependency).await?;
    let payload = domain::dependency_payload(dependency, &next);
    work.record(Draft::of(Kind::DependencyRemoved, &caller.agent, payload));
    work.finish(next).await
}

/// Relation of an intent to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// Its direct children.
    Children,
    /// Its children and all levels below.
    Descendants,
    /// Its parent and all levels above, nearest first.
    Ancestors,
    /// The intents that it depends on.
    Dependencies,
    /// The intents that depend on it.
    Dependents,
    /// Its children that are ready to be worked on.
    Ready,
}

/// A page of intents with the cursor of the next page.
#[derive(Debug)]
pub struct GraphPage<T> {
    /// Items of the page.
    pub intents: Vec<T>,
    /// Cursor of the next page: the last item's id, if more follow.
    pub next: Option<IntentId>,
}

/// Bounds of a page.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Cursor: only intents after this one.
    pub after: Option<IntentId>,
    /// Maximum number of items.
    pub limit: u32,
}

impl Cut {
    /// Query limit: one more than the page, which tells whether more follow.
    fn probe(self) -> i64 {
        i64::from(self.limit) + 1
    }

    async fn page(
        self,
        conn: &mut PgConnection,
        mut ids: Vec<IntentId>,
    ) -> Outcome<(Vec<IntentId>, Option<IntentId>)> {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let there = ids.len();
        ids.truncate(limit);
        ids.truncate(intents::fitting(conn, &ids).await?);
        let next = ids.last().copied().filter(|_| ids.len() < there);
        Ok((ids, next))
    }
}

/// Lists the intents in a relation to one, as far as the caller may read them.
///
/// They are ordered by id, and so by age, except ancestors, which come nearest first.
///
/// # Errors
/// The intent does not exist or is not readable; it has more descendants than one walk visits.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    id: IntentId,
    relation: Relation,
    cut: Cut,
) -> Outcome<GraphPage<Intent>> {
    let mut conn = open(ctx, caller, id).await?;
    let look =
        rows::Look { of: id, agent: &caller.agent, now: ctx.now(), after: cut.after, limit: cut.probe() };
    let ids = match relation {
        Relation::Children => rows::children(&mut conn, look).await?,
        Relation::Dependencies => rows::dependencies(&mut conn, look).await?,
        Relation::Dependents => rows::dependents(&mut conn, look).await?,
        Relation::Ready => rows::parts(&mut conn, look, Readiness::Ready).await?,
        // There is one path upwards; the query continues from the cursor.
        Relation::Ancestors => rows::ancestors(&mut conn, look).await?,
        Relation::Descendants => {
            let mut below = rows::descendants(&mut conn, look).await?;
            check_walk(below.len())?;
            below.sort_unstable();
            below.retain(|id| cut.after.is_none_or(|after| *id > after));
            below
        }
    };
    let (ids, next) = cut.page(&mut conn, ids).await?;
    let found = intents::load_all(&mut conn, &ids).await?;
    Ok(GraphPage { intents: suspensions::seen(&mut conn, ctx, found).await?, next })
}

/// An intent that is not ready, with the reason.
#[derive(Debug)]
pub struct Blocked {
    /// The intent.
    pub intent: Intent,
    /// Its unfinished dependencies.
    pub wait: Wait,
}

/// Lists the children of an intent that are blocked by their dependencies.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn blocked(ctx: &Ctx, caller: &Caller, id: IntentId, cut: Cut) -> Outcome<GraphPage<Blocked>> {
    let mut conn = open(ctx, caller, id).await?;
    let look =
        rows::Look { of: id, agent: &caller.agent, now: ctx.now(), after: cut.after, limit: cut.probe() };
    let found = rows::parts(&mut conn, look, Readiness::Blocked).await?;
    let (ids, next) = cut.page(&mut conn, found).await?;
    let mut waits: BTreeMap<IntentId, Vec<(IntentId, IntentStatus)>> = BTreeMap::new();
    for (waiting, dependency, status) in rows::statuses(&mut conn, &ids, look).await? {
        waits.entry(waiting).or_default().push((dependency, status));
    }
    let blocked = |intent: Intent| {
        let wait = waits.get(&intent.id).map_or_else(Wait::default, |waits| Wait::of(waits));
        Blocked { intent, wait }
    };
    let found = intents::load_all(&mut conn, &ids).await?;
    let found = suspensions::seen(&mut conn, ctx, found).await?;
    Ok(GraphPage { intents: found.into_iter().map(blocked).collect(), next })
}

/// An intent in a graph.
#[derive(Debug)]
pub struct Node {
    /// Its id.
    pub id: IntentId,
    /// One-line goal.
    pub title: String,
    /// Status of the intent.
    pub status: IntentStatus,
    /// Parent intent.
    pub parent_id: Option<IntentId>,
    /// Dependencies.
    pub depends_on: Vec<IntentId>,
    /// Its version.
    pub version: i64,
}

/// An edge between two intents of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Parent and child, in this order.
    Part(IntentId, IntentId),
    /// Dependency and dependent, in this order.
    Wait(IntentId, IntentId),
}

/// An intent with its descendants and all of their dependencies.
#[derive(Debug)]
pub struct Graph {
    /// The intents, the requested one first.
    pub nodes: Vec<Node>,
    /// The edges between them.
    pub edges: Vec<Edge>,
    /// Aggregate of their statuses.
    pub sums: Aggregate,
}

/// Returns the graph reachable from an intent.
///
/// # Errors
/// The intent does not exist or is not readable; the graph is too large.
pub async fn graph(ctx: &Ctx, caller: &Caller, id: IntentId) -> Outcome<Graph> {
    let mut conn = open(ctx, caller, id).await?;
    let limit = i64::try_from(GRAPH_NODES).unwrap_or(i64::MAX) + 1;
    let look = rows::Look { of: id, agent: &caller.agent, now: ctx.now(), after: None, limit };
    let ids = rows::connected(&mut conn, look).await?;
    check_walk(ids.len())?;
    let mut nodes = rows::nodes(&mut conn, &ids).await?;
    nodes.sort_by_key(|node| (node.id != id, node.id));
    let shown: HashSet<IntentId> = nodes.iter().map(|node| node.id).collect();
    let mut edges = Vec::new();
    for node in &nodes {
        edges.extend(node.parent_id.filter(|id| shown.contains(id)).map(|whole| Edge::Part(whole, node.id)));
        let waits = node.depends_on.iter().filter(|id| shown.contains(id));
        edges.extend(waits.map(|dependency| Edge::Wait(*dependency, node.id)));
    }
    let sums = nodes.iter().map(|node| node.status).collect();
    Ok(Graph { nodes, edges, sums })
}

/// Acquires a connection after checking that the caller may read the intent.
async fn open(ctx: &Ctx, caller: &Caller, id: IntentId) -> Outcome<PooledConnection> {
    caller.require(Scope::IntentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    membership::require(&mut conn, &caller.agent, id, Level::Read, ctx.now()).await?;
    Ok(conn)
}
