//! Fences of the current work: the sessions, leases and claims whose end refuses its writes
//! (`crates/domain/src/identity/fences.rs`). A request names them; a batch has those of its requests. Transactions
//! that begin in the work require them (`crates/store/src/pool.rs`).

use std::cell::RefCell;
use std::future::Future;

use entente_domain::identity::epochs::Epoch;
use entente_domain::identity::fences::Fence;

tokio::task_local! {
    /// Fences of the current work.
    static FENCES: RefCell<Vec<Fence>>;
}

/// Runs a request, which may add fences.
pub async fn request<T>(work: impl Future<Output = T>) -> T {
    within(Vec::new(), work).await
}

/// Runs work with these fences.
pub async fn within<T>(mut fences: Vec<Fence>, work: impl Future<Output = T>) -> T {
    fences.sort_unstable();
    fences.dedup();
    FENCES.scope(RefCell::new(fences), work).await
}

/// Adds a fence to those of the current request.
pub fn add(fence: Fence) {
    let add = |fences: &RefCell<Vec<Fence>>| {
        let mut fences = fences.borrow_mut();
        fences.push(fence);
        fences.sort_unstable();
    };
    let _no_request = FENCES.try_with(add);
}

/// Returns the fences of the current work, in order and each once.
#[must_use]
pub fn current() -> Vec<Fence> {
    FENCES.try_with(|fences| fences.borrow().clone()).unwrap_or_default()
}

/// Removes the epoch of an agent from the fences of the current work, for an operation that requires it itself, and returns
/// it.
#[must_use]
pub fn take_epoch(agent: &str) -> Option<Epoch> {
    let take = |fences: &RefCell<Vec<Fence>>| {
        let mut fences = fences.borrow_mut();
        let place = fences.iter().position(|fence| fence.epoch().is_some_and(|epoch| epoch.agent == agent))?;
        match fences.remove(place) {
            Fence::Epoch(epoch) => Some(epoch),
            Fence::Lease { .. } | Fence::Task { .. } | Fence::Job { .. } => None,
        }
    };
    FENCES.try_with(take).ok().flatten()
}
