//! Looking at a private PostgreSQL without touching it: what is there, for `entente doctor`.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use super::{Private, PrivateError, file};
use crate::binaries::Binaries;

/// What is in a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing yet: the first server that starts makes it.
    Nothing,
    /// A cluster with which an Entente works.
    AtWork,
    /// A cluster that waits for a server, of this version.
    AtRest(String),
}

impl Private {
    /// Looks what is in a data directory. Nothing is made, started or adopted.
    ///
    /// # Errors
    /// What is there cannot be read, or needs other programs.
    pub fn look(dir: &Path, binaries: &Binaries) -> Result<Found, PrivateError> {
        let data = dir.join("postgres");
        let Ok(version) = fs::read_to_string(data.join("PG_VERSION")) else {
            return Ok(Found::Nothing);
        };
        let version = version.trim().to_owned();
        if version != binaries.major.to_string() {
            return Err(PrivateError::Version { dir: data, found: version, installed: binaries.major });
        }
        let Ok(lock) = File::open(dir.join("entente.lock")) else { return Ok(Found::AtRest(version)) };
        // Let go of at once, when this is dropped.
        match lock.try_lock_shared() {
            Ok(()) => Ok(Found::AtRest(version)),
            Err(TryLockError::WouldBlock) => Ok(Found::AtWork),
            Err(TryLockError::Error(e)) => Err(file(format!("looking at {}", dir.display()))(e)),
        }
    }
}
