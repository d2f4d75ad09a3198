//! Credentials in vaults (RFC-0014): depositing, changing and revoking them. Table `tool_credentials`, written by
//! `tool_credentials/rows.rs`; `tool_credentials/time.rs` expires and re-seals them.
//!
//! A secret is sealed before it reaches the database, and opened only for a call. Credentials that are provisioned
//! for jobs are in `crates/arcp/src/credentials.rs`.

mod rows;
mod time;

use entente_domain::egress::judge_secret;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{IntentId, ToolCredentialId, VaultId};
use entente_domain::limits::VAULT_CREDENTIALS;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::tools::tool_calls::Connection;
use entente_domain::openintent::tools::tool_credentials as domain;
use entente_domain::openintent::tools::tool_credentials::{CredentialAsk, CredentialChange, ToolCredential};
use entente_domain::openintent::tools::tool_secrets::ToolSecret;
use entente_domain::openintent::tools::vault_keys::{OpenError, Place, Sealed};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{AppError, Caller, Outcome, idempotency, not_found};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use crate::Ctx;
use crate::tools::{tool_grants, vaults};

pub use rows::sealing_keys;
pub(crate) use rows::{find, forget, of_vault, revoke_rows};
pub use time::{expire_due, seal_anew};

/// Deposits a credential in a vault.
///
/// # Errors
/// Fails if the caller has no such vault, if the request is invalid, or if the server has no vault key.
pub async fn deposit(
    ctx: &Ctx,
    caller: &Caller,
    vault_id: VaultId,
    ask: CredentialAsk,
    once: Option<&Idempotency>,
) -> Outcome<ToolCredential> {
    caller.require(Scope::ToolsManage)?;
    let mut tx = vaults::begin(ctx, vault_id, caller, once).await?;
    let vault = vaults::owned(&mut tx, caller, vault_id).await?;
    if let Some(done) = idempotency::find(&mut tx, caller, once).await? {
        return Ok(done);
    }
    vaults::require_key(ctx)?;
    let mut log = IntentLog::open(&mut tx, IntentId::SYSTEM, caller.trace, ctx.now()).await?;
    let now = log.now();
    let credential = domain::deposit(&ask, vault.id, ToolCredentialId::mint(now, &*ctx.chance), now)?;
    check_addresses(ctx, &credential.metadata)?;
    if rows::count(&mut tx, vault_id).await? >= VAULT_CREDENTIALS {
        let message = format!(
            "The vault has {VAULT_CREDENTIALS} credentials, as many as it takes. Make another vault."
        );
        return Err(Refusal::new(Code::Unprocessable, message).into());
    }
    let sealed = seal(ctx, &credential, &ask.secret)?;
    rows::insert(&mut tx, &credential, sealed.as_ref()).await?;
    log.record(ctx, event_draft(Kind::ToolCredentialCreated, &credential, &caller.agent));
    log.save(&mut tx).await?;
    idempotency::keep(&mut tx, caller, once, &credential, now).await?;
    tx.commit().await?;
    ctx.feed.notify_committed(IntentId::SYSTEM);
    Ok(credential)
}

/// Returns a credential without its secret.
///
/// # Errors
/// Fails if the caller can see no such credential.
pub async fn get(ctx: &Ctx, caller: &Caller, id: ToolCredentialId) -> Outcome<ToolCredential> {
    caller.require(Scope::ToolsManage)?;
    let mut conn = ctx.pool.acquire().await?;
    reachable(&mut conn, caller, id).await
}

/// Changes a credential, or replaces its secret; the old secret is gone at once, everywhere.
///
/// `expected` is the version that the caller has read.
///
/// # Errors
/// Fails if the caller owns no such credential, if the change is invalid, or if the version differs.
pub async fn change(
    ctx: &Ctx,
    caller: &Caller,
    id: ToolCredentialId,
    expected: Option<i64>,
    ask: CredentialChange,
) -> Outcome<ToolCredential> {
    caller.require(Scope::ToolsManage)?;
    let home = home(ctx, caller, id).await?;
    let mut tx = vaults::begin(ctx, home, caller, None).await?;
    vaults::owned(&mut tx, caller, home).await.map_err(as_credential)?;
    vaults::require_key(ctx)?;
    let before = find(&mut tx, id).await?.ok_or_else(|| not_found("credential"))?;
    if let Some(expected) = expected
        && expected != i64::from(before.version)
    {
        return Err(Refusal::version_conflict(before.version.into()).into());
    }
    let mut log = IntentLog::open(&mut tx, IntentId::SYSTEM, caller.trace, ctx.now()).await?;
    let after = domain::changed(&before, &ask, log.now())?;
    check_addresses(ctx, &after.metadata)?;
    if ask.metadata.is_some() && ask.secret.is_none() {
        // The sealed secret must fit the new connection.
        check_fit(ctx, &mut tx, &after).await?;
    }
    rows::save(&mut tx, &after).await?;
    let kind = match &ask.secret {
        Some(secret) => {
            let sealed = seal(ctx, &after, secret)?;
            rows::save_secret(&mut tx, id, sealed.as_ref()).await?;
            Kind::ToolCredentialRotated
        }
        None => Kind::ToolCredentialChanged,
    };
    log.record(ctx, event_draft(kind, &after, &caller.agent));
    log.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.notify_committed(IntentId::SYSTEM);
    Ok(after)
}

async fn check_fit(ctx: &Ctx, conn: &mut PgConnection, credential: &ToolCredential) -> Outcome<()> {
    let Some(connection) = Connection::read(&credential.metadata)? else { return Ok(()) };
    if credential.version > 0 {
        let secret = open(ctx, conn, credential).await?;
        connection.check_secret(credential.auth_type, &secret)?;
    }
    Ok(())
}

/// Revokes a credential: wipes its secret, and revokes all its grants.
///
/// # Errors
/// Fails if there is no such credential that the caller may revoke.
pub async fn revoke(ctx: &Ctx, caller: &Caller, id: ToolCredentialId) -> Outcome<ToolCredential> {
    caller.require(Scope::ToolsManage)?;
    let home = home(ctx, caller, id).await?;
    let mut tx = vaults::begin(ctx, home, caller, None).await?;
    let before = reachable(&mut tx, caller, id).await?;
    if before.revoked_at.is_some() {
        return Ok(before);
    }
    let mut log = IntentLog::open(&mut tx, IntentId::SYSTEM, caller.trace, ctx.now()).await?;
    let now = log.now();
    revoke_rows(&mut tx, home, Some(id), now).await?;
    let grants = tool_grants::revoke_of_credential(&mut tx, id, now).await?;
    let mut event = event_draft(Kind::ToolCredentialRevoked, &before, &caller.agent);
    event.payload.insert("grants_revoked".to_owned(), json!(grants));
    log.record(ctx, event);
    log.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.notify_committed(IntentId::SYSTEM);
    Ok(ToolCredential { revoked_at: Some(now), sealed: Vec::new(), ..before })
}

/// Returns a credential with its secret, if the secret is newer than the one that was used, for the same connection.
///
/// # Errors
/// Returns database errors; fails if the secret cannot be opened.
pub async fn renewed(ctx: &Ctx, used: &ToolCredential) -> Outcome<Option<(ToolCredential, ToolSecret)>> {
    let mut conn = ctx.pool.acquire().await?;
    let Some(now_there) = find(&mut conn, used.id).await? else { return Ok(None) };
    let same = now_there.metadata == used.metadata && now_there.revoked_at.is_none();
    if !same || now_there.version <= used.version {
        return Ok(None);
    }
    let secret = open(ctx, &mut conn, &now_there).await?;
    Ok(Some((now_there, secret)))
}

/// Result of storing a refreshed secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretState {
    /// It was sealed and stored.
    Sealed,
    /// The credential was changed or revoked meanwhile, and stays as it is.
    Replaced,
}

/// Stores a secret that the service replaced during a call (`refresh_token`), unless the owner has replaced it
/// meanwhile.
///
/// # Errors
/// Returns database errors; fails if the server has no vault key.
pub async fn refreshed(ctx: &Ctx, used: &ToolCredential, secret: &ToolSecret) -> Outcome<SecretState> {
    let locks = vec![vaults::lock_key(used.vault_id), entente_kernel::lock_key(IntentId::SYSTEM)];
    let mut tx = ctx.begin_locked(locks).await?;
    let Some(now_there) = find(&mut tx, used.id).await? else { return Ok(SecretState::Replaced) };
    if now_there.version != used.version || now_there.revoked_at.is_some() {
        return Ok(SecretState::Replaced);
    }
    let mut log = IntentLog::open(&mut tx, IntentId::SYSTEM, None, ctx.now()).await?;
    let after = ToolCredential {
        version: used.version.saturating_add(1),
        sealed: secret.names(),
        rotated_at: Some(log.now()),
        ..now_there
    };
    let sealed = seal(ctx, &after, secret)?;
    rows::save(&mut tx, &after).await?;
    rows::save_secret(&mut tx, after.id, sealed.as_ref()).await?;
    let mut event = event_draft(Kind::ToolCredentialRotated, &after, SYSTEM);
    event.payload.insert("refreshed".to_owned(), json!(true));
    log.record(ctx, event);
    log.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.notify_committed(IntentId::SYSTEM);
    Ok(SecretState::Sealed)
}

/// Returns the vault of a credential that the caller may see, whose lock is taken before any decision.
async fn home(ctx: &Ctx, caller: &Caller, id: ToolCredentialId) -> Outcome<VaultId> {
    let mut conn = ctx.pool.acquire().await?;
    Ok(reachable(&mut conn, caller, id).await?.vault_id)
}

/// Loads a credential that the caller may see, through its vault.
pub(crate) async fn reachable(
    conn: &mut PgConnection,
    caller: &Caller,
    id: ToolCredentialId,
) -> Outcome<ToolCredential> {
    let credential = find(conn, id).await?.ok_or_else(|| not_found("credential"))?;
    vaults::reachable(conn, caller, credential.vault_id).await.map_err(as_credential)?;
    Ok(credential)
}

/// Turns the error for an invisible vault into the one for a missing credential.
fn as_credential(failure: AppError) -> AppError {
    match failure {
        AppError::Refused(refusal) if refusal.code == Code::NotFound => not_found("credential"),
        other => other,
    }
}

fn place(credential: &ToolCredential) -> Place {
    Place { vault_id: credential.vault_id, credential_id: credential.id, version: credential.version }
}

fn seal(ctx: &Ctx, credential: &ToolCredential, secret: &ToolSecret) -> Outcome<Option<Sealed>> {
    if secret.is_empty() {
        return Ok(None);
    }
    let keys = &ctx.state.vaults.keys;
    let sealed = keys.seal(&secret.to_bytes(), place(credential), &*ctx.chance);
    // The presence of a key was checked before.
    sealed.map(Some).ok_or_else(|| AppError::Inconsistent("a secret could not be sealed".to_owned()))
}

/// Opens the secret of a credential for a call.
///
/// # Errors
/// Fails if it has no secret, if this server lacks the key, or if the stored bytes were not sealed for this
/// credential.
pub(crate) async fn open(
    ctx: &Ctx,
    conn: &mut PgConnection,
    credential: &ToolCredential,
) -> Outcome<ToolSecret> {
    let Some(sealed) = rows::sealed(conn, credential.id).await? else {
        let message =
            "The credential has no secret yet. Its owner can give it one with PATCH /credentials/{id}.";
        return Err(Refusal::new(Code::Unprocessable, message).into());
    };
    unseal(ctx, credential, &sealed)
}

fn unseal(ctx: &Ctx, credential: &ToolCredential, sealed: &Sealed) -> Outcome<ToolSecret> {
    let id = credential.id;
    match ctx.state.vaults.keys.open(sealed, place(credential)) {
        Ok(bytes) => ToolSecret::from_bytes(&bytes)
            .ok_or_else(|| AppError::Inconsistent(format!("the secret of {id} opened and is none"))),
        Err(OpenError::KeyMissing) => Err(Refusal::new(
            Code::Unprocessable,
            "The credential is sealed with a key that this server has not. Its operator can add it to \
             ENTENTE_VAULT_OLD_KEYS, or its owner give it a new secret.",
        )
        .into()),
        Err(OpenError::Broken) => {
            Err(AppError::Inconsistent(format!("the secret of {id} was not sealed for where it is stored")))
        }
    }
}

/// Requires that a connection's addresses may be called: over TLS, except for the operator's own hosts.
fn check_addresses(ctx: &Ctx, metadata: &Map<String, Value>) -> Outcome<()> {
    let Some(connection) = Connection::read(metadata)? else { return Ok(()) };
    for address in connection.addresses() {
        judge_secret(address, &ctx.state.vaults.allowed).map_err(|fault| {
            let message = format!("The connection cannot be used: {fault}.");
            Refusal::field(Code::InvalidRequest, "metadata", "url", message)
        })?;
    }
    Ok(())
}

fn event_draft(kind: Kind, credential: &ToolCredential, actor: &str) -> Draft {
    let payload = json!({
        "credential_id": credential.id, "vault_id": credential.vault_id, "service": credential.service,
        "auth_type": credential.auth_type, "version": credential.version, "expires_at": credential.expires_at,
    });
    Draft::of(kind, actor, payload)
}
