//! Facts about a database that an operator should know before a server runs on it (`entente doctor`), or a backup is
//! restored into it (`entente restore`). Reads only PostgreSQL's settings, statistics and catalog.

use entente_domain::clock::Timestamp;
use sqlx::PgConnection;

use super::Outcome;

/// Facts about the database server.
#[derive(Debug)]
pub struct Facts {
    /// PostgreSQL's version, such as `150018`.
    pub version: i32,
    /// Maximum number of connections.
    pub max_connections: i32,
    /// Number of client connections in use.
    pub used_connections: i32,
    /// Whether commits wait for the disk (`fsync`).
    pub fsync: bool,
    /// Whether torn pages can be repaired (`full_page_writes`).
    pub full_page_writes: bool,
    /// The setting `synchronous_commit`.
    pub synchronous_commit: String,
    /// The database's time.
    pub now: Timestamp,
}

/// Reads the facts.
///
/// # Errors
/// A database error.
pub async fn facts(conn: &mut PgConnection) -> Outcome<Facts> {
    let facts = sqlx::query_as!(
        Facts,
        r#"-- diagnosis::facts
        SELECT current_setting('server_version_num')::int AS "version!",
               current_setting('max_connections')::int AS "max_connections!",
               (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int AS "used_connections!",
               current_setting('fsync')::bool AS "fsync!",
               current_setting('full_page_writes')::bool AS "full_page_writes!",
               current_setting('synchronous_commit') AS "synchronous_commit!",
               clock_timestamp() AS "now!""#
    )
    .fetch_one(conn)
    .await?;
    Ok(facts)
}

/// Returns whether a database has no tables but PostgreSQL's own.
///
/// # Errors
/// A database error.
pub async fn is_empty(connection: &mut PgConnection) -> Outcome<bool> {
    let empty = sqlx::query_scalar!(
        r#"-- diagnosis::is_empty
        SELECT NOT EXISTS (
            SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
        ) AS "empty!""#
    )
    .fetch_one(connection)
    .await?;
    Ok(empty)
}
