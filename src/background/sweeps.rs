//! Sweeps: time-driven work. Each is bounded, idempotent, and safe on several servers. A due change takes
//! effect at its due time; the sweep only records it, notifies others, and cleans up.

pub mod turns;

use std::time::{Duration, Instant};

use entente_aee::{envelope_logs, retention, timeouts};
use entente_arcp::{jobs, sessions, workers};
use entente_bridges::waits::deadlocks;
use entente_bridges::{Ctx, due};
use entente_kernel::audit::{checkpoints, retention as event_retention};
use entente_kernel::identity::quotas::storage;
use entente_kernel::identity::{keys, people};
use entente_kernel::log::order;
use entente_kernel::messages::pending;
use entente_kernel::notifications;
use entente_kernel::spending;
use entente_kernel::spending::reservations;
use entente_kernel::webhooks::deliveries;
use entente_kernel::{AppError, Outcome, access, cursors, idempotency, inbox, loops};
use entente_moments as moments;
use entente_openintent::agents::{departures, heartbeats};
use entente_openintent::suspensions;
use entente_openintent::tools::{invocations, tool_credentials, tool_grants, vaults};
use entente_openintent::{
    channels, coordinators, failures, federation, leases, memory, messages, tasks, triggers,
};
use entente_runtime::metrics::SweepLabels;

/// Most items per run, so that no run takes long.
const BATCH: i64 = 500;
/// The same for sweeps that nothing waits for and that need only one statement.
const LARGE_BATCH: i64 = 5_000;
/// The same for events: a run verifies the whole log before it deletes from it.
const EVENT_BATCH: i64 = 50_000;
/// The same for triggers: each firing is a transaction under the system log's lock, which other operations
/// wait for.
const TRIGGER_BATCH: i64 = 50;

/// Unit of the sweeps' periods.
const INTERVAL: Duration = Duration::from_millis(250);

/// A sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// Expires messages whose `expires_at` has passed.
    Messages,
    /// Times out task attempts, and makes tasks ready after their retry pause.
    Tasks,
    /// Ends or requeues jobs whose lease, runtime, worker or grace period has run out.
    Jobs,
    /// Tells running jobs of stopped subjects to end, and holds pending ones back.
    StoppedJobs,
    /// Records the consequences of budgets' thresholds.
    Budgets,
    /// Releases reservations of calls that nobody settled.
    Reservations,
    /// Deletes costs and windows of budgets past their retention.
    Spending,
    /// Deletes expired idempotency keys of jobs.
    JobKeys,
    /// Deletes jobs past their retention.
    EndedJobs,
    /// Deletes workers that have been silent for long, keys of old claims, and starts that no limit counts.
    Workers,
    /// Closes channels whose time to live has run out.
    Channels,
    /// Evicts messages over a channel's limit.
    Evictions,
    /// Purges messages of closed channels.
    Purges,
    /// Expires access entries.
    Access,
    /// Expires leases.
    Leases,
    /// Records agents that wait for one another, and the ends of such deadlocks.
    Deadlocks,
    /// Creates checkpoints of logs that have grown enough.
    Checkpoints,
    /// Deletes events past their retention.
    OldEvents,
    /// Deletes numbers of the order over all logs whose entries are all deleted.
    OldNumbers,
    /// Writes collected heartbeats.
    Heartbeats,
    /// Detects agents that have fallen silent.
    Silence,
    /// Ends the draining of agents after its time limit.
    Drains,
    /// Writes the last uses of keys.
    KeyUses,
    /// Deletes expired idempotency keys.
    Idempotency,
    /// Deletes reading cursors that nobody uses.
    Cursors,
    /// Rings entries of inboxes that nobody has seen.
    InboxRings,
    /// Deletes expired entries of inboxes, and readers that are gone.
    InboxEntries,
    /// Deletes lineages of messages of long ago.
    Lineages,
    /// Deletes old finished deliveries, and the remains of removed webhook endpoints.
    Webhooks,
    /// Deletes notifications that ended long ago, and removed contact points.
    OldNotifications,
    /// Finds abandoned credentials, and clears values that can no longer be requested.
    Credentials,
    /// Deletes sessions whose resume window is over.
    Sessions,
    /// Deletes envelope log entries past their retention.
    EnvelopeLogs,
    /// Times out the exchanges of envelope tasks.
    Pairs,
    /// Deletes envelopes past their retention.
    Envelopes,
    /// Lapses binding moments, escalates them, reports the end of their jobs, and clears them after their
    /// retention.
    Moments,
    /// Expires unanswered questions of suspended intents.
    Suspensions,
    /// Detects coordinators that are silent or make no decisions.
    Coordinators,
    /// Deletes expired one-time links.
    Links,
    /// Tells agents to retry an intent after its pause.
    Retries,
    /// Expires entries of agents' memory.
    Memory,
    /// Matches new events with triggers.
    TriggerEvents,
    /// Fires due triggers, and firings that waited.
    Triggers,
    /// Deletes trigger firings past their retention.
    TriggerFirings,
    /// Creates federation outbox messages from events on peers' intents.
    Reports,
    /// Expires undeliverable peer messages and silent dispatches, and purges finished ones.
    Federation,
    /// Expires credentials and grants of vaults.
    ToolGrants,
    /// Records interrupted tool calls, and deletes old ones.
    Invocations,
    /// Seals secrets under an old key anew, and deletes vaults, credentials and grants that ended long ago.
    Vaults,
    /// Deletes lines of bundles that were removed, or never became whole.
    Bundles,
    /// Counts the storage of principals, if that is limited.
    Storage,
}

impl Sweep {
    /// All sweeps, in their order of execution.
    pub const ALL: &'static [Self] = &[
        Self::Messages,
        Self::Tasks,
        Self::Jobs,
        Self::StoppedJobs,
        Self::Budgets,
        Self::Reservations,
        Self::Spending,
        Self::Channels,
        Self::Evictions,
        Self::Purges,
        Self::Access,
        Self::Leases,
        Self::Deadlocks,
        Self::Heartbeats,
        Self::Silence,
        Self::Drains,
        Self::KeyUses,
        Self::Idempotency,
        Self::Cursors,
        Self::InboxRings,
        Self::InboxEntries,
        Self::Lineages,
        Self::JobKeys,
        Self::EndedJobs,
        Self::Workers,
        Self::Checkpoints,
        Self::OldEvents,
        Self::OldNumbers,
        Self::Webhooks,
        Self::OldNotifications,
        Self::Credentials,
        Self::Sessions,
        Self::EnvelopeLogs,
        Self::Pairs,
        Self::Envelopes,
        Self::Moments,
        Self::Suspensions,
        Self::Coordinators,
        Self::Links,
        Self::Retries,
        Self::Memory,
        Self::TriggerEvents,
        Self::Triggers,
        Self::TriggerFirings,
        Self::Reports,
        Self::Federation,
        Self::ToolGrants,
        Self::Invocations,
        Self::Vaults,
        Self::Bundles,
        Self::Storage,
    ];

    /// Returns the name for metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Tasks => "tasks",
            Self::Jobs => "jobs",
            Self::StoppedJobs => "stopped_jobs",
            Self::Budgets => "budgets",
            Self::Reservations => "reservations",
            Self::Spending => "spending",
            Self::JobKeys => "job_keys",
            Self::EndedJobs => "ended_jobs",
            Self::Workers => "workers",
            Self::Channels => "channels",
            Self::Evictions => "evictions",
            Self::Purges => "purges",
            Self::Access => "access",
            Self::Leases => "leases",
            Self::Deadlocks => "deadlocks",
            Self::Checkpoints => "checkpoints",
            Self::OldEvents => "old_events",
            Self::OldNumbers => "old_numbers",
            Self::Heartbeats => "heartbeats",
            Self::Silence => "silence",
            Self::Drains => "drains",
            Self::KeyUses => "key_uses",
            Self::Idempotency => "idempotency",
            Self::Cursors => "cursors",
            Self::InboxRings => "inbox_rings",
            Self::InboxEntries => "inbox_entries",
            Self::Lineages => "lineages",
            Self::Webhooks => "webhooks",
            Self::OldNotifications => "old_notifications",
            Self::Credentials => "credentials",
            Self::Sessions => "sessions",
            Self::EnvelopeLogs => "envelope_logs",
            Self::Pairs => "pairs",
            Self::Envelopes => "envelopes",
            Self::Moments => "moments",
            Self::Suspensions => "suspensions",
            Self::Coordinators => "coordinators",
            Self::Links => "links",
            Self::Retries => "retries",
            Self::Memory => "memory",
            Self::TriggerEvents => "trigger_events",
            Self::Triggers => "triggers",
            Self::TriggerFirings => "trigger_firings",
            Self::Reports => "federation_reports",
            Self::Federation => "federation",
            Self::ToolGrants => "tool_grants",
            Self::Invocations => "invocations",
            Self::Vaults => "vaults",
            Self::Bundles => "bundles",
            Self::Storage => "storage",
        }
    }

    /// Returns the interval between two runs.
    fn period(self) -> Duration {
        INTERVAL * self.beats()
    }

    /// Returns the period in units of [`INTERVAL`].
    fn beats(self) -> u32 {
        match self {
            Self::Messages
            | Self::Evictions
            | Self::Leases
            | Self::Jobs
            | Self::StoppedJobs
            | Self::Budgets
            | Self::Pairs
            | Self::Moments
            | Self::Suspensions => 1,
            Self::Tasks
            | Self::Deadlocks
            | Self::Coordinators
            | Self::Retries
            | Self::TriggerEvents
            | Self::Triggers
            | Self::Reports => 2,
            Self::Channels
            | Self::Access
            | Self::Heartbeats
            | Self::Memory
            | Self::Reservations
            | Self::InboxRings => 4,
            Self::Silence | Self::Drains | Self::Purges => 8,
            Self::KeyUses | Self::ToolGrants => 20,
            // Clean-ups of several statements each, which the idle server repeats for nothing.
            Self::Credentials => 40,
            Self::Webhooks | Self::OldNotifications | Self::Sessions | Self::Invocations => 60,
            Self::Idempotency
            | Self::Cursors
            | Self::InboxEntries
            | Self::Lineages
            | Self::JobKeys
            | Self::EndedJobs
            | Self::Spending
            | Self::Workers
            | Self::Checkpoints
            | Self::OldEvents
            | Self::OldNumbers
            | Self::EnvelopeLogs
            | Self::Envelopes
            | Self::Links
            | Self::TriggerFirings
            | Self::Federation
            | Self::Vaults
            | Self::Bundles
            | Self::Storage => 240,
        }
    }

    /// Returns whether the look-around says when the sweep has work (`lookout.rs`).
    pub(super) fn is_announced(self) -> bool {
        match self {
            Self::Messages
            | Self::Tasks
            | Self::Jobs
            | Self::StoppedJobs
            | Self::Budgets
            | Self::Reservations
            | Self::Channels
            | Self::Evictions
            | Self::Purges
            | Self::Access
            | Self::Leases
            | Self::Deadlocks
            | Self::InboxRings
            | Self::Silence
            | Self::Drains
            | Self::Pairs
            | Self::Moments
            | Self::Suspensions
            | Self::Coordinators
            | Self::Retries
            | Self::Memory
            | Self::TriggerEvents
            | Self::Triggers
            | Self::Reports
            | Self::ToolGrants => true,
            // They write records from memory, or clean up so rarely that they ask for themselves.
            Self::JobKeys
            | Self::EndedJobs
            | Self::Spending
            | Self::Workers
            | Self::Checkpoints
            | Self::OldEvents
            | Self::OldNumbers
            | Self::Heartbeats
            | Self::KeyUses
            | Self::Idempotency
            | Self::Cursors
            | Self::InboxEntries
            | Self::Lineages
            | Self::Webhooks
            | Self::OldNotifications
            | Self::Credentials
            | Self::Sessions
            | Self::EnvelopeLogs
            | Self::Envelopes
            | Self::Links
            | Self::TriggerFirings
            | Self::Federation
            | Self::Invocations
            | Self::Vaults
            | Self::Bundles
            | Self::Storage => false,
        }
    }

    /// Returns the most items per run.
    fn batch(self) -> i64 {
        match self {
            Self::Triggers => TRIGGER_BATCH,
            Self::OldEvents => EVENT_BATCH,
            Self::JobKeys
            | Self::EndedJobs
            | Self::Spending
            | Self::OldNumbers
            | Self::Workers
            | Self::Idempotency
            | Self::Cursors
            | Self::InboxEntries
            | Self::Lineages
            | Self::Webhooks
            | Self::OldNotifications
            | Self::EnvelopeLogs
            | Self::Envelopes
            | Self::Links
            | Self::TriggerFirings
            | Self::Invocations => LARGE_BATCH,
            _ => BATCH,
        }
    }

    /// Processes up to `limit` due items, and returns their number; a few sweeps have a bound of their own.
    ///
    /// # Errors
    /// The database fails.
    pub async fn step(self, ctx: &Ctx, limit: i64) -> Outcome<u64> {
        match self {
            Self::Messages => pending::expire_due(ctx, limit).await,
            Self::Tasks => tasks::expire_due(&ctx.openintent, limit).await,
            Self::Jobs => jobs::expire_due(&ctx.arcp, limit).await,
            Self::StoppedJobs => jobs::apply_stops(&ctx.arcp).await,
            Self::Budgets => entente_bridges::budgets::follow_up(ctx, limit).await,
            Self::Reservations => reservations::expire_due(ctx, limit).await,
            Self::Spending => {
                let lapsed = jobs::forget_lapsed(&ctx.arcp, limit).await?;
                Ok(spending::retention::forget(ctx, limit).await? + lapsed)
            }
            Self::JobKeys => jobs::forget_keys(&ctx.arcp, limit).await,
            Self::EndedJobs => entente_bridges::retention::forget_jobs(ctx, limit).await,
            Self::Workers => {
                let rest =
                    jobs::tidy_claims(&ctx.arcp, limit).await? + jobs::tidy_slots(&ctx.arcp, limit).await?;
                Ok(workers::tidy(&ctx.arcp, limit).await? + rest)
            }
            Self::Channels => channels::close_idle(&ctx.openintent, limit).await,
            Self::Evictions => messages::retention::evict(&ctx.openintent, limit).await,
            Self::Purges => messages::retention::purge(&ctx.openintent, limit).await,
            Self::Access => access::expire_entries(ctx, limit).await,
            Self::Leases => leases::expire_due(&ctx.openintent, limit).await,
            Self::Deadlocks => deadlocks::look(ctx).await,
            Self::Checkpoints => checkpoints::take_due(ctx, limit).await,
            Self::OldEvents => event_retention::forget(ctx, limit).await,
            Self::OldNumbers => order::forget(ctx, limit).await,
            Self::Heartbeats => heartbeats::flush_beats(&ctx.openintent).await,
            Self::Silence => heartbeats::note_silence(&ctx.openintent, limit).await,
            Self::Drains => departures::finish_drains(&ctx.openintent, limit).await,
            Self::KeyUses => keys::save_uses(ctx).await,
            Self::Idempotency => idempotency::forget(ctx, limit).await,
            Self::Cursors => cursors::tidy(ctx, limit).await,
            Self::InboxRings => inbox::sweeps::ring(ctx, limit).await,
            Self::InboxEntries => inbox::sweeps::tidy(ctx, limit).await,
            Self::Lineages => loops::forget(ctx, limit).await,
            Self::Webhooks => deliveries::tidy(ctx, limit).await,
            Self::OldNotifications => notifications::sending::tidy(ctx, limit).await,
            Self::Credentials => jobs::tidy_credentials(&ctx.arcp, limit).await,
            Self::Sessions => sessions::forget(&ctx.arcp, limit).await,
            Self::EnvelopeLogs => envelope_logs::tidy(&ctx.aee, limit).await,
            Self::Pairs => timeouts::time_out(&ctx.aee, limit).await,
            Self::Envelopes => retention::forget(&ctx.aee, limit).await,
            Self::Moments => moments::expire_due(&ctx.moments, limit).await,
            Self::Suspensions => suspensions::expire_due(&ctx.openintent, limit).await,
            Self::Coordinators => coordinators::expire_due(&ctx.openintent, limit).await,
            Self::Links => people::tidy(ctx, limit).await,
            Self::Retries => failures::retry_due(&ctx.openintent, limit).await,
            Self::Memory => memory::expire_due(&ctx.openintent, limit).await,
            Self::TriggerEvents => triggers::hear(&ctx.openintent).await,
            Self::Triggers => triggers::expire_due(&ctx.openintent, limit).await,
            Self::TriggerFirings => triggers::tidy(&ctx.openintent, limit).await,
            Self::Reports => federation::report(&ctx.openintent, limit).await,
            Self::Federation => federation::tidy(&ctx.openintent, limit).await,
            Self::ToolGrants => both(
                tool_credentials::expire_due(&ctx.openintent, limit).await,
                tool_grants::expire_due(&ctx.openintent, limit).await,
            ),
            Self::Invocations => invocations::tidy(&ctx.openintent, limit).await,
            Self::Vaults => both(
                tool_credentials::seal_anew(&ctx.openintent, limit).await,
                vaults::forget(&ctx.openintent, LARGE_BATCH).await,
            ),
            Self::Bundles => entente_bridges::bundles::records::forget(ctx, limit).await,
            Self::Storage => storage::count(ctx).await,
        }
    }

    /// Processes one batch of due items, and returns and counts their number.
    ///
    /// # Errors
    /// The database fails.
    pub async fn run(self, ctx: &Ctx) -> Outcome<u64> {
        let began = Instant::now();
        let done = self.step(ctx, self.batch()).await;
        let labels = SweepLabels { sweep: self.name() };
        ctx.metrics.sweep_seconds.get_or_create(&labels).observe(began.elapsed().as_secs_f64());
        match &done {
            Ok(count) => ctx.metrics.swept.get_or_create(&labels).inc_by(*count),
            Err(_) => ctx.metrics.sweep_failures.get_or_create(&labels).inc(),
        };
        done
    }
}

/// Runs all sweeps until nothing is due: for tests, which set the clock by hand. Unless another server sweeps at the same
/// time (`alone`), checks that the look-around announces the work: changes of another one after the look are not in it.
///
/// # Errors
/// The database fails; a sweep has work that the look-around does not announce.
pub async fn run_all(ctx: &Ctx, alone: bool) -> Outcome<u64> {
    let mut total = 0;
    loop {
        let due = if alone { Some(due::look(ctx).await?) } else { None };
        // One look is enough for a round: those that it does not announce come first, and find nothing.
        let silent = |sweep: Sweep| {
            let is_due =
                |due: &Vec<(String, bool)>| due.iter().any(|(word, due)| *due && word == sweep.name());
            sweep.is_announced() && due.as_ref().is_some_and(|due| !is_due(due))
        };
        let (first, rest): (Vec<Sweep>, Vec<Sweep>) = Sweep::ALL.iter().partition(|sweep| silent(**sweep));
        for sweep in first {
            if sweep.run(ctx).await? > 0 {
                let name = sweep.name();
                return Err(AppError::Inconsistent(format!("the look-around announced no `{name}`")));
            }
        }
        let mut done = 0;
        for sweep in rest {
            done += sweep.run(ctx).await?;
        }
        total += done;
        if done == 0 {
            return Ok(total);
        }
    }
}

/// The sweeps that delete rows past their retention.
const RETENTION: [Sweep; 9] = [
    Sweep::Purges,
    Sweep::EndedJobs,
    Sweep::OldEvents,
    Sweep::Envelopes,
    Sweep::EnvelopeLogs,
    Sweep::Webhooks,
    Sweep::Invocations,
    Sweep::Idempotency,
    // Last: numbers go with the rows that the others have deleted.
    Sweep::OldNumbers,
];

/// Deletes everything that is past its retention, in batches as the server does, and reports each batch with the number of
/// rows so far.
///
/// # Errors
/// The database fails.
pub async fn prune(ctx: &Ctx, mut report: impl FnMut(Sweep, u64)) -> Outcome<()> {
    order::search_again(ctx).await?;
    for sweep in RETENTION {
        let mut total = 0;
        loop {
            let done = sweep.run(ctx).await?;
            total += done;
            report(sweep, total);
            if done == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// Adds two counts. Both runs have been made by then, even if the first failed.
fn both(one: Outcome<u64>, other: Outcome<u64>) -> Outcome<u64> {
    Ok(one? + other?)
}
