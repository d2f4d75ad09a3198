//! Fences of the current work: the sessions of agents whose end refuses its writes
//! (`crates/domain/src/identity/epochs.rs`). A request has one at most; a batch has those of its requests. Transactions
//! that begin in the work check them (`crates/store/src/pool.rs`).

use std::cell::RefCell;
use std::future::Future;

use entente_domain::identity::epochs::Fence;

tokio::task_local! {
    /// Fences of the current work.
    static FENCES: RefCell<Vec<Fence>>;
}

/// Runs a request, which may set its fence.
pub async fn request<T>(work: impl Future<Output = T>) -> T {
    within(Vec::new(), work).await
}

/// Runs work with these fences.
pub async fn within<T>(mut fences: Vec<Fence>, work: impl Future<Output = T>) -> T {
    fences.sort_unstable();
    fences.dedup();
    FENCES.scope(RefCell::new(fences), work).await
}

/// Sets the fence of the current request.
pub fn set(fence: Fence) {
    let _no_request = FENCES.try_with(|fences| *fences.borrow_mut() = vec![fence]);
}

/// Returns the fences of the current work, in order and each once.
#[must_use]
pub fn current() -> Vec<Fence> {
    FENCES.try_with(|fences| fences.borrow().clone()).unwrap_or_default()
}

/// Removes the fences of the current work, for an operation that checks them itself, and returns them.
#[must_use]
pub fn take() -> Vec<Fence> {
    FENCES.try_with(RefCell::take).unwrap_or_default()
}
