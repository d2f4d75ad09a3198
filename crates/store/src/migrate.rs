//! Schema migrations: forward only and one server at a time, so that several servers may start at once.
//!
//! Consecutive releases share one schema: a server starts on the schema of a newer release, and keeps running
//! while a newer release changes it (CONTRIBUTING.md, "A migration").

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::Pool;
use sqlx::migrate::{Migrate as _, MigrateError, Migrator};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, Row as _};
use tokio::time::sleep;

use super::rolled_back;

/// Migrations embedded in the binary.
pub static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations");

/// Interval between attempts to get the migration lock.
const LOOK: Duration = Duration::from_millis(100);

/// Advisory lock held while migrating: a number that nothing else locks by.
const LOCK: &str = "SELECT pg_try_advisory_lock(x'656e74656e7465'::bigint)";

/// Reason that the schema cannot be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// A migration differs from the one that was applied.
    #[error(
        "migration {0} was changed after it was applied here. A released migration is never changed: run the release that applied \
         it, or put the file back as it was; what it should do now belongs in a new one"
    )]
    Changed(i64),
    /// A newer release has removed something from the schema that this release needs.
    #[error(
        "a newer release has removed what this one needs: the schema is for releases that know the migration {floor} (the newest \
         that this one knows is {newest}). Run that release, or a newer one"
    )]
    Contracted {
        /// Oldest migration that a release must know to run on this schema.
        floor: i64,
        /// Newest migration that this release knows.
        newest: i64,
    },
    /// The database or a migration failed.
    #[error(transparent)]
    Migrate(MigrateError),
}

impl From<MigrateError> for SchemaError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::VersionMismatch(version) => Self::Changed(version),
            other => Self::Migrate(other),
        }
    }
}

/// Total time to wait for other migrating servers, and for operations that lock tables that a migration changes.
const PATIENCE: Duration = Duration::from_mins(10);

/// Pause between two attempts.
const REST: Duration = Duration::from_millis(500);

/// Session limits of a migration: its statements may run without limit.
///
/// It does not wait long for a table lock, because all other users of the table queue up behind it; it tries
/// again instead. A server that is stopped in the middle delays the others' start by a minute at most.
const LIMITS: &str = "SET statement_timeout = 0; SET lock_timeout = '5s';
    SET idle_in_transaction_session_timeout = '60s'; SET idle_session_timeout = '60s'";

/// Applies the missing migrations.
///
/// # Errors
/// See [`SchemaError`].
pub async fn run(pool: &Pool) -> Result<(), SchemaError> {
    bring_up(&MIGRATIONS, pool).await
}

/// Applies the missing ones of these migrations; those that a newer release has applied besides stay
/// untouched.
///
/// # Errors
/// As [`run`].
pub async fn bring_up(migrations: &Migrator, pool: &Pool) -> Result<(), SchemaError> {
    let began = Instant::now();
    loop {
        // A separate connection with its own limits, closed afterwards: its locks go with it in every
        // outcome.
        let mut connection = pool.detached().await.map_err(MigrateError::from)?;
        let done = match limit(&mut connection).await {
            Ok(()) => bring_up_on(migrations, &mut connection).await,
            Err(failure) => Err(MigrateError::from(failure).into()),
        };
        connection.close().await.map_err(MigrateError::from)?;
        match done {
            Err(SchemaError::Migrate(failure)) if gives_way(&failure) && began.elapsed() < PATIENCE => {
                tracing::info!(error = %failure, "the schema is in use; trying again");
                sleep(REST).await;
            }
            done => return done,
        }
    }
}

async fn limit(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    connection.execute(LIMITS).await?;
    if connection.server_version_num().is_some_and(|version| version >= 170_000) {
        connection.execute("SET transaction_timeout = 0").await?;
    }
    Ok(())
}

async fn bring_up_on(migrations: &Migrator, connection: &mut PgConnection) -> Result<(), SchemaError> {
    // Polls instead of waiting for the lock: building an index on a live table (CREATE INDEX CONCURRENTLY)
    // waits for every running statement, so a statement that waits for this lock would deadlock with it.
    while !told(connection, LOCK).await? {
        sleep(LOOK).await;
    }
    let applied = applied_on(connection).await?;
    let newest = migrations.iter().map(|migration| migration.version).max().unwrap_or_default();
    let floor = floor(connection).await?;
    if floor > newest {
        return Err(SchemaError::Contracted { floor, newest });
    }
    let newer = applied.iter().filter(|version| !migrations.version_exists(**version)).count();
    if newer > 0 {
        tracing::info!(migrations = newer, "a newer release has changed the schema; this one runs on it");
    }
    for migration in migrations.iter().filter(|migration| migration.no_tx) {
        if !applied.contains(&migration.version) {
            clear(connection, migration.sql.as_str()).await?;
        }
    }
    let mut all = Migrator::with_migrations(migrations.iter().cloned().collect());
    all.set_ignore_missing(true);
    Ok(all.run(&mut *connection).await?)
}

/// Drops indexes in this migration's text whose creation was interrupted: PostgreSQL leaves them behind,
/// maintains them, and never uses them.
async fn clear(connection: &mut PgConnection, text: &str) -> Result<(), MigrateError> {
    let broken = connection
        .fetch_all(
            "SELECT c.relname::text, format('%I.%I', n.nspname, c.relname)
             FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE NOT i.indisvalid AND n.nspname = current_schema()",
        )
        .await?;
    for row in broken {
        let (name, quoted): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        if words.into_iter().any(|word| word == name) {
            tracing::info!(index = name, "an index that was never finished is made anew");
            connection.execute(AssertSqlSafe(format!("DROP INDEX CONCURRENTLY IF EXISTS {quoted}"))).await?;
        }
    }
    Ok(())
}

/// Returns the oldest migration that a release must know to run on this schema: the last one that removed
/// something.
///
/// # Errors
/// The database fails.
pub async fn floor(connection: &mut PgConnection) -> Result<i64, MigrateError> {
    if !told(connection, "SELECT to_regclass('schema_floor') IS NOT NULL").await? {
        return Ok(0);
    }
    Ok(connection.fetch_one("SELECT version FROM schema_floor").await?.try_get(0)?)
}

async fn told(connection: &mut PgConnection, question: &'static str) -> Result<bool, MigrateError> {
    Ok(connection.fetch_one(question).await?.try_get(0)?)
}

/// Returns whether the failure is a conflict with other work, so that another attempt may succeed.
fn gives_way(failure: &MigrateError) -> bool {
    match failure {
        MigrateError::Execute(e) | MigrateError::ExecuteMigration(e, _) => rolled_back(e).is_some(),
        _ => false,
    }
}

/// Returns the versions of the applied migrations.
///
/// # Errors
/// The database cannot be reached.
pub async fn applied(pool: &Pool) -> Result<BTreeSet<i64>, MigrateError> {
    applied_on(&mut *pool.acquire().await?).await
}

/// As [`applied`], on a given connection.
///
/// # Errors
/// The database fails.
pub async fn applied_on(connection: &mut PgConnection) -> Result<BTreeSet<i64>, MigrateError> {
    // A read-only check must not create the table.
    if !told(connection, "SELECT to_regclass('_sqlx_migrations') IS NOT NULL").await? {
        return Ok(BTreeSet::new());
    }
    let applied = connection.list_applied_migrations(&MIGRATIONS.table_name).await?;
    Ok(applied.into_iter().map(|migration| migration.version).collect())
}
