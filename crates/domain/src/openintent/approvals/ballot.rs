//! Votes on the completion of an intent (RFC-0013).

use std::collections::BTreeSet;

use super::{Approval, COMPLETE};
use crate::ids::ApprovalId;
use crate::openintent::governance::GovernancePolicy;

/// State of a vote on the completion of an intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ballot {
    /// Number of approvals required.
    pub required: usize,
    /// Number of agents that approved, each counted once.
    pub granted: usize,
    /// Approvals that they approved.
    pub approvals: Vec<ApprovalId>,
}

impl Ballot {
    /// Counts the votes of the approvers named by the policy, or else of the assigned agents.
    #[must_use]
    pub fn of<'a>(
        approvals: impl IntoIterator<Item = &'a Approval>,
        policy: &'a GovernancePolicy,
        assigned: &'a [String],
    ) -> Self {
        let voters: BTreeSet<&str> = if policy.approvers.is_empty() { assigned } else { &policy.approvers }
            .iter()
            .map(String::as_str)
            .collect();
        let mut granted = BTreeSet::new();
        let mut used = Vec::new();
        for approval in
            approvals.into_iter().filter(|approval| approval.is_open() && approval.action == COMPLETE)
        {
            let counted: Vec<&str> = approval.counted(policy).filter(|name| voters.contains(name)).collect();
            if !counted.is_empty() {
                used.push(approval.id);
                granted.extend(counted);
            }
        }
        Self {
            required: quorum(voters.len(), policy.quorum_threshold),
            granted: granted.len(),
            approvals: used,
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
