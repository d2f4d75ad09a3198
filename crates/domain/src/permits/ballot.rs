//! Votes on the completion of an intent (RFC-0013).

use std::collections::BTreeSet;

use super::{COMPLETE, Permit};
use crate::governance::GovernancePolicy;
use crate::ids::PermitId;

/// How a vote on the completion of an intent stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ballot {
    /// How many have to approve.
    pub required: usize,
    /// How many have, each counted once.
    pub granted: usize,
    /// The permits that they have approved.
    pub permits: Vec<PermitId>,
}

impl Ballot {
    /// Counts. Who votes are the approvers that the policy names, or else those who are assigned.
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

/// How many of so many voters a part of them is: rounded up, and one at the least. What a binary fraction is too much by is
/// not taken for one more.
fn quorum(voters: usize, part: f64) -> usize {
    (1..voters)
        .find(|count| {
            // Voters are far fewer than a double can count.
            let count = u32::try_from(*count).unwrap_or(u32::MAX);
            let voters = u32::try_from(voters).unwrap_or(u32::MAX);
            f64::from(count) + 1e-9 >= f64::from(voters) * part
        })
        .unwrap_or(voters.max(1))
}
