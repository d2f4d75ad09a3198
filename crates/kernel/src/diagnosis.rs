//! What an operator should know of the database before a server runs on it; `entente doctor` shows it. Reads settings
//! of PostgreSQL only, no table.

use entente_domain::clock::Timestamp;
use sqlx::PgConnection;

use super::Outcome;

/// The facts.
#[derive(Debug)]
pub struct Facts {
    /// PostgreSQL's version, such as `150018`.
    pub version: i32,
    /// How many connections it takes.
    pub max_connections: i32,
    /// How many it has.
    pub used_connections: i32,
    /// Whether it waits for the disk at all.
    pub fsync: bool,
    /// Whether a torn page can be repaired.
    pub full_page_writes: bool,
    /// What a commit waits for.
    pub synchronous_commit: String,
    /// The time there.
    pub now: Timestamp,
}

/// Reads the facts.
///
/// # Errors
/// The database.
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
