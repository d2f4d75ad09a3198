//! Judgement of reported tool calls (ARCP §9.3): by the lease of the job, by the stops in force, and by the budgets that the
//! job shares with others.

use std::collections::HashMap;
use std::sync::Arc;

use entente_domain::arcp::jobs::events::Operation;
use entente_domain::ids::JobId;
use entente_domain::refusal::Refusal;
use entente_domain::spending::Usage;
use entente_domain::stops::StopSet;
use entente_kernel::{Outcome, charges};
use sqlx::PgConnection;

use super::Report;
use crate::Ctx;
use crate::jobs::locked::{JobChange, LockedJobs};

/// Bounds of the tool calls in a batch of reports, beside their leases.
pub(in crate::jobs) struct CallBounds {
    stops: Arc<StopSet>,
    /// The stop of the worker that reports all of them.
    worker: Option<Refusal>,
    /// The shared budgets of each job that calls a tool, as they were before the batch.
    shared: HashMap<JobId, Vec<Usage>>,
}

impl CallBounds {
    /// Loads the bounds of these reports. This costs a query for each job that calls a tool while there are budgets, and none
    /// otherwise.
    pub(in crate::jobs) async fn load(
        ctx: &Ctx,
        conn: &mut PgConnection,
        locked: &LockedJobs,
        reports: impl Iterator<Item = &Report>,
    ) -> Outcome<Self> {
        let mut shared = HashMap::new();
        if ctx.stops.has_budgets() {
            for report in reports.filter(|report| report.calls_tools()) {
                if shared.contains_key(&report.job_id) {
                    continue;
                }
                // A report on a job that is not there is refused for that.
                let Ok(job) = locked.job(report.job_id) else { continue };
                shared.insert(report.job_id, charges::of_act(conn, &job.act(), locked.now()).await?);
            }
        }
        Ok(Self { stops: ctx.stops.current(), worker: None, shared })
    }

    /// Adds the stop of the worker that reports all of them.
    pub(in crate::jobs) fn of_worker(self, stopped: Option<Refusal>) -> Self {
        Self { worker: stopped, ..self }
    }

    /// Judges a tool call. A tool that is an operation of §9.2 is judged as that operation, if the lease names its capability.
    ///
    /// # Errors
    /// The call is stopped; the lease does not allow it; a shared budget is spent, or does not allow it any more.
    pub(super) fn judge(
        &self,
        change: &JobChange,
        report: &Report,
        tool: &str,
        operation: Option<&Operation>,
    ) -> Result<(), Refusal> {
        let job = change.job();
        let (capability, target) = operation
            .filter(|operation| job.lease.names(operation.capability))
            .map_or(("tool.call", tool), |operation| (operation.capability, operation.target.as_str()));
        change.may(capability, target)?;
        report.stopped.as_ref().or(self.worker.as_ref()).cloned().map_or(Ok(()), Err)?;
        self.stops.require_none(&job.act())?;
        let shared = self.shared.get(&job.id).map_or(&[][..], Vec::as_slice);
        charges::require_call_allowed(shared, capability, target)
    }
}
