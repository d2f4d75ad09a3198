//! Values of the columns that the tables of jobs, of agent versions and of credentials share.

use entente_domain::arcp::jobs::OnLost;
use entente_kernel::{Outcome, unknown};

/// Reads the handling of a job that has lost its worker.
pub(crate) fn on_lost(word: &str) -> Outcome<OnLost> {
    let known = [OnLost::Requeue, OnLost::Fail].into_iter().find(|known| known.as_str() == word);
    known.ok_or_else(|| unknown("policy of lost workers", word))
}

/// Reads a number that is never negative.
pub(crate) fn number(stored: i32) -> Outcome<u32> {
    u32::try_from(stored).map_err(|_negative| unknown("number of a job", &stored.to_string()))
}

/// Returns a number as its column stores it.
pub(crate) fn column(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
