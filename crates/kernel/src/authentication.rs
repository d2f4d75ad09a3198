//! Telling whose key is presented. A key is looked up by its public part, compared by its SHA-256, and then remembered
//! (`caller.rs`). A key of the wrong form or with a wrong checksum costs no look-up. What is slow by design is for people's
//! passwords, and for keys of earlier releases once; each has turns of its own, so that neither waits for the other.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use argon2::{Argon2, Params, PasswordHasher as _, PasswordVerifier as _};
use entente_domain::canonical::{Digest, sha256};
use entente_domain::clock::{self, Timestamp};
use entente_domain::ids::KeyId;
use entente_domain::keys::{Key, Presented, Scope};
use entente_domain::principals::Kind;
use entente_domain::sessions::tokens;

use super::caller::{Memory, unauthenticated};
use super::keys::{self, Found, find_by_public_ids};
use super::{AppError, Ctx, Grant, Outcome, aside};
use crate::refused::Refused;

/// How the public part of a seeded key begins, which no other key's can.
const SEEDED: &str = "seed:";

/// Why a key opened nothing: for the log, and for nobody who presents one.
struct Shut {
    reason: &'static str,
    /// Its record, where there is one.
    key: Option<(KeyId, String)>,
}

impl Shut {
    fn unknown(reason: &'static str) -> Self {
        Self { reason, key: None }
    }

    fn known(reason: &'static str, key: &Key) -> Self {
        Self { reason, key: Some((key.id, key.principal_id.clone())) }
    }

    /// Of a key that is no longer in force.
    fn over(key: &Key) -> Self {
        Self::known(if key.revoked_at.is_some() { "revoked" } else { "ended" }, key)
    }
}

/// Tells whose key this is. `from` is who presents it, for the log.
///
/// # Errors
/// [`entente_domain::refusal::Code::Unauthenticated`], the same for every reason.
pub async fn authenticate(ctx: &Ctx, presented: &str, from: Option<IpAddr>) -> Outcome<Arc<Grant>> {
    match look(ctx, presented).await? {
        Ok(grant) => Ok(grant),
        Err(Shut { reason, key }) => {
            let (key, principal) = key.unzip();
            let key = key.map(|id| id.to_string());
            let refused = Refused {
                credential: "key",
                address: from,
                key: key.as_deref(),
                principal: principal.as_deref(),
                reason,
            };
            ctx.grants.watch.tell(&refused);
            Err(unauthenticated().into())
        }
    }
}

async fn look(ctx: &Ctx, presented: &str) -> Outcome<Result<Arc<Grant>, Shut>> {
    let digest = sha256(presented);
    match ctx.grants.recall(&digest) {
        Some(Memory::Verified(grant)) if grant.in_force(ctx.now()) => return Ok(Ok(grant)),
        Some(Memory::Verified(grant)) => return Ok(Err(Shut::over(&grant.key))),
        Some(Memory::Refused) => return Ok(Err(Shut::unknown("refused a moment ago"))),
        None => {}
    }
    let Some(public_id) = public_id(ctx, presented, &digest) else {
        return Ok(Err(Shut::unknown("no key of this server")));
    };
    let seen = ctx.grants.seen();
    let mut connection = ctx.pool.acquire().await?;
    let found = find_by_public_ids(&mut connection, &[&public_id]).await?.pop();
    drop(connection);
    let Some(found) = found else {
        ctx.grants.refuse(digest);
        return Ok(Err(Shut::unknown("unknown")));
    };
    if !found.key.in_force(ctx.now()) {
        ctx.grants.refuse(digest);
        return Ok(Err(Shut::over(&found.key)));
    }
    if !is_secret_of(ctx, presented, &digest, &found).await? {
        ctx.grants.refuse(digest);
        return Ok(Err(Shut::known("wrong secret", &found.key)));
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
    Ok(if grant.in_force(ctx.now()) { Ok(grant) } else { Err(Shut::over(&grant.key)) })
}

/// Whether what is presented is the key that was found. A key of an earlier release is verified by its argon2id hash, once:
/// then it too is known by its SHA-256.
async fn is_secret_of(ctx: &Ctx, presented: &str, digest: &Digest, found: &Found) -> Outcome<bool> {
    if let Some(kept) = &found.secret_sha256 {
        return Ok(same(kept, digest));
    }
    let _turn = ctx.grants.old_keys.enter().await?;
    let (secret, hash) = (presented.to_owned(), found.secret_hash.clone());
    if !aside(move || verify(&secret, &hash)).await? {
        return Ok(false);
    }
    keys::keep_digest(ctx, found.key.id, digest).await?;
    Ok(true)
}

/// Whether two digests are the same, in a time that does not say where they differ.
fn same(kept: &[u8], digest: &Digest) -> bool {
    kept.len() == digest.len() && kept.iter().zip(digest).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Tells whose token a session is opened with: a key, or one that somebody else has signed for a principal (contract 10).
///
/// # Errors
/// [`entente_domain::refusal::Code::Unauthenticated`], the same for every reason.
pub async fn of_token(ctx: &Ctx, token: &str, from: Option<IpAddr>) -> Outcome<Arc<Grant>> {
    let secret = ctx.settings.sessions.token_secret.as_ref();
    match secret.and_then(|secret| tokens::vouched(token, &secret.0, ctx.now())) {
        Some(vouched) => Ok(vouched_for(ctx, vouched.principal, vouched.expires_at)),
        None => authenticate(ctx, token, from).await,
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
    format!("{SEEDED}{}", entente_domain::canonical::hex(digest))
}

/// Whether a key is one of `entente dev --seed`, by what it is looked up by.
pub(crate) fn is_seeded(public_id: &str) -> bool {
    public_id.starts_with(SEEDED)
}

pub(crate) fn verify(secret: &str, hash: &str) -> bool {
    argon2::PasswordHash::new(hash)
        .is_ok_and(|hash| Argon2::default().verify_password(secret.as_bytes(), &hash).is_ok())
}

/// Hashes a password with argon2id. Slow by design, so never on an async thread, and few at a time.
pub(crate) async fn hash_password(ctx: &Ctx, password: String) -> Outcome<String> {
    let _turn = ctx.grants.passwords.enter().await?;
    let hashed = aside(move || Argon2::default().hash_password(password.as_bytes()).map(|h| h.to_string()));
    hashed.await?.map_err(|e| AppError::Inconsistent(format!("hashing a password: {e}")))
}

/// What is kept of a key.
pub(crate) struct Hashed {
    /// Its SHA-256, which it is known by.
    pub sha256: Digest,
    /// argon2id of the least cost, PHC: for the release before this one, which may serve beside it. Those who guess at 256 bits
    /// are not stopped by what a guess costs.
    pub argon2: String,
}

/// Hashes a key. Literal ones (`entente dev --seed`) are no better kept than what the developer who wrote them chose: they are
/// found by their SHA-256 as it is, and are accepted in development alone.
pub(crate) fn hash(secret: &str) -> Outcome<Hashed> {
    let least = Params::new(Params::MIN_M_COST, Params::MIN_T_COST, Params::MIN_P_COST, None);
    let hashed = least.map_err(|e| e.to_string()).and_then(|least| {
        let hashed = Argon2::from(least).hash_password(secret.as_bytes());
        hashed.map(|h| h.to_string()).map_err(|e| e.to_string())
    });
    let argon2 = hashed.map_err(|e| AppError::Inconsistent(format!("hashing a key: {e}")))?;
    Ok(Hashed { sha256: sha256(secret), argon2 })
}
