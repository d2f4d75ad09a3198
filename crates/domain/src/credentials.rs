//! Provisioned credentials (ARCP §9.8): the states that one goes through, which jobs get one, what it is bound to, when a
//! revocation that failed is tried again, and what may be told of a rotation. Asking those who make credentials is
//! `src/background/provision`; what a job may touch and spend is `capabilities.rs` and `budgets.rs`.
//!
//! A credential has one id and, over its rotations, several values; each value goes through these states by itself.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::budgets::{BUDGET, Budget};
use crate::capabilities::Authority;
use crate::clock::{Timestamp, plus_seconds, rfc3339};
use crate::globs::Glob;
use crate::ids::CredentialId;
use crate::jobs::Job;

/// The namespace of models in an authority.
pub const MODELS: &str = "model.use";

/// Seconds within which a credential that was asked for is there, or whoever asked is gone.
pub const MINT_SECONDS: u32 = 60;

/// Seconds after which a request for a credential that got no answer cannot have an effect any more. Before that, to hear
/// that there is none says nothing.
pub const SETTLE_SECONDS: u32 = 120;

/// Seconds between the attempts at one revocation: two and a half days, then a person has to look.
pub const SCHEDULE: [u32; 12] = [1, 5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 57_600, 100_000];

/// Where one value of a credential stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CredentialState)]
pub enum State {
    /// It is asked for, or was by somebody who died over it.
    Minting,
    /// It works.
    Live,
    /// It is not needed any more, and waits to be taken back.
    Revoking,
    /// It is gone.
    Revoked,
    /// It could not be taken back, and a person has to look.
    Stuck,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Minting, Self::Live, Self::Revoking, Self::Revoked, Self::Stuck];

    /// The state as it is written.
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

    /// Reads a state; `None` when there is no such state.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// What happens to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It was made, and is kept.
    Made,
    /// It certainly was not made.
    NotMade,
    /// Its job is over, another value took its place, or nobody knows whether it was made.
    Unneeded,
    /// Whoever made it has taken it back.
    TakenBack,
    /// All attempts at that have failed.
    GivenUp,
    /// A person has looked, and wants it tried again.
    Retried,
}

/// Where a turn leads. `None`: it cannot happen to a value that stands there.
#[must_use]
pub fn turned(from: State, turn: Turn) -> Option<State> {
    match (from, turn) {
        (State::Minting, Turn::Made) => Some(State::Live),
        (State::Minting, Turn::NotMade) | (State::Revoking, Turn::TakenBack) => Some(State::Revoked),
        (State::Minting | State::Live, Turn::Unneeded) | (State::Revoking | State::Stuck, Turn::Retried) => {
            Some(State::Revoking)
        }
        (State::Revoking, Turn::GivenUp) => Some(State::Stuck),
        _ => None,
    }
}

/// Milliseconds until a revocation is tried again after `made` attempts; `None`: it has been tried often enough. Varies by a
/// fifth either way, so that what failed together does not come back together; an upstream that wants more time gets it,
/// up to an hour.
#[must_use]
pub fn again_after(made: u32, retry_after: Option<u32>, chance: u64) -> Option<u64> {
    let step = usize::try_from(made.checked_sub(1)?).ok()?;
    let base = u64::from(*SCHEDULE.get(step)?) * 1_000;
    let asked = u64::from(retry_after.unwrap_or(0).min(3_600)) * 1_000;
    Some((base * (800 + chance % 401) / 1_000).max(asked))
}

/// When "there is none" can be believed of a value that was asked for at that time and never heard of; `None`: now.
#[must_use]
pub fn unsettled_until(asked_at: Timestamp, known: bool, now: Timestamp) -> Option<Timestamp> {
    let settled = plus_seconds(asked_at, SETTLE_SECONDS);
    (!known && now < settled).then_some(settled)
}

/// The name that a value is asked for under: from it alone the value can be found and taken back.
#[must_use]
pub fn alias(id: CredentialId, generation: u32) -> String {
    format!("entente-{id}-{generation}")
}

/// Which jobs get a credential of one provisioner.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Which agents: patterns over `name` or `name@version`; none means all.
    pub agents: Vec<Glob>,
    /// Namespaces that the lease must name, all of them.
    pub all: Vec<String>,
    /// Namespaces of which the lease must name one, if there are any.
    pub any: Vec<String>,
    /// Whether the credential opens models.
    pub models: bool,
}

impl Rule {
    /// Whether a job gets one. One that may do nothing gets none: many upstreams take an empty list for everything.
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

/// What a credential must not go beyond (§9.8.3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bounds {
    /// What may be spent, by currency: what is left of it.
    pub budget: Budget,
    /// Patterns of models; `None` when the lease is silent about them.
    pub models: Option<Vec<String>>,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
}

impl Bounds {
    /// The bounds of a job's credentials. `left` is what the job and its ancestors have left, the least of each currency.
    #[must_use]
    pub fn of(job: &Job, left: Budget) -> Self {
        Self {
            budget: left,
            models: job.lease.names(MODELS).then(|| job.lease.patterns(MODELS).to_vec()),
            expires_at: [job.expires_at, job.deadline].into_iter().flatten().min(),
        }
    }

    /// The models among those that an upstream has which the lease covers: what is enumerated means the same on both sides,
    /// whatever the upstream makes of a star. `None` when the lease is silent about models.
    #[must_use]
    pub fn models_among(&self, offered: &[String]) -> Option<Vec<String>> {
        let globs: Vec<Glob> =
            self.models.as_ref()?.iter().filter_map(|pattern| Glob::parse(pattern).ok()).collect();
        let covered = |model: &&String| globs.iter().any(|glob| glob.matches(model));
        Some(offered.iter().filter(covered).cloned().collect())
    }

    /// The `constraints` of a credential: of these bounds those that the upstream enforces. Nothing, when it enforces none.
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

/// The phase of a `status` event that tells of a rotation.
pub const ROTATED: &str = "credential_rotated";

/// The body of the event that tells of a rotation, as it is kept and shown to everybody: without the value (§14).
#[must_use]
pub fn rotated(id: CredentialId) -> Value {
    json!({ "phase": ROTATED, "id": id })
}

/// An event's body without a credential's value, if it has one: whatever an agent reports, no value gets into the log.
/// `None`: there is nothing to take out.
#[must_use]
pub fn redact(kind: &str, body: &str) -> Option<String> {
    let mut members = rotation(kind, body)?;
    members.remove("value")?;
    serde_json::to_string(&members).ok()
}

/// The credential that an event tells the rotation of.
#[must_use]
pub fn rotation_of(kind: &str, body: &str) -> Option<CredentialId> {
    rotation(kind, body)?.get("id")?.as_str()?.parse().ok()
}

/// The same event for the job's submitter: with the value (§9.8.2).
#[must_use]
pub fn reveal(kind: &str, body: &str, value: &str) -> Option<String> {
    let mut members = rotation(kind, body)?;
    members.insert("value".to_owned(), json!(value));
    serde_json::to_string(&members).ok()
}

fn rotation(kind: &str, body: &str) -> Option<Map<String, Value>> {
    // Most events are not read at all. With a backslash a word can be written in other ways.
    if kind != "status" || !(body.contains(ROTATED) || body.contains('\\')) {
        return None;
    }
    let members: Map<String, Value> = serde_json::from_str(body).ok()?;
    (members.get("phase")?.as_str()? == ROTATED).then_some(members)
}

/// A text that came from outside, without these secrets, and short.
#[must_use]
pub fn scrub<'a>(text: &str, secrets: impl IntoIterator<Item = &'a str>) -> String {
    let clean = secrets
        .into_iter()
        .filter(|secret| !secret.is_empty())
        .fold(text.replace('\0', "\u{fffd}"), |text, secret| text.replace(secret, "…"));
    clean.chars().take(300).collect()
}
