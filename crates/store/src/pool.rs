//! The pool that the server's work takes its connections from.
//!
//! It is `sqlx`'s, which opens, tests and closes connections, with a list of ready ones in front of it: `sqlx` pings each
//! connection that comes back, a round trip to PostgreSQL for every read. A connection whose last statement is answered needs
//! no ping. It joins the list, and the next user takes it from there.
//!
//! A statement whose future is dropped half-way, without the mark of doubt, leaves its connection to the next user, whose
//! statement waits until PostgreSQL has ended the abandoned one.
//!
//! A connection belongs to the runtime that opened it. Each thread that serves requests has its own, and all share the connections.
//! When the server stops, these runtimes end one by one. So shortly before ([`Shared::leaving`]) each begins to use only connections
//! that it opens from then on, and those in use at that moment are waited for ([`Pool::settled`]).

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use entente_runtime::deadlines::doubtful;
use entente_runtime::fences;
use entente_runtime::metrics::PoolUsage;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{
    PgConnectOptions, PgConnection, PgListener, PgQueryResult, PgRow, PgStatement, PgTransactionManager,
    PgTypeInfo,
};
use sqlx::{
    AssertSqlSafe, Connection as _, Describe, Either, Execute, Executor, PgPool, Postgres, SqlSafeStr, SqlStr,
};
use sqlx_core::transaction::TransactionManager as _;
use tokio::runtime::{self, Handle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::beginning::Beginning;
use crate::confirmations::Confirmations;
use crate::lives;

/// A connection idle for longer is tested before use, so that a restart of PostgreSQL fails no request; a
/// connection in steady use is not, so that the hot path pays no extra round trip.
pub(crate) const TEST_AFTER_IDLE: Duration = Duration::from_millis(500);

/// Time after which a connection in steady use goes back to `sqlx`, which closes those that are too old.
const STEADY_USE: Duration = Duration::from_mins(1);

/// Time after which a connection that nobody needs is closed.
const NEEDED: Duration = Duration::from_mins(10);

/// A pool of connections; clones share it.
#[derive(Debug, Clone)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    connections: PgPool,
    /// One permit for each connection that may be in use. Closed with the pool.
    permits: Arc<Semaphore>,
    /// Time limit of a wait for a permit, and of one for a connection that is being opened.
    patience: Duration,
    /// Connections that can be used at once; those used last are at the back.
    ready: Mutex<VecDeque<Opened>>,
    /// The runtimes that connections belong to end soon.
    leaving: CancellationToken,
    /// Uses of connections that were taken before.
    before: TaskTracker,
    confirmations: Confirmations,
}

/// A connection of `sqlx`'s pool.
#[derive(Debug)]
struct Opened {
    connection: PoolConnection<Postgres>,
    /// When `sqlx` gave it out.
    taken_at: Instant,
    used_at: Instant,
    /// The runtime that opened it, if the pool was leaving already.
    runtime: Option<runtime::Id>,
}

/// The use of a connection, until it is dropped.
#[derive(Debug)]
struct Use {
    _permit: OwnedSemaphorePermit,
    /// Counts it among those from before the pool was leaving.
    before: Option<TaskTrackerToken>,
}

/// A connection in use. Dropping it returns it to its pool.
#[derive(Debug)]
pub struct PooledConnection {
    /// Present until it is dropped.
    opened: Option<Opened>,
    pool: Pool,
    /// Ends after the connection is back.
    _use: Use,
}

/// A transaction on a connection of a pool. Dropping it rolls it back, and makes the pool test the connection before its next
/// use, which another one serves meanwhile: a step that often ends without a change calls [`rollback`](Self::rollback).
#[derive(Debug)]
pub struct PooledTransaction {
    connection: PooledConnection,
    is_open: bool,
}

/// A connection for single statements that write, each of which commits by itself, unless they are fenced. Dropping it
/// without [`done`](Self::done) rolls the fenced ones back.
#[derive(Debug)]
pub enum WriteConnection {
    /// Each statement commits by itself.
    Plain(PooledConnection),
    /// A transaction that requires the fences.
    Fenced(PooledTransaction),
}

impl WriteConnection {
    /// Commits the fenced statements; plain ones have committed by themselves.
    ///
    /// # Errors
    /// The commit fails, or its outcome is unknown.
    pub async fn done(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Fenced(transaction) => transaction.commit().await,
        }
    }
}

impl Deref for WriteConnection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Plain(connection) => connection,
            Self::Fenced(transaction) => transaction,
        }
    }
}

impl DerefMut for WriteConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Plain(connection) => connection,
            Self::Fenced(transaction) => transaction,
        }
    }
}

/// A listener on a connection of a pool.
#[derive(Debug)]
pub struct PooledListener {
    listener: PgListener,
    _use: Use,
}

impl Pool {
    pub(crate) fn new(
        connections: PgPool,
        patience: Duration,
        leaving: &CancellationToken,
        confirmations: &Confirmations,
    ) -> Self {
        let options = connections.options();
        let most = usize::try_from(options.get_max_connections()).unwrap_or(Semaphore::MAX_PERMITS);
        Self(Arc::new(Shared {
            permits: Arc::new(Semaphore::new(most)),
            patience,
            connections,
            ready: Mutex::default(),
            leaving: leaving.clone(),
            before: TaskTracker::new(),
            confirmations: confirmations.clone(),
        }))
    }

    /// Returns how much of the pool is in use.
    #[must_use]
    pub fn usage(&self) -> PoolUsage {
        let most = usize::try_from(self.0.connections.options().get_max_connections()).unwrap_or(usize::MAX);
        let used = most.saturating_sub(self.0.permits.available_permits());
        let open = usize::try_from(self.0.connections.size()).unwrap_or(usize::MAX);
        PoolUsage { used, most, open }
    }

    /// Takes a connection, and waits for one if all are in use.
    ///
    /// # Errors
    /// None becomes free in time, the database cannot be reached, or the pool is closed.
    pub async fn acquire(&self) -> Result<PooledConnection, sqlx::Error> {
        let (opened, in_use) = self.take().await?;
        Ok(PooledConnection { opened: Some(opened), pool: self.clone(), _use: in_use })
    }

    /// Takes a connection for single statements that write. They need no transaction, unless the current work has fences
    /// ([`fences`]).
    ///
    /// # Errors
    /// As [`Self::begin_with`].
    pub async fn writing(&self) -> Result<WriteConnection, sqlx::Error> {
        Ok(if fences::current().is_empty() {
            WriteConnection::Plain(self.acquire().await?)
        } else {
            WriteConnection::Fenced(self.begin().await?)
        })
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// As [`Self::acquire`].
    pub async fn begin(&self) -> Result<PooledTransaction, sqlx::Error> {
        self.begin_with(&Beginning::default()).await
    }

    /// Begins a transaction in this way. The fences of the current work must hold, and hold until the transaction ends
    /// ([`fences`]).
    ///
    /// # Errors
    /// As [`Self::acquire`]; a lock is not granted in time; a fence is broken ([`is_fenced`](crate::is_fenced)).
    #[must_use]
    pub fn begin_with(&self, beginning: &Beginning) -> BoxFuture<'_, Result<PooledTransaction, sqlx::Error>> {
        let statement = beginning.sql(&fences::current());
        // Boxed, so that it does not enlarge the future of each operation.
        Box::pin(self.begin_unfenced(AssertSqlSafe(statement)))
    }

    /// Begins a transaction that only reads, with this statement, whatever fences the request names.
    ///
    /// # Errors
    /// As [`Self::acquire`]; the statement fails, or begins no transaction.
    pub async fn begin_unfenced(&self, statement: impl SqlSafeStr) -> Result<PooledTransaction, sqlx::Error> {
        let statement = statement.into_sql_str();
        let (opened, in_use) = self.take().await?;
        // `sqlx` rolls back a transaction that is dropped after it has begun. It leaves one open that is dropped while
        // it begins, and the statements of the connection's next user would not be committed.
        let mut beginning = Candidate(Some(opened));
        let begun = beginning.begin(statement).await;
        let connection = PooledConnection { opened: beginning.0.take(), pool: self.clone(), _use: in_use };
        begun?;
        Ok(PooledTransaction { connection, is_open: true })
    }

    /// Takes a connection out of the pool, which may open another one instead.
    ///
    /// # Errors
    /// As [`Self::acquire`].
    pub async fn detached(&self) -> Result<PgConnection, sqlx::Error> {
        let (opened, _use) = self.take().await?;
        Ok(opened.connection.detach())
    }

    /// Opens a listener, which keeps one of the pool's connections until it is dropped.
    ///
    /// # Errors
    /// As [`Self::acquire`].
    pub async fn listener(&self) -> Result<PooledListener, sqlx::Error> {
        let (opened, mut in_use) = self.take().await?;
        // It is used as long as the server runs, and nobody waits for its end.
        in_use.before = None;
        // Back to `sqlx`, so that one is free there for the listener, which connects again by itself.
        drop(opened);
        let listener = PgListener::connect_with(&self.0.connections).await?;
        Ok(PooledListener { listener, _use: in_use })
    }

    async fn take(&self) -> Result<(Opened, Use), sqlx::Error> {
        let permit = timeout(self.0.patience, Arc::clone(&self.0.permits).acquire_owned()).await;
        let permit = permit.map_err(|_late| sqlx::Error::PoolTimedOut)?;
        let permit = permit.map_err(|_closed| sqlx::Error::PoolClosed)?;
        // Counted before it asks, so that `settled` misses no use that may have an earlier connection.
        let counted = self.0.before.token();
        let in_use =
            Use { _permit: permit, before: Some(counted).filter(|_| !self.0.leaving.is_cancelled()) };
        let began = Instant::now();
        while let Some(candidate) = self.candidate() {
            if let Some(opened) = candidate.tested().await {
                return Ok((opened, in_use));
            }
            if began.elapsed() > self.0.patience {
                return Err(sqlx::Error::PoolTimedOut);
            }
        }
        // In a task: under load an opening takes longer than its user waits, and then serves the next one. Given up, it would be
        // begun again each time, and while all take so long nobody would get a connection.
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends by `sqlx`'s time limit, or when the pool is closed"
        )]
        let opening = tokio::spawn(self.clone().open(in_use));
        match timeout(self.0.patience, opening).await {
            Ok(Ok(opened)) => opened,
            // The runtime ends.
            Ok(Err(_cancelled)) => Err(sqlx::Error::PoolClosed),
            Err(_late) => Err(sqlx::Error::PoolTimedOut),
        }
    }

    /// Takes a connection of `sqlx`'s pool, which opens one if none is idle.
    async fn open(self, in_use: Use) -> Result<(Opened, Use), sqlx::Error> {
        // `sqlx` gives out only new ones then.
        let runtime = self.0.leaving.is_cancelled().then(|| Handle::current().id());
        // A pool that closes does not wait for a database that does not answer.
        let mut closing = self.0.connections.close_event();
        let (connection, now) = (closing.do_until(self.0.connections.acquire()).await??, Instant::now());
        Ok((Opened { connection, taken_at: now, used_at: now, runtime }, in_use))
    }

    /// Waits, once the pool is leaving, until no connection is in use that was taken before.
    pub async fn settled(&self) {
        self.0.before.close();
        self.0.before.wait().await;
    }

    /// Closes the pool, and waits until all of its connections are back and closed.
    pub async fn close(&self) {
        self.0.permits.close();
        let ready = std::mem::take(&mut *self.0.ready());
        close_all(ready);
        self.0.connections.close().await;
    }

    /// Returns the connection options.
    #[must_use]
    pub fn connect_options(&self) -> Arc<PgConnectOptions> {
        self.0.connections.connect_options()
    }

    /// Takes the connection that was used last, and closes those that nobody has needed for long, or, while the pool is leaving, that may
    /// belong to another runtime.
    fn candidate(&self) -> Option<Candidate> {
        let mut ready = self.0.ready();
        if !self.0.is_sure() {
            let all = std::mem::take(&mut *ready);
            drop(ready);
            // Those just used go back to `sqlx`, which tests them; the others may not even answer.
            close_all(all.into_iter().filter(Opened::is_idle));
            return None;
        }
        if self.0.leaving.is_cancelled() {
            let (mut others, own): (VecDeque<_>, VecDeque<_>) =
                ready.drain(..).partition(|opened| opened.runtime.is_none());
            *ready = own;
            let here = Some(Handle::current().id());
            let own = ready.iter().rposition(|opened| opened.runtime == here);
            let own = own.and_then(|place| ready.remove(place));
            // Room for a new one: each permit in use may need a connection, and those ready for other runtimes take up the rest.
            while own.is_none() && ready.len() > self.0.permits.available_permits() {
                others.extend(ready.pop_front());
            }
            drop(ready);
            close_all(others);
            return own.map(|opened| Candidate(Some(opened)));
        }
        let unneeded = ready.iter().take_while(|opened| opened.used_at.elapsed() > NEEDED).count();
        let unneeded: Vec<Opened> = ready.drain(..unneeded).collect();
        let last = ready.pop_back();
        drop(ready);
        close_all(unneeded);
        last.map(|opened| Candidate(Some(opened)))
    }
}

/// Closes connections, in the background.
fn close_all(all: impl IntoIterator<Item = Opened>) {
    all.into_iter().for_each(|opened| drop(Candidate(Some(opened))));
}

/// A connection that is closed when it is dropped, until it has passed its test: it may hang, or be in a transaction.
struct Candidate(Option<Opened>);

impl Candidate {
    /// Begins a transaction.
    async fn begin(&mut self, statement: SqlStr) -> Result<(), sqlx::Error> {
        match &mut self.0 {
            Some(opened) => PgTransactionManager::begin(&mut opened.connection, Some(statement)).await,
            None => Err(sqlx::Error::PoolClosed),
        }
    }

    /// Returns the connection if it can be used: it was used just now, or it answers.
    async fn tested(mut self) -> Option<Opened> {
        let opened = self.0.as_mut()?;
        if opened.is_idle() && lives(&mut opened.connection).await.is_err() {
            return None;
        }
        self.0.take()
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        if let Some(opened) = &mut self.0 {
            opened.connection.close_on_drop();
        }
    }
}

impl Opened {
    fn is_idle(&self) -> bool {
        self.used_at.elapsed() > TEST_AFTER_IDLE
    }
}

impl Shared {
    fn ready(&self) -> MutexGuard<'_, VecDeque<Opened>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether connections may be used without a test.
    fn is_sure(&self) -> bool {
        !self.confirmations.are_missing() && !doubtful()
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let Some(mut opened) = self.opened.take() else { return };
        let shared = &self.pool.0;
        // An abandoned statement sets the mark of doubt; an unsent rollback waits in the buffer.
        let is_clean = shared.is_sure() && !opened.connection.should_flush();
        let is_lasting = opened.runtime.is_some() || !shared.leaving.is_cancelled();
        if is_clean && is_lasting && opened.taken_at.elapsed() < STEADY_USE {
            opened.used_at = Instant::now();
            let mut ready = shared.ready();
            // Under the lock: a pool that closes meanwhile empties the list after it has closed the permits.
            if !shared.permits.is_closed() {
                ready.push_back(opened);
            }
        }
    }
}

impl Deref for PooledConnection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.opened.as_ref().expect("a connection is present until it is dropped").connection
    }
}

impl DerefMut for PooledConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.opened.as_mut().expect("a connection is present until it is dropped").connection
    }
}

impl PooledTransaction {
    /// Commits.
    ///
    /// # Errors
    /// The commit fails, or its outcome is unknown.
    pub async fn commit(mut self) -> Result<(), sqlx::Error> {
        PgTransactionManager::commit(&mut self.connection).await?;
        self.is_open = false;
        Ok(())
    }

    /// Rolls back.
    ///
    /// # Errors
    /// The database cannot be reached; then it rolls back by itself.
    pub async fn rollback(mut self) -> Result<(), sqlx::Error> {
        PgTransactionManager::rollback(&mut self.connection).await?;
        self.is_open = false;
        Ok(())
    }
}

impl Drop for PooledTransaction {
    fn drop(&mut self) {
        if self.is_open {
            // Sent with the test that the connection has to pass.
            PgTransactionManager::start_rollback(&mut self.connection);
        }
    }
}

impl Deref for PooledTransaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for PooledTransaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

impl Deref for PooledListener {
    type Target = PgListener;

    fn deref(&self) -> &PgListener {
        &self.listener
    }
}

impl DerefMut for PooledListener {
    fn deref_mut(&mut self) -> &mut PgListener {
        &mut self.listener
    }
}

/// A statement outside of a transaction, on any connection. Its rows are read before it returns the first one.
impl<'p> Executor<'p> for &'_ Pool {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, sqlx::Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        let steps = async move {
            let steps: Vec<_> = pool.acquire().await?.fetch_many(query).try_collect().await?;
            Ok::<_, sqlx::Error>(stream::iter(steps.into_iter().map(Ok)))
        };
        stream::once(steps).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, sqlx::Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        async move { pool.acquire().await?.fetch_optional(query).await }.boxed()
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, Result<PgStatement, sqlx::Error>>
    where
        'p: 'e,
    {
        let pool = self.clone();
        async move { pool.acquire().await?.prepare_with(sql, parameters).await }.boxed()
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<Postgres>, sqlx::Error>>
    where
        'p: 'e,
    {
        let pool = self.clone();
        async move { pool.acquire().await?.describe(sql).await }.boxed()
    }
}
