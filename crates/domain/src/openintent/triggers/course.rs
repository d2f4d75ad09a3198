//! Decides whether a due trigger creates an intent, and updates the trigger afterwards.

use super::{Cause, Deduplication, DisabledReason, SkipReason, Trigger};
use crate::clock::{Timestamp, plus_seconds};
use crate::limits::{TRIGGER_FAILURES, TRIGGER_FIRINGS_OF_PRINCIPAL_PER_MINUTE, TRIGGER_FIRINGS_PER_MINUTE};

/// Facts about a firing, apart from the trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circumstances {
    /// Current time.
    pub now: Timestamp,
    /// Whether an intent of the same type is open.
    pub open: bool,
    /// Whether another firing already waits for that intent.
    pub waiting: bool,
    /// Number of triggers in the causal chain of the intent.
    pub depth: u32,
}

/// Decision about a firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Create an intent.
    Fire,
    /// Create none.
    Skip(SkipReason),
    /// Wait until the open intent is over.
    Wait,
}

impl Trigger {
    /// Decides whether to create an intent now; manual firings ignore the cooldown (RFC-0017 §8.3).
    #[must_use]
    pub fn judge(&self, cause: Cause, c: Circumstances) -> Verdict {
        if c.depth > self.max_depth {
            return Verdict::Skip(SkipReason::CascadeLimit);
        }
        let rests = |seconds: u32, last: Timestamp| c.now < plus_seconds(last, seconds);
        let resting = self.cooldown_seconds.zip(self.last_fired_at).is_some_and(|(s, last)| rests(s, last));
        if cause != Cause::Hand && resting {
            return Verdict::Skip(SkipReason::Cooldown);
        }
        match self.deduplication {
            Deduplication::Skip if c.open => Verdict::Skip(SkipReason::Deduplicated),
            Deduplication::Queue if c.open && c.waiting => Verdict::Skip(SkipReason::QueueFull),
            Deduplication::Queue if c.open => Verdict::Wait,
            _ => Verdict::Fire,
        }
    }

    /// Returns the trigger after it created an intent.
    #[must_use]
    pub fn fired(&self, now: Timestamp) -> Self {
        let mut next =
            Self { fire_count: self.fire_count + 1, failures: 0, last_fired_at: Some(now), ..self.clone() };
        if self.max_fires.is_some_and(|most| next.fire_count >= most) {
            next = next.disabled(DisabledReason::MaxFires, now);
        }
        next
    }

    /// Returns the trigger after it fired for a job, which may still be refused: its failures end when one is submitted.
    #[must_use]
    pub fn fired_for_job(&self, now: Timestamp) -> Self {
        Self { failures: self.failures, ..self.fired(now) }
    }

    /// Returns the trigger after a failed firing; failures of manual firings do not count.
    #[must_use]
    pub fn failed(&self, cause: Cause, now: Timestamp) -> Self {
        if cause == Cause::Hand {
            return self.clone();
        }
        let next = Self { failures: self.failures + 1, ..self.clone() };
        if next.failures >= TRIGGER_FAILURES { next.disabled(DisabledReason::Failing, now) } else { next }
    }

    /// Returns the trigger, disabled.
    #[must_use]
    pub fn disabled(&self, reason: DisabledReason, now: Timestamp) -> Self {
        Self {
            enabled: false,
            disabled_reason: Some(reason),
            next_due: None,
            version: self.version + 1,
            updated_at: now,
            ..self.clone()
        }
    }

    /// Returns how many more events it may fire for, given `recent` firings within the last minute.
    #[must_use]
    pub fn room(recent: i64) -> usize {
        usize::try_from(i64::from(TRIGGER_FIRINGS_PER_MINUTE) - recent).unwrap_or(0)
    }

    /// Returns the same for all triggers of a principal together.
    #[must_use]
    pub fn room_of_principal(recent: i64) -> usize {
        usize::try_from(i64::from(TRIGGER_FIRINGS_OF_PRINCIPAL_PER_MINUTE) - recent).unwrap_or(0)
    }
}
