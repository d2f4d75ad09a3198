//! Jobs that wait for decisions, as binding moments see them. ARCP owns them; the bridges connect the two.

use entente_domain::arcp::jobs::Job;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{JobId, MomentId};
use entente_kernel::Caller;
use entente_kernel::hooks::Reaction;
use sqlx::PgConnection;

/// The jobs of the server.
pub trait Jobs: Send + Sync {
    /// Loads a job that the caller works on now; any other job counts as missing.
    fn worked_on<'a>(
        &'a self,
        conn: &'a mut PgConnection,
        caller: &'a Caller,
        id: JobId,
    ) -> Reaction<'a, Job>;

    /// Locks these jobs, in the order of their ids.
    fn lock<'a>(
        &'a self,
        conn: &'a mut PgConnection,
        ids: &'a [JobId],
        now: Timestamp,
    ) -> Reaction<'a, Box<dyn WaitingJobs>>;
}

/// Locked jobs: none of them can end before the commit.
pub trait WaitingJobs: Send + Sync {
    /// Returns one of the locked jobs.
    fn job(&self, id: JobId) -> Option<&Job>;

    /// Appends the event that the job waits for a person.
    fn awaits(&mut self, id: JobId, moment: MomentId);

    /// Appends the event that the job resumes.
    fn resumes(&mut self, id: JobId, moment: MomentId);

    /// Writes the appended events.
    fn save<'a>(&'a mut self, ctx: &'a entente_kernel::Ctx, conn: &'a mut PgConnection) -> Reaction<'a>;

    /// Wakes the followers of these jobs; call after the commit.
    fn announce(&self, ctx: &entente_kernel::Ctx);
}
