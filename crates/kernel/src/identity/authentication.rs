//! Authentication by key. A key is looked up by its public part, compared by its SHA-256, and then cached
//! (`grants.rs`); a malformed key or one with a wrong checksum costs no look-up.
//!
//! Slow hashes are for people's passwords, and once for keys of earlier releases; each has its own queue, so
//! that neither waits for the other.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use argon2::{Argon2, Params, PasswordHasher as _, PasswordVerifier as _};
use entente_domain::arcp::sessions::tokens;
use entente_domain::canonical::{Digest, sha256};
use entente_domain::clock::{self, Timestamp};
use entente_domain::identity::keys::{Key, Presented, Scope};
use entente_domain::identity::principals::PrincipalKind;
use entente_domain::ids::KeyId;
use entente_runtime::refused::Refused;

use crate::identity::access_tokens;
use crate::identity::caller::unauthenticated;
use crate::identity::grants::Memory;
use crate::identity::keys;
use crate::identity::keys::{Found, find_by_public_ids};
use crate::{AppError, Ctx, Grant, Outcome, run_blocking};

/// A secret that is never logged.
#[derive(Clone)]
pub struct TokenSecret(pub String);

impl std::fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

/// Prefix of the public part of a seeded key; no other key can have it.
const SEEDED: &str = "seed:";

/// Why a key was rejected: written to the log and never sent to the client.
struct Rejection {
    reason: &'static str,
    /// The key's id and principal, if the key exists.
    key: Option<(KeyId, String)>,
}

impl Rejection {
    fn unknown(reason: &'static str) -> Self {
        Self { reason, key: None }
    }

    fn known(reason: &'static str, key: &Key) -> Self {
        Self { reason, key: Some((key.id, key.principal_id.clone())) }
    }

    fn over(key: &Key) -> Self {
        Self::known(if key.revoked_at.is_some() { "revoked" } else { "ended" }, key)
    }
}

/// Authenticates a key; `from` is the client's address, for the log.
///
/// # Errors
/// [`entente_domain::refusal::Code::Unauthenticated`], the same for every reason.
pub async fn authenticate(ctx: &Ctx, presented: &str, from: Option<IpAddr>) -> Outcome<Arc<Grant>> {
    told(ctx, look(ctx, presented).await?, "key", from)
}

/// Authenticates the credential of an HTTP request: a key, or an access token that stands for one.
///
/// # Errors
/// As [`authenticate`].
pub async fn of_request(ctx: &Ctx, presented: &str, from: Option<IpAddr>) -> Outcome<Arc<Grant>> {
    if access_tokens::is_token(presented) {
        return told(ctx, look_token(ctx, presented).await?, "access token", from);
    }
    authenticate(ctx, presented, from).await
}

/// Logs a rejection, and hides its reason from the client.
fn told(
    ctx: &Ctx,
    looked: Result<Arc<Grant>, Rejection>,
    credential: &'static str,
    from: Option<IpAddr>,
) -> Outcome<Arc<Grant>> {
    let Rejection { reason, key } = match looked {
        Ok(grant) => return Ok(grant),
        Err(rejection) => rejection,
    };
    let (key, principal) = key.unzip();
    let key = key.map(|id| id.to_string());
    let refused =
        Refused { credential, address: from, key: key.as_deref(), principal: principal.as_deref(), reason };
    ctx.grants.watch.tell(&refused);
    Err(unauthenticated().into())
}

/// Returns the cached verdict on a presented credential, if there is one.
fn recalled(ctx: &Ctx, digest: &Digest) -> Option<Result<Arc<Grant>, Rejection>> {
    Some(match ctx.grants.recall(digest)? {
        Memory::Verified(grant) if grant.in_force(ctx.now()) => Ok(grant),
        Memory::Verified(grant) => Err(Rejection::over(&grant.key)),
        Memory::Refused => Err(Rejection::unknown("refused a moment ago")),
    })
}

/// Verifies an access token: its grant is that of its key, shares its limits and ends with the token. None stands for a
/// person's key.
async fn look_token(ctx: &Ctx, presented: &str) -> Outcome<Result<Arc<Grant>, Rejection>> {
    let digest = sha256(presented);
    if let Some(verdict) = recalled(ctx, &digest) {
        return Ok(verdict);
    }
    let Some((public_id, until)) = access_tokens::open(ctx, presented) else {
        ctx.grants.refuse(digest);
        return Ok(Err(Rejection::unknown("no access token of this server, or expired")));
    };
    let seen = ctx.grants.seen();
    let mut connection = ctx.pool.acquire().await?;
    let found = find_by_public_ids(&mut connection, &[&public_id]).await?.pop();
    drop(connection);
    let Some(found) = found else {
        ctx.grants.refuse(digest);
        return Ok(Err(Rejection::unknown("unknown")));
    };
    if !found.key.in_force(ctx.now()) {
        ctx.grants.refuse(digest);
        return Ok(Err(Rejection::over(&found.key)));
    }
    if found.kind == PrincipalKind::Human {
        ctx.grants.refuse(digest);
        return Ok(Err(Rejection::known("an access token for a person", &found.key)));
    }
    let expires_at = Some(found.key.expires_at.map_or(until, |expires| expires.min(until)));
    let key = Key { expires_at, authority: None, ..found.key };
    let grant = Grant::new(key, found.kind, found.changed_seq).of_token().counted(&ctx.quotas);
    let grant = ctx.grants.remember(digest, Arc::new(grant.sharing(ctx.grants.limits(&public_id))));
    check_again(ctx, &public_id, seen).await?;
    Ok(if grant.in_force(ctx.now()) { Ok(grant) } else { Err(Rejection::over(&grant.key)) })
}

async fn look(ctx: &Ctx, presented: &str) -> Outcome<Result<Arc<Grant>, Rejection>> {
    let digest = sha256(presented);
    if let Some(verdict) = recalled(ctx, &digest) {
        return Ok(verdict);
    }
    let Some(public_id) = public_id(ctx, presented, &digest) else {
        return Ok(Err(Rejection::unknown("no key of this server")));
    };
    let seen = ctx.grants.seen();
    let mut connection = ctx.pool.acquire().await?;
    let found = find_by_public_ids(&mut connection, &[&public_id]).await?.pop();
    drop(connection);
    let Some(found) = found else {
        ctx.grants.refuse(digest);
        return Ok(Err(Rejection::unknown("unknown")));
    };
    if !found.key.in_force(ctx.now()) {
        ctx.grants.refuse(digest);
        return Ok(Err(Rejection::over(&found.key)));
    }
    if !is_secret_of(ctx, presented, &digest, &found).await? {
        ctx.grants.refuse(digest);
        return Ok(Err(Rejection::known("wrong secret", &found.key)));
    }
    let grant = Grant::new(found.key, found.kind, found.changed_seq).sharing(ctx.grants.limits(&public_id));
    let grant = ctx.grants.remember(digest, Arc::new(grant.counted(&ctx.quotas)));
    check_again(ctx, &public_id, seen).await?;
    Ok(if grant.in_force(ctx.now()) { Ok(grant) } else { Err(Rejection::over(&grant.key)) })
}

/// Voids the grants of a key if it changed since the latest change was `seen`.
///
/// Keys that changed during verification were not cached yet when the changed keys were evicted.
async fn check_again(ctx: &Ctx, public_id: &str, seen: i64) -> Outcome<()> {
    if ctx.grants.seen() != seen {
        let mut connection = ctx.pool.acquire().await?;
        let current = find_by_public_ids(&mut connection, &[public_id]).await?.pop();
        let change = current.map_or(i64::MAX, |found| found.changed_seq);
        ctx.grants.forget(&HashMap::from([(public_id.to_owned(), change)]));
    }
    Ok(())
}

/// Whether the presented secret is that of the stored key.
///
/// A key of an earlier release is verified once by its argon2id hash; from then on its SHA-256 is stored.
async fn is_secret_of(ctx: &Ctx, presented: &str, digest: &Digest, found: &Found) -> Outcome<bool> {
    if let Some(kept) = &found.secret_sha256 {
        return Ok(same(kept, digest));
    }
    let _turn = ctx.grants.old_keys.enter().await?;
    let (secret, hash) = (presented.to_owned(), found.secret_hash.clone());
    if !run_blocking(move || verify(&secret, &hash)).await? {
        return Ok(false);
    }
    keys::keep_digest(ctx, found.key.id, digest).await?;
    Ok(true)
}

/// Compares two digests in constant time.
fn same(kept: &[u8], digest: &Digest) -> bool {
    kept.len() == digest.len() && kept.iter().zip(digest).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Authenticates a token that opens a session: a key, or a signed token that vouches for a principal
/// (ARCP-W-10.12).
///
/// # Errors
/// [`entente_domain::refusal::Code::Unauthenticated`], the same for every reason.
pub async fn of_token(ctx: &Ctx, token: &str, from: Option<IpAddr>) -> Outcome<Arc<Grant>> {
    let secret = ctx.settings.token_secret.as_ref();
    match secret.and_then(|secret| tokens::vouched(token, &secret.0, ctx.now())) {
        Some(vouched) => Ok(vouched_for(ctx, vouched.principal, vouched.expires_at)),
        None => authenticate(ctx, token, from).await,
    }
}

/// Returns the grant of a key without the secret, to resume a session that the key opened; `None` if the key
/// is no longer in force.
///
/// # Errors
/// A database error.
pub async fn of_key(ctx: &Ctx, public_id: &str) -> Outcome<Option<Arc<Grant>>> {
    let seen = ctx.grants.seen();
    let mut connection = ctx.pool.acquire().await?;
    let found = find_by_public_ids(&mut connection, &[public_id]).await?.pop();
    drop(connection);
    let Some(found) = found.filter(|found| found.key.in_force(ctx.now())) else { return Ok(None) };
    let grant = Arc::new(Grant::new(found.key, found.kind, found.changed_seq).counted(&ctx.quotas));
    // Under a random digest that no client can present.
    let nobodys = [ctx.chance.bits(), ctx.chance.bits()].map(u128::to_be_bytes).concat();
    ctx.grants.follow(sha256(nobodys), &grant);
    check_again(ctx, public_id, seen).await?;
    Ok(Some(grant).filter(|grant| grant.in_force(ctx.now())))
}

/// Returns the grant of a signed token without the token, from its principal and expiry; `None` if it
/// expired.
#[must_use]
pub fn until(ctx: &Ctx, principal: &str, end: &str) -> Option<Arc<Grant>> {
    let end = clock::parse(end).filter(|end| *end > ctx.now() && ctx.settings.token_secret.is_some())?;
    Some(vouched_for(ctx, principal.to_owned(), end))
}

/// Builds the grant of a principal named by a signed token, which may only submit and read jobs.
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
    Arc::new(Grant::new(key, PrincipalKind::Agent, 0).counted(&ctx.quotas))
}

/// Returns the public part to look a presented key up by; `None` when it cannot be a key of this server.
fn public_id(ctx: &Ctx, presented: &str, digest: &Digest) -> Option<String> {
    match Presented::parse(presented) {
        Some(key) => Some(key.public_id),
        None if ctx.settings.seeded_keys => Some(seeded_id(digest)),
        None => None,
    }
}

/// Returns the public part of a seeded key of `entente dev`: a digest of the key.
pub(crate) fn seeded_id(digest: &Digest) -> String {
    format!("{SEEDED}{}", entente_domain::canonical::hex(digest))
}

/// Whether a public part is that of a key of `entente dev --seed`.
pub(crate) fn is_seeded(public_id: &str) -> bool {
    public_id.starts_with(SEEDED)
}

pub(crate) fn verify(secret: &str, hash: &str) -> bool {
    argon2::PasswordHash::new(hash)
        .is_ok_and(|hash| Argon2::default().verify_password(secret.as_bytes(), &hash).is_ok())
}

/// Hashes a password with argon2id; it is slow by design, so it runs on a blocking thread, few at a time.
pub(crate) async fn hash_password(ctx: &Ctx, password: String) -> Outcome<String> {
    let _turn = ctx.grants.passwords.enter().await?;
    let hashed =
        run_blocking(move || Argon2::default().hash_password(password.as_bytes()).map(|h| h.to_string()));
    hashed.await?.map_err(|e| AppError::Inconsistent(format!("hashing a password: {e}")))
}

/// The stored hashes of a key.
pub(crate) struct Hashed {
    /// Its SHA-256, which identifies it.
    pub sha256: Digest,
    /// Its argon2id hash (PHC, minimal cost), for the previous release, which may run beside this one; a
    /// higher cost would not help, because a secret of 256 bits cannot be guessed.
    pub argon2: String,
}

/// Hashes a key.
///
/// Seeded keys (`entente dev --seed`) are only as strong as the developer chose them: they are looked up by
/// their plain SHA-256, and accepted in development only.
pub(crate) fn hash(secret: &str) -> Outcome<Hashed> {
    let least = Params::new(Params::MIN_M_COST, Params::MIN_T_COST, Params::MIN_P_COST, None);
    let hashed = least.map_err(|e| e.to_string()).and_then(|least| {
        let hashed = Argon2::from(least).hash_password(secret.as_bytes());
        hashed.map(|h| h.to_string()).map_err(|e| e.to_string())
    });
    let argon2 = hashed.map_err(|e| AppError::Inconsistent(format!("hashing a key: {e}")))?;
    Ok(Hashed { sha256: sha256(secret), argon2 })
}
