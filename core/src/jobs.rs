//! Jobs (ARCP §7): the states that one goes through, who moves it, and how it ends. What it may touch and spend is
//! `capabilities.rs` and `budgets.rs`, its streamed result `chunks.rs`.

use serde::{Deserialize, Serialize};

use crate::faults::Fault;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// It was accepted and waits for a worker.
    Pending,
    /// A worker has claimed it (contract 9, decision 2).
    Running,
    /// It is done.
    Success,
    /// It failed.
    Error,
    /// It was called off.
    Cancelled,
    /// It took longer than it may.
    TimedOut,
}

impl JobStatus {
    /// Every status.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Running, Self::Success, Self::Error, Self::Cancelled, Self::TimedOut];

    /// The status as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Success => "success",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
        }
    }

    /// Reads a status; `None` when there is no such status.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether nothing can happen to the job any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// What happens to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// A worker takes it.
    Claimed,
    /// Its worker gives it back, or was lost, and it may be tried again.
    Returned,
    /// Its worker hands in a result.
    Finished,
    /// It ends with a fault: its worker's word, or the runtime's.
    Failed(Fault),
}

/// Where a turn leads. `None`: it cannot happen to a job that stands there.
#[must_use]
pub fn turned(from: JobStatus, turn: Turn) -> Option<JobStatus> {
    match (from, turn) {
        (JobStatus::Pending, Turn::Claimed) => Some(JobStatus::Running),
        (JobStatus::Running, Turn::Returned) => Some(JobStatus::Pending),
        (JobStatus::Running, Turn::Finished) => Some(JobStatus::Success),
        (JobStatus::Pending | JobStatus::Running, Turn::Failed(fault)) => Some(ended_by(fault)),
        _ => None,
    }
}

/// The `final_status` that a fault ends a job with (§7.3, §12): a spent budget and an expired lease are errors.
#[must_use]
pub fn ended_by(fault: Fault) -> JobStatus {
    match fault {
        Fault::Cancelled => JobStatus::Cancelled,
        Fault::Timeout => JobStatus::TimedOut,
        _ => JobStatus::Error,
    }
}
