//! The real clock and the real chance: the only place that reads either. Everything else is handed a
//! [`Clock`] and a [`Chance`]; tests hand over their own.

use std::fmt;
use std::sync::{Mutex, PoisonError};

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
