//! Limits on the concurrent use of one key, so that no key starves the others: requests, streams and waiting
//! requests, and large answers that were not read yet. A request counts for the quotas of its principal and of the
//! principal's teams too (`identity/quotas.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use entente_domain::limits::WAIT_SECONDS;
use entente_domain::refusal::{Code, Refusal};
use entente_runtime::deadlines::extend;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Exceeded, Grant, Place, Quotas};

/// Maximum number of large answers of one key being written: with the largest pages, 16 MiB.
const LARGE_ANSWERS: usize = 4;

/// Maximum number of other large answers of one key; beyond it they are refused, because they cannot be cut short.
const OTHER_ANSWERS: usize = 16;

/// Current use of a key.
#[derive(Debug)]
pub(super) struct Share {
    requests: AtomicUsize,
    streams: AtomicUsize,
    large: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

impl Default for Share {
    fn default() -> Self {
        let (requests, streams) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let places = |count| Arc::new(Semaphore::new(count));
        Self { requests, streams, large: places(LARGE_ANSWERS), others: places(OTHER_ANSWERS) }
    }
}

/// A running request of a key, which counts from before its body has arrived.
///
/// It stops counting when it is dropped or when it begins to wait for an event.
#[derive(Debug)]
pub struct OpenRequest {
    grant: Arc<Grant>,
    /// Whether it counts for its key; a session's requests count for the principal only.
    of_key: bool,
    counts: AtomicBool,
    place: Place,
}

impl OpenRequest {
    /// Stops counting the request, because it was answered or waits for an event. Returns whether it counted until now.
    pub fn end(&self) -> bool {
        let counted = self.counts.swap(false, Ordering::AcqRel);
        if counted {
            self.place.leave(&self.grant);
        }
        if counted && self.of_key {
            self.grant.limits.share.requests.fetch_sub(1, Ordering::AcqRel);
        }
        counted
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.end();
    }
}

/// One of a key's places for open streams and waiting requests; freed on drop.
#[derive(Debug)]
pub struct StreamPermit(Arc<Grant>);

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.0.limits.share.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Permit for one large answer; freed when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct LargeAnswer(#[expect(dead_code, reason = "it is held, not read")] Arc<OwnedSemaphorePermit>);

impl Grant {
    /// Starts a request.
    ///
    /// # Errors
    /// [`Code::RateLimited`] if the key has `limit` running requests, or its principal as many as its quota or that of one of
    /// its teams allows.
    pub fn open_request(
        self: &Arc<Self>,
        limit: usize,
        quotas: &Quotas,
    ) -> Result<OpenRequest, Box<Exceeded>> {
        let place = quotas.enter(self)?;
        let request =
            OpenRequest { grant: Arc::clone(self), of_key: true, counts: AtomicBool::new(true), place };
        if self.limits.share.requests.fetch_add(1, Ordering::AcqRel) < limit {
            return Ok(request);
        }
        let message = format!(
            "This key has {limit} requests under way, as many as it may, those counted whose bodies have not come yet. Wait \
             until some are answered; those that wait for something to happen count as streams."
        );
        let refusal = Refusal { retry_after_seconds: Some(1), ..Refusal::new(Code::RateLimited, message) };
        Err(Box::new(Exceeded { refusal, limit: None }))
    }

    /// Starts a request of a session, which counts for the principal and its teams.
    #[must_use]
    pub fn open_request_of_session(self: &Arc<Self>, quotas: &Quotas) -> OpenRequest {
        let place = quotas.enter_anyway(self);
        OpenRequest { grant: Arc::clone(self), of_key: false, counts: AtomicBool::new(true), place }
    }

    /// Takes one of the key's places for open streams.
    ///
    /// # Errors
    /// [`Code::TooManyStreams`] if all `limit` are taken.
    pub(crate) fn open_stream(self: &Arc<Self>, limit: usize) -> Result<StreamPermit, Refusal> {
        let permit = StreamPermit(Arc::clone(self));
        // The deadline is extended, because a stream waits for more than the database.
        extend(Duration::from_secs(WAIT_SECONDS.into()));
        if self.limits.share.streams.fetch_add(1, Ordering::AcqRel) >= limit {
            return Err(Refusal::new(
                Code::TooManyStreams,
                format!(
                    "This key has {limit} open streams and waiting requests, as many as it may. Close some first."
                ),
            ));
        }
        Ok(permit)
    }

    /// Takes a permit for a large page; `None` if all are in use.
    #[must_use]
    pub(crate) fn large_answer(&self) -> Option<LargeAnswer> {
        let permit = Arc::clone(&self.limits.share.large).try_acquire_owned().ok()?;
        Some(LargeAnswer(Arc::new(permit)))
    }

    /// Takes a permit for a large answer that exists already and cannot be cut short like a page.
    ///
    /// # Errors
    /// [`Code::RateLimited`] if too many are being written.
    pub fn other_large_answer(&self) -> Result<LargeAnswer, Refusal> {
        match Arc::clone(&self.limits.share.others).try_acquire_owned() {
            Ok(permit) => Ok(LargeAnswer(Arc::new(permit))),
            Err(_all_taken) => {
                let message = format!(
                    "This key has {OTHER_ANSWERS} large answers that were not read yet, as many as it may. Read them, or ask \
                     for less at once."
                );
                Err(Refusal { retry_after_seconds: Some(1), ..Refusal::new(Code::RateLimited, message) })
            }
        }
    }
}
