//! Bringing the schema up to date: forward only, under an advisory lock that sqlx takes, so that several servers may
//! start at once.

use sqlx::PgPool;
use sqlx::migrate::{Migrate as _, MigrateError, Migrator};

/// The migrations, part of the binary.
pub static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// Applies what is missing.
///
/// # Errors
/// The database cannot be reached, is older than 15, or has migrations that this binary does not know.
pub async fn run(pool: &PgPool) -> Result<(), MigrateError> {
    MIGRATIONS.run(pool).await
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
