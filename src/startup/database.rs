//! Waiting for the database at the start, keeping a private one alive, and closing the connections at the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use entente_kernel::{AppError, Outcome};
use entente_store::Pool;
use entente_store::engine;
use entente_store::private::Private;
use futures_util::future::join_all;
use sqlx::postgres::PgConnectOptions;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::routes::Routes;
use super::{Server, StartError};
use crate::config::bus::BusConfig;

/// Time to wait for the database at the start: in a container composition both start together.
pub(super) const DATABASE_WAIT: Duration = Duration::from_mins(1);

/// Pause between attempts to reach the database.
const AGAIN: Duration = Duration::from_millis(500);

/// Time limit for closing a pool: its connections are notified, but may not answer.
const POOL_END: Duration = Duration::from_secs(5);

/// Time limit for statements in flight. Most end at once; under a lock they may take longer, and a stop does not.
const STATEMENTS_END: Duration = Duration::from_secs(2);

/// Waits for the statements in flight, before the threads end that their connections belong to.
pub(super) async fn settle(pools: [&Pool; 3]) {
    if timeout(STATEMENTS_END, join_all(pools.map(Pool::settled))).await.is_err() {
        warn!("some statements take long; they may be broken off");
    }
}

/// Closes the pools.
pub(super) async fn leave(pools: impl IntoIterator<Item = Pool>) {
    for pool in pools {
        if timeout(POOL_END, pool.close()).await.is_err() {
            warn!("some connections to the database do not answer and are left as they are");
        }
    }
}

/// Retries a step of the start while the database may still come back, since it may become unavailable
/// between any two steps.
///
/// The step must be idempotent, because a failed step may have taken effect.
///
/// # Errors
/// Errors of the step that a retry does not resolve.
pub(crate) async fn patiently<T>(mut step: impl AsyncFnMut() -> Outcome<T>) -> Outcome<T> {
    let deadline = Instant::now() + DATABASE_WAIT;
    loop {
        match step().await {
            Err(e @ (AppError::Unavailable(_) | AppError::RolledBack { .. }))
                if Instant::now() < deadline =>
            {
                info!(error = %e, "waiting for the database");
                sleep(AGAIN).await;
            }
            done => return done,
        }
    }
}

impl Server {
    /// Starts the private PostgreSQL again whenever it has died, until the server stops.
    pub fn keep(&self, private: Arc<Private>) {
        let stopping = self.tasks.stopping().clone();
        self.tasks.keep("private PostgreSQL", move || {
            let (private, stopping) = (Arc::clone(&private), stopping.clone());
            async move {
                let _stopped = stopping.run_until_cancelled(private.keep()).await;
            }
        });
    }
}

/// Checks the guarantees of the engine that a server on this bus relies on; without background tasks, as in most tests,
/// nothing is checked.
///
/// # Errors
/// It ignores something; the database cannot be reached.
pub(super) async fn examine_engine(routes: &Routes, bus: Option<&BusConfig>) -> Result<(), StartError> {
    let Some(bus) = bus else { return Ok(()) };
    let examined = engine::examine(&routes.session, *bus == BusConfig::Postgres).await;
    let examined =
        examined.map_err(|e| StartError::Database(entente_store::named(routes.session.options()), e))?;
    if examined.missing.is_empty() { Ok(()) } else { Err(StartError::Engine(examined.missing)) }
}

/// Whether the error is that of a database that is not there yet.
pub(super) fn is_passing(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut => true,
        // It is starting.
        sqlx::Error::Database(e) => e.code().as_deref() == Some("57P03"),
        _ => false,
    }
}

/// Pauses before the next attempt to reach the database.
pub(super) async fn rest(error: &sqlx::Error, database: &PgConnectOptions) {
    info!(error = %error, database = entente_store::named(database), "waiting for the database");
    sleep(AGAIN).await;
}

/// Waits for the database, and checks its version.
pub(super) async fn wait_for(pool: &Pool) -> Result<(), StartError> {
    let deadline = Instant::now() + DATABASE_WAIT;
    loop {
        match pool.acquire().await {
            Ok(mut connection) => {
                let version = entente_kernel::server_version(&mut connection).await?;
                return if version >= 150_000 { Ok(()) } else { Err(StartError::Version(version / 10_000)) };
            }
            Err(e) if is_passing(&e) && Instant::now() < deadline => rest(&e, &pool.connect_options()).await,
            Err(e) => return Err(StartError::Database(entente_store::named(&pool.connect_options()), e)),
        }
    }
}
