//! Fences: conditions that have to hold when a write takes effect. A request can name the session that it belongs to
//! (an epoch), a lease and a claim that it is made under; once that is over, it changes nothing, however long it was on
//! its way.
//!
//! `Beginning::sql` checks them (`crates/store/src/beginning.rs`). The `fencing_token` in the body of a lease's request is checked
//! in `crates/domain/src/openintent/leases.rs`. The number `fence` of endpoint leases, which orders the deliveries of webhooks, is
//! another thing: `crates/kernel/src/webhooks/deliveries/endpoint_leases.rs`.

use crate::canonical::{Digest, sha256};
use crate::identity::epochs::Epoch;
use crate::ids::{JobId, LeaseId, TaskId};
use crate::refusal::{Code, Refusal};

/// Header that names a lease, with its fencing token.
pub const LEASE_HEADER: &str = "Entente-Lease";

/// Header that names a claim of a task or a job, with its token.
pub const CLAIM_HEADER: &str = "Entente-Claim";

/// Maximum length of a token in bytes; those of jobs have 67.
const TOKEN_BYTES: usize = 200;

/// A condition that has to hold when a write takes effect. The order is that in which a transaction requires several.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fence {
    /// The session of an agent is its latest.
    Epoch(Epoch),
    /// An agent holds a lease.
    Lease {
        /// The lease.
        id: LeaseId,
        /// Its holder.
        agent: String,
        /// Its fencing token.
        token: i64,
    },
    /// An agent has a task by a claim.
    Task {
        /// The task.
        id: TaskId,
        /// The agent.
        agent: String,
        /// Number of the claim.
        token: i64,
    },
    /// A worker has a job by a claim.
    Job {
        /// The job.
        id: JobId,
        /// SHA-256 of the claim's token.
        token: Digest,
    },
}

impl Fence {
    /// Parses the value of [`LEASE_HEADER`], for a request of this agent.
    ///
    /// # Errors
    /// It is not the id of a lease with a fencing token.
    pub fn lease(agent: &str, text: &str) -> Result<Self, Refusal> {
        let parsed = parts(text).and_then(|(id, token)| Some((id.parse().ok()?, number(token)?)));
        let (id, token) = parsed.ok_or_else(|| {
            Refusal::new(
                Code::InvalidParameter,
                format!(
                    "`{LEASE_HEADER}` must be the id of one lease and its `fencing_token`, as its acquisition returned them: \
                     `lease_01J9ZK4T6Q8R2V5X7Y9B1C3D5F; token=12`."
                ),
            )
        })?;
        Ok(Self::Lease { id, agent: agent.to_owned(), token })
    }

    /// Parses the value of [`CLAIM_HEADER`], for a request of this agent.
    ///
    /// # Errors
    /// It is not the id of a task or a job with the token of a claim.
    pub fn claim(agent: &str, text: &str) -> Result<Self, Refusal> {
        let claim = |(id, token): (&str, &str)| match id.parse() {
            Ok(id) => Some(Self::Task { id, agent: agent.to_owned(), token: number(token)? }),
            Err(_no_task) => Some(Self::Job { id: id.parse().ok()?, token: sha256(token) }),
        };
        parts(text).and_then(claim).ok_or_else(|| {
            Refusal::new(
                Code::InvalidParameter,
                format!(
                    "`{CLAIM_HEADER}` must be the id of one task or job and its `claim_token`, as its claim returned them: \
                     `task_01J9ZK4T6Q8R2V5X7Y9B1C3D5F; token=3`."
                ),
            )
        })
    }

    /// Returns the epoch, if it is one.
    #[must_use]
    pub fn epoch(&self) -> Option<&Epoch> {
        match self {
            Self::Epoch(epoch) => Some(epoch),
            Self::Lease { .. } | Self::Task { .. } | Self::Job { .. } => None,
        }
    }

    /// Returns the refusal of a write when it is not so.
    #[must_use]
    pub fn stale(&self) -> Refusal {
        match self {
            Self::Epoch(epoch) => epoch.stale(),
            Self::Lease { id, agent: _, token } => Refusal::new(
                Code::LeaseEnded,
                format!(
                    "You do not hold {id} with the fencing token {token}, or no longer: nothing was changed. Acquire a new one and \
                     read again."
                ),
            ),
            Self::Task { id, agent: _, token } => Refusal::new(
                Code::ClaimConflict,
                format!(
                    "You do not have {id} by claim {token}, or no longer: nothing was changed. Stop working on it, or claim it \
                     again."
                ),
            ),
            Self::Job { id, token: _ } => Refusal::new(
                Code::ClaimLost,
                format!(
                    "You do not have {id} by this claim, or no longer: nothing was changed. It ended, or the claim ran out and \
                     the job went on without you. Drop it."
                ),
            ),
        }
    }
}

/// Splits a value into an id and its token.
fn parts(text: &str) -> Option<(&str, &str)> {
    let (id, parameter) = text.split_once(';')?;
    let token = parameter.trim().strip_prefix("token=")?;
    let is_token = (1..=TOKEN_BYTES).contains(&token.len())
        && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    is_token.then_some((id.trim(), token))
}

/// Parses a whole number from 1, in its only form.
fn number(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number > 0 && number.to_string() == text).then_some(number)
}
