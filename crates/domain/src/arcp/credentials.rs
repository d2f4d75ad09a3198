//! Provisioned credentials (ARCP §9.8): their states, the jobs that get one, their bounds, retries of failed
//! revocations, and rotation events. Requests to provisioners are sent by `src/background/provision`;
//! permissions and budgets of a job are in `capabilities.rs` and `budgets.rs`.
//!
//! A credential has one id and, over its rotations, several values; each value goes through these states by
//! itself.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::arcp::budgets::{BUDGET, Budget};
use crate::arcp::capabilities::Authority;
use crate::arcp::jobs::Job;
use crate::clock::{Timestamp, plus_seconds, rfc3339};
use crate::globs::Glob;
use crate::ids::CredentialId;

/// The namespace of models in an authority.
pub const MODELS: &str = "model.use";

/// Seconds to wait for a requested credential; without a result by then, its requester has died.
pub const MINT_SECONDS: u32 = 60;

/// Seconds after which an unanswered request for a credential can no longer take effect; until then, the
/// answer that it does not exist is not conclusive.
pub const SETTLE_SECONDS: u32 = 120;

/// Seconds between the attempts at one revocation, two and a half days in total; then an operator must
/// intervene.
pub const SCHEDULE: [u32; 12] = [1, 5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 57_600, 100_000];

/// The state of one value of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CredentialState)]
pub enum State {
    /// It is being requested, or the requester died before the answer.
    Minting,
    /// It is valid.
    Live,
    /// It is no longer needed and waits to be revoked.
    Revoking,
    /// It is revoked.
    Revoked,
    /// It could not be revoked; an operator has to intervene.
    Stuck,
}

impl State {
    /// All variants.
    pub const ALL: [Self; 5] = [Self::Minting, Self::Live, Self::Revoking, Self::Revoked, Self::Stuck];

    /// Returns the state's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minting => "minting",
            Self::Live => "live",
            Self::Revoking => "revoking",
            Self::Revoked => "revoked",
            Self::Stuck => "stuck",
        }
    }

    /// Parses a state's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// A transition of a credential's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// It was made and stored.
    Made,
    /// It was certainly not made.
    NotMade,
    /// Its job is over, another value replaced it, or it is unknown whether it was made.
    Unneeded,
    /// The provisioner has revoked it.
    TakenBack,
    /// All attempts to revoke it have failed.
    GivenUp,
    /// An operator requested another attempt.
    Retried,
}

/// Returns the state after a transition; `None` if the transition is not allowed from that state.
#[must_use]
pub fn transition(from: State, turn: Transition) -> Option<State> {
    match (from, turn) {
        (State::Minting, Transition::Made) => Some(State::Live),
        (State::Minting, Transition::NotMade) | (State::Revoking, Transition::TakenBack) => {
            Some(State::Revoked)
        }
        (State::Minting | State::Live, Transition::Unneeded)
        | (State::Revoking | State::Stuck, Transition::Retried) => Some(State::Revoking),
        (State::Revoking, Transition::GivenUp) => Some(State::Stuck),
        _ => None,
    }
}

/// Returns the milliseconds until a revocation is retried after `made` attempts; `None` once there are no
/// more.
///
/// Varies by a fifth either way, so that operations that failed together are not retried together. An
/// upstream that asks for more time gets it, up to an hour.
#[must_use]
pub fn again_after(made: u32, retry_after: Option<u32>, chance: u64) -> Option<u64> {
    let step = usize::try_from(made.checked_sub(1)?).ok()?;
    let base = u64::from(*SCHEDULE.get(step)?) * 1_000;
    let asked = u64::from(retry_after.unwrap_or(0).min(3_600)) * 1_000;
    Some((base * (800 + chance % 401) / 1_000).max(asked))
}

/// Returns when "not found" becomes conclusive for a value requested at `asked_at`; `None` if it is already.
#[must_use]
pub fn unsettled_until(asked_at: Timestamp, known: bool, now: Timestamp) -> Option<Timestamp> {
    let settled = plus_seconds(asked_at, SETTLE_SECONDS);
    (!known && now < settled).then_some(settled)
}

/// Returns the name under which a value is requested: the name alone suffices to find and revoke the value.
#[must_use]
pub fn alias(id: CredentialId, generation: u32) -> String {
    format!("entente-{id}-{generation}")
}

/// The rule that decides which jobs get a credential of one provisioner.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The agents: patterns over `name` or `name@version`; empty means all.
    pub agents: Vec<Glob>,
    /// Namespaces that the lease must all contain.
    pub all: Vec<String>,
    /// Namespaces of which the lease must contain at least one, unless empty.
    pub any: Vec<String>,
    /// Whether the credential gives access to models.
    pub models: bool,
}

impl Rule {
    /// Whether a job gets a credential; one without any permission gets none, because many upstreams
    /// interpret an empty list as "everything".
    #[must_use]
    pub fn wants(&self, job: &Job) -> bool {
        let name = job.agent.split('@').next().unwrap_or_default();
        let named = |glob: &Glob| glob.matches(name) || glob.matches(&job.agent);
        let spent = Budget::of(&job.lease).is_ok_and(|budget| budget.spent().is_some());
        (self.agents.is_empty() || self.agents.iter().any(named))
            && self.all.iter().all(|namespace| job.lease.names(namespace))
            && (self.any.is_empty() || self.any.iter().any(|namespace| job.lease.names(namespace)))
            && !spent
            && !(self.models && modelless(&job.lease, job.needs_model))
    }
}

/// Whether a lease allows no model at all (§9.7).
fn modelless(lease: &Authority, needs_model: bool) -> bool {
    if lease.names(MODELS) { lease.patterns(MODELS).is_empty() } else { needs_model }
}

/// The limits of a credential (§9.8.3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The remaining budget by currency.
    pub budget: Budget,
    /// Patterns of models; `None` if the lease does not restrict them.
    pub models: Option<Vec<String>>,
    /// When the credential expires.
    pub expires_at: Option<Timestamp>,
}

impl Bounds {
    /// Returns the bounds of a job's credentials; `left` is the least remaining budget of the job and its
    /// ancestors.
    #[must_use]
    pub fn of(job: &Job, left: Budget) -> Self {
        Self {
            budget: left,
            models: job.lease.names(MODELS).then(|| job.lease.patterns(MODELS).to_vec()),
            expires_at: [job.expires_at, job.deadline].into_iter().flatten().min(),
        }
    }

    /// Returns the offered models that the lease covers; `None` if the lease does not restrict models.
    ///
    /// An explicit list means the same on both sides, however the upstream interprets a wildcard.
    #[must_use]
    pub fn models_among(&self, offered: &[String]) -> Option<Vec<String>> {
        let globs: Vec<Glob> =
            self.models.as_ref()?.iter().filter_map(|pattern| Glob::parse(pattern).ok()).collect();
        let covered = |model: &&String| globs.iter().any(|glob| glob.matches(model));
        Some(offered.iter().filter(covered).cloned().collect())
    }

    /// Returns the `constraints` of a credential, given the bounds that the upstream enforces; `None` if
    /// none.
    #[must_use]
    pub fn echo(&self) -> Option<Value> {
        let mut echo = Map::new();
        if !self.budget.0.is_empty() {
            let amounts = self.budget.0.iter().map(|(currency, amount)| format!("{currency}:{amount}"));
            echo.insert(BUDGET.to_owned(), json!(amounts.collect::<Vec<_>>()));
        }
        if let Some(models) = &self.models {
            echo.insert(MODELS.to_owned(), json!(models));
        }
        if let Some(at) = self.expires_at {
            echo.insert("expires_at".to_owned(), json!(rfc3339(at)));
        }
        (!echo.is_empty()).then_some(Value::Object(echo))
    }
}

/// The phase of a `status` event about a rotation.
pub const ROTATED: &str = "credential_rotated";

/// Returns the body of a rotation event as it is stored and shown to everybody: without the value (§14).
#[must_use]
pub fn rotated(id: CredentialId) -> Value {
    json!({ "phase": ROTATED, "id": id })
}

/// Removes a credential's value from an event's body, to keep it out of the log; `None` if there is none.
#[must_use]
pub fn redact(kind: &str, body: &str) -> Option<String> {
    let mut members = rotation(kind, body)?;
    members.remove("value")?;
    serde_json::to_string(&members).ok()
}

/// Returns the credential that a rotation event is about.
#[must_use]
pub fn rotation_of(kind: &str, body: &str) -> Option<CredentialId> {
    rotation(kind, body)?.get("id")?.as_str()?.parse().ok()
}

/// Returns the event for the job's submitter, with the value (§9.8.2).
#[must_use]
pub fn reveal(kind: &str, body: &str, value: &str) -> Option<String> {
    let mut members = rotation(kind, body)?;
    members.insert("value".to_owned(), json!(value));
    serde_json::to_string(&members).ok()
}

fn rotation(kind: &str, body: &str) -> Option<Map<String, Value>> {
    // Cheap pre-check, so that most events are not parsed; a backslash may hide parts of the phase's name.
    if kind != "status" || !(body.contains(ROTATED) || body.contains('\\')) {
        return None;
    }
    let members: Map<String, Value> = serde_json::from_str(body).ok()?;
    (members.get("phase")?.as_str()? == ROTATED).then_some(members)
}

/// Removes these secrets from a text of external origin, and shortens it.
#[must_use]
pub fn scrub<'a>(text: &str, secrets: impl IntoIterator<Item = &'a str>) -> String {
    let clean = secrets
        .into_iter()
        .filter(|secret| !secret.is_empty())
        .fold(text.replace('\0', "\u{fffd}"), |text, secret| text.replace(secret, "…"));
    clean.chars().take(300).collect()
}
