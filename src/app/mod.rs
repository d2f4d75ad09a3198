//! The deeds: every operation of the server, and all of its SQL.
//!
//! A deed is one short story in one transaction: may I? what is? what does the law say? make it so, say so, commit;
//! and then tell the feed. It begins and commits exactly once and never calls another deed. The row functions at the
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
pub mod failures;
pub mod fanout;
pub mod federation;
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
pub mod webhooks;
pub mod workers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use entente_core::access::Policy;
use entente_core::clock::{Clock, Timestamp};
use entente_core::federation::Federation;
use entente_core::idempotency::Idempotency;
use entente_core::ids::{Chance, IntentId};
use entente_core::refusal::{Code, Refusal};
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Transaction};

use crate::feed::Feed;
use crate::telemetry::Metrics;

pub use caller::{Caller, Grant, Grants};
pub use credentials::Provisioners;
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

/// Why a deed was not done.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The law refused it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database cannot be reached, or the server is stopping. Nothing is known to have been done.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// What it was judged by has changed before it was committed. Nothing was done; it is to be judged anew.
    #[error("what this was judged by has just changed")]
    Overtaken,
    /// What is stored is not what the law can have stored.
    #[error("inconsistent data: {0}")]
    Inconsistent(String),
    /// The database refused a statement: a defect.
    #[error(transparent)]
    Database(sqlx::Error),
}

impl From<sqlx::Error> for AppError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable(error.to_string()),
            // Class 08: connection; 53: resources (too many connections, disk full); 57P: stopping or starting;
            // 40: the transaction was rolled back and may be tried again; 25006: read-only while a standby takes over.
            sqlx::Error::Database(e)
                if e.code().is_some_and(|code| {
                    code.starts_with("08")
                        || code.starts_with("53")
                        || code.starts_with("57P")
                        || code.starts_with("40")
                        || code == "25006"
                }) =>
            {
                Self::Unavailable(error.to_string())
            }
            // A name in a path or a query that has a NUL: nothing that is stored can be called that.
            sqlx::Error::Database(e) if e.code().is_some_and(|code| code == "22021") => {
                Self::Refused(Refusal::new(
                    Code::NulCharacter,
                    "The request has a NUL character, which cannot be stored and is in no name. Remove it.",
                ))
            }
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                Self::Inconsistent(error.to_string())
            }
            _ => Self::Database(error),
        }
    }
}

impl From<serde_json::Error> for AppError {
    fn from(error: serde_json::Error) -> Self {
        Self::Inconsistent(error.to_string())
    }
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
        let began = Instant::now();
        let theirs = sqlx::query_scalar!(
            r#"-- ping
         SELECT clock_timestamp() AS "now!""#
        )
        .fetch_one(&self.pool)
        .await?;
        // It looked at its clock about half-way.
        self.clock.set_by(theirs + began.elapsed() / 2);
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
        Ok(self.pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?)
    }

    /// Begins a transaction that holds these locks.
    pub(crate) async fn begin_locked(&self, mut locks: Vec<i64>) -> Outcome<Tx> {
        locks.sort_unstable();
        locks.dedup();
        let list: Vec<String> = locks.iter().map(i64::to_string).collect();
        // One round trip for both. The locks are numbers; nothing a client wrote gets into this text. The rows of an
        // array come in its order, so the locks are taken in theirs.
        let statement = format!(
            "BEGIN; SELECT count(pg_advisory_xact_lock(k)::text) FROM unnest('{{{}}}'::bigint[]) AS k",
            list.join(",")
        );
        Ok(self.pool.begin_with(AssertSqlSafe(statement)).await?)
    }
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

/// Whether a transaction lost to another one and can be tried again at once, unlike when the database is away.
pub(crate) fn is_rolled_back(why: &str) -> bool {
    why.contains("deadlock detected")
}

/// What a missing row means to the caller.
pub(crate) fn not_found(noun: &str) -> AppError {
    AppError::Refused(Refusal::not_found(noun))
}

/// A refusal that was certain before any row was read.
pub(crate) fn refuse(code: Code, message: impl Into<String>) -> AppError {
    AppError::Refused(Refusal::new(code, message))
}
