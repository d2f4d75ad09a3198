//! Deadlines for work on the database. PostgreSQL's own limits (`crates/store/src/limits.rs`) do not help when
//! PostgreSQL is unreachable: the network is cut, or a machine on the way has forgotten the connection. In that
//! case the waiting work is abandoned here, and its connection with it.
//!
//! A connection abandoned in the middle of a statement must not return to the pool unchecked: its next user
//! would wait at the same place. So the abandoning code sets a mark first, and for a moment after that every
//! returned connection must answer in time or is closed ([`doubtful`]).

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

/// Time limit of a request that waits only for the database: longer than the longest statement that
/// PostgreSQL allows it.
pub const REQUEST: Duration = Duration::from_secs(30);

/// Time limit of a batch: every message of its intents waits for it.
pub const BATCH: Duration = Duration::from_secs(6);

/// How long returned connections are checked after an abandoned operation: its connection starts back to the
/// pool at once.
const DOUBT: Duration = Duration::from_secs(5);

/// The work exceeded its deadline and was abandoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the database did not answer in time")]
pub struct Late;

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// End of the checks on returned connections, in milliseconds since [`BEGAN`].
static DOUBTFUL_UNTIL: AtomicU64 = AtomicU64::new(0);

fn millis(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(*BEGAN).as_millis()).unwrap_or(u64::MAX)
}

/// Returns whether an operation was abandoned a moment ago.
#[must_use]
pub fn doubtful() -> bool {
    let until = DOUBTFUL_UNTIL.load(Ordering::Acquire);
    until > 0 && until > millis(Instant::now())
}

/// Sets the mark before an operation is abandoned half-way.
pub fn doubt() {
    // This may be the first read of the clock.
    let _began = *BEGAN;
    DOUBTFUL_UNTIL.fetch_max(millis(Instant::now() + DOUBT), Ordering::AcqRel);
}

/// Sets the mark when dropped before its work is done. It must be dropped before the work is.
struct Watch {
    done: bool,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.done {
            doubt();
        }
    }
}

/// Runs work on the database with a time limit.
///
/// # Errors
/// The work takes longer than `limit` and is abandoned where it waits.
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, Late> {
    let work = pin!(work);
    let mut watch = Watch { done: false };
    let done = timeout(limit, work).await;
    watch.done = done.is_ok();
    done.map_err(|_late| Late)
}

tokio::task_local! {
    /// Deadline of the current request.
    static DUE: Cell<Instant>;
}

/// As [`within`], for a request; [`extend`] can move the deadline while it runs.
///
/// # Errors
/// As [`within`].
pub async fn request<T>(work: impl Future<Output = T>) -> Result<T, Late> {
    let bounded = async move {
        let mut work = pin!(work);
        let mut watch = Watch { done: false };
        loop {
            let due = DUE.with(Cell::get);
            let done = timeout_at(due, work.as_mut()).await;
            watch.done = done.is_ok();
            match done {
                Ok(done) => return Ok(done),
                Err(_) if DUE.with(Cell::get) > Instant::now() => {}
                Err(_) => return Err(Late),
            }
        }
    };
    DUE.scope(Cell::new(Instant::now() + REQUEST), bounded).await
}

/// Extends the current request's deadline to `by` plus [`REQUEST`] from now, because it waits for something
/// else or reads much.
pub fn extend(by: Duration) {
    let _no_request = DUE.try_with(|due| due.set(due.get().max(Instant::now() + by + REQUEST)));
}

/// Guard that suspends the deadline while the request's body arrives; the body has limits of its own.
#[must_use]
pub struct Reading;

/// Begins to read a body.
pub fn reading() -> Reading {
    let _no_request = DUE.try_with(|due| due.set(Instant::now() + Duration::from_hours(1)));
    Reading
}

impl Drop for Reading {
    fn drop(&mut self) {
        let _no_request = DUE.try_with(|due| due.set(Instant::now() + REQUEST));
    }
}
