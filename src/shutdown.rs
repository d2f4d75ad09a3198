//! Spawned work and its end: the only place that spawns tasks.
//!
//! Every task has a name and hears the stop signal. Stopping has an order (`src/startup.rs`): streams are told to
//! reconnect, requests in flight finish, writers drain, background work ends, and only then the database closes.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, info_span, warn};

/// The tasks of one server.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    draining: CancellationToken,
    stopping: CancellationToken,
}

impl Tasks {
    /// No tasks yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Spawns a task. It must end soon after [`Self::stopping`] is cancelled.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(task.instrument(info_span!("task", name)));
    }

    /// As [`Self::spawn`], on the thread that asks: for a conversation that belongs to a connection, which a request's
    /// thread serves.
    pub fn spawn_here(&self, name: &'static str, task: impl Future<Output = ()> + 'static) {
        self.tracker.spawn_local(task.instrument(info_span!("task", name)));
    }

    /// Cancelled when the server begins to drain: streams end, no new ones begin.
    #[must_use]
    pub fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// Cancelled when nothing more will be asked of the server: tasks end.
    #[must_use]
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Tells all tasks to end and waits for them, up to `limit`.
    pub async fn stop(&self, limit: Duration) {
        self.draining.cancel();
        self.stopping.cancel();
        self.tracker.close();
        if tokio::time::timeout(limit, self.tracker.wait()).await.is_err() {
            warn!(tasks.left = self.tracker.len(), "some tasks did not end in time");
        }
    }
}
