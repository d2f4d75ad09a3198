//! Limits on each sender's urgent and high envelopes per minute (AEE §11.6).
//!
//! An envelope over its limit is not refused but delivered with the next lower priority that has room; only
//! the total limit, if there is one, makes a sender wait. The envelope itself keeps the priority given by its
//! sender.

use super::Priority;
use crate::rate::{Verdict as Rate, judge_minutely, spend_minutely};

/// The limits of each sender per minute; 0 means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Urgent envelopes.
    pub urgent: u32,
    /// High envelopes, including urgent ones that were lowered.
    pub high: u32,
    /// All envelopes.
    pub total: u32,
}

/// A sender's usage: for each limit the moment at which it is fully available again, in nanoseconds on a
/// steady clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    urgent: u64,
    high: u64,
    total: u64,
}

impl Rates {
    /// Multiplies all limits.
    #[must_use]
    pub fn times(self, factor: u32) -> Self {
        let Self { urgent, high, total } = self;
        let times = |rate: u32| rate.saturating_mul(factor);
        Self { urgent: times(urgent), high: times(high), total: times(total) }
    }
}

impl Spent {
    /// Returns the moment from which the usage is as if the sender had never sent anything.
    #[must_use]
    pub fn forgotten_at(self) -> u64 {
        self.urgent.max(self.high).max(self.total)
    }
}

/// The decision on an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    Pass {
        /// The effective priority, never higher than its own.
        priority: Priority,
        /// The sender's usage afterwards.
        spent: Spent,
    },
    /// The sender has to wait; nothing is charged.
    Wait {
        /// Nanoseconds until an envelope would pass.
        nanos: u64,
    },
}

/// Decides on one more envelope of a sender at `now`, in nanoseconds on any steady clock.
#[must_use]
pub fn judge(rates: Rates, spent: Spent, asked: Priority, now: u64) -> Verdict {
    let mut spent = match take(rates.total, spent.total, now) {
        Ok(total) => Spent { total, ..spent },
        Err(nanos) => return Verdict::Wait { nanos },
    };
    let mut priority = asked;
    loop {
        let (rate, bucket) = match priority {
            Priority::Urgent => (rates.urgent, &mut spent.urgent),
            Priority::High => (rates.high, &mut spent.high),
            Priority::Normal | Priority::Low => return Verdict::Pass { priority, spent },
        };
        if let Ok(full_at) = take(rate, *bucket, now) {
            *bucket = full_at;
            return Verdict::Pass { priority, spent };
        }
        priority = priority.lowered();
    }
}

/// Returns a sender's usage after an accepted envelope was also delivered to `others` more recipients.
///
/// Each counts towards the total; the excess delays the sender's next envelope.
#[must_use]
pub fn charge(rates: Rates, spent: Spent, others: u32, now: u64) -> Spent {
    if rates.total == 0 {
        return spent;
    }
    Spent { total: spend_minutely(rates.total, spent.total, others, now), ..spent }
}

/// Charges one to a limit: returns the moment to store, or the nanoseconds to wait.
fn take(per_minute: u32, full_at: u64, now: u64) -> Result<u64, u64> {
    if per_minute == 0 {
        return Ok(full_at);
    }
    match judge_minutely(per_minute, full_at, now) {
        Rate::Pass { full_at, .. } => Ok(full_at),
        Rate::Wait { nanos } => Err(nanos),
    }
}
