//! Cancellation of jobs (ARCP §7.4), allowed to the submitting session (§7.6) and to operators. A pending job
//! ends at once; a running one is asked to stop, and ended after a grace period in any case.

use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::ask::no_job;
use entente_domain::arcp::jobs::{Cancel, Job, JobStatus};
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{JobId, SessionId};
use entente_domain::limits::TEXT_BYTES;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Caller, Outcome};

use super::locked::{LockedJobs, over};
use super::reading::observable;
use crate::Ctx;

/// Authority under which a job is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canceller {
    /// The session that submitted the job.
    Session(SessionId),
    /// A caller with the scope `admin`.
    Operator,
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
    } else if job.cancel.is_none() {
        let due_at = change.now() + ctx.state.jobs.cancel_grace;
        change.job_mut().cancel = Some(Cancel { reason, due_at });
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
