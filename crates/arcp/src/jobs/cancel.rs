//! Cancellation of jobs (ARCP §7.4), allowed to the submitting session (§7.6) and to operators. A pending job
//! ends at once; a running one is asked to stop, and ended after a grace period in any case, which its canceller may choose.

use chrono::TimeDelta;
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::ask::no_job;
use entente_domain::arcp::jobs::{Cancel, Job, JobStatus};
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{JobId, SessionId};
use entente_domain::limits::TEXT_BYTES;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Caller, Outcome};
use uuid::Uuid;

use super::locked::{LockedJobs, over};
use super::reading::observable;
use crate::Ctx;

/// Longest time in seconds that a canceller gives a worker to stop: an hour, in which a stuck job does no more harm.
const GRACE_SECONDS: i64 = 3_600;

/// Authority under which a job is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canceller {
    /// The session that submitted the job.
    Session(SessionId),
    /// A caller with the scope `admin`.
    Operator,
}

impl Canceller {
    /// Returns the party as which a caller cancels a job without naming a session: its submitter, or an operator.
    #[must_use]
    pub fn of(caller: &Caller, job: &Job) -> Self {
        match job.session_for(&caller.agent) {
            Some(session) => Self::Session(session),
            None if caller.has(Scope::Admin) => Self::Operator,
            None => Self::nobody(),
        }
    }

    /// Returns a session that no job has: [`cancel`] decides whether the job is unknown or the caller is refused.
    #[must_use]
    pub fn nobody() -> Self {
        Self::Session(Uuid::nil().into())
    }
}

/// Cancels a job.
///
/// # Errors
/// There is no such job; it belongs to another session; it is over.
pub async fn cancel(
    ctx: &Ctx,
    caller: &Caller,
    id: JobId,
    by: Canceller,
    reason: Option<String>,
    grace: Option<i64>,
) -> Outcome<Job> {
    if by == Canceller::Operator {
        caller.require(Scope::Admin)?;
    } else {
        caller.require(Scope::JobsWrite)?;
    }
    if reason.as_ref().is_some_and(|reason| reason.len() > TEXT_BYTES) {
        let message = "`reason` has more than 16 KiB.";
        return Err(Refusal::field(Code::InvalidRequest, "reason", "too_long", message).into());
    }
    if grace.is_some_and(|grace| !(0..=GRACE_SECONDS).contains(&grace)) {
        let message = format!(
            "`grace_sec` must be a number of seconds from 0 to {GRACE_SECONDS}: the time that the worker has to stop."
        );
        return Err(Refusal::field(Code::InvalidRequest, "grace_sec", "range", message).into());
    }
    let (tx, mut locked) = LockedJobs::begin(ctx, id).await?;
    let mut change = locked.change(id)?;
    let job = change.job();
    may(ctx, caller, job, by)?;
    if job.status.is_terminal() {
        return Err(over().into());
    }
    let reason =
        reason.filter(|reason| !reason.is_empty()).unwrap_or_else(|| "Cancelled by its client.".to_owned());
    if job.status == JobStatus::Pending {
        change.fail(Fault::Cancelled, &reason, None, None)?;
    } else {
        let now = change.now();
        let due_at =
            grace.map_or_else(|| now + ctx.state.jobs.cancel_grace, |grace| now + TimeDelta::seconds(grace));
        let before = change.job().cancel.clone();
        match before {
            None => change.job_mut().cancel = Some(Cancel { reason, due_at }),
            // A later request may shorten the time, but not lengthen it: others rely on the end that they were told.
            Some(before) if grace.is_some() && due_at < before.due_at => {
                change.job_mut().cancel = Some(Cancel { due_at, ..before });
            }
            Some(_) => {}
        }
    }
    locked.apply(change);
    locked.conclude(ctx, tx).await?;
    Ok(locked.job(id)?.clone())
}

fn may(ctx: &Ctx, caller: &Caller, job: &Job, by: Canceller) -> Result<(), Refusal> {
    let session = match by {
        Canceller::Operator => return Ok(()),
        Canceller::Session(session) => session,
    };
    if !observable(ctx, caller, job) {
        return Err(no_job());
    }
    if job.session_id == session && job.principal == caller.agent {
        return Ok(());
    }
    Err(Refusal::new(
        Code::PermissionDenied,
        "Only the session that submitted a job cancels it: name the `session_id` that its submission answered with.",
    ))
}
