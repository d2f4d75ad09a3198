//! What each sender of envelopes has spent of its priorities (AEE §11.6), in memory: each server counts for itself, and a
//! restart forgets. What a quota is, is `entente_domain::envelopes::quotas`.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use entente_domain::envelopes::Priority;
use entente_domain::envelopes::quotas::{Rates, Spent, Verdict, charge, judge};
use entente_domain::refusal::{Code, Refusal};

/// Senders remembered at the most, and principals.
const REMEMBERED: usize = 20_000;

/// How many times a sender's rates a principal has for all whom it speaks for: names cost nothing.
const FOR_ALL: u32 = 10;

/// What senders and principals have spent.
#[derive(Debug)]
pub struct Quotas {
    senders: Buckets,
    principals: Buckets,
    started: Instant,
}

impl Quotas {
    /// Quotas of which nothing is spent.
    #[must_use]
    pub fn new(rates: Rates) -> Self {
        let (senders, principals) = (Buckets::new(rates), Buckets::new(rates.times(FOR_ALL)));
        Self { senders, principals, started: Instant::now() }
    }

    /// How long these quotas have been, on a steady clock: no correction of the time gives or takes any.
    #[must_use]
    pub fn since_start(&self) -> Duration {
        self.started.elapsed()
    }

    /// Takes one more envelope of a sender, handed in by a principal, at `since_start`. Answers with the priority that it
    /// goes with: its own, or a lower one that has room with both.
    ///
    /// # Errors
    /// [`Code::RateLimited`] when either has sent as many as it may at all.
    pub fn admit(
        &self,
        (principal, sender): (&str, &str),
        priority: Priority,
        since_start: Duration,
    ) -> Result<Priority, Refusal> {
        let own = self.senders.admit(sender, priority, since_start)?;
        if principal == sender { Ok(own) } else { self.principals.admit(principal, own, since_start) }
    }

    /// Whether all that is sent is counted, and not only what is pressing.
    #[must_use]
    pub fn counts_all(&self) -> bool {
        self.senders.rates.total > 0
    }

    /// Counts that an envelope that was admitted goes to so many others besides.
    pub fn charge(&self, (principal, sender): (&str, &str), others: u32, since_start: Duration) {
        self.senders.charge(sender, others, since_start);
        if principal != sender {
            self.principals.charge(principal, others, since_start);
        }
    }

    /// How many senders are remembered.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.senders.lock().len()
    }
}

/// What each of many has spent.
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
                let seconds = nanos.div_ceil(1_000_000_000).max(1);
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
