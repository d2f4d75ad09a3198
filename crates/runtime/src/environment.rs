//! System clock and system randomness: the only code that reads either. All other code takes a [`Clock`] and
//! a [`Chance`]; tests pass their own.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use entente_domain::clock::{Clock, Timestamp, micros};
use entente_domain::ids::Chance;
use rustix::time::{ClockId, clock_gettime};

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    fn now(&self) -> Timestamp {
        micros(chrono::Utc::now())
    }
}

/// Difference in microseconds below which two clocks count as equal: about the duration of a query.
const CLOSE_MICROS: i64 = 2_000;

/// Longest duration of an answer that is trusted.
///
/// The split between the two directions is unknown, so the reported time may be off by half of this, and so
/// may the clock.
const PROMPT: Duration = Duration::from_millis(50);

/// Number of answers that set the clock when the server starts; the fastest one counts.
///
/// After that the clock is only slewed.
pub const FIRST: u32 = 5;

/// Microseconds without a fast answer after which the best of the slow ones is used, as far as it can be
/// trusted: the database is simply that far away.
const SLOW_AFTER_MICROS: i64 = 30_000_000;

/// Slew limit: the clock moves by at most one part in this many of the elapsed time, however far off it is.
///
/// So no time is skipped or repeated, and a lease of one minute is at most three seconds shorter or longer. A
/// trusted but wrong answer moves the clock by 25 ms at most until the next one.
const SLEW_PART: i64 = 20;

/// Deviation in microseconds at which a warning is logged.
const FAR_MICROS: i64 = 1_000_000;

/// PostgreSQL's time, shared by all servers.
///
/// Leases, claims and sessions end at the same instant on every server that shares a database, whatever the
/// servers' own clocks say (ARCP §14).
///
/// Between two answers of PostgreSQL it advances with a monotonic clock, so a correction of the machine's
/// time has no effect on it.
#[derive(Debug, Default)]
pub struct SharedClock(Mutex<Shared>);

/// State of the shared clock. All values are in microseconds; `steady` is the monotonic clock.
#[derive(Debug, Default)]
struct Shared {
    /// Answers received so far, up to [`FIRST`].
    heard: u32,
    /// Duration of the fastest of them.
    best: Duration,
    /// Offset of the shared time from the monotonic clock at the monotonic time `at`.
    ahead: i64,
    at: i64,
    /// Target offset.
    goal: i64,
    /// Monotonic time of the last fast answer.
    prompt_at: i64,
    /// Fastest of the slow answers since then: its duration and the offset it reports.
    slow: Option<(Duration, i64)>,
}

impl Shared {
    /// Returns the offset of the shared time at the monotonic time `steady`.
    fn ahead(&self, steady: i64) -> i64 {
        let most = (steady - self.at).max(0) / SLEW_PART;
        self.ahead + (self.goal - self.ahead).clamp(-most, most)
    }

    /// Records an answer that reports the offset `ahead` and took `took`.
    fn hear(&mut self, steady: i64, ahead: i64, took: Duration) {
        if self.heard < FIRST {
            if self.heard == 0 || took < self.best {
                (self.best, self.ahead, self.goal) = (took, ahead, ahead);
            }
            self.heard += 1;
            (self.at, self.prompt_at) = (steady, steady);
            return;
        }
        (self.ahead, self.at) = (self.ahead(steady), steady);
        if took <= PROMPT {
            (self.prompt_at, self.slow) = (steady, None);
            self.draw(ahead, took);
            return;
        }
        if self.slow.is_none_or(|(best, _)| took < best) {
            self.slow = Some((took, ahead));
        }
        if steady - self.prompt_at > SLOW_AFTER_MICROS
            && let Some((took, ahead)) = self.slow.take()
        {
            self.prompt_at = steady;
            self.draw(ahead, took);
        }
    }

    /// Sets the target offset from an answer, unless the difference is within the answer's uncertainty.
    fn draw(&mut self, ahead: i64, took: Duration) {
        let unsure = i64::try_from(took.as_micros() / 2).unwrap_or(i64::MAX).max(CLOSE_MICROS);
        let off = ahead.saturating_sub(self.ahead);
        self.goal = if off.abs() <= unsure { self.ahead } else { ahead };
        if off.abs() > FAR_MICROS.max(unsure) {
            tracing::warn!(off.micros = off, "this server's clock is off and is drawn to PostgreSQL's");
        }
    }
}

impl Clock for SharedClock {
    fn now(&self) -> Timestamp {
        let shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.heard == 0 {
            return SystemClock.now();
        }
        let steady = steady_micros();
        // In chrono's range as long as PostgreSQL's clock is.
        Timestamp::from_timestamp_micros(steady.saturating_add(shared.ahead(steady)))
            .unwrap_or_else(|| SystemClock.now())
    }

    fn set_by(&self, theirs: Timestamp, took: Duration) {
        let steady = steady_micros();
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.hear(steady, theirs.timestamp_micros().saturating_sub(steady), took);
    }
}

/// Returns microseconds of a monotonic clock, one that also advances during suspend where the system has one.
fn steady_micros() -> i64 {
    #[cfg(target_os = "linux")]
    const STEADY: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const STEADY: ClockId = ClockId::Monotonic;
    let now = clock_gettime(STEADY);
    now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1_000)
}

/// Random bytes fetched at once: one system call per id would cost more than all other work for an id.
const STOCK: usize = 1_024;

/// Random numbers of the operating system, fetched in batches.
///
/// Bytes are wiped once they have been handed out.
pub struct OsChance(Mutex<Stock>);

struct Stock {
    bytes: [u8; STOCK],
    left: usize,
}

impl Default for OsChance {
    fn default() -> Self {
        Self(Mutex::new(Stock { bytes: [0; STOCK], left: 0 }))
    }
}

impl fmt::Debug for OsChance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OsChance")
    }
}

impl Chance for OsChance {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads chance")]
    #[expect(
        clippy::expect_used,
        reason = "without random numbers no id and no key can be made; there is no way on"
    )]
    fn bits(&self) -> u128 {
        let mut stock = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Stock { bytes, left } = &mut *stock;
        if *left == 0 {
            getrandom::fill(bytes).expect("the operating system gives random numbers");
            *left = STOCK;
        }
        *left -= 16;
        let mut taken = [0; 16];
        taken.swap_with_slice(&mut bytes[*left..*left + 16]);
        u128::from_ne_bytes(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const MILLI: Duration = Duration::from_millis(1);

    /// A clock after its start phase: one second has passed, and the shared time is an hour ahead.
    fn set() -> Shared {
        let mut shared = Shared::default();
        // The first answer was slow and wrong by a minute.
        shared.hear(0, 3_660 * SECOND, Duration::from_mins(2));
        // One of the following answers is fast, and it is not the last.
        for n in 1..FIRST {
            let (said, took) = if n == 2 { (3_600, MILLI) } else { (3_601, MILLI * 20) };
            shared.hear(SECOND, said * SECOND, took);
        }
        assert_eq!(shared.ahead(SECOND), 3_600 * SECOND, "the promptest answer counts");
        shared
    }

    #[test]
    fn an_answer_that_took_long_moves_nothing() {
        // Each in its own run: two answers that are wrong in opposite directions would cancel out.
        for (said, took) in [(3_720, Duration::from_millis(51)), (3_300, Duration::from_mins(4))] {
            let mut shared = set();
            for at in 1..20 {
                shared.hear(at * SECOND, said * SECOND, took);
                assert_eq!(shared.ahead((at + 1) * SECOND), 3_600 * SECOND, "{took:?}");
            }
        }
        let mut shared = set();
        shared.hear(20 * SECOND, 3_600 * SECOND + 20_000, Duration::from_millis(45));
        assert_eq!(shared.ahead(40 * SECOND), 3_600 * SECOND, "what cannot be told apart moves nothing");
    }

    #[test]
    fn the_clock_is_drawn_and_never_jumps() {
        for far in [3_600 * SECOND, -3_600 * SECOND, 30_000, -30_000] {
            let mut shared = set();
            let (mut last, mut at) = (shared.ahead(SECOND) + SECOND, SECOND);
            while at < 60 * SECOND {
                shared.hear(at, 3_600 * SECOND + far, MILLI);
                for _ in 0..10 {
                    at += 50_000;
                    let now = at + shared.ahead(at);
                    let passed = now - last;
                    assert!(
                        (47_500..=52_500).contains(&passed),
                        "{passed} of 50,000 microseconds, {far} off"
                    );
                    last = now;
                }
            }
            let moved = shared.ahead(at) - 3_600 * SECOND;
            let expected = far.clamp(-59 * SECOND / 20, 59 * SECOND / 20);
            assert!((moved - expected).abs() <= CLOSE_MICROS, "{moved} of {far}");
        }
    }

    #[test]
    fn a_database_that_is_always_slow_is_believed_as_far_as_it_can_be() {
        let mut shared = set();
        let slow = |n: i64| Duration::from_millis(u64::try_from(200 + n % 7 * 100).unwrap());
        for half in 0..400 {
            // Off by ten seconds; each answer is wrong by up to half of its duration.
            shared.hear(SECOND + half * SECOND / 2, 3_610 * SECOND + (half % 7) * 50_000, slow(half));
        }
        let off = shared.ahead(201 * SECOND) - 3_610 * SECOND;
        // A fast answer may come during the first half minute; then the clock moves by a twentieth of the
        // elapsed time.
        assert!((-2 * SECOND..-SECOND).contains(&off), "{off}");
    }

    #[test]
    fn the_shared_time_begins_as_postgresql_says() {
        let clock = SharedClock::default();
        let apart = |clock: &SharedClock| (clock.now() - SystemClock.now()).num_milliseconds();
        assert!(apart(&clock).abs() < 100);
        for _ in 0..FIRST {
            clock.set_by(SystemClock.now() + chrono::TimeDelta::hours(1), MILLI);
        }
        assert!((3_599_000..=3_601_000).contains(&apart(&clock)));
        clock.set_by(SystemClock.now() + chrono::TimeDelta::hours(2), MILLI);
        assert!((3_599_000..=3_602_000).contains(&apart(&clock)));
        let (one, other) = (clock.now(), clock.now());
        assert!(one <= other);
    }
}
