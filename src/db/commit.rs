//! Group commit (design §4): many commands, one commit, each caller answered after it.
//!
//! Callers put commands into a bounded queue, sharded so that commands for the same intent meet in the same queue. A
//! writer takes whatever waits, applies it as one batch, and answers each caller. Nothing is timed: an idle queue
//! commits its first command at once, a busy one batches by itself while the previous commit is under way.
//! What a batch does is the business of its [`Deed`]; this file knows only queues.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::shutdown::Tasks;
use crate::telemetry::Metrics;

/// Commands per batch at the most: enough to make the commit's cost per command small, few enough to keep the
/// transaction short for whoever waits for the same intent.
const BATCH: usize = 256;

/// Commands that may wait per writer. A full queue makes its callers wait, which slows clients down instead of using
/// up memory.
const QUEUE: usize = 1_024;

/// What a batch of commands does.
pub trait Deed: Send + Sync + 'static {
    /// What is asked.
    type Command: Send + 'static;
    /// What each caller hears.
    type Answer: Send + 'static;
    /// What a writer remembers from batch to batch.
    type Memory: Default + Send + 'static;

    /// Applies the commands in their order, and answers them in the same order, after they are committed. One bad
    /// command must not harm its neighbours.
    fn apply(
        &self,
        memory: &mut Self::Memory,
        commands: Vec<Self::Command>,
    ) -> impl Future<Output = Vec<Self::Answer>> + Send;
}

struct Job<D: Deed> {
    command: D::Command,
    answer: oneshot::Sender<D::Answer>,
}

/// The queues of one deed.
pub struct GroupCommit<D: Deed> {
    shards: Vec<mpsc::Sender<Job<D>>>,
    metrics: Metrics,
}

/// The server is stopping, or the batch has panicked: the command may or may not have been done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server is stopping, or a defect has met the request")]
pub struct Stopped;

impl<D: Deed> GroupCommit<D> {
    /// Starts `writers` writers for a deed. When the server stops they do what waits, and end.
    pub fn start(deed: D, writers: usize, tasks: &Tasks, metrics: &Metrics) -> Self {
        let deed = Arc::new(deed);
        let shards = (0..writers.max(1))
            .map(|_| {
                let (sender, queue) = mpsc::channel(QUEUE);
                // Kept outside of the writer: what waits is done by the one that begins after it.
                let queue = Arc::new(Mutex::new(queue));
                let (deed, stopping, metrics) =
                    (Arc::clone(&deed), tasks.stopping().clone(), metrics.clone());
                tasks.keep("group commit", move || {
                    let (deed, queue) = (Arc::clone(&deed), Arc::clone(&queue));
                    let (stopping, metrics) = (stopping.clone(), metrics.clone());
                    async move { write(deed, &mut *queue.lock().await, stopping, metrics).await }
                });
                sender
            })
            .collect();
        Self { shards, metrics: metrics.clone() }
    }

    /// Has commands done. Those of one call, and of later calls with the same `shard`, are done in the order in which
    /// they come.
    pub async fn submit(&self, shard: u64, commands: Vec<D::Command>) -> Vec<Result<D::Answer, Stopped>> {
        let mut waiting = Vec::with_capacity(commands.len());
        for command in commands {
            waiting.push(self.enqueue(shard, command).await);
        }
        let mut answers = Vec::with_capacity(waiting.len());
        for queued in waiting {
            answers.push(match queued {
                Ok(answer) => answer.await.map_err(|_dropped| Stopped),
                Err(stopped) => Err(stopped),
            });
        }
        answers
    }

    async fn enqueue(
        &self,
        shard: u64,
        command: D::Command,
    ) -> Result<oneshot::Receiver<D::Answer>, Stopped> {
        let index = usize::try_from(shard % self.shards.len() as u64).unwrap_or(0);
        let (answer, answered) = oneshot::channel();
        self.metrics.commit_waiting.inc();
        let queued = match self.shards.get(index) {
            Some(queue) => queue.send(Job { command, answer }).await.map_err(|_closed| Stopped),
            None => Err(Stopped),
        };
        self.metrics.commit_waiting.dec();
        queued.map(|()| answered)
    }
}

async fn write<D: Deed>(
    deed: Arc<D>,
    queue: &mut mpsc::Receiver<Job<D>>,
    stopping: CancellationToken,
    metrics: Metrics,
) {
    let mut memory = D::Memory::default();
    let mut jobs = Vec::with_capacity(BATCH);
    loop {
        let taken = tokio::select! {
            taken = queue.recv_many(&mut jobs, BATCH) => taken,
            () = stopping.cancelled(), if !queue.is_closed() => {
                queue.close();
                continue;
            }
        };
        if taken == 0 {
            return;
        }
        let (commands, callers): (Vec<_>, Vec<_>) =
            jobs.drain(..).map(|job| (job.command, job.answer)).unzip();
        let began = Instant::now();
        #[expect(clippy::cast_precision_loss, reason = "a batch has at most 256 commands")]
        metrics.commit_batch.observe(commands.len() as f64);
        let applied = AssertUnwindSafe(deed.apply(&mut memory, commands)).catch_unwind().await;
        metrics.commit_seconds.observe(began.elapsed().as_secs_f64());
        let Ok(answers) = applied else {
            // The panic hook has written down where. Its callers hear that it is not known what was done; the next batch
            // begins with what the database says.
            tracing::error!(batch = callers.len(), "a batch panicked");
            memory = D::Memory::default();
            continue;
        };
        for (caller, answer) in callers.into_iter().zip(answers) {
            // A caller that has gone away does not undo what was committed.
            let _gone = caller.send(answer);
        }
    }
}
