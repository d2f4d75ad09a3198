//! What a server notes about keys by itself: that they changed, when they were used, and the SHA-256 of those that an earlier
//! release made.

use std::collections::HashMap;

use entente_core::canonical::Digest;
use entente_core::clock::Timestamp;
use entente_core::ids::KeyId;

use crate::app::{Ctx, Outcome};

/// Forgets the keys that changed since the last call, on whichever server: run every few hundred milliseconds, and at
/// once after a change here.
///
/// # Errors
/// The database.
pub async fn refresh(ctx: &Ctx) -> Outcome<()> {
    let rows = sqlx::query!(
        "-- keys::refresh
         SELECT public_id, changed_seq FROM keys WHERE changed_seq > $1 ORDER BY changed_seq LIMIT 10000",
        ctx.grants.seen()
    )
    .fetch_all(&ctx.pool)
    .await?;
    let Some(last) = rows.last().map(|row| row.changed_seq) else { return Ok(()) };
    let changed: HashMap<_, _> = rows.into_iter().map(|row| (row.public_id, row.changed_seq)).collect();
    // In this order, so that who verifies a key meanwhile can tell that it may have changed.
    ctx.grants.set_seen(last);
    ctx.grants.forget(&changed);
    Ok(())
}

/// Writes down when keys were last used.
///
/// # Errors
/// The database.
pub async fn save_uses(ctx: &Ctx) -> Outcome<u64> {
    let (ids, times): (Vec<uuid::Uuid>, Vec<Timestamp>) = ctx.grants.take_uses().into_iter().unzip();
    if ids.is_empty() {
        return Ok(0);
    }
    let done = sqlx::query!(
        "-- keys::save_uses
         UPDATE keys SET last_used_at = u.at FROM UNNEST($1::uuid[], $2::timestamptz[]) AS u (id, at)
         WHERE keys.id = u.id AND (keys.last_used_at IS NULL OR keys.last_used_at < u.at)",
        &ids,
        &times
    )
    .execute(&ctx.pool)
    .await?;
    Ok(done.rows_affected())
}

/// Keeps the SHA-256 of a key that an earlier release made: the key is the same, so nobody has to hear of it.
pub(crate) async fn keep_digest(ctx: &Ctx, id: KeyId, digest: &Digest) -> Outcome<()> {
    sqlx::query!(
        "-- keys::keep_digest\n UPDATE keys SET secret_sha256 = $2 WHERE id = $1 AND secret_sha256 IS NULL",
        id.uuid(),
        digest.as_slice()
    )
    .execute(&ctx.pool)
    .await?;
    Ok(())
}
