//! Jobs that wait for decisions: ARCP's jobs, as binding moments see them.

use std::sync::Arc;

use entente_arcp::jobs::{Waiting, worked_on};
use entente_domain::arcp::jobs::Job;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{JobId, MomentId};
use entente_kernel::Caller;
use entente_kernel::hooks::Reaction;
use entente_moments::jobs::{Jobs, WaitingJobs};
use sqlx::PgConnection;

/// ARCP's jobs.
pub struct ArcpJobs(pub Arc<entente_arcp::State>);

impl Jobs for ArcpJobs {
    fn worked_on<'a>(
        &'a self,
        conn: &'a mut PgConnection,
        caller: &'a Caller,
        id: JobId,
    ) -> Reaction<'a, Job> {
        Box::pin(worked_on(conn, caller, id))
    }

    fn lock<'a>(
        &'a self,
        conn: &'a mut PgConnection,
        ids: &'a [JobId],
        now: Timestamp,
    ) -> Reaction<'a, Box<dyn WaitingJobs>> {
        Box::pin(async move {
            let waiting = Waiting::take(conn, ids, now).await?;
            Ok(Box::new(Locked { waiting, state: Arc::clone(&self.0) }) as Box<dyn WaitingJobs>)
        })
    }
}

struct Locked {
    waiting: Waiting,
    state: Arc<entente_arcp::State>,
}

impl WaitingJobs for Locked {
    fn job(&self, id: JobId) -> Option<&Job> {
        self.waiting.job(id)
    }

    fn awaits(&mut self, id: JobId, moment: MomentId) {
        self.waiting.awaits(id, moment);
    }

    fn resumes(&mut self, id: JobId, moment: MomentId) {
        self.waiting.resumes(id, moment);
    }

    fn save<'a>(&'a mut self, ctx: &'a entente_kernel::Ctx, conn: &'a mut PgConnection) -> Reaction<'a> {
        Box::pin(async move {
            let ctx = entente_arcp::Ctx::of(ctx, &self.state);
            self.waiting.save(&ctx, conn).await
        })
    }

    fn announce(&self, ctx: &entente_kernel::Ctx) {
        self.waiting.announce(&entente_arcp::Ctx::of(ctx, &self.state));
    }
}
