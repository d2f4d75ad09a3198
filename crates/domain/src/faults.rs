//! The error taxonomy of ARCP (§12). A closed list: clients drop frames that have another code (contract 3). REST refuses
//! with the house's own codes where ARCP has none (`refusal.rs`).

use serde::{Deserialize, Serialize};

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $wire:tt, $retryable:literal;)+) => {
        /// Why something of ARCP was not done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
        pub enum Fault { $($(#[$doc])* #[serde(rename = $wire)] $name,)+ }

        impl Fault {
            /// Every fault.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The code on the wire.
            #[must_use]
            pub fn wire(self) -> &'static str {
                match self { $(Self::$name => $wire,)+ }
            }

            /// Whether the same may be tried again as it is. `INTERNAL_ERROR` always is, `LEASE_EXPIRED` and
            /// `BUDGET_EXHAUSTED` never are (§12); clients drop what says otherwise (contract 4.2).
            #[must_use]
            pub fn retryable(self) -> bool {
                match self { $(Self::$name => $retryable,)+ }
            }
        }
    };
}

faults! {
    /// The lease does not cover it, or the policy does not allow it.
    PermissionDenied = "PERMISSION_DENIED", false;
    /// A child asked for more than its parent has.
    LeaseSubsetViolation = "LEASE_SUBSET_VIOLATION", false;
    /// There is no such job, or it is not visible.
    JobNotFound = "JOB_NOT_FOUND", false;
    /// The idempotency key was used for something else.
    DuplicateKey = "DUPLICATE_KEY", false;
    /// No such agent is registered.
    AgentNotAvailable = "AGENT_NOT_AVAILABLE", false;
    /// The agent has no such version.
    AgentVersionNotAvailable = "AGENT_VERSION_NOT_AVAILABLE", false;
    /// The job was cancelled.
    Cancelled = "CANCELLED", false;
    /// The job took longer than it may.
    Timeout = "TIMEOUT", false;
    /// What was missed is no longer kept.
    ResumeWindowExpired = "RESUME_WINDOW_EXPIRED", false;
    /// The other side has fallen silent.
    HeartbeatLost = "HEARTBEAT_LOST", true;
    /// The lease ended while the job ran.
    LeaseExpired = "LEASE_EXPIRED", false;
    /// A counter has nothing left.
    BudgetExhausted = "BUDGET_EXHAUSTED", false;
    /// It is malformed, or not what the schema says.
    InvalidRequest = "INVALID_REQUEST", false;
    /// Nobody is known by this token.
    Unauthenticated = "UNAUTHENTICATED", false;
    /// A defect of the runtime.
    InternalError = "INTERNAL_ERROR", true;
}

impl Fault {
    /// Reads a code; `None` when it is not of the list.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| fault.wire() == code)
    }
}
