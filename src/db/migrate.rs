//! Bringing the schema up to date: forward only, under an advisory lock that sqlx takes, so that several servers may
//! start at once.

use std::time::{Duration, Instant};

use sqlx::migrate::{Migrate as _, MigrateError, Migrator};
use sqlx::{Connection as _, Executor as _, PgPool};
use tokio::time::sleep;

use super::is_rolled_back;

/// The migrations, part of the binary.
pub static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// How long others who migrate, and deeds that hold what a migration changes, are waited for in all.
const PATIENCE: Duration = Duration::from_mins(10);

/// Between two attempts.
const REST: Duration = Duration::from_millis(500);

/// A migration takes as long as it takes. It does not wait long for a table, because everybody else waits behind it, and tries
/// again. A server that is stopped in the middle of it holds up the others' start for a minute at the most.
const LIMITS: &str = "SET statement_timeout = 0; SET lock_timeout = '5s';
    SET idle_in_transaction_session_timeout = '60s'; SET idle_session_timeout = '60s'";

/// Applies what is missing.
///
/// # Errors
/// The database cannot be reached, is older than 15, or has migrations that this binary does not know.
pub async fn run(pool: &PgPool) -> Result<(), MigrateError> {
    let began = Instant::now();
    loop {
        // A connection of its own, with limits of its own, which is closed afterwards.
        let mut connection = pool.acquire().await?.detach();
        connection.execute(LIMITS).await?;
        if connection.server_version_num().is_some_and(|version| version >= 170_000) {
            connection.execute("SET transaction_timeout = 0").await?;
        }
        let done = MIGRATIONS.run(&mut connection).await;
        // It lets go of the lock with the connection, when it has failed in the middle.
        connection.close().await?;
        match done {
            Err(failure) if gives_way(&failure) && began.elapsed() < PATIENCE => {
                tracing::info!(error = %failure, "the schema is in use; trying again");
                sleep(REST).await;
            }
            done => return done,
        }
    }
}

/// Whether it gave way to somebody else, and can be tried again.
fn gives_way(failure: &MigrateError) -> bool {
    match failure {
        MigrateError::Execute(e) | MigrateError::ExecuteMigration(e, _) => is_rolled_back(e),
        _ => false,
    }
}

/// The versions that were applied already.
///
/// # Errors
/// The database cannot be reached.
pub async fn applied(pool: &PgPool) -> Result<Vec<i64>, MigrateError> {
    let mut connection = pool.acquire().await?;
    connection.ensure_migrations_table(&MIGRATIONS.table_name).await?;
    let applied = connection.list_applied_migrations(&MIGRATIONS.table_name).await?;
    Ok(applied.into_iter().map(|migration| migration.version).collect())
}
