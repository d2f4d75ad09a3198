//! How pressing one sender may be (AEE §11.6): so many urgent and so many high envelopes a minute. One over that is not
//! refused but goes with a lower priority, the next one that has room; only the total, if there is one, makes a sender wait.
//! The envelope itself keeps the priority that its sender gave it.

use super::Priority;
use crate::rate::{Verdict as Rate, judge_minutely, spend_minutely};

/// What each sender may send in a minute; 0 is without limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Urgent ones.
    pub urgent: u32,
    /// High ones, those that were urgent included.
    pub high: u32,
    /// All together.
    pub total: u32,
}

/// What a sender has spent: for each rate the moment at which all of it is there again, in nanoseconds on a steady clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    urgent: u64,
    high: u64,
    total: u64,
}

impl Rates {
    /// So many times as much.
    #[must_use]
    pub fn times(self, factor: u32) -> Self {
        let Self { urgent, high, total } = self;
        let times = |rate: u32| rate.saturating_mul(factor);
        Self { urgent: times(urgent), high: times(high), total: times(total) }
    }
}

impl Spent {
    /// From when on it is as if the sender had never sent anything.
    #[must_use]
    pub fn forgotten_at(self) -> u64 {
        self.urgent.max(self.high).max(self.total)
    }
}

/// What becomes of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes.
    Pass {
        /// With this priority, never a higher one than its own.
        priority: Priority,
        /// What its sender has spent now.
        spent: Spent,
    },
    /// Its sender has to wait; nothing is spent.
    Wait {
        /// Nanoseconds until an envelope would pass.
        nanos: u64,
    },
}

/// Judges one more envelope of a sender at `now`, in nanoseconds on any steady clock.
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

/// What a sender has spent once an envelope that passed has gone to so many others besides: each counts towards the total,
/// and what there was no room for is waited for before the next one.
#[must_use]
pub fn charge(rates: Rates, spent: Spent, others: u32, now: u64) -> Spent {
    if rates.total == 0 {
        return spent;
    }
    Spent { total: spend_minutely(rates.total, spent.total, others, now), ..spent }
}

/// Takes one from a rate: the moment to keep, or how long there is none.
fn take(per_minute: u32, full_at: u64, now: u64) -> Result<u64, u64> {
    if per_minute == 0 {
        return Ok(full_at);
    }
    match judge_minutely(per_minute, full_at, now) {
        Rate::Pass { full_at, .. } => Ok(full_at),
        Rate::Wait { nanos } => Err(nanos),
    }
}
