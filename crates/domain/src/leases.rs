//! Leases (RFC-0003): one agent's hold on a scope of an intent, for a time.
//!
//! A scope is a text of the client's own. Read as a path it covers a part of the intent's state, and everything below
//! (see [`LeaseScope`]); a patch that touches a part that somebody else holds is refused ([`guard`]). Who may ask at all,
//! and what ends a lease besides its time and its holder, is in the deeds.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::{Timestamp, plus_seconds, rfc3339};
use crate::ids::{IntentId, LeaseId};
use crate::limits::{LEASE_SECONDS, LEASES, PATH_SEGMENTS, SCOPE_BYTES};
use crate::patch::Change;
use crate::refusal::{Code, Refusal};

/// Seconds of a lease when nothing is said, as the SDK's own default.
pub const DEFAULT_SECONDS: i64 = 300;

/// What a lease covers, as a path into the intent's state: empty for all of it.
///
/// The text is split at `/` and empty parts count for nothing, as with patches (contract 5.3). A leading `state/` and a
/// trailing `*` say nothing more: `research`, `/research/`, `state/research` and `research/*` are one scope, `*` is the
/// whole state. Everything else stands for itself: a scope of free text covers the member of that very name, and
/// disturbs nobody where there is none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseScope(Vec<String>);

impl LeaseScope {
    /// Reads a scope as a client writes it.
    ///
    /// # Errors
    /// A text that names nothing, is too long, has control characters or too many parts.
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

    /// The scope of a path as it is stored; the reverse of its `Display`.
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

/// Where a lease is in its life. No client knows more than these (contract 3.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LeaseStatus {
    /// Held.
    Active,
    /// Given back by its holder.
    Released,
    /// Its time ran out.
    Expired,
    /// Taken away.
    Revoked,
}

impl LeaseStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Active, Self::Released, Self::Expired, Self::Revoked];

    /// The status as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }

    /// Reads a status; `None` when there is no such status.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// Why a lease ended: the `reason` of its `lease_released` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Its holder gave it back.
    Released,
    /// Its time ran out.
    Expired,
    /// An admin of the intent took it away.
    Revoked,
    /// Its holder may no longer write to the intent (RFC-0011).
    AccessLost,
    /// Its holder was deregistered (RFC-0016).
    AgentDeparted,
    /// The intent is completed or abandoned.
    IntentResolved,
}

impl EndReason {
    /// The status that it leaves a lease in.
    #[must_use]
    pub fn status(self) -> LeaseStatus {
        match self {
            Self::Released => LeaseStatus::Released,
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
    /// Its id.
    pub id: LeaseId,
    /// The intent.
    pub intent_id: IntentId,
    /// Who holds it.
    pub agent_id: String,
    /// The scope, as its holder wrote it.
    pub scope: String,
    /// What it covers: [`LeaseScope`] as it is stored.
    pub path: String,
    /// Rises with every lease on the intent: the later holder has the larger one.
    pub fencing_token: i64,
    /// Where it is in its life, as it was last written down; [`Self::status_at`] is what counts.
    pub status: LeaseStatus,
    /// Since when it is held.
    pub acquired_at: Timestamp,
    /// Until when; it counts for nothing from that instant.
    pub expires_at: Timestamp,
    /// When it was given back or taken away, or found to have run out.
    pub ended_at: Option<Timestamp>,
}

impl Lease {
    /// Where it is in its life at this moment.
    #[must_use]
    pub fn status_at(&self, now: Timestamp) -> LeaseStatus {
        if self.status == LeaseStatus::Active && self.expires_at <= now {
            return LeaseStatus::Expired;
        }
        self.status
    }

    /// Whether it is held at this moment.
    #[must_use]
    pub fn in_force(&self, now: Timestamp) -> bool {
        self.status_at(now) == LeaseStatus::Active
    }

    /// What it covers.
    #[must_use]
    pub fn covers(&self) -> LeaseScope {
        LeaseScope::stored(&self.path)
    }

    /// The lease after its end.
    #[must_use]
    pub fn ended(&self, reason: EndReason, now: Timestamp) -> Self {
        Self { status: reason.status(), ended_at: Some(now), ..self.clone() }
    }
}

/// What is asked for in a new lease.
#[derive(Debug, Clone)]
pub struct LeaseAsk {
    /// The scope, as the client writes it.
    pub scope: String,
    /// For how long.
    pub duration_seconds: i64,
}

/// Who asks for a lease, and what bounds it.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    /// Who will hold it.
    pub agent: &'a str,
    /// When its access to the intent ends: no lease outlives that.
    pub until: Option<Timestamp>,
}

/// Makes a lease, if nobody's hold on the intent is in its way. `held` are the leases in force there.
///
/// The scopes of different holders never overlap: who holds `a` shall not find somebody else at `a/b`. The same holder may
/// have both, but not the same one twice (contract 6).
///
/// # Errors
/// A scope or a duration that is none; [`Code::LeaseHeld`] with the lease that is in the way; too many leases.
pub fn acquire(
    ask: &LeaseAsk,
    claimant: Claimant<'_>,
    held: &[Lease],
    (intent_id, id, fencing_token): (IntentId, LeaseId, i64),
    now: Timestamp,
) -> Result<Lease, Refusal> {
    let scope = LeaseScope::parse(&ask.scope)?;
    let expires_at = until(ask.duration_seconds, claimant, now)?;
    let in_the_way = |lease: &&Lease| {
        let covers = lease.covers();
        covers == scope || (lease.agent_id != claimant.agent && covers.touches(&scope.0))
    };
    if let Some(lease) = held.iter().find(in_the_way) {
        return Err(taken(lease, claimant.agent));
    }
    if held.len() >= LEASES {
        let message = format!("The intent has {LEASES} active leases, as many as it may. End some first.");
        return Err(Refusal::field(Code::TooLarge, "scope", "too_many", message));
    }
    Ok(Lease {
        id,
        intent_id,
        agent_id: claimant.agent.to_owned(),
        scope: ask.scope.clone(),
        path: scope.to_string(),
        fencing_token,
        status: LeaseStatus::Active,
        acquired_at: now,
        expires_at,
        ended_at: None,
    })
}

/// The lease, held for so long from now on. One that has ended stays so: somebody else may have held its scope since.
///
/// # Errors
/// A duration that is none; [`Code::LeaseEnded`].
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

/// Checks that a change touches nothing that somebody else holds, and, when it comes with a fencing token, that the token
/// is that of a lease which `agent` still holds. `held` are the leases in force on the intent.
///
/// # Errors
/// [`Code::LeaseHeld`] with the lease that is in the way, [`Code::LeaseEnded`].
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

/// Until when a lease of this duration lasts: it never outlives its holder's access.
fn until(seconds: i64, claimant: Claimant<'_>, now: Timestamp) -> Result<Timestamp, Refusal> {
    let lawful = u32::try_from(seconds).ok().filter(|seconds| (1..=LEASE_SECONDS).contains(seconds));
    let seconds = lawful.ok_or_else(|| {
        let message = format!("`duration_seconds` must be a whole number from 1 to {LEASE_SECONDS}.");
        Refusal::field(Code::Unprocessable, "duration_seconds", "range", message)
    })?;
    let end = plus_seconds(now, seconds);
    Ok(claimant.until.map_or(end, |until| end.min(until)))
}

/// The refusal that a lease is the reason of.
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
    Refusal { existing_lease: Some(Box::new(lease.clone())), ..Refusal::new(Code::LeaseHeld, message) }
}
