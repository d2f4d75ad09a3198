//! Bringing the schema up to date: forward only, one server at a time, so that several may start at once.
//!
//! Releases that follow each other run on one schema: a server comes up on the schema of a newer one, and goes on while a newer one
//! changes it (CONTRIBUTING.md, "A migration").

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sqlx::migrate::{Migrate as _, MigrateError, Migrator};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgPool, Row as _};
use tokio::time::sleep;

use super::is_rolled_back;

/// The migrations, part of the binary.
pub static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations");

/// Between two looks whether whoever else brings the schema up to date is ready.
const LOOK: Duration = Duration::from_millis(100);

/// The advisory lock of who brings the schema up to date: a number that nothing else locks by.
const LOCK: &str = "SELECT pg_try_advisory_lock(x'656e74656e7465'::bigint)";

/// Why the schema cannot be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// A migration is not what it was when it was applied.
    #[error(
        "migration {0} was changed after it was applied here. A released migration is never changed: run the release that applied \
         it, or put the file back as it was; what it should do now belongs in a new one"
    )]
    Changed(i64),
    /// The schema has lost what this release needs.
    #[error(
        "migration {floor} of a newer release has taken away what this one needs (the newest that it knows is {newest}). Run that \
         release, or a newer one"
    )]
    Contracted {
        /// The oldest migration that a release must know to run here.
        floor: i64,
        /// The newest that this one knows.
        newest: i64,
    },
    /// The database, or a migration.
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
/// See [`SchemaError`].
pub async fn run(pool: &PgPool) -> Result<(), SchemaError> {
    bring_up(&MIGRATIONS, pool).await
}

/// Applies what is missing of these migrations. What a newer release has applied besides is left as it is.
///
/// # Errors
/// As [`run`].
pub async fn bring_up(migrations: &Migrator, pool: &PgPool) -> Result<(), SchemaError> {
    let began = Instant::now();
    loop {
        // A connection of its own, with limits of its own, which is closed afterwards: its locks go with it, however this ends.
        let mut connection = pool.acquire().await.map_err(MigrateError::from)?.detach();
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
    // Asked for again and again rather than waited for: an index that is made while everybody works (CREATE INDEX CONCURRENTLY)
    // waits for every statement that has begun, and would wait for those who wait for it.
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

/// Removes indexes of this text that were begun and cut off: PostgreSQL leaves them behind, keeps them up to date, and never uses
/// them.
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

/// The oldest migration that a release must know to run on this schema: the last that took something away.
///
/// # Errors
/// The database.
pub async fn floor(connection: &mut PgConnection) -> Result<i64, MigrateError> {
    if !told(connection, "SELECT to_regclass('schema_floor') IS NOT NULL").await? {
        return Ok(0);
    }
    Ok(connection.fetch_one("SELECT version FROM schema_floor").await?.try_get(0)?)
}

async fn told(connection: &mut PgConnection, question: &'static str) -> Result<bool, MigrateError> {
    Ok(connection.fetch_one(question).await?.try_get(0)?)
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
pub async fn applied(pool: &PgPool) -> Result<BTreeSet<i64>, MigrateError> {
    applied_on(&mut *pool.acquire().await?).await
}

/// As [`applied`], on a connection.
///
/// # Errors
/// The database.
pub async fn applied_on(connection: &mut PgConnection) -> Result<BTreeSet<i64>, MigrateError> {
    // Whoever only looks makes no table.
    if !told(connection, "SELECT to_regclass('_sqlx_migrations') IS NOT NULL").await? {
        return Ok(BTreeSet::new());
    }
    let applied = connection.list_applied_migrations(&MIGRATIONS.table_name).await?;
    Ok(applied.into_iter().map(|migration| migration.version).collect())
}
