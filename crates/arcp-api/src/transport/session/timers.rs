//! Times of a session, and its announced end.

use std::time::Duration;

use tokio::time::Instant;

use super::super::Ending;

/// Time to finish requests in progress when the server stops or the client leaves.
const FINISH: Duration = Duration::from_secs(2);
/// Time limit for a client to authenticate.
const HELLO: Duration = Duration::from_secs(30);

/// Times of a session.
pub(super) struct Timers {
    pub began: Instant,
    /// When the session is renewed; until the client is admitted, when the session ends.
    pub keep_at: Instant,
    /// When the client last asked for something or got an event.
    active_at: Instant,
    /// End of the extra reading time of a client that counts as silent.
    pub listened_at: Option<Instant>,
}

impl Timers {
    pub fn start() -> Self {
        let began = Instant::now();
        Self { began, keep_at: began + HELLO, active_at: began, listened_at: None }
    }

    /// Has the session renewed well within its resume window.
    pub fn renew(&mut self, now: Instant, resume_window: Duration) {
        self.keep_at = now + resume_window / 4;
    }

    /// Notes that the session is in use.
    pub fn touch(&mut self) {
        self.active_at = Instant::now();
    }

    /// Returns whether the session was not in use for so long.
    pub fn is_idle(&self, now: Instant, idle: Duration) -> bool {
        now.duration_since(self.active_at) >= idle
    }
}

/// The announced end of a session.
pub(super) struct Exit {
    /// Reason of the end: nothing more is read, and the session ends once all requests are answered.
    pub last: Option<Ending>,
    /// When the session ends even with requests unanswered, because the server or the client is leaving.
    pub leaving_at: Option<Instant>,
}

impl Exit {
    pub fn new() -> Self {
        Self { last: None, leaving_at: None }
    }

    /// Stops reading, and ends once requests are answered or the time is over.
    pub fn leave_soon(&mut self, ending: Ending) {
        self.last = Some(ending);
        self.leaving_at.get_or_insert(Instant::now() + FINISH);
    }

    /// Returns the reason of the end, once the time to finish is over.
    pub fn overdue(&self, now: Instant) -> Option<Ending> {
        self.leaving_at.filter(|at| *at <= now)?;
        Some(self.last.unwrap_or(Ending::Restart))
    }

    /// Returns until when requests in progress are finished.
    pub fn finish_until(&self) -> Instant {
        self.leaving_at.unwrap_or_else(|| Instant::now() + FINISH)
    }
}
