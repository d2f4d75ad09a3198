//! Priority quotas of envelope senders (AEE §11.6), in memory: each server counts separately, and a restart resets
//! them. The rules are in `entente_domain::aee::envelopes::quotas`.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use entente_domain::aee::envelopes::Priority;
use entente_domain::aee::envelopes::quotas::{Rates, Spent, Verdict, charge, judge};
use entente_domain::refusal::{Code, Refusal};

/// Maximum number of senders remembered, and of principals.
const REMEMBERED: usize = 20_000;

/// A principal's rates for all its senders together, as a multiple of one sender's: entity names cost nothing.
const FOR_ALL: u32 = 10;

/// Quotas of senders and principals, with their use so far.
#[derive(Debug)]
pub struct Quotas {
    senders: Buckets,
    principals: Buckets,
    started: Instant,
}

impl Quotas {
    /// Creates unused quotas.
    #[must_use]
    pub fn new(rates: Rates) -> Self {
        let (senders, principals) = (Buckets::new(rates), Buckets::new(rates.times(FOR_ALL)));
        Self { senders, principals, started: Instant::now() }
    }

    /// Returns the age of these quotas on a monotonic clock, which no correction of the time affects.
    #[must_use]
    pub fn since_start(&self) -> Duration {
        self.started.elapsed()
    }

    /// Admits one more envelope of a sender, handed in by a principal, at `since_start`.
    ///
    /// Returns the priority to use: its own, or the next lower one that both have room for.
    ///
    /// # Errors
    /// [`Code::RateLimited`] if either has reached its total limit.
    pub fn admit(
        &self,
        principal: &str,
        sender: &str,
        priority: Priority,
        since_start: Duration,
    ) -> Result<Priority, Refusal> {
        let own = self.senders.admit(sender, priority, since_start)?;
        if principal == sender { Ok(own) } else { self.principals.admit(principal, own, since_start) }
    }

    /// Returns whether all envelopes count, and not only those of a high priority.
    #[must_use]
    pub fn counts_all(&self) -> bool {
        self.senders.rates.total > 0
    }

    /// Counts `others` further recipients of an envelope that was admitted.
    pub fn charge(&self, principal: &str, sender: &str, others: u32, since_start: Duration) {
        self.senders.charge(sender, others, since_start);
        if principal != sender {
            self.principals.charge(principal, others, since_start);
        }
    }

    /// Returns the number of senders remembered.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.senders.lock().len()
    }
}

/// Use of one quota by many names.
#[derive(Debug)]
struct Buckets {
    rates: Rates,
    known: Mutex<HashMap<String, Spent>>,
}

impl Buckets {
    fn new(rates: Rates) -> Self {
        Self { rates, known: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Spent>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self, who: &str, priority: Priority, since_start: Duration) -> Result<Priority, Refusal> {
        if self.rates.total == 0 && priority <= Priority::Normal {
            return Ok(priority);
        }
        let now = nanos(since_start);
        let mut known = self.lock();
        let spent = known.get(who).copied().unwrap_or_default();
        match judge(self.rates, spent, priority, now) {
            Verdict::Pass { priority, spent } => {
                remember(&mut known, who, spent, now);
                Ok(priority)
            }
            Verdict::Wait { nanos } => {
                drop(known);
                let message = format!(
                    "`{who}` may send {} envelopes a minute. Wait as long as Retry-After says.",
                    self.rates.total
                );
                let seconds = u32::try_from(nanos.div_ceil(1_000_000_000).max(1)).unwrap_or(u32::MAX);
                Err(Refusal {
                    retry_after_seconds: Some(seconds),
                    ..Refusal::new(Code::RateLimited, message)
                })
            }
        }
    }

    fn charge(&self, who: &str, others: u32, since_start: Duration) {
        let now = nanos(since_start);
        let mut known = self.lock();
        let spent = known.get(who).copied().unwrap_or_default();
        remember(&mut known, who, charge(self.rates, spent, others, now), now);
    }
}

fn nanos(since_start: Duration) -> u64 {
    u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX)
}

fn remember(known: &mut HashMap<String, Spent>, who: &str, spent: Spent, now: u64) {
    if let Some(kept) = known.get_mut(who) {
        *kept = spent;
        return;
    }
    make_room(known, now);
    known.insert(who.to_owned(), spent);
}

/// Drops the entries that have recovered completely; if that is not enough, the half that has used the least.
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
