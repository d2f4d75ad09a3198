//! Uses of tools (RFC-0014): what is written down before a call is made and after it, and what agents report. Table
//! `tool_invocations`, written by `invocations/rows.rs`; calls by the hour are `invocations/uses.rs`, and how a request gets
//! to those who make the calls is `invocations/desk.rs`. Making them is `src/background/calling.rs`.
//!
//! No transaction is open while a tool is waited for. What is started is written with a deadline: whoever is to finish it has
//! done so by then, or the call counts as interrupted, on every server at the same instant.

mod beginning;
mod desk;
mod rows;
mod uses;

use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::{InvocationId, ToolGrantId};
use entente_domain::invocations::{self as law, Invocation, InvocationStatus, Report};
use entente_domain::keys::Scope;
use entente_domain::refusal::{Code, Refusal};
use entente_domain::tool_grants::ToolGrant;
use serde_json::{Map, Value};
use sqlx::PgConnection;

use super::{Caller, Ctx, Outcome, idempotency, not_found, tool_credentials, tool_grants, vaults};

pub use beginning::{Ask, Begun, Started, begin};
pub use desk::{Desk, Order, busy};

/// What came of a call.
#[derive(Debug)]
pub struct Made {
    /// How it stands.
    pub status: InvocationStatus,
    /// What the tool answered, without secrets.
    pub result: Option<Map<String, Value>>,
    /// What went wrong, without secrets.
    pub error: Option<Map<String, Value>>,
    /// Milliseconds that it took.
    pub duration_ms: i32,
    /// The tool's HTTP status.
    pub http_status: Option<i32>,
    /// Bytes that it answered.
    pub response_bytes: Option<i32>,
}

/// Writes down what came of a call; answers with the call as it now stands.
///
/// # Errors
/// The database.
pub async fn finish(ctx: &Ctx, id: InvocationId, made: &Made) -> Outcome<Invocation> {
    let mut conn = ctx.pool.acquire().await?;
    rows::finish(&mut conn, id, made).await?;
    find(&mut conn, id, ctx.now()).await
}

async fn find(conn: &mut PgConnection, id: InvocationId, now: Timestamp) -> Outcome<Invocation> {
    let found = rows::find(conn, id).await?;
    found.map(|found| found.at(now)).ok_or_else(|| not_found("invocation"))
}

/// Writes down what an agent says that it has done under a grant of its own. It counts for the grant's hour.
///
/// # Errors
/// It does not hold such a grant; the report is not lawful, or about another service.
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
    let invocation = law::report(said, grant_id, InvocationId::mint(now, &*ctx.chance), now)?;
    let chain = tool_grants::chain(&mut tx, grant_id).await?;
    let limits = limited(&chain);
    rows::insert(&mut tx, &invocation, owner(&chain)).await?;
    uses::add(&mut tx, &limits, now).await?;
    idempotency::keep(&mut tx, caller, once, &invocation.id, now).await?;
    tx.commit().await?;
    Ok(invocation)
}

/// A grant that an agent holds.
async fn held(conn: &mut PgConnection, agent: &str, id: ToolGrantId) -> Outcome<ToolGrant> {
    let leaf = tool_grants::chain(conn, id).await?.pop().filter(|grant| grant.agent_id == agent);
    leaf.ok_or_else(|| not_found("grant"))
}

/// Who owns the vault of a chain of grants: nobody else can have given the first of it.
fn owner(chain: &[ToolGrant]) -> &str {
    chain.first().map_or("", |first| &first.granted_by)
}

/// Those of some grants whose calls are counted.
fn limited(grants: &[ToolGrant]) -> Vec<(ToolGrantId, u32)> {
    let most = |grant: &ToolGrant| grant.constraints.as_ref()?.max_invocations_per_hour;
    grants.iter().filter_map(|grant| Some((grant.id, most(grant)?))).collect()
}

/// Which uses to list.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Only those before this one.
    pub before: Option<InvocationId>,
    /// How many at the most.
    pub limit: u32,
    /// Those under way too.
    pub running: bool,
}

/// The uses of a grant, the newest first: for who holds it, who gave it, and who owns what it is of.
///
/// # Errors
/// There is no such grant that the caller may see.
pub async fn list(ctx: &Ctx, caller: &Caller, grant_id: ToolGrantId, page: Page) -> Outcome<Vec<Invocation>> {
    if !caller.has(Scope::ToolsManage) {
        caller.require(Scope::ToolsUse)?;
    }
    let mut conn = ctx.pool.acquire().await?;
    tool_grants::reachable(&mut conn, caller, grant_id).await?;
    let now = ctx.now();
    let found = rows::list(&mut conn, grant_id, page, now).await?;
    Ok(found.into_iter().map(|one| one.at(now)).collect())
}

/// Writes down that nobody has seen the end of calls, and forgets what was kept for long enough; answers with how many.
///
/// # Errors
/// The database.
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
