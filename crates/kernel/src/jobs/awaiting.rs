//! Jobs that wait for a person (binding moments): the job says so to its followers, and says that it goes on. What is asked,
//! and what is answered, is `kernel/src/moments.rs`; nothing of it gets into a job's events.

use entente_domain::clock::Timestamp;
use entente_domain::ids::{JobId, MomentId};
use entente_domain::jobs::{Job, JobStatus};
use entente_domain::refusal::{Code, Refusal};
use serde_json::json;
use sqlx::PgConnection;

use super::hold::Hold;
use super::rows;
use crate::{Caller, Ctx, Outcome, workers};

/// The `phase` of a job's `status` event (ARCP §8.2) while a person is asked, and when that is over.
const AWAITING: &str = "awaiting_decision";
const RESUMED: &str = "resumed";

/// The jobs of moments in hand, locked: until this is committed, none of them ends. Their rows are locked after the locks of
/// lines, as everywhere (`hold.rs`), and before the clock of moments.
pub(crate) struct Waiting {
    hold: Option<Hold>,
    said: bool,
}

impl Waiting {
    /// Locks jobs.
    pub async fn take(conn: &mut PgConnection, ids: &[JobId], now: Timestamp) -> Outcome<Self> {
        let hold = if ids.is_empty() { None } else { Some(Hold::take(conn, ids, &[], now).await?) };
        Ok(Self { hold, said: false })
    }

    /// One of the jobs.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.hold.as_ref()?.job(id).ok()
    }

    /// The job says that it waits for a person.
    pub fn awaits(&mut self, id: JobId, moment: MomentId) {
        self.say(id, AWAITING, moment);
    }

    /// The job says that it goes on: nobody is asked for it any more.
    pub fn resumes(&mut self, id: JobId, moment: MomentId) {
        self.say(id, RESUMED, moment);
    }

    /// One that is over says nothing.
    fn say(&mut self, id: JobId, phase: &str, moment: MomentId) {
        let goes_on = self.job(id).is_some_and(|job| !job.status.is_terminal());
        if let Some(hold) = self.hold.as_mut().filter(|_| goes_on) {
            hold.say(id, "status", &json!({ "phase": phase, "moment_id": moment }));
            self.said = true;
        }
    }

    /// Writes what was said.
    pub async fn save(&mut self, ctx: &Ctx, conn: &mut PgConnection) -> Outcome<()> {
        match self.hold.as_mut().filter(|_| self.said) {
            Some(hold) => hold.save(ctx, conn).await,
            None => Ok(()),
        }
    }

    /// Wakes the followers of those that said something; once that is committed.
    pub fn announce(&self, ctx: &Ctx) {
        self.hold.iter().filter(|_| self.said).for_each(|hold| hold.announce(ctx));
    }
}

/// A job that the caller works on at this moment: it runs, and a worker of the caller's holds it. Any other is as one that is
/// not there.
///
/// # Errors
/// There is no such job of the caller's.
pub(crate) async fn worked_on(conn: &mut PgConnection, caller: &Caller, id: JobId) -> Outcome<Job> {
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
