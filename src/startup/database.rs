//! The database when the server starts, where it may be there later than the server, and when the server leaves it.

use std::time::{Duration, Instant};

use entente_kernel::{AppError, Outcome};
use sqlx::PgPool;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::StartError;

/// How long the database may take to be there when the server starts: in a composition both start together.
const DATABASE_WAIT: Duration = Duration::from_mins(1);

/// The pause before the database is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// How long a pool may take to be closed: its connections are told, and need not answer.
const POOL_END: Duration = Duration::from_secs(5);

/// Closes the pools.
pub(super) async fn leave(pools: impl IntoIterator<Item = PgPool>) {
    for pool in pools {
        if timeout(POOL_END, pool.close()).await.is_err() {
            warn!("some connections to the database do not answer and are left as they are");
        }
    }
}

/// Takes a step of the start again for as long as the database may still come back: it may go away between any two. A step may
/// have been taken although it failed, and must bear to be taken twice.
///
/// # Errors
/// Those of the step that another try does not mend.
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

/// Waits for the database, and checks its version.
pub(super) async fn wait_for(pool: &PgPool) -> Result<(), StartError> {
    let deadline = Instant::now() + DATABASE_WAIT;
    loop {
        match pool.acquire().await {
            Ok(mut connection) => {
                let version = entente_kernel::server_version(&mut connection).await?;
                return if version >= 150_000 { Ok(()) } else { Err(StartError::Version(version / 10_000)) };
            }
            Err(e @ (sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut)) if Instant::now() < deadline => {
                info!(error = %e, database = entente_store::named(&pool.connect_options()), "waiting for the database");
                sleep(AGAIN).await;
            }
            Err(sqlx::Error::Database(e))
                if e.code().as_deref() == Some("57P03") && Instant::now() < deadline =>
            {
                info!("the database is starting");
                sleep(AGAIN).await;
            }
            Err(e) => return Err(StartError::Database(entente_store::named(&pool.connect_options()), e)),
        }
    }
}
