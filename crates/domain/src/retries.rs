//! When a delivery that failed is tried again, and when a receiver is given up: pure arithmetic over what happened.
//!
//! Two clocks run. Each delivery has the schedule of Standard Webhooks, over about a day. Each receiver has a pause after
//! it failed, so that one that hangs or is down costs an attempt now and then and not one per delivery.

use crate::clock::Timestamp;

/// Seconds between the attempts at one delivery: after the last of them it is given up.
pub const SCHEDULE: [u32; 7] = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000];

/// Seconds of nothing but failures after which a receiver is disabled.
pub const PATIENCE_SECONDS: i64 = 120 * 3_600;

/// Seconds that a receiver is left alone at least when it said "too many" or did not answer in time.
const SATURATED_SECONDS: u32 = 60;

/// Seconds of the first pause of a receiver that failed, and of the longest.
const PAUSE_SECONDS: (u32, u32) = (1, 300);

/// How an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The receiver answered with a status that is no success.
    Status(u16),
    /// It did not answer in time.
    TimedOut,
    /// It could not be reached, or may not be.
    Unreachable,
}

impl Failure {
    /// Whether the receiver asked for time, by word or by silence.
    #[must_use]
    pub fn saturated(self) -> bool {
        matches!(self, Self::Status(429) | Self::TimedOut)
    }

    /// Whether it is the receiver that is in trouble, and not this one delivery that it does not like.
    #[must_use]
    pub fn of_receiver(self) -> bool {
        match self {
            Self::Status(status) => {
                status >= 500 || matches!(status, 408 | 425 | 429) || (300..400).contains(&status)
            }
            Self::TimedOut | Self::Unreachable => true,
        }
    }

    /// Whether the receiver says that it is gone for good.
    #[must_use]
    pub fn gone(self) -> bool {
        self == Self::Status(410)
    }
}

/// Milliseconds until a delivery is tried again after `made` attempts; `None`: it has been tried often enough.
/// `Retry-After` counts between once and twice the schedule's own time; without it the time varies by a fifth either
/// way, so that what failed together does not come back together.
#[must_use]
pub fn again_after(made: u32, failure: Failure, retry_after: Option<u32>, chance: u64) -> Option<u64> {
    let step = usize::try_from(made.checked_sub(1)?).ok()?;
    let base = u64::from(*SCHEDULE.get(step)?) * 1_000;
    let wait = match retry_after {
        Some(seconds) => (u64::from(seconds) * 1_000).clamp(base, base * 2),
        // 80 % to 120 %.
        None => base * (800 + chance % 401) / 1_000,
    };
    let floor = if failure.saturated() { u64::from(SATURATED_SECONDS) * 1_000 } else { 0 };
    Some(wait.max(floor))
}

/// Seconds that a receiver is left alone after `failures` in a row, the last of this kind. None after a failure that is
/// not the receiver's.
#[must_use]
pub fn pause(failures: u32, failure: Failure, retry_after: Option<u32>) -> u32 {
    if !failure.of_receiver() {
        return 0;
    }
    let (first, longest) = PAUSE_SECONDS;
    let grown = first.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(longest);
    let asked = retry_after.unwrap_or(0).min(longest);
    let floor = if failure.saturated() { SATURATED_SECONDS } else { 0 };
    grown.max(asked).max(floor)
}

/// Whether a receiver that has only failed since then is given up.
#[must_use]
pub fn given_up(failing_since: Timestamp, now: Timestamp) -> bool {
    (now - failing_since).num_seconds() >= PATIENCE_SECONDS
}
