//! The beginning of a call: under which grant it is made, whether that allows it, and what is written down before anything is
//! sent. All of it is decided under the vault's lock, so that a grant which was taken back lets nothing more begin.

use std::net::IpAddr;

use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::{InvocationId, ToolGrantId};
use entente_domain::invocations::{self as law, Invocation, InvocationStatus, Mishap};
use entente_domain::keys::Scope;
use entente_domain::limits::CALLS_AT_ONCE;
use entente_domain::refusal::{Code, Refusal};
use entente_domain::tool_calls::{Call, Connection, Invoked};
use entente_domain::tool_credentials::{CredentialStatus, ToolCredential};
use entente_domain::tool_grants::{GrantStatus, ToolGrant, together};
use entente_domain::tool_secrets::{ToolSecret, redacted};
use serde_json::{Map, Value};
use sqlx::PgConnection;

use super::{find, limited, owner, rows, uses};
use crate::{Caller, Ctx, Outcome, Tx, idempotency, not_found, tool_credentials, tool_grants, vaults};

/// Requests that a call may come to, and may wait for: one for a token, one that is refused for its token, another token, and the
/// call again; and each time that it needs a token, one that another call is asking for.
const REQUESTS: i64 = 6;

/// Seconds that whoever makes a call has besides, to write down what came of it.
const WRITING_SECONDS: i64 = 120;

/// What an agent asks to have called.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The tool.
    pub tool: String,
    /// Who calls; the acting agent when nothing is said.
    pub agent_id: Option<String>,
    /// What the tool is told.
    pub parameters: Map<String, Value>,
    /// Under which grant; the first that fits when nothing is said.
    pub grant_id: Option<ToolGrantId>,
    /// Where the request comes from.
    pub peer: Option<IpAddr>,
}

/// A call that was written down, and is to be made now. It has the secret in it, and no `Debug`.
pub struct Started {
    /// The call.
    pub id: InvocationId,
    /// The credential that it is made with.
    pub credential: ToolCredential,
    /// Where it goes.
    pub connection: Connection,
    /// What opens it.
    pub secret: ToolSecret,
    tool: String,
    parameters: Map<String, Value>,
    hosts: Vec<Vec<String>>,
    at: Timestamp,
}

impl Started {
    /// The request that it comes to; `token` is one that was fetched for it.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub fn call(&self, token: Option<&str>) -> Result<Call, Refusal> {
        let invoked =
            Invoked { tool: &self.tool, parameters: &self.parameters, hosts: &self.hosts, now: self.at };
        self.connection.call(self.credential.auth_type, &self.secret, token, invoked)
    }
}

/// What became of the wish to call a tool.
pub enum Begun {
    /// It was called before, under the same idempotency key.
    Before(Box<Invocation>),
    /// It is to be called now.
    Now(Box<Started>),
}

/// Writes down that a tool is about to be called.
///
/// # Errors
/// No grant lets the agent use the tool like this, now; its credential cannot be used.
pub async fn begin(ctx: &Ctx, caller: &Caller, ask: Ask, once: Option<&Idempotency>) -> Outcome<Begun> {
    // It may have waited since the key was looked at.
    caller.require_key(ctx.now())?;
    caller.require(Scope::ToolsUse)?;
    let agent = caller.speaker("agent_id", ask.agent_id.as_deref(), ctx.settings.strict)?;
    law::check_tool("tool_name", &ask.tool)?;
    law::check_parameters(&ask.parameters)?;
    let mut conn = ctx.pool.acquire().await?;
    if let Some(id) = idempotency::find(&mut conn, caller, once).await? {
        return before(&mut conn, id, ctx.now()).await;
    }
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
    // What comes of it is tried before it counts: what cannot be asked for is not written down as asked.
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

/// A call that was begun before, under the same key.
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

/// Requires that few enough calls into somebody's vaults are under way. Of two that begin at the same moment in two vaults,
/// neither counts the other: there may be as many more as one owner has vaults.
async fn require_room(conn: &mut PgConnection, owner: &str, now: Timestamp) -> Outcome<()> {
    if rows::running(conn, owner, now).await? < CALLS_AT_ONCE {
        return Ok(());
    }
    let message = format!(
        "With what this vault's owner grants {CALLS_AT_ONCE} calls are under way, as many as may be at once."
    );
    Err(Refusal { retry_after_seconds: Some(1), ..Refusal::new(Code::RateLimited, message) }.into())
}

/// The grant that a call is made under: the one that is named, or the first that fits. Anybody may grant an agent anything, to
/// hear what it tells its tools: between vaults of several others the server chooses none that was not called before.
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
    let found = tool_grants::candidates(conn, (agent, caller.principal()), &ask.tool, now).await?;
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

/// Requires that a grant, all above it and its credential are in force.
fn require_usable(chain: &[ToolGrant], credential: &ToolCredential, now: Timestamp) -> Result<(), Refusal> {
    let standing = together(chain.iter().map(|grant| grant.status(now)));
    if chain.is_empty() || standing != GrantStatus::Active {
        let message = format!("The grant is {}. Ask whoever gave it.", standing.as_str());
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

/// What a call is made of.
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

/// What is kept of the parameters: nothing that is called a secret, and not the credential's own, should an agent know it.
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

/// Writes down that a call was denied, for whoever watches over the grant; answers with what its agent is told.
async fn deny(mut tx: Tx, record: Invocation, owner: &str, refusal: Refusal) -> Outcome<Refusal> {
    let denied = Invocation {
        status: InvocationStatus::Denied,
        error: Some(Mishap::Constraint.told(&refusal.message)),
        ..record
    };
    rows::insert(&mut tx, &denied, owner).await?;
    tx.commit().await?;
    Ok(refusal)
}
