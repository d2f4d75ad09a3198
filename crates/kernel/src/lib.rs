//! Every operation of the server, and all of its SQL; and the feed, which tells followers what was committed.
//!
//! An operation is one short story in one transaction: may I? what is? what does the domain say? make it so, record it, commit;
//! and then tell the feed. It begins and commits exactly once and never calls another operation. The row functions at the
//! bottom of each file borrow a connection and never begin or commit. Nothing here knows HTTP.

pub mod access;
pub mod access_requests;
pub mod agents;
pub mod answers;
pub mod approvals;
pub mod arbitration;
pub mod asks;
pub mod assignments;
pub mod attachments;
pub mod audit;
pub mod authentication;
mod authority;
pub mod bridges;
pub mod buses;
pub mod caller;
pub mod chains;
pub mod channels;
pub mod checkpoints;
pub mod coordinators;
pub mod costs;
pub mod credentials;
pub mod deliveries;
pub mod departures;
pub mod diagnosis;
pub mod endpoints;
pub mod envelope_keys;
pub mod envelope_logs;
pub mod envelopes;
pub mod escalations;
pub mod events;
pub mod exports;
mod failure;
pub mod failures;
pub mod fanout;
pub mod federation;
pub mod feed;
pub mod governance;
pub mod graphs;
pub mod heartbeats;
pub mod idempotency;
pub mod identities;
pub mod intents;
pub mod inventory;
pub mod invocations;
pub mod jobs;
pub mod keys;
pub mod leases;
pub mod lines;
pub mod mailboxes;
mod many;
pub mod memory;
pub mod messages;
pub mod moments;
pub mod nodes;
pub mod overview;
pub mod pages;
pub mod pairs;
pub mod pending;
pub mod people;
pub mod permits;
pub mod places;
pub mod plans;
pub mod portfolios;
pub mod post;
pub mod principals;
pub mod proofs;
pub mod quotas;
pub mod receipts;
pub(crate) mod redactions;
pub mod refused;
pub mod refutations;
pub mod replays;
pub mod retry_policies;
mod rounds;
pub mod rulebook;
pub mod rules;
pub mod schemas;
pub mod seats;
pub mod seeds;
pub mod sends;
pub mod server_keys;
pub mod sessions;
pub mod shares;
pub mod streams;
pub mod suspensions;
pub mod tasks;
pub mod tool_credentials;
pub mod tool_grants;
pub mod traces;
pub mod triggers;
pub mod turns;
pub mod turnstile;
pub mod vaults;
pub mod visits;
pub(crate) mod voices;
pub mod webhooks;
pub mod workers;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use entente_domain::access::Policy;
use entente_domain::clock::{Clock, Timestamp};
use entente_domain::federation::Federation;
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::{Chance, IntentId};
use entente_domain::refusal::{Code, Refusal};
use entente_runtime::deadlines;
use entente_runtime::metrics::Metrics;
use entente_store::limits;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Transaction};

use crate::feed::Feed;
pub use caller::{Caller, Grant, Grants};
pub use credentials::Provisioners;
pub use failure::AppError;
pub use heartbeats::Beats;
pub use quotas::Quotas;
pub use server_keys::ServerKeys;
pub use shares::{LargeAnswer, OpenRequest, StreamPermit};
pub use turns::Turns;
pub use vaults::VaultSettings;
pub use visits::Homes;
pub use webhooks::{WebhookSettings, Webhooks};

/// What the deeds need to know of the configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// RFC-0021 to the letter (contract 2).
    pub strict: bool,
    /// To whom a new intent is open that says nothing of it (RFC-0011).
    pub default_access: Policy,
    /// The event type of audited messages (contract 10.7).
    pub audit_event_type: String,
    /// How long messages are kept after their channel closed; `None` for ever.
    pub message_retention: Option<Duration>,
    /// How long an idempotency key is remembered.
    pub idempotency_window: Duration,
    /// After how many events a log gets a checkpoint by itself; `None` never (RFC-0019).
    pub checkpoint_every: Option<i64>,
    /// Whether keys that are not of the usual form are looked up: only `entente dev` has such, seeded ones.
    pub seeded_keys: bool,
    /// What the operator says about webhooks.
    pub webhooks: WebhookSettings,
    /// What the operator says about jobs.
    pub jobs: jobs::JobSettings,
    /// What the operator says about sessions.
    pub sessions: sessions::SessionSettings,
    /// What the operator says about envelopes.
    pub post: post::PostSettings,
    /// What the operator says about binding moments.
    pub moments: moments::MomentSettings,
    /// Which other servers there are; `None` when nothing is federated.
    pub federation: Option<Federation>,
    /// What the operator says about vaults and tools.
    pub vaults: VaultSettings,
}

/// What every deed is handed: the database, time, chance and the feed. Cheap to clone.
#[derive(Clone)]
pub struct Ctx {
    /// The database.
    pub pool: PgPool,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where chance comes from.
    pub chance: Arc<dyn Chance>,
    /// Where commits are told.
    pub feed: Arc<Feed>,
    /// What is counted.
    pub metrics: Metrics,
    /// What was configured.
    pub settings: Arc<Settings>,
    /// The keys that were verified.
    pub grants: Arc<Grants>,
    /// Which intent each channel belongs to.
    pub homes: Arc<Homes>,
    /// Heartbeats that were heard and not yet written.
    pub beats: Arc<Beats>,
    /// What the server signs with.
    pub server_keys: Arc<ServerKeys>,
    /// The last known version of intents that are followed.
    pub turns: Arc<Turns>,
    /// What all that has to do with webhooks shares.
    pub webhooks: Arc<Webhooks>,
    /// What senders of envelopes have spent of their priorities.
    pub quotas: Arc<Quotas>,
    /// Who makes credentials for jobs.
    pub provisioners: Arc<Provisioners>,
    /// What is remembered of the rules and schemas of envelopes.
    pub rulebook: Arc<rulebook::Shelf>,
    /// The keys that have signed envelopes lately.
    pub envelope_keys: Arc<envelope_keys::Ring>,
}

/// A stored word that the law does not know.
pub(crate) fn unknown(what: &str, word: &str) -> AppError {
    AppError::Inconsistent(format!("stored {what} `{word}` is none"))
}

/// What a deed answers with.
pub type Outcome<T> = Result<T, AppError>;

/// A transaction.
pub type Tx = Transaction<'static, Postgres>;

impl Ctx {
    /// The time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Asks the database whether it is there, and what time it is: the clock of all servers is its.
    ///
    /// # Errors
    /// It is not.
    pub async fn ping(&self) -> Outcome<()> {
        // The connection first: how long one had to be waited for says nothing about the time.
        let mut conn = self.pool.acquire().await?;
        let began = Instant::now();
        let theirs = sqlx::query_scalar!(
            r#"-- ping
         SELECT clock_timestamp() AS "now!""#
        )
        .fetch_one(&mut *conn)
        .await?;
        let took = began.elapsed();
        // It looked at its clock about half-way.
        self.clock.set_by(theirs + took / 2, took);
        Ok(())
    }

    /// Begins a transaction that holds the lock of each of these intents. Everything that writes to an intent holds
    /// its lock, takes it before its first write, and takes several in one order: so a line has no gaps, transactions'
    /// numbers agree with every line's order, and nothing deadlocks (ARCHITECTURE.md, "One order").
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn begin(&self, intents: &[IntentId]) -> Outcome<Tx> {
        self.begin_locked(intents.iter().copied().map(lock_key).collect()).await
    }

    /// As [`Self::begin`], and holds the lock of the caller's idempotency key, if there is one: of two equal requests
    /// at the same time one waits and then finds what the other did.
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

    /// Begins a transaction that sees one moment of the database and changes nothing: a log and where its line ends,
    /// for example. Nobody waits for it, however long it reads, and it waits for nobody.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(crate) async fn snapshot(&self) -> Outcome<Tx> {
        deadlines::extend(limits::LONG_READ);
        Ok(self.pool.begin_with(AssertSqlSafe(limits::begin_long_read())).await?)
    }

    /// Begins a transaction that holds these locks.
    pub(crate) async fn begin_locked(&self, locks: Vec<i64>) -> Outcome<Tx> {
        self.begin_waiting(locks, None).await
    }

    /// As [`Self::begin_locked`], waiting so long for each lock; else as long as the connection does.
    pub(crate) async fn begin_waiting(&self, mut locks: Vec<i64>, patience: Option<Duration>) -> Outcome<Tx> {
        locks.sort_unstable();
        locks.dedup();
        let statement = limits::begin_with_locks(&locks, patience);
        Ok(self.pool.begin_with(AssertSqlSafe(statement)).await?)
    }

    /// Begins a transaction that waits for nobody: what somebody else has locked, it fails of.
    pub(crate) async fn begin_at_once(&self) -> Outcome<Tx> {
        Ok(self.pool.begin_with(AssertSqlSafe(limits::begin_at_once())).await?)
    }

    /// Begins a transaction that holds a lock while something is done beside it, on other connections.
    pub(crate) async fn begin_guard(&self) -> Outcome<Tx> {
        Ok(self.pool.begin_with(AssertSqlSafe(limits::begin_guard())).await?)
    }
}

/// Those of these advisory locks that were free, and are held now; nobody is waited for.
///
/// # Errors
/// The database.
pub(crate) async fn try_locks(conn: &mut PgConnection, locks: &[i64]) -> Outcome<HashSet<i64>> {
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

/// The database's version as PostgreSQL counts it: 150018 is 15.18.
///
/// # Errors
/// The database.
pub async fn server_version(conn: &mut PgConnection) -> Outcome<i32> {
    let version = sqlx::query_scalar!(
        r#"-- server_version
         SELECT current_setting('server_version_num')::integer AS "version!""#
    )
    .fetch_one(conn)
    .await?;
    Ok(version)
}

/// The advisory lock of an intent: the half of its id that is chance. Two intents that share one only wait for each
/// other for nothing.
pub(crate) fn lock_key(intent: IntentId) -> i64 {
    let (_, low) = intent.uuid().as_u64_pair();
    i64::from_ne_bytes(low.to_ne_bytes())
}

/// Does work that takes a core for a while where nobody else waits for that.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Outcome<T> {
    tokio::task::spawn_blocking(work).await.map_err(|e| AppError::Unavailable(e.to_string()))
}

/// What a missing row means to the caller.
pub(crate) fn not_found(noun: &str) -> AppError {
    AppError::Refused(Refusal::not_found(noun))
}

/// A refusal that was certain before any row was read.
pub(crate) fn refuse(code: Code, message: impl Into<String>) -> AppError {
    AppError::Refused(Refusal::new(code, message))
}
