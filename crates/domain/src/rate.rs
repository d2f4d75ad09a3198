//! Rate limit of one key: a token bucket stored as a single timestamp (the generic cell rate algorithm).
//!
//! The timestamp is the time when the bucket will be full again. A request advances it by one interval; a request
//! that would advance it further than the burst allows is refused. The grant of the key
//! holds the timestamp (`crates/kernel/src/identity/grants.rs`). Envelope rates work the same way, per minute (`envelopes/quotas.rs`).

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;

/// Rate limit of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Sustained requests per second, at least 1.
    pub per_second: u32,
    /// Requests allowed at once after a pause, at least 1.
    pub burst: u32,
}

/// Decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The request may pass.
    Pass {
        /// Timestamp to store: nanoseconds on the caller's clock at which the bucket is full again.
        full_at: u64,
        /// Number of requests that may follow at once.
        remaining: u32,
    },
    /// The request must wait.
    Wait {
        /// Nanoseconds until a request would pass.
        nanos: u64,
    },
}

/// Decides about one request at `now` (nanoseconds on any monotonic clock), given the stored timestamp.
#[must_use]
pub fn judge(allowance: Allowance, full_at: u64, now: u64) -> Verdict {
    paced(SECOND, allowance.per_second, allowance.burst, full_at, now)
}

/// As [`judge`], with a limit per minute, all of which may be used at once after a minute's pause.
#[must_use]
pub fn judge_minutely(per_minute: u32, full_at: u64, now: u64) -> Verdict {
    paced(60 * SECOND, per_minute, per_minute, full_at, now)
}

/// Returns the timestamp after `many` requests, whether or not they were within the limit; any excess delays later requests.
#[must_use]
pub fn spend_minutely(per_minute: u32, full_at: u64, many: u32, now: u64) -> u64 {
    let interval = (60 * SECOND).div_ceil(u64::from(per_minute.max(1)));
    full_at.max(now).saturating_add(interval.saturating_mul(u64::from(many)))
}

fn paced(span: u64, most: u32, burst: u32, full_at: u64, now: u64) -> Verdict {
    // Rounded up: the limit is a maximum, and a shorter interval would let slightly more pass.
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
