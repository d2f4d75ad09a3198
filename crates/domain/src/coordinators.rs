//! Coordinators (RFC-0013): who is appointed to lead an intent, for how long silence is borne, and what it has decided.
//!
//! An appointment is for one agent in one role on one intent. It holds while the agent beats: silent for two intervals it is
//! unresponsive, and silent for three more it is given up and its place is free. Both are true the instant they are due
//! ([`Coordinator::status_at`]); [`Coordinator::pass`] writes them down (`course.rs`). What it decides is `records.rs`, its words
//! `words.rs`. What an appointment lets an agent do with channels and tasks comes with the assignment that the server makes of
//! it, and goes with that.

mod course;
mod records;
mod words;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::canonical::exact;
use crate::clock::Timestamp;
use crate::ids::{CoordinatorId, IntentId};
use crate::limits::{BEAT_LEAST_SECONDS, BEAT_MOST_SECONDS, COORDINATOR_BYTES};
use crate::principals::check_name;
use crate::refusal::{Code, Refusal};

pub use self::records::{Decided, DecisionRecord, exceeded};
use self::words::OnExceed;
pub use self::words::{CoordinatorStatus, CoordinatorType, DecisionType};

/// The role of an assignment that lets an agent manage an intent's channels and tasks (RFC-0021 §5.3).
pub const ROLE: &str = "coordinator";
/// Seconds between two heartbeats when nothing is said (RFC-0013 §1.1).
pub const INTERVAL_SECONDS: u32 = 60;
/// An agent's appointment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Coordinator {
    /// Its id.
    pub id: CoordinatorId,
    /// The intent.
    pub intent_id: IntentId,
    /// Who is appointed.
    pub agent_id: String,
    /// As what: one per intent and role.
    pub role: String,
    /// Who may have it rest and change what it is bound by, besides the intent's admins.
    pub supervisor_id: String,
    /// Who appointed it.
    pub appointed_by: String,
    /// What it is.
    pub coordinator_type: CoordinatorType,
    /// Where it stood when that was last written down.
    pub status: CoordinatorStatus,
    /// What it is bound by, as given (RFC-0013 §3).
    pub guardrails: Option<Map<String, Value>>,
    /// Seconds between two of its heartbeats.
    pub heartbeat_seconds: u32,
    /// Since when its silence counts: its appointment, its last heartbeat, or when it was told to go on.
    pub heard_at: Timestamp,
    /// Its last heartbeat.
    pub last_heartbeat: Option<Timestamp>,
    /// When its last heartbeat was told on the log.
    pub logged_at: Option<Timestamp>,
    /// Since when it has decided nothing.
    pub progress_at: Timestamp,
    /// When it was told that it decides nothing.
    pub stalled_at: Option<Timestamp>,
    /// When it was appointed.
    pub granted_at: Timestamp,
    /// Until when at the latest.
    pub until: Option<Timestamp>,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
    /// As what the agent was assigned to the intent before.
    pub role_before: Option<String>,
    /// The client's own.
    pub metadata: Map<String, Value>,
    /// Rises with each change but heartbeats.
    pub version: i64,
}

/// What is asked for in an appointment.
#[derive(Debug, Clone, Default)]
pub struct CoordinatorAsk {
    /// Who is to be appointed.
    pub agent_id: String,
    /// As what; `coordinator` when nothing is said.
    pub role: Option<String>,
    /// Who oversees it; who appoints it when nothing is said.
    pub supervisor_id: Option<String>,
    /// What it is.
    pub coordinator_type: CoordinatorType,
    /// What it is bound by.
    pub guardrails: Option<Map<String, Value>>,
    /// Seconds between two heartbeats.
    pub heartbeat_seconds: Option<u32>,
    /// Until when at the latest.
    pub until: Option<Timestamp>,
    /// The client's own.
    pub metadata: Map<String, Value>,
}

/// What is to become of what a coordinator is bound by.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Bound {
    /// It stays.
    #[default]
    AsIs,
    /// Nothing binds it any more.
    Free,
    /// This does.
    By(Map<String, Value>),
}

/// What is to be changed of an appointment; `None` stays.
#[derive(Debug, Clone, Default)]
pub struct CoordinatorChange {
    /// Rest, go on, finish, done.
    pub status: Option<CoordinatorStatus>,
    /// What it is bound by.
    pub guardrails: Bound,
    /// Why.
    pub reason: Option<String>,
}

/// Appoints an agent.
///
/// # Errors
/// A name that is none, an interval or end out of range, guardrails or metadata that are too large or that a client cannot read.
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

/// Guardrails are kept as given, but for what would stop a client from reading them (contract 3.7), and for what is enforced.
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
