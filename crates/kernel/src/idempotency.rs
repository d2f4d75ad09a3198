//! What was done under an idempotency key. Table `idempotency`; what a key is, is `entente_domain::idempotency`.
//!
//! A deed that creates something begins with [`Ctx::begin_once`](super::Ctx::begin_once), looks here for what was done
//! before, and keeps what it did in its own transaction.

use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::PgConnection;

use super::{Caller, Ctx, Outcome};

/// The advisory lock of a principal's key.
pub(crate) fn lock_key(principal: &str, key: &str) -> i64 {
    let digest = sha256(format!("idempotency\0{principal}\0{key}"));
    digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// What was done under the key, if the same was asked before.
///
/// # Errors
/// Something else was asked under the same key.
pub(crate) async fn find<T: DeserializeOwned>(
    conn: &mut PgConnection,
    caller: &Caller,
    once: Option<&Idempotency>,
) -> Outcome<Option<T>> {
    let Some(once) = once else { return Ok(None) };
    let row = sqlx::query!(
        "-- idempotency::find
         SELECT fingerprint, outcome FROM idempotency WHERE principal_id = $1 AND key = $2",
        caller.principal(),
        once.key
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    if row.fingerprint != once.fingerprint {
        return Err(Idempotency::mismatch().into());
    }
    Ok(Some(serde_json::from_str(&row.outcome)?))
}

/// Keeps what was done under the key.
pub(crate) async fn keep<T: Serialize>(
    conn: &mut PgConnection,
    caller: &Caller,
    once: Option<&Idempotency>,
    outcome: &T,
    now: Timestamp,
) -> Outcome<()> {
    let Some(once) = once else { return Ok(()) };
    sqlx::query!(
        "-- idempotency::keep
         INSERT INTO idempotency (principal_id, key, fingerprint, outcome, created_at) VALUES ($1, $2, $3, $4, $5)",
        caller.principal(),
        once.key,
        once.fingerprint.as_slice(),
        serde_json::to_string(outcome)?,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// One outcome that is or will be kept.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    /// Whose key it is.
    pub principal_id: String,
    /// The key.
    pub key: String,
    /// What was asked.
    pub fingerprint: Vec<u8>,
    /// What came of it, as JSON.
    pub outcome: String,
}

/// What was done under several keys of several principals: `(principal, key, fingerprint, outcome)` of those found.
pub(crate) async fn find_all(
    conn: &mut PgConnection,
    principals: &[&str],
    keys: &[&str],
) -> Outcome<Vec<Kept>> {
    let rows = sqlx::query_as!(
        Kept,
        "-- idempotency::find_all
         SELECT i.principal_id, i.key, i.fingerprint, i.outcome
         FROM UNNEST($1::text[], $2::text[]) AS k (principal_id, key)
         JOIN idempotency i ON i.principal_id = k.principal_id AND i.key = k.key",
        principals as &[&str],
        keys as &[&str]
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Forgets up to `limit` outcomes that are older than the window; answers with how many.
///
/// # Errors
/// The database.
pub async fn forget(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let before = ctx.now() - ctx.settings.idempotency_window;
    let done = sqlx::query!(
        "-- idempotency::forget
         DELETE FROM idempotency WHERE (principal_id, key) IN (
             SELECT principal_id, key FROM idempotency WHERE created_at < $1
             ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        before,
        limit
    )
    .execute(&ctx.pool)
    .await?;
    Ok(done.rows_affected())
}
