//! Writes table `keys`, for `keys.rs`, `people.rs` and `seeds.rs`.

use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::{Dialect, Key};
use entente_domain::identity::people::BROWSER;
use entente_domain::ids::KeyId;
use sqlx::PgConnection;

use crate::identity::authentication::Hashed;
use crate::{Ctx, Outcome};

/// Records when keys were last used.
///
/// # Errors
/// The database query fails.
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

pub(crate) async fn insert(
    conn: &mut PgConnection,
    key: &Key,
    hashed: &Hashed,
    changed_seq: i64,
) -> Outcome<()> {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    sqlx::query!(
        "-- keys::insert
         INSERT INTO keys (id, public_id, principal_id, secret_hash, label, scopes, act_as, dialect, rate_per_second,
                           created_by, created_at, expires_at, rotated_from, changed_seq, secret_sha256, basis,
                           let_in_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
        key.id.uuid(),
        key.public_id,
        key.principal_id,
        hashed.argon2,
        key.label,
        &scopes as &[&str],
        &key.act_as,
        key.dialect.map(Dialect::as_str),
        key.rate_per_second.and_then(|rate| i32::try_from(rate).ok()),
        key.created_by,
        key.created_at,
        key.expires_at,
        key.rotated_from.map(KeyId::uuid),
        changed_seq,
        hashed.sha256.as_slice(),
        key.authority.as_ref().map(|one| one.basis.as_str()),
        key.authority.as_ref().and_then(|one| one.let_in_by.as_deref())
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores the SHA-256 of a key made by an earlier release; the key is unchanged, so no cache is invalidated.
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

pub(super) async fn end_key(
    conn: &mut PgConnection,
    id: KeyId,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    changed_seq: i64,
) -> Outcome<()> {
    sqlx::query!(
        "-- keys::end
         UPDATE keys SET expires_at = $2, revoked_at = $3, changed_seq = $4 WHERE id = $1",
        id.uuid(),
        expires_at,
        revoked_at,
        changed_seq
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Revokes the key of a browser's login; returns the person whose login it was, or `None` if it has ended before.
pub(crate) async fn end_login(
    conn: &mut PgConnection,
    id: KeyId,
    now: Timestamp,
    changed_seq: i64,
) -> Outcome<Option<String>> {
    let ended = sqlx::query_scalar!(
        "-- keys::end_login
         UPDATE keys SET revoked_at = $2, changed_seq = $3
         WHERE id = $1 AND label = $4 AND revoked_at IS NULL RETURNING principal_id",
        id.uuid(),
        now,
        changed_seq,
        BROWSER
    );
    Ok(ended.fetch_optional(conn).await?)
}

pub(crate) async fn end_labelled(
    conn: &mut PgConnection,
    principal_id: &str,
    label: &str,
    now: Timestamp,
    changed_seq: i64,
) -> Outcome<Option<KeyId>> {
    let ended = sqlx::query_scalar!(
        "-- keys::end_labelled
         UPDATE keys SET revoked_at = $3, changed_seq = $4
         WHERE principal_id = $1 AND label = $2 AND revoked_at IS NULL RETURNING id",
        principal_id,
        label,
        now,
        changed_seq
    );
    Ok(ended.fetch_all(conn).await?.into_iter().max().map(KeyId::from))
}
