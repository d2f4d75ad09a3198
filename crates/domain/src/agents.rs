//! Agents' records (RFC-0016): registration, heartbeats, and how long silence is taken for health.
//!
//! Registration is optional: an agent may send and receive without a record (contract 9). A record gives it a role to
//! be addressed by and a heart that is listened to.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::check_list;
use crate::clock::{Timestamp, plus_seconds};
use crate::limits::{DURATION_SECONDS, METADATA_BYTES, URL_BYTES};
use crate::principals::check_name;
use crate::refusal::{Code, Refusal};

/// Where an agent is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentStatus {
    /// Known, not ready yet.
    Registering,
    /// At work.
    Active,
    /// Finishes what it has and takes nothing new.
    Draining,
    /// Silent for longer than it said it would be.
    Unhealthy,
    /// Silent for so long that it is given up.
    Dead,
    /// Gone by its own wish.
    Deregistered,
}

impl AgentStatus {
    /// Every status.
    pub const ALL: [Self; 6] =
        [Self::Registering, Self::Active, Self::Draining, Self::Unhealthy, Self::Dead, Self::Deregistered];

    /// The status as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Registering => "registering",
            Self::Active => "active",
            Self::Draining => "draining",
            Self::Unhealthy => "unhealthy",
            Self::Dead => "dead",
            Self::Deregistered => "deregistered",
        }
    }

    /// Reads a status; `None` when there is no such status.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether the agent has left: it must register again before it is heard.
    #[must_use]
    pub fn has_left(self) -> bool {
        matches!(self, Self::Dead | Self::Deregistered)
    }

    /// Whether a message to its role reaches it (RFC-0021 §4.2): one that drains takes no new work.
    #[must_use]
    pub fn takes_work(self) -> bool {
        matches!(self, Self::Registering | Self::Active | Self::Unhealthy)
    }
}

/// How often a heart beats, and how long silence is borne.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct HeartbeatConfig {
    /// Seconds between two beats.
    pub interval_seconds: u32,
    /// Seconds of silence after which the agent counts as unhealthy.
    pub unhealthy_after_seconds: u32,
    /// Seconds of silence after which it counts as dead.
    pub dead_after_seconds: u32,
}

impl Default for HeartbeatConfig {
    fn default() -> Self {
        Self { interval_seconds: 30, unhealthy_after_seconds: 90, dead_after_seconds: 300 }
    }
}

/// An agent's record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// The id it acts under.
    pub agent_id: String,
    /// The principal whose key registered it.
    pub principal_id: String,
    /// Where it is in its life, as last written; see [`Agent::status_at`].
    pub status: AgentStatus,
    /// The role it can be addressed by.
    pub role_id: Option<String>,
    /// A name for people.
    pub name: Option<String>,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// What it can take on; the client's own object.
    pub capacity: Option<Map<String, Value>>,
    /// Where it can be reached.
    pub endpoint: Option<String>,
    /// What it promised about its heartbeats; none means that its silence says nothing.
    pub heartbeat_config: Option<HeartbeatConfig>,
    /// The client's own object.
    pub metadata: Map<String, Value>,
    /// When it last registered, which is a sign of life too.
    pub registered_at: Timestamp,
    /// When it was last heard.
    pub last_heartbeat_at: Option<Timestamp>,
    /// What it said it carries at its last beat.
    pub current_load: i64,
    /// The tasks that it said it works on at its last beat.
    pub tasks_in_progress: Vec<String>,
    /// Seconds that draining may take.
    pub drain_timeout_seconds: Option<u32>,
    /// When it began to drain.
    pub draining_since: Option<Timestamp>,
    /// Rises with each change of the record (not with beats).
    pub version: i64,
}

/// What is asked for in a registration.
#[derive(Debug, Clone, Default)]
pub struct Registration {
    /// The id to act under.
    pub agent_id: String,
    /// The role to be addressed by.
    pub role_id: Option<String>,
    /// A name for people.
    pub name: Option<String>,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// What it can take on.
    pub capacity: Option<Map<String, Value>>,
    /// Where it can be reached.
    pub endpoint: Option<String>,
    /// What it promises about its heartbeats.
    pub heartbeat_config: Option<HeartbeatConfig>,
    /// Its own object.
    pub metadata: Map<String, Value>,
    /// Seconds that draining may take.
    pub drain_timeout_seconds: Option<u32>,
}

/// Registers an agent, or renews its record: the same principal may do so at any time, another may not (contract 9).
///
/// # Errors
/// [`Code::AlreadyRegistered`] for another principal's agent; a member that is over its limit or contradicts itself.
pub fn register(
    existing: Option<&Agent>,
    ask: Registration,
    principal_id: &str,
    now: Timestamp,
) -> Result<Agent, Refusal> {
    check_registration(&ask)?;
    if existing.is_some_and(|agent| agent.principal_id != principal_id) {
        return Err(Refusal::new(
            Code::AlreadyRegistered,
            "This agent id belongs to another principal. Choose another id, or use that principal's key.",
        ));
    }
    let returning = existing.filter(|agent| !agent.status_at(now).has_left());
    Ok(Agent {
        agent_id: ask.agent_id,
        principal_id: principal_id.to_owned(),
        status: AgentStatus::Active,
        role_id: ask.role_id,
        name: ask.name,
        capabilities: ask.capabilities,
        capacity: ask.capacity,
        endpoint: ask.endpoint,
        heartbeat_config: ask.heartbeat_config,
        metadata: ask.metadata,
        registered_at: now,
        last_heartbeat_at: returning.and_then(|agent| agent.last_heartbeat_at),
        current_load: returning.map_or(0, |agent| agent.current_load),
        tasks_in_progress: returning.map_or_else(Vec::new, |agent| agent.tasks_in_progress.clone()),
        drain_timeout_seconds: ask.drain_timeout_seconds,
        draining_since: None,
        version: existing.map_or(1, |agent| agent.version + 1),
    })
}

fn check_registration(ask: &Registration) -> Result<(), Refusal> {
    check_name("agent_id", &ask.agent_id)?;
    if let Some(role) = &ask.role_id {
        check_name("role_id", role)?;
    }
    if let Some(name) = &ask.name {
        check_name("name", name)?;
    }
    check_list("capabilities", &ask.capabilities)?;
    // Where it may lead, only the server knows (`egress::check_agent`).
    let lawful = |text: &String| text.len() <= URL_BYTES && !text.chars().any(char::is_control);
    if !ask.endpoint.as_ref().is_none_or(lawful) {
        return Err(Refusal::field(
            Code::InvalidRequest,
            "endpoint",
            "url",
            format!("`endpoint` must be an address of at most {URL_BYTES} bytes without control characters."),
        ));
    }
    if let Some(beat) = ask.heartbeat_config {
        let rising = 0 < beat.interval_seconds
            && beat.interval_seconds <= beat.unhealthy_after_seconds
            && beat.unhealthy_after_seconds <= beat.dead_after_seconds
            && beat.dead_after_seconds <= DURATION_SECONDS;
        if !rising {
            return Err(Refusal::field(
                Code::Unprocessable,
                "heartbeat_config",
                "order",
                "`heartbeat_config` needs 0 < interval_seconds ≤ unhealthy_after_seconds ≤ dead_after_seconds ≤ ten years.",
            ));
        }
    }
    for (member, object) in [("capacity", ask.capacity.as_ref()), ("metadata", Some(&ask.metadata))] {
        let bytes = object.and_then(|object| serde_json::to_string(object).ok()).map_or(0, |text| text.len());
        if bytes > METADATA_BYTES {
            return Err(Refusal::field(
                Code::TooLarge,
                member,
                "too_large",
                format!("`{member}` has {bytes} bytes, at most {METADATA_BYTES} are allowed."),
            ));
        }
    }
    Ok(())
}

impl Agent {
    /// The status at this moment: a silence that is long enough counts the instant it is, whether or not a sweep has
    /// written it down yet.
    #[must_use]
    pub fn status_at(&self, now: Timestamp) -> AgentStatus {
        let Some(beat) =
            self.heartbeat_config.or_else(|| self.last_heartbeat_at.map(|_| HeartbeatConfig::default()))
        else {
            return self.status;
        };
        if self.status.has_left() {
            return self.status;
        }
        let heard = self.last_heartbeat_at.map_or(self.registered_at, |beat| beat.max(self.registered_at));
        if now >= plus_seconds(heard, beat.dead_after_seconds) {
            AgentStatus::Dead
        } else if now >= plus_seconds(heard, beat.unhealthy_after_seconds)
            && self.status == AgentStatus::Active
        {
            AgentStatus::Unhealthy
        } else {
            self.status
        }
    }

    /// Whether draining has taken as long as it may.
    #[must_use]
    pub fn drained(&self, now: Timestamp) -> bool {
        match (self.status, self.draining_since, self.drain_timeout_seconds) {
            (AgentStatus::Draining, Some(since), Some(seconds)) => now >= plus_seconds(since, seconds),
            _ => false,
        }
    }

    /// When the next heartbeat is due.
    #[must_use]
    pub fn next_heartbeat_at(&self, now: Timestamp) -> Timestamp {
        plus_seconds(now, self.heartbeat_config.unwrap_or_default().interval_seconds)
    }

    /// Hears a heartbeat: the status that follows.
    ///
    /// # Errors
    /// [`Code::Gone`] for one that has left (RFC-0016): it must register again, so that it knows it was given up.
    pub fn beat(&self, now: Timestamp) -> Result<AgentStatus, Refusal> {
        match self.status_at(now) {
            left @ (AgentStatus::Dead | AgentStatus::Deregistered) => Err(Refusal::new(
                Code::Gone,
                format!("This agent is {}. Register it again before it sends heartbeats.", left.as_str()),
            )),
            AgentStatus::Draining => Ok(AgentStatus::Draining),
            AgentStatus::Registering | AgentStatus::Active | AgentStatus::Unhealthy => {
                Ok(AgentStatus::Active)
            }
        }
    }

    /// The record in another status.
    ///
    /// # Errors
    /// [`Code::Gone`] for one that has left; only registering brings it back.
    pub fn moved(&self, status: AgentStatus, now: Timestamp) -> Result<Self, Refusal> {
        let current = self.status_at(now);
        if current.has_left() && status != current {
            return Err(Refusal::new(
                Code::Gone,
                format!("This agent is {}. Register it again to bring it back.", current.as_str()),
            ));
        }
        let draining_since = match (status, self.draining_since) {
            (AgentStatus::Draining, since) => Some(since.unwrap_or(now)),
            _ => None,
        };
        Ok(Self { status, draining_since, version: self.version + 1, ..self.clone() })
    }
}
