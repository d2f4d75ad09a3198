//! Routes of permits (RFC-0013), which the wire format calls approvals.

use actix_web::{HttpRequest, get, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{ApprovalId, IntentId};
use entente_domain::limits::PAGE;
use entente_domain::openintent::approvals::{Approval, ApprovalAsk, ApprovalStatus};
use entente_http::body::{Body, IdempotencyKey, Limit100, OptionalBody, Query, id};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_openintent::approvals;
use entente_openintent::approvals::{ApprovalFilter, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(ask).service(list).service(get).service(approve).service(deny);
}

/// A request for approval.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GovernanceApproval)]
struct ApprovalBody {
    /// Approval id.
    id: ApprovalId,
    /// The intent.
    intent_id: IntentId,
    /// Agent that requests the approval.
    #[schema(example = "agent.researcher")]
    requested_by: String,
    /// Action to approve; `complete` is consumed by the completion of an intent whose policy requires an
    /// approval.
    #[schema(example = "complete")]
    action: String,
    /// Reason for the request.
    reason: String,
    /// Context for the approvers.
    #[schema(value_type = Object)]
    context: Map<String, Value>,
    /// Status of the approval.
    status: ApprovalStatus,
    /// Agents that have approved; a quorum needs several.
    approved_by: Vec<String>,
    /// Agent that last approved or denied.
    decided_by: Option<String>,
    /// When the approval was decided.
    decided_at: Option<WireTime>,
    /// Notes on the decision.
    decision_notes: Option<String>,
    /// Agent that used the approval; it cannot be used again.
    used_by: Option<String>,
    /// When the approval was used.
    used_at: Option<WireTime>,
    /// When the approval was requested.
    created_at: WireTime,
}

impl ApprovalBody {
    fn new(approval: Approval, dialect: Dialect) -> Self {
        let time = |at| WireTime::new(at, dialect);
        Self {
            id: approval.id,
            intent_id: approval.intent_id,
            requested_by: approval.requested_by,
            action: approval.action,
            reason: approval.reason,
            context: approval.context,
            status: approval.status,
            approved_by: approval.approved_by,
            decided_by: approval.decided_by,
            decided_at: approval.decided_at.map(time),
            decision_notes: approval.decision_notes,
            used_by: approval.used_by,
            used_at: approval.used_at.map(time),
            created_at: time(approval.created_at),
        }
    }
}

/// An approval to request.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewGovernanceApproval)]
#[schema(example = json!({ "action": "complete", "reason": "all figures are in" }))]
struct AskBody {
    /// Agent that requests the approval; defaults to the acting agent.
    requested_by: Option<String>,
    /// Action to approve.
    action: String,
    /// Reason for the request.
    reason: Option<String>,
    /// Context for the approvers.
    #[schema(value_type = Option<Object>)]
    context: Option<Map<String, Value>>,
}

/// Request an approval
///
/// Requests approval of an action before it is performed. The intent's governance policy names the approvers;
/// if it names nobody, admins of the intent may approve and, with a quorum, the agents assigned to it. Nobody
/// approves their own request, unless the policy allows it.
#[utoipa::path(operation_id = "request_approval", tag = "governance", request_body = AskBody, params(IdempotencyKey),
    responses((status = 200, description = "The request", body = ApprovalBody)))]
#[post("/intents/{intent_id}/approvals")]
async fn ask(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<AskBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let strict = api.ctx.settings.strict;
    let by = said.requested_by.as_deref().filter(|name| !name.is_empty());
    let caller = asker.caller.acting_as(asker.caller.speaker("requested_by", by, strict)?);
    let ask = ApprovalAsk {
        action: said.action,
        reason: said.reason.unwrap_or_default(),
        context: said.context.unwrap_or_default(),
    };
    let made = approvals::request(&api.ctx, &caller, intent_id, ask, once.as_ref()).await?;
    ok(&ApprovalBody::new(made, asker.dialect))
}

/// A page of requests for approval.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GovernanceApprovalList)]
struct ApprovalList {
    /// The requests, newest first.
    approvals: Vec<ApprovalBody>,
}

/// List an intent's requests for approval
///
/// Newest first. If a page is full there may be more: request the next one with `before`.
#[utoipa::path(operation_id = "list_intent_approvals", tag = "governance",
    params(("status" = Option<ApprovalStatus>, Query, description = "Only requests in this status"),
           ("before" = Option<String>, Query, description = "Only requests older than this one: the last id of the previous page"), Limit100),
    responses((status = 200, description = "The requests", body = ApprovalList)))]
#[get("/intents/{intent_id}/approvals")]
async fn list(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let filter = ApprovalFilter {
        status: query.parsed("status", "an approval's status", ApprovalStatus::parse)?,
        before: query.parsed("before", "an approval's id", |text| text.parse().ok())?,
        limit: query.limit(100.min(PAGE))?,
    };
    let found = approvals::list(&api.ctx, &asker.caller, id("intent", &path)?, &filter).await?;
    ok(&ApprovalList {
        approvals: found.into_iter().map(|one| ApprovalBody::new(one, asker.dialect)).collect(),
    })
}

/// Get a request for approval
#[utoipa::path(operation_id = "get_approval_status", tag = "governance",
    responses((status = 200, description = "The request", body = ApprovalBody)))]
#[get("/intents/{intent_id}/approvals/{approval_id}")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<(String, String)>) -> Reply {
    let (intent_id, permit_id) = (id("intent", &path.0)?, id("approval", &path.1)?);
    let found = approvals::get(&api.ctx, &asker.caller, intent_id, permit_id).await?;
    ok(&ApprovalBody::new(found, asker.dialect))
}

/// A decision on a request for approval.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = GovernanceApprovalDecision)]
#[schema(example = json!({ "notes": "checked against the ledger" }))]
struct DecisionBody {
    /// Agent that decides; defaults to the acting agent.
    decided_by: Option<String>,
    /// Notes on the decision.
    #[serde(alias = "decision_notes", alias = "reason")]
    notes: Option<String>,
}

async fn decide(
    request: &HttpRequest,
    api: &ApiState,
    asker: &Asker,
    path: &(String, String),
    body: OptionalBody<DecisionBody>,
    verdict: Verdict,
) -> Reply {
    let (intent_id, approval_id) = (id("intent", &path.0)?, id("approval", &path.1)?);
    let once = body.0.once(request)?;
    let said = body.0.value;
    let by = said.decided_by.as_deref().filter(|name| !name.is_empty());
    let judge = asker.caller.speaker("decided_by", by, api.ctx.settings.strict)?;
    let caller = asker.caller.acting_as(judge);
    let ctx = &api.ctx;
    let decided =
        approvals::decide(ctx, &caller, intent_id, approval_id, verdict, said.notes, once.as_ref()).await?;
    ok(&ApprovalBody::new(decided, asker.dialect))
}

/// Approve a request
///
/// With a quorum, the request stays `pending` until enough agents have approved, each once. The body is
/// optional.
#[utoipa::path(operation_id = "approve_approval", tag = "governance", request_body = Option<DecisionBody>, params(IdempotencyKey),
    responses((status = 200, description = "The request", body = ApprovalBody),
              (status = 409, description = "`already_decided`", body = entente_http::error::ProblemBody)))]
#[post("/intents/{intent_id}/approvals/{approval_id}/approve")]
async fn approve(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: OptionalBody<DecisionBody>,
) -> Reply {
    decide(&request, &api, &asker, &path, body, Verdict::Approve).await
}

/// Deny a request for approval
///
/// The requesting agent may withdraw its request this way. The body is optional.
#[utoipa::path(operation_id = "deny_approval", tag = "governance", request_body = Option<DecisionBody>, params(IdempotencyKey),
    responses((status = 200, description = "The request", body = ApprovalBody),
              (status = 409, description = "`already_decided`", body = entente_http::error::ProblemBody)))]
#[post("/intents/{intent_id}/approvals/{approval_id}/deny")]
async fn deny(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: OptionalBody<DecisionBody>,
) -> Reply {
    decide(&request, &api, &asker, &path, body, Verdict::Deny).await
}
