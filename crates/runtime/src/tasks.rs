//! Spawned work and its end: the only place that spawns tasks.
//!
//! Every task has a name and hears the stop signal. Stopping has an order (`src/startup.rs`): streams are told to
//! reconnect, requests in flight finish, writers drain, background work ends, and only then the database closes.
//!
//! A task that goes on for as long as the server does is supervised: when it panics or ends unasked it begins again, and when
//! that does not help the server stops, because one that no longer sweeps, feeds or delivers and still answers deceives.

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

use crate::metrics::{Metrics, TaskLabels};

use crate::deadlines::doubt;

/// How long it may take until a task that is given up is gone.
const GIVING_UP: Duration = Duration::from_secs(1);

/// How often, and how soon, a task that fails begins again.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// The pause before it begins again for the first time; each further one is twice as long.
    pub first: Duration,
    /// The longest pause.
    pub most: Duration,
    /// With the so manieth failure within the window the server stops.
    pub failures: usize,
    /// The window.
    pub window: Duration,
}

impl Patience {
    /// With these pauses a task that fails each time, at once, is given up after some 20 seconds: long enough for what passes
    /// by itself, short enough that an orchestrator starts another server before work piles up.
    pub const USUAL: Self = Self {
        first: Duration::from_millis(100),
        most: Duration::from_secs(5),
        failures: 10,
        window: Duration::from_mins(2),
    };

    /// The pause after so many failures.
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
    stopping: CancellationToken,
    /// Cancelled when they have had their time: who has not ended by then is dropped where it waits.
    over: CancellationToken,
    /// Tasks that panicked or ended unasked.
    failures: Family<TaskLabels, Counter>,
    patience: Patience,
    /// Cancelled when the server cannot go on, and because of which task.
    failed: CancellationToken,
    culprit: Arc<OnceLock<&'static str>>,
}

impl Tasks {
    /// No tasks yet; those that fail are counted in these metrics.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        Self::patient(metrics, Patience::USUAL)
    }

    /// As [`Self::new`], with another patience.
    #[must_use]
    pub fn patient(metrics: &Metrics, patience: Patience) -> Self {
        Self {
            tracker: TaskTracker::new(),
            draining: CancellationToken::new(),
            stopping: CancellationToken::new(),
            over: CancellationToken::new(),
            failures: metrics.task_failures.clone(),
            patience,
            failed: CancellationToken::new(),
            culprit: Arc::default(),
        }
    }

    /// Spawns a task that does one thing. It must end soon after [`Self::stopping`] is cancelled. When it panics that is
    /// counted, and nobody begins it again: what it did is tried again by whoever finds it undone.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let task = self.clone().once(name, Box::pin(task));
        self.tracker.spawn(self.until_over(name, task));
    }

    /// As [`Self::spawn`], on the thread that asks: for a conversation that belongs to a connection, which a request's
    /// thread serves.
    pub fn spawn_here(&self, name: &'static str, task: impl Future<Output = ()> + 'static) {
        let task = self.clone().once(name, Box::pin(task));
        self.tracker.spawn_local(self.until_over(name, task));
    }

    /// Spawns a task that goes on until the server drains or stops. When it panics or ends before, it begins again after a
    /// pause; when it fails too often, the server stops.
    pub fn keep<T>(&self, name: &'static str, task: impl FnMut() -> T + Send + 'static)
    where
        T: Future<Output = ()> + Send + 'static,
    {
        self.tracker.spawn(self.until_over(name, Box::pin(self.clone().supervise(name, task, true))));
    }

    /// As [`Self::keep`], of which there are many that do not need each other: one that fails however often begins again, and the
    /// server goes on with the others.
    pub fn keep_always<T>(&self, name: &'static str, task: impl FnMut() -> T + Send + 'static)
    where
        T: Future<Output = ()> + Send + 'static,
    {
        self.tracker.spawn(self.until_over(name, Box::pin(self.clone().supervise(name, task, false))));
    }

    /// Spawns a task that cannot begin again: when it panics or ends before the server drains or stops, the server stops.
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
        // Boxed by those who ask, because each layer around a future may hold it twice, and a session's is large.
        let task = self.over.clone().run_until_cancelled_owned(task);
        async { task.await.unwrap_or_default() }.instrument(info_span!("task", name))
    }

    async fn once(self, name: &'static str, task: impl Future<Output = ()>) {
        if AssertUnwindSafe(task).catch_unwind().await.is_err() {
            // The panic hook has written down where.
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

    /// Whether a task has ended as it was told to. One that panicked, or ended although nobody told it to, is counted.
    fn ended_well(&self, name: &'static str, whole: bool) -> bool {
        let told = self.draining.is_cancelled() || self.stopping.is_cancelled();
        if whole && told {
            return true;
        }
        self.count(name);
        if whole {
            error!(task = name, "a task ended, although nobody told it to");
        } else {
            // The panic hook has written down where.
            error!(task = name, "a task panicked");
        }
        // Whoever panics at the end has nothing to begin again for.
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

    /// Resolves when the server cannot go on, with the task that it cannot go on without.
    pub async fn failed(&self) -> &'static str {
        self.failed.cancelled().await;
        self.culprit.get().copied().unwrap_or_default()
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
        // Panics once, ends unasked once, then goes on.
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
        // What does one thing may panic: it is counted, and that is all.
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
