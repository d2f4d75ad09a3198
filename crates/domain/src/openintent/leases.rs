//! Leases (RFC-0003): one agent's exclusive hold on a scope of an intent, for a limited time.
//!
//! A scope is a text defined by the client. Read as a path it covers a part of the intent's state, and
//! everything below (see [`LeaseScope`]); a patch to a part held by another agent is refused ([`guard`]).
//! `leases/queue.rs` has the order of those who wait for one. Access checks, and ends of a lease other than by its time and its holder, are part of the operations.

pub mod queue;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::{Timestamp, plus_seconds, rfc3339};
use crate::ids::{IntentId, LeaseId};
use crate::limits::{LEASE_SECONDS, LEASES, PATH_SEGMENTS, SCOPE_BYTES};
use crate::openintent::patch::Change;
use crate::refusal::held_lease::HeldLease;
use crate::refusal::{Code, Refusal};

/// Default duration of a lease in seconds, the same as in the SDK.
pub const DEFAULT_SECONDS: i64 = 300;

/// The part of an intent's state that a lease covers, as a path: empty for all of it.
///
/// The text is split at `/` and empty parts are ignored, as with patches (OI-5.3.2). A leading `state/`
/// and a trailing `*` add nothing: `research`, `/research/`, `state/research` and `research/*` are one scope,
/// `*` is the whole state. All other parts are literal: a scope of free text covers the member of exactly
/// that name, and has no effect if there is none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseScope(Vec<String>);

impl LeaseScope {
    /// Parses a scope as written by a client.
    ///
    /// # Errors
    /// A text that is empty, is too long, or has control characters or too many parts.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let fault = |what: &str| {
            let message =
                format!("`scope` {what}. Name a part of the state, like `research`, or `*` for all of it.");
            Err(Refusal::field(Code::InvalidRequest, "scope", "scope", message))
        };
        if text.len() > SCOPE_BYTES {
            return fault(&format!("has more than {SCOPE_BYTES} bytes"));
        }
        if text.chars().any(char::is_control) {
            return fault("has a control character");
        }
        let mut parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty()).collect();
        if parts.iter().all(|part| part.trim().is_empty()) {
            return fault("names nothing");
        }
        if parts.len() > PATH_SEGMENTS {
            return fault(&format!("has more than {PATH_SEGMENTS} parts"));
        }
        if parts.len() > 1 && parts.first() == Some(&"state") {
            parts.remove(0);
        }
        if parts.last() == Some(&"*") {
            parts.pop();
        }
        Ok(Self(parts.into_iter().map(str::to_owned).collect()))
    }

    /// Parses the stored form of a scope; the reverse of its `Display`.
    #[must_use]
    pub fn stored(path: &str) -> Self {
        Self(path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect())
    }

    /// Whether one of the two covers the other, in whole or in part.
    #[must_use]
    pub fn touches<S: AsRef<str>>(&self, path: &[S]) -> bool {
        self.0.iter().zip(path).all(|(own, other)| own == other.as_ref())
    }
}

impl fmt::Display for LeaseScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

/// The stage of a lease's lifecycle; clients know no others (OI-3.7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LeaseStatus {
    /// Held by its agent.
    Active,
    /// Released by its holder.
    Released,
    /// Its time ran out.
    Expired,
    /// Revoked.
    Revoked,
}

impl LeaseStatus {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::Active, Self::Released, Self::Expired, Self::Revoked];

    /// Returns the status's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }

    /// Parses a status's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// Why a lease ended: the `reason` of its `lease_released` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Its holder released it.
    Released,
    /// Its time ran out.
    Expired,
    /// An admin of the intent revoked it.
    Revoked,
    /// Its holder handed its work over to another agent, which holds the scope now.
    HandedOver,
    /// Its holder may no longer write to the intent (RFC-0011).
    AccessLost,
    /// Its holder was deregistered (RFC-0016).
    AgentDeparted,
    /// The intent is completed or abandoned.
    IntentResolved,
}

impl EndReason {
    /// Returns the resulting status of the lease.
    #[must_use]
    pub fn status(self) -> LeaseStatus {
        match self {
            Self::Released | Self::HandedOver => LeaseStatus::Released,
            Self::Expired => LeaseStatus::Expired,
            Self::Revoked | Self::AccessLost | Self::AgentDeparted | Self::IntentResolved => {
                LeaseStatus::Revoked
            }
        }
    }
}

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The lease's id.
    pub id: LeaseId,
    /// The intent.
    pub intent_id: IntentId,
    /// The agent that holds it.
    pub agent_id: String,
    /// The scope as written by its holder.
    pub scope: String,
    /// The covered path: the stored form of [`LeaseScope`].
    pub path: String,
    /// The fencing token; rises with every lease on the intent, so that a later holder has a larger one.
    pub fencing_token: i64,
    /// The status as last written; see [`Self::status_at`].
    pub status: LeaseStatus,
    /// When it was acquired.
    pub acquired_at: Timestamp,
    /// When it expires; it is no longer in force from that instant.
    pub expires_at: Timestamp,
    /// When it was released, revoked, or found to have expired.
    pub ended_at: Option<Timestamp>,
}

impl Lease {
    /// Returns the status at the given time.
    #[must_use]
    pub fn status_at(&self, now: Timestamp) -> LeaseStatus {
        if self.status == LeaseStatus::Active && self.expires_at <= now {
            return LeaseStatus::Expired;
        }
        self.status
    }

    /// Whether it is held at the given time.
    #[must_use]
    pub fn in_force(&self, now: Timestamp) -> bool {
        self.status_at(now) == LeaseStatus::Active
    }

    /// Returns the lease as the refusal of a conflicting change names it.
    #[must_use]
    pub fn held(&self) -> HeldLease {
        HeldLease {
            id: self.id,
            intent_id: self.intent_id,
            agent_id: self.agent_id.clone(),
            scope: self.scope.clone(),
            fencing_token: self.fencing_token,
            acquired_at: self.acquired_at,
            expires_at: self.expires_at,
        }
    }

    /// Returns the scope that it covers.
    #[must_use]
    pub fn covers(&self) -> LeaseScope {
        LeaseScope::stored(&self.path)
    }

    /// Returns the lease after its end.
    #[must_use]
    pub fn ended(&self, reason: EndReason, now: Timestamp) -> Self {
        Self { status: reason.status(), ended_at: Some(now), ..self.clone() }
    }
}

/// Input for a new lease.
#[derive(Debug, Clone)]
pub struct LeaseAsk {
    /// The scope as written by the client.
    pub scope: String,
    /// The duration in seconds.
    pub duration_seconds: i64,
}

/// The agent that requests a lease, and the limit on its duration.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    /// The future holder.
    pub agent: &'a str,
    /// When its access to the intent ends: no lease outlives that.
    pub until: Option<Timestamp>,
}

/// Id, intent and fencing token of a lease that is about to be acquired.
#[derive(Debug, Clone, Copy)]
pub struct NewLease {
    /// The lease's id.
    pub id: LeaseId,
    /// The intent.
    pub intent_id: IntentId,
    /// The fencing token: larger than that of every earlier lease on the intent.
    pub fencing_token: i64,
}

/// Acquires a lease unless a lease of another agent conflicts; `held` are the leases in force on the intent.
///
/// The scopes of different holders never overlap: while one agent holds `a`, no other can hold `a/b`. The
/// same holder may have both, but not the same scope twice (OI-6.3).
///
/// # Errors
/// An invalid scope or duration; [`Code::LeaseHeld`] with the conflicting lease; too many leases.
pub fn acquire(
    ask: &LeaseAsk,
    claimant: Claimant<'_>,
    held: &[Lease],
    new: NewLease,
    now: Timestamp,
) -> Result<Lease, Refusal> {
    let scope = LeaseScope::parse(&ask.scope)?;
    let expires_at = until(ask.duration_seconds, claimant, now)?;
    require_free(&scope, claimant, held)?;
    if held.len() >= LEASES {
        let message = format!("The intent has {LEASES} active leases, as many as it may. End some first.");
        return Err(Refusal::field(Code::TooLarge, "scope", "too_many", message));
    }
    Ok(Lease {
        id: new.id,
        intent_id: new.intent_id,
        agent_id: claimant.agent.to_owned(),
        scope: ask.scope.clone(),
        path: scope.to_string(),
        fencing_token: new.fencing_token,
        status: LeaseStatus::Active,
        acquired_at: now,
        expires_at,
        ended_at: None,
    })
}

/// Requires that no lease in force is in the way of a scope.
fn require_free(scope: &LeaseScope, claimant: Claimant<'_>, held: &[Lease]) -> Result<(), Refusal> {
    let in_the_way = |lease: &&Lease| {
        let covers = lease.covers();
        covers == *scope || (lease.agent_id != claimant.agent && covers.touches(&scope.0))
    };
    held.iter().find(in_the_way).map_or(Ok(()), |lease| Err(taken(lease, claimant.agent)))
}

/// Extends a lease to the given duration from now; an ended lease is refused, because others may have held
/// its scope since.
///
/// # Errors
/// An invalid duration; [`Code::LeaseEnded`].
pub fn renew(
    lease: &Lease,
    duration_seconds: i64,
    claimant: Claimant<'_>,
    now: Timestamp,
) -> Result<Lease, Refusal> {
    let expires_at = until(duration_seconds, claimant, now)?;
    match lease.status_at(now) {
        LeaseStatus::Active => Ok(Lease { expires_at, ..lease.clone() }),
        status => Err(Refusal::new(
            Code::LeaseEnded,
            format!("This lease is {}; it cannot be renewed. Acquire a new one.", status.as_str()),
        )),
    }
}

/// Hands a lease in force over: the other agent holds the same scope until the same time, or until its access ends, under a
/// fencing token of its own.
#[must_use]
pub fn hand_over(lease: &Lease, to: Claimant<'_>, new: NewLease, now: Timestamp) -> Lease {
    Lease {
        id: new.id,
        agent_id: to.agent.to_owned(),
        fencing_token: new.fencing_token,
        acquired_at: now,
        expires_at: to.until.map_or(lease.expires_at, |until| lease.expires_at.min(until)),
        ..lease.clone()
    }
}

/// Checks that a change affects no part held by another agent, and that its fencing token, if given, is
/// valid.
///
/// The token must be that of a lease still held by `agent`. `held` are the leases in force on the intent.
///
/// # Errors
/// [`Code::LeaseHeld`] with the conflicting lease, [`Code::LeaseEnded`].
pub fn guard(
    held: &[Lease],
    agent: &str,
    change: &Change,
    fencing_token: Option<i64>,
) -> Result<(), Refusal> {
    let own = |token: i64| held.iter().any(|lease| lease.agent_id == agent && lease.fencing_token == token);
    if fencing_token.is_some_and(|token| !own(token)) {
        return Err(Refusal::new(
            Code::LeaseEnded,
            "You hold no lease with this fencing token any more: nothing was changed. Acquire a new one and read again.",
        ));
    }
    let others: Vec<(&Lease, LeaseScope)> =
        held.iter().filter(|lease| lease.agent_id != agent).map(|lease| (lease, lease.covers())).collect();
    if others.is_empty() {
        return Ok(());
    }
    let in_the_way = |path: &[&str]| others.iter().find(|(_, covers)| covers.touches(path));
    let found = match change {
        Change::Patches { patches } => patches.iter().find_map(|patch| {
            in_the_way(&patch.path.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>())
        }),
        // The members of a merge are names, not paths.
        Change::Merge { state } => state.keys().find_map(|name| in_the_way(&[name.as_str()])),
    };
    found.map_or(Ok(()), |(lease, _)| Err(taken(lease, agent)))
}

/// Returns the end of a lease of this duration: it never outlives its holder's access.
fn until(seconds: i64, claimant: Claimant<'_>, now: Timestamp) -> Result<Timestamp, Refusal> {
    let lawful = u32::try_from(seconds).ok().filter(|seconds| (1..=LEASE_SECONDS).contains(seconds));
    let seconds = lawful.ok_or_else(|| {
        let message = format!("`duration_seconds` must be a whole number from 1 to {LEASE_SECONDS}.");
        Refusal::field(Code::Unprocessable, "duration_seconds", "range", message)
    })?;
    let end = plus_seconds(now, seconds);
    Ok(claimant.until.map_or(end, |until| end.min(until)))
}

/// Returns the refusal because of a conflicting lease.
fn taken(lease: &Lease, agent: &str) -> Refusal {
    let message = if lease.agent_id == agent {
        format!("You hold this lease already, until {}. Renew it instead.", rfc3339(lease.expires_at))
    } else {
        format!(
            "`{}` holds a lease on `{}` until {}. Wait for `lease_released` on the intent's stream, or ask for \
             arbitration.",
            lease.agent_id,
            lease.scope,
            rfc3339(lease.expires_at)
        )
    };
    Refusal { existing_lease: Some(Box::new(lease.held())), ..Refusal::new(Code::LeaseHeld, message) }
}
