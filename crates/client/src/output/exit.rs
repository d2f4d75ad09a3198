//! Exit statuses of commands, each with the code that `--json` shows for it.

/// Kind of a command's failure; determines the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Any failure without a kind of its own.
    Failed,
    /// The command line is wrong.
    Usage,
    /// A followed job ended with an error.
    JobError,
    /// A followed job was cancelled.
    JobCancelled,
    /// A followed job timed out.
    JobTimedOut,
    /// The server has no such thing, or hides it.
    NotFound,
    /// The server refused the request.
    Refused,
    /// There is no server, or it is unavailable.
    Unavailable,
    /// The time to wait for answers is over.
    TimedOut,
    /// The reader of the output has closed it: as for a process that SIGPIPE ends.
    Closed,
}

impl Exit {
    /// Returns the exit status.
    #[must_use]
    pub fn status(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::JobError => 3,
            Self::JobCancelled => 4,
            Self::JobTimedOut => 5,
            Self::NotFound => 6,
            Self::Refused => 7,
            Self::Unavailable => 8,
            Self::TimedOut => 9,
            Self::Closed => 141,
        }
    }

    /// Returns the `code` of failures of this kind that do not come from a server.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::JobError => "job_error",
            Self::JobCancelled => "job_cancelled",
            Self::JobTimedOut => "job_timed_out",
            Self::NotFound => "not_found",
            Self::Refused => "refused",
            Self::Unavailable => "unreachable",
            Self::TimedOut => "no_answer",
            Self::Closed => "output_closed",
        }
    }

    /// Returns the kind of a server's answer with this HTTP status.
    pub(crate) fn of_status(status: u16) -> Self {
        match status {
            404 | 410 => Self::NotFound,
            408 | 429 | 500.. => Self::Unavailable,
            _ => Self::Refused,
        }
    }
}

/// Failure of a kind that has an exit status of its own.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Ended {
    /// Kind of the failure.
    pub exit: Exit,
    /// Message for people.
    pub message: String,
}
