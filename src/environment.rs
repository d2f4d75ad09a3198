//! The real clock and the real chance: the only place that reads either. Everything else is handed a
//! [`Clock`] and a [`Chance`]; tests hand over their own.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use chrono::TimeDelta;
use entente_core::clock::{Clock, Timestamp, micros};
use entente_core::ids::Chance;

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

/// The system's clock, set by PostgreSQL's: leases, claims and sessions end at the same instant on every server that shares
/// a database, whatever their own clocks say (ARCP §14).
#[derive(Debug, Default)]
pub struct SharedClock {
    /// Microseconds that PostgreSQL's clock is ahead of the system's.
    ahead: AtomicI64,
}

impl Clock for SharedClock {
    fn now(&self) -> Timestamp {
        micros(SystemClock.now() + TimeDelta::microseconds(self.ahead.load(Ordering::Relaxed)))
    }

    /// Goes a part of the way each time, so that one answer that took long does not move it much; the whole way when they
    /// are far apart.
    fn set_by(&self, theirs: Timestamp) {
        let off = (theirs - self.now()).num_microseconds().unwrap_or(0);
        if off.abs() <= CLOSE_MICROS {
            return;
        }
        let step = if off.abs() > 1_000_000 { off } else { off / 4 };
        self.ahead.fetch_add(step, Ordering::Relaxed);
        if off.abs() > 1_000_000 {
            tracing::warn!(off.micros = off, "this server's clock is off; PostgreSQL's is taken");
        }
    }
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

    #[test]
    fn a_clock_that_is_off_follows_the_databases() {
        let clock = SharedClock::default();
        let apart = |clock: &SharedClock| (clock.now() - SystemClock.now()).num_milliseconds();
        clock.set_by(SystemClock.now() + TimeDelta::hours(1));
        assert!((3_599_900..=3_600_100).contains(&apart(&clock)), "far apart it is set at once");
        // An answer that took long is believed in part.
        clock.set_by(clock.now() + TimeDelta::milliseconds(400));
        assert!((3_600_050..=3_600_200).contains(&apart(&clock)));
        let before = clock.ahead.load(Ordering::Relaxed);
        clock.set_by(clock.now() + TimeDelta::microseconds(500));
        assert_eq!(clock.ahead.load(Ordering::Relaxed), before, "what cannot be told apart moves nothing");
        clock.set_by(SystemClock.now() - TimeDelta::hours(2));
        assert!(apart(&clock) < -7_199_000, "backwards too");
    }
}
