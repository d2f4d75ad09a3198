//! Job events while a job waits for a person (binding moments): one `status` event when it begins to wait,
//! one when it resumes. Questions and answers stay in `moments/src` and never enter a job's events.

use entente_domain::arcp::jobs::{Job, JobStatus};
use entente_domain::clock::Timestamp;
use entente_domain::ids::{JobId, MomentId};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Caller, Outcome};
use serde_json::json;
use sqlx::PgConnection;

use super::locked::LockedJobs;
use super::rows;
use crate::Ctx;
use crate::workers;

/// The `phase` of a job's `status` event (ARCP §8.2) while a person is asked, and afterwards.
const AWAITING: &str = "awaiting_decision";
const RESUMED: &str = "resumed";

/// The locked jobs of the moments being processed: none of them can end before the commit.
///
/// Their rows are locked after the intents, as everywhere (`locked.rs`), and before the clock of moments.
pub struct Waiting(LockedJobs);

impl Waiting {
    /// Locks these jobs.
    ///
    /// # Errors
    /// A database error; a stored value is invalid.
    pub async fn take(conn: &mut PgConnection, ids: &[JobId], now: Timestamp) -> Outcome<Self> {
        Ok(Self(LockedJobs::take(conn, ids, &[], now).await?))
    }

    /// Returns one of the locked jobs.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.0.job(id).ok()
    }

    /// Appends the event that the job waits for a person.
    pub fn awaits(&mut self, id: JobId, moment: MomentId) {
        self.say(id, AWAITING, moment);
    }

    /// Appends the event that the job resumes.
    pub fn resumes(&mut self, id: JobId, moment: MomentId) {
        self.say(id, RESUMED, moment);
    }

    /// Appends a `status` event, unless the job is over.
    fn say(&mut self, id: JobId, phase: &str, moment: MomentId) {
        let Ok(mut change) = self.0.change(id) else { return };
        if change.job().status.is_terminal() {
            return;
        }
        change.say("status", &json!({ "phase": phase, "moment_id": moment }));
        self.0.apply(change);
    }

    /// Writes the appended events.
    ///
    /// # Errors
    /// A database error.
    pub async fn save(&mut self, ctx: &Ctx, conn: &mut PgConnection) -> Outcome<()> {
        self.0.save(ctx, conn).await
    }

    /// Wakes the followers of these jobs; call after the commit.
    pub fn announce(&self, ctx: &Ctx) {
        self.0.announce(ctx);
    }
}

/// Loads a job that the caller works on now: it runs, and one of the caller's workers holds its claim.
///
/// Any other job counts as missing.
///
/// # Errors
/// The caller works on no such job.
pub async fn worked_on(conn: &mut PgConnection, caller: &Caller, id: JobId) -> Outcome<Job> {
    let none = || {
        let message = "`job_id` names no job that you work on at this moment. Name one that a worker of yours has claimed, \
                       or leave it out.";
        Refusal::field(Code::Unprocessable, "job_id", "unknown", message)
    };
    let job = rows::load(conn, &[id]).await?.pop();
    let job = job.filter(|job| job.status == JobStatus::Running).ok_or_else(none)?;
    let claim = job.claim.as_ref().ok_or_else(none)?;
    workers::mine(conn, caller, claim.worker_id).await.map_err(|_not_mine| none())?;
    Ok(job)
}
