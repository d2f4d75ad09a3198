//! Remains of the events that retention has deleted: their hashes, which are the first leaves of the log's Merkle
//! tree. With them every checkpoint and every proof holds as before, and the chain of the remaining events begins at a
//! known hash. Checkpoints vouch for them ([`crate::log::checkpoints::verify_rest`]).

use crate::canonical::{self, Digest};
use crate::log::chains::{Break, verify};
use crate::log::events::Sealed;

/// Hashes of the deleted events of a log, oldest first. Only the oldest events of a log are deleted, so the rest of it
/// follows the last one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeletedEvents(pub Vec<Digest>);

impl DeletedEvents {
    /// Parses the hashes in their wire form; `None` if one of them is malformed.
    #[must_use]
    pub fn read(hashes: &[String]) -> Option<Self> {
        hashes.iter().map(|hash| canonical::read(hash)).collect::<Option<_>>().map(Self)
    }

    /// Returns the number of deleted events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the log is still whole.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Verifies the chain of the remaining events, which follows the last deleted one.
    #[must_use]
    pub fn verify_rest(&self, events: &[Sealed]) -> Vec<Break> {
        let first = i64::try_from(self.len()).unwrap_or(i64::MAX).saturating_add(1);
        verify(events, first, self.0.last().map(canonical::show).as_deref())
    }
}
