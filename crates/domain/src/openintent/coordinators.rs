//! Coordinators (RFC-0013): agents appointed to lead an intent, their heartbeats and their decisions.
//!
//! An appointment is for one agent in one role on one intent, and lasts while the agent sends heartbeats:
//! silent for two intervals it is unresponsive, and silent for three more it is given up and its role is
//! free. Both take effect the instant they are due ([`Coordinator::status_at`]); [`Coordinator::pass`] writes
//! them down (`course.rs`). Decisions are in `records.rs`, the enums in `words.rs`. The server assigns the
//! appointed agent to the intent; that assignment carries its rights on channels and tasks, and ends with the
//! appointment.

mod course;
mod records;
mod words;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::canonical::exact;
use crate::clock::Timestamp;
use crate::identity::principals::check_name;
use crate::ids::{CoordinatorId, IntentId};
use crate::limits::{BEAT_LEAST_SECONDS, BEAT_MOST_SECONDS, COORDINATOR_BYTES};
use crate::refusal::{Code, Refusal};

pub use crate::openintent::coordinators::records::{Decided, DecisionRecord, exceeded};
use crate::openintent::coordinators::words::OnExceed;
pub use crate::openintent::coordinators::words::{CoordinatorStatus, CoordinatorType, DecisionType};

/// The role of an assignment that lets an agent manage an intent's channels and tasks (RFC-0021 §5.3).
pub const ROLE: &str = "coordinator";
/// Seconds between two heartbeats by default (RFC-0013 §1.1).
pub const INTERVAL_SECONDS: u32 = 60;
/// An agent's appointment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Coordinator {
    /// The appointment's id.
    pub id: CoordinatorId,
    /// The intent.
    pub intent_id: IntentId,
    /// The appointed agent.
    pub agent_id: String,
    /// The role; unique per intent.
    pub role: String,
    /// The supervisor, which may pause the coordinator and change its guardrails, as the intent's admins may.
    pub supervisor_id: String,
    /// The principal that appointed it.
    pub appointed_by: String,
    /// The kind of coordinator.
    pub coordinator_type: CoordinatorType,
    /// The status as last written.
    pub status: CoordinatorStatus,
    /// The guardrails as given (RFC-0013 §3).
    pub guardrails: Option<Map<String, Value>>,
    /// Seconds between two of its heartbeats.
    pub heartbeat_seconds: u32,
    /// The start of its silence: its appointment, its last heartbeat or decision, or when it was resumed.
    pub heard_at: Timestamp,
    /// Its last heartbeat.
    pub last_heartbeat: Option<Timestamp>,
    /// When a heartbeat was last written to the log.
    pub logged_at: Option<Timestamp>,
    /// When it last decided something, or when that period was restarted.
    pub progress_at: Timestamp,
    /// When it was found to have stalled, that is to have decided nothing for too long.
    pub stalled_at: Option<Timestamp>,
    /// When it was appointed.
    pub granted_at: Timestamp,
    /// When the appointment ends at the latest.
    pub until: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// The agent's earlier role on the intent, if it was assigned before.
    pub role_before: Option<String>,
    /// An object defined by the client.
    pub metadata: Map<String, Value>,
    /// Rises with each change except heartbeats.
    pub version: i64,
}

/// Input for an appointment.
#[derive(Debug, Clone, Default)]
pub struct CoordinatorAsk {
    /// The agent to appoint.
    pub agent_id: String,
    /// The role; defaults to `coordinator`.
    pub role: Option<String>,
    /// The supervisor; defaults to the appointing principal.
    pub supervisor_id: Option<String>,
    /// The kind of coordinator.
    pub coordinator_type: CoordinatorType,
    /// The guardrails.
    pub guardrails: Option<Map<String, Value>>,
    /// Seconds between two heartbeats.
    pub heartbeat_seconds: Option<u32>,
    /// When the appointment ends at the latest.
    pub until: Option<Timestamp>,
    /// An object defined by the client.
    pub metadata: Map<String, Value>,
}

/// A change to a coordinator's guardrails.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Bound {
    /// They are unchanged.
    #[default]
    AsIs,
    /// They are removed.
    Free,
    /// They are replaced.
    By(Map<String, Value>),
}

/// Input for a change to an appointment; members that are `None` are unchanged.
#[derive(Debug, Clone, Default)]
pub struct CoordinatorChange {
    /// The new status: paused, active, completing or completed.
    pub status: Option<CoordinatorStatus>,
    /// The change to the guardrails.
    pub guardrails: Bound,
    /// Why.
    pub reason: Option<String>,
}

/// Appoints an agent.
///
/// # Errors
/// An invalid name, an interval or end out of range, or guardrails or metadata that are too large or
/// unreadable for a client.
pub fn appoint(
    ask: CoordinatorAsk,
    intent_id: IntentId,
    by: &str,
    id: CoordinatorId,
    now: Timestamp,
) -> Result<Coordinator, Refusal> {
    check_name("agent_id", &ask.agent_id)?;
    let role = ask.role.unwrap_or_else(|| ROLE.to_owned());
    check_name("role", &role)?;
    let supervisor_id = ask.supervisor_id.unwrap_or_else(|| by.to_owned());
    check_name("supervisor_id", &supervisor_id)?;
    let heartbeat_seconds = ask.heartbeat_seconds.unwrap_or(INTERVAL_SECONDS);
    if !(BEAT_LEAST_SECONDS..=BEAT_MOST_SECONDS).contains(&heartbeat_seconds) {
        let message = format!(
            "`heartbeat_interval_seconds` is from {BEAT_LEAST_SECONDS} to {BEAT_MOST_SECONDS} (a day): who is silent for \
             longer holds nothing."
        );
        let member = "heartbeat_interval_seconds";
        return Err(Refusal::field(Code::InvalidRequest, member, "out_of_range", message));
    }
    if ask.until.is_some_and(|until| until <= now) {
        let message = "`expires_at` lies in the past; the appointment would never count.";
        return Err(Refusal::field(Code::AlreadyExpired, "expires_at", "past", message));
    }
    ask.guardrails.as_ref().map_or(Ok(()), check_guardrails)?;
    check_object("metadata", &ask.metadata)?;
    Ok(Coordinator {
        id,
        intent_id,
        agent_id: ask.agent_id,
        role,
        supervisor_id,
        appointed_by: by.to_owned(),
        coordinator_type: ask.coordinator_type,
        status: CoordinatorStatus::Active,
        guardrails: ask.guardrails,
        heartbeat_seconds,
        heard_at: now,
        last_heartbeat: None,
        logged_at: None,
        progress_at: now,
        stalled_at: None,
        granted_at: now,
        until: ask.until,
        ended_at: None,
        role_before: None,
        metadata: ask.metadata,
        version: 1,
    })
}

fn check_object(member: &str, object: &Map<String, Value>) -> Result<(), Refusal> {
    object.values().try_for_each(exact)?;
    check_bytes(member, object)
}

fn check_bytes(member: &str, value: &impl Serialize) -> Result<(), Refusal> {
    let bytes = serde_json::to_string(value).map_or(0, |text| text.len());
    if bytes <= COORDINATOR_BYTES {
        return Ok(());
    }
    let message = format!("`{member}` has {bytes} bytes, at most {COORDINATOR_BYTES} are allowed.");
    Err(Refusal::field(Code::TooLarge, member, "too_large", message))
}

/// Guardrails are stored as given, except that members a client could not read (OI-3.7.1) or the server
/// could not enforce are refused.
fn check_guardrails(guardrails: &Map<String, Value>) -> Result<(), Refusal> {
    check_object("guardrails", guardrails)?;
    let wrong = |member: &str, what: &str| {
        let message = format!("`guardrails.{member}` must be {what}.");
        Err(Refusal::field(Code::InvalidRequest, "guardrails", "invalid", message))
    };
    let on_exceed = guardrails.get("on_exceed");
    if on_exceed.is_some_and(|said| said.as_str().and_then(OnExceed::parse).is_none()) {
        return wrong("on_exceed", "`pause`, `escalate`, `pause_and_escalate` or `fail`");
    }
    for member in ["max_plan_versions", "require_progress_every_minutes"] {
        let said = guardrails.get(member).filter(|said| !said.is_null());
        if said.is_some_and(|said| said.as_u64().is_none_or(|n| n == 0 || n > u64::from(u32::MAX / 60))) {
            return wrong(member, "a whole number from 1");
        }
    }
    Ok(())
}
