//! Jobs (ARCP §7): their states, transitions and ends.
//!
//! Requests are in `jobs/ask.rs`, workers' reports in `jobs/events.rs`, children that they ask for in
//! `jobs/delegations.rs`, the order of claims in `jobs/order.rs`, limits of running jobs in `jobs/limits.rs`, retries in `jobs/retries.rs`, starts in `jobs/starts.rs`,
//! members beyond ARCP in `jobs/beyond.rs`, ends in `jobs/ends.rs`, labels in `jobs/labels.rs`, signals in `jobs/signals.rs`,
//! running a job again in `jobs/reruns.rs`, payloads for clients in `jobs/wire.rs`, permissions and budgets in
//! `capabilities.rs` and `budgets.rs`, streamed results in
//! `chunks.rs`.

pub mod ask;
pub mod beyond;
pub mod delegations;
pub mod ends;
pub mod events;
pub mod labels;
pub mod limits;
pub mod may;
pub mod order;
pub mod reruns;
pub mod retries;
pub mod signals;
pub mod starts;
pub mod wire;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use crate::arcp::capabilities::Authority;
use crate::arcp::chunks::Streamed;
use crate::arcp::faults::Fault;
use crate::arcp::jobs::limits::Concurrency;
use crate::arcp::jobs::order::Priority;
use crate::arcp::jobs::retries::{Retried, RetryPolicy};
use crate::canonical::Digest;
use crate::clock::Timestamp;
use crate::ids::{IntentId, JobId, KeyId, SessionId, WorkerId};
use crate::refusal::{Code, Refusal};
use crate::subjects::Act;

/// Seconds after the end of a lease at which an active job is ended.
///
/// No operation is allowed from the end of the lease, but finished work may still be submitted (ARCP §14).
pub const GRACE_SECONDS: i64 = 1;

/// The status of a job.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Accepted, and waiting for a worker.
    Pending,
    /// A worker has claimed it (ARCP-W-9.2).
    Running,
    /// Finished with a result.
    Success,
    /// Failed.
    Error,
    /// Cancelled.
    Cancelled,
    /// Exceeded its time limit.
    TimedOut,
}

impl JobStatus {
    /// All variants.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Running, Self::Success, Self::Error, Self::Cancelled, Self::TimedOut];

    /// Returns the status's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Success => "success",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
        }
    }

    /// Parses a status's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether the status is final.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// A transition of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// A worker claims it.
    Claimed,
    /// Its worker returns it, or was lost, and it may be tried again.
    Returned,
    /// Its worker submits a result.
    Finished,
    /// It ends with a fault, reported by its worker or by the runtime.
    Failed(Fault),
}

/// Returns the status after a transition; `None` if the transition is not allowed from that status.
#[must_use]
pub fn transition(from: JobStatus, turn: Transition) -> Option<JobStatus> {
    match (from, turn) {
        (JobStatus::Pending, Transition::Claimed) => Some(JobStatus::Running),
        (JobStatus::Running, Transition::Returned) => Some(JobStatus::Pending),
        (JobStatus::Running, Transition::Finished) => Some(JobStatus::Success),
        (JobStatus::Pending | JobStatus::Running, Transition::Failed(fault)) => Some(ended_by(fault)),
        _ => None,
    }
}

/// Returns the `final_status` for a fault (§7.3, §12): a spent budget and an expired lease are errors.
#[must_use]
pub fn ended_by(fault: Fault) -> JobStatus {
    match fault {
        Fault::Cancelled => JobStatus::Cancelled,
        Fault::Timeout => JobStatus::TimedOut,
        _ => JobStatus::Error,
    }
}

/// The treatment of a job after its worker was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    /// Another worker gets it, as often as its agent's version allows: at least once.
    #[default]
    Requeue,
    /// It fails with `INTERNAL_ERROR`, which may be retried: at most once.
    Fail,
}

impl OnLost {
    /// Returns the stored form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Fail => "fail",
        }
    }
}

/// A worker's claim on a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The worker.
    pub worker_id: WorkerId,
    /// The digest of the token that every later write carries.
    pub token: Digest,
    /// When the worker claimed the job.
    pub since: Timestamp,
    /// When it ends unless the worker sends a sign of life.
    pub expires_at: Timestamp,
}

/// A request to cancel a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// Why, as stated by the requester.
    pub reason: String,
    /// When the job is ended regardless of its worker.
    pub due_at: Timestamp,
}

/// A job, without its input.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "a row of the tables has what they say")]
pub struct Job {
    /// The job's id.
    pub id: JobId,
    /// The agent that runs it, as `name@version`; fixed once it was resolved (§7.5).
    pub agent: String,
    /// The principal that submitted it.
    pub principal: String,
    /// The session that submitted it: the only one that may cancel it (§7.6).
    pub session_id: SessionId,
    /// Whether that session numbers its events itself; otherwise the session has only this job, and shares
    /// its numbers.
    pub counted: bool,
    /// The permissions.
    pub lease: Authority,
    /// When the permissions end.
    pub expires_at: Option<Timestamp>,
    /// When the job times out.
    pub deadline: Option<Timestamp>,
    /// The client's idempotency key.
    pub idempotency_key: Option<String>,
    /// The fingerprint of the request with that key.
    pub fingerprint: Digest,
    /// The job that it was delegated by.
    pub parent_id: Option<JobId>,
    /// The delegation's name.
    pub delegate_id: Option<String>,
    /// Number of ancestors.
    pub generation: usize,
    /// The jobs whose budgets pay its costs: those with a budget among its ancestors and itself, the eldest
    /// first.
    pub payers: Vec<JobId>,
    /// The trace, 32 hexadecimal digits.
    pub trace_id: String,
    /// The intent that it works for.
    pub intent_id: Option<IntentId>,
    /// Whether a model needs a pattern of `model.use` (§9.7).
    pub needs_model: bool,
    /// The treatment after its worker was lost.
    pub on_lost: OnLost,
    /// Maximum number of attempts, that is of workers that may be lost over it.
    pub max_attempts: u32,
    /// Its place among waiting jobs.
    pub priority: Priority,
    /// The treatment after a failure that its worker reports; `None` ends it.
    pub retry: Option<RetryPolicy>,
    /// Seconds that it may wait in the queue at a time.
    pub queue_timeout: Option<u32>,
    /// The key by which its principal limits running jobs.
    pub concurrency: Option<Concurrency>,
    /// Whether its last claim was counted against a limit, so that its end lets another job start.
    pub slotted: bool,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// The key that submitted it, or its eldest ancestor, and that key's principal.
    pub key_id: Option<KeyId>,
    /// See `key_id`; `None` for jobs of earlier releases.
    pub owner: Option<String>,
    /// Whether it may have reservations although no budget of its own pays for it.
    pub reserves: bool,
    /// The status.
    pub status: JobStatus,
    /// The number of its last event.
    pub last_seq: i64,
    /// The same in the numbering of the submitting session (ARCP-W-9.1).
    pub origin_seq: i64,
    /// Number of times it was claimed.
    pub attempt: u32,
    /// Number of attempts that failed and were followed by another.
    pub failures: u32,
    /// The reports of these failures, as far as they are loaded: a lock does.
    pub retried: Vec<Retried>,
    /// When it may be claimed, if not at once.
    pub not_before: Option<Timestamp>,
    /// When its wait in the queue ends it; without a meaning while it runs.
    pub queue_due_at: Option<Timestamp>,
    /// The current claim.
    pub claim: Option<Claim>,
    /// The cancel request, if any.
    pub cancel: Option<Cancel>,
    /// The progress of its streamed result.
    pub streamed: Option<Streamed>,
    /// Streamed results that earlier attempts began and did not finish.
    pub abandoned: Vec<String>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// The digest of the worker's report that ended it; `None` if the runtime did.
    pub ended_by: Option<Digest>,
}

/// Effect of a worker's report of a job's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It ends the job.
    First,
    /// It ended the job before, or reports the end that has happened anyway: a retry, which changes nothing.
    Again,
}

/// A due change of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// It ends with a fault.
    End(Fault),
    /// Its worker was lost, and another may claim it.
    Requeue,
}

impl Job {
    /// Returns the act of the job, for budgets and stops.
    #[must_use]
    pub fn act(&self) -> Act {
        Act::of_job(self.owner.clone(), &self.principal, &self.agent, self.intent_id, self.key_id)
    }

    /// Returns the session that cancels the job, if this agent may know it: the job's submitter may, unless it submitted the job over a
    /// socket, where it cancels it. A schedule, and an operator who runs a job again, submit for an agent that was told none.
    #[must_use]
    pub fn session_for(&self, agent: &str) -> Option<SessionId> {
        (!self.counted && self.principal == agent).then_some(self.session_id)
    }

    /// Requires that a worker's token is that of the current claim, which is lost the instant it expires,
    /// swept or not.
    ///
    /// # Errors
    /// [`Code::ClaimLost`].
    pub fn hold(&self, token: &Digest, now: Timestamp) -> Result<(), Refusal> {
        let claim = self.claim.as_ref().filter(|_| self.status == JobStatus::Running);
        if claim.is_some_and(|claim| same(&claim.token, token) && claim.expires_at > now) {
            return Ok(());
        }
        Err(Refusal::new(
            Code::ClaimLost,
            "The job is not, or no longer, held under this claim_token: it ended, or the claim ran out and the job went on \
             without you. Drop it.",
        ))
    }

    /// Judges a worker's report of the job's end, known by its digest, that would end the job with `outcome`.
    ///
    /// A job ends once (§7.3). The worker that ended it may send the same report again, because it may have lost the
    /// answer; another report is refused. Of an end by the runtime (a cancellation, a timeout) the worker may report
    /// late that it failed in the same way.
    ///
    /// # Errors
    /// [`Code::ClaimLost`].
    pub fn end(
        &self,
        token: &Digest,
        report: &Digest,
        outcome: JobStatus,
        now: Timestamp,
    ) -> Result<Ending, Refusal> {
        if let Some(before) = self.retried.iter().find(|before| same(&before.token, token)) {
            // That attempt is over, and the job went on.
            return if before.report == *report { Ok(Ending::Again) } else { Err(other_report()) };
        }
        let claimed = self.claim.as_ref().is_some_and(|claim| same(&claim.token, token));
        if !claimed || !self.status.is_terminal() {
            return self.hold(token, now).map(|()| Ending::First);
        }
        match &self.ended_by {
            Some(before) if before == report => Ok(Ending::Again),
            Some(_) => Err(other_report()),
            None if outcome == self.status && outcome != JobStatus::Success => Ok(Ending::Again),
            None => self.hold(token, now).map(|()| Ending::First),
        }
    }

    /// Whether the lease has ended (§9.5): from its end on nothing is allowed.
    #[must_use]
    pub fn lease_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// When the job next needs attention.
    ///
    /// A job that ended without success does at once, because its children have to be stopped (§9.4); one
    /// that ended with success never does.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        if self.status.is_terminal() {
            return self.ended_at.filter(|_| self.status != JobStatus::Success);
        }
        let claim = self.claim.as_ref().map(|claim| claim.expires_at);
        let cancel = self.cancel.as_ref().map(|cancel| cancel.due_at);
        [self.lease_end(), self.deadline, claim, cancel, self.queue_end()].into_iter().flatten().min()
    }

    /// When the end of the lease ends the job too.
    fn lease_end(&self) -> Option<Timestamp> {
        self.expires_at.map(|end| end + TimeDelta::seconds(GRACE_SECONDS))
    }

    /// Returns the due change of the job, if any; the earliest takes precedence.
    #[must_use]
    pub fn due(&self, now: Timestamp) -> Option<Due> {
        if self.status.is_terminal() {
            return None;
        }
        let lost = match self.on_lost {
            OnLost::Requeue if self.attempt - self.failures < self.max_attempts => Due::Requeue,
            OnLost::Requeue | OnLost::Fail => Due::End(Fault::InternalError),
        };
        let ends = [
            (self.cancel.as_ref().map(|cancel| cancel.due_at), Due::End(Fault::Cancelled)),
            (self.deadline, Due::End(Fault::Timeout)),
            (self.queue_end(), Due::End(Fault::Timeout)),
            (self.lease_end(), Due::End(Fault::LeaseExpired)),
        ];
        let due = |end: &(Option<Timestamp>, Due)| end.0.filter(|at| *at <= now).map(|at| (at, end.1));
        if let Some((_, end)) = ends.iter().filter_map(due).min_by_key(|(at, _)| *at) {
            return Some(end);
        }
        self.claim.as_ref().filter(|claim| claim.expires_at <= now)?;
        // A worker lost after a cancel request has stopped the job.
        Some(if self.cancel.is_some() { Due::End(Fault::Cancelled) } else { lost })
    }

    /// Returns the job for another worker; its streamed result so far is abandoned.
    pub fn give_back(&mut self) {
        self.status = JobStatus::Pending;
        self.claim = None;
        if let Some(begun) = self.streamed.take() {
            self.abandoned.push(begun.result_id);
        }
    }
}

/// Refusal of a report after another one under the same claim.
fn other_report() -> Refusal {
    Refusal::new(
        Code::ClaimLost,
        "Your attempt ended with another report of yours, which stands. Nothing was changed: drop the job, and submit a new \
         one if its outcome was wrong.",
    )
}

/// Compares digests in constant time.
fn same(one: &Digest, other: &Digest) -> bool {
    one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}
