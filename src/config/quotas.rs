//! Settings of rates by the priority of envelopes (AEE §11.6).

use entente_domain::aee::envelopes::quotas::Rates;

use super::Reader;

/// Highest rate, in envelopes per minute.
const MOST: u32 = 1_000_000;

impl Reader<'_> {
    pub(super) fn quotas(&mut self) -> Rates {
        let mut rate = |name: &str, default: u32| {
            self.parsed(name, default, "a number from 0 (no limit) to 1000000", |n| *n <= MOST)
        };
        Rates {
            urgent: rate("ENTENTE_AEE_URGENT_PER_MINUTE", 60),
            high: rate("ENTENTE_AEE_HIGH_PER_MINUTE", 600),
            total: rate("ENTENTE_AEE_PER_MINUTE", 0),
        }
    }
}
