//! The real clock and the real chance: the only place that reads either. Everything else is handed a
//! [`Clock`] and a [`Chance`]; tests hand over their own.

use std::fmt;

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

/// The operating system's random numbers.
#[derive(Clone, Copy, Default)]
pub struct OsChance;

impl fmt::Debug for OsChance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OsChance")
    }
}

impl Chance for OsChance {
    #[expect(clippy::expect_used, reason = "without random numbers no id and no key can be made; there is no way on")]
    fn bits(&self) -> u128 {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
        u128::from_ne_bytes(bytes)
    }
}
