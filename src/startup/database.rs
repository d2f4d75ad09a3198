//! Waiting for the database at the start, and closing its connections at the end.

use std::time::{Duration, Instant};

use entente_kernel::{AppError, Outcome};
use sqlx::PgPool;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::StartError;

/// Time to wait for the database at the start: in a container composition both start together.
const DATABASE_WAIT: Duration = Duration::from_mins(1);

/// Pause between attempts to reach the database.
const AGAIN: Duration = Duration::from_millis(500);

/// Time limit for closing a pool: its connections are notified, but may not answer.
const POOL_END: Duration = Duration::from_secs(5);

/// Closes the pools.
pub(super) async fn leave(pools: impl IntoIterator<Item = PgPool>) {
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
