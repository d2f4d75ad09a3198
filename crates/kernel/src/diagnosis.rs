//! Database facts that an operator should check before running a server, shown by `entente doctor`. Reads
//! only PostgreSQL's settings and statistics, no table.

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
