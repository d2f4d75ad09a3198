//! Who is connected, and when they last asked: a server that stops closes no connection on which somebody is about to ask
//! again. What is asked is the front door's business.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;

/// Who has asked or been answered this recently is taken to ask again. Whoever says nothing for longer on a connection that is
/// open may find that it closes while it asks, as with every server that stops (RFC 9112 §9.5): it asks again, with its
/// `Idempotency-Key` where that must be done once.
const RECENT: Duration = Duration::from_millis(500);

/// How often a server that stops looks whether it has become quiet.
const QUIET: Duration = Duration::from_millis(50);

/// How long it waits for that at the most.
const QUIET_LIMIT: Duration = Duration::from_secs(2);

/// What a connection's clock shows when its client has been told that it closes.
const TOLD: u64 = 0;

/// The connections of a server.
pub struct Connections {
    start: Instant,
    /// Requests that have come in, ever.
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

/// One connection: it stays on the list for as long as this lives.
pub struct Connection {
    id: u64,
    /// When it was last used, in milliseconds after the server's start and at least 1; or [`TOLD`].
    used: Arc<AtomicU64>,
    list: Arc<Connections>,
}

impl Connections {
    /// A client has connected.
    pub fn open(self: &Arc<Self>) -> Connection {
        let used = Arc::new(AtomicU64::new(self.elapsed()));
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(id, Arc::clone(&used));
        Connection { id, used, list: Arc::clone(self) }
    }

    /// Waits until no request has come for a moment and everybody who asked shortly before has been told that the
    /// connection closes: a client whose request crosses with the closing does not know whether it was done.
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

    /// Whether somebody has a connection, has used it a moment ago, and has not been told that it closes.
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
    /// A request has come on it.
    pub fn asked(&self) {
        self.list.arrivals.fetch_add(1, Ordering::Relaxed);
        self.used.store(self.list.elapsed(), Ordering::Relaxed);
    }

    /// Its client is answered, and told with that if it closes. An answer may take long: whoever has just got one is about to
    /// ask again, however long ago it asked.
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
