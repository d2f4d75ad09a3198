//! The rate of one key: a token bucket kept as a single moment (the generic cell rate algorithm).
//!
//! The moment is when the bucket will be full again. A request moves it one interval ahead; one that would move it
//! further than the burst allows is refused. Keeping the moment is the server's business (`api/src/http/caller.rs`). The rates of
//! envelopes are kept the same way, by the minute (`envelopes/quotas.rs`).

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// A key's allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Requests per second in the long run, at least 1.
    pub per_second: u32,
    /// Requests that may come at once after a pause, at least 1.
    pub burst: u32,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may pass.
    Pass {
        /// The moment to keep: nanoseconds on the caller's clock at which the bucket is full again.
        full_at: u64,
        /// Requests that could follow at once.
        remaining: u32,
    },
    /// It must wait.
    Wait {
        /// Nanoseconds until a request would pass.
        nanos: u64,
    },
}

/// Judges one request at `now` (nanoseconds on any steady clock) given the kept moment.
#[must_use]
pub fn judge(allowance: Allowance, full_at: u64, now: u64) -> Verdict {
    paced(SECOND, allowance.per_second, allowance.burst, full_at, now)
}

/// As [`judge`], where so many may come in each minute, and all of them at once after a minute's pause.
#[must_use]
pub fn judge_minutely(per_minute: u32, full_at: u64, now: u64) -> Verdict {
    paced(60 * SECOND, per_minute, per_minute, full_at, now)
}

/// What is spent once so many more came in, whether or not there was room for them: what is over is waited for.
#[must_use]
pub fn spend_minutely(per_minute: u32, full_at: u64, many: u32, now: u64) -> u64 {
    let interval = (60 * SECOND).div_ceil(u64::from(per_minute.max(1)));
    full_at.max(now).saturating_add(interval.saturating_mul(u64::from(many)))
}

fn paced(span: u64, most: u32, burst: u32, full_at: u64, now: u64) -> Verdict {
    // Rounded up: an allowance is a maximum, and a shorter interval would let a little more pass.
    let interval = span.div_ceil(u64::from(most.max(1)));
    let capacity = interval.saturating_mul(u64::from(burst.max(1)));
    let next = full_at.max(now).saturating_add(interval);
    let ahead = next - now;
    if ahead > capacity {
        return Verdict::Wait { nanos: ahead - capacity };
    }
    let remaining = u32::try_from((capacity - ahead) / interval).unwrap_or(u32::MAX);
    Verdict::Pass { full_at: next, remaining }
}
