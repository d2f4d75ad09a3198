//! Tracks open connections and their last use, so that a stopping server does not close a connection on which its
//! client is about to send another request. Requests themselves are handled by `middleware`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;

/// A client active this recently is expected to send another request. A client silent for longer may find its
/// connection closed as it sends, as with every stopping server (RFC 9112 §9.5): it sends again, with its
/// `Idempotency-Key` if the request must be done only once.
const RECENT: Duration = Duration::from_millis(500);

/// Interval at which a stopping server checks whether requests have ceased.
const QUIET: Duration = Duration::from_millis(50);

/// Maximum time the server waits for that.
const QUIET_LIMIT: Duration = Duration::from_secs(2);

/// The last-use time of a connection once its client was told that it closes.
const TOLD: u64 = 0;

/// The open connections of a server.
pub struct Connections {
    start: Instant,
    /// Total number of requests received.
    arrivals: AtomicU64,
    next: AtomicU64,
    open: Mutex<HashMap<u64, Arc<AtomicU64>>>,
}

impl Default for Connections {
    fn default() -> Self {
        let (arrivals, next) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { start: Instant::now(), arrivals, next, open: Mutex::default() }
    }
}

/// An open connection, listed until it is dropped.
pub struct Connection {
    id: u64,
    /// Time of last use in milliseconds after the server's start, at least 1; or [`TOLD`].
    used: Arc<AtomicU64>,
    list: Arc<Connections>,
}

impl Connections {
    /// Registers a new connection.
    pub fn open(self: &Arc<Self>) -> Connection {
        let used = Arc::new(AtomicU64::new(self.elapsed()));
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(id, Arc::clone(&used));
        Connection { id, used, list: Arc::clone(self) }
    }

    /// Waits, at most two seconds, until no request has arrived for a moment and every recently active client has
    /// been told that its connection closes.
    ///
    /// A client whose request crosses with the closing cannot know whether it was processed.
    pub async fn quiet(&self) {
        let deadline = Instant::now() + QUIET_LIMIT;
        loop {
            let before = self.arrivals.load(Ordering::Relaxed);
            sleep(QUIET).await;
            let quiet = before == self.arrivals.load(Ordering::Relaxed) && !self.busy();
            if quiet || Instant::now() >= deadline {
                return;
            }
        }
    }

    /// Whether a connection was used recently and its client has not been told that it closes.
    fn busy(&self) -> bool {
        let recently = self.elapsed().saturating_sub(millis(RECENT)).max(TOLD + 1);
        self.lock().values().any(|used| used.load(Ordering::Relaxed) >= recently)
    }

    fn elapsed(&self) -> u64 {
        millis(self.start.elapsed()).max(TOLD + 1)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<AtomicU64>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Records a request on the connection.
    pub fn asked(&self) {
        self.list.arrivals.fetch_add(1, Ordering::Relaxed);
        self.used.store(self.list.elapsed(), Ordering::Relaxed);
    }

    /// Records a response and whether it announces the connection's closing.
    ///
    /// A response may take long, so it counts as activity too: the client is about to send its next request.
    pub fn answered(&self, closes: bool) {
        self.used.store(if closes { TOLD } else { self.list.elapsed() }, Ordering::Relaxed);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.list.lock().remove(&self.id);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
