//! Tool invocations (RFC-0014): records written before and after each call, and agents' own reports. Table
//! `tool_invocations` is in `invocations/rows.rs`, hourly limits in `invocations/uses.rs`, the request queue
//! in `invocations/queue.rs`; `src/background/calling.rs` makes the calls.
//!
//! No transaction is open while the server waits for a tool. A started call is written with a deadline; a
//! call not finished by then counts as interrupted, on every server at the same instant.

mod beginning;
mod queue;
mod rows;
mod uses;

use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{InvocationId, ToolGrantId};
use entente_domain::openintent::tools::invocations as domain;
use entente_domain::openintent::tools::invocations::{Invocation, InvocationStatus, Report};
use entente_domain::openintent::tools::tool_grants::ToolGrant;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Caller, Outcome, idempotency, not_found};
use serde_json::{Map, Value};
use sqlx::PgConnection;

use crate::Ctx;
use crate::tools::{tool_credentials, tool_grants, vaults};

pub use beginning::{Ask, Begun, Started, begin};
pub use queue::{CallQueue, Order, busy};

/// Outcome of a call.
#[derive(Debug)]
pub struct Made {
    /// Final status.
    pub status: InvocationStatus,
    /// Answer of the tool, without secrets.
    pub result: Option<Map<String, Value>>,
    /// Error, without secrets.
    pub error: Option<Map<String, Value>>,
    /// Duration in milliseconds.
    pub duration_ms: i32,
    /// HTTP status of the tool's answer.
    pub http_status: Option<i32>,
    /// Size of the answer in bytes.
    pub response_bytes: Option<i32>,
}

/// Records the outcome of a call and returns the call with it.
///
/// # Errors
/// The database query fails.
pub async fn finish(ctx: &Ctx, id: InvocationId, made: &Made) -> Outcome<Invocation> {
    let mut conn = ctx.pool.acquire().await?;
    rows::finish(&mut conn, id, made).await?;
    find(&mut conn, id, ctx.now()).await
}

async fn find(conn: &mut PgConnection, id: InvocationId, now: Timestamp) -> Outcome<Invocation> {
    let found = rows::find(conn, id).await?;
    found.map(|found| found.at(now)).ok_or_else(|| not_found("invocation"))
}

/// Records a call reported by the agent that made it under its own grant; counts towards the hourly limit.
///
/// # Errors
/// The caller holds no such grant; the report is invalid or names another service.
pub async fn report(
    ctx: &Ctx,
    caller: &Caller,
    grant_id: ToolGrantId,
    said: Report,
    once: Option<&Idempotency>,
) -> Outcome<Invocation> {
    caller.require(Scope::ToolsUse)?;
    let agent = caller.speaker("agent_id", Some(&said.agent_id), ctx.settings.strict)?;
    let grant = held(&mut *ctx.pool.acquire().await?, &agent, grant_id).await?;
    let mut locks = vec![vaults::lock_key(grant.vault_id)];
    locks.extend(once.map(|once| idempotency::lock_key(caller.principal(), &once.key)));
    let mut tx = ctx.begin_locked(locks).await?;
    let now = ctx.now();
    if let Some(id) = idempotency::find::<InvocationId>(&mut tx, caller, once).await? {
        return find(&mut tx, id, now).await;
    }
    let credential = tool_credentials::find(&mut tx, grant.credential_id).await?;
    let service = credential.map(|credential| credential.service).ok_or_else(|| not_found("grant"))?;
    if said.service != service {
        let message =
            format!("The grant is for the service `{service}`; report calls of others under theirs.");
        return Err(Refusal::field(Code::Unprocessable, "service", "unknown", message).into());
    }
    let invocation = domain::report(said, grant_id, InvocationId::mint(now, &*ctx.chance), now)?;
    let chain = tool_grants::chain(&mut tx, grant_id).await?;
    let limits = limited(&chain);
    rows::insert(&mut tx, &invocation, owner(&chain)).await?;
    uses::add(&mut tx, &limits, now).await?;
    idempotency::keep(&mut tx, caller, once, &invocation.id, now).await?;
    tx.commit().await?;
    Ok(invocation)
}

/// Loads a grant that the agent holds.
async fn held(conn: &mut PgConnection, agent: &str, id: ToolGrantId) -> Outcome<ToolGrant> {
    let leaf = tool_grants::chain(conn, id).await?.pop().filter(|grant| grant.agent_id == agent);
    leaf.ok_or_else(|| not_found("grant"))
}

/// Owner of the vault of a chain of grants: only the owner can give the first grant.
fn owner(chain: &[ToolGrant]) -> &str {
    chain.first().map_or("", |first| &first.granted_by)
}

/// Those of these grants that limit calls per hour, with their limits.
fn limited(grants: &[ToolGrant]) -> Vec<(ToolGrantId, u32)> {
    let most = |grant: &ToolGrant| grant.constraints.as_ref()?.max_invocations_per_hour;
    grants.iter().filter_map(|grant| Some((grant.id, most(grant)?))).collect()
}

/// Page of invocations to list.
#[derive(Debug, Clone, Copy)]
pub struct InvocationPage {
    /// Cursor: only invocations before this one.
    pub before: Option<InvocationId>,
    /// Maximum number of invocations.
    pub limit: u32,
    /// Whether to include running calls.
    pub running: bool,
}

/// Lists the invocations of a grant, newest first; visible to its holder, its giver and the vault's owner.
///
/// # Errors
/// The caller may see no such grant.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    grant_id: ToolGrantId,
    page: InvocationPage,
) -> Outcome<Vec<Invocation>> {
    if !caller.has(Scope::ToolsManage) {
        caller.require(Scope::ToolsUse)?;
    }
    let mut conn = ctx.pool.acquire().await?;
    tool_grants::reachable(&mut conn, caller, grant_id).await?;
    let now = ctx.now();
    let found = rows::list(&mut conn, grant_id, page, now).await?;
    Ok(found.into_iter().map(|one| one.at(now)).collect())
}

/// Marks abandoned calls as interrupted, deletes expired records and returns the number of changed rows.
///
/// # Errors
/// The database query fails.
pub async fn tidy(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let now = ctx.now();
    let mut conn = ctx.pool.acquire().await?;
    let interrupted = rows::interrupt(&mut conn, now, limit).await?;
    if interrupted > 0 {
        tracing::warn!(
            calls = interrupted,
            "calls of tools were begun by servers that did not see their end"
        );
    }
    let forgotten = rows::forget(&mut conn, vaults::forgotten(ctx), limit).await?;
    let counted = uses::forget(&mut conn, now, limit).await?;
    Ok(interrupted + forgotten + counted)
}
