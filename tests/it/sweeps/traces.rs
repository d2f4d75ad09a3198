//! The traces of each sweep.

use entente::background::sweeps::Sweep;

/// Returns the query for the sweep's traces: the number of the five rows that it has processed.
pub fn traces(sweep: Sweep) -> &'static str {
    match sweep {
        Sweep::Messages => "SELECT count(*) FROM receipts WHERE kind = 'expired'",
        Sweep::Tasks => "SELECT count(*) FROM events WHERE event_type = 'task.failed'",
        Sweep::Channels => "SELECT count(*) FROM events WHERE event_type = 'channel.closed'",
        Sweep::Evictions => "SELECT 10 - count(*) FROM messages",
        Sweep::Purges => "SELECT 5 - count(*) FROM channels",
        Sweep::Access => "SELECT count(*) FROM events WHERE event_type = 'access_expired'",
        Sweep::Deadlocks => "SELECT count(*) FROM deadlocks",
        Sweep::Leases => "SELECT count(*) FROM events WHERE event_type = 'lease_released'",
        Sweep::Checkpoints => "SELECT count(*) FROM checkpoints",
        Sweep::OldEvents => "SELECT coalesce(sum(sequence), 0)::bigint FROM log_floors",
        Sweep::Heartbeats => "SELECT count(*) FROM agents WHERE current_load = 7",
        Sweep::Silence => "SELECT count(*) FROM events WHERE event_type = 'agent.dead'",
        Sweep::Drains => "SELECT count(*) FROM events WHERE payload LIKE '%\"new_status\":\"deregistered\"%'",
        Sweep::KeyUses => "SELECT count(*) FROM keys WHERE last_used_at = '2026-11-21T08:01:00Z'",
        Sweep::Idempotency => "SELECT 5 - count(*) FROM idempotency",
        Sweep::Cursors => "SELECT 5 - count(*) FROM reading_cursors",
        Sweep::Webhooks => "SELECT 5 - count(*) FROM webhook_deliveries",
        Sweep::OldNotifications => "SELECT 5 - count(*) FROM notifications",
        Sweep::Credentials => "SELECT count(*) FROM credentials WHERE state = 'revoking'",
        Sweep::Jobs => "SELECT count(*) FROM job_events WHERE type = 'job.error'",
        Sweep::JobKeys => "SELECT 5 - count(*) FROM jobs WHERE idempotency_key IS NOT NULL",
        Sweep::EndedJobs => "SELECT 6 - count(*) FROM jobs",
        Sweep::Workers => "SELECT 5 - count(*) FROM workers",
        Sweep::Sessions => "SELECT 5 - count(*) FROM sessions",
        Sweep::EnvelopeLogs => "SELECT 5 - count(*) FROM aee_logs",
        Sweep::Pairs => "SELECT count(*) FROM aee_envelopes WHERE type = 'error'",
        Sweep::Envelopes => "SELECT 5 - count(*) FROM aee_envelopes WHERE type = 'task'",
        Sweep::Moments => "SELECT count(*) FROM moments WHERE state = 'expired'",
        Sweep::Memory => "SELECT 5 - count(*) FROM memory_entries",
        Sweep::Triggers => "SELECT count(*) FROM trigger_intents",
        Sweep::TriggerFirings | Sweep::TriggerEvents => "SELECT 5 - count(*) FROM trigger_firings",
        Sweep::Suspensions => "SELECT count(*) FROM events WHERE event_type = 'intent.suspension_expired'",
        Sweep::Coordinators => "SELECT count(*) FROM events WHERE event_type = 'coordinator.unresponsive'",
        Sweep::ToolGrants => "SELECT count(*) FROM tool_grants WHERE expired",
        Sweep::Invocations => "SELECT count(*) FROM tool_invocations WHERE interrupted",
        Sweep::InboxRings
        | Sweep::InboxEntries
        | Sweep::Lineages
        | Sweep::Reports
        | Sweep::Federation
        | Sweep::Vaults
        | Sweep::OldNumbers
        | Sweep::StoppedJobs
        | Sweep::Budgets
        | Sweep::Reservations
        | Sweep::Spending
        | Sweep::Bundles
        | Sweep::Storage => {
            unreachable!("{sweep:?} leaves its traces elsewhere")
        }
        Sweep::Links => "SELECT 5 - count(*) FROM links",
        Sweep::Retries => "SELECT count(*) FROM failures WHERE announced_at IS NOT NULL",
    }
}
