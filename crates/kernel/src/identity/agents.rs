//! Records of agents (RFC-0016): table `agents`, and the heartbeats that are not written yet. OpenIntent registers
//! agents and changes their status.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::openintent::agents::{Agent, AgentStatus, HeartbeatConfig};
use sqlx::PgConnection;

use crate::{AppError, Caller, Ctx, Outcome, unknown};

/// Content of an agent's last heartbeat.
#[derive(Debug, Clone)]
pub struct Beat {
    /// Current load.
    pub current_load: i64,
    /// Tasks in progress.
    pub tasks_in_progress: Vec<String>,
    /// Time of receipt.
    pub at: Timestamp,
}

/// Heartbeats received and not yet written.
#[derive(Debug, Default)]
pub struct Beats(Mutex<HashMap<String, Beat>>);

impl Beats {
    /// Keeps a heartbeat until it is written.
    pub fn put(&self, agent: &str, beat: Beat) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(agent.to_owned(), beat);
    }

    /// Returns the heartbeats that are not written yet.
    pub fn all(&self) -> HashMap<String, Beat> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Drops the written heartbeats, unless a newer one of the same agent has arrived.
    pub fn written(&self, written: &HashMap<String, Beat>) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|agent, beat| written.get(agent).is_none_or(|written| written.at != beat.at));
    }

    /// Applies an unwritten heartbeat to an agent record.
    pub fn show(&self, agent: &mut Agent) {
        if let Some(beat) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&agent.agent_id) {
            agent.last_heartbeat_at = agent.last_heartbeat_at.max(Some(beat.at));
            agent.current_load = beat.current_load;
            agent.tasks_in_progress.clone_from(&beat.tasks_in_progress);
        }
    }
}

/// Returns the record with unwritten heartbeats and its current status.
#[must_use]
pub fn shown(ctx: &Ctx, mut agent: Agent) -> Agent {
    ctx.beats.show(&mut agent);
    agent.status = agent.status_at(ctx.now());
    agent
}

/// Requires that the caller may manage an agent: it may act as it, or is an admin.
///
/// # Errors
/// The caller lacks the scope `agents:write`, or may not act as the agent.
pub fn require_keeper(ctx: &Ctx, caller: &Caller, agent_id: &str) -> Outcome<()> {
    caller.require(Scope::AgentsWrite)?;
    if !caller.has(Scope::Admin) {
        caller.speaker("agent_id", Some(agent_id), ctx.settings.strict)?;
    }
    Ok(())
}

struct Row {
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

/// Loads whole agents: takes the query's name and the text after `FROM agents`.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT agent_id, principal_id, status, role_id, name, capabilities, capacity, endpoint, interval_seconds,
                    unhealthy_after_seconds, dead_after_seconds, metadata, registered_at, last_heartbeat_at,
                    current_load, tasks_in_progress, drain_timeout_seconds, draining_since, version
             FROM agents " + $rest
            $(, $argument)*
        )
    };
}

/// Loads an agent as stored.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn find(conn: &mut PgConnection, agent_id: &str) -> Outcome<Option<Agent>> {
    let row = select!("agents::find", "WHERE agent_id = $1", agent_id).fetch_optional(conn).await?;
    row.map(Agent::try_from).transpose()
}

/// Locks an agent's record, if it has one, until the transaction ends, and returns it as stored: operations that assign
/// work to the agent and operations that take all of its work away see each other's changes.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn hold(conn: &mut PgConnection, agent_id: &str) -> Outcome<Option<Agent>> {
    let row = select!("agents::hold", "WHERE agent_id = $1 FOR NO KEY UPDATE", agent_id);
    row.fetch_optional(conn).await?.map(Agent::try_from).transpose()
}

/// As [`hold`], for several agents: their records are locked in one order, so that two transactions never wait for each
/// other.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn hold_all(conn: &mut PgConnection, agents: &[&str]) -> Outcome<Vec<Agent>> {
    if agents.is_empty() {
        return Ok(Vec::new());
    }
    let rows = select!(
        "agents::hold_all",
        "WHERE agent_id = ANY($1) ORDER BY agent_id FOR NO KEY UPDATE",
        agents as &[&str]
    );
    rows.fetch_all(conn).await?.into_iter().map(Agent::try_from).collect()
}

/// Loads the agents with one of these roles, as stored.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn holding(conn: &mut PgConnection, roles: &[&str]) -> Outcome<Vec<Agent>> {
    let rows = select!(
        "agents::holding",
        "WHERE role_id = ANY($1) AND status NOT IN ('dead', 'deregistered') ORDER BY agent_id",
        roles as &[&str]
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Agent::try_from).collect()
}

/// Loads a page of agents in the order of their ids, as stored.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn page(ctx: &Ctx, role_id: Option<&str>, after: &str, limit: i64) -> Outcome<Vec<Agent>> {
    let rows = select!(
        "agents::page",
        "WHERE agent_id > $1 AND ($2::text IS NULL OR role_id = $2) ORDER BY agent_id LIMIT $3",
        after,
        role_id,
        limit
    )
    .fetch_all(&ctx.pool)
    .await?;
    rows.into_iter().map(Agent::try_from).collect()
}

/// Inserts or updates a record.
///
/// # Errors
/// A database error.
pub async fn save(conn: &mut PgConnection, agent: &Agent) -> Outcome<()> {
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
///
/// # Errors
/// A database error.
pub async fn save_beats(ctx: &Ctx, ids: &[&str], beats: &[&Beat]) -> Outcome<u64> {
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
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn suspects(pool: &crate::Pool, now: Timestamp, limit: i64) -> Outcome<Vec<Agent>> {
    let rows = select!(
        "agents::suspects",
        "WHERE status IN ('registering', 'active', 'unhealthy', 'draining')
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
///
/// # Errors
/// A database error.
pub async fn drained(pool: &crate::Pool, now: Timestamp, limit: i64) -> Outcome<Vec<String>> {
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
