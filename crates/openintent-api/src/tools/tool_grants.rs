//! Routes of grants (RFC-0014): the permission of an agent to use a credential, with limits and an expiry.

use actix_web::{HttpRequest, delete, get, patch, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{ToolCredentialId, ToolGrantId, VaultId};
use entente_domain::limits::PAGE;
use entente_domain::openintent::tools::tool_grants::{Constraints, GrantAsk, GrantStatus};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, IdempotencyKey, Limit1000, Query, id};
use entente_http::caller::Asker;
use entente_http::error::{Problem, ProblemBody, Reply};
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::{GivenTime, WireTime};
use entente_openintent::tools::tool_grants;
use entente_openintent::tools::tool_grants::{GrantPage, GrantView, NewGrant};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config
        .service(create)
        .service(get_one)
        .service(of_agent)
        .service(of_credential)
        .service(revoke)
        .service(change);
}

/// Whether the vault's owner gave the grant, or a holder passed it on.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum GrantSource {
    Direct,
    Delegated,
}

/// A grant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolGrant)]
struct GrantBody {
    /// Grant id.
    id: ToolGrantId,
    /// The credential that the grant covers.
    credential_id: ToolCredentialId,
    /// The vault that contains the credential.
    vault_id: VaultId,
    /// Agent that holds the grant.
    #[schema(example = "agent.researcher")]
    agent_id: String,
    /// Agent that gave the grant.
    granted_by: String,
    /// The tools, or other scopes of the credential, that the grant covers.
    #[schema(example = json!(["web_search"]))]
    scopes: Vec<String>,
    /// Limits on the use of the grant.
    constraints: Option<Constraints>,
    /// Whether the vault's owner gave the grant, or a holder passed it on.
    source: GrantSource,
    /// Whether the holder may pass the grant on.
    delegatable: bool,
    /// How many times the grant has been passed on.
    delegation_depth: usize,
    /// The grant that this one was delegated from.
    delegated_from: Option<ToolGrantId>,
    /// Further context from the grantor; `tools` in it names additional tools.
    #[schema(value_type = Object)]
    context: Map<String, Value>,
    /// Current status: `suspended` also while a parent grant is, `expired` also when the credential is.
    status: GrantStatus,
    /// When the grant expires.
    expires_at: Option<WireTime>,
    /// When the grant was given.
    created_at: WireTime,
    /// When the grant was revoked.
    revoked_at: Option<WireTime>,
}

impl GrantBody {
    fn new(api: &ApiState, shown: GrantView, dialect: Dialect) -> Self {
        let status = shown.status(api.ctx.now());
        let grant = shown.grant;
        let time = |at| WireTime::new(at, dialect);
        Self {
            id: grant.id,
            credential_id: grant.credential_id,
            vault_id: grant.vault_id,
            source: if grant.ancestors.is_empty() { GrantSource::Direct } else { GrantSource::Delegated },
            delegatable: grant.delegatable,
            delegation_depth: grant.ancestors.len(),
            delegated_from: grant.delegated_from(),
            agent_id: grant.agent_id,
            granted_by: grant.granted_by,
            scopes: grant.scopes,
            constraints: grant.constraints,
            context: grant.context,
            status,
            expires_at: grant.expires_at.map(time),
            created_at: time(grant.created_at),
            revoked_at: grant.revoked_at.map(time),
        }
    }
}

fn bodies(api: &ApiState, found: Vec<GrantView>, dialect: Dialect) -> Vec<GrantBody> {
    found.into_iter().map(|shown| GrantBody::new(api, shown, dialect)).collect()
}

/// A grant to give.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewToolGrant, example = json!({
    "credential_id": "tcred_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "agent_id": "agent.researcher", "scopes": ["web_search"],
    "constraints": { "max_invocations_per_hour": 60 }, "expires_at": "2026-12-01T00:00:00Z"
}))]
struct NewGrantBody {
    /// The credential.
    credential_id: String,
    /// Agent that may use the credential.
    agent_id: String,
    /// Agent that gives the grant; defaults to the acting agent.
    granted_by: Option<String>,
    /// The tools, or other scopes of the credential, that the grant covers; it also covers the tool that has
    /// the name of the service.
    #[serde(default)]
    scopes: Vec<String>,
    /// Limits on the use of the grant; limits that the server cannot enforce are refused.
    #[schema(value_type = Option<Constraints>)]
    constraints: Option<Value>,
    /// Whether the holder may pass the grant on.
    #[serde(default)]
    delegatable: bool,
    /// The grant to delegate, which the grantor must hold.
    delegated_from: Option<String>,
    /// Further context; `tools` in it names additional tools.
    #[serde(default)]
    #[schema(value_type = Object)]
    context: Map<String, Value>,
    /// When the grant expires; defaults to never, or to the expiry of the delegated grant.
    expires_at: Option<GivenTime>,
}

/// Grant the use of a credential
///
/// Allowed for the vault's owner and, with `delegated_from`, for an agent that delegates a grant of its own.
/// A delegated grant never exceeds its parent: calls under it also obey every grant above it.
#[utoipa::path(operation_id = "create_tool_grant", tag = "tools", request_body = NewGrantBody, params(IdempotencyKey),
    responses((status = 200, description = "The grant", body = GrantBody),
              (status = 403, description = "The caller may not give this grant, or it exceeds the grant that is delegated", body = ProblemBody)))]
#[post("/grants")]
async fn create(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    body: Body<NewGrantBody>,
) -> Reply {
    let once = body.once(&request)?;
    let said = body.value;
    let parent = said.delegated_from.filter(|text| !text.is_empty());
    let constraints = said.constraints.filter(|said| !said.is_null());
    let new = NewGrant {
        credential_id: id("credential", &said.credential_id)?,
        delegated_from: parent.map(|text| id("grant", &text)).transpose()?,
        granted_by: said.granted_by,
        ask: GrantAsk {
            agent_id: said.agent_id,
            scopes: said.scopes,
            constraints: constraints.map(Constraints::read).transpose()?,
            delegatable: said.delegatable,
            context: said.context,
            expires_at: said.expires_at.map(|end| end.0),
        },
    };
    let made = tool_grants::create(&api.ctx, &asker.caller, new, once.as_ref()).await?;
    ok(&GrantBody::new(&api, made, asker.dialect))
}

/// Get a grant
///
/// Allowed for its holder, its grantor and the vault's owner.
#[utoipa::path(operation_id = "get_tool_grant", tag = "tools",
    responses((status = 200, description = "The grant", body = GrantBody)))]
#[get("/grants/{grant_id}")]
async fn get_one(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = tool_grants::get(&api.ctx, &asker.caller, id("grant", &path)?).await?;
    ok(&GrantBody::new(&api, found, asker.dialect))
}

fn page(query: &Query) -> Result<GrantPage, Problem> {
    let after = query.parsed("after", "the id of a grant", |text| text.parse().ok())?;
    Ok(GrantPage { after, limit: query.limit(PAGE)? })
}

/// List the grants of an agent
///
/// Returns all of them to the agent itself and to admins; others see those of their own vaults. Newest first,
/// at most 1,000: pass the id of the last one as `after` to get the next page.
#[utoipa::path(operation_id = "list_agent_grants", tag = "tools",
    params(("after" = Option<ToolGrantId>, Query, description = "Last grant of the previous page"), Limit1000),
    responses((status = 200, description = "The grants", body = [GrantBody])))]
#[get("/agents/{agent_id}/grants")]
async fn of_agent(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let found = tool_grants::of_agent(&api.ctx, &asker.caller, &path, page(&query)?).await?;
    ok(&bodies(&api, found, asker.dialect))
}

/// List the grants of a credential
///
/// Allowed for the vault's owner and for admins. Newest first, at most 1,000: pass the id of the last one as
/// `after` to get the next page.
#[utoipa::path(operation_id = "list_credential_grants", tag = "tools",
    params(("after" = Option<ToolGrantId>, Query, description = "Last grant of the previous page"), Limit1000),
    responses((status = 200, description = "The grants", body = [GrantBody])))]
#[get("/credentials/{tool_credential_id}/grants")]
async fn of_credential(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    query: Query,
) -> Reply {
    let credential = id("credential", &path)?;
    let found = tool_grants::of_credential(&api.ctx, &asker.caller, credential, page(&query)?).await?;
    ok(&bodies(&api, found, asker.dialect))
}

/// A revoked grant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolGrantRevoked)]
struct RevokedBody {
    /// Always `revoked`.
    status: GrantStatus,
    /// Grant id.
    grant_id: ToolGrantId,
    /// When the grant was revoked.
    revoked_at: Option<WireTime>,
}

/// Revoke a grant
///
/// Takes effect immediately and also revokes the grants delegated from it. Allowed for its grantor, the
/// vault's owner, admins, and its holder, which thereby gives it up.
#[utoipa::path(operation_id = "revoke_grant", tag = "tools",
    responses((status = 200, description = "The revoked grant", body = RevokedBody)))]
#[delete("/grants/{grant_id}")]
async fn revoke(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let shown = tool_grants::revoke(&api.ctx, &asker.caller, id("grant", &path)?).await?;
    let revoked_at = shown.grant.revoked_at.map(|at| WireTime::new(at, asker.dialect));
    ok(&RevokedBody { status: GrantStatus::Revoked, grant_id: shown.grant.id, revoked_at })
}

/// A new status of a grant.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ToolGrantChange, example = json!({ "status": "suspended" }))]
struct ChangeBody {
    /// `suspended`, `active` or `revoked`.
    status: GrantStatus,
}

/// Suspend, resume or revoke a grant
///
/// While a grant is suspended, no call can begin under it or under the grants delegated from it. Allowed for
/// its grantor and the vault's owner; admins can suspend.
#[utoipa::path(operation_id = "change_tool_grant", tag = "tools", request_body = ChangeBody,
    responses((status = 200, description = "The grant", body = GrantBody),
              (status = 409, description = "The grant has ended", body = ProblemBody)))]
#[patch("/grants/{grant_id}")]
async fn change(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ChangeBody>,
) -> Reply {
    let grant = id("grant", &path)?;
    let (ctx, caller) = (&api.ctx, &asker.caller);
    let shown = match body.value.status {
        GrantStatus::Revoked => tool_grants::revoke(ctx, caller, grant).await?,
        GrantStatus::Suspended => tool_grants::suspend(ctx, caller, grant, true).await?,
        GrantStatus::Active => tool_grants::suspend(ctx, caller, grant, false).await?,
        GrantStatus::Expired => {
            let message = "`status` must be suspended, active or revoked; a grant expires by its time.";
            return Err(Refusal::field(Code::InvalidRequest, "status", "enum", message).into());
        }
    };
    ok(&GrantBody::new(&api, shown, asker.dialect))
}
