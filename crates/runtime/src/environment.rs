//! The real clock and the real chance: the only place that reads either. Everything else is handed a
//! [`Clock`] and a [`Chance`]; tests hand over their own.

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

/// Microseconds that two clocks may differ without one being set: as much as it takes to ask.
const CLOSE_MICROS: i64 = 2_000;

/// The longest that an answer may take to be believed. How long each way took is not known, so the time that it says may be off by
/// half of this, and so may the clock.
const PROMPT: Duration = Duration::from_millis(50);

/// Answers by which the clock is set when the server starts; the promptest counts. After that it is never set again.
pub const FIRST: u32 = 5;

/// Microseconds without a prompt answer after which the best of the slow ones is believed, as far as it can be: the database is
/// that far away.
const SLOW_AFTER_MICROS: i64 = 30_000_000;

/// What part of the time that passes the clock may be drawn forward or back: never more, however far it is off. So no time is skipped,
/// none comes twice, and a lease of a minute is at most three seconds shorter or longer. A wrong answer that was believed moves it
/// by 25 ms until the next.
const SLEW_PART: i64 = 20;

/// Microseconds off at which the log says so.
const FAR_MICROS: i64 = 1_000_000;

/// The time that servers share: PostgreSQL's. Leases, claims and sessions end at the same instant on every server that shares a
/// database, whatever their own clocks say (ARCP §14).
///
/// Between two answers of PostgreSQL it goes on by a clock that nobody sets, so that a correction of the machine's time does
/// nothing to it.
#[derive(Debug, Default)]
pub struct SharedClock(Mutex<Shared>);

/// Where the shared time is. All in microseconds; `steady` is by the clock that nobody sets.
#[derive(Debug, Default)]
struct Shared {
    /// Answers heard so far, up to [`FIRST`].
    heard: u32,
    /// How long the best of them took.
    best: Duration,
    /// How far the shared time is ahead of the steady clock, when that was `at`.
    ahead: i64,
    at: i64,
    /// How far it should be.
    goal: i64,
    /// When the last prompt answer came.
    prompt_at: i64,
    /// The best slow answer since: how long it took, and how far ahead it says.
    slow: Option<(Duration, i64)>,
}

impl Shared {
    /// How far the shared time is ahead when the steady clock says `steady`.
    fn ahead(&self, steady: i64) -> i64 {
        let most = (steady - self.at).max(0) / SLEW_PART;
        self.ahead + (self.goal - self.ahead).clamp(-most, most)
    }

    /// Hears that the shared time is `ahead`; the answer took so long.
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

    /// Draws the clock to where an answer says that it should be, as far as the answer can know.
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
        // Within chrono's range as long as PostgreSQL's clock is.
        Timestamp::from_timestamp_micros(steady.saturating_add(shared.ahead(steady)))
            .unwrap_or_else(|| SystemClock.now())
    }

    fn set_by(&self, theirs: Timestamp, took: Duration) {
        let steady = steady_micros();
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.hear(steady, theirs.timestamp_micros().saturating_sub(steady), took);
    }
}

/// Microseconds by a clock that nobody sets, and that goes on while the machine sleeps, where the system has one.
fn steady_micros() -> i64 {
    #[cfg(target_os = "linux")]
    const STEADY: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const STEADY: ClockId = ClockId::Monotonic;
    let now = clock_gettime(STEADY);
    now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1_000)
}

/// Bytes of chance fetched at once: a system call per id would cost more than everything else about an id.
const STOCK: usize = 1_024;

/// The operating system's random numbers, fetched in stock. What was given out is wiped from it.
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

    /// A clock that was set at the start: a second has passed, and the shared time is an hour ahead.
    fn set() -> Shared {
        let mut shared = Shared::default();
        // The first answer took long and was wrong by a minute.
        shared.hear(0, 3_660 * SECOND, Duration::from_mins(2));
        // One of those that follow is prompt, and not the last.
        for n in 1..FIRST {
            let (said, took) = if n == 2 { (3_600, MILLI) } else { (3_601, MILLI * 20) };
            shared.hear(SECOND, said * SECOND, took);
        }
        assert_eq!(shared.ahead(SECOND), 3_600 * SECOND, "the promptest answer counts");
        shared
    }

    #[test]
    fn an_answer_that_took_long_moves_nothing() {
        // Each alone: two that are wrong in opposite ways would cancel each other out.
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
            // Off by ten seconds, and each answer by up to half of what it took.
            shared.hear(SECOND + half * SECOND / 2, 3_610 * SECOND + (half % 7) * 50_000, slow(half));
        }
        let off = shared.ahead(201 * SECOND) - 3_610 * SECOND;
        // For the first half minute a prompt one may come; then it is drawn by a twentieth of the time that passes.
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
