//! Events on their way to the client: notifications, reading from the client's position, holding back.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use entente_domain::arcp::sessions::machine::Machine;
use entente_domain::arcp::sessions::{Delivery, What};
use entente_domain::ids::{JobId, SessionId};
use entente_kernel::wakeups::{Listener, WakeKey};
use entente_runtime::tasks::Tasks;
use tokio::time::Instant;

use super::super::asking::Backend;
use super::{Pending, Read, Step, begun, maybe};

/// Pause before a failed read is repeated.
const AGAIN: Duration = Duration::from_millis(500);

/// Events on their way to the client.
pub(super) struct Events {
    listener: Listener,
    followed: HashSet<JobId>,
    /// Whether events of followed jobs may wait to be numbered.
    unplanned: bool,
    reading: Option<Pending<Read>>,
    /// Events that were read, and the machine's marker at that time.
    held: Option<(u64, VecDeque<Delivery>)>,
    /// Number of the last event read.
    read_seq: i64,
    /// Whether something may have happened since.
    stale: bool,
    /// When a failed read is repeated.
    again_at: Option<Instant>,
}

impl Events {
    pub fn new(listener: Listener) -> Self {
        Self {
            listener,
            followed: HashSet::new(),
            unplanned: false,
            reading: None,
            held: None,
            read_seq: 0,
            stale: false,
            again_at: None,
        }
    }

    /// Begins to follow a session, after a number, and jobs.
    pub fn open(&mut self, session: SessionId, read_seq: i64, jobs: Vec<JobId>) {
        self.listener.add(WakeKey::Session(session));
        jobs.into_iter().for_each(|job| self.follow(job));
        self.stale = true;
        self.read_seq = read_seq;
    }

    /// Begins to follow a job.
    pub fn follow(&mut self, job: JobId) {
        self.listener.add(WakeKey::Job(job));
        self.followed.insert(job);
        self.unplanned = true;
        // Earlier events are found by reading, later ones send notifications.
        self.stale = true;
    }

    /// Stops following a job.
    pub fn unfollow(&mut self, job: JobId) {
        self.followed.remove(&job);
        self.listener.remove(&WakeKey::Job(job));
    }

    /// Waits for events that were read, or for a notification; cancel safe.
    pub async fn news(&mut self) -> Step {
        tokio::select! {
            read = maybe(self.reading.as_mut()) => {
                self.reading = None;
                Step::Read(read)
            }
            () = self.listener.rung() => Step::Rung,
        }
    }

    /// Notes that something may have happened.
    pub fn rung(&mut self) {
        self.stale = true;
    }

    /// Starts to read new events, if there is room for them.
    pub fn look(&mut self, tasks: &Tasks, backend: Option<&Backend>) {
        if !self.stale || self.reading.is_some() || self.held.is_some() || self.again_at.is_some() {
            return;
        }
        let Some(backend) = backend.cloned() else { return };
        self.stale = false;
        let plan = std::mem::take(&mut self.unplanned) || !self.followed.is_empty();
        self.reading = Some(begun(tasks, backend.read(self.read_seq, plan)));
    }

    /// Holds events that were read until they may be delivered.
    pub fn hold(&mut self, read: Read, machine: &Machine) {
        match read {
            Ok((batch, unplanned)) => {
                self.unplanned |= unplanned;
                self.stale |= batch.more || unplanned;
                if let Some(last) = batch.events.last() {
                    self.read_seq = last.event_seq;
                    self.held = Some((machine.mark(), batch.events.into()));
                }
            }
            Err(failure) => {
                if !failure.is_passing() {
                    tracing::error!(error = %failure, "a session's events could not be read");
                }
                self.unplanned = true;
                self.again_at = Some(Instant::now() + AGAIN);
            }
        }
    }

    /// Returns whether held events may be delivered now, with nothing that must precede them.
    pub fn is_ready(&self, machine: &Machine) -> bool {
        self.held.as_ref().is_some_and(|(mark, _)| machine.may_deliver(*mark))
    }

    /// Takes the next held event.
    pub fn take(&mut self) -> Option<Delivery> {
        let (_, events) = self.held.as_mut()?;
        let event = events.pop_front();
        if events.is_empty() {
            self.held = None;
        }
        let event = event?;
        if !matches!(event.what, What::Event(_)) && self.followed.remove(&event.job_id) {
            // The job has ended: no more events follow.
            self.listener.remove(&WakeKey::Job(event.job_id));
        }
        Some(event)
    }

    /// When a failed read is repeated.
    pub fn again_at(&self) -> Option<Instant> {
        self.again_at
    }

    /// Has a failed read repeated once its pause is over.
    pub fn expire(&mut self, now: Instant) {
        if self.again_at.is_some_and(|at| at <= now) {
            self.again_at = None;
            self.stale = true;
        }
    }
}
