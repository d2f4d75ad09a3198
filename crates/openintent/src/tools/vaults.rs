//! Vaults (RFC-0014). Table `vaults`. Their credentials are in `tool_credentials.rs`, the grants in `tool_grants.rs`,
//! and the calls in `invocations.rs`. Every decision that depends on a vault or its contents holds the vault's lock.

use std::time::Duration;

use entente_domain::clock::Timestamp;
use entente_domain::egress::Allowed;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, ToolCredentialId, VaultId};
use entente_domain::limits::{PAGE, VAULTS};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::tools::vault_keys::Keyring;
use entente_domain::openintent::tools::vaults as domain;
use entente_domain::openintent::tools::vaults::Vault;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{Caller, IntentTx, Outcome, Tx, idempotency, not_found};
use serde_json::json;
use sqlx::PgConnection;

use crate::Ctx;
use crate::tools::{tool_credentials, tool_grants};

/// The operator's settings for vaults and tools.
#[derive(Debug, Clone)]
pub struct VaultSettings {
    /// Keys that seal secrets.
    pub keys: Keyring,
    /// Addresses that tools may call besides the public internet.
    pub allowed: Allowed,
    /// Retention of finished calls.
    pub retention: Duration,
}

/// Minimum retention of ended rows beyond the idempotency window, because retried requests are answered from them.
const KEPT: Duration = Duration::from_hours(24);

/// Returns the time before which finished calls, and ended grants, credentials and vaults, are deleted.
#[must_use]
pub fn forgotten(ctx: &Ctx) -> Timestamp {
    ctx.now() - ctx.state.vaults.retention.max(ctx.settings.idempotency_window + KEPT)
}

/// Deletes grants, credentials and vaults that ended long ago; returns their number.
///
/// # Errors
/// Returns database errors.
pub async fn forget(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let before = forgotten(ctx);
    let mut conn = ctx.pool.acquire().await?;
    // Dependent rows are deleted first.
    let grants = tool_grants::forget(&mut conn, before, limit).await?;
    let credentials = tool_credentials::forget(&mut conn, before, limit).await?;
    Ok(grants + credentials + forget_rows(&mut conn, before, limit).await?)
}

/// Returns the key of a vault's advisory lock.
pub(crate) fn lock_key(vault: VaultId) -> i64 {
    let (_, low) = vault.uuid().as_u64_pair();
    i64::from_ne_bytes(low.to_ne_bytes())
}

/// Begins a transaction that holds the locks of a vault, of the system log and of the caller's idempotency key.
pub(crate) async fn begin(
    ctx: &Ctx,
    vault: VaultId,
    caller: &Caller,
    once: Option<&Idempotency>,
) -> Outcome<Tx> {
    let mut locks = vec![lock_key(vault), entente_kernel::lock_key(IntentId::SYSTEM)];
    locks.extend(once.map(|once| idempotency::lock_key(caller.principal(), &once.key)));
    ctx.begin_locked(locks).await
}

/// Returns whether a caller may act as an owner and thereby owns its resources.
pub(crate) fn speaks_as(caller: &Caller, name: &str) -> bool {
    caller.speaker("agent_id", Some(name), false).is_ok()
}

/// Returns whether a caller may see and revoke a vault's contents: its owner, and an admin; only the owner may grant.
pub(crate) fn may_take(caller: &Caller, vault: &Vault) -> bool {
    speaks_as(caller, &vault.owner_id) || caller.has(Scope::Admin)
}

/// Requires that this server can seal secrets, because a vault that cannot be filled is useless.
pub(crate) fn require_key(ctx: &Ctx) -> Outcome<()> {
    if ctx.state.vaults.keys.seals() {
        return Ok(());
    }
    Err(Refusal::new(
        Code::Unprocessable,
        "This server has no key to seal secrets with, so its vaults take nothing in. Its operator has to set \
         ENTENTE_VAULT_KEY.",
    )
    .into())
}

/// A vault with its credentials.
#[derive(Debug)]
pub struct VaultView {
    /// The vault.
    pub vault: Vault,
    /// The credentials in it, oldest first.
    pub credentials: Vec<ToolCredentialId>,
}

/// Creates a vault.
///
/// # Errors
/// Fails if the caller may not act as the owner, if the owner has the maximum number of vaults, or if the server has
/// no vault key.
pub async fn create(
    ctx: &Ctx,
    caller: &Caller,
    owner_id: Option<&str>,
    name: &str,
    once: Option<&Idempotency>,
) -> Outcome<VaultView> {
    caller.require(Scope::ToolsManage)?;
    let owner = caller.speaker("owner_id", owner_id, ctx.settings.strict)?;
    require_key(ctx)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some(vault) = work.repeated::<Vault>()? {
        let credentials = tool_credentials::of_vault(work.conn(), vault.id).await?;
        return Ok(VaultView { vault, credentials });
    }
    let now = work.now();
    let vault = domain::create(&owner, name, VaultId::mint(now, &*ctx.chance), now)?;
    if count(work.conn(), &owner).await? >= VAULTS {
        let message = format!("`{owner}` has {VAULTS} vaults, as many as one may. Remove some first.");
        return Err(Refusal::new(Code::Unprocessable, message).into());
    }
    insert(work.conn(), &vault).await?;
    let payload = json!({ "vault_id": vault.id, "owner_id": owner });
    work.record(Draft::of(Kind::VaultCreated, &caller.agent, payload));
    let vault = work.finish(vault).await?;
    Ok(VaultView { vault, credentials: Vec::new() })
}

/// Returns a vault.
///
/// # Errors
/// Fails if the caller can see no such vault.
pub async fn get(ctx: &Ctx, caller: &Caller, id: VaultId) -> Outcome<VaultView> {
    caller.require(Scope::ToolsManage)?;
    let mut conn = ctx.pool.acquire().await?;
    let vault = reachable(&mut conn, caller, id).await?;
    let credentials = tool_credentials::of_vault(&mut conn, id).await?;
    Ok(VaultView { vault, credentials })
}

/// Lists the vaults of the agent that the caller acts as, oldest first.
///
/// # Errors
/// Fails if the scope is missing.
pub async fn list(ctx: &Ctx, caller: &Caller) -> Outcome<Vec<Vault>> {
    caller.require(Scope::ToolsManage)?;
    let mut conn = ctx.pool.acquire().await?;
    of_owner(&mut conn, &caller.agent).await
}

/// Removes a vault: revokes its credentials with all their grants, and wipes the secrets.
///
/// # Errors
/// Fails if there is no such vault that the caller may remove.
pub async fn remove(ctx: &Ctx, caller: &Caller, id: VaultId) -> Outcome<()> {
    caller.require(Scope::ToolsManage)?;
    let mut tx = begin(ctx, id, caller, None).await?;
    let vault = reachable(&mut tx, caller, id).await?;
    let mut log = IntentLog::open(&mut tx, IntentId::SYSTEM, caller.trace, ctx.now()).await?;
    let now = log.now();
    let credentials = tool_credentials::revoke_rows(&mut tx, id, None, now).await?;
    let grants = tool_grants::revoke_of_vault(&mut tx, id, now).await?;
    take_away(&mut tx, id, now).await?;
    let payload = json!({
        "vault_id": id, "owner_id": vault.owner_id, "credentials_revoked": credentials, "grants_revoked": grants,
    });
    log.record(ctx, Draft::of(Kind::VaultRemoved, &caller.agent, payload));
    log.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.notify_committed(IntentId::SYSTEM);
    Ok(())
}

/// Loads a vault that the caller may see.
pub(crate) async fn reachable(conn: &mut PgConnection, caller: &Caller, id: VaultId) -> Outcome<Vault> {
    let vault = find(conn, id).await?.filter(|vault| may_take(caller, vault));
    vault.ok_or_else(|| not_found("vault"))
}

/// Loads a vault that the caller owns.
pub(crate) async fn owned(conn: &mut PgConnection, caller: &Caller, id: VaultId) -> Outcome<Vault> {
    let vault = reachable(conn, caller, id).await?;
    if speaks_as(caller, &vault.owner_id) {
        return Ok(vault);
    }
    let message = "Only its owner gives anything of a vault; an admin may look at it and take away.";
    Err(Refusal::new(Code::Forbidden, message).into())
}

/// Loads a vault that was not removed.
pub(crate) async fn find(conn: &mut PgConnection, id: VaultId) -> Outcome<Option<Vault>> {
    let row = sqlx::query!(
        "-- vaults::find
         SELECT owner_id, name, created_at FROM vaults WHERE id = $1 AND removed_at IS NULL",
        id.uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Vault { id, owner_id: row.owner_id, name: row.name, created_at: row.created_at }))
}

async fn of_owner(conn: &mut PgConnection, owner: &str) -> Outcome<Vec<Vault>> {
    let rows = sqlx::query!(
        "-- vaults::of_owner
         SELECT id, owner_id, name, created_at FROM vaults WHERE owner_id = $1 AND removed_at IS NULL
         ORDER BY id LIMIT $2",
        owner,
        i64::from(PAGE)
    )
    .fetch_all(conn)
    .await?;
    let vault = rows.into_iter().map(|row| Vault {
        id: row.id.into(),
        owner_id: row.owner_id,
        name: row.name,
        created_at: row.created_at,
    });
    Ok(vault.collect())
}

async fn count(conn: &mut PgConnection, owner: &str) -> Outcome<i64> {
    let count = sqlx::query_scalar!(
        r#"-- vaults::count
         SELECT count(*) AS "count!" FROM vaults WHERE owner_id = $1 AND removed_at IS NULL"#,
        owner
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

async fn insert(conn: &mut PgConnection, vault: &Vault) -> Outcome<()> {
    sqlx::query!(
        "-- vaults::insert
         INSERT INTO vaults (id, owner_id, name, created_at) VALUES ($1, $2, $3, $4)",
        vault.id.uuid(),
        vault.owner_id,
        vault.name,
        vault.created_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn take_away(conn: &mut PgConnection, id: VaultId, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- vaults::take_away
         UPDATE vaults SET removed_at = $2 WHERE id = $1",
        id.uuid(),
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn forget_rows(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- vaults::forget
         DELETE FROM vaults WHERE id IN (
             SELECT v.id FROM vaults v
             WHERE v.removed_at < $1 AND NOT EXISTS (SELECT FROM tool_credentials c WHERE c.vault_id = v.id)
             ORDER BY v.removed_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        before,
        limit
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
