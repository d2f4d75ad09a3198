//! The error taxonomy of ARCP (§12), a closed list: clients drop frames with other codes (ARCP-W-3.9). Where
//! ARCP has no code, REST uses this system's own (`refusal.rs`).

use serde::{Deserialize, Serialize};

use crate::refusal::Code;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $wire:tt, $retryable:literal;)+) => {
        /// An error of ARCP.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
        pub enum Fault { $($(#[$doc])* #[serde(rename = $wire)] $name,)+ }

        impl Fault {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The code on the wire.
            #[must_use]
            pub fn wire(self) -> &'static str {
                match self { $(Self::$name => $wire,)+ }
            }

            /// Whether the same request may be retried unchanged.
            ///
            /// `INTERNAL_ERROR` always is retryable, `LEASE_EXPIRED` and `BUDGET_EXHAUSTED` never are (§12);
            /// clients drop frames that contradict this (ARCP-W-4.2.2).
            #[must_use]
            pub fn retryable(self) -> bool {
                match self { $(Self::$name => $retryable,)+ }
            }
        }
    };
}

faults! {
    /// The lease does not cover the operation, or the policy does not allow it.
    PermissionDenied = "PERMISSION_DENIED", false;
    /// A child asked for more than its parent has.
    LeaseSubsetViolation = "LEASE_SUBSET_VIOLATION", false;
    /// The job does not exist, or is not visible to the caller.
    JobNotFound = "JOB_NOT_FOUND", false;
    /// The idempotency key was used for another request.
    DuplicateKey = "DUPLICATE_KEY", false;
    /// No such agent is registered.
    AgentNotAvailable = "AGENT_NOT_AVAILABLE", false;
    /// The agent has no such version.
    AgentVersionNotAvailable = "AGENT_VERSION_NOT_AVAILABLE", false;
    /// The job was cancelled.
    Cancelled = "CANCELLED", false;
    /// The job exceeded its time limit.
    Timeout = "TIMEOUT", false;
    /// The missed events are no longer stored.
    ResumeWindowExpired = "RESUME_WINDOW_EXPIRED", false;
    /// The other side sends no heartbeats any more.
    HeartbeatLost = "HEARTBEAT_LOST", true;
    /// The lease ended while the job ran.
    LeaseExpired = "LEASE_EXPIRED", false;
    /// A budget counter has nothing left.
    BudgetExhausted = "BUDGET_EXHAUSTED", false;
    /// The request is malformed, or does not match the schema.
    InvalidRequest = "INVALID_REQUEST", false;
    /// The token is unknown.
    Unauthenticated = "UNAUTHENTICATED", false;
    /// A defect of the runtime.
    InternalError = "INTERNAL_ERROR", true;
}

impl Fault {
    /// Parses a code; `None` if it is not in the list.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| fault.wire() == code)
    }
}

impl From<Code> for Fault {
    /// Returns the equivalent ARCP code (§12): clients of its sockets drop all other codes (ARCP-W-3.9).
    fn from(code: Code) -> Self {
        match code {
            Code::Unauthenticated => Self::Unauthenticated,
            Code::ScopeMissing
            | Code::MayNotActAs
            | Code::Forbidden
            | Code::AccessClosed
            | Code::NotAMember
            | Code::TooManyStreams
            | Code::NotThePrincipal
            | Code::GovernanceViolation
            | Code::Stopped
            | Code::StorageFull
            | Code::StaleEpoch
            | Code::EpochRequired
            | Code::LoopStopped
            | Code::PermissionDenied => Self::PermissionDenied,
            Code::NotFound | Code::JobNotFound => Self::JobNotFound,
            Code::DuplicateKey | Code::IdempotencyMismatch => Self::DuplicateKey,
            Code::LeaseSubsetViolation => Self::LeaseSubsetViolation,
            Code::AgentNotAvailable => Self::AgentNotAvailable,
            Code::AgentVersionNotAvailable => Self::AgentVersionNotAvailable,
            Code::Cancelled => Self::Cancelled,
            Code::LeaseExpired => Self::LeaseExpired,
            Code::BudgetExhausted => Self::BudgetExhausted,
            Code::ResumeWindowExpired => Self::ResumeWindowExpired,
            Code::RateLimited
            | Code::LoopSlowed
            | Code::RequestTimeout
            | Code::Unavailable
            | Code::Internal
            | Code::ResultTooLarge => Self::InternalError,
            _ => Self::InvalidRequest,
        }
    }
}
