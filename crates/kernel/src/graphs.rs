//! Graphs of intents (RFC-0002): their parts, what they wait for, and what can be worked on. Table `intent_dependencies`,
//! whose rows are in `graphs/rows.rs`; making an intent with its relations is `intents.rs`.
//!
//! Every look leaves out the intents that the caller may not read, and walks through none of them: what is only behind one
//! is left out like it, and nothing is counted.

mod rows;

use std::collections::{BTreeMap, HashSet};

use entente_domain::access::Level;
use entente_domain::events::{Draft, Kind};
use entente_domain::graphs::{self as law, Readiness, Wait, check_walk};
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::IntentId;
use entente_domain::intents::{Intent, IntentStatus};
use entente_domain::keys::Scope;
use entente_domain::limits::GRAPH_NODES;
use entente_domain::portfolios::Aggregate;
use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, Postgres};

use super::governance::Attempt;
use super::lines::Line;
use super::{
    Caller, Ctx, Outcome, governance, idempotency, intents, lock_key, not_found, seats, suspensions,
};

pub(crate) use rows::{add_all, levels};

/// The lock of all graphs, which whoever adds a dependency to an intent that is there holds from before it looks for circles:
/// of two servers that add opposite ones at once, the second finds what the first has added. Adding is rare and short; which
/// graph two intents belong to is only known once both were walked.
const LOCK: i64 = 0x656e_7465_6e74_7267;

/// Has an intent wait for another one.
///
/// # Errors
/// Either is not there, or is not the caller's to write or to read; the version is stale; the intent would wait for itself.
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
    let seat = seats::require(&mut tx, &caller.agent, id, Level::Write, ctx.now()).await?;
    if let Some(done) = idempotency::find(&mut tx, caller, once).await? {
        return Ok(done);
    }
    let attempt = Attempt { intent_id: id, seat: &seat, agent: &caller.agent, deed: "add_dependency" };
    let mut tx = governance::admit(ctx, caller, tx, attempt).await?;
    let mut line = Line::open(&mut tx, id, caller.trace, ctx.now()).await?;
    let intent = intents::load(&mut tx, id).await?.ok_or_else(|| not_found("intent"))?;
    let intent = suspensions::settle(&mut tx, ctx, &mut line, intent).await?;
    intent.require_version(seen)?;
    let other = seats::seat(&mut tx, &caller.agent, dependency, line.now()).await?;
    if !other.is_some_and(|seat| seat.standing.reaches(Level::Read)) {
        return Err(not_found("dependency"));
    }
    let reached = rows::reached(&mut tx, dependency).await?;
    let next = law::depend(&intent, dependency, &reached, line.now())?;
    intents::update(&mut tx, &next).await?;
    add_all(&mut tx, id, &[dependency]).await?;
    let payload = law::dependency_payload(dependency, &next);
    line.record(ctx, Draft::of(Kind::DependencyAdded, &caller.agent, payload));
    line.save(&mut tx).await?;
    idempotency::keep(&mut tx, caller, once, &next, line.now()).await?;
    tx.commit().await?;
    ctx.feed.news(id);
    Ok(next)
}

/// Has an intent wait for another one no longer.
///
/// # Errors
/// It is not there or not writable; the version is stale; it does not depend on that one.
pub async fn let_go(
    ctx: &Ctx,
    caller: &Caller,
    id: IntentId,
    seen: i64,
    dependency: IntentId,
) -> Outcome<Intent> {
    caller.require(Scope::IntentsWrite)?;
    let mut tx = ctx.begin(&[id]).await?;
    let seat = seats::require(&mut tx, &caller.agent, id, Level::Write, ctx.now()).await?;
    let attempt = Attempt { intent_id: id, seat: &seat, agent: &caller.agent, deed: "remove_dependency" };
    let mut tx = governance::admit(ctx, caller, tx, attempt).await?;
    let mut line = Line::open(&mut tx, id, caller.trace, ctx.now()).await?;
    let intent = intents::load(&mut tx, id).await?.ok_or_else(|| not_found("intent"))?;
    let intent = suspensions::settle(&mut tx, ctx, &mut line, intent).await?;
    intent.require_version(seen)?;
    let next = law::let_go(&intent, dependency, line.now())?;
    intents::update(&mut tx, &next).await?;
    rows::remove(&mut tx, id, dependency).await?;
    let payload = law::dependency_payload(dependency, &next);
    line.record(ctx, Draft::of(Kind::DependencyRemoved, &caller.agent, payload));
    line.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.news(id);
    Ok(next)
}

/// Which of an intent's relations to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// Its parts.
    Children,
    /// Its parts, theirs, and so on.
    Descendants,
    /// What it is a part of, the nearest first.
    Ancestors,
    /// What it waits for.
    Dependencies,
    /// What waits for it.
    Dependents,
    /// Its parts that can be worked on.
    Ready,
}

/// A page of intents, and the cursor that goes on behind it when there are more.
#[derive(Debug)]
pub struct Page<T> {
    /// The intents.
    pub intents: Vec<T>,
    /// The last of them, if others follow.
    pub next: Option<IntentId>,
}

/// The part of a list that a page shows.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Only after this one: the cursor.
    pub after: Option<IntentId>,
    /// How many at the most.
    pub limit: u32,
}

impl Cut {
    /// One more than the page has, to tell whether there are more.
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

/// The intents that stand in a relation to one, as far as the caller can read them; in the order of their ids, which is that
/// of their age, but for ancestors.
///
/// # Errors
/// The intent is not there or not readable; there are more below it than one walk visits.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    id: IntentId,
    relation: Relation,
    cut: Cut,
) -> Outcome<Page<Intent>> {
    let mut conn = open(ctx, caller, id).await?;
    let look =
        rows::Look { of: id, agent: &caller.agent, now: ctx.now(), after: cut.after, limit: cut.probe() };
    let ids = match relation {
        Relation::Children => rows::children(&mut conn, look).await?,
        Relation::Dependencies => rows::dependencies(&mut conn, look).await?,
        Relation::Dependents => rows::dependents(&mut conn, look).await?,
        Relation::Ready => rows::parts(&mut conn, look, Readiness::Ready).await?,
        // Upwards there is one way, which is walked from the cursor on.
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
    Ok(Page { intents: suspensions::seen(&mut conn, ctx, found).await?, next })
}

/// An intent that cannot be worked on, and why.
#[derive(Debug)]
pub struct Blocked {
    /// The intent.
    pub intent: Intent,
    /// What it waits for.
    pub wait: Wait,
}

/// The parts of an intent that cannot be worked on, because of what they depend on.
///
/// # Errors
/// The intent is not there or not readable.
pub async fn blocked(ctx: &Ctx, caller: &Caller, id: IntentId, cut: Cut) -> Outcome<Page<Blocked>> {
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
    Ok(Page { intents: found.into_iter().map(blocked).collect(), next })
}

/// An intent in a graph.
#[derive(Debug)]
pub struct Node {
    /// Its id.
    pub id: IntentId,
    /// Its goal in a line.
    pub title: String,
    /// Where it is in its life.
    pub status: IntentStatus,
    /// What it is a part of.
    pub parent_id: Option<IntentId>,
    /// What it waits for.
    pub depends_on: Vec<IntentId>,
    /// Its version.
    pub version: i64,
}

/// A line between two intents of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The second is a part of the first.
    Part(IntentId, IntentId),
    /// The second waits for the first.
    Wait(IntentId, IntentId),
}

/// An intent with all that is below it and all that any of those waits for.
#[derive(Debug)]
pub struct Graph {
    /// The intents, the one that was asked of first.
    pub nodes: Vec<Node>,
    /// The lines between them.
    pub edges: Vec<Edge>,
    /// What they come to.
    pub sums: Aggregate,
}

/// The graph from an intent on.
///
/// # Errors
/// The intent is not there or not readable; the graph is too large.
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

/// A connection for one who may read the intent.
async fn open(ctx: &Ctx, caller: &Caller, id: IntentId) -> Outcome<PoolConnection<Postgres>> {
    caller.require(Scope::IntentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    seats::require(&mut conn, &caller.agent, id, Level::Read, ctx.now()).await?;
    Ok(conn)
}
