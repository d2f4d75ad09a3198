//! Actions on plans (RFC-0012): activate, pause, resume, and decide at checkpoints.

use actix_web::{HttpRequest, post, web};
use entente_domain::ids::PlanId;
use entente_domain::openintent::plans::{PlanAsk, PlanState};
use entente_http::body::{IfMatchMaybe, OptionalBody, id, if_match_maybe};
use entente_http::caller::{Asker, state_of};
use entente_http::error::Reply;
use entente_http::routes::Routes;
use entente_openintent::tasks::plans;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::ApiState;
use crate::plans::{PlanBody, response};

pub fn routes(config: &mut Routes<'_>) {
    config.service(activate).service(pause).service(resume).service(approve).service(reject);
}

async fn enter(request: &HttpRequest, asker: &Asker, path: &str, state: PlanState) -> Reply {
    let api = state_of::<ApiState>(request)?;
    let id: PlanId = id("plan", path)?;
    let seen = if_match_maybe("plan", request)?;
    let ask = PlanAsk { state: Some(state), ..PlanAsk::default() };
    response(plans::change(&api.ctx, &asker.caller, id, seen, ask).await?, asker)
}

/// Activate a plan
#[utoipa::path(operation_id = "activate_plan", tag = "plans", params(IfMatchMaybe),
    responses((status = 200, description = "The plan", body = PlanBody)))]
#[post("/plans/{plan_id}/activate")]
async fn activate(request: HttpRequest, asker: Asker, path: web::Path<String>) -> Reply {
    enter(&request, &asker, &path, PlanState::Active).await
}

/// Pause a plan
///
/// No task of the plan can be claimed until the plan is resumed; tasks already claimed continue.
#[utoipa::path(operation_id = "pause_plan", tag = "plans", params(IfMatchMaybe),
    responses((status = 200, description = "The plan", body = PlanBody)))]
#[post("/plans/{plan_id}/pause")]
async fn pause(request: HttpRequest, asker: Asker, path: web::Path<String>) -> Reply {
    enter(&request, &asker, &path, PlanState::Paused).await
}

/// Resume a plan
#[utoipa::path(operation_id = "resume_plan", tag = "plans", params(IfMatchMaybe),
    responses((status = 200, description = "The plan", body = PlanBody)))]
#[post("/plans/{plan_id}/resume")]
async fn resume(request: HttpRequest, asker: Asker, path: web::Path<String>) -> Reply {
    enter(&request, &asker, &path, PlanState::Active).await
}

/// A decision on a checkpoint.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = PlanCheckpointDecision)]
#[schema(example = json!({ "decided_by": "human.ada" }))]
struct DecisionBody {
    /// Agent that decides; defaults to the acting agent.
    decided_by: Option<String>,
}

async fn decide(
    api: &ApiState,
    asker: &Asker,
    path: &(String, String),
    body: &DecisionBody,
    passed: bool,
) -> Reply {
    let plan: PlanId = id("plan", &path.0)?;
    let strict = api.ctx.settings.strict;
    let judge = asker.caller.speaker("decided_by", body.decided_by.as_deref(), strict)?;
    response(plans::decide(&api.ctx, &asker.caller, plan, &path.1, &judge, passed).await?, asker)
}

/// Approve a checkpoint
///
/// The plan continues.
#[utoipa::path(operation_id = "approve_plan_checkpoint", tag = "plans", request_body = Option<DecisionBody>,
    params(("checkpoint_id" = String, Path, description = "Id of the checkpoint within the plan")),
    responses((status = 200, description = "The plan", body = PlanBody)))]
#[post("/plans/{plan_id}/checkpoints/{checkpoint_id}/approve")]
async fn approve(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: OptionalBody<DecisionBody>,
) -> Reply {
    decide(&api, &asker, &path, &body.0.value, true).await
}

/// Reject a checkpoint
///
/// The plan pauses until somebody resumes it.
#[utoipa::path(operation_id = "reject_plan_checkpoint", tag = "plans", request_body = Option<DecisionBody>,
    params(("checkpoint_id" = String, Path, description = "Id of the checkpoint within the plan")),
    responses((status = 200, description = "The plan", body = PlanBody)))]
#[post("/plans/{plan_id}/checkpoints/{checkpoint_id}/reject")]
async fn reject(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: OptionalBody<DecisionBody>,
) -> Reply {
    decide(&api, &asker, &path, &body.0.value, false).await
}
