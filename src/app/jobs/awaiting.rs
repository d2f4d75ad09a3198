//! Jobs that wait for a person (binding moments): the job says so to its followers, and says that it goes on. What is asked,
//! and what is answered, is `app/moments.rs`; nothing of it gets into a job's events.

use entente_core::clock::Timestamp;
use entente_core::ids::{IntentId, JobId, MomentId};
use entente_core::jobs::{Job, JobStatus};
use entente_core::refusal::{Code, Refusal};
use serde_json::json;
use sqlx::PgConnection;

use super::hold::Hold;
use super::rows;
use crate::app::{Caller, Ctx, Outcome, workers};

/// The `phase` of a job's `status` event (ARCP §8.2) while a person is asked, and when that is over.
const AWAITING: &str = "awaiting_decision";
const RESUMED: &str = "resumed";

/// A job's event that was written and is to be told once it is committed.
pub(crate) struct Told(Hold);

impl Told {
    /// Wakes the job's followers.
    pub fn announce(&self, ctx: &Ctx) {
        self.0.announce(ctx);
    }
}

/// A job as it stands.
pub(crate) async fn standing(conn: &mut PgConnection, id: JobId) -> Outcome<Option<Job>> {
    Ok(rows::load(conn, &[id]).await?.pop())
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
    let job = standing(conn, id).await?.filter(|job| job.status == JobStatus::Running).ok_or_else(none)?;
    let claim = job.claim.as_ref().ok_or_else(none)?;
    workers::mine(conn, caller, claim.worker_id).await.map_err(|_not_mine| none())?;
    Ok(job)
}

/// Writes the job's `status` event that it waits for a person, or, when nothing is open any more, that it goes on. A job that
/// is over says nothing. The job's row is locked after the locks of lines, as everywhere (`hold.rs`).
pub(crate) async fn say(
    ctx: &Ctx,
    conn: &mut PgConnection,
    id: JobId,
    moment: MomentId,
    waits: bool,
    now: Timestamp,
) -> Outcome<Option<Told>> {
    let none: &[IntentId] = &[];
    let mut hold = Hold::take(conn, &[id], none, now).await?;
    if hold.job(id).is_ok_and(|job| job.status.is_terminal()) || hold.job(id).is_err() {
        return Ok(None);
    }
    let phase = if waits { AWAITING } else { RESUMED };
    hold.say(id, "status", &json!({ "phase": phase, "moment_id": moment }));
    hold.save(ctx, conn).await?;
    Ok(Some(Told(hold)))
}
