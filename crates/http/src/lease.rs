//! The wire format of a lease (RFC-0003): in the lease routes, and in the refusal `lease_held`.

use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{IntentId, LeaseId};
use entente_domain::openintent::leases::{Lease, LeaseStatus};
use entente_domain::refusal::held_lease::HeldLease;
use serde::Serialize;
use utoipa::ToSchema;

use super::wire::WireTime;

/// A lease.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Lease)]
pub struct LeaseBody {
    /// Lease id.
    id: LeaseId,
    /// The intent.
    intent_id: IntentId,
    /// Agent that holds the lease.
    #[schema(example = "agent.researcher")]
    agent_id: String,
    /// The scope, as the holder wrote it.
    #[schema(example = "research")]
    scope: String,
    /// Status of the lease.
    status: LeaseStatus,
    /// Increases with every lease on the intent: of two holders of a scope, the later has the larger token.
    #[schema(example = 42)]
    fencing_token: i64,
    /// When the lease was acquired.
    acquired_at: WireTime,
    /// The same time, under the name that the SDK uses.
    created_at: WireTime,
    /// When the lease ends; it holds nothing from that instant on.
    expires_at: WireTime,
    /// When the lease was released or revoked.
    released_at: Option<WireTime>,
}

impl LeaseBody {
    /// Returns the lease with its status at `now`.
    #[must_use]
    pub fn new(lease: &Lease, now: Timestamp, dialect: Dialect) -> Self {
        // An expired lease was never released: `expires_at` says when it ended (OI-6.2).
        let released_at = lease.ended_at.filter(|_| lease.status != LeaseStatus::Expired);
        Self {
            status: lease.status_at(now),
            released_at: released_at.map(|at| WireTime::new(at, dialect)),
            ..Self::held(&lease.held(), dialect)
        }
    }

    /// Returns the lease in force that a refusal names.
    #[must_use]
    pub fn held(lease: &HeldLease, dialect: Dialect) -> Self {
        Self {
            id: lease.id,
            intent_id: lease.intent_id,
            agent_id: lease.agent_id.clone(),
            scope: lease.scope.clone(),
            status: LeaseStatus::Active,
            fencing_token: lease.fencing_token,
            acquired_at: WireTime::new(lease.acquired_at, dialect),
            created_at: WireTime::new(lease.acquired_at, dialect),
            expires_at: WireTime::new(lease.expires_at, dialect),
            released_at: None,
        }
    }
}
