//! Whether a synchronous standby still confirms commits (`docs/adr/0018-nothing-unconfirmed.md`).
//!
//! A primary that is cut off from its standbys acknowledges nothing, but when it steps back, PostgreSQL ends the waiting commits,
//! and for a moment shows them to everybody who reads: entries that were never acknowledged, and that the next primary does not
//! have. So a server that has seen no confirmation for a while takes no connection from its pools, neither to read nor to write.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Pool;
use sqlx::{Executor as _, Row as _};
use tokio::time::sleep;

/// Time after the last confirmed commit from which on nothing is read: less than an isolated primary takes to step back, about
/// Patroni's `retry_timeout`, which is four seconds or more.
const DOUBT_AFTER: Duration = Duration::from_secs(2);

/// Pause before another look.
const AGAIN: Duration = Duration::from_millis(20);

/// When the last confirmed commit began; `None` if no standby has to confirm commits. The pools of a server share it.
#[derive(Debug, Clone, Default)]
pub struct Confirmations(Arc<Mutex<Option<Instant>>>);

impl Confirmations {
    /// Records a commit that was confirmed and began at this time, or the beginning of the watch.
    pub fn confirmed(&self, began: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(began);
    }

    /// Ends the watch: no standby has to confirm commits, or the server stops.
    pub fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns whether commits are watched.
    #[must_use]
    pub fn are_watched(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns whether no commit was confirmed for too long.
    #[must_use]
    pub fn are_missing(&self) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|began| began.elapsed() > DOUBT_AFTER)
    }

    /// Waits until commits are confirmed; the time limit of whoever waits ends it.
    pub(crate) async fn wait(&self) {
        while self.are_missing() {
            sleep(AGAIN).await;
        }
    }
}

/// Returns whether a standby has to confirm commits.
///
/// # Errors
/// The database fails.
pub async fn awaits_standby(pool: &Pool) -> Result<bool, sqlx::Error> {
    let question = "SELECT coalesce(current_setting('synchronous_standby_names', true), '') <> ''";
    pool.acquire().await?.fetch_one(question).await?.try_get(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirmations_are_missing_only_while_they_are_watched() {
        let long_ago = Instant::now().checked_sub(DOUBT_AFTER * 2).unwrap();
        let confirmations = Confirmations::default();
        assert!(!confirmations.are_missing() && !confirmations.are_watched(), "nobody has to confirm");
        confirmations.confirmed(long_ago);
        assert!(confirmations.are_missing() && confirmations.clone().are_missing(), "all pools share it");
        confirmations.confirmed(Instant::now());
        assert!(!confirmations.are_missing() && confirmations.are_watched());
        confirmations.confirmed(long_ago);
        confirmations.end();
        assert!(!confirmations.are_missing());
    }
}
