//! API keys: creation, rotation and revocation. Table `keys`. `authentication.rs` verifies presented keys,
//! `seeds.rs` creates the system's own, `keys/changes.rs` watches for changes on other servers,
//! `keys/writes.rs` writes the rows.

mod changes;
mod writes;

use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::authority::{Authority, Basis};
use entente_domain::identity::keys as domain;
use entente_domain::identity::keys::{Dialect, Key, KeyAsk, Presented, Scope};
use entente_domain::identity::people::{check_label, may_let_in};
use entente_domain::identity::principals::PrincipalKind;
use entente_domain::ids::{IntentId, KeyId};
use entente_domain::log::events::{Draft, Kind as EventKind};
use entente_domain::refusal::Code;
use serde_json::json;
use sqlx::PgConnection;

use crate::identity::authentication::{hash, is_seeded};
pub use crate::identity::keys::changes::refresh;
use crate::identity::keys::writes::end_key;
pub use crate::identity::keys::writes::save_uses;
pub(crate) use crate::identity::keys::writes::{end_labelled, end_login, insert, keep_digest};
use crate::identity::principals;
use crate::{AppError, Caller, Ctx, IntentTx, Outcome, not_found, unknown};

/// Default number of seconds that an old key keeps working after its rotation.
pub const ROTATION_OVERLAP_SECONDS: u32 = 24 * 3_600;

/// A new key: its record, and the secret, which is shown only this once.
#[derive(Debug)]
pub struct NewKey {
    /// The record.
    pub key: Key,
    /// The secret key; it is not stored, so a repeated request returns only the record.
    pub secret: Option<Secret>,
}

/// A key in clear text; its `Debug` output hides it.
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Creates a key for a principal; a key made for another person gives no right to decide for that person.
///
/// # Errors
/// The caller lacks the scope `admin` or the power to make such a key, or presents an access token; the principal does
/// not exist; the request is invalid.
pub async fn create(
    ctx: &Ctx,
    caller: &Caller,
    principal_id: &str,
    ask: KeyAsk,
    once: Option<&Idempotency>,
) -> Outcome<NewKey> {
    caller.require(Scope::Admin)?;
    caller.require_no_token()?;
    caller.grant.key.may_make(&ask, principal_id)?;
    let presented = Presented::mint(&*ctx.chance);
    let hashed = hash(&presented.reveal())?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    let whom = principals::find(work.conn(), principal_id).await?.ok_or_else(|| not_found("principal"))?;
    may_let_in(caller.grant.kind, whom.kind, ask.scopes.as_deref())?;
    check_label(whom.kind, ask.label.as_deref())?;
    if let Some(key) = work.repeated()? {
        return Ok(NewKey { key, secret: None });
    }
    let now = work.now();
    let id = KeyId::mint(now, &*ctx.chance);
    let mut key =
        domain::create(ask, presented.public_id.clone(), principal_id, caller.principal(), id, now)?;
    key.authority = (whom.kind == PrincipalKind::Human).then(|| caller.hands_on(principal_id));
    let payload = json!({
        "key_id": key.id, "principal_id": key.principal_id, "scopes": key.scopes, "act_as": key.act_as,
        "authority": key.authority,
    });
    work.record(Draft::of(EventKind::KeyCreated, caller.principal(), payload));
    let (conn, log) = work.parts();
    insert(conn, &key, &hashed, log.tail.seq).await?;
    let key = work.finish(key).await?;
    Ok(NewKey { key, secret: Some(Secret(presented.reveal())) })
}

/// Replaces a key by a new one with the same powers.
///
/// The old key keeps working for `overlap_seconds`. A key may rotate itself; an admin may rotate any that is
/// not stronger.
///
/// # Errors
/// The key does not exist, is no longer in force, or belongs to another principal; the caller presents an access token.
pub async fn rotate(
    ctx: &Ctx,
    caller: &Caller,
    id: KeyId,
    overlap_seconds: u32,
    once: Option<&Idempotency>,
) -> Outcome<NewKey> {
    caller.require_no_token()?;
    let presented = Presented::mint(&*ctx.chance);
    let hashed = hash(&presented.reveal())?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    let Found { key: old, kind, .. } = reachable(work.conn(), caller, id).await?;
    caller.require_power_over(&old)?;
    may_let_in(caller.grant.kind, kind, Some(&old.scopes))?;
    if let Some(key) = work.repeated()? {
        return Ok(NewKey { key, secret: None });
    }
    let now = work.now();
    if !old.in_force(now) {
        let message = "This key is revoked or expired. Make a new one instead.";
        return Err(crate::refuse(Code::Unprocessable, message));
    }
    let overlap_end = plus_seconds(now, overlap_seconds);
    let end = old.expires_at.map_or(overlap_end, |end| end.min(overlap_end));
    let itself = old.id == caller.grant.key.id;
    let handed = (kind == PrincipalKind::Human).then(|| caller.hands_on(&old.principal_id));
    let key = Key {
        id: KeyId::mint(now, &*ctx.chance),
        public_id: presented.public_id.clone(),
        created_by: caller.principal().to_owned(),
        created_at: now,
        rotated_from: Some(old.id),
        last_used_at: None,
        // A caller that rotates another key learns the new secret, so the key's basis changes.
        authority: if itself { old.authority.clone() } else { handed },
        ..old
    };
    let payload = json!({
        "key_id": key.id, "principal_id": key.principal_id, "rotated_from": id, "old_key_ends_at": end,
        "authority": key.authority,
    });
    work.record(Draft::of(EventKind::KeyRotated, caller.principal(), payload));
    let (conn, log) = work.parts();
    insert(conn, &key, &hashed, log.tail.seq).await?;
    end_key(conn, id, Some(end), None, log.tail.seq).await?;
    let key = work.finish(key).await?;
    forget(ctx).await;
    Ok(NewKey { key, secret: Some(Secret(presented.reveal())) })
}

/// Revokes a key of the caller's principal, or for an admin any, at once and on every server.
///
/// Repeating it changes nothing.
///
/// # Errors
/// The key does not exist or belongs to another principal.
pub async fn revoke(ctx: &Ctx, caller: &Caller, id: KeyId) -> Outcome<Key> {
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    let key = reachable(work.conn(), caller, id).await?.key;
    if key.revoked_at.is_some() {
        return Ok(key);
    }
    let now = work.now();
    let payload = json!({ "key_id": key.id, "principal_id": key.principal_id });
    work.record(Draft::of(EventKind::KeyRevoked, caller.principal(), payload));
    let (conn, log) = work.parts();
    end_key(conn, id, key.expires_at, Some(now), log.tail.seq).await?;
    work.commit().await?;
    forget(ctx).await;
    Ok(Key { revoked_at: Some(now), ..key })
}

/// Drops changed keys from the cache here; the commit has woken the other servers' watches.
///
/// If this fails, the watch of this server retries shortly.
async fn forget(ctx: &Ctx) {
    if let Err(e) = refresh(ctx).await {
        tracing::warn!(error = %e, "keys that changed are not forgotten yet");
    }
}

struct Row {
    id: uuid::Uuid,
    public_id: String,
    principal_id: String,
    secret_hash: String,
    secret_sha256: Option<Vec<u8>>,
    label: Option<String>,
    scopes: Vec<String>,
    act_as: Vec<String>,
    dialect: Option<String>,
    rate_per_second: Option<i32>,
    created_by: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    rotated_from: Option<uuid::Uuid>,
    changed_seq: i64,
    last_used_at: Option<Timestamp>,
    basis: Option<String>,
    let_in_by: Option<String>,
    kind: String,
}

/// Loads whole keys with the kinds of their principals: takes the query's name and the text after the `FROM` clause.
macro_rules! select {
    ($name:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT k.id, k.public_id, k.principal_id, k.secret_hash, k.secret_sha256, k.label, k.scopes, k.act_as,
                    k.dialect, k.rate_per_second, k.created_by, k.created_at, k.expires_at, k.revoked_at,
                    k.rotated_from, k.last_used_at, k.changed_seq, k.basis, k.let_in_by, p.kind
             FROM keys k JOIN principals p ON p.id = k.principal_id " + $rest
            $(, $argument)*
        )
    };
}

/// Lists up to `limit` keys of a principal after `after`, oldest first; anyone may list their own.
///
/// # Errors
/// The caller lacks the scope `admin` to list another principal's keys; the principal does not exist.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    principal_id: &str,
    after: Option<KeyId>,
    limit: u32,
) -> Outcome<Vec<Key>> {
    if principal_id != caller.principal() {
        caller.require(Scope::Admin)?;
    }
    let mut connection = ctx.pool.acquire().await?;
    principals::find(&mut connection, principal_id).await?.ok_or_else(|| not_found("principal"))?;
    let rows = select!(
        "keys::list",
        "WHERE k.principal_id = $1 AND ($2::uuid IS NULL OR k.id > $2) ORDER BY k.id LIMIT $3",
        principal_id,
        after.map(KeyId::uuid),
        i64::from(limit)
    )
    .fetch_all(&mut *connection)
    .await?;
    rows.into_iter().map(|row| Found::try_from(row).map(|found| found.key)).collect()
}

/// A key with the data needed only for authentication.
pub(crate) struct Found {
    /// The record.
    pub key: Key,
    /// Argon2id hash in PHC format.
    pub secret_hash: String,
    /// SHA-256 of the secret; absent if an earlier release made the key and it was not presented since.
    pub secret_sha256: Option<Vec<u8>>,
    /// Kind of its principal.
    pub kind: PrincipalKind,
    /// Number of its last change in the order of all key changes.
    pub changed_seq: i64,
}

impl TryFrom<Row> for Found {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let scopes =
            row.scopes.iter().map(|scope| Scope::parse(scope).ok_or_else(|| unknown("scope", scope)));
        let dialect = row.dialect.map(|word| Dialect::parse(&word).ok_or_else(|| unknown("dialect", &word)));
        let kind = PrincipalKind::parse(&row.kind).ok_or_else(|| unknown("principal kind", &row.kind))?;
        let authority = match row.basis {
            _ if kind != PrincipalKind::Human => None,
            Some(basis) => Some(authority(&basis, row.let_in_by)?),
            // A seeded key has this basis, whichever release stored it.
            None => is_seeded(&row.public_id).then(Authority::seeded),
        };
        Ok(Self {
            key: Key {
                id: row.id.into(),
                public_id: row.public_id,
                principal_id: row.principal_id,
                label: row.label,
                scopes: scopes.collect::<Outcome<_>>()?,
                act_as: row.act_as,
                dialect: dialect.transpose()?,
                rate_per_second: row.rate_per_second.and_then(|rate| u32::try_from(rate).ok()),
                created_by: row.created_by,
                created_at: row.created_at,
                expires_at: row.expires_at,
                revoked_at: row.revoked_at,
                rotated_from: row.rotated_from.map(KeyId::from),
                last_used_at: row.last_used_at,
                authority,
            },
            secret_hash: row.secret_hash,
            secret_sha256: row.secret_sha256,
            changed_seq: row.changed_seq,
            kind,
        })
    }
}

/// Parses the stored basis of a person's key.
///
/// # Errors
/// The stored basis is unknown.
pub fn authority(basis: &str, let_in_by: Option<String>) -> Outcome<Authority> {
    let basis = Basis::parse(basis).ok_or_else(|| unknown("basis of a key", basis))?;
    Ok(Authority { basis, let_in_by })
}

/// Loads keys by their public ids.
pub(crate) async fn find_by_public_ids(conn: &mut PgConnection, ids: &[&str]) -> Outcome<Vec<Found>> {
    let rows = select!("keys::find_by_public_ids", "WHERE k.public_id = ANY ($1)", ids as &[&str])
        .fetch_all(conn)
        .await?;
    rows.into_iter().map(Found::try_from).collect()
}

/// Loads a key that the caller may rotate or revoke: its own, or any with the scope `admin`.
async fn reachable(conn: &mut PgConnection, caller: &Caller, id: KeyId) -> Outcome<Found> {
    let row = select!("keys::reachable", "WHERE k.id = $1", id.uuid()).fetch_optional(conn).await?;
    let found = row.map(Found::try_from).transpose()?;
    found
        .filter(|found| found.key.principal_id == caller.principal() || caller.has(Scope::Admin))
        .ok_or_else(|| not_found("key"))
}
