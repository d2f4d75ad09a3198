//! Agents' records (RFC-0016): registration, heartbeats, and how long a silent agent counts as healthy.
//!
//! Registration is optional: an agent may send and receive without a record (OI-9.1). A record gives it a
//! role to be addressed by, and heartbeat monitoring.

pub mod handovers;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::check_list;
use crate::clock::{Timestamp, plus_seconds};
use crate::identity::principals::check_name;
use crate::limits::{DURATION_SECONDS, METADATA_BYTES, URL_BYTES};
use crate::refusal::{Code, Refusal};

/// The stage of an agent's lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentStatus {
    /// Known, but not ready yet.
    Registering,
    /// Working.
    Active,
    /// Finishes its current work and takes nothing new.
    Draining,
    /// Silent for longer than `unhealthy_after_seconds`.
    Unhealthy,
    /// Silent for longer than `dead_after_seconds`; given up.
    Dead,
    /// Deregistered, on request or after draining.
    Deregistered,
}

impl AgentStatus {
    /// All variants.
    pub const ALL: [Self; 6] =
        [Self::Registering, Self::Active, Self::Draining, Self::Unhealthy, Self::Dead, Self::Deregistered];

    /// Returns the status's wire form.
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

    /// Parses a status's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether the agent has left: it must register again before its heartbeats are accepted.
    #[must_use]
    pub fn has_left(self) -> bool {
        matches!(self, Self::Dead | Self::Deregistered)
    }

    /// Whether messages to the agent's role reach it (RFC-0021 §4.2): a draining agent takes no new work.
    #[must_use]
    pub fn takes_work(self) -> bool {
        matches!(self, Self::Registering | Self::Active | Self::Unhealthy)
    }
}

/// The heartbeat interval, and how long silence is tolerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct HeartbeatConfig {
    /// Seconds between two heartbeats.
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
    /// The agent's id.
    pub agent_id: String,
    /// The principal whose key registered it.
    pub principal_id: String,
    /// The status as last written; see [`Agent::status_at`].
    pub status: AgentStatus,
    /// The role it can be addressed by.
    pub role_id: Option<String>,
    /// A display name.
    pub name: Option<String>,
    /// The agent's capabilities.
    pub capabilities: Vec<String>,
    /// The agent's capacity; an object defined by the client.
    pub capacity: Option<Map<String, Value>>,
    /// The address it can be reached at.
    pub endpoint: Option<String>,
    /// The promised heartbeats; `None` means that silence has no consequence.
    pub heartbeat_config: Option<HeartbeatConfig>,
    /// An object defined by the client.
    pub metadata: Map<String, Value>,
    /// When it last registered, which counts as a sign of life too.
    pub registered_at: Timestamp,
    /// When its last heartbeat arrived.
    pub last_heartbeat_at: Option<Timestamp>,
    /// The load reported with its last heartbeat.
    pub current_load: i64,
    /// The tasks in progress reported with its last heartbeat.
    pub tasks_in_progress: Vec<String>,
    /// Seconds that draining may take.
    pub drain_timeout_seconds: Option<u32>,
    /// When it began to drain.
    pub draining_since: Option<Timestamp>,
    /// Rises with each change of the record (but not with heartbeats).
    pub version: i64,
}

/// Input for a registration.
#[derive(Debug, Clone, Default)]
pub struct Registration {
    /// The agent's id.
    pub agent_id: String,
    /// The role to be addressed by.
    pub role_id: Option<String>,
    /// A display name.
    pub name: Option<String>,
    /// The agent's capabilities.
    pub capabilities: Vec<String>,
    /// The agent's capacity.
    pub capacity: Option<Map<String, Value>>,
    /// The address it can be reached at.
    pub endpoint: Option<String>,
    /// The promised heartbeats.
    pub heartbeat_config: Option<HeartbeatConfig>,
    /// An object defined by the client.
    pub metadata: Map<String, Value>,
    /// Seconds that draining may take.
    pub drain_timeout_seconds: Option<u32>,
}

/// Registers an agent, or renews its record: the same principal may do so at any time, another may not
/// (OI-9.2).
///
/// # Errors
/// [`Code::AlreadyRegistered`] for an agent of another principal; a member that is over its limit or
/// contradicts itself.
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
    // The server checks the destination (`egress::check_agent`), because it depends on its configuration.
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
    /// Returns the status at the given time.
    ///
    /// A silence that is long enough counts at once, whether or not a sweep has written it down yet.
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

    /// Accepts a heartbeat and returns the resulting status.
    ///
    /// # Errors
    /// [`Code::Gone`] for an agent that has left (RFC-0016): it must register again, so that it learns it was
    /// given up.
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

    /// Returns the record with another status.
    ///
    /// # Errors
    /// [`Code::Gone`] for an agent that has left; only registering again brings it back.
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
