//! Why a deed was not done. What a client hears of it is `http/error.rs`.

use entente_domain::refusal::{Code, Refusal};
use entente_runtime::deadlines::Late;
use entente_store::commit::Unanswered;

/// Why a deed was not done.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The law refused it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database cannot be reached, or the server is stopping. Nothing is known to have been done.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The database has rolled it back: somebody else was in its way, or it took too long. Nothing was done, and the same may
    /// go well now.
    #[error("rolled back ({state}): {why}")]
    RolledBack {
        /// PostgreSQL's word for the reason (SQLSTATE).
        state: &'static str,
        /// What it said.
        why: String,
    },
    /// What it was judged by has changed before it was committed. Nothing was done; it is to be judged anew.
    #[error("what this was judged by has just changed")]
    Overtaken,
    /// What is stored is not what the law can have stored.
    #[error("inconsistent data: {0}")]
    Inconsistent(String),
    /// The database refused a statement: a defect.
    #[error(transparent)]
    Database(sqlx::Error),
}

impl AppError {
    /// Whether it says nothing about what was asked: the same may go well later, and nobody has to look after it.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::RolledBack { .. } | Self::Overtaken)
    }

    /// Whether somebody else was in the way: a lock was not to be had in time, or two waited for each other.
    pub(crate) fn is_contended(&self) -> bool {
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

impl From<sqlx::Error> for AppError {
    fn from(error: sqlx::Error) -> Self {
        if let Some(state) = entente_store::rolled_back(&error) {
            return Self::RolledBack { state, why: error.to_string() };
        }
        match &error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable(error.to_string()),
            // Class 08: connection; 53: resources (too many connections, disk full); 57P: stopping or starting;
            // 40: of the transaction it is not known how it ended; 25006: read-only while a standby takes over.
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
            // A name in a path or a query that has a NUL: nothing that is stored can be called that.
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
