//! Bringing the schema up to date: forward only, under an advisory lock that sqlx takes, so that several servers may
//! start at once.

use sqlx::PgPool;
use sqlx::migrate::{MigrateError, Migrator};

/// The migrations, part of the binary.
pub static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// Applies what is missing.
///
/// # Errors
/// The database cannot be reached, is older than 15, or has migrations that this binary does not know.
pub async fn run(pool: &PgPool) -> Result<(), MigrateError> {
    MIGRATIONS.run(pool).await
}
