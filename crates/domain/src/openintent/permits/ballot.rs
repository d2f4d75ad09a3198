//! Votes on the completion of an intent (RFC-0013).

use std::collections::BTreeSet;

use super::{COMPLETE, Permit};
use crate::ids::PermitId;
use crate::openintent::governance::GovernancePolicy;

/// State of a vote on the completion of an intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ballot {
    /// Number of approvals required.
    pub required: usize,
    /// Number of agents that approved, each counted once.
    pub granted: usize,
    /// Permits that they approved.
    pub permits: Vec<PermitId>,
}

impl Ballot {
    /// Counts the votes of the approvers named by the policy, or else of the assigned agents.
    #[must_use]
    pub fn of<'a>(
        permits: impl IntoIterator<Item = &'a Permit>,
        policy: &'a GovernancePolicy,
        assigned: &'a [String],
    ) -> Self {
        let voters: BTreeSet<&str> = if policy.approvers.is_empty() { assigned } else { &policy.approvers }
            .iter()
            .map(String::as_str)
            .collect();
        let mut granted = BTreeSet::new();
        let mut used = Vec::new();
        for permit in permits.into_iter().filter(|permit| permit.is_open() && permit.action == COMPLETE) {
            let counted: Vec<&str> = permit.counted(policy).filter(|name| voters.contains(name)).collect();
            if !counted.is_empty() {
                used.push(permit.id);
                granted.extend(counted);
            }
        }
        Self {
            required: quorum(voters.len(), policy.quorum_threshold),
            granted: granted.len(),
            permits: used,
        }
    }
}

/// Returns the fraction `part` of the voters, rounded up, at least 1; a tolerance absorbs floating-point error.
fn quorum(voters: usize, part: f64) -> usize {
    (1..voters)
        .find(|count| {
            // The number of voters is far below the limits of `u32` and `f64`.
            let count = u32::try_from(*count).unwrap_or(u32::MAX);
            let voters = u32::try_from(voters).unwrap_or(u32::MAX);
            f64::from(count) + 1e-9 >= f64::from(voters) * part
        })
        .unwrap_or(voters.max(1))
}
