//! How a trigger goes on: whether it makes an intent when it is due, and what it is afterwards.

use super::{Cause, Deduplication, DisabledReason, SkipReason, Trigger};
use crate::clock::{Timestamp, plus_seconds};
use crate::limits::{TRIGGER_FAILURES, TRIGGER_FIRINGS_OF_PRINCIPAL_PER_MINUTE, TRIGGER_FIRINGS_PER_MINUTE};

/// What a trigger's firing is judged by, besides the trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circumstances {
    /// The time.
    pub now: Timestamp,
    /// An intent of the same type is open.
    pub open: bool,
    /// Another firing of it waits for that.
    pub waiting: bool,
    /// How many triggers' doing the intent would be.
    pub depth: u32,
}

/// What becomes of a firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// An intent is made.
    Fire,
    /// None is made.
    Skip(SkipReason),
    /// It waits until the open one is over.
    Wait,
}

impl Trigger {
    /// Whether it makes an intent now. By hand it is not asked to rest (RFC-0017 §8.3).
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

    /// The trigger after it made an intent.
    #[must_use]
    pub fn fired(&self, now: Timestamp) -> Self {
        let mut next =
            Self { fire_count: self.fire_count + 1, failures: 0, last_fired_at: Some(now), ..self.clone() };
        if self.max_fires.is_some_and(|most| next.fire_count >= most) {
            next = next.disabled(DisabledReason::MaxFires, now);
        }
        next
    }

    /// The trigger after it could make none. What somebody did by hand does not count against it.
    #[must_use]
    pub fn failed(&self, cause: Cause, now: Timestamp) -> Self {
        if cause == Cause::Hand {
            return self.clone();
        }
        let next = Self { failures: self.failures + 1, ..self.clone() };
        if next.failures >= TRIGGER_FAILURES { next.disabled(DisabledReason::Failing, now) } else { next }
    }

    /// The trigger, switched off.
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

    /// How many of `heard` events it may still fire for, when it was due `recent` times within the last minute.
    #[must_use]
    pub fn room(recent: i64) -> usize {
        usize::try_from(i64::from(TRIGGER_FIRINGS_PER_MINUTE) - recent).unwrap_or(0)
    }

    /// The same of all triggers of a principal together.
    #[must_use]
    pub fn room_of_principal(recent: i64) -> usize {
        usize::try_from(i64::from(TRIGGER_FIRINGS_OF_PRINCIPAL_PER_MINUTE) - recent).unwrap_or(0)
    }
}
