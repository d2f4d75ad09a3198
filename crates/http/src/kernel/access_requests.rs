//! Endpoints for access requests (RFC-0011).

use actix_web::{HttpRequest, get, post, web};
use entente_domain::access::Level;
use entente_domain::access::access_requests::{AccessRequest, RequestAsk, RequestStatus};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{AccessRequestId, IntentId};
use entente_kernel::access::access_requests;
use entente_kernel::access::access_requests::Judgement;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Body, IdempotencyKey, OptionalBody, id};
use crate::caller::Asker;
use crate::error::Reply;
use crate::routes::Routes;
use crate::wire::{GivenTime, WireTime};
use crate::{HttpState, ok};

pub fn routes(config: &mut Routes<'_>) {
    config.service(request_access).service(list).service(approve).service(deny);
}

/// An access request.
#[derive(Debug, Serialize, ToSchema)]
struct RequestBody {
    /// The request's id.
    id: AccessRequestId,
    /// The intent.
    intent_id: IntentId,
    /// The principal that asks for access.
    #[schema(example = "agent.researcher")]
    principal_id: String,
    /// The kind of principal.
    #[schema(example = "agent")]
    principal_type: String,
    /// The access level asked for.
    requested_permission: Level,
    /// Why access is needed.
    reason: String,
    /// The request's status.
    status: RequestStatus,
    /// The principal's capabilities.
    capabilities: Vec<String>,
    /// The principal that decided; null while pending.
    decided_by: Option<String>,
    /// When it was decided; null while pending.
    decided_at: Option<WireTime>,
    /// The reason for the decision.
    decision_reason: Option<String>,
    /// When the request was made.
    created_at: WireTime,
}

impl RequestBody {
    fn new(request: AccessRequest, dialect: Dialect) -> Self {
        Self {
            id: request.id,
            intent_id: request.intent_id,
            principal_id: request.principal_id,
            principal_type: request.principal_type,
            requested_permission: request.requested_permission,
            reason: request.reason,
            status: request.status,
            capabilities: request.capabilities,
            decided_by: request.decided_by,
            decided_at: request.decided_at.map(|at| WireTime::new(at, dialect)),
            decision_reason: request.decision_reason,
            created_at: WireTime::new(request.created_at, dialect),
        }
    }
}

/// An access request to make.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewAccessRequest)]
#[schema(example = json!({ "requested_permission": "write", "reason": "I have the figures" }))]
struct AskBody {
    /// The principal that asks for access; defaults to the acting agent.
    principal_id: Option<String>,
    /// The kind of principal; defaults to `agent`.
    principal_type: Option<String>,
    /// The access level; defaults to `write`.
    #[serde(alias = "permission")]
    requested_permission: Option<Level>,
    /// Why access is needed.
    #[serde(default)]
    reason: String,
    /// The principal's capabilities.
    #[serde(default)]
    capabilities: Vec<String>,
}

/// Ask for access to an intent
///
/// Requires no access to the intent.
#[utoipa::path(tag = "access", request_body = AskBody, params(IdempotencyKey),
    responses((status = 200, description = "The request", body = RequestBody)))]
#[post("/intents/{intent_id}/access-requests")]
async fn request_access(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<AskBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let strict = api.ctx.settings.strict;
    let ask = RequestAsk {
        principal_id: asker.caller.speaker("principal_id", said.principal_id.as_deref(), strict)?,
        principal_type: said.principal_type,
        permission: said.requested_permission,
        reason: said.reason,
        capabilities: said.capabilities,
    };
    let made = access_requests::request(&api.ctx, &asker.caller, intent_id, ask, once.as_ref()).await?;
    ok(&RequestBody::new(made, asker.dialect))
}

/// The access requests for an intent.
#[derive(Debug, Serialize, ToSchema)]
struct RequestList {
    /// The requests, oldest first.
    access_requests: Vec<RequestBody>,
}

/// List the requests for access to an intent
///
/// Admins of the intent see all requests; other callers see their own.
#[utoipa::path(operation_id = "list_access_requests",
    tag = "access",
    responses((status = 200, description = "The requests", body = RequestList)))]
#[get("/intents/{intent_id}/access-requests")]
async fn list(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = access_requests::list(&api.ctx, &asker.caller, id("intent", &path)?).await?;
    ok(&RequestList {
        access_requests: found.into_iter().map(|one| RequestBody::new(one, asker.dialect)).collect(),
    })
}

/// A decision about an access request.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(example = json!({ "permission": "write", "reason": "welcome" }))]
struct DecisionBody {
    /// The principal that decides; defaults to the acting agent.
    decided_by: Option<String>,
    /// The access level to grant; defaults to the level asked for.
    permission: Option<Level>,
    /// When the access ends; defaults to never.
    expires_at: Option<GivenTime>,
    /// The reason for the decision.
    reason: Option<String>,
}

async fn decide(
    api: &HttpState,
    asker: &Asker,
    path: &(String, String),
    body: DecisionBody,
    decision: impl FnOnce(&DecisionBody) -> Judgement,
) -> Reply {
    let intent_id: IntentId = id("intent", &path.0)?;
    let request: AccessRequestId = id("pending access request", &path.1)?;
    let judge = asker.caller.speaker("decided_by", body.decided_by.as_deref(), api.ctx.settings.strict)?;
    let decision = decision(&body);
    let decided =
        access_requests::decide(&api.ctx, &asker.caller, intent_id, request, &judge, decision, body.reason)
            .await?;
    ok(&RequestBody::new(decided, asker.dialect))
}

/// Approve a request for access
///
/// Creates the access entry. A request that was already decided is reported as not found.
#[utoipa::path(operation_id = "approve_access_request", tag = "access", request_body = Option<DecisionBody>,
    responses((status = 200, description = "The request", body = RequestBody)))]
#[post("/intents/{intent_id}/access-requests/{request_id}/approve")]
async fn approve(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: OptionalBody<DecisionBody>,
) -> Reply {
    let approve = |body: &DecisionBody| Judgement::Approve {
        permission: body.permission,
        expires_at: body.expires_at.map(|end| end.0),
    };
    decide(&api, &asker, &path, body.0.value, approve).await
}

/// Deny a request for access
#[utoipa::path(operation_id = "deny_access_request", tag = "access", request_body = Option<DecisionBody>,
    responses((status = 200, description = "The request", body = RequestBody)))]
#[post("/intents/{intent_id}/access-requests/{request_id}/deny")]
async fn deny(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: OptionalBody<DecisionBody>,
) -> Reply {
    decide(&api, &asker, &path, body.0.value, |_| Judgement::Deny).await
}
