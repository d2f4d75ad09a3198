//! Responses stored under idempotency keys. Table `idempotency`; the format of a key is in
//! `entente_domain::idempotency`.
//!
//! An operation that creates something takes the lock of its key, looks up the stored response here, and stores its
//! own in the same transaction: [`IntentTx`](super::IntentTx) does all three. `find` refuses the key of another request; so do, for
//! each request of a batch, `IntentTx::repeated`, `crates/openintent/src/messages/writer/batch.rs` and `crates/arcp/src/jobs/writer.rs`.

use entente_domain::canonical::sha256;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::PgConnection;

use super::{Caller, Ctx, Outcome};

/// Advisory lock of a principal's idempotency key.
#[must_use]
pub fn lock_key(principal: &str, key: &str) -> i64 {
    let digest = sha256(format!("idempotency\0{principal}\0{key}"));
    digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// Returns the stored response of the same earlier request, if any.
///
/// # Errors
/// The key was used for a different request.
pub async fn find<T: DeserializeOwned>(
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

/// Stores the response under the key.
///
/// # Errors
/// A database error; the response cannot be serialized.
pub async fn keep<T: Serialize>(
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

/// A response stored, or to be stored, under a key.
#[derive(Debug, Clone)]
pub struct StoredResponse {
    /// Principal that used the key.
    pub principal_id: String,
    /// Idempotency key.
    pub key: String,
    /// Fingerprint of the request.
    pub fingerprint: Vec<u8>,
    /// Response as JSON.
    pub outcome: String,
}

impl StoredResponse {
    /// Builds the response to store under the caller's key.
    ///
    /// # Errors
    /// The response cannot be serialized.
    pub fn new<T: Serialize>(caller: &Caller, once: &Idempotency, response: &T) -> Outcome<Self> {
        Ok(Self {
            principal_id: caller.principal().to_owned(),
            key: once.key.clone(),
            fingerprint: once.fingerprint.to_vec(),
            outcome: serde_json::to_string(response)?,
        })
    }
}

/// Returns the stored responses of several keys of several principals.
///
/// # Errors
/// A database error.
pub async fn find_all(
    conn: &mut PgConnection,
    principals: &[&str],
    keys: &[&str],
) -> Outcome<Vec<StoredResponse>> {
    let rows = sqlx::query_as!(
        StoredResponse,
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

/// Deletes up to `limit` responses older than the window and returns their number.
///
/// # Errors
/// The database query fails.
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
