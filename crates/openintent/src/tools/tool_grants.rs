//! Grants of credentials in vaults (RFC-0014): granting, delegating, suspending and revoking them. Table
//! `tool_grants`, written by `tool_grants/rows.rs`. Grants are used in `invocations.rs`.

mod rows;

use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{IntentId, ToolCredentialId, ToolGrantId};
use entente_domain::limits::CREDENTIAL_GRANTS;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::tools::tool_credentials::{CredentialStatus, revoked};
use entente_domain::openintent::tools::tool_grants as domain;
use entente_domain::openintent::tools::tool_grants::{GrantAsk, GrantStatus, ToolGrant, together};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{AppError, Caller, IntentTx, Outcome, idempotency, not_found};
use serde_json::json;
use sqlx::PgConnection;

use crate::Ctx;
use crate::tools::{tool_credentials, vaults};

pub(crate) use rows::{candidates, chain, forget, revoke_of_credential, revoke_of_vault};

/// A grant with the facts that decide whether it can be used.
#[derive(Debug, Clone)]
pub struct GrantView {
    /// The grant.
    pub grant: ToolGrant,
    /// Owner of the vault.
    pub owner_id: String,
    /// Whether a grant above it is suspended.
    pub held: bool,
    /// Time at which its credential expires.
    pub credential_ends_at: Option<Timestamp>,
}

impl GrantView {
    /// Returns the effective status for its holder.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> GrantStatus {
        let above = if self.held { GrantStatus::Suspended } else { GrantStatus::Active };
        let over = self.credential_ends_at.is_some_and(|end| end <= now);
        let below = if over { GrantStatus::Expired } else { GrantStatus::Active };
        together([self.grant.status(now), above, below])
    }
}

/// Request for a new grant.
#[derive(Debug)]
pub struct NewGrant {
    /// The credential.
    pub credential_id: ToolCredentialId,
    /// The grant to delegate; `None` for a grant by the vault's owner.
    pub delegated_from: Option<ToolGrantId>,
    /// Name of the grantor, if the client gives one.
    pub granted_by: Option<String>,
    /// The requested grant.
    pub ask: GrantAsk,
}

/// Grants the use of a credential, or delegates a grant.
///
/// # Errors
/// Fails if the caller has no such credential or holds no such grant, or if the request exceeds the rights of the
/// grantor.
pub async fn create(
    ctx: &Ctx,
    caller: &Caller,
    new: NewGrant,
    once: Option<&Idempotency>,
) -> Outcome<GrantView> {
    caller.require(if new.delegated_from.is_some() { Scope::ToolsUse } else { Scope::ToolsManage })?;
    let giver = caller.speaker("granted_by", new.granted_by.as_deref(), ctx.settings.strict)?;
    let giver = caller.acting_as(giver);
    // A caller without a grant must not learn about the existence of a credential either.
    let missing = if new.delegated_from.is_some() { "grant" } else { "credential" };
    let known = tool_credentials::find(&mut *ctx.pool.acquire().await?, new.credential_id).await?;
    let home = known.ok_or_else(|| not_found(missing))?.vault_id;
    let mut tx = vaults::begin(ctx, home, caller, once).await?;
    let credential = tool_credentials::find(&mut tx, new.credential_id).await?;
    let credential = credential.ok_or_else(|| not_found(missing))?;
    let parent = parent(&mut tx, &giver, &new).await?;
    if parent.is_none() {
        tool_credentials::reachable(&mut tx, caller, credential.id).await?;
        let vault = vaults::owned(&mut tx, caller, home).await?;
        if giver.agent != vault.owner_id {
            let message = format!("Only the vault's owner, `{}`, grants what is in it.", vault.owner_id);
            return Err(Refusal::field(Code::Forbidden, "granted_by", "owner", message).into());
        }
    }
    if let Some(id) = idempotency::find::<ToolGrantId>(&mut tx, caller, once).await? {
        return rows::find(&mut tx, id).await?.ok_or_else(|| not_found("grant"));
    }
    let mut log = IntentLog::open(&mut tx, IntentId::SYSTEM, caller.trace, ctx.now()).await?;
    let now = log.now();
    match credential.status(now) {
        CredentialStatus::Active => {}
        CredentialStatus::Revoked => return Err(revoked().into()),
        CredentialStatus::Expired => {
            let message = "The credential's time has run out. Its owner can give it another end.";
            return Err(Refusal::new(Code::Unprocessable, message).into());
        }
    }
    let parent = parent.map(|parent| usable(parent, now)).transpose()?;
    if rows::count(&mut tx, credential.id, now).await? >= CREDENTIAL_GRANTS {
        let message = format!(
            "The credential has {CREDENTIAL_GRANTS} grants in force, as many as one may. Revoke some."
        );
        return Err(Refusal::new(Code::Unprocessable, message).into());
    }
    let id = ToolGrantId::mint(now, &*ctx.chance);
    let (grant, kind) = match &parent {
        None => (domain::grant(new.ask, &credential, &giver.agent, id, now)?, Kind::ToolGrantCreated),
        Some(parent) => (domain::delegate(new.ask, parent, &credential, id, now)?, Kind::ToolGrantDelegated),
    };
    rows::insert(&mut tx, &grant).await?;
    let made = rows::find(&mut tx, grant.id).await?.ok_or_else(|| not_found("grant"))?;
    log.record(ctx, event_draft(kind, &grant, &giver.agent));
    log.save(&mut tx).await?;
    idempotency::keep(&mut tx, caller, once, &grant.id, now).await?;
    tx.commit().await?;
    ctx.feed.notify_committed(IntentId::SYSTEM);
    Ok(made)
}

/// Returns the grant to delegate: one of this credential that the grantor holds.
async fn parent(conn: &mut PgConnection, giver: &Caller, new: &NewGrant) -> Outcome<Option<GrantView>> {
    let Some(id) = new.delegated_from else { return Ok(None) };
    let found = rows::find(conn, id).await?;
    let found = found.filter(|shown| shown.grant.agent_id == giver.agent);
    let shown = found.filter(|shown| shown.grant.credential_id == new.credential_id);
    Ok(Some(shown.ok_or_else(|| not_found("grant"))?))
}

/// Requires that a grant can be used, because an ended or suspended one cannot be delegated.
fn usable(shown: GrantView, now: Timestamp) -> Result<ToolGrant, Refusal> {
    match shown.status(now) {
        GrantStatus::Active => Ok(shown.grant),
        over => {
            let message = format!("The grant that is passed on is {}. Ask whoever gave it.", over.as_str());
            Err(Refusal::new(Code::Forbidden, message))
        }
    }
}

/// Returns a grant, to its holder, its grantors, and the owner of the vault.
///
/// # Errors
/// Fails if the caller can see no such grant.
pub async fn get(ctx: &Ctx, caller: &Caller, id: ToolGrantId) -> Outcome<GrantView> {
    require_any(caller)?;
    let mut conn = ctx.pool.acquire().await?;
    Ok(reachable(&mut conn, caller, id).await?.0)
}

/// A page of grants.
#[derive(Debug, Clone, Copy)]
pub struct GrantPage {
    /// Only grants older than this one: the cursor.
    pub after: Option<ToolGrantId>,
    /// Maximum number of results.
    pub limit: u32,
}

/// Lists the grants of an agent, newest first: all of them for the agent itself, and for others those of their own
/// vaults.
///
/// # Errors
/// Fails if the scope is missing.
pub async fn of_agent(
    ctx: &Ctx,
    caller: &Caller,
    agent_id: &str,
    page: GrantPage,
) -> Outcome<Vec<GrantView>> {
    require_any(caller)?;
    let every = vaults::speaks_as(caller, agent_id) || caller.has(Scope::Admin);
    let mut conn = ctx.pool.acquire().await?;
    rows::of_agent(&mut conn, agent_id, (!every).then(|| caller.names()), page).await
}

/// Lists the grants of a credential for its owner, newest first.
///
/// # Errors
/// Fails if the caller can see no such credential.
pub async fn of_credential(
    ctx: &Ctx,
    caller: &Caller,
    id: ToolCredentialId,
    page: GrantPage,
) -> Outcome<Vec<GrantView>> {
    caller.require(Scope::ToolsManage)?;
    let mut conn = ctx.pool.acquire().await?;
    tool_credentials::reachable(&mut conn, caller, id).await?;
    rows::of_credential(&mut conn, id, page).await
}

/// Revokes a grant and all delegations of it, at once, even for calls that are about to begin.
///
/// The holder of a grant may also give it up. A repeated request changes nothing.
///
/// # Errors
/// Fails if there is no such grant that the caller may revoke.
pub async fn revoke(ctx: &Ctx, caller: &Caller, id: ToolGrantId) -> Outcome<GrantView> {
    require_any(caller)?;
    let home = reachable(&mut *ctx.pool.acquire().await?, caller, id).await?.0.grant.vault_id;
    let mut tx = vaults::begin(ctx, home, caller, None).await?;
    let (mut shown, _) = reachable(&mut tx, caller, id).await?;
    if shown.grant.revoked_at.is_some() {
        return Ok(shown);
    }
    let mut log = IntentLog::open(&mut tx, IntentId::SYSTEM, caller.trace, ctx.now()).await?;
    let now = log.now();
    let taken = rows::revoke(&mut tx, &shown.grant, now).await?;
    let mut event = event_draft(Kind::ToolGrantRevoked, &shown.grant, &caller.agent);
    event.payload.insert("delegations_revoked".to_owned(), json!(taken.saturating_sub(1)));
    log.record(ctx, event);
    log.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.notify_committed(IntentId::SYSTEM);
    shown.grant.revoked_at = Some(now);
    Ok(shown)
}

/// Suspends or resumes a grant, for those above its holder; the delegations of a suspended grant are suspended too.
///
/// # Errors
/// Fails if the caller neither gave nor owns the grant, or if the grant is over.
pub async fn suspend(ctx: &Ctx, caller: &Caller, id: ToolGrantId, rests: bool) -> Outcome<GrantView> {
    require_any(caller)?;
    let home = reachable(&mut *ctx.pool.acquire().await?, caller, id).await?.0.grant.vault_id;
    let mut tx = vaults::begin(ctx, home, caller, None).await?;
    let (mut shown, power) = reachable(&mut tx, caller, id).await?;
    // An admin may only take rights away.
    if !(power == Power::Above || rests && caller.has(Scope::Admin)) {
        let message = "Only who gave this grant has it rest or go on.";
        return Err(Refusal::new(Code::Forbidden, message).into());
    }
    let mut log = IntentLog::open(&mut tx, IntentId::SYSTEM, caller.trace, ctx.now()).await?;
    match shown.grant.status(log.now()) {
        over @ (GrantStatus::Revoked | GrantStatus::Expired) => {
            let message = format!("The grant is {}, and stays so. Make a new one.", over.as_str());
            return Err(Refusal::new(Code::InvalidTransition, message).into());
        }
        GrantStatus::Active | GrantStatus::Suspended if shown.grant.suspended == rests => return Ok(shown),
        GrantStatus::Active | GrantStatus::Suspended => {}
    }
    shown.grant.suspended = rests;
    rows::rest(&mut tx, id, rests).await?;
    let kind = if rests { Kind::ToolGrantSuspended } else { Kind::ToolGrantResumed };
    log.record(ctx, event_draft(kind, &shown.grant, &caller.agent));
    log.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.notify_committed(IntentId::SYSTEM);
    Ok(shown)
}

/// Relation of a caller to a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Power {
    /// It owns the vault, or holds a grant that this one was delegated from.
    Above,
    /// It holds the grant.
    Holder,
    /// It administers the server.
    Admin,
}

/// Loads a grant that the caller may see, with the caller's relation to it.
pub(crate) async fn reachable(
    conn: &mut PgConnection,
    caller: &Caller,
    id: ToolGrantId,
) -> Outcome<(GrantView, Power)> {
    let shown = rows::find(conn, id).await?.ok_or_else(|| not_found("grant"))?;
    let above = chain(conn, id).await?;
    let holders = above.iter().filter(|grant| grant.id != id).map(|grant| &grant.agent_id);
    let power = if [&shown.owner_id].into_iter().chain(holders).any(|name| vaults::speaks_as(caller, name)) {
        Power::Above
    } else if vaults::speaks_as(caller, &shown.grant.agent_id) {
        Power::Holder
    } else if caller.has(Scope::Admin) {
        Power::Admin
    } else {
        return Err(not_found("grant"));
    };
    Ok((shown, power))
}

/// Requires one of the two scopes for grants.
fn require_any(caller: &Caller) -> Result<(), Refusal> {
    if caller.has(Scope::ToolsManage) { Ok(()) } else { caller.require(Scope::ToolsUse) }
}

/// Announces grants that have expired, and returns their number; they are invalid since that very instant.
///
/// # Errors
/// Returns database errors.
pub async fn expire_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    if !rows::due(&mut *ctx.pool.acquire().await?, ctx.now()).await? {
        return Ok(0);
    }
    let mut work = IntentTx::unattended(ctx, IntentId::SYSTEM).await?;
    let ended = rows::end(work.conn(), ctx.now(), limit).await?;
    for grant in &ended {
        work.record(event_draft(Kind::ToolGrantExpired, grant, SYSTEM));
    }
    work.commit().await?;
    Ok(ended.len() as u64)
}

fn event_draft(kind: Kind, grant: &ToolGrant, actor: &str) -> Draft {
    let payload = json!({
        "grant_id": grant.id, "credential_id": grant.credential_id, "vault_id": grant.vault_id,
        "agent_id": grant.agent_id, "granted_by": grant.granted_by, "scopes": grant.scopes,
        "delegated_from": grant.delegated_from(), "expires_at": grant.expires_at,
    });
    Draft::of(kind, actor, payload)
}

/// Error for a stored grant that cannot be parsed.
fn odd(failure: &serde_json::Error) -> AppError {
    AppError::Inconsistent(format!("a stored grant: {failure}"))
}
