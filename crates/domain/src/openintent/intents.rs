//! Intents (RFC-0001): a goal with a state, a status and a version.
//!
//! An intent is determined by its log: [`replay`] rebuilds it from its events, to verify exports, and to
//! obtain the state before and after a patch for a stream that fell behind.

pub mod export;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::clock::Timestamp;
use crate::ids::IntentId;
use crate::limits::{DEPENDENCIES, TEXT_BYTES, TITLE_BYTES};
use crate::log::events::{Event, Kind};
use crate::openintent::governance::GovernancePolicy;
use crate::openintent::patch;
use crate::openintent::patch::Change;
use crate::refusal::{Code, Refusal};

/// The member of a state that contains the question of a suspended intent (RFC-0025).
pub const SUSPENSION: &str = "_suspension";

/// The stage of an intent's lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IntentStatus {
    /// Written down, not started.
    Draft,
    /// Being worked on.
    Active,
    /// Waiting for something.
    Blocked,
    /// Waiting for a person (RFC-0025).
    SuspendedAwaitingInput,
    /// The goal is reached.
    Completed,
    /// The goal is given up.
    Abandoned,
}

impl IntentStatus {
    /// All variants.
    pub const ALL: [Self; 6] = [
        Self::Draft,
        Self::Active,
        Self::Blocked,
        Self::SuspendedAwaitingInput,
        Self::Completed,
        Self::Abandoned,
    ];

    /// Returns the status's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Active => "active",
            Self::Blocked => "blocked",
            Self::SuspendedAwaitingInput => "suspended_awaiting_input",
            Self::Completed => "completed",
            Self::Abandoned => "abandoned",
        }
    }

    /// Parses a status's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether the intent is resolved: its channels close and its pending messages expire (RFC-0021 §7.1).
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Abandoned)
    }

    /// Whether RFC-0001's state machine has this transition (OI-5.4.2, strict).
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Draft => matches!(next, Self::Active | Self::Abandoned),
            Self::Active => {
                matches!(
                    next,
                    Self::Blocked | Self::SuspendedAwaitingInput | Self::Completed | Self::Abandoned
                )
            }
            Self::Blocked | Self::SuspendedAwaitingInput => matches!(next, Self::Active | Self::Abandoned),
            Self::Completed | Self::Abandoned => false,
        }
    }
}

/// An intent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// The intent's id.
    pub id: IntentId,
    /// The goal in a line.
    pub title: String,
    /// The goal in full.
    pub description: String,
    /// The agent that created it.
    pub created_by: String,
    /// The parent intent (RFC-0002).
    pub parent_id: Option<IntentId>,
    /// The intents it depends on (RFC-0002).
    pub depends_on: Vec<IntentId>,
    /// The constraints on the work; an object defined by the client.
    pub constraints: Map<String, Value>,
    /// The state, changed by patches.
    pub state: Map<String, Value>,
    /// The status.
    pub status: IntentStatus,
    /// The agents' confidence, 0 to 1.
    pub confidence: f64,
    /// Rises by one with each change of state, status, dependencies or governance policy; guards writes (`If-Match`).
    pub version: i64,
    /// The governance policy (RFC-0013) as its author wrote it; [`crate::openintent::governance`] interprets it.
    pub governance_policy: Option<Map<String, Value>>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Input for a new intent.
#[derive(Debug, Clone)]
pub struct IntentAsk {
    /// The goal in a line.
    pub title: String,
    /// The goal in full.
    pub description: String,
    /// The parent intent.
    pub parent_id: Option<IntentId>,
    /// The intents it depends on.
    pub depends_on: Vec<IntentId>,
    /// The constraints on the work.
    pub constraints: Map<String, Value>,
    /// The initial state.
    pub state: Map<String, Value>,
    /// The initial status.
    pub status: IntentStatus,
    /// The client's governance policy.
    pub governance_policy: Option<Map<String, Value>>,
}

/// Creates an intent.
///
/// # Errors
/// A missing or too long title, a description, state or list over its limit, or a terminal status.
pub fn create(ask: IntentAsk, created_by: &str, id: IntentId, now: Timestamp) -> Result<Intent, Refusal> {
    let fault = |member: &str, kind: &str, message: String| {
        Err(Refusal::field(Code::InvalidRequest, member, kind, message))
    };
    if ask.title.trim().is_empty() || ask.title.len() > TITLE_BYTES {
        return fault("title", "length", format!("`title` must have 1 to {TITLE_BYTES} bytes."));
    }
    if ask.description.len() > TEXT_BYTES {
        return fault("description", "too_long", format!("`description` has at most {TEXT_BYTES} bytes."));
    }
    check_dependencies(&ask.depends_on)?;
    if ask.state.contains_key(SUSPENSION) {
        // Without a question having been asked, it could never be answered or removed.
        let message = format!("`state` begins without `{SUSPENSION}`; suspend the intent once it is there.");
        return fault("state", "reserved", message);
    }
    if ask.status.is_terminal() {
        return fault("status", "terminal", "An intent cannot begin completed or abandoned.".to_owned());
    }
    for object in
        [Some(&ask.constraints), Some(&ask.state), ask.governance_policy.as_ref()].into_iter().flatten()
    {
        patch::check_size(object)?;
        object.values().try_for_each(crate::canonical::exact)?;
    }
    let mut seen = HashSet::new();
    let depends_on = ask.depends_on.into_iter().filter(|id| seen.insert(*id)).collect();
    ask.governance_policy.as_ref().map(GovernancePolicy::read).transpose()?;
    Ok(Intent {
        id,
        title: ask.title,
        description: ask.description,
        created_by: created_by.to_owned(),
        parent_id: ask.parent_id,
        depends_on,
        constraints: ask.constraints,
        state: ask.state,
        status: ask.status,
        confidence: 0.0,
        version: 1,
        governance_policy: ask.governance_policy,
        created_at: now,
        updated_at: now,
    })
}

/// Checks the number of requested dependencies, before any of them is looked up.
///
/// # Errors
/// More than [`DEPENDENCIES`].
pub fn check_dependencies(asked: &[IntentId]) -> Result<(), Refusal> {
    if asked.len() <= DEPENDENCIES {
        return Ok(());
    }
    let message = format!("`depends_on` has at most {DEPENDENCIES} intents.");
    Err(Refusal::field(Code::InvalidRequest, "depends_on", "too_long", message))
}

impl Intent {
    /// Requires that the caller has seen the current version.
    ///
    /// # Errors
    /// [`Code::VersionConflict`] with the current version.
    pub fn require_version(&self, seen: i64) -> Result<(), Refusal> {
        if seen == self.version { Ok(()) } else { Err(Refusal::version_conflict(self.version)) }
    }

    /// Returns the intent with its state changed; even an empty list of patches makes a version (OI-5.3.3).
    ///
    /// # Errors
    /// As [`patch::apply`]; numbers that do not survive hashing.
    pub fn patched(&self, change: &Change, now: Timestamp) -> Result<Self, Refusal> {
        match change {
            Change::Patches { patches } => {
                patches.iter().try_for_each(|p| crate::canonical::exact(&p.value))?;
            }
            Change::Merge { state } => state.values().try_for_each(crate::canonical::exact)?,
        }
        let state = patch::apply(&self.state, change)?;
        Ok(Self { state, version: self.version + 1, updated_at: now, ..self.clone() })
    }

    /// Returns the intent with another status; if `strict`, RFC-0001's state machine must permit it.
    ///
    /// # Errors
    /// [`Code::InvalidTransition`] in strict mode.
    pub fn moved(&self, status: IntentStatus, strict: bool, now: Timestamp) -> Result<Self, Refusal> {
        if strict && !self.status.may_become(status) {
            return Err(Refusal::new(
                Code::InvalidTransition,
                format!("An intent that is {} cannot become {}.", self.status.as_str(), status.as_str()),
            ));
        }
        Ok(Self { status, version: self.version + 1, updated_at: now, ..self.clone() })
    }
}

impl Intent {
    /// Returns the intent with another governance policy, or without one.
    #[must_use]
    pub fn governed(&self, policy: Option<Map<String, Value>>, now: Timestamp) -> Self {
        Self { governance_policy: policy, version: self.version + 1, updated_at: now, ..self.clone() }
    }
}

/// Returns the payload of `governance.policy_set`, or of `governance.policy_removed` if there is none.
#[must_use]
pub fn governed_payload(intent: &Intent) -> Value {
    match &intent.governance_policy {
        Some(policy) => json!({ "governance_policy": policy, "version": intent.version }),
        None => json!({ "version": intent.version }),
    }
}

/// Returns the payload of `intent_created`: all initial values of the intent.
#[must_use]
pub fn created_payload(intent: &Intent) -> Value {
    json!({
        "title": intent.title, "description": intent.description, "created_by": intent.created_by,
        "parent_id": intent.parent_id, "depends_on": intent.depends_on, "constraints": intent.constraints,
        "state": intent.state, "status": intent.status, "governance_policy": intent.governance_policy,
        "version": intent.version,
    })
}

/// Returns the payload of `state_patched`.
#[must_use]
pub fn patched_payload(change: &Change, intent: &Intent) -> Value {
    match change {
        Change::Patches { patches } => json!({ "patches": patches, "version": intent.version }),
        Change::Merge { state } => json!({ "state": state, "version": intent.version }),
    }
}

/// Returns the payload of `status_changed`; the vendor's documents add `old_status`, `new_status` (OI-5.4.1).
#[must_use]
pub fn moved_payload(before: &Intent, after: &Intent, reason: Option<&str>) -> Value {
    let mut payload = json!({
        "status": after.status, "old_status": before.status, "new_status": after.status, "version": after.version,
    });
    if let (Some(reason), Some(members)) = (reason, payload.as_object_mut()) {
        members.insert("reason".to_owned(), Value::from(reason));
    }
    payload
}

/// The events that change an intent, each by one version; [`replay`] needs no others.
pub const CHANGES: [Kind; 6] = [
    Kind::StatePatched,
    Kind::StatusChanged,
    Kind::DependencyAdded,
    Kind::DependencyRemoved,
    Kind::GovernancePolicySet,
    Kind::GovernancePolicyRemoved,
];

/// An intent before and after one of its events.
#[derive(Debug, Clone, PartialEq)]
pub struct StateChange {
    /// The state before.
    pub old_state: Map<String, Value>,
    /// The whole intent after.
    pub intent: Intent,
}

/// Applies one event to an intent; events that do not change it, and all posted by clients, have no effect.
///
/// # Errors
/// A description of the fault if the event cannot follow: the log was not written by these domain rules.
pub fn replay(before: Option<Intent>, event: &Event) -> Result<Option<Intent>, String> {
    let wrong = |what: &str| format!("event {} ({}): {what}", event.sequence, event.event_type);
    if event.posted {
        return Ok(before);
    }
    let payload = Value::Object(event.payload.clone());
    let begins = event.event_type == Kind::IntentCreated.wire();
    let mut intent = match before {
        None if begins => return created(event, &payload).map(Some).map_err(|e| wrong(&e.to_string())),
        None => return Ok(None),
        Some(_) if begins => return Err(wrong("creates an intent that is there already")),
        Some(intent) if intent.id != event.intent_id => return Err(wrong("belongs to another intent")),
        Some(intent) => intent,
    };
    if event.event_type == Kind::StatePatched.wire() {
        let change: Change = serde_json::from_value(payload).map_err(|e| wrong(&e.to_string()))?;
        intent.state = patch::apply(&intent.state, &change).map_err(|refusal| wrong(&refusal.message))?;
    } else if event.event_type == Kind::StatusChanged.wire() {
        let status = payload.get("status").and_then(Value::as_str).and_then(IntentStatus::parse);
        intent.status = status.ok_or_else(|| wrong("has no status"))?;
    } else if event.event_type == Kind::DependencyAdded.wire() {
        intent.depends_on.push(dependency(&payload).ok_or_else(|| wrong("names no dependency"))?);
    } else if event.event_type == Kind::DependencyRemoved.wire() {
        let gone = dependency(&payload).ok_or_else(|| wrong("names no dependency"))?;
        intent.depends_on.retain(|id| *id != gone);
    } else if event.event_type == Kind::GovernancePolicySet.wire() {
        let policy = payload.get("governance_policy").and_then(Value::as_object).cloned();
        intent.governance_policy = Some(policy.ok_or_else(|| wrong("has no policy"))?);
    } else if event.event_type == Kind::GovernancePolicyRemoved.wire() {
        intent.governance_policy = None;
    } else {
        return Ok(Some(intent));
    }
    intent.version += 1;
    if event.payload.get("version").and_then(Value::as_i64) != Some(intent.version) {
        return Err(wrong("its version does not follow the one before it"));
    }
    intent.updated_at = event.created_at;
    Ok(Some(intent))
}

fn dependency(payload: &Value) -> Option<IntentId> {
    payload.get("dependency_id").and_then(Value::as_str).and_then(|id| id.parse().ok())
}

#[derive(Deserialize)]
struct CreatedPayload {
    title: String,
    description: String,
    created_by: String,
    parent_id: Option<IntentId>,
    depends_on: Vec<IntentId>,
    constraints: Map<String, Value>,
    state: Map<String, Value>,
    status: IntentStatus,
    governance_policy: Option<Map<String, Value>>,
    version: i64,
}

fn created(event: &Event, payload: &Value) -> Result<Intent, serde_json::Error> {
    let start = CreatedPayload::deserialize(payload)?;
    Ok(Intent {
        id: event.intent_id,
        title: start.title,
        description: start.description,
        created_by: start.created_by,
        parent_id: start.parent_id,
        depends_on: start.depends_on,
        constraints: start.constraints,
        state: start.state,
        status: start.status,
        confidence: 0.0,
        version: start.version,
        governance_policy: start.governance_policy,
        created_at: event.created_at,
        updated_at: event.created_at,
    })
}
