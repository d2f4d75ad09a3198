//! Spawned work and its end: the only place that spawns tasks.
//!
//! Every task has a name and hears the stop signal. Stopping has an order (`src/startup.rs`): streams are told to
//! reconnect, requests in flight finish, writers drain, background work ends, and only then the database closes.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, info_span, warn};

use crate::db::deadlines::doubt;

/// How long it may take until a task that is given up is gone.
const GIVING_UP: Duration = Duration::from_secs(1);

/// The tasks of one server.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    draining: CancellationToken,
    stopping: CancellationToken,
    /// Cancelled when they have had their time: who has not ended by then is dropped where it waits.
    over: CancellationToken,
}

impl Tasks {
    /// No tasks yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Spawns a task. It must end soon after [`Self::stopping`] is cancelled.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(self.until_over(name, task));
    }

    /// As [`Self::spawn`], on the thread that asks: for a conversation that belongs to a connection, which a request's
    /// thread serves.
    pub fn spawn_here(&self, name: &'static str, task: impl Future<Output = ()> + 'static) {
        self.tracker.spawn_local(self.until_over(name, task));
    }

    fn until_over<T: Future<Output = ()>>(
        &self,
        name: &'static str,
        task: T,
    ) -> impl Future<Output = ()> + use<T> {
        // Boxed, because each layer around a future may hold it twice, and a session's is large.
        let task = self.over.clone().run_until_cancelled_owned(Box::pin(task));
        async { task.await.unwrap_or_default() }.instrument(info_span!("task", name))
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

    /// Tells all tasks to end and waits for them, up to `limit`; those that go on are dropped where they wait. One that
    /// waits for a database which is away would otherwise hold up the end for as long as its patience lasts: a pool does
    /// not close while somebody connects.
    pub async fn stop(&self, limit: Duration) {
        self.draining.cancel();
        self.stopping.cancel();
        self.tracker.close();
        if tokio::time::timeout(limit, self.tracker.wait()).await.is_err() {
            warn!(tasks.left = self.tracker.len(), "some tasks did not end in time and are given up");
            doubt();
            self.over.cancel();
            // One that never waits cannot be dropped, and must not hold up the end either.
            let _busy = tokio::time::timeout(GIVING_UP, self.tracker.wait()).await;
        }
    }
}
