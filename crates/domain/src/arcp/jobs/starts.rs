//! When jobs may start (beyond ARCP): not before a time, and not after too long a wait in the queue.

use super::Job;
use super::JobStatus;
use super::ask::{RUNTIME_SECONDS, Submit};
use super::retries::RetryPolicy;
use crate::clock::{self, Timestamp, plus_seconds, rfc3339};
use crate::refusal::{Code, Refusal};

/// Longest time in seconds from a job's acceptance to its start: a year and a day. A later one is a slip of the pen.
const START_SECONDS: u32 = 367 * 24 * 3600;

/// The checked terms on which a job starts.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// The retries that the submitter asks for; otherwise those of the agent's version.
    pub retry: Option<RetryPolicy>,
    /// Earliest start.
    pub at: Option<Timestamp>,
    /// Seconds in the queue after which the job times out.
    pub queue_timeout: Option<u32>,
}

impl Start {
    /// Checks these members of a request; a member of the request goes before the same one of its `x-entente`.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] with the member at fault.
    pub fn check(said: &Submit) -> Result<Self, Refusal> {
        let beyond = said.x_entente.clone().unwrap_or_default();
        let retry = said.retry.clone().or(beyond.retry);
        retry.as_ref().map_or(Ok(()), RetryPolicy::check)?;
        let at = said.start_at.clone().or(beyond.start_at).as_deref().map(time).transpose()?;
        let queue_timeout =
            said.queue_timeout_sec.or(beyond.queue_timeout_sec).map(queue_timeout).transpose()?;
        Ok(Self { retry, at, queue_timeout })
    }

    /// Requires that the job can start: before the end of its lease, and not in a distant year. A time that has passed
    /// is now.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`].
    pub fn check_time(&self, now: Timestamp, lease_end: Option<Timestamp>) -> Result<(), Refusal> {
        let Some(at) = self.at else { return Ok(()) };
        if let Some(end) = lease_end.filter(|end| *end <= at) {
            let message = format!(
                "`start_at` is not before the end of the lease, {}: the job could do nothing. Start it earlier, or extend the \
                 lease by `lease_constraints.expires_at`.",
                rfc3339(end)
            );
            return Err(Refusal::field(Code::InvalidRequest, "start_at", "range", message));
        }
        let latest = plus_seconds(now, START_SECONDS);
        if at > latest {
            let message =
                format!("`start_at` must be at most a year ahead; {} is the latest.", rfc3339(latest));
            return Err(Refusal::field(Code::InvalidRequest, "start_at", "range", message));
        }
        Ok(())
    }

    /// Returns the time from which the job can be claimed; `None` if that is `now`.
    #[must_use]
    pub fn not_before(&self, now: Timestamp) -> Option<Timestamp> {
        self.at.filter(|at| *at > now)
    }
}

fn time(said: &str) -> Result<Timestamp, Refusal> {
    clock::parse(said).ok_or_else(|| {
        let message = "`start_at` must be RFC 3339, such as 2036-05-13T23:42:00Z.";
        Refusal::field(Code::InvalidRequest, "start_at", "datetime", message)
    })
}

fn queue_timeout(said: i64) -> Result<u32, Refusal> {
    let lawful = u32::try_from(said).ok().filter(|seconds| (1..=RUNTIME_SECONDS).contains(seconds));
    lawful.ok_or_else(|| {
        let message = format!("`queue_timeout_sec` must be a number of seconds from 1 to {RUNTIME_SECONDS}.");
        Refusal::field(Code::InvalidRequest, "queue_timeout_sec", "range", message)
    })
}

impl Job {
    /// When the job's wait in the queue ends it, if it waits.
    #[must_use]
    pub fn queue_end(&self) -> Option<Timestamp> {
        self.queue_due_at.filter(|_| self.status == JobStatus::Pending)
    }

    /// Lets the job wait in the queue, from now or from the time before which it may not be claimed.
    pub fn enqueue(&mut self, now: Timestamp, not_before: Option<Timestamp>) {
        self.not_before = not_before.filter(|at| *at > now);
        let since = self.not_before.unwrap_or(now);
        self.queue_due_at = self.queue_timeout.map(|seconds| plus_seconds(since, seconds));
    }

    /// Returns why the job timed out, in words: its run time, or its wait in the queue.
    #[must_use]
    pub fn timeout_reason(&self, now: Timestamp) -> String {
        let (queue, run) = (self.queue_end(), self.deadline);
        match (queue.filter(|at| *at <= now), self.queue_timeout) {
            (Some(at), Some(seconds)) if run.is_none_or(|run| at <= run) => format!(
                "Nobody claimed the job within its queue_timeout_sec, {seconds} s. Submit it again when a worker runs {}.",
                self.agent
            ),
            _ => "The job took longer than its max_runtime_sec.".to_owned(),
        }
    }
}
