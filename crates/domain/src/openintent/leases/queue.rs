//! The queue for a lease (beyond RFC-0003): requests that wait for a scope get it in the order in which they came.

use std::collections::BTreeSet;

use super::{Claimant, Lease, LeaseAsk, LeaseScope, require_free};
use crate::clock::{Timestamp, rfc3339};
use crate::refusal::{Code, Refusal};

/// A request that waits for a lease on an intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseWait {
    /// The agent that waits.
    pub agent_id: String,
    /// The scope as it wrote it.
    pub scope: String,
    /// The stored form of the scope; see [`LeaseScope`].
    pub path: String,
    /// Place in the queue: the smallest is first.
    pub number: i64,
    /// Since when it waits.
    pub since: Timestamp,
    /// When it gives up its place, unless its request still waits.
    pub until: Timestamp,
}

impl LeaseWait {
    /// Returns the scope that it waits for.
    #[must_use]
    pub fn covers(&self) -> LeaseScope {
        LeaseScope::stored(&self.path)
    }
}

/// Requires that no lease in force is in the claimant's way, and that nobody waits for an overlapping scope before it; `waits`
/// are those of the intent that have not given up.
///
/// Who waits for a lease of the claimant itself is not before it: the two would wait for each other.
///
/// # Errors
/// An invalid scope; [`Code::LeaseHeld`], with the lease, or without one if another agent is before the claimant.
pub fn in_turn(
    ask: &LeaseAsk,
    claimant: Claimant<'_>,
    held: &[Lease],
    waits: &[LeaseWait],
) -> Result<(), Refusal> {
    let scope = LeaseScope::parse(&ask.scope)?;
    require_free(&scope, claimant, held)?;
    let path = scope.to_string();
    let own = waits.iter().find(|wait| wait.agent_id == claimant.agent && wait.path == path);
    let yields = |wait: &&LeaseWait| {
        held.iter().any(|lease| lease.agent_id == claimant.agent && lease.covers().touches(&wait.covers().0))
    };
    let is_before = |wait: &&LeaseWait| {
        wait.agent_id != claimant.agent
            && own.is_none_or(|own| wait.number < own.number)
            && wait.covers().touches(&scope.0)
    };
    let Some(first) = waits.iter().filter(is_before).find(|wait| !yields(wait)) else { return Ok(()) };
    let message = format!(
        "`{}` waits for a lease on `{}` since {}. Wait for yours behind it: repeat the request with `?wait=25`.",
        first.agent_id,
        first.scope,
        rfc3339(first.since)
    );
    Err(Refusal::new(Code::LeaseHeld, message))
}

/// Returns the agents that a waiting request waits for: those with a lease in its way, and those before it in the queue,
/// by the rules of [`in_turn`]. All of them must go on first.
#[must_use]
pub fn awaited<'a>(wait: &LeaseWait, held: &'a [Lease], waits: &'a [LeaseWait]) -> BTreeSet<&'a str> {
    let (agent, scope) = (wait.agent_id.as_str(), wait.covers());
    let own: Vec<LeaseScope> =
        held.iter().filter(|lease| lease.agent_id == agent).map(Lease::covers).collect();
    let yields = |other: &LeaseWait| own.iter().any(|lease| lease.touches(&other.covers().0));
    let is_before = |other: &&LeaseWait| {
        other.agent_id != agent
            && other.number < wait.number
            && other.covers().touches(&scope.0)
            && !yields(other)
    };
    let in_the_way = |lease: &&Lease| lease.agent_id != agent && lease.covers().touches(&scope.0);
    let holders = held.iter().filter(in_the_way).map(|lease| lease.agent_id.as_str());
    holders.chain(waits.iter().filter(is_before).map(|other| other.agent_id.as_str())).collect()
}

/// Returns the earliest expiry of the leases in the claimant's way.
#[must_use]
pub fn next_expiry(ask: &LeaseAsk, claimant: Claimant<'_>, held: &[Lease]) -> Option<Timestamp> {
    let scope = LeaseScope::parse(&ask.scope).ok()?;
    let others = held.iter().filter(|lease| lease.agent_id != claimant.agent);
    others.filter(|lease| lease.covers().touches(&scope.0)).map(|lease| lease.expires_at).min()
}
