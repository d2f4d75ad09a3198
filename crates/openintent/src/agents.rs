//! The directory of agents (RFC-0016): registration and status; heartbeats are in `heartbeats.rs`, departures in
//! `departures.rs`, hand-overs in `handovers.rs`. The records are the kernel's (`kernel/src/identity/agents.rs`).

pub mod departures;
pub mod handovers;
pub mod heartbeats;

use entente_domain::egress::check_agent;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::limits::PAGE;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::agents::{Agent, AgentStatus, Registration, register as law_register};
use entente_domain::refusal::Code;
use entente_kernel::identity::agents::{find, page, require_keeper, save, shown};
use entente_kernel::log::writer::IntentLog;
use entente_kernel::webhooks::endpoints;
use entente_kernel::{Caller, IntentTx, Outcome, not_found, refuse};
use serde_json::json;

use crate::Ctx;
use crate::tasks;

/// Registers an agent, or renews its registration.
///
/// # Errors
/// The caller may not act as the agent; another principal has registered it; the registration is invalid.
pub async fn register(
    ctx: &Ctx,
    caller: &Caller,
    ask: Registration,
    once: Option<&Idempotency>,
) -> Outcome<Agent> {
    caller.require(Scope::AgentsWrite)?;
    let agent_id = caller.speaker("agent_id", Some(&ask.agent_id), ctx.settings.strict)?;
    let webhooks = &ctx.settings.webhooks;
    let judge = |url: &str| check_agent("endpoint", url, &webhooks.allowed, webhooks.https_only);
    ask.endpoint.as_deref().filter(|url| !url.is_empty()).map_or(Ok(()), judge)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let existing = find(work.conn(), &agent_id).await?;
    let agent = law_register(existing.as_ref(), ask, caller.principal(), work.now())?;
    save(work.conn(), &agent).await?;
    let payload = json!({
        "agent_id": agent_id, "principal_id": agent.principal_id, "role_id": agent.role_id,
        "capabilities": agent.capabilities, "renewed": existing.is_some(),
    });
    work.record(Draft::of(Kind::AgentRegistered, &agent_id, payload));
    let (conn, log) = work.parts();
    endpoints::follow_agent(conn, ctx, log, caller, &agent).await?;
    work.finish(agent).await
}

/// Returns an agent's record with its current status.
///
/// # Errors
/// The agent does not exist.
pub async fn get(ctx: &Ctx, caller: &Caller, agent_id: &str) -> Outcome<Agent> {
    caller.require(Scope::AgentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    let agent = find(&mut connection, agent_id).await?.ok_or_else(|| not_found("agent"))?;
    Ok(shown(ctx, agent))
}

/// Filters for listing agents.
#[derive(Debug, Clone, Default)]
pub struct AgentFilter {
    /// Only agents in this status.
    pub status: Option<AgentStatus>,
    /// Only agents with this role.
    pub role_id: Option<String>,
    /// Only agents after this id: the cursor.
    pub after: Option<String>,
    /// Maximum number of agents.
    pub limit: u32,
}

/// Lists agents in the order of their ids.
///
/// # Errors
/// The scope is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &AgentFilter) -> Outcome<Vec<Agent>> {
    caller.require(Scope::AgentsRead)?;
    let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    // A status filter reads full pages, however small the requested page is, because few rows may match.
    let step = if filter.status.is_some() { PAGE } else { filter.limit };
    let mut found = Vec::new();
    let mut after = filter.after.clone().unwrap_or_default();
    // The current status is computed in the domain and not in SQL, so rows are read until enough match.
    loop {
        let page = page(ctx, filter.role_id.as_deref(), &after, i64::from(step)).await?;
        let full = u32::try_from(page.len()).is_ok_and(|count| count == step);
        if let Some(last) = page.last() {
            after.clone_from(&last.agent_id);
        }
        let fitting = page.into_iter().map(|agent| shown(ctx, agent));
        found.extend(fitting.filter(|agent| filter.status.is_none_or(|status| agent.status == status)));
        if !full || found.len() >= limit {
            found.truncate(limit);
            return Ok(found);
        }
    }
}

/// Changes an agent's status, except to `deregistered`, which [`departures::deregister`] sets; setting
/// the current status changes nothing.
///
/// # Errors
/// The agent does not exist, the caller may not speak for it, or it has left.
pub async fn set_status(ctx: &Ctx, caller: &Caller, agent_id: &str, status: AgentStatus) -> Outcome<Agent> {
    require_keeper(ctx, caller, agent_id)?;
    let (mut tx, intents) = tasks::begin_with_agent(ctx, agent_id, status == AgentStatus::Dead).await?;
    let mut log = IntentLog::open(&mut tx, IntentId::SYSTEM, caller.trace, ctx.now()).await?;
    let mut agent = find(&mut tx, agent_id).await?.ok_or_else(|| not_found("agent"))?;
    ctx.beats.show(&mut agent);
    let next = agent.moved(status, log.now())?;
    if next.status == agent.status {
        return Ok(shown(ctx, agent));
    }
    if next.status == AgentStatus::Dead
        && !tasks::take_from(&mut tx, ctx, &intents, agent_id, &caller.agent).await?
    {
        let message = "The agent took a task at this very moment. Repeat the request.";
        return Err(refuse(Code::VersionConflict, message));
    }
    save(&mut tx, &next).await?;
    log.record(ctx, changed(&agent, &next, &caller.agent));
    log.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.notify_committed(IntentId::SYSTEM);
    intents.iter().for_each(|intent| ctx.feed.notify_committed(*intent));
    Ok(shown(ctx, next))
}

/// Builds the event of a status change.
pub(crate) fn changed(before: &Agent, after: &Agent, actor: &str) -> Draft {
    let kind = if after.status == AgentStatus::Dead { Kind::AgentDead } else { Kind::AgentStatusChanged };
    let payload =
        json!({ "agent_id": after.agent_id, "old_status": before.status, "new_status": after.status });
    Draft::of(kind, actor, payload)
}
