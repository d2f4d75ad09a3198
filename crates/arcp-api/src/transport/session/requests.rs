//! Requests of a session that are in progress, and the acknowledgements to be recorded. `asks.rs` starts them.

use std::collections::VecDeque;

use entente_domain::arcp::sessions::dialogue::Ask;
use entente_runtime::tasks::Tasks;
use futures_util::StreamExt as _;
use futures_util::stream::{FuturesOrdered, FuturesUnordered};
use tokio::time::{Instant, timeout_at};

use super::super::asking::{AdmittedClient, Backend, Done};
use super::{Pending, begun, maybe};

/// Maximum number of requests in progress per session; more are read once one of them is answered.
const UNDER_WAY: usize = 256;
/// Maximum total bytes of the submissions among them: a few of the largest.
const BYTES: usize = 4 * 1024 * 1024;

/// Requests in progress.
pub(super) struct Requests {
    /// Answered in the order of submission, by which alone some clients identify their jobs (ARCP-W-4.3.2).
    submits: FuturesOrdered<Pending<Done>>,
    /// Bytes of each submission.
    weights: VecDeque<usize>,
    /// Answered in any order.
    others: FuturesUnordered<Pending<Done>>,
    /// Performed one after the other, because each may undo the one before.
    follows: VecDeque<Pending<Done>>,
    /// A request that exceeds the key's rate limit, and the time at which it is accepted.
    ///
    /// Nothing is read until then: an error would harm some clients (ARCP-W-4.2.1).
    early: Option<(Instant, Ask)>,
}

impl Requests {
    pub fn new() -> Self {
        Self {
            submits: FuturesOrdered::new(),
            weights: VecDeque::new(),
            others: FuturesUnordered::new(),
            follows: VecDeque::new(),
            early: None,
        }
    }

    /// Returns the number of requests that are not answered.
    pub fn under_way(&self) -> usize {
        self.submits.len() + self.others.len() + self.follows.len() + usize::from(self.early.is_some())
    }

    /// Returns whether there is room for another request.
    pub fn have_room(&self) -> bool {
        let bytes = self.weights.iter().sum::<usize>();
        self.under_way() < UNDER_WAY && bytes < BYTES && self.early.is_none()
    }

    /// Starts a submission of so many bytes.
    pub fn submit(&mut self, tasks: &Tasks, bytes: usize, work: impl Future<Output = Done> + Send + 'static) {
        self.weights.push_back(bytes);
        self.submits.push_back(begun(tasks, work));
    }

    /// Queues a subscription, or its end.
    pub fn follow(&mut self, tasks: &Tasks, work: impl Future<Output = Done> + Send + 'static) {
        self.follows.push_back(begun(tasks, work));
    }

    /// Starts any other request.
    pub fn start(&mut self, tasks: &Tasks, work: impl Future<Output = Done> + Send + 'static) {
        self.others.push(begun(tasks, work));
    }

    /// Keeps a request that came too early.
    pub fn delay(&mut self, until: Instant, ask: Ask) {
        self.early = Some((until, ask));
    }

    /// When the request that came too early is accepted.
    pub fn early_at(&self) -> Option<Instant> {
        self.early.as_ref().map(|(at, _)| *at)
    }

    /// Takes the request that came too early, once it is accepted.
    pub fn take_due(&mut self, now: Instant) -> Option<Ask> {
        self.early.take_if(|(at, _)| *at <= now).map(|(_, ask)| ask)
    }

    /// Takes the request that came too early.
    pub fn take_early(&mut self) -> Option<Ask> {
        self.early.take().map(|(_, ask)| ask)
    }

    /// Waits for the next result; cancel safe.
    pub async fn answered(&mut self) -> Done {
        tokio::select! {
            Some(done) = self.submits.next() => {
                self.weights.pop_front();
                done
            }
            Some(done) = self.others.next() => done,
            done = maybe(self.follows.front_mut()) => {
                self.follows.pop_front();
                done
            }
        }
    }

    /// Waits until every request is answered, or until `until`.
    pub async fn finish(&mut self, until: Instant) {
        let Self { submits, others, follows, .. } = self;
        let submits = async { while submits.next().await.is_some() {} };
        let others = async { while others.next().await.is_some() {} };
        let follows = async {
            while let Some(next) = follows.pop_front() {
                next.await;
            }
        };
        let all = async { tokio::join!(submits, others, follows) };
        if timeout_at(until, all).await.is_err() {
            tracing::debug!("a session ended before all that it was asked for was done");
        }
    }

    /// Waits for the result of an admission that is still in progress.
    pub async fn admission(&mut self) -> Option<Box<AdmittedClient>> {
        while let Some(done) = self.others.next().await {
            if let Done::Entered(_, admitted) = done {
                return Some(admitted);
            }
        }
        None
    }
}

/// The client's acknowledgements: one write at a time, always of the latest.
pub(super) struct Acks {
    acking: Option<Pending<()>>,
    acked: Option<i64>,
}

impl Acks {
    pub fn new() -> Self {
        Self { acking: None, acked: None }
    }

    /// Notes the number up to which the client has processed events.
    pub fn note(&mut self, seq: i64) {
        self.acked = Some(seq);
    }

    /// Starts to write the latest acknowledgement, unless a write is in progress.
    pub fn write(&mut self, tasks: &Tasks, backend: Option<&Backend>) {
        if self.acking.is_some() {
            return;
        }
        if let (Some(seq), Some(backend)) = (self.acked.take(), backend) {
            self.acking = Some(begun(tasks, backend.clone().acked(seq)));
        }
    }

    /// Waits for the end of a write; cancel safe.
    pub async fn written(&mut self) {
        maybe(self.acking.as_mut()).await;
        self.acking = None;
    }

    /// Writes everything.
    pub async fn finish(&mut self, backend: &Backend) {
        if let Some(acking) = self.acking.take() {
            acking.await;
        }
        if let Some(seq) = self.acked.take() {
            backend.clone().acked(seq).await;
        }
    }
}
