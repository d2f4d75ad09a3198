//! Errors of operations; `crates/http/src/error.rs` maps them to responses.

use entente_domain::identity::fences::Fence;
use entente_domain::refusal::{Code, Refusal};
use entente_runtime::deadlines;
use entente_runtime::deadlines::Late;
use entente_runtime::fences;
use entente_runtime::turnstile::QueueFull;
use entente_store::commit::Unanswered;

/// An operation's error.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The domain rules refused it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database cannot be reached, or the server is stopping; nothing is known to have been done.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The database rolled it back because of a conflict or a timeout; nothing was done, and a retry may
    /// succeed.
    #[error("rolled back ({state}): {why}")]
    RolledBack {
        /// PostgreSQL's code for the reason (SQLSTATE).
        state: &'static str,
        /// PostgreSQL's message.
        why: String,
    },
    /// The data that it was judged by changed before the commit; nothing was done, and it must be judged
    /// again.
    #[error("what this was judged by has just changed")]
    Overtaken,
    /// The stored data violates the domain rules.
    #[error("inconsistent data: {0}")]
    Inconsistent(String),
    /// The database rejected a statement, which is a defect.
    #[error(transparent)]
    Database(sqlx::Error),
}

impl AppError {
    /// Whether the error is transient: a retry may succeed, and nobody needs to investigate.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::RolledBack { .. } | Self::Overtaken)
    }

    /// Returns the same failure for another command of a batch that failed as a whole.
    #[must_use]
    pub fn repeated(&self) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(refusal.clone()),
            Self::Unavailable(why) => Self::Unavailable(why.clone()),
            Self::RolledBack { state, why } => Self::RolledBack { state, why: why.clone() },
            Self::Overtaken => Self::Overtaken,
            Self::Inconsistent(why) => Self::Inconsistent(why.clone()),
            Self::Database(error) => Self::Inconsistent(error.to_string()),
        }
    }

    /// Whether a lock could not be acquired in time, or the transaction was part of a deadlock.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        matches!(self, Self::RolledBack { state: "55P03" | "40P01" | "40001", .. })
    }
}

impl From<Unanswered> for AppError {
    fn from(unanswered: Unanswered) -> Self {
        Self::Unavailable(unanswered.to_string())
    }
}

impl From<Late> for AppError {
    fn from(late: Late) -> Self {
        Self::Unavailable(late.to_string())
    }
}

/// Only slow hashes are queued: passwords, and keys of earlier releases.
impl From<QueueFull> for AppError {
    fn from(_: QueueFull) -> Self {
        let message = "So many passwords and old keys are being checked at this moment that nothing more is taken. Try \
                       again in a second.";
        let refusal = Refusal { retry_after_seconds: Some(1), ..Refusal::new(Code::Unavailable, message) };
        refusal.into()
    }
}

impl From<sqlx::Error> for AppError {
    fn from(error: sqlx::Error) -> Self {
        if entente_store::is_disconnected(&error) {
            // Its connection is not used again, and others may have ended with it.
            deadlines::doubt();
        }
        if let Some(state) = entente_store::rolled_back(&error) {
            return Self::RolledBack { state, why: error.to_string() };
        }
        if entente_store::is_fenced(&error) {
            // Of a batch, each command is then done alone, with its own fences.
            let broken = fences::current().into_iter().find(|fence| entente_store::is_broken(&error, fence));
            return broken.as_ref().map(Fence::stale).map_or(Self::Database(error), Self::Refused);
        }
        match &error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable(error.to_string()),
            // Class 08: connection; 53: resources (too many connections, disk full); 57P: stopping or
            // starting; 40: the transaction's outcome is unknown; 25006: read-only while a standby takes
            // over.
            sqlx::Error::Database(e)
                if e.code().is_some_and(|code| {
                    code.starts_with("08")
                        || code.starts_with("53")
                        || code.starts_with("57P")
                        || code.starts_with("40")
                        || code == "25006"
                }) =>
            {
                Self::Unavailable(error.to_string())
            }
            // A NUL character in a path or a query: no stored name can contain one.
            sqlx::Error::Database(e) if e.code().is_some_and(|code| code == "22021") => {
                Self::Refused(Refusal::new(
                    Code::NulCharacter,
                    "The request has a NUL character, which cannot be stored and is in no name. Remove it.",
                ))
            }
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                Self::Inconsistent(error.to_string())
            }
            _ => Self::Database(error),
        }
    }
}

impl From<serde_json::Error> for AppError {
    fn from(error: serde_json::Error) -> Self {
        Self::Inconsistent(error.to_string())
    }
}
