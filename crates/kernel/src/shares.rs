//! What one key may have under way at once, so that no key starves the others: requests, streams and those who wait, and large
//! answers that were not read yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use entente_domain::limits::WAIT_SECONDS;
use entente_domain::refusal::{Code, Refusal};
use entente_runtime::deadlines::extend;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Grant;

/// Large answers of one key that are written at once: with what a page has at the most, 16 MiB.
const LARGE_ANSWERS: usize = 4;

/// Other large answers of one key that are written at once: what cannot be cut short is refused while there are so many.
const OTHER_ANSWERS: usize = 16;

/// What a key has under way.
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

/// A request of a key that is under way, its body included, if that still comes. It no longer counts once it is dropped, or
/// waits for something to happen.
#[derive(Debug)]
pub struct OpenRequest {
    grant: Arc<Grant>,
    counts: AtomicBool,
}

impl OpenRequest {
    /// Counts it no longer: it was answered, or waits for something to happen.
    pub fn end(&self) {
        if self.counts.swap(false, Ordering::AcqRel) {
            self.grant.share.requests.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.end();
    }
}

/// One place among a key's open streams and those who wait; free again when dropped.
#[derive(Debug)]
pub struct StreamPermit(Arc<Grant>);

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.0.share.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The right to one large answer; another one may be given when the last copy is dropped.
#[derive(Debug, Clone)]
pub struct LargeAnswer(#[expect(dead_code, reason = "it is held, not read")] Arc<OwnedSemaphorePermit>);

impl Grant {
    /// Begins a request.
    ///
    /// # Errors
    /// [`Code::RateLimited`] when the key has `limit` requests under way.
    pub fn open_request(self: &Arc<Self>, limit: usize) -> Result<OpenRequest, Refusal> {
        let request = OpenRequest { grant: Arc::clone(self), counts: AtomicBool::new(true) };
        if self.share.requests.fetch_add(1, Ordering::AcqRel) < limit {
            return Ok(request);
        }
        let message = format!(
            "This key has {limit} requests under way, as many as it may, those counted whose bodies have not come yet. Wait \
             until some are answered; those that wait for something to happen count as streams."
        );
        Err(Refusal { retry_after_seconds: Some(1), ..Refusal::new(Code::RateLimited, message) })
    }

    /// Takes one of the key's places for open streams.
    ///
    /// # Errors
    /// [`Code::TooManyStreams`] when all `limit` are taken.
    pub fn open_stream(self: &Arc<Self>, limit: usize) -> Result<StreamPermit, Refusal> {
        let permit = StreamPermit(Arc::clone(self));
        // Whoever takes one waits for more than the database.
        extend(Duration::from_secs(WAIT_SECONDS.into()));
        if self.share.streams.fetch_add(1, Ordering::AcqRel) >= limit {
            return Err(Refusal::new(
                Code::TooManyStreams,
                format!(
                    "This key has {limit} open streams and waiting requests, as many as it may. Close some first."
                ),
            ));
        }
        Ok(permit)
    }

    /// Takes one of the key's few large answers; `None` when all are being written.
    #[must_use]
    pub fn large_answer(&self) -> Option<LargeAnswer> {
        let permit = Arc::clone(&self.share.large).try_acquire_owned().ok()?;
        Some(LargeAnswer(Arc::new(permit)))
    }

    /// Takes a place for a large answer that is there already, and was not read as a page that may be cut short.
    ///
    /// # Errors
    /// [`Code::RateLimited`] when too many are being written.
    pub fn other_large_answer(&self) -> Result<LargeAnswer, Refusal> {
        match Arc::clone(&self.share.others).try_acquire_owned() {
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
