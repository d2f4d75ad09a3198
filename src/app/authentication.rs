//! Telling whose key is presented. A key is looked up by its public part, verified once against its slow hash, and then
//! remembered (`caller.rs`). A key of the wrong form or with a wrong checksum costs no look-up; an unknown one no hash.

use std::collections::HashMap;
use std::sync::Arc;

use argon2::{Argon2, PasswordHasher as _, PasswordVerifier as _};
use entente_core::canonical::{Digest, sha256};
use entente_core::clock::{self, Timestamp};
use entente_core::keys::{Key, Presented, Scope};
use entente_core::principals::Kind;
use entente_core::sessions::tokens;

use super::caller::{Memory, unauthenticated};
use super::keys::find_by_public_ids;
use super::{AppError, Ctx, Grant, Outcome};

/// How the public part of a seeded key begins, which no other key's can.
const SEEDED: &str = "seed:";

/// Tells whose key this is.
///
/// # Errors
/// [`entente_core::refusal::Code::Unauthenticated`], the same for every reason.
pub async fn authenticate(ctx: &Ctx, presented: &str) -> Outcome<Arc<Grant>> {
    let digest = sha256(presented);
    match ctx.grants.recall(&digest) {
        Some(Memory::Verified(grant)) if grant.in_force(ctx.now()) => return Ok(grant),
        Some(_) => return Err(unauthenticated().into()),
        None => {}
    }
    let Some(public_id) = public_id(ctx, presented, &digest) else { return Err(unauthenticated().into()) };
    let seen = ctx.grants.seen();
    let mut connection = ctx.pool.acquire().await?;
    let found = find_by_public_ids(&mut connection, &[&public_id]).await?.pop();
    drop(connection);
    let Some(found) = found else {
        ctx.grants.refuse(digest);
        return Err(unauthenticated().into());
    };
    // Few verifications at a time: each takes a core and 19 MiB for some 20 ms.
    let _turn = ctx.grants.turns.acquire().await.map_err(|e| AppError::Unavailable(e.to_string()))?;
    if let Some(Memory::Verified(grant)) = ctx.grants.recall(&digest) {
        return if grant.in_force(ctx.now()) { Ok(grant) } else { Err(unauthenticated().into()) };
    }
    let secret = presented.to_owned();
    let hash = found.secret_hash;
    let verified = tokio::task::spawn_blocking(move || verify(&secret, &hash))
        .await
        .map_err(|e| AppError::Unavailable(e.to_string()))?;
    if !verified || !found.key.in_force(ctx.now()) {
        ctx.grants.refuse(digest);
        return Err(unauthenticated().into());
    }
    let grant = Arc::new(Grant::new(found.key, found.kind, found.changed_seq));
    let grant = ctx.grants.remember(digest, grant);
    if ctx.grants.seen() != seen {
        // Keys changed while this one was verified, perhaps this one, and it was not remembered yet when the changed
        // ones were forgotten.
        let mut connection = ctx.pool.acquire().await?;
        let current = find_by_public_ids(&mut connection, &[&public_id]).await?.pop();
        let change = current.map_or(i64::MAX, |found| found.changed_seq);
        ctx.grants.forget(&HashMap::from([(public_id, change)]));
    }
    if grant.in_force(ctx.now()) { Ok(grant) } else { Err(unauthenticated().into()) }
}

/// Tells whose token a session is opened with: a key, or one that somebody else has signed for a principal (contract 10).
///
/// # Errors
/// [`entente_core::refusal::Code::Unauthenticated`], the same for every reason.
pub async fn of_token(ctx: &Ctx, token: &str) -> Outcome<Arc<Grant>> {
    let secret = ctx.settings.sessions.token_secret.as_ref();
    match secret.and_then(|secret| tokens::vouched(token, &secret.0, ctx.now())) {
        Some(vouched) => Ok(vouched_for(ctx, vouched.principal, vouched.expires_at)),
        None => authenticate(ctx, token).await,
    }
}

/// The grant of a key that is not presented: for who comes back to a session that it has opened. `None` when it opens
/// nothing any more.
///
/// # Errors
/// The database.
pub(crate) async fn of_key(ctx: &Ctx, public_id: &str) -> Outcome<Option<Arc<Grant>>> {
    let mut connection = ctx.pool.acquire().await?;
    let found = find_by_public_ids(&mut connection, &[public_id]).await?.pop();
    let Some(found) = found.filter(|found| found.key.in_force(ctx.now())) else { return Ok(None) };
    let grant = Arc::new(Grant::new(found.key, found.kind, found.changed_seq));
    // Remembered under what nobody can present, so that a revocation reaches it.
    let nobodys = [ctx.chance.bits(), ctx.chance.bits()].map(u128::to_be_bytes).concat();
    Ok(Some(ctx.grants.remember(sha256(nobodys), grant)))
}

/// The grant of a signed token that is not presented, by when it ends.
pub(crate) fn until(ctx: &Ctx, principal: &str, end: &str) -> Option<Arc<Grant>> {
    let end =
        clock::parse(end).filter(|end| *end > ctx.now() && ctx.settings.sessions.token_secret.is_some())?;
    Some(vouched_for(ctx, principal.to_owned(), end))
}

/// A grant for a principal that a signed token vouches for: it may submit and see jobs, and nothing else.
fn vouched_for(ctx: &Ctx, principal: String, expires_at: Timestamp) -> Arc<Grant> {
    let key = Key {
        id: uuid::Uuid::nil().into(),
        public_id: String::new(),
        principal_id: principal.clone(),
        label: Some("signed token".to_owned()),
        scopes: vec![Scope::JobsRead, Scope::JobsWrite],
        act_as: Vec::new(),
        dialect: None,
        rate_per_second: None,
        created_by: principal,
        created_at: ctx.now(),
        expires_at: Some(expires_at),
        revoked_at: None,
        rotated_from: None,
        last_used_at: None,
        authority: None,
    };
    Arc::new(Grant::new(key, Kind::Agent, 0))
}

/// What to look a presented key up by; `None` when it cannot be a key of this server.
fn public_id(ctx: &Ctx, presented: &str, digest: &Digest) -> Option<String> {
    match Presented::parse(presented) {
        Some(key) => Some(key.public_id),
        None if ctx.settings.seeded_keys => Some(seeded_id(digest)),
        None => None,
    }
}

/// What a seeded key of `entente dev` is looked up by: a digest of itself.
pub(crate) fn seeded_id(digest: &Digest) -> String {
    format!("{SEEDED}{}", entente_core::canonical::hex(digest))
}

/// Whether a key is one of `entente dev --seed`, by what it is looked up by.
pub(crate) fn is_seeded(public_id: &str) -> bool {
    public_id.starts_with(SEEDED)
}

pub(crate) fn verify(secret: &str, hash: &str) -> bool {
    argon2::PasswordHash::new(hash)
        .is_ok_and(|hash| Argon2::default().verify_password(secret.as_bytes(), &hash).is_ok())
}

/// Hashes a key with argon2id. Slow by design, so never on an async thread.
pub(crate) async fn hash(secret: String) -> Outcome<String> {
    let hashed = tokio::task::spawn_blocking(move || {
        Argon2::default().hash_password(secret.as_bytes()).map(|h| h.to_string())
    });
    let hashed = hashed.await.map_err(|e| AppError::Unavailable(e.to_string()))?;
    hashed.map_err(|e| AppError::Inconsistent(format!("hashing a key: {e}")))
}
