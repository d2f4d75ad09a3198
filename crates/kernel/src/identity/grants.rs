//! Grants: verified keys with their cached facts, and the server's cache of them.
//!
//! A key is looked up once per server, and then cached by its SHA-256. The cache is never authoritative: a
//! revoked key is evicted at once on the server that revoked it, and within half a second on the others
//! (`keys::refresh`). `authentication.rs` verifies keys.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Key;
use entente_domain::identity::principals::PrincipalKind;
use entente_domain::rate::{Allowance, Verdict, judge};
use entente_runtime::cache::OwnedCache;
use entente_runtime::metrics::Metrics;
use entente_runtime::refused::Watch;
use entente_runtime::turnstile::Turnstile;
use tokio_util::sync::CancellationToken;

use crate::identity::quotas::{Quotas, Usage};
use crate::shares::Share;

/// Maximum number of cached keys that were verified, and of refused ones; the least recently used one is dropped.
const REMEMBERED: usize = 20_000;

/// How long a refused key is rejected without a look-up: long enough to blunt guessing, and short enough that
/// a key presented just before its creation soon works.
const REFUSED_FOR: Duration = Duration::from_secs(2);

/// A burst may spend this many seconds' worth of a key's rate.
const BURST_SECONDS: u32 = 2;

/// A verified key.
#[derive(Debug)]
pub struct Grant {
    /// The key's record.
    pub key: Key,
    /// The kind of its principal.
    pub kind: PrincipalKind,
    /// The key's latest change that this grant includes.
    changed_seq: i64,
    void: CancellationToken,
    used_at: AtomicI64,
    /// Whether an access token was presented in place of the key.
    by_token: bool,
    /// The limits of the key.
    pub(crate) limits: Arc<Limits>,
    /// Use by its principal at this server, with all keys of that principal.
    pub(crate) usage: Arc<Usage>,
}

/// The use that is limited by key. The grants of a key and of its access tokens share it: further credentials give no
/// further rate.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    full_at: AtomicU64,
    /// The key's requests in progress, streams and large answers.
    pub(crate) share: Share,
}

impl Grant {
    /// Creates a grant for a key that was just verified.
    #[must_use]
    pub fn new(key: Key, kind: PrincipalKind, changed_seq: i64) -> Self {
        Self {
            key,
            kind,
            changed_seq,
            void: CancellationToken::new(),
            used_at: AtomicI64::new(0),
            by_token: false,
            limits: Arc::default(),
            usage: Arc::default(),
        }
    }

    /// Gives the grant the use of its principal, in which all grants of that principal are counted.
    #[must_use]
    pub(crate) fn counted(self, quotas: &Quotas) -> Self {
        let usage = quotas.usage(&self.key.principal_id);
        Self { usage, ..self }
    }

    /// Makes the grant one of an access token.
    #[must_use]
    pub(super) fn of_token(self) -> Self {
        Self { by_token: true, ..self }
    }

    /// Gives the grant the limits of its key.
    #[must_use]
    pub(super) fn sharing(self, limits: Arc<Limits>) -> Self {
        Self { limits, ..self }
    }

    /// Whether an access token was presented in place of the key.
    pub(super) fn is_by_token(&self) -> bool {
        self.by_token
    }

    /// Whether the key is still in force.
    #[must_use]
    pub fn in_force(&self, now: Timestamp) -> bool {
        !self.void.is_cancelled() && self.key.in_force(now)
    }

    /// Resolves when the key is revoked or rotated on any server, but not when it expires.
    pub async fn voided(&self) {
        self.void.cancelled().await;
    }

    /// Notes that the key was used at `now`; [`Grants::take_uses`] collects it.
    pub(super) fn note_use(&self, now: Timestamp) {
        self.used_at.store(now.timestamp_micros(), Ordering::Release);
    }

    /// Checks the rate limit for one more request with this key at `since_start`; `usual` is the server's
    /// default rate, 0 for none; `None` means that there is no limit.
    pub fn admit(&self, usual: u32, since_start: Duration) -> Option<(Allowance, Verdict)> {
        let per_second = self.key.rate_per_second.unwrap_or(usual);
        if per_second == 0 {
            return None;
        }
        let allowance = Allowance { per_second, burst: per_second.saturating_mul(BURST_SECONDS) };
        let now = u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX);
        let last = &self.limits.full_at;
        let mut full_at = last.load(Ordering::Relaxed);
        loop {
            let verdict = judge(allowance, full_at, now);
            let Verdict::Pass { full_at: next, .. } = verdict else { return Some((allowance, verdict)) };
            match last.compare_exchange_weak(full_at, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some((allowance, verdict)),
                Err(changed) => full_at = changed,
            }
        }
    }
}

/// A cache entry for a presented key.
#[derive(Debug, Clone)]
pub enum Memory {
    /// The key was verified.
    Verified(Arc<Grant>),
    /// The key was refused a moment ago.
    Refused,
}

/// The cached keys, by their SHA-256. Refused ones have a cache of their own: whoever guesses keys must not push out
/// verified ones, and with them their rates.
#[derive(Debug)]
struct Known {
    verified: OwnedCache<Digest, Arc<Grant>>,
    /// Grants outside the cache that a request, an open stream or a resumed session may still hold: a revocation must
    /// reach them, and the key must not get a second rate. Their owners keep them; the next look at all keys removes
    /// those that nobody holds.
    held: HashMap<Digest, Weak<Grant>>,
    /// The limits of each key with a grant, by its public id. The next look at all keys removes the others.
    limits: HashMap<String, Weak<Limits>>,
    /// When each key was refused.
    refused: OwnedCache<Digest, Instant>,
}

impl Known {
    fn insert(&mut self, presented: Digest, grant: Arc<Grant>) {
        self.held.remove(&presented);
        if let Some((other, dropped)) = self.verified.put(presented, grant) {
            let held = Arc::downgrade(&dropped);
            let unheld = Arc::into_inner(dropped);
            if unheld.is_none() {
                self.held.insert(other, held);
            }
        }
    }
}

/// The server's key cache.
#[derive(Debug)]
pub struct Grants {
    known: Mutex<Known>,
    /// The latest change of keys known to this server.
    seen: AtomicI64,
    /// The queue for checking passwords.
    pub(crate) passwords: Turnstile,
    /// The queue for verifying keys of an earlier release.
    pub(crate) old_keys: Turnstile,
    /// Reports refused keys, passwords and links.
    pub watch: Watch,
}

impl Grants {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let known = Known {
            verified: OwnedCache::new("keys", REMEMBERED, metrics),
            held: HashMap::new(),
            limits: HashMap::new(),
            refused: OwnedCache::new("refused_keys", REMEMBERED, metrics),
        };
        Self {
            known: Mutex::new(known),
            seen: AtomicI64::new(0),
            passwords: Turnstile::default(),
            old_keys: Turnstile::default(),
            watch: Watch::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cache entry of a presented key; `None` when it has to be looked up.
    #[must_use]
    pub fn recall(&self, presented: &Digest) -> Option<Memory> {
        let mut known = self.lock();
        if let Some(grant) = known.verified.get(presented) {
            return Some(Memory::Verified(Arc::clone(grant)));
        }
        if let Some(grant) = known.held.get(presented).and_then(Weak::upgrade) {
            known.insert(*presented, Arc::clone(&grant));
            return Some(Memory::Verified(grant));
        }
        known.refused.find(presented, |at| (at.elapsed() < REFUSED_FOR).then_some(Memory::Refused))
    }

    /// Caches a verified key, and returns the grant to use.
    ///
    /// Two first requests that verify a key at once get the same grant: a second one would have limits and a
    /// rate of its own, and no revocation would reach it.
    pub fn remember(&self, presented: Digest, grant: Arc<Grant>) -> Arc<Grant> {
        let mut known = self.lock();
        let cached = known.verified.peek(&presented).cloned();
        if let Some(there) = cached.or_else(|| known.held.get(&presented)?.upgrade()) {
            if there.changed_seq >= grant.changed_seq {
                return there;
            }
            there.void.cancel();
        }
        known.refused.remove(&presented);
        known.insert(presented, Arc::clone(&grant));
        grant
    }

    /// Returns the limits of a key, by its public id: those of its grants, if it has any.
    pub(super) fn limits(&self, public_id: &str) -> Arc<Limits> {
        let mut known = self.lock();
        if let Some(limits) = known.limits.get(public_id).and_then(Weak::upgrade) {
            return limits;
        }
        let limits = Arc::new(Limits::default());
        known.limits.insert(public_id.to_owned(), Arc::downgrade(&limits));
        limits
    }

    /// Lets a revocation reach a grant that its owner keeps and no request looks up.
    pub fn follow(&self, presented: Digest, grant: &Arc<Grant>) {
        self.lock().held.insert(presented, Arc::downgrade(grant));
    }

    /// Caches that a key was refused.
    pub fn refuse(&self, presented: Digest) {
        let _dropped = self.lock().refused.put(presented, Instant::now());
    }

    /// Evicts keys that changed since they were verified, by their public ids, and voids their grants.
    pub fn forget(&self, changed: &HashMap<String, i64>) {
        let keeps = |grant: &Grant| {
            let kept = changed.get(&grant.key.public_id).is_none_or(|change| *change <= grant.changed_seq);
            if !kept {
                grant.void.cancel();
            }
            kept
        };
        let mut known = self.lock();
        known.verified.retain(|_, grant| keeps(grant));
        known.held.retain(|_, grant| grant.upgrade().is_some_and(|grant| keeps(&grant)));
    }

    /// Returns the latest change of keys known to this server.
    pub fn seen(&self) -> i64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Sets the latest change of keys known to this server.
    pub(crate) fn set_seen(&self, changed_seq: i64) {
        self.seen.fetch_max(changed_seq, Ordering::AcqRel);
    }

    /// Returns when each key was last used, for keys used since the last call.
    pub(crate) fn take_uses(&self) -> Vec<(uuid::Uuid, Timestamp)> {
        let take_use = |grant: &Grant| {
            let used = grant.used_at.swap(0, Ordering::AcqRel);
            let at = chrono::DateTime::from_timestamp_micros(used)?;
            (used != 0).then_some((grant.key.id.uuid(), at))
        };
        let mut known = self.lock();
        let mut uses: Vec<_> = known.verified.values().filter_map(|grant| take_use(grant)).collect();
        known.held.retain(|_, grant| {
            let held = grant.upgrade();
            uses.extend(held.as_deref().and_then(take_use));
            held.is_some()
        });
        known.limits.retain(|_, limits| limits.strong_count() > 0);
        uses
    }
}
