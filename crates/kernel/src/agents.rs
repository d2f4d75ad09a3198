//! The directory of agents (RFC-0016): registration, records, status. Owns the table `agents`; heartbeats are
//! in `heartbeats.rs`, departures in `departures.rs`.

use entente_domain::clock::Timestamp;
use entente_domain::egress::check_agent;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::limits::PAGE;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::agents::{
    Agent, AgentStatus, HeartbeatConfig, Registration, register as law_register,
};
use entente_domain::refusal::Code;
use serde_json::json;
use sqlx::PgConnection;

use super::heartbeats::Beat;
use super::{AppError, Caller, Ctx, Outcome, idempotency, not_found, refuse, unknown};
use crate::log::writer::IntentLog;
use crate::openintent::tasks;
use crate::webhooks::endpoints;

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
    let mut tx = ctx.begin_once(&[IntentId::SYSTEM], caller, once).await?;
    if let Some(done) = idempotency::find(&mut tx, caller, once).await? {
        return Ok(done);
    }
    let mut log = IntentLog::open(&mut tx, IntentId::SYSTEM, caller.trace, ctx.now()).await?;
    let now = log.now();
    let existing = find(&mut tx, &agent_id).await?;
    let agent = law_register(existing.as_ref(), ask, caller.principal(), now)?;
    save(&mut tx, &agent).await?;
    let payload = json!({
        "agent_id": agent_id, "principal_id": agent.principal_id, "role_id": agent.role_id,
        "capabilities": agent.capabilities, "renewed": existing.is_some(),
    });
    log.record(ctx, Draft::of(Kind::AgentRegistered, &agent_id, payload));
    endpoints::follow_agent(&mut tx, ctx, &mut log, caller, &agent).await?;
    log.save(&mut tx).await?;
    idempotency::keep(&mut tx, caller, once, &agent, now).await?;
    tx.commit().await?;
    ctx.feed.notify_committed(IntentId::SYSTEM);
    Ok(agent)
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

/// Returns the record with unwritten heartbeats and its current status.
pub(crate) fn shown(ctx: &Ctx, mut agent: Agent) -> Agent {
    ctx.beats.show(&mut agent);
    agent.status = agent.status_at(ctx.now());
    agent
}

/// Changes an agent's status, except to `deregistered`, which [`super::departures::deregister`] sets; setting
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

/// Requires that the caller may manage an agent: it may act as it, or is an admin.
pub(crate) fn require_keeper(ctx: &Ctx, caller: &Caller, agent_id: &str) -> Outcome<()> {
    caller.require(Scope::AgentsWrite)?;
    if !caller.has(Scope::Admin) {
        caller.speaker("agent_id", Some(agent_id), ctx.settings.strict)?;
    }
    Ok(())
}

/// Builds the event of a status change.
pub(crate) fn changed(before: &Agent, after: &Agent, actor: &str) -> Draft {
    let kind = if after.status == AgentStatus::Dead { Kind::AgentDead } else { Kind::AgentStatusChanged };
    let payload =
        json!({ "agent_id": after.agent_id, "old_status": before.status, "new_status": after.status });
    Draft::of(kind, actor, payload)
}

pub(crate) struct Row {
    agent_id: String,
    principal_id: String,
    status: String,
    role_id: Option<String>,
    name: Option<String>,
    capabilities: Vec<String>,
    capacity: Option<String>,
    endpoint: Option<String>,
    interval_seconds: Option<i32>,
    unhealthy_after_seconds: Option<i32>,
    dead_after_seconds: Option<i32>,
    metadata: String,
    registered_at: Timestamp,
    last_heartbeat_at: Option<Timestamp>,
    current_load: i64,
    tasks_in_progress: Vec<String>,
    drain_timeout_seconds: Option<i32>,
    draining_since: Option<Timestamp>,
    version: i64,
}

impl TryFrom<Row> for Agent {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let seconds =
            |n: i32| u32::try_from(n).map_err(|_too_large| unknown("number of seconds", &n.to_string()));
        let heartbeat_config =
            match (row.interval_seconds, row.unhealthy_after_seconds, row.dead_after_seconds) {
                (Some(interval), Some(unhealthy), Some(dead)) => Some(HeartbeatConfig {
                    interval_seconds: seconds(interval)?,
                    unhealthy_after_seconds: seconds(unhealthy)?,
                    dead_after_seconds: seconds(dead)?,
                }),
                _ => None,
            };
        Ok(Self {
            status: AgentStatus::parse(&row.status).ok_or_else(|| unknown("agent status", &row.status))?,
            agent_id: row.agent_id,
            principal_id: row.principal_id,
            role_id: row.role_id,
            name: row.name,
            capabilities: row.capabilities,
            capacity: row.capacity.as_deref().map(serde_json::from_str).transpose()?,
            endpoint: row.endpoint,
            heartbeat_config,
            metadata: serde_json::from_str(&row.metadata)?,
            registered_at: row.registered_at,
            last_heartbeat_at: row.last_heartbeat_at,
            current_load: row.current_load,
            tasks_in_progress: row.tasks_in_progress,
            drain_timeout_seconds: row.drain_timeout_seconds.map(seconds).transpose()?,
            draining_since: row.draining_since,
            version: row.version,
        })
    }
}

/// Loads an agent as stored.
pub(crate) async fn find(conn: &mut PgConnection, agent_id: &str) -> Outcome<Option<Agent>> {
    let row = sqlx::query_as!(
        Row,
        "-- agents::find
         SELECT agent_id, principal_id, status, role_id, name, capabilities, capacity, endpoint, interval_seconds,
                unhealthy_after_seconds, dead_after_seconds, metadata, registered_at, last_heartbeat_at, current_load,
                tasks_in_progress, drain_timeout_seconds, draining_since, version
         FROM agents WHERE agent_id = $1",
        agent_id
    )
    .fetch_optional(conn)
    .await?;
    row.map(Agent::try_from).transpose()
}

/// Locks an agent's record, if it has one, until the transaction ends: operations that assign work to the
/// agent and operations that take all of its work away see each other's changes.
pub(crate) async fn hold(conn: &mut PgConnection, agent_id: &str) -> Outcome<()> {
    sqlx::query!(
        "-- agents::hold\n SELECT 1 AS one FROM agents WHERE agent_id = $1 FOR NO KEY UPDATE",
        agent_id
    )
    .fetch_optional(conn)
    .await?;
    Ok(())
}

/// Loads the agents with one of these roles, as stored.
pub(crate) async fn holding(conn: &mut PgConnection, roles: &[&str]) -> Outcome<Vec<Agent>> {
    let rows = sqlx::query_as!(
        Row,
        "-- agents::holding
         SELECT agent_id, principal_id, status, role_id, name, capabilities, capacity, endpoint, interval_seconds,
                unhealthy_after_seconds, dead_after_seconds, metadata, registered_at, last_heartbeat_at, current_load,
                tasks_in_progress, drain_timeout_seconds, draining_since, version
         FROM agents WHERE role_id = ANY($1) AND status NOT IN ('dead', 'deregistered') ORDER BY agent_id",
        roles as &[&str]
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Agent::try_from).collect()
}

/// Loads a page of agents in the order of their ids, as stored.
pub(crate) async fn page(ctx: &Ctx, role_id: Option<&str>, after: &str, limit: i64) -> Outcome<Vec<Agent>> {
    let rows = sqlx::query_as!(
        Row,
        "-- agents::page
         SELECT agent_id, principal_id, status, role_id, name, capabilities, capacity, endpoint, interval_seconds,
                unhealthy_after_seconds, dead_after_seconds, metadata, registered_at, last_heartbeat_at, current_load,
                tasks_in_progress, drain_timeout_seconds, draining_since, version
         FROM agents WHERE agent_id > $1 AND ($2::text IS NULL OR role_id = $2) ORDER BY agent_id LIMIT $3",
        after,
        role_id,
        limit
    )
    .fetch_all(&ctx.pool)
    .await?;
    rows.into_iter().map(Agent::try_from).collect()
}

/// Inserts or updates a record.
pub(crate) async fn save(conn: &mut PgConnection, agent: &Agent) -> Outcome<()> {
    let seconds = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let beat = agent.heartbeat_config;
    sqlx::query!(
        "-- agents::save
         INSERT INTO agents (agent_id, principal_id, status, role_id, name, capabilities, capacity, endpoint,
                             interval_seconds, unhealthy_after_seconds, dead_after_seconds, metadata, registered_at,
                             last_heartbeat_at, current_load, tasks_in_progress, drain_timeout_seconds, draining_since,
                             version)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
         ON CONFLICT (agent_id) DO UPDATE SET principal_id = excluded.principal_id, status = excluded.status,
             role_id = excluded.role_id, name = excluded.name, capabilities = excluded.capabilities,
             capacity = excluded.capacity, endpoint = excluded.endpoint, interval_seconds = excluded.interval_seconds,
             unhealthy_after_seconds = excluded.unhealthy_after_seconds,
             dead_after_seconds = excluded.dead_after_seconds, metadata = excluded.metadata,
             registered_at = excluded.registered_at, last_heartbeat_at = excluded.last_heartbeat_at,
             current_load = excluded.current_load, tasks_in_progress = excluded.tasks_in_progress,
             drain_timeout_seconds = excluded.drain_timeout_seconds, draining_since = excluded.draining_since,
             version = excluded.version",
        agent.agent_id,
        agent.principal_id,
        agent.status.as_str(),
        agent.role_id,
        agent.name,
        &agent.capabilities,
        agent.capacity.as_ref().map(serde_json::to_string).transpose()?,
        agent.endpoint,
        beat.map(|beat| seconds(beat.interval_seconds)),
        beat.map(|beat| seconds(beat.unhealthy_after_seconds)),
        beat.map(|beat| seconds(beat.dead_after_seconds)),
        serde_json::to_string(&agent.metadata)?,
        agent.registered_at,
        agent.last_heartbeat_at,
        agent.current_load,
        &agent.tasks_in_progress,
        agent.drain_timeout_seconds.map(seconds),
        agent.draining_since,
        agent.version
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes heartbeats, unless a newer one is already stored; returns the number of rows updated.
pub(crate) async fn save_beats(ctx: &Ctx, ids: &[&str], beats: &[&Beat]) -> Outcome<u64> {
    let done = sqlx::query!(
        r"-- agents::save_beats
         UPDATE agents SET last_heartbeat_at = u.at, current_load = u.load,
                tasks_in_progress = coalesce(string_to_array(nullif(u.tasks, ''), E'\x1f'), '{}')
         FROM UNNEST($1::text[], $2::timestamptz[], $3::bigint[], $4::text[]) AS u (agent_id, at, load, tasks)
         WHERE agents.agent_id = u.agent_id
           AND (agents.last_heartbeat_at IS NULL OR agents.last_heartbeat_at < u.at)",
        ids as &[&str],
        &beats.iter().map(|beat| beat.at).collect::<Vec<_>>(),
        &beats.iter().map(|beat| beat.current_load).collect::<Vec<_>>(),
        &beats.iter().map(|beat| beat.tasks_in_progress.join("\u{1f}")).collect::<Vec<_>>()
    )
    .execute(&ctx.pool)
    .await?;
    Ok(done.rows_affected())
}

/// Loads the agents whose stored heartbeats are old enough that their status may have changed.
pub(crate) async fn suspects(pool: &sqlx::PgPool, now: Timestamp, limit: i64) -> Outcome<Vec<Agent>> {
    let rows = sqlx::query_as!(
        Row,
        "-- agents::suspects
         SELECT agent_id, principal_id, status, role_id, name, capabilities, capacity, endpoint, interval_seconds,
                unhealthy_after_seconds, dead_after_seconds, metadata, registered_at, last_heartbeat_at, current_load,
                tasks_in_progress, drain_timeout_seconds, draining_since, version
         FROM agents
         WHERE status IN ('registering', 'active', 'unhealthy', 'draining')
           AND (interval_seconds IS NOT NULL OR last_heartbeat_at IS NOT NULL)
           AND greatest(last_heartbeat_at, registered_at) + make_interval(secs => CASE status
                   WHEN 'active' THEN coalesce(unhealthy_after_seconds, 90)
                   ELSE coalesce(dead_after_seconds, 300) END) <= $1
         ORDER BY agent_id LIMIT $2",
        now,
        limit
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(Agent::try_from).collect()
}

/// Returns the draining agents whose drain timeout has passed.
pub(crate) async fn drained(pool: &sqlx::PgPool, now: Timestamp, limit: i64) -> Outcome<Vec<String>> {
    let ids = sqlx::query_scalar!(
        "-- agents::drained
         SELECT agent_id FROM agents
         WHERE status = 'draining' AND draining_since + make_interval(secs => drain_timeout_seconds) <= $1
         ORDER BY agent_id LIMIT $2",
        now,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(ids)
}
