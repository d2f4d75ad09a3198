//! The database when the server starts: it may be there later than the server.

use std::time::{Duration, Instant};

use sqlx::PgPool;
use tokio::time::sleep;
use tracing::info;

use super::StartError;
use crate::{app, db};

/// How long the database may take to be there when the server starts: in a composition both start together.
const DATABASE_WAIT: Duration = Duration::from_mins(1);

/// Waits for the database, and checks its version.
pub(super) async fn wait_for(pool: &PgPool) -> Result<(), StartError> {
    let deadline = Instant::now() + DATABASE_WAIT;
    loop {
        match pool.acquire().await {
            Ok(mut connection) => {
                let version = app::server_version(&mut connection).await?;
                return if version >= 150_000 { Ok(()) } else { Err(StartError::Version(version / 10_000)) };
            }
            Err(e @ (sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut)) if Instant::now() < deadline => {
                info!(error = %e, database = db::named(&pool.connect_options()), "waiting for the database");
                sleep(Duration::from_millis(500)).await;
            }
            Err(sqlx::Error::Database(e))
                if e.code().as_deref() == Some("57P03") && Instant::now() < deadline =>
            {
                info!("the database is starting");
                sleep(Duration::from_millis(500)).await;
            }
            Err(e) => return Err(StartError::Database(db::named(&pool.connect_options()), e)),
        }
    }
}
