//! Group commit (`docs/adr/0003-batches-without-a-timer.md`): many commands share one commit, and each caller is answered after it.
//!
//! Callers put commands into a bounded queue, sharded so that commands for the same intent meet in the same
//! queue. A writer takes all waiting commands, applies them as one batch, and answers each caller. There is
//! no timer: an idle queue commits its first command at once, and a busy one forms batches while the previous
//! commit is under way. A writer never waits for another transaction's lock: a command that has to wait does
//! so in a lane (`lanes.rs`). The batch handler ([`BatchHandler`]) defines the effect of a batch; this module only
//! manages queues.

mod lanes;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use entente_runtime::metrics::Metrics;
use entente_runtime::tasks::Tasks;
use futures_util::FutureExt as _;
use futures_util::future::try_join_all;
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::lanes::Lanes;

/// Most commands per batch: enough to make the commit's cost per command small, few enough to keep the
/// transaction short for others that wait for the same intent.
const BATCH: usize = 256;

/// Commands that may wait per writer.
///
/// A full queue makes its callers wait, which slows clients down instead of using up memory.
const QUEUE: usize = 1_024;

/// Lanes of one handler that run concurrently; each holds a connection while it waits.
pub const PLACES: u32 = 3;

/// Batch handler.
pub trait BatchHandler: Send + Sync + 'static {
    /// Request type.
    type Command: Send + 'static;
    /// Answer type.
    type Answer: Send + 'static;
    /// State that a writer keeps between batches.
    type Memory: Send + 'static;

    /// Returns the state with which a writer begins, and begins again after a batch that panicked.
    fn memory(&self) -> Self::Memory;

    /// Returns the lane of a command; commands of one lane are applied in their order of arrival.
    fn lane(command: &Self::Command) -> u64;

    /// Applies the commands in order and returns their answers in the same order, after the commit.
    ///
    /// One bad command must not harm its neighbours. Never waits for another transaction's lock: a command
    /// that would need to is returned, along with all later commands of its lane.
    fn apply(
        &self,
        memory: &mut Self::Memory,
        commands: Vec<Self::Command>,
    ) -> impl Future<Output = Vec<Result<Self::Answer, Self::Command>>> + Send;

    /// Applies commands of one lane, and waits for their locks for a limited time.
    fn wait(&self, commands: Vec<Self::Command>) -> impl Future<Output = Vec<Self::Answer>> + Send;

    /// Writes in the same way as a batch, to test that writing works.
    fn probe(&self) -> impl Future<Output = Result<(), String>> + Send;
}

struct Job<D: BatchHandler> {
    command: D::Command,
    answer: oneshot::Sender<Result<D::Answer, Unanswered>>,
}

/// Entry of a queue.
enum Entry<D: BatchHandler> {
    /// Command to apply.
    Job(Job<D>),
    /// Health probe of the writer.
    Probe(oneshot::Sender<Result<(), String>>),
}

/// Queues of one batch handler.
pub struct GroupCommit<D: BatchHandler> {
    shards: Vec<mpsc::Sender<Entry<D>>>,
    metrics: Metrics,
}

/// Reason that a command has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The command may or may not have been applied.
    #[error("the server is stopping, or a defect has met the request")]
    Stopped,
    /// The command was not applied.
    #[error("somebody else has locked what this is about, and too many wait for that; nothing was done")]
    Busy,
}

impl<D: BatchHandler> GroupCommit<D> {
    /// Starts `writers` writers for a handler; when the server stops they finish their queues and end.
    pub fn start(handler: D, writers: usize, tasks: &Tasks, metrics: &Metrics) -> Self {
        let handler = Arc::new(handler);
        let places = Arc::new(Semaphore::new(PLACES as usize));
        let shards = (0..writers.max(1))
            .map(|_| {
                let (sender, queue) = mpsc::channel(QUEUE);
                let writer = Arc::new(Writer {
                    handler: Arc::clone(&handler),
                    lanes: Lanes::new(&handler, &places, tasks),
                    metrics: metrics.clone(),
                });
                // Owned outside of the writer task: after a restart the next task continues with the same
                // queue.
                let queue = Arc::new(Mutex::new(queue));
                let stopping = tasks.stopping().clone();
                tasks.keep("group commit", move || {
                    let (writer, queue) = (Arc::clone(&writer), Arc::clone(&queue));
                    let stopping = stopping.clone();
                    async move { writer.write(&mut *queue.lock().await, stopping).await }
                });
                sender
            })
            .collect();
        Self { shards, metrics: metrics.clone() }
    }

    /// Submits commands and waits for their answers.
    ///
    /// Within one lane, commands of one call, and of later calls with the same `shard`, are applied in their
    /// order of arrival.
    pub async fn submit(&self, shard: u64, commands: Vec<D::Command>) -> Vec<Result<D::Answer, Unanswered>> {
        let mut waiting = Vec::with_capacity(commands.len());
        for command in commands {
            waiting.push(self.enqueue(shard, command).await);
        }
        let mut answers = Vec::with_capacity(waiting.len());
        for queued in waiting {
            answers.push(match queued {
                Ok(answer) => answer.await.unwrap_or(Err(Unanswered::Stopped)),
                Err(stopped) => Err(stopped),
            });
        }
        answers
    }

    /// Makes every writer perform a test write within `limit`, or returns the error.
    ///
    /// # Errors
    /// One of the writers does not write.
    pub async fn probe(&self, limit: Duration) -> Result<(), String> {
        let each = self.shards.iter().map(|queue| async move {
            let (answer, answered) = oneshot::channel();
            let stopped = || Unanswered::Stopped.to_string();
            queue.send(Entry::Probe(answer)).await.map_err(|_closed| stopped())?;
            answered.await.unwrap_or_else(|_dropped| Err(stopped()))
        });
        let late = |_late| Err(format!("a writer did not write within {limit:?}"));
        timeout(limit, try_join_all(each)).await.map_or_else(late, |done| done.map(drop))
    }

    async fn enqueue(
        &self,
        shard: u64,
        command: D::Command,
    ) -> Result<oneshot::Receiver<Result<D::Answer, Unanswered>>, Unanswered> {
        let index = usize::try_from(shard % self.shards.len() as u64).unwrap_or(0);
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting::new(&self.metrics);
        let queued = match self.shards.get(index) {
            Some(queue) => {
                let job = Entry::Job(Job { command, answer });
                queue.send(job).await.map_err(|_closed| Unanswered::Stopped)
            }
            None => Err(Unanswered::Stopped),
        };
        drop(waiting);
        queued.map(|()| answered)
    }
}

/// Counts a command that waits for room in a queue, until it is dropped: also if its client hangs up.
struct Waiting<'a>(&'a Metrics);

impl<'a> Waiting<'a> {
    fn new(metrics: &'a Metrics) -> Self {
        metrics.commit_waiting.inc();
        Self(metrics)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.commit_waiting.dec();
    }
}

/// Writer of one queue.
struct Writer<D: BatchHandler> {
    handler: Arc<D>,
    lanes: Arc<Lanes<D>>,
    metrics: Metrics,
}

impl<D: BatchHandler> Writer<D> {
    async fn write(&self, queue: &mut mpsc::Receiver<Entry<D>>, stopping: CancellationToken) {
        let mut memory = self.handler.memory();
        let mut entries = Vec::with_capacity(BATCH);
        loop {
            let taken = tokio::select! {
                taken = queue.recv_many(&mut entries, BATCH) => taken,
                () = stopping.cancelled(), if !queue.is_closed() => {
                    queue.close();
                    continue;
                }
            };
            if taken == 0 {
                return;
            }
            let (mut jobs, mut probes) = (Vec::with_capacity(taken), Vec::new());
            for entry in entries.drain(..) {
                match entry {
                    Entry::Job(job) => jobs.extend(self.lanes.admit(job)),
                    Entry::Probe(answer) => probes.push(answer),
                }
            }
            if !jobs.is_empty() {
                self.batch(&mut memory, jobs).await;
            }
            if !probes.is_empty() {
                let probed = AssertUnwindSafe(self.handler.probe()).catch_unwind().await;
                let probed = probed.unwrap_or_else(|_panic| Err("the probe panicked".to_owned()));
                for answer in probes {
                    // The caller may have disconnected.
                    let _gone = answer.send(probed.clone());
                }
            }
        }
    }

    async fn batch(&self, memory: &mut D::Memory, jobs: Vec<Job<D>>) {
        let (commands, callers): (Vec<_>, Vec<_>) =
            jobs.into_iter().map(|job| (job.command, job.answer)).unzip();
        let began = Instant::now();
        #[expect(clippy::cast_precision_loss, reason = "a batch has at most 256 commands")]
        self.metrics.commit_batch.observe(commands.len() as f64);
        let applied = AssertUnwindSafe(self.handler.apply(memory, commands)).catch_unwind().await;
        self.metrics.commit_seconds.observe(began.elapsed().as_secs_f64());
        let Ok(answers) = applied else {
            // The panic hook has logged the location. The callers learn that the outcome is unknown; the next
            // batch reads its state from the database.
            tracing::error!(batch = callers.len(), "a batch panicked");
            *memory = self.handler.memory();
            return;
        };
        let mut parked = Vec::new();
        for (answer, outcome) in callers.into_iter().zip(answers) {
            match outcome {
                // A caller that has disconnected does not undo the commit.
                Ok(done) => drop(answer.send(Ok(done))),
                Err(command) => parked.push(Job { command, answer }),
            }
        }
        self.lanes.park(parked);
    }
}
