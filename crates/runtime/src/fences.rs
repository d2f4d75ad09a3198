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

/// Returns whether the current work is done for somebody who does not name an epoch of this agent. The server's own work has
/// none to name.
#[must_use]
pub fn lack_epoch(agent: &str) -> bool {
    FENCES.try_with(|fences| lack_epoch_of(&fences.borrow(), agent)).unwrap_or(false)
}

/// Returns whether none of these fences is an epoch of this agent.
#[must_use]
pub fn lack_epoch_of(fences: &[Fence], agent: &str) -> bool {
    !fences.iter().filter_map(Fence::epoch).any(|epoch| epoch.agent == agent)
}

/// Removes the epoch of an agent from the fences of the current work, for an operation that requires it itself, and returns
/// it.
#[must_use]
pub fn take_epoch(agent: &str) -> Option<Epoch> {
    let take = |fences: &RefCell<Vec<Fence>>| {
        let mut fences = fences.borrow_mut();
        let place =
            fences.iter().position(|fence| fence.epoch().is_some_and(|epoch| epoch.agent == agent))?;
        match fences.remove(place) {
            Fence::Epoch(epoch) => Some(epoch),
            Fence::Lease { .. } | Fence::Task { .. } | Fence::Job { .. } => None,
        }
    };
    FENCES.try_with(take).ok().flatten()
}
