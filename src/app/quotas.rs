//! What each sender of envelopes has spent of its priorities (AEE §11.6), in memory: each server counts for itself, and a
//! restart forgets. What a quota is, is `entente_core::envelopes::quotas`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use entente_core::envelopes::Priority;
use entente_core::envelopes::quotas::{Rates, Spent, Verdict, judge};
use entente_core::refusal::{Code, Refusal};

/// Senders remembered at the most.
const REMEMBERED: usize = 20_000;

/// What senders have spent.
#[derive(Debug)]
pub struct Quotas {
    rates: Rates,
    known: Mutex<HashMap<String, Spent>>,
}

impl Quotas {
    /// Quotas of which nothing is spent.
    #[must_use]
    pub fn new(rates: Rates) -> Self {
        Self { rates, known: Mutex::default() }
    }

    /// Takes one more envelope of a sender at `since_start`, on a steady clock. Answers with the priority that it goes
    /// with: its own, or a lower one that has room.
    ///
    /// # Errors
    /// [`Code::RateLimited`] when the sender has sent as many as it may at all.
    pub fn admit(
        &self,
        sender: &str,
        priority: Priority,
        since_start: Duration,
    ) -> Result<Priority, Refusal> {
        if self.rates.total == 0 && priority <= Priority::Normal {
            return Ok(priority);
        }
        let now = u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let spent = known.get(sender).copied().unwrap_or_default();
        match judge(self.rates, spent, priority, now) {
            Verdict::Pass { priority, spent } => {
                if let Some(kept) = known.get_mut(sender) {
                    *kept = spent;
                } else {
                    make_room(&mut known, now);
                    known.insert(sender.to_owned(), spent);
                }
                Ok(priority)
            }
            Verdict::Wait { nanos } => {
                drop(known);
                let message = format!(
                    "This sender may send {} envelopes a minute. Wait as long as Retry-After says.",
                    self.rates.total
                );
                let seconds = nanos.div_ceil(1_000_000_000).max(1);
                Err(Refusal {
                    retry_after_seconds: Some(seconds),
                    ..Refusal::new(Code::RateLimited, message)
                })
            }
        }
    }

    /// How many senders are remembered.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// Forgets those of whom nothing is left to remember; when that makes no room, the half that has spent the least.
fn make_room(known: &mut HashMap<String, Spent>, now: u64) {
    if known.len() < REMEMBERED {
        return;
    }
    known.retain(|_, spent| spent.forgotten_at() > now);
    if known.len() < REMEMBERED {
        return;
    }
    let mut moments: Vec<u64> = known.values().map(|spent| spent.forgotten_at()).collect();
    let (_, middle, _) = moments.select_nth_unstable(REMEMBERED / 2);
    let middle = *middle;
    known.retain(|_, spent| spent.forgotten_at() > middle);
}
