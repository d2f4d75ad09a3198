//! Use by principals and teams at this server: requests in progress, and bytes that are not free again. In memory: each
//! server counts for itself, as it does with the rates of keys.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use entente_domain::identity::quotas::{Intake, bytes_in_use, charge_bytes, judge_bytes, rescaled};
use entente_domain::subjects::Subject;

/// Number of subjects from which on those that use nothing are dropped.
const REMEMBERED: usize = 20_000;

/// Use of one principal or team.
#[derive(Debug, Default)]
pub struct Usage {
    requests: AtomicU64,
    /// Bundles that are written or taken.
    bundles: AtomicU64,
    /// See [`Intake::Pass`]; by the limit that was in force when it was written.
    free_at: AtomicU64,
    per_minute: AtomicU64,
}

impl Usage {
    /// Takes a place for a bundle, of which there are `most` at once; `None` if all are taken.
    #[must_use]
    pub fn open_bundle(self: &Arc<Self>, most: u64) -> Option<BundlePlace> {
        let more = |open| (open < most).then_some(open + 1);
        self.bundles.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(BundlePlace(Arc::clone(self)))
    }

    /// Counts one more request in progress, and returns how many there were.
    pub(super) fn enter(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::AcqRel)
    }

    /// Counts one request less.
    pub(super) fn leave(&self) {
        self.requests.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns the number of requests in progress.
    pub(super) fn open_requests(&self) -> u64 {
        self.requests.load(Ordering::Acquire)
    }

    /// Returns the bytes of the last minute that are not free again.
    pub(super) fn bytes(&self, per_minute: u64, now: u64) -> u64 {
        self.adapt(per_minute, now);
        bytes_in_use(per_minute, self.free_at.load(Ordering::Acquire), now)
    }

    /// Takes bytes of the minute, or returns for how many nanoseconds there are none.
    pub(super) fn take(&self, per_minute: u64, bytes: u64, now: u64) -> Result<(), u64> {
        self.adapt(per_minute, now);
        let judged = self.free_at.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free_at| {
            match judge_bytes(per_minute, bytes, free_at, now) {
                Intake::Pass { free_at } => Some(free_at),
                Intake::Wait { .. } => None,
            }
        });
        match judged.map_err(|free_at| judge_bytes(per_minute, bytes, free_at, now)) {
            Err(Intake::Wait { nanos }) => Err(nanos),
            Ok(_) | Err(Intake::Pass { .. }) => Ok(()),
        }
    }

    /// Takes bytes that came anyway: bytes beyond the limit are taken from the following time.
    pub(super) fn charge(&self, per_minute: u64, bytes: u64, now: u64) {
        self.adapt(per_minute, now);
        let charged = |free_at| Some(charge_bytes(per_minute, bytes, free_at, now));
        let _always = self.free_at.fetch_update(Ordering::AcqRel, Ordering::Acquire, charged);
    }

    /// Lets another limit take effect.
    fn adapt(&self, per_minute: u64, now: u64) {
        if self.per_minute.load(Ordering::Acquire) == per_minute {
            return;
        }
        let before = self.per_minute.swap(per_minute, Ordering::AcqRel);
        if before != per_minute {
            let changed = |free_at| Some(rescaled(before, per_minute, free_at, now));
            let _always = self.free_at.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed);
        }
    }

    fn is_used(&self, now: u64) -> bool {
        self.open_requests() > 0 || self.free_at.load(Ordering::Acquire) > now
    }
}

/// A place for a bundle; free again when it is dropped.
#[derive(Debug)]
pub struct BundlePlace(Arc<Usage>);

impl Drop for BundlePlace {
    fn drop(&mut self) {
        self.0.bundles.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The use of all subjects.
#[derive(Debug, Default)]
pub(super) struct Usages(Mutex<HashMap<Subject, Arc<Usage>>>);

impl Usages {
    fn lock(&self) -> MutexGuard<'_, HashMap<Subject, Arc<Usage>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the use of a subject, which all who ask for it share.
    pub(super) fn of(&self, subject: &Subject, now: u64) -> Arc<Usage> {
        let mut known = self.lock();
        if let Some(usage) = known.get(subject) {
            return Arc::clone(usage);
        }
        if known.len() >= REMEMBERED {
            known.retain(|_, usage| Arc::strong_count(usage) > 1 || usage.is_used(now));
        }
        Arc::clone(known.entry(subject.clone()).or_default())
    }
}
