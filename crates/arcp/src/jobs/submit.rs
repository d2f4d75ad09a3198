//! Submission of jobs by clients (ARCP §7.1, §7.2): the job writer accepts the job, and the submitter waits until the
//! job has its credentials.

use std::time::Duration;

use entente_domain::arcp::jobs::ask::{JobAsk, Submit};
use entente_domain::arcp::jobs::order::Priority;
use entente_domain::identity::keys::Scope;
use entente_kernel::{AppError, Caller, Outcome};
use tokio::time::{Instant, sleep};

use super::acceptance::{Origin, Submission, Submitted, being_prepared};
use super::preparing::provide;
use super::writer::JobWriter;
use crate::{credentials, limits};

/// Maximum wait of a repeated submission and its polling interval; clients wait no longer (ARCP-W-2.6).
const PATIENCE: Duration = Duration::from_secs(4);
const LOOK: Duration = Duration::from_millis(50);

impl JobWriter {
    /// Accepts a job; the same key with the same parameters returns the same job.
    ///
    /// # Errors
    /// The request is invalid; the agent or version does not exist; the parent does not cover it; the key was
    /// used for a different job.
    pub async fn submit(&self, caller: &Caller, said: Submit, origin: Origin) -> Outcome<Submitted> {
        caller.require(Scope::JobsWrite)?;
        let ask = JobAsk::check(said)?;
        let key = Some((caller.grant.key.id, caller.principal().to_owned()));
        let (principal, trace) = (caller.agent.clone(), caller.trace);
        let full = self.ctx.quotas.objection(caller);
        // That of a parent may be inherited.
        let wanted = ask.priority.or(ask.parent_id.is_none().then(Priority::default));
        let owner = Some(caller.principal());
        let max_priority = limits::max_priority(&self.ctx.pool, wanted, &principal, owner).await?;
        let submission = Submission { ask, principal, key, trace, origin, rerun: None, full, max_priority };
        submit_and_wait(self, submission).await
    }
}

/// Submits a job and waits for its credentials, if it gets any; a concurrent repetition waits with it.
pub(super) async fn submit_and_wait(job_writer: &JobWriter, submission: Submission) -> Outcome<Submitted> {
    let until = Instant::now() + PATIENCE;
    let submitted = loop {
        match job_writer.hand_in(submission.clone()).await {
            Err(AppError::Refused(refusal)) if refusal == being_prepared() && Instant::now() < until => {
                sleep(LOOK).await;
            }
            done => break done?,
        }
    };
    if submitted.preparing {
        return provide(&job_writer.ctx, submitted.job, None).await;
    }
    if submitted.repeated {
        let mut conn = job_writer.ctx.pool.acquire().await?;
        let before = credentials::as_accepted(&mut conn, submitted.job.id).await?;
        return Ok(submitted.with(before));
    }
    Ok(submitted)
}
