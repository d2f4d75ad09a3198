//! Jobs (ARCP §7): the states that one goes through, who moves it, and how it ends. What is asked for is `jobs/ask.rs`, what
//! its worker reports `jobs/events.rs`, how it looks to clients `jobs/wire.rs`; what it may touch and spend is
//! `capabilities.rs` and `budgets.rs`, its streamed result `chunks.rs`.

pub mod ask;
pub mod events;
pub mod may;
pub mod wire;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use crate::canonical::Digest;
use crate::capabilities::Authority;
use crate::chunks::Streamed;
use crate::clock::Timestamp;
use crate::faults::Fault;
use crate::ids::{IntentId, JobId, SessionId, WorkerId};
use crate::refusal::{Code, Refusal};

/// Seconds after a lease's end at which a job that is still active is ended by itself: nothing is allowed to it from the
/// end on, but what it has in hand may be handed in (ARCP §14).
pub const GRACE_SECONDS: i64 = 1;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// It was accepted and waits for a worker.
    Pending,
    /// A worker has claimed it (contract 9, decision 2).
    Running,
    /// It is done.
    Success,
    /// It failed.
    Error,
    /// It was called off.
    Cancelled,
    /// It took longer than it may.
    TimedOut,
}

impl JobStatus {
    /// Every status.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Running, Self::Success, Self::Error, Self::Cancelled, Self::TimedOut];

    /// The status as it is written.
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

    /// Reads a status; `None` when there is no such status.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether nothing can happen to the job any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// What happens to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// A worker takes it.
    Claimed,
    /// Its worker gives it back, or was lost, and it may be tried again.
    Returned,
    /// Its worker hands in a result.
    Finished,
    /// It ends with a fault: its worker's word, or the runtime's.
    Failed(Fault),
}

/// Where a turn leads. `None`: it cannot happen to a job that stands there.
#[must_use]
pub fn turned(from: JobStatus, turn: Turn) -> Option<JobStatus> {
    match (from, turn) {
        (JobStatus::Pending, Turn::Claimed) => Some(JobStatus::Running),
        (JobStatus::Running, Turn::Returned) => Some(JobStatus::Pending),
        (JobStatus::Running, Turn::Finished) => Some(JobStatus::Success),
        (JobStatus::Pending | JobStatus::Running, Turn::Failed(fault)) => Some(ended_by(fault)),
        _ => None,
    }
}

/// The `final_status` that a fault ends a job with (§7.3, §12): a spent budget and an expired lease are errors.
#[must_use]
pub fn ended_by(fault: Fault) -> JobStatus {
    match fault {
        Fault::Cancelled => JobStatus::Cancelled,
        Fault::Timeout => JobStatus::TimedOut,
        _ => JobStatus::Error,
    }
}

/// What becomes of a job whose worker was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    /// Another worker gets it, as often as its agent's version allows: at least once.
    #[default]
    Requeue,
    /// It fails with `INTERNAL_ERROR`, which may be tried again: at most once.
    Fail,
}

impl OnLost {
    /// The word as it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Fail => "fail",
        }
    }
}

/// A worker's hold on a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Whose.
    pub worker_id: WorkerId,
    /// The digest of the token that every later write carries.
    pub token: Digest,
    /// When it ends unless the worker is heard of.
    pub expires_at: Timestamp,
}

/// Somebody wants the job to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// Why, in the words of whoever asked.
    pub reason: String,
    /// When the job is ended whatever its worker does.
    pub due_at: Timestamp,
}

/// A job, without its input.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// The agent that runs it, as `name@version`; fixed once it was resolved (§7.5).
    pub agent: String,
    /// Who submitted it.
    pub principal: String,
    /// The session that submitted it: the only one that may cancel it (§7.6).
    pub session_id: SessionId,
    /// Whether that session counts its events itself; else it has this one job, and the job's numbers are its.
    pub counted: bool,
    /// What it may touch.
    pub lease: Authority,
    /// When that ends.
    pub expires_at: Option<Timestamp>,
    /// When the job is timed out.
    pub deadline: Option<Timestamp>,
    /// The client's key.
    pub idempotency_key: Option<String>,
    /// What was asked under it.
    pub fingerprint: Digest,
    /// The job that it was delegated by.
    pub parent_id: Option<JobId>,
    /// The delegation's name.
    pub delegate_id: Option<String>,
    /// How many ancestors it has.
    pub generation: usize,
    /// The jobs whose counters its costs are taken off: of its ancestors and itself, those with a budget, the eldest first.
    pub payers: Vec<JobId>,
    /// The trace, 32 hexadecimal digits.
    pub trace_id: String,
    /// The intent that it works for.
    pub intent_id: Option<IntentId>,
    /// Whether a model needs a pattern of `model.use` (§9.7).
    pub needs_model: bool,
    /// What becomes of it when its worker is lost.
    pub on_lost: OnLost,
    /// How many workers may be lost over it.
    pub max_attempts: u32,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// Where it stands.
    pub status: JobStatus,
    /// The number of its last event.
    pub last_seq: i64,
    /// The same in the submitting session's numbers (contract 9, decision 1).
    pub origin_seq: i64,
    /// How often it was claimed.
    pub attempt: u32,
    /// Who holds it.
    pub claim: Option<Claim>,
    /// Whether it is to stop.
    pub cancel: Option<Cancel>,
    /// Its streamed result as far as it has come.
    pub streamed: Option<Streamed>,
    /// Results that earlier attempts began to stream and did not finish.
    pub abandoned: Vec<String>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// What time has made due of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// It ends with a fault.
    End(Fault),
    /// Its worker was lost, and another may have it.
    Requeue,
}

impl Job {
    /// Requires that a worker's token is that of the claim in force. One that ran out is lost the instant it does, swept or
    /// not.
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

    /// Whether the lease has ended (§9.5): at its end nothing is allowed any more.
    #[must_use]
    pub fn lease_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// When something becomes due by itself. Of a job that is over nothing is, but that its children are to be stopped when it
    /// failed (§9.4): at once.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        if self.status.is_terminal() {
            return self.ended_at.filter(|_| self.status != JobStatus::Success);
        }
        let claim = self.claim.as_ref().map(|claim| claim.expires_at);
        let cancel = self.cancel.as_ref().map(|cancel| cancel.due_at);
        [self.lease_end(), self.deadline, claim, cancel].into_iter().flatten().min()
    }

    /// When the lease's end ends the job too.
    fn lease_end(&self) -> Option<Timestamp> {
        self.expires_at.map(|end| end + TimeDelta::seconds(GRACE_SECONDS))
    }

    /// What is due of the job, if anything. What came first counts.
    #[must_use]
    pub fn due(&self, now: Timestamp) -> Option<Due> {
        if self.status.is_terminal() {
            return None;
        }
        let lost = match self.on_lost {
            OnLost::Requeue if self.attempt < self.max_attempts => Due::Requeue,
            OnLost::Requeue | OnLost::Fail => Due::End(Fault::InternalError),
        };
        let ends = [
            (self.cancel.as_ref().map(|cancel| cancel.due_at), Due::End(Fault::Cancelled)),
            (self.deadline, Due::End(Fault::Timeout)),
            (self.lease_end(), Due::End(Fault::LeaseExpired)),
        ];
        let due = |end: &(Option<Timestamp>, Due)| end.0.filter(|at| *at <= now).map(|at| (at, end.1));
        if let Some((_, end)) = ends.iter().filter_map(due).min_by_key(|(at, _)| *at) {
            return Some(end);
        }
        self.claim.as_ref().filter(|claim| claim.expires_at <= now)?;
        // Who was to stop a job and was lost has stopped it.
        Some(if self.cancel.is_some() { Due::End(Fault::Cancelled) } else { lost })
    }

    /// Gives the job back: somebody else may take it. What was streamed of its result is abandoned.
    pub fn give_back(&mut self) {
        self.status = JobStatus::Pending;
        self.claim = None;
        if let Some(begun) = self.streamed.take() {
            self.abandoned.push(begun.result_id);
        }
    }
}

/// Compares digests without saying by its time where they differ.
fn same(one: &Digest, other: &Digest) -> bool {
    one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}
