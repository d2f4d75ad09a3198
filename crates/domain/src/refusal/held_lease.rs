//! The lease that conflicts with a request (RFC-0003), as its refusal names it.

use crate::clock::Timestamp;
use crate::ids::{IntentId, LeaseId};

/// A lease in force: the part of [`crate::openintent::leases::Lease`] that an agent needs to wait for its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLease {
    /// The lease's id.
    pub id: LeaseId,
    /// The intent.
    pub intent_id: IntentId,
    /// The agent that holds it.
    pub agent_id: String,
    /// The scope as written by its holder.
    pub scope: String,
    /// The fencing token.
    pub fencing_token: i64,
    /// When it was acquired.
    pub acquired_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
}
