//! Supervised tasks and their shutdown: the only code that spawns tasks.
//!
//! Every task has a name and observes the stop signal. Shutdown has an order (`src/startup.rs`): streams tell
//! their clients to reconnect, requests in flight finish, writers drain, background work ends, and only then
//! the database closes.
//!
//! Long-running tasks are supervised: a task that panics or ends early is restarted, and when restarts do not
//! help the server stops. A server that still answers but no longer sweeps, feeds or delivers would deceive
//! its clients.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, error, info_span, warn};

use crate::deadlines::doubt;
use crate::metrics::{Metrics, TaskLabels};

/// Time that abandoned tasks have to disappear.
const GIVING_UP: Duration = Duration::from_secs(1);

/// Pieces of work after which other tasks of the thread run.
const UNBROKEN: usize = 16;

/// Lets the other tasks of the thread run now and then; `done` is the number of pieces of work that are done.
///
/// Background work shares its thread with the writers, so whatever computes for longer than a commit takes calls this
/// between two pieces.
pub async fn share_thread(done: usize) {
    if done % UNBROKEN == UNBROKEN - 1 {
        tokio::task::yield_now().await;
    }
}

/// Restart policy for a task that fails.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Pause before the first restart; each further pause is twice as long.
    pub first: Duration,
    /// Longest pause.
    pub most: Duration,
    /// Number of failures within the window at which the server stops.
    pub failures: usize,
    /// Length of the window.
    pub window: Duration,
}

impl Patience {
    /// Default policy: a task that fails immediately every time is given up after some 20 seconds.
    ///
    /// That is long enough for transient faults, and short enough that an orchestrator starts another server
    /// before work piles up.
    pub const USUAL: Self = Self {
        first: Duration::from_millis(100),
        most: Duration::from_secs(5),
        failures: 10,
        window: Duration::from_mins(2),
    };

    /// Returns the pause after the given number of failures.
    fn pause(&self, failures: usize) -> Duration {
        let doubled = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
        self.first.saturating_mul(1 << doubled).min(self.most)
    }
}

/// The tasks of one server.
#[derive(Debug, Clone)]
pub struct Tasks {
    tracker: TaskTracker,
    draining: CancellationToken,
    leaving: CancellationToken,
    stopping: CancellationToken,
    /// Cancelled when the time to stop is over: tasks that still run are dropped where they wait.
    over: CancellationToken,
    /// Tasks that panicked or ended early.
    failures: Family<TaskLabels, Counter>,
    patience: Patience,
    /// Cancelled when the server cannot go on; `culprit` names the task.
    failed: CancellationToken,
    culprit: Arc<OnceLock<&'static str>>,
}

impl Tasks {
    /// Creates an empty set of tasks; failures are counted in `metrics`.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        Self::patient(metrics, Patience::USUAL)
    }

    /// As [`Self::new`], with another restart policy.
    #[must_use]
    pub fn patient(metrics: &Metrics, patience: Patience) -> Self {
        Self {
            tracker: TaskTracker::new(),
            draining: CancellationToken::new(),
            leaving: CancellationToken::new(),
            stopping: CancellationToken::new(),
            over: CancellationToken::new(),
            failures: metrics.task_failures.clone(),
            patience,
            failed: CancellationToken::new(),
            culprit: Arc::default(),
        }
    }

    /// Spawns a task that does one piece of work.
    ///
    /// It must end soon after [`Self::stopping`] is cancelled. A panic is counted and the task is not
    /// restarted: the code that later finds the work undone tries it again.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let task = self.clone().once(name, Box::pin(task));
        self.tracker.spawn(self.until_over(name, task));
    }

    /// As [`Self::spawn`], on the calling thread: for a session on a connection that a request thread serves.
    pub fn spawn_here(&self, name: &'static str, task: impl Future<Output = ()> + 'static) {
        let task = self.clone().once(name, Box::pin(task));
        self.tracker.spawn_local(self.until_over(name, task));
    }

    /// Spawns a task that runs until the server drains or stops.
    ///
    /// A task that panics or ends earlier restarts after a pause; when it fails too often, the server stops.
    pub fn keep<T>(&self, name: &'static str, task: impl FnMut() -> T + Send + 'static)
    where
        T: Future<Output = ()> + Send + 'static,
    {
        self.tracker.spawn(self.until_over(name, Box::pin(self.clone().supervise(name, task, true))));
    }

    /// As [`Self::keep`], for one of many independent tasks: it restarts however often it fails, and the
    /// server goes on.
    pub fn keep_always<T>(&self, name: &'static str, task: impl FnMut() -> T + Send + 'static)
    where
        T: Future<Output = ()> + Send + 'static,
    {
        self.tracker.spawn(self.until_over(name, Box::pin(self.clone().supervise(name, task, false))));
    }

    /// Spawns a task that cannot be restarted: if it panics or ends before the server drains or stops, the
    /// server stops.
    pub fn vital(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let tasks = self.clone();
        let task = async move {
            if !tasks.ended_well(name, AssertUnwindSafe(task).catch_unwind().await.is_ok()) {
                tasks.give_up(name);
            }
        };
        self.tracker.spawn(self.until_over(name, Box::pin(task)));
    }

    fn until_over<T: Future<Output = ()>>(
        &self,
        name: &'static str,
        task: T,
    ) -> impl Future<Output = ()> + use<T> {
        // The caller boxes the future, because each layer around a future may hold it twice, and a session's
        // is large.
        let task = self.over.clone().run_until_cancelled_owned(task);
        async { task.await.unwrap_or_default() }.instrument(info_span!("task", name))
    }

    async fn once(self, name: &'static str, task: impl Future<Output = ()>) {
        if AssertUnwindSafe(task).catch_unwind().await.is_err() {
            // The panic hook has logged the location.
            self.count(name);
            error!(task = name, "a task panicked");
        }
    }

    async fn supervise<T: Future<Output = ()>>(
        self,
        name: &'static str,
        mut task: impl FnMut() -> T,
        needed: bool,
    ) {
        let mut failures: VecDeque<Instant> = VecDeque::new();
        loop {
            let ended = AssertUnwindSafe(async { task().await }).catch_unwind().await;
            if self.ended_well(name, ended.is_ok()) {
                return;
            }
            let now = Instant::now();
            failures.retain(|at| now.duration_since(*at) < self.patience.window);
            failures.push_back(now);
            if needed && failures.len() >= self.patience.failures {
                self.give_up(name);
                return;
            }
            let pause = self.patience.pause(failures.len());
            warn!(task = name, failures = failures.len(), pause.ms = pause.as_millis(), "it begins again");
            if self.stopping.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    /// Returns whether a task ended because of a shutdown. A panic or an early end is counted.
    fn ended_well(&self, name: &'static str, whole: bool) -> bool {
        let told = self.draining.is_cancelled() || self.stopping.is_cancelled();
        if whole && told {
            return true;
        }
        self.count(name);
        if whole {
            error!(task = name, "a task ended, although nobody told it to");
        } else {
            // The panic hook has logged the location.
            error!(task = name, "a task panicked");
        }
        // A task that panics during the shutdown has no reason to restart.
        self.stopping.is_cancelled()
    }

    fn count(&self, name: &'static str) {
        self.failures.get_or_create(&TaskLabels { task: name }).inc();
    }

    fn give_up(&self, name: &'static str) {
        error!(task = name, "the server cannot go on without this task, and stops");
        let _first = self.culprit.set(name);
        self.failed.cancel();
    }

    /// Resolves with the name of the failed task when the server cannot go on without it.
    pub async fn failed(&self) -> &'static str {
        self.failed.cancelled().await;
        self.culprit.get().copied().unwrap_or_default()
    }

    /// Cancelled when the server begins to drain: streams end, and no new ones begin.
    #[must_use]
    pub fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// Cancelled when the threads that serve requests end soon, and their runtimes with them.
    #[must_use]
    pub fn leaving(&self) -> &CancellationToken {
        &self.leaving
    }

    /// Cancelled when no further requests arrive: tasks end.
    #[must_use]
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Signals all tasks to end and waits for them, up to `limit`; the rest are dropped where they wait.
    ///
    /// A task that waits for an unreachable database would otherwise delay the shutdown until its own
    /// timeout, because a pool does not close while a connection attempt is under way.
    pub async fn stop(&self, limit: Duration) {
        self.draining.cancel();
        self.stopping.cancel();
        self.tracker.close();
        if tokio::time::timeout(limit, self.tracker.wait()).await.is_err() {
            warn!(tasks.left = self.tracker.len(), "some tasks did not end in time and are given up");
            doubt();
            self.over.cancel();
            // A task that never yields cannot be dropped, and must not delay the shutdown either.
            let _busy = tokio::time::timeout(GIVING_UP, self.tracker.wait()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const HASTY: Patience = Patience {
        first: Duration::from_millis(2),
        most: Duration::from_millis(10),
        failures: 4,
        window: Duration::from_secs(10),
    };

    fn counted(metrics: &Metrics, task: &'static str) -> u64 {
        metrics.task_failures.get_or_create(&TaskLabels { task }).get()
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let pauses: Vec<u128> =
            [1, 2, 3, 6, 7, 9, 90].iter().map(|n| Patience::USUAL.pause(*n).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 3_200, 5_000, 5_000, 5_000]);
    }

    #[tokio::test]
    async fn a_task_that_fails_begins_again_until_it_fails_too_often() {
        let metrics = Metrics::new();
        let tasks = Tasks::patient(&metrics, HASTY);
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        let stopping = tasks.stopping().clone();
        // Panics once, ends early once, then keeps running.
        tasks.keep("healing", move || {
            let (turn, stopping) = (count.fetch_add(1, Ordering::Relaxed), stopping.clone());
            async move {
                assert_ne!(turn, 0, "the first turn fails on purpose");
                if turn > 1 {
                    stopping.cancelled().await;
                }
            }
        });
        let healed = async {
            while begun.load(Ordering::Relaxed) < 3 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), healed).await.expect("it begins a third time");
        assert_eq!((begun.load(Ordering::Relaxed), counted(&metrics, "healing")), (3, 2));
        assert!(tasks.failed().now_or_never().is_none());

        let hopeless = || async { panic!("each turn fails on purpose") };
        let began = Instant::now();
        tasks.keep("hopeless", hopeless);
        let culprit = tokio::time::timeout(Duration::from_secs(5), tasks.failed()).await;
        assert_eq!(culprit.ok(), Some("hopeless"));
        assert!(began.elapsed() >= Duration::from_millis(2 + 4 + 8), "it pauses before it begins again");
        assert_eq!(counted(&metrics, "hopeless"), 4);
        tasks.stop(Duration::from_secs(1)).await;
        assert_eq!(counted(&metrics, "healing"), 2, "it ended as it was told to");
    }

    #[tokio::test]
    async fn the_server_does_not_go_on_without_what_is_vital() {
        let metrics = Metrics::new();
        let tasks = Tasks::new(&metrics);
        let draining = tasks.draining().clone();
        tasks.vital("told", async move { draining.cancelled().await });
        // A one-off task may panic: the panic is counted, with no further effect.
        tasks.spawn("single", async { panic!("on purpose") });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(counted(&metrics, "single"), 1);
        assert!(tasks.failed().now_or_never().is_none());
        tasks.vital("untold", async {});
        assert_eq!(tokio::time::timeout(Duration::from_secs(5), tasks.failed()).await.ok(), Some("untold"));
        tasks.stop(Duration::from_secs(1)).await;
        assert_eq!(counted(&metrics, "told"), 0);
    }
}
