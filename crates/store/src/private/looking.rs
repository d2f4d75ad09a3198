//! Inspects a private PostgreSQL without changing it, for `entente doctor` and `entente backup`.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use sqlx::postgres::PgConnectOptions;

use super::{NAME, Private, PrivateError, file, options, socket_dir};
use crate::binaries::Binaries;

/// State of a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// No cluster yet; the first server that starts creates one.
    Nothing,
    /// A cluster in use by an Entente server.
    AtWork,
    /// A cluster that is not in use, and its version.
    AtRest(String),
}

impl Private {
    /// Returns the state of a data directory, without creating, starting or adopting anything.
    ///
    /// # Errors
    /// The directory cannot be read, or the cluster needs another version of the programs.
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
        // Released when this is dropped.
        match lock.try_lock_shared() {
            Ok(()) => Ok(Found::AtRest(version)),
            Err(TryLockError::WouldBlock) => Ok(Found::AtWork),
            Err(TryLockError::Error(e)) => Err(file(format!("looking at {}", dir.display()))(e)),
        }
    }

    /// Returns the connection options of a cluster in use by a server: the socket lies where that server put it.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn beside(dir: &Path) -> Result<PgConnectOptions, PrivateError> {
        let dir = dir.canonicalize().map_err(file(format!("resolving {}", dir.display())))?;
        Ok(options(&socket_dir(&dir), NAME))
    }
}
