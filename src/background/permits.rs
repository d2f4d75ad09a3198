//! Permits of senders, each of which has a number of leases in progress at a time.

use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// A permit in use, released at the end of a lease in any case: also if its task panics or never runs.
pub(super) struct Busy {
    permit: Option<OwnedSemaphorePermit>,
    freed: Arc<Notify>,
}

impl Busy {
    /// Takes a permit; `freed` is signalled when it is free again.
    pub(super) fn new(permits: &Arc<Semaphore>, freed: &Arc<Notify>) -> Self {
        Self { permit: Arc::clone(permits).try_acquire_owned().ok(), freed: Arc::clone(freed) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.freed.notify_one();
    }
}
