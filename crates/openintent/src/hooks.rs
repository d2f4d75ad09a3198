//! Reactions of OpenIntent to changes by other protocols or the kernel.

use entente_domain::moments::Moment;
use entente_domain::openintent::intents::IntentStatus;
use entente_kernel::channels;
use entente_kernel::hooks::{AfterCommit, Given, Hook, IntentChange, Reaction};

use crate::{
    approvals, coordinators, escalations, failures, federation, leases, memory_entries, suspensions, tasks,
    triggers,
};

/// The hooks of OpenIntent.
pub struct OpenIntent;

impl Hook for OpenIntent {
    /// Ends the leases and tasks of agents that may no longer write (OI-7.4).
    fn access_narrowed<'a>(&'a self, change: &'a mut IntentChange<'_>) -> Reaction<'a> {
        Box::pin(async move {
            let IntentChange { ctx, conn, log, actor } = change;
            leases::end_without_access(conn, ctx, log, actor).await?;
            tasks::take_without_access(conn, ctx, log, actor).await
        })
    }

    /// Ends everything that works on a closed intent (RFC-0021 §7.1): leases, channels with their pending messages,
    /// tasks and plans, retries, memory, approvals, escalations, triggers, coordinators and dispatches.
    fn intent_closed<'a>(
        &'a self,
        change: &'a mut IntentChange<'_>,
        status: IntentStatus,
        _after: &'a mut AfterCommit,
    ) -> Reaction<'a> {
        Box::pin(async move {
            let IntentChange { ctx, conn, log, actor } = change;
            let id = log.intent_id;
            leases::end_of_intent(conn, ctx, log, actor).await?;
            channels::close_of_intent(conn, ctx, log, actor).await?;
            tasks::end_of_intent(conn, ctx, log, actor).await?;
            failures::end_of_intent(conn, id, status, log.now()).await?;
            memory_entries::end_of_intent(conn, ctx, log, actor).await?;
            approvals::end_of_intent(conn, id).await?;
            escalations::end_of_intent(conn, id).await?;
            triggers::end_of_intent(conn, id).await?;
            coordinators::end_of_intent(conn, ctx, log, actor).await?;
            federation::end_of_intent(conn, ctx, log, actor).await
        })
    }

    /// Resumes the intent that waited for the moment (RFC-0025).
    fn moment_ended<'a>(
        &'a self,
        change: &'a mut IntentChange<'_>,
        moment: &'a Moment,
        given: Option<&'a Given>,
    ) -> Reaction<'a> {
        Box::pin(async move {
            let IntentChange { ctx, conn, log, actor } = change;
            suspensions::moment_ended(conn, ctx, log, moment, actor, given).await
        })
    }
}
