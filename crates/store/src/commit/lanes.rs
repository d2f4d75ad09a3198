//! Lanes: commands that wait for other transactions' locks, beside the batches of the remaining commands. A
//! command that arrives while earlier ones of its lane wait queues up behind them, so that none overtakes
//! another. A lane that waits too long is answered "busy": the lock may be held by a dead server until
//! PostgreSQL notices.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use entente_runtime::tasks::Tasks;
use futures_util::FutureExt as _;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{BATCH, BatchHandler, Job, Unanswered};

/// Limit of commands per writer that wait in lanes, which bounds their memory.
const WAITING: usize = 1_024;

/// Time that a lane waits for one of the connections that all lanes share.
const TURN: Duration = Duration::from_secs(4);

/// Lanes of one writer.
pub(super) struct Lanes<D: BatchHandler> {
    handler: Arc<D>,
    /// Lanes with waiting commands. Each lane in the map has a task that works on it.
    queues: Mutex<Queues<D>>,
    places: Arc<Semaphore>,
    tasks: Tasks,
}

struct Queues<D: BatchHandler> {
    lanes: HashMap<u64, VecDeque<Job<D>>>,
    waiting: usize,
}

impl<D: BatchHandler> Lanes<D> {
    /// Creates the lanes, all empty.
    pub fn new(handler: &Arc<D>, places: &Arc<Semaphore>, tasks: &Tasks) -> Arc<Self> {
        Arc::new(Self {
            handler: Arc::clone(handler),
            queues: Mutex::new(Queues { lanes: HashMap::new(), waiting: 0 }),
            places: Arc::clone(places),
            tasks: tasks.clone(),
        })
    }

    fn queues(&self) -> MutexGuard<'_, Queues<D>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a command pass if its lane is empty; otherwise queues it there.
    pub fn admit(&self, job: Job<D>) -> Option<Job<D>> {
        let mut queues = self.queues();
        if queues.lanes.is_empty() {
            return Some(job);
        }
        let waiting = queues.waiting;
        let Some(queue) = queues.lanes.get_mut(&D::lane(&job.command)) else { return Some(job) };
        if waiting < WAITING {
            queue.push_back(job);
            queues.waiting += 1;
        } else {
            refuse(job);
        }
        None
    }

    /// Queues commands that a batch returned, in their order.
    pub fn park(self: &Arc<Self>, jobs: Vec<Job<D>>) {
        for job in jobs {
            let lane = D::lane(&job.command);
            let mut queues = self.queues();
            if queues.waiting >= WAITING {
                refuse(job);
                continue;
            }
            queues.waiting += 1;
            match queues.lanes.entry(lane) {
                // The lane's task is running and takes this command too.
                Entry::Occupied(mut queue) => queue.get_mut().push_back(job),
                Entry::Vacant(none) => {
                    none.insert(VecDeque::from([job]));
                    drop(queues);
                    self.tasks.spawn("commands that wait", Arc::clone(self).follow(lane));
                }
            }
        }
    }

    /// Runs on a lane until it is empty.
    async fn follow(self: Arc<Self>, lane: u64) {
        while let Some(jobs) = self.next(lane) {
            let Ok(Ok(_place)) = timeout(TURN, self.places.acquire()).await else {
                jobs.into_iter().for_each(refuse);
                continue;
            };
            let (commands, callers): (Vec<_>, Vec<_>) =
                jobs.into_iter().map(|job| (job.command, job.answer)).unzip();
            let Ok(answers) = AssertUnwindSafe(self.handler.wait(commands)).catch_unwind().await else {
                tracing::error!(batch = callers.len(), "commands that waited panicked");
                continue;
            };
            for (caller, answer) in callers.into_iter().zip(answers) {
                // A caller that has disconnected does not undo the commit.
                drop(caller.send(Ok(answer)));
            }
        }
    }

    /// Takes the next commands of a lane; removes the lane if there are none.
    fn next(&self, lane: u64) -> Option<Vec<Job<D>>> {
        let mut queues = self.queues();
        let queue = queues.lanes.get_mut(&lane)?;
        let some: Vec<_> = queue.drain(..queue.len().min(BATCH)).collect();
        if some.is_empty() {
            queues.lanes.remove(&lane);
            return None;
        }
        queues.waiting -= some.len();
        Some(some)
    }
}

fn refuse<D: BatchHandler>(job: Job<D>) {
    // A caller that has disconnected needs no answer.
    drop(job.answer.send(Err(Unanswered::Busy)));
}
