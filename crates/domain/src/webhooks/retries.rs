//! Retry schedule of webhook deliveries, and the decision to disable a receiver: pure arithmetic over past attempts.
//!
//! There are two independent clocks. Each delivery to a URL follows the schedule of Standard Webhooks, over about a day. Each
//! receiver is paused after a failure, so that a hanging or unreachable one costs an occasional attempt instead of
//! one per delivery. Deliveries to a broker have the second clock only: their order is kept.

use crate::clock::Timestamp;

/// Seconds between attempts at one delivery; after the last one the delivery is dropped.
pub const SCHEDULE: [u32; 7] = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000];

/// Seconds of continuous failure after which a receiver is disabled.
pub const PATIENCE_SECONDS: i64 = 120 * 3_600;

/// Minimum pause in seconds of a receiver that answered "too many" or timed out.
const SATURATED_SECONDS: u32 = 60;

/// Shortest and longest pause of a failed receiver, in seconds.
const PAUSE_SECONDS: (u32, u32) = (1, 300);

/// Kind of failure of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The receiver answered with a status other than success.
    Status(u16),
    /// The receiver did not answer in time.
    TimedOut,
    /// The receiver could not be reached, or its address is forbidden.
    Unreachable,
    /// A broker did not take it, or did not say so. It keeps its place, because the deliveries after it must wait.
    Held,
    /// A broker will never take it: it is too large.
    Refused,
}

impl Failure {
    /// Returns whether the receiver is overloaded: it said so, or timed out.
    #[must_use]
    pub fn saturated(self) -> bool {
        matches!(self, Self::Status(429) | Self::TimedOut)
    }

    /// Returns whether the receiver as a whole is failing, as opposed to rejecting this delivery.
    #[must_use]
    pub fn of_receiver(self) -> bool {
        match self {
            Self::Status(status) => {
                status >= 500 || matches!(status, 408 | 425 | 429) || (300..400).contains(&status)
            }
            Self::TimedOut | Self::Unreachable | Self::Held => true,
            Self::Refused => false,
        }
    }

    /// Returns whether the delivery is tried again at its place, as often as it takes, and not by the schedule.
    #[must_use]
    pub fn keeps_place(self) -> bool {
        self == Self::Held
    }

    /// Returns whether the receiver has gone permanently.
    #[must_use]
    pub fn gone(self) -> bool {
        self == Self::Status(410)
    }
}

/// A failed attempt at sending something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// How it failed.
    pub failure: Failure,
    /// The same in words.
    pub error: String,
    /// Seconds after which the receiver asks to be retried.
    pub retry_after: Option<u32>,
}

impl Failed {
    /// An attempt without an answer, for this reason.
    #[must_use]
    pub fn silent(failure: Failure, error: String) -> Self {
        Self { failure, error, retry_after: None }
    }

    /// An attempt whose receiver did not answer in time.
    #[must_use]
    pub fn timed_out() -> Self {
        Self::silent(Failure::TimedOut, "it did not answer in time".to_owned())
    }
}

/// Returns the milliseconds until the next attempt after `made` attempts; `None` if there are no attempts left, or if another one
/// would be in vain.
///
/// `Retry-After` counts between once and twice the scheduled time; without it the time varies by a fifth either way,
/// so that deliveries that failed together are not retried together.
#[must_use]
pub fn again_after(made: u32, failure: Failure, retry_after: Option<u32>, chance: u64) -> Option<u64> {
    if failure == Failure::Refused {
        return None;
    }
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

/// Returns the pause of a receiver in seconds after `failures` consecutive failures, given the latest; 0 if that
/// failure is not the receiver's.
#[must_use]
pub fn pause(failures: u32, failure: Failure, retry_after: Option<u32>) -> u32 {
    if failure.of_receiver() { growing_pause(failures, failure, retry_after) } else { 0 }
}

/// Returns the pause in seconds after `failures` consecutive failures, whoever's they are.
#[must_use]
pub fn growing_pause(failures: u32, failure: Failure, retry_after: Option<u32>) -> u32 {
    let (first, longest) = PAUSE_SECONDS;
    let grown = first.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(longest);
    let asked = retry_after.unwrap_or(0).min(longest);
    let floor = if failure.saturated() { SATURATED_SECONDS } else { 0 };
    grown.max(asked).max(floor)
}

/// Returns whether a receiver that has failed continuously since then is to be disabled.
#[must_use]
pub fn given_up(failing_since: Timestamp, now: Timestamp) -> bool {
    (now - failing_since).num_seconds() >= PATIENCE_SECONDS
}
