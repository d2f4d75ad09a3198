//! Principal routes.

use actix_web::{HttpRequest, get, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::identity::principals::{Principal, PrincipalKind};
use entente_domain::limits::PAGE;
use entente_kernel::identity::principals;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Body, IdempotencyKey, Limit1000, Query};
use crate::caller::Asker;
use crate::error::Reply;
use crate::routes::Routes;
use crate::wire::WireTime;
use crate::{HttpState, created, listed, ok};

pub fn routes(config: &mut Routes<'_>) {
    config.service(create).service(list).service(whoami).service(get);
}

/// A principal, which can hold keys.
#[derive(Debug, Serialize, ToSchema)]
pub struct PrincipalBody {
    /// Id of the principal, and the name under which it acts.
    #[schema(example = "agent.researcher")]
    id: String,
    /// Kind of principal.
    kind: PrincipalKind,
    /// Display name.
    display_name: Option<String>,
    /// Principal that created this one.
    created_by: String,
    /// When the principal was created.
    created_at: WireTime,
}

impl PrincipalBody {
    fn new(principal: Principal, dialect: Dialect) -> Self {
        Self {
            id: principal.id,
            kind: principal.kind,
            display_name: principal.display_name,
            created_by: principal.created_by,
            created_at: WireTime::new(principal.created_at, dialect),
        }
    }
}

/// A principal to create.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewPrincipal)]
#[schema(example = json!({ "id": "agent.researcher", "kind": "agent" }))]
struct CreateBody {
    /// Id: 1 to 200 bytes; by convention `agent.x`, `human.ada`, `service.ci`.
    id: String,
    /// Kind of principal.
    kind: PrincipalKind,
    /// Display name.
    display_name: Option<String>,
}

/// Create a principal
///
/// Needs the scope `admin`. A principal grants no access by itself; create a key for it.
#[utoipa::path(operation_id = "create_principal", tag = "principals", request_body = CreateBody, params(IdempotencyKey),
    responses((status = 201, description = "The principal", body = PrincipalBody),
              (status = 409, description = "`already_exists`: the id is taken", body = crate::error::ProblemBody)))]
#[post("/principals")]
async fn create(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    body: Body<CreateBody>,
) -> Reply {
    let once = body.once(&request)?;
    let ask = body.value;
    let principal =
        principals::create(&api.ctx, &asker.caller, ask.id, ask.kind, ask.display_name, once.as_ref())
            .await?;
    created(&PrincipalBody::new(principal, asker.dialect))
}

/// List principals
///
/// Needs the scope `admin`. Sorted by id.
#[utoipa::path(operation_id = "list_principals", tag = "principals",
    params(("after" = Option<String>, Query, description = "Id of the last principal of the previous page"), Limit1000),
    responses((status = 200, description = "The principals", body = [PrincipalBody])))]
#[get("/principals")]
async fn list(api: web::Data<HttpState>, asker: Asker, query: Query) -> Reply {
    let found = principals::list(&api.ctx, &asker.caller, query.text("after"), query.limit(PAGE)?).await?;
    listed(found.into_iter().map(|principal| PrincipalBody::new(principal, asker.dialect)))
}

/// The caller's principal, acting agent and key.
#[derive(Debug, Serialize, ToSchema)]
struct WhoamiBody<'a> {
    /// The key's principal.
    #[schema(example = "agent.researcher")]
    principal_id: &'a str,
    /// Kind of principal.
    kind: PrincipalKind,
    /// The agent that this request acts as.
    #[schema(example = "agent.researcher")]
    agent_id: &'a str,
    /// Record of the key.
    key: crate::kernel::keys::KeyBody,
}

/// Get the current principal
///
/// Returns the record of the key in use, and the agent that the request acts as.
#[utoipa::path(tag = "principals",
    params(("X-Agent-ID" = Option<String>, Header, description = "Agent to act as; defaults to the key's principal")),
    responses((status = 200, description = "Principal, acting agent and key of the caller", body = WhoamiBody)))]
#[get("/principals/me")]
async fn whoami(asker: Asker) -> Reply {
    let caller = &asker.caller;
    ok(&WhoamiBody {
        principal_id: caller.principal(),
        kind: caller.grant.kind,
        agent_id: &caller.agent,
        key: crate::kernel::keys::KeyBody::new(caller.grant.key.clone(), asker.dialect),
    })
}

/// Get a principal
///
/// Returns the caller's own principal or, with the scope `admin`, any.
#[utoipa::path(operation_id = "get_principal",
    tag = "principals", params(("principal_id" = String, Path, description = "Id of the principal")),
    responses((status = 200, description = "The principal", body = PrincipalBody)))]
#[get("/principals/{principal_id}")]
async fn get(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let principal = principals::get(&api.ctx, &asker.caller, &path).await?;
    ok(&PrincipalBody::new(principal, asker.dialect))
}
