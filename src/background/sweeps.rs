//! Sweeps: what time has made due. Each is bounded, idempotent, and safe on several servers. What is due has been true
//! since the instant it was; a sweep writes it down, tells, and tidies.

pub mod turns;

use std::time::Duration;

use entente_kernel::{
    Ctx, Outcome, access, channels, checkpoints, coordinators, credentials, deliveries, departures,
    envelope_logs, envelopes, failures, federation, heartbeats, idempotency, invocations, jobs, keys, leases,
    memory, moments, pairs, pending, people, sessions, suspensions, tasks, tool_credentials, tool_grants,
    triggers, vaults, workers,
};
use entente_runtime::metrics::SweepLabels;

/// Things dealt with in one run at the most, so that no run takes long.
const BATCH: i64 = 500;
/// The same of what nobody waits for, and is done by one statement.
const LARGE_BATCH: i64 = 5_000;
/// The same of triggers: each firing is a transaction under the house's lock, which everybody else waits for.
const TRIGGER_BATCH: i64 = 50;

/// How often the sweeps look whether they are due.
const BEAT: Duration = Duration::from_millis(250);

/// A sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// Messages whose `expires_at` has come.
    Messages,
    /// Tasks whose attempt took too long or whose pause is over.
    Tasks,
    /// Jobs whose lease, time, worker or grace has run out.
    Jobs,
    /// Idempotency keys of jobs that are past their window.
    JobKeys,
    /// Workers that have not been heard of for long.
    Workers,
    /// Channels whose time to live has run out.
    Channels,
    /// Messages over a channel's limit.
    Evictions,
    /// Messages of channels that ended.
    Purges,
    /// Access entries that have ended.
    Access,
    /// Leases that have run out.
    Leases,
    /// Logs that have grown enough for a checkpoint.
    Checkpoints,
    /// Heartbeats that were heard.
    Heartbeats,
    /// Agents that have fallen silent.
    Silence,
    /// Agents that have drained long enough.
    Drains,
    /// Keys that were used.
    KeyUses,
    /// Idempotency keys that are past their window.
    Idempotency,
    /// Deliveries of webhooks that were finished long ago, and endpoints that were removed.
    Webhooks,
    /// Credentials that somebody left, and values that nobody can ask for any more.
    Credentials,
    /// Sessions whose window is over.
    Sessions,
    /// Log lines of envelopes that were kept for long enough.
    EnvelopeLogs,
    /// Envelopes' tasks whose time has run out.
    Pairs,
    /// Envelopes that are older than they are kept.
    Envelopes,
    /// Binding moments that lapse, go to a second person, are told of the end of their job, or have been kept long enough.
    Moments,
    /// Questions of suspended intents that nobody answered in time.
    Suspensions,
    /// Coordinators that have fallen silent, or decide nothing.
    Coordinators,
    /// One-time links that are over.
    Links,
    /// Agents that are to try an intent again.
    Retries,
    /// Entries of agents' memory whose time is over.
    Memory,
    /// Events that triggers listen to.
    TriggerEvents,
    /// Triggers that are due, and firings that waited.
    Triggers,
    /// Firings that were kept for long enough.
    TriggerFirings,
    /// What happened on intents of peers, and is to be told to them.
    Reports,
    /// What was for, of or about peers and is over.
    Federation,
    /// Credentials and grants of vaults whose time has run out.
    ToolGrants,
    /// Calls of tools that nobody saw the end of, and those that were kept for long enough.
    Invocations,
    /// Secrets that are sealed with an old key, and vaults, credentials and grants that ended long ago.
    Vaults,
}

impl Sweep {
    /// Every sweep, in the order in which they run.
    pub const ALL: &'static [Self] = &[
        Self::Messages,
        Self::Tasks,
        Self::Jobs,
        Self::Channels,
        Self::Evictions,
        Self::Purges,
        Self::Access,
        Self::Leases,
        Self::Heartbeats,
        Self::Silence,
        Self::Drains,
        Self::KeyUses,
        Self::Idempotency,
        Self::JobKeys,
        Self::Workers,
        Self::Checkpoints,
        Self::Webhooks,
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
    ];

    /// Its name in metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Tasks => "tasks",
            Self::Jobs => "jobs",
            Self::JobKeys => "job_keys",
            Self::Workers => "workers",
            Self::Channels => "channels",
            Self::Evictions => "evictions",
            Self::Purges => "purges",
            Self::Access => "access",
            Self::Leases => "leases",
            Self::Checkpoints => "checkpoints",
            Self::Heartbeats => "heartbeats",
            Self::Silence => "silence",
            Self::Drains => "drains",
            Self::KeyUses => "key_uses",
            Self::Idempotency => "idempotency",
            Self::Webhooks => "webhooks",
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
        }
    }

    /// How often it looks whether something is due.
    fn period(self) -> Duration {
        BEAT * self.beats()
    }

    /// The same in beats.
    fn beats(self) -> u32 {
        match self {
            Self::Messages
            | Self::Evictions
            | Self::Leases
            | Self::Jobs
            | Self::Pairs
            | Self::Moments
            | Self::Suspensions => 1,
            Self::Tasks
            | Self::Coordinators
            | Self::Retries
            | Self::TriggerEvents
            | Self::Triggers
            | Self::Reports => 2,
            Self::Channels | Self::Access | Self::Heartbeats | Self::Memory => 4,
            Self::Silence | Self::Drains | Self::Purges => 8,
            Self::KeyUses
            | Self::Webhooks
            | Self::Credentials
            | Self::Sessions
            | Self::ToolGrants
            | Self::Invocations => 20,
            Self::Idempotency
            | Self::JobKeys
            | Self::Workers
            | Self::Checkpoints
            | Self::EnvelopeLogs
            | Self::Envelopes
            | Self::Links
            | Self::TriggerFirings
            | Self::Federation
            | Self::Vaults => 240,
        }
    }

    /// Things that one run deals with at the most.
    fn batch(self) -> i64 {
        match self {
            Self::Triggers => TRIGGER_BATCH,
            Self::JobKeys
            | Self::Workers
            | Self::Idempotency
            | Self::Webhooks
            | Self::EnvelopeLogs
            | Self::Envelopes
            | Self::Links
            | Self::TriggerFirings
            | Self::Invocations => LARGE_BATCH,
            _ => BATCH,
        }
    }

    /// Does what is due; answers with how much that was.
    ///
    /// # Errors
    /// The database.
    pub async fn run(self, ctx: &Ctx) -> Outcome<u64> {
        let batch = self.batch();
        let done = match self {
            Self::Messages => pending::expire_due(ctx, batch).await,
            Self::Tasks => tasks::pass_time(ctx, batch).await,
            Self::Jobs => jobs::pass_time(ctx, batch).await,
            Self::JobKeys => jobs::forget_keys(ctx, batch).await,
            Self::Workers => workers::tidy(ctx, batch).await,
            Self::Channels => channels::close_idle(ctx, batch).await,
            Self::Evictions => channels::evict(ctx, batch).await,
            Self::Purges => channels::purge(ctx, batch).await,
            Self::Access => access::expire_entries(ctx, batch).await,
            Self::Leases => leases::expire_due(ctx, batch).await,
            Self::Checkpoints => checkpoints::take_due(ctx, batch).await,
            Self::Heartbeats => heartbeats::flush_beats(ctx).await,
            Self::Silence => heartbeats::note_silence(ctx, batch).await,
            Self::Drains => departures::finish_drains(ctx, batch).await,
            Self::KeyUses => keys::save_uses(ctx).await,
            Self::Idempotency => idempotency::forget(ctx, batch).await,
            Self::Webhooks => deliveries::tidy(ctx, batch).await,
            Self::Credentials => credentials::tidy(ctx, batch).await,
            Self::Sessions => sessions::forget(ctx, batch).await,
            Self::EnvelopeLogs => envelope_logs::tidy(ctx, batch).await,
            Self::Pairs => pairs::time_out(ctx, batch).await,
            Self::Envelopes => envelopes::forget(ctx, batch).await,
            Self::Moments => moments::pass_time(ctx, batch).await,
            Self::Suspensions => suspensions::expire_due(ctx, batch).await,
            Self::Coordinators => coordinators::pass_time(ctx, batch).await,
            Self::Links => people::tidy(ctx, batch).await,
            Self::Retries => failures::retry_due(ctx, batch).await,
            Self::Memory => memory::expire_due(ctx, batch).await,
            Self::TriggerEvents => triggers::hear(ctx).await,
            Self::Triggers => triggers::pass_time(ctx, batch).await,
            Self::TriggerFirings => triggers::tidy(ctx, batch).await,
            Self::Reports => federation::report(ctx, batch).await,
            Self::Federation => federation::tidy(ctx, batch).await,
            Self::ToolGrants => both(
                tool_credentials::expire_due(ctx, batch).await,
                tool_grants::expire_due(ctx, batch).await,
            ),
            Self::Invocations => invocations::tidy(ctx, batch).await,
            Self::Vaults => {
                both(tool_credentials::seal_anew(ctx, batch).await, vaults::forget(ctx, LARGE_BATCH).await)
            }
        };
        let labels = SweepLabels { sweep: self.name() };
        match &done {
            Ok(count) => ctx.metrics.swept.get_or_create(&labels).inc_by(*count),
            Err(_) => ctx.metrics.sweep_failures.get_or_create(&labels).inc(),
        };
        done
    }
}

/// Does everything that is due, until nothing is: for tests, which turn the clock by hand, and for the last moment of a
/// server.
///
/// # Errors
/// The database.
pub async fn run_all(ctx: &Ctx) -> Outcome<u64> {
    let mut total = 0;
    loop {
        let mut done = 0;
        for sweep in Sweep::ALL.iter().copied() {
            done += sweep.run(ctx).await?;
        }
        total += done;
        if done == 0 {
            return Ok(total);
        }
    }
}

/// Both counts; what went wrong with the first keeps the second from nothing.
fn both(one: Outcome<u64>, other: Outcome<u64>) -> Outcome<u64> {
    Ok(one? + other?)
}
