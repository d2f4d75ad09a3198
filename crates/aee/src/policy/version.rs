//! The version of the rules and schemas, table `aee_version`, and the lock that keeps them and the keys unchanged while
//! envelopes are accepted.
//!
//! Every change of a rule or schema raises the version in its own transaction.

use entente_kernel::Outcome;
use sqlx::PgConnection;

/// Returns the current version.
///
/// # Errors
/// Returns database errors.
pub async fn current(conn: &mut PgConnection) -> Outcome<i64> {
    let version = sqlx::query_scalar!(
        "-- policy_snapshot::version
         SELECT version FROM aee_version"
    )
    .fetch_one(conn)
    .await?;
    Ok(version)
}

/// Advisory lock over rules, schemas and keys: shared by transactions that accept envelopes, exclusive for those that
/// change them.
const HOLD: i64 = 0x0a33_0a33;

/// Keeps rules, schemas and keys unchanged until the transaction ends.
///
/// Read them in later statements, because a statement sees only the data committed when it begins.
pub(crate) async fn hold(conn: &mut PgConnection) -> Outcome<()> {
    sqlx::query!("-- policy_snapshot::hold\n SELECT pg_advisory_xact_lock_shared($1)", HOLD)
        .execute(conn)
        .await?;
    Ok(())
}

/// Waits for the transactions that accept envelopes, and blocks new ones until this change is committed.
pub(crate) async fn change(conn: &mut PgConnection) -> Outcome<()> {
    sqlx::query!("-- policy_snapshot::change\n SELECT pg_advisory_xact_lock($1)", HOLD).execute(conn).await?;
    Ok(())
}

/// Raises the version together with the transaction's other changes; returns the new version.
pub(crate) async fn bump(conn: &mut PgConnection) -> Outcome<i64> {
    change(conn).await?;
    let version = sqlx::query_scalar!(
        "-- policy_snapshot::bump
         UPDATE aee_version SET version = version + 1 RETURNING version"
    );
    Ok(version.fetch_one(conn).await?)
}
