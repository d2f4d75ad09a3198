//! Who waits for whom, over all protocols: requests that are waited for, leases with a queue, tasks, jobs and decisions.
//! Reads the tables of all protocols, and writes none; `crates/domain/src/openintent/waits.rs` has the model.
//!
//! One statement reads each kind of wait, by an index of the waiting rows only. An agent that just listens, by a long
//! poll or a stream, waits for nobody.

pub mod deadlocks;
mod works;

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use entente_domain::access::Level;
use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{DeadlockId, IntentId, LeaseId, MessageId, MomentId};
use entente_domain::openintent::leases::queue::{self, LeaseWait};
use entente_domain::openintent::leases::{Lease, LeaseStatus};
use entente_domain::openintent::waits::{Wait, WaitKind, deadlocks};
use entente_kernel::access::membership;
use entente_kernel::{Caller, Outcome};
use sqlx::PgConnection;
use uuid::Uuid;

use self::deadlocks::recorded;
use self::works::works;
use crate::Ctx;

/// Maximum number of waits of each kind that one answer is made of.
const SHOWN: i64 = 1_000;

/// Maximum number of waits of each kind in which deadlocks are searched.
const SEARCHED: i64 = 10_000;

/// Time within which a client whose request for a lease was refused asks again, if it goes on waiting.
const ASKS_AGAIN: TimeDelta = TimeDelta::seconds(1);

/// Who waits for whom, as far as a caller may see it.
#[derive(Debug, Clone)]
pub struct Waits {
    /// The waits, oldest first.
    pub waits: Vec<Wait>,
    /// The deadlocks of which the caller may see every wait, the one with the most agents first.
    pub deadlocks: Vec<ShownDeadlock>,
    /// The caller's own agents in deadlocks, whether or not it may see all of them.
    pub deadlocked: Vec<String>,
    /// Whether there are more waits than one answer has.
    pub truncated: bool,
}

/// A deadlock, with its waits.
#[derive(Debug, Clone)]
pub struct ShownDeadlock {
    /// The agents, sorted.
    pub agents: Vec<String>,
    /// Its waits.
    pub waits: Vec<Wait>,
    /// Its id and the time of its event; `None` until it is recorded.
    pub recorded: Option<(DeadlockId, Timestamp)>,
}

/// A wait as it is read.
#[derive(Debug, Clone)]
struct Edge {
    /// The wait.
    pub wait: Wait,
    /// Whether the viewer is a member of its channel, or it happens on none.
    pub seen: bool,
}

/// Lists the waits: an admin sees all; anybody else those on intents that it may read, and those of its own agents.
///
/// # Errors
/// The caller lacks the scope.
pub async fn list(ctx: &Ctx, caller: &Caller) -> Outcome<Waits> {
    caller.require(Scope::IntentsRead)?;
    let now = ctx.now();
    let mut conn = ctx.pool.acquire().await?;
    let mut edges = calls(&mut conn, now, &caller.agent, SHOWN).await?;
    edges.extend(works(&mut conn, now, None, SHOWN).await?);
    edges.extend(decisions(&mut conn, now).await?);
    let most = usize::try_from(SHOWN).unwrap_or(usize::MAX);
    let truncated =
        WaitKind::ALL.iter().any(|kind| edges.iter().filter(|edge| edge.wait.kind == *kind).count() >= most);
    let readable = readable(&mut conn, caller, &edges, now).await?;
    let recorded = recorded(&mut conn).await?.into_iter();
    let recorded: BTreeMap<Digest, (DeadlockId, Timestamp)> =
        recorded.map(|one| (one.fingerprint, (one.id, one.found_at))).collect();
    drop(conn);

    let may_see: Vec<bool> = edges.iter().map(|edge| may_see(caller, edge, &readable)).collect();
    let waits: Vec<Wait> = edges.into_iter().map(|edge| edge.wait).collect();
    let found = deadlocks(&waits);
    let own = found.iter().flat_map(|one| &one.agents).filter(|agent| is_own(caller, agent));
    let deadlocked: BTreeSet<String> = own.cloned().collect();
    let whole = found.iter().filter(|one| one.waits.iter().all(|at| may_see[*at]));
    let shown = whole.map(|one| ShownDeadlock {
        agents: one.agents.clone(),
        waits: one.waits.iter().map(|at| waits[*at].clone()).collect(),
        recorded: recorded.get(&one.fingerprint(&waits)).copied(),
    });
    let deadlocks: Vec<ShownDeadlock> = shown.collect();
    let mut waits: Vec<Wait> =
        waits.into_iter().zip(&may_see).filter(|(_, seen)| **seen).map(|(wait, _)| wait).collect();
    waits.sort_by_key(|wait| wait.since);
    Ok(Waits { waits, deadlocks, deadlocked: deadlocked.into_iter().collect(), truncated })
}

/// Whether the caller may act as an agent.
fn is_own(caller: &Caller, agent: &str) -> bool {
    agent == caller.agent || caller.speaker("agent", Some(agent), false).is_ok()
}

fn may_see(caller: &Caller, edge: &Edge, readable: &BTreeSet<IntentId>) -> bool {
    let wait = &edge.wait;
    let is_party = is_own(caller, &wait.from) || wait.to.as_deref().is_some_and(|to| is_own(caller, to));
    let reads = || wait.intent_id.is_some_and(|intent| readable.contains(&intent));
    // A question to a person is seen by its two parties only.
    caller.has(Scope::Admin) || is_party || wait.kind != WaitKind::Decision && edge.seen && reads()
}

/// Returns those intents of the waits that the caller's agent may read.
async fn readable(
    conn: &mut PgConnection,
    caller: &Caller,
    edges: &[Edge],
    now: Timestamp,
) -> Outcome<BTreeSet<IntentId>> {
    let intents: BTreeSet<IntentId> = edges.iter().filter_map(|edge| edge.wait.intent_id).collect();
    let asked: Vec<(IntentId, &str)> =
        intents.into_iter().map(|intent| (intent, caller.agent.as_str())).collect();
    let found = membership::find_all(conn, &asked, now).await?.into_iter();
    Ok(found
        .filter(|(_, membership)| membership.access.reaches(Level::Read))
        .map(|((intent, _), _)| intent)
        .collect())
}

/// Returns the waits in calls that block: for answers and for leases.
async fn calls(conn: &mut PgConnection, now: Timestamp, viewer: &str, limit: i64) -> Outcome<Vec<Edge>> {
    let mut edges = requests(conn, now, viewer, limit).await?;
    edges.extend(leases(conn, now, limit).await?);
    Ok(edges)
}

/// Returns the waits in which deadlocks are searched. Only the queue for a lease leads from a call to others' work, so
/// without one no work is read.
async fn searched(conn: &mut PgConnection, now: Timestamp) -> Outcome<Vec<Wait>> {
    let mut edges = calls(conn, now, "", SEARCHED).await?;
    let leases = edges.iter().filter(|edge| edge.wait.kind == WaitKind::Lease);
    let awaited: BTreeSet<String> = leases.filter_map(|edge| edge.wait.to.clone()).collect();
    if !awaited.is_empty() {
        edges.extend(works(conn, now, Some(awaited), SEARCHED).await?);
    }
    Ok(edges.into_iter().map(|edge| edge.wait).collect())
}

async fn requests(conn: &mut PgConnection, now: Timestamp, viewer: &str, limit: i64) -> Outcome<Vec<Edge>> {
    let rows = sqlx::query!(
        r#"-- waits::requests
         SELECT w.message_id, w.agent_id, w.intent_id, w.since, w.awaited,
                ARRAY(SELECT a FROM UNNEST(w.awaited) a WHERE NOT EXISTS (
                    SELECT 1 FROM messages m WHERE m.channel_id = w.channel_id AND m.correlation_id = w.message_id
                      AND m.sender = a)) AS "unanswered!",
                (c.member_policy = 'intent') AS "public!",
                (c.member_policy = 'intent' OR c.created_by = $2 OR $2 = ANY(c.members)) AS "seen!"
         FROM request_waits w JOIN channels c ON c.id = w.channel_id
         WHERE w.until > $1 ORDER BY w.until DESC LIMIT $3"#,
        now,
        viewer,
        limit
    )
    .fetch_all(conn)
    .await?;
    let mut edges = Vec::new();
    for row in rows {
        let edge = |to: Option<String>| Edge {
            wait: Wait {
                from: row.agent_id.clone(),
                blocks: to.is_some(),
                to,
                kind: WaitKind::Request,
                reference: MessageId::from(row.message_id).to_string(),
                intent_id: Some(row.intent_id.into()),
                since: row.since,
                public: row.public,
            },
            seen: row.seen,
        };
        if row.awaited.is_empty() {
            edges.push(edge(None));
        }
        edges.extend(row.unanswered.into_iter().map(|agent| edge(Some(agent))));
    }
    Ok(edges)
}

async fn leases(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<Vec<Edge>> {
    let rows = sqlx::query!(
        r#"-- waits::leases
         WITH waiting AS (
             SELECT * FROM lease_waits WHERE until > $1 AND (left_at IS NULL OR left_at > $3) ORDER BY until DESC LIMIT $2)
         SELECT l.intent_id AS "intent_id!", l.id AS "id?", l.agent_id AS "agent_id!", l.scope AS "scope!", l.path AS "path!",
                l.fencing_token AS "number!", l.acquired_at AS "since!", l.expires_at AS "until!"
         FROM leases l
         WHERE l.status = 'active' AND l.expires_at > $1 AND l.intent_id IN (SELECT intent_id FROM waiting)
         UNION ALL
         SELECT intent_id, NULL, agent_id, scope, path, number, since, until FROM waiting"#,
        now,
        limit,
        now - ASKS_AGAIN
    )
    .fetch_all(conn)
    .await?;
    let mut intents: BTreeMap<Uuid, (Vec<Lease>, Vec<LeaseWait>)> = BTreeMap::new();
    for row in rows {
        let (agent_id, scope, path) = (row.agent_id, row.scope, row.path);
        let (held, waiting) = intents.entry(row.intent_id).or_default();
        match row.id {
            Some(id) => held.push(Lease {
                id: LeaseId::from(id),
                intent_id: row.intent_id.into(),
                agent_id,
                scope,
                path,
                fencing_token: row.number,
                status: LeaseStatus::Active,
                acquired_at: row.since,
                expires_at: row.until,
                ended_at: None,
            }),
            None => waiting.push(LeaseWait {
                agent_id,
                scope,
                path,
                number: row.number,
                since: row.since,
                until: row.until,
            }),
        }
    }
    let mut edges = Vec::new();
    for (intent, (held, waiting)) in &intents {
        for one in waiting {
            edges.extend(queue::awaited(one, held, waiting).into_iter().map(|agent| Edge {
                wait: Wait {
                    from: one.agent_id.clone(),
                    to: Some(agent.to_owned()),
                    kind: WaitKind::Lease,
                    reference: one.scope.clone(),
                    intent_id: Some((*intent).into()),
                    since: one.since,
                    blocks: true,
                    public: true,
                },
                seen: true,
            }));
        }
    }
    Ok(edges)
}

/// Returns the open questions to people.
async fn decisions(conn: &mut PgConnection, now: Timestamp) -> Outcome<Vec<Edge>> {
    let rows = sqlx::query!(
        "-- waits::decisions
         SELECT id, agent_id, principal_id, intent_id, created_at FROM moments
         WHERE state IN ('open', 'deliberating') AND state = 'open' AND (expires_at IS NULL OR expires_at > $1)
         ORDER BY id LIMIT $2",
        now,
        SHOWN
    )
    .fetch_all(conn)
    .await?;
    let edge = |wait| Edge { wait, seen: true };
    let waits = rows.into_iter().map(|row| Wait {
        from: row.agent_id,
        to: Some(row.principal_id),
        kind: WaitKind::Decision,
        reference: MomentId::from(row.id).to_string(),
        intent_id: row.intent_id.map(IntentId::from),
        since: row.created_at,
        blocks: false,
        public: false,
    });
    Ok(waits.map(edge).collect())
}
