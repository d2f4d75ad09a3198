//! How long this server waits for its database. PostgreSQL's own limits (`limits.rs`) do not help when it cannot be heard any
//! more: the network between is cut, or a machine on the way has forgotten the connection. Then what waits is given up here,
//! and its connection with it.
//!
//! A connection that was given up in the middle of a statement must not go back to the pool as it is: whoever gets it next
//! would wait where the last one did. So whoever gives up leaves a mark first, and for a moment after that every connection
//! that comes back has to answer in time, or is closed ([`doubtful`]).

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

/// How long a request may take that waits for nothing but the database: longer than the longest statement that PostgreSQL lets
/// it have.
pub const REQUEST: Duration = Duration::from_secs(30);

/// How long a batch may take: every message of its intents waits for it.
pub const BATCH: Duration = Duration::from_secs(6);

/// How long a connection is looked at closely after something was given up: its way back to the pool begins at once.
const DOUBT: Duration = Duration::from_secs(5);

/// It took too long, and was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the database did not answer in time")]
pub struct Late;

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Milliseconds since [`BEGAN`] until which connections that come back are doubtful.
static DOUBTFUL_UNTIL: AtomicU64 = AtomicU64::new(0);

fn millis(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(*BEGAN).as_millis()).unwrap_or(u64::MAX)
}

/// Whether something was given up just now.
#[must_use]
pub fn doubtful() -> bool {
    let until = DOUBTFUL_UNTIL.load(Ordering::Acquire);
    until > 0 && until > millis(Instant::now())
}

/// Leaves the mark: something is about to be given up in the middle.
pub fn doubt() {
    // The first look at the clock may be this one.
    let _began = *BEGAN;
    DOUBTFUL_UNTIL.fetch_max(millis(Instant::now() + DOUBT), Ordering::AcqRel);
}

/// Leaves the mark when it is dropped before its work is done. It must be dropped before the work is.
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

/// Does some work with the database, for so long at the most.
///
/// # Errors
/// It takes longer, and is given up where it waits.
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, Late> {
    let work = pin!(work);
    let mut watch = Watch { done: false };
    let done = timeout(limit, work).await;
    watch.done = done.is_ok();
    done.map_err(|_late| Late)
}

tokio::task_local! {
    /// Until when the request that is worked at is to be answered.
    static DUE: Cell<Instant>;
}

/// As [`within`], for a request, whose time may be extended while it is worked at.
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

/// Gives the request that is worked at so much time from now on, besides what every request has: it waits for something
/// else, or reads much.
pub fn extend(by: Duration) {
    let _no_request = DUE.try_with(|due| due.set(due.get().max(Instant::now() + by + REQUEST)));
}

/// Keeps the time from running while the request's body comes in, which has limits of its own.
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
