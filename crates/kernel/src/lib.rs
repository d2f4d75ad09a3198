//! The parts that the protocols share, with their SQL: logs, identity, access, the live feed, webhooks, and rows of
//! intents, channels, messages and costs. The operations of a protocol are in its own crate.
//!
//! Each operation runs in one transaction: it checks access, loads state, asks the domain rules for a
//! decision, writes and records the result, commits, and then notifies the feed. It begins and commits
//! exactly once and never calls another operation. Row functions at the bottom of each file borrow a
//! connection and never begin or commit. Nothing here knows HTTP.

pub mod access;
pub mod audit;
pub mod channels;
pub mod charges;
pub mod cursors;
pub mod diagnosis;
pub mod due;
mod facts;
mod failure;
pub mod feed;
pub mod hooks;
pub mod idempotency;
pub mod identity;
pub mod inbox;
pub mod intents;
pub mod log;
pub mod loops;
pub mod many;
pub mod messages;
pub mod nodes;
pub mod notifications;
pub mod operations;
pub mod overview;
pub mod pages;
pub mod shares;
pub mod spending;
pub mod wakeups;
pub mod webhooks;

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use entente_domain::access::Policy;
use entente_domain::clock::{Clock, Timestamp};
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::{Chance, IntentId};
use entente_domain::loops::policy::LoopPolicy;
use entente_domain::refusal::{Code, Refusal};
use entente_runtime::deadlines;
use entente_runtime::metrics::Metrics;
pub use entente_store::Pool;
pub use entente_store::pool::PooledConnection;
use entente_store::{beginning, limits};
use sqlx::{AssertSqlSafe, PgConnection};

use crate::feed::Feed;
use crate::operations::Operations;
pub use channels::access::ChannelIntentCache;
pub use failure::AppError;
pub use feed::changes::StateChanges;
pub use hooks::Hooks;
pub use identity::agents::Beats;
pub use identity::authentication::TokenSecret;
pub use identity::caller::Caller;
pub use identity::epochs::StrictAgents;
pub use identity::grants::{Grant, Grants};
pub(crate) use identity::quotas::Place;
pub use identity::quotas::{BundlePlace, Exceeded, Quotas};
pub use identity::server_keys::ServerKeys;
pub use log::intent_tx::IntentTx;
pub use loops::LoopHolds;
pub use notifications::Notifications;
pub use shares::{LargeAnswer, OpenRequest, StreamPermit};
pub use spending::stops::Stops;
pub use spending::{cost_limits, costs, stops};
pub use webhooks::{WebhookSettings, Webhooks};

/// Configuration used by the operations.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Follows RFC-0021 to the letter (OI-2).
    pub strict: bool,
    /// Default access policy of new intents (RFC-0011).
    pub default_access: Policy,
    /// Event type of audited messages (OI-10.7.1).
    pub audit_event_type: String,
    /// Retention of messages after their channel closed; `None` keeps them for ever.
    pub message_retention: Option<Duration>,
    /// Retention of events under a checkpoint; `None` keeps them for ever.
    pub event_retention: Option<Duration>,
    /// Retention of costs in reports, and of past windows of budgets; `None` keeps them for ever.
    pub spend_retention: Option<Duration>,
    /// Whether this server indexes words and searches for them.
    pub search: bool,
    /// Policy for loops and storms of intents that set none.
    pub loops: LoopPolicy,
    /// How long an idempotency key is remembered.
    pub idempotency_window: Duration,
    /// Number of events after which a log gets an automatic checkpoint; `None` disables them (RFC-0019).
    pub checkpoint_every: Option<i64>,
    /// Whether API keys of an unusual form are looked up: only `entente dev` has such seeded keys.
    pub seeded_keys: bool,
    /// Webhook settings.
    pub webhooks: WebhookSettings,
    /// Secret that signs tokens of the form `principal.exp.sig`; `None` refuses such tokens.
    pub token_secret: Option<TokenSecret>,
}

/// Context of every operation: database, clock, randomness, feed and caches; cheap to clone.
#[derive(Clone)]
pub struct Ctx {
    /// PostgreSQL connection pool.
    pub pool: Pool,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Source of randomness.
    pub chance: Arc<dyn Chance>,
    /// Feed that publishes committed changes.
    pub feed: Arc<Feed>,
    /// Reactions of the protocols to each other's changes.
    pub hooks: Arc<Hooks>,
    /// Metrics registry.
    pub metrics: Metrics,
    /// Configuration.
    pub settings: Arc<Settings>,
    /// Cache of verified API keys.
    pub grants: Arc<Grants>,
    /// Cache of each channel's intent.
    pub channel_intents: Arc<ChannelIntentCache>,
    /// Heartbeats received and not yet written.
    pub beats: Arc<Beats>,
    /// Keys that the server signs with.
    pub server_keys: Arc<ServerKeys>,
    /// Last known version of each followed intent.
    pub state_changes: Arc<StateChanges>,
    /// State shared by everything that handles webhooks.
    pub webhooks: Arc<Webhooks>,
    /// State shared by everything that handles notifications of people.
    pub notifications: Arc<Notifications>,
    /// Copy of the agents whose writes have to name their epoch.
    pub strict_agents: Arc<StrictAgents>,
    /// Copy of the stops in force.
    pub stops: Arc<Stops>,
    /// Quotas of principals and teams, and their use at this server.
    pub quotas: Arc<Quotas>,
    /// Copy of the agents in loops and storms, which may not send as they like.
    pub loops: Arc<LoopHolds>,
    /// Group commit of operations on intents.
    pub operations: Arc<Operations>,
}

/// Context of a protocol's operations: the kernel's, to which it dereferences, and the protocol's own state. Cheap to
/// clone.
pub struct ProtocolCtx<S> {
    kernel: Arc<Ctx>,
    /// Settings and caches of the protocol.
    pub state: Arc<S>,
}

impl<S> ProtocolCtx<S> {
    /// Joins the two.
    #[must_use]
    pub fn new(kernel: Arc<Ctx>, state: Arc<S>) -> Self {
        Self { kernel, state }
    }

    /// Joins the two, for a hook, which gets the kernel's context from its caller.
    #[must_use]
    pub fn of(kernel: &Ctx, state: &Arc<S>) -> Self {
        Self::new(Arc::new(kernel.clone()), Arc::clone(state))
    }
}

impl<S> Clone for ProtocolCtx<S> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.kernel), Arc::clone(&self.state))
    }
}

impl<S> Deref for ProtocolCtx<S> {
    type Target = Ctx;

    fn deref(&self) -> &Self::Target {
        &self.kernel
    }
}

/// Error for a stored word that the domain does not recognise.
#[must_use]
pub fn unknown(what: &str, word: &str) -> AppError {
    AppError::Inconsistent(format!("stored {what} `{word}` is none"))
}

/// Result of an operation.
pub type Outcome<T> = Result<T, AppError>;

/// A PostgreSQL transaction.
pub type Tx = entente_store::pool::PooledTransaction;

impl Ctx {
    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Checks that the database is reachable and synchronises with its clock, which all servers share.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn ping(&self) -> Outcome<()> {
        // Acquire the connection first: waiting for one says nothing about the database's clock.
        let mut conn = self.pool.acquire().await?;
        let began = Instant::now();
        let theirs = sqlx::query_scalar!(
            r#"-- ping
         SELECT clock_timestamp() AS "now!""#
        )
        .fetch_one(&mut *conn)
        .await?;
        let took = began.elapsed();
        // PostgreSQL read its clock about half-way through the round trip.
        self.clock.set_by(theirs + took / 2, took);
        Ok(())
    }

    /// Begins a transaction that holds the lock of each of these intents.
    ///
    /// Every write to an intent takes its lock first, and takes several locks in one order. So an intent's
    /// log has no gaps, its marks follow it, and nothing deadlocks (ARCHITECTURE.md, "One order").
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn begin(&self, intents: &[IntentId]) -> Outcome<Tx> {
        self.begin_locked(intents.iter().copied().map(lock_key).collect()).await
    }

    /// Like [`Self::begin`], and also takes the lock of the caller's idempotency key, if any.
    ///
    /// Of two equal concurrent requests, one waits and then finds the stored response of the other.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub async fn begin_once(
        &self,
        intents: &[IntentId],
        caller: &Caller,
        once: Option<&Idempotency>,
    ) -> Outcome<Tx> {
        let mut locks: Vec<i64> = intents.iter().copied().map(lock_key).collect();
        locks.extend(once.map(|once| idempotency::lock_key(caller.principal(), &once.key)));
        self.begin_locked(locks).await
    }

    /// Begins a read-only transaction over one snapshot of the database, for example a log and its tail.
    ///
    /// However long it reads, it blocks no other transaction and waits for none.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub async fn snapshot(&self) -> Outcome<Tx> {
        deadlines::extend(limits::LONG_READ);
        Ok(self.pool.begin_unfenced(AssertSqlSafe(limits::begin_long_read())).await?)
    }

    /// Returns the refusal of an act of the caller as `speaker`, if the act is stopped, or if `speaker` has to name the
    /// epoch of its session and the current work does not.
    #[must_use]
    pub fn objection(&self, caller: &Caller, speaker: &str, intent: Option<IntentId>) -> Option<Refusal> {
        let stopped = self.stops.objection(caller, speaker, intent);
        stopped.or_else(|| self.strict_agents.objection(speaker))
    }

    /// As [`Self::objection`], for a message: also if the speaker is in a loop or a storm of messages, or its principal over
    /// its quota of stored bytes.
    #[must_use]
    pub fn objection_to_message(&self, caller: &Caller, speaker: &str, intent: IntentId) -> Option<Refusal> {
        let objection = self.objection(caller, speaker, Some(intent));
        let objection = objection.or_else(|| self.loops.objection(speaker, intent, &*self.clock));
        objection.or_else(|| self.quotas.objection(caller))
    }

    /// Begins a transaction that holds these advisory locks.
    ///
    /// # Errors
    /// As [`Self::begin_waiting`].
    pub async fn begin_locked(&self, locks: Vec<i64>) -> Outcome<Tx> {
        self.begin_waiting(locks, None).await
    }

    /// Like [`Self::begin_locked`]; waits up to `patience` for each lock, by default the connection's limit.
    ///
    /// # Errors
    /// A database error; a lock is not granted in time.
    pub async fn begin_waiting(&self, mut locks: Vec<i64>, patience: Option<Duration>) -> Outcome<Tx> {
        locks.sort_unstable();
        locks.dedup();
        Ok(self.pool.begin_with(&beginning::begin_with_locks(locks, patience)).await?)
    }

    /// Begins a transaction that waits at most `limits::AT_ONCE` for any lock.
    ///
    /// # Errors
    /// A database error.
    pub async fn begin_at_once(&self) -> Outcome<Tx> {
        Ok(self.pool.begin_with(&beginning::begin_at_once()).await?)
    }

    /// Begins a transaction that holds a lock during work on other connections.
    ///
    /// # Errors
    /// A database error.
    pub async fn begin_guard(&self) -> Outcome<Tx> {
        Ok(self.pool.begin_with(&beginning::begin_guard()).await?)
    }
}

/// Takes those of these advisory locks that are free, without waiting, and returns them.
///
/// # Errors
/// The database query fails.
pub async fn try_locks(conn: &mut PgConnection, locks: &[i64]) -> Outcome<HashSet<i64>> {
    let mut locks = locks.to_vec();
    locks.sort_unstable();
    locks.dedup();
    let held = sqlx::query_scalar!(
        r#"-- try_locks
         SELECT k AS "k!" FROM UNNEST($1::bigint[]) AS k WHERE pg_try_advisory_xact_lock(k)"#,
        &locks
    )
    .fetch_all(conn)
    .await?;
    Ok(held.into_iter().collect())
}

/// Returns PostgreSQL's version as a number: 150018 is 15.18.
///
/// # Errors
/// The database query fails.
pub async fn server_version(conn: &mut PgConnection) -> Outcome<i32> {
    let version = sqlx::query_scalar!(
        r#"-- server_version
         SELECT current_setting('server_version_num')::integer AS "version!""#
    )
    .fetch_one(conn)
    .await?;
    Ok(version)
}

/// Advisory lock of an intent: the random half of its id; a collision only costs a needless wait.
#[must_use]
pub fn lock_key(intent: IntentId) -> i64 {
    let (_, low) = intent.uuid().as_u64_pair();
    i64::from_ne_bytes(low.to_ne_bytes())
}

/// Runs CPU-bound work on a blocking thread, so that it holds up no other task.
///
/// # Errors
/// The work panics or is cancelled.
pub async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Outcome<T> {
    tokio::task::spawn_blocking(work).await.map_err(|e| AppError::Unavailable(e.to_string()))
}

/// Refusal for a missing row.
#[must_use]
pub fn not_found(noun: &str) -> AppError {
    AppError::Refused(Refusal::not_found(noun))
}

/// Refusal that needs no row to be read.
pub fn refuse(code: Code, message: impl Into<String>) -> AppError {
    AppError::Refused(Refusal::new(code, message))
}
