//! Sessions of agents: each has an epoch, and a write that names an earlier one is refused. Table `agent_sessions`.
//!
//! The transactions of a request require its epoch themselves (`crates/runtime/src/fences.rs`). Which agents have to name
//! one at all, each server knows by a copy, so that the question costs no query; other servers learn of a change by the
//! look-around (`due::look`), within half a second.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{PoisonError, RwLock};

use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::epochs::{AgentSession, Epoch, required};
use entente_domain::identity::fences::Fence;
use entente_domain::identity::principals::check_name;
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use entente_runtime::fences;
use serde_json::json;
use sqlx::PgConnection;

use crate::idempotency;
use crate::{Caller, Ctx, IntentTx, Outcome, not_found};

/// This server's copy of the agents whose writes have to name their epoch.
#[derive(Debug)]
pub struct StrictAgents {
    agents: RwLock<BTreeSet<String>>,
    /// Number in the system log up to which changes are known.
    seen: AtomicI64,
}

impl Default for StrictAgents {
    fn default() -> Self {
        Self { agents: RwLock::default(), seen: AtomicI64::new(-1) }
    }
}

impl StrictAgents {
    /// Number in the system log up to which changes are known here.
    #[must_use]
    pub fn seen(&self) -> i64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Returns the refusal of a write for this agent, if that has to name its epoch and does not.
    #[must_use]
    pub fn objection(&self, agent: &str) -> Option<Refusal> {
        // Mostly no agent has ever been strict: then nothing is looked up.
        if self.seen() <= 0 || !self.agents.read().unwrap_or_else(PoisonError::into_inner).contains(agent) {
            return None;
        }
        let named = fences::current().iter().filter_map(Fence::epoch).any(|epoch| epoch.agent == agent);
        (!named).then(|| required(agent))
    }

    /// Renews the copy.
    ///
    /// # Errors
    /// A database error.
    pub async fn refresh(&self, ctx: &Ctx) -> Outcome<()> {
        let rows = sqlx::query!(
            "-- agent_sessions::strict\n SELECT agent_id, strict, strict_seq FROM agent_sessions WHERE strict_seq > 0"
        )
        .fetch_all(&ctx.pool)
        .await?;
        let known = rows.iter().map(|row| row.strict_seq).max().unwrap_or(0);
        let strict = rows.into_iter().filter(|row| row.strict).map(|row| row.agent_id).collect();
        let mut agents = self.agents.write().unwrap_or_else(PoisonError::into_inner);
        // A slower refresh must not replace a later one.
        if known >= self.seen() {
            *agents = strict;
            self.seen.store(known, Ordering::Release);
        }
        Ok(())
    }
}

/// Opens a session of an agent. From when this returns on, no write that names an earlier epoch takes effect, on any
/// server; one that is under way is waited for.
///
/// `strict` says whether every write of the agent has to name its epoch from now on; without it, that stays as it is.
///
/// # Errors
/// The caller may not act as the agent; the request names an epoch that is not the latest.
pub async fn open(
    ctx: &Ctx,
    caller: &Caller,
    agent: &str,
    strict: Option<bool>,
    once: Option<&Idempotency>,
) -> Outcome<AgentSession> {
    require_own(caller, agent)?;
    // The update judges the epoch: a shared lock on the row would be in the way of the same lock of another request.
    let expected = fences::take_epoch(agent);
    let asked = Asked { agent, strict, expected };
    let Some(strict) = strict else {
        // Not in the system log: its lock must not be held while writes of earlier sessions are waited for.
        let mut tx = ctx.begin_once(&[], caller, once).await?;
        if let Some(done) = idempotency::find(&mut tx, caller, once).await? {
            return Ok(done);
        }
        let (opened, _) = asked.open(&mut tx, caller, ctx.now(), 0).await?;
        idempotency::keep(&mut tx, caller, once, &opened, ctx.now()).await?;
        tx.commit().await?;
        return Ok(opened);
    };
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let (now, seq) = (work.now(), work.log().tail.seq + 1);
    let (opened, changed_seq) = asked.open(work.conn(), caller, now, seq).await?;
    let payload = json!({ "agent_id": agent, "epoch": opened.epoch, "strict": strict });
    work.record(Draft::of(Kind::AgentSessionOpened, &caller.agent, payload));
    let opened = work.finish(opened).await?;
    if changed_seq == seq {
        ctx.strict_agents.refresh(ctx).await?;
    }
    Ok(opened)
}

/// A session to open.
struct Asked<'a> {
    agent: &'a str,
    strict: Option<bool>,
    /// The session that has to be the latest one.
    expected: Option<Epoch>,
}

impl Asked<'_> {
    /// Writes the session; returns it with the number of the last change of `strict`, which is `seq` if this changes it.
    async fn open(
        &self,
        conn: &mut PgConnection,
        caller: &Caller,
        now: Timestamp,
        seq: i64,
    ) -> Outcome<(AgentSession, i64)> {
        let row = sqlx::query!(
            "-- agent_sessions::open
             INSERT INTO agent_sessions AS s (agent_id, epoch, opened_by, opened_at, strict, strict_seq)
             SELECT $1, 1, $2, $3, coalesce($4, false), CASE WHEN $4 THEN $5::bigint ELSE 0 END
             WHERE $6::bigint IS NULL OR EXISTS (SELECT 1 FROM agent_sessions WHERE agent_id = $1)
             ON CONFLICT (agent_id) DO UPDATE SET epoch = s.epoch + 1, opened_by = $2, opened_at = $3,
                 strict = coalesce($4, s.strict), strict_seq = CASE WHEN $4 <> s.strict THEN $5 ELSE s.strict_seq END
             WHERE $6::bigint IS NULL OR s.epoch = $6
             RETURNING epoch, strict, strict_seq",
            self.agent,
            caller.principal(),
            now,
            self.strict,
            seq,
            self.expected.as_ref().map(|expected| expected.epoch)
        )
        .fetch_optional(conn)
        .await?;
        let row = match (row, &self.expected) {
            (Some(row), _) => row,
            (None, Some(expected)) => return Err(expected.stale().into()),
            (None, None) => return Err(not_found("agent")),
        };
        let opened = AgentSession {
            agent_id: self.agent.to_owned(),
            epoch: row.epoch,
            opened_by: caller.principal().to_owned(),
            opened_at: now,
            strict: row.strict,
        };
        Ok((opened, row.strict_seq))
    }
}

/// Returns the latest session of an agent.
///
/// # Errors
/// The caller may not act as the agent; it has opened none.
pub async fn get(ctx: &Ctx, caller: &Caller, agent: &str) -> Outcome<AgentSession> {
    require_own(caller, agent)?;
    let found = sqlx::query_as!(
        AgentSession,
        "-- agent_sessions::get\n SELECT agent_id, epoch, opened_by, opened_at, strict FROM agent_sessions WHERE agent_id = $1",
        agent
    )
    .fetch_optional(&ctx.pool)
    .await?;
    found.ok_or_else(|| not_found("session of the agent"))
}

fn require_own(caller: &Caller, agent: &str) -> Outcome<()> {
    check_name("agent_id", agent)?;
    if caller.agent == agent || caller.grant.key.may_act_as(agent) {
        return Ok(());
    }
    let message = format!("Only a key that may act as {agent} opens or reads its sessions.");
    Err(Refusal::new(Code::MayNotActAs, message).into())
}
