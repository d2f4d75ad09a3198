//! Start of a tool call: choice of the grant, check of its constraints, and the record written before
//! anything is sent. All of it happens under the vault's lock, so a revoked grant starts no further call.

use std::net::IpAddr;

use chrono::TimeDelta;
use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, InvocationId, ToolGrantId};
use entente_domain::limits::CALLS_AT_ONCE;
use entente_domain::openintent::tools::invocations as domain;
use entente_domain::openintent::tools::invocations::{CallFailure, Invocation, InvocationStatus};
use entente_domain::openintent::tools::tool_calls::{Call, Connection, Invoked};
use entente_domain::openintent::tools::tool_credentials::{CredentialStatus, ToolCredential};
use entente_domain::openintent::tools::tool_grants::{GrantStatus, ToolGrant, together};
use entente_domain::openintent::tools::tool_secrets::{ToolSecret, redacted};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::subjects::unversioned;
use entente_kernel::access::membership;
use entente_kernel::spending::cost_limits;
use entente_kernel::{Caller, Outcome, Tx, charges, idempotency, not_found};
use serde_json::{Map, Value};
use sqlx::PgConnection;

use super::{find, limited, owner, rows, uses};
use crate::Ctx;
use crate::tools::{tool_credentials, tool_grants, vaults};

/// Maximum number of requests that a call makes or waits for: a token, a rejected attempt, another token and
/// the second attempt; and, each time a token is needed, one that another call is fetching.
const REQUESTS: i64 = 6;

/// The capability of budgets that judges a tool (ARCP §9.2).
const TOOL_CALL: &str = "tool.call";

/// Extra seconds in the deadline for recording the outcome.
const WRITING_SECONDS: i64 = 120;

/// Request to call a tool.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Name of the tool.
    pub tool: String,
    /// Calling agent; defaults to the acting agent.
    pub agent_id: Option<String>,
    /// Parameters of the tool.
    pub parameters: Map<String, Value>,
    /// Grant to use; defaults to the first that fits.
    pub grant_id: Option<ToolGrantId>,
    /// Intent that the call is for: its stops and budgets then judge the call as well.
    pub intent_id: Option<IntentId>,
    /// Network address of the client.
    pub peer: Option<IpAddr>,
}

/// A recorded call that is ready to be made; it contains the secret and so has no `Debug`.
pub struct Started {
    /// Id of the call.
    pub id: InvocationId,
    /// Credential of the call.
    pub credential: ToolCredential,
    /// Connection to the service.
    pub connection: Connection,
    /// Secret of the credential.
    pub secret: ToolSecret,
    tool: String,
    parameters: Map<String, Value>,
    hosts: Vec<Vec<String>>,
    at: Timestamp,
}

impl Started {
    /// Builds the HTTP request; `token` is an access token fetched for it.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub fn call(&self, token: Option<&str>) -> Result<Call, Refusal> {
        let invoked =
            Invoked { tool: &self.tool, parameters: &self.parameters, hosts: &self.hosts, now: self.at };
        self.connection.call(self.credential.auth_type, &self.secret, token, invoked)
    }
}

/// Result of [`begin`].
pub enum Begun {
    /// The same idempotency key already made this call.
    Before(Box<Invocation>),
    /// The call is to be made now.
    Now(Box<Started>),
}

/// Records that a tool is about to be called.
///
/// # Errors
/// No grant in force allows the agent this call; the credential is unusable; the call is stopped; a budget is spent or does not
/// allow the tool any more; the agent may not write to the intent.
pub async fn begin(ctx: &Ctx, caller: &Caller, ask: Ask, once: Option<&Idempotency>) -> Outcome<Begun> {
    // The call may have waited in the queue since its API key was checked.
    caller.require_key(ctx.now())?;
    caller.require(Scope::ToolsUse)?;
    let agent = caller.speaker("agent_id", ask.agent_id.as_deref(), ctx.settings.strict)?;
    domain::check_tool("tool_name", &ask.tool)?;
    domain::check_parameters(&ask.parameters)?;
    let mut conn = ctx.pool.acquire().await?;
    if let Some(id) = idempotency::find(&mut conn, caller, once).await? {
        return before(&mut conn, id, ctx.now()).await;
    }
    require_open(ctx, &mut conn, caller, &agent, &ask).await?;
    let chosen = choose(&mut conn, caller, &agent, &ask, ctx.now()).await?;
    drop(conn);
    let mut locks = vec![vaults::lock_key(chosen.vault_id)];
    locks.extend(once.map(|once| idempotency::lock_key(caller.principal(), &once.key)));
    let mut tx = ctx.begin_locked(locks).await?;
    if let Some(id) = idempotency::find(&mut tx, caller, once).await? {
        return before(&mut tx, id, ctx.now()).await;
    }
    let now = ctx.now();
    let chain = tool_grants::chain(&mut tx, chosen.id).await?;
    let credential = tool_credentials::find(&mut tx, chosen.credential_id).await?;
    let credential = credential.ok_or_else(|| not_found("grant"))?;
    require_usable(&chain, &credential, now)?;
    let limits = limited(&chain);
    uses::require(&mut tx, &limits, now).await?;
    let owner = owner(&chain);
    require_room(&mut tx, owner, now).await?;
    let id = InvocationId::mint(now, &*ctx.chance);
    let mut record = record(id, &chosen, &credential, &ask, once, now);
    let mut permits = chain.iter().filter_map(|grant| grant.constraints.as_ref());
    let permitted = permits.try_for_each(|said| said.permit(&ask.parameters, ask.peer));
    if let Err(refusal) = permitted {
        return Err(deny(tx, record, owner, refusal).await?.into());
    }
    let started = start(ctx, &mut tx, id, credential, &chain, ask, now).await?;
    // Build the request before recording it: a call that cannot be built must not be recorded as made.
    let token =
        started.connection.wants_token(started.credential.auth_type, &started.secret).then_some("token");
    let call = started.call(token)?;
    record.parameters = scrubbed(&started);
    record.request_bytes = i32::try_from(call.body_bytes()).ok();
    let millis = i64::from(started.connection.timeout_millis()) * REQUESTS;
    record.deadline_at = Some(now + TimeDelta::milliseconds(millis) + TimeDelta::seconds(WRITING_SECONDS));
    rows::insert(&mut tx, &record, owner).await?;
    uses::add(&mut tx, &limits, now).await?;
    idempotency::keep(&mut tx, caller, once, &id, now).await?;
    tx.commit().await?;
    Ok(Begun::Now(Box::new(started)))
}

/// Requires that no stop and no budget stands against the call.
async fn require_open(
    ctx: &Ctx,
    conn: &mut PgConnection,
    caller: &Caller,
    agent: &str,
    ask: &Ask,
) -> Outcome<()> {
    if let Some(intent) = ask.intent_id {
        membership::require(conn, agent, intent, Level::Write, ctx.now()).await?;
    }
    ctx.stops.objection(caller, agent, ask.intent_id).map_or(Ok(()), Err)?;
    for limit in cost_limits::load(conn, ask.intent_id.as_slice()).await?.values() {
        limit.require_left(None)?;
    }
    if ctx.stops.has_budgets() {
        let mut act = caller.act(ask.intent_id);
        act.agents.insert(0, unversioned(agent).to_owned());
        let budgets = charges::of_act(conn, &act, ctx.now()).await?;
        charges::require_call_allowed(&budgets, TOOL_CALL, &ask.tool)?;
    }
    Ok(())
}

/// Returns an earlier call under the same idempotency key.
async fn before(conn: &mut PgConnection, id: InvocationId, now: Timestamp) -> Outcome<Begun> {
    let invocation = find(conn, id, now).await?;
    if invocation.status == InvocationStatus::Running {
        let message = "The call with this Idempotency-Key is under way. Ask again for what comes of it.";
        return Err(
            Refusal { retry_after_seconds: Some(1), ..Refusal::new(Code::Unavailable, message) }.into()
        );
    }
    Ok(Begun::Before(Box::new(invocation)))
}

/// Requires that the owner's vaults have few enough calls under way.
///
/// Two calls that start at once in different vaults do not see each other, so the limit can be exceeded by
/// the number of the owner's vaults.
async fn require_room(conn: &mut PgConnection, owner: &str, now: Timestamp) -> Outcome<()> {
    if rows::running(conn, owner, now).await? < CALLS_AT_ONCE {
        return Ok(());
    }
    let message = format!(
        "With what this vault's owner grants {CALLS_AT_ONCE} calls are under way, as many as may be at once."
    );
    Err(Refusal { retry_after_seconds: Some(1), ..Refusal::new(Code::RateLimited, message) }.into())
}

/// Chooses the grant of a call: the named one, or the first that fits.
///
/// Any principal may grant an agent a tool in order to see the parameters sent to it. So when several other
/// owners offer the tool, the server chooses only a grant with an earlier successful call.
async fn choose(
    conn: &mut PgConnection,
    caller: &Caller,
    agent: &str,
    ask: &Ask,
    now: Timestamp,
) -> Outcome<ToolGrant> {
    if let Some(id) = ask.grant_id {
        let grant = super::held(conn, agent, id).await?;
        let credential = tool_credentials::find(conn, grant.credential_id).await?;
        if !credential.is_some_and(|credential| grant.covers(&ask.tool, &credential.service)) {
            return Err(nothing(agent, &ask.tool).into());
        }
        return Ok(grant);
    }
    let found = tool_grants::candidates(conn, agent, caller.principal(), &ask.tool, now).await?;
    let mut usable = found.into_iter().filter(|shown| shown.status(now) == GrantStatus::Active);
    let first = usable.next().ok_or_else(|| nothing(agent, &ask.tool))?;
    let own = [agent, caller.principal()].contains(&first.owner_id.as_str());
    if !own
        && usable.any(|other| other.owner_id != first.owner_id)
        && !rows::worked(conn, first.grant.id).await?
    {
        let message = format!(
            "Several owners have granted `{agent}` the tool `{}`, and the oldest of these grants was not used yet. Name the \
             one that you trust as `grant_id`, or give up the others with DELETE /grants/{{id}}.",
            ask.tool
        );
        return Err(Refusal::field(Code::Unprocessable, "grant_id", "ambiguous", message).into());
    }
    Ok(first.grant)
}

fn nothing(agent: &str, tool: &str) -> Refusal {
    Refusal::new(
        Code::Forbidden,
        format!("No grant in force lets `{agent}` use the tool `{tool}`. The owner of a vault can make one."),
    )
}

/// Requires that a grant, all grants above it and its credential are in force.
fn require_usable(chain: &[ToolGrant], credential: &ToolCredential, now: Timestamp) -> Result<(), Refusal> {
    let access = together(chain.iter().map(|grant| grant.status(now)));
    if chain.is_empty() || access != GrantStatus::Active {
        let message = format!("The grant is {}. Ask whoever gave it.", access.as_str());
        return Err(Refusal::new(Code::Forbidden, message));
    }
    match credential.status(now) {
        CredentialStatus::Active => Ok(()),
        other => {
            let message = format!("The credential is {}. Ask its owner.", other.as_str());
            Err(Refusal::new(Code::Forbidden, message))
        }
    }
}

/// Assembles the parts of a call.
async fn start(
    ctx: &Ctx,
    conn: &mut PgConnection,
    id: InvocationId,
    credential: ToolCredential,
    chain: &[ToolGrant],
    ask: Ask,
    at: Timestamp,
) -> Outcome<Started> {
    let connection = Connection::read(&credential.metadata)?.ok_or_else(|| {
        let message = "The credential says nothing of where its service is, so the server cannot call it. Its owner can add \
                       `base_url` and `endpoints` to its metadata.";
        Refusal::new(Code::Unprocessable, message)
    })?;
    let secret = tool_credentials::open(ctx, conn, &credential).await?;
    let hosts = chain.iter().filter_map(|grant| grant.constraints.as_ref()?.allowed_hosts.clone()).collect();
    Ok(Started { id, credential, connection, secret, tool: ask.tool, parameters: ask.parameters, hosts, at })
}

/// Redacts the parameters for the record: secret-looking members, and the credential's own secret if the
/// agent knows it.
fn scrubbed(started: &Started) -> Map<String, Value> {
    let kept = Value::Object(redacted(started.parameters.clone()));
    match started.secret.scrubber().value(kept) {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn record(
    id: InvocationId,
    grant: &ToolGrant,
    credential: &ToolCredential,
    ask: &Ask,
    once: Option<&Idempotency>,
    now: Timestamp,
) -> Invocation {
    Invocation {
        id,
        grant_id: grant.id,
        service: credential.service.clone(),
        tool: ask.tool.clone(),
        agent_id: grant.agent_id.clone(),
        parameters: Map::new(),
        status: InvocationStatus::Running,
        result: None,
        error: None,
        cost: None,
        duration_ms: None,
        http_status: None,
        request_bytes: None,
        response_bytes: None,
        idempotency_key: once.map(|once| once.key.clone()),
        context: Map::new(),
        reported: false,
        started_at: now,
        deadline_at: None,
    }
}

/// Records a denied call, so that the owner of the grant sees it, and returns the refusal.
async fn deny(mut tx: Tx, record: Invocation, owner: &str, refusal: Refusal) -> Outcome<Refusal> {
    let denied = Invocation {
        status: InvocationStatus::Denied,
        error: Some(CallFailure::Constraint.told(&refusal.message)),
        ..record
    };
    rows::insert(&mut tx, &denied, owner).await?;
    tx.commit().await?;
    Ok(refusal)
}
