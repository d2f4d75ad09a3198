//! Plan routes (RFC-0012). As with tasks, there are two paths to create one. The actions on plans are in
//! `plan_verbs.rs`.

pub(crate) mod verbs;

use actix_web::{HttpRequest, get, patch, post, web};
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{IntentId, PlanId, TaskId};
use entente_domain::limits::PAGE;
use entente_domain::openintent::plans::{Gate, GateStatus, OnFailure, OnTimeout, Plan, PlanAsk, PlanState};
use entente_domain::refusal::Refusal;
use entente_http::body::{
    Body, IdempotencyKey, IfMatch, Limit1000, Query, id, if_match_of, intent_of, named,
};
use entente_http::caller::{Asker, state_of};
use entente_http::error::Reply;
use entente_http::routes::Routes;
use entente_http::unknown::ReadOnly;
use entente_http::wire::WireTime;
use entente_http::{listed, with_version};
use entente_openintent::tasks::plans;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(create).service(create_rfc).service(list).service(get).service(change);
}

/// A checkpoint of a plan.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PlanCheckpoint)]
struct GateBody {
    /// Id of the checkpoint within the plan.
    id: String,
    /// Subject of the checkpoint.
    name: String,
    /// The plan reaches the checkpoint when this task is completed.
    after_task: String,
    /// Whether the plan waits here for a decision.
    requires_approval: bool,
    /// Agents that may decide; if empty, the managers of the intent.
    approvers: Vec<String>,
    /// Time limit of the decision in hours; stored but not enforced.
    timeout_hours: Option<u32>,
    /// Action after the time limit; stored but not enforced.
    on_timeout: OnTimeout,
    /// Status of the checkpoint.
    status: GateStatus,
    /// Agent that decided.
    approved_by: Option<String>,
    /// When the checkpoint was decided.
    approved_at: Option<WireTime>,
}

/// A plan.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlanBody {
    /// Plan id.
    id: PlanId,
    /// The intent.
    intent_id: IntentId,
    /// State of the plan.
    state: PlanState,
    /// Tasks of the plan.
    tasks: Vec<TaskId>,
    /// Checkpoints of the plan.
    checkpoints: Vec<GateBody>,
    /// Conditions, stored as given.
    conditions: Vec<Value>,
    /// Reaction to a task that has failed for good.
    on_failure: OnFailure,
    /// Action on completion, stored as given.
    #[schema(example = "notify")]
    on_complete: String,
    /// Metadata, an object of the client's own.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// Same as `metadata`, under the reference server's name.
    #[schema(value_type = Object)]
    plan_metadata: Map<String, Value>,
    /// Version that guards writes: send it in `If-Match`.
    version: i64,
    /// Agent that created the plan.
    created_by: String,
    /// When the plan was created.
    created_at: WireTime,
    /// When the plan last changed.
    updated_at: WireTime,
}

impl PlanBody {
    fn new(plan: Plan, dialect: Dialect) -> Self {
        let time = |at: Timestamp| WireTime::new(at, dialect);
        let gate = |gate: Gate| GateBody {
            id: gate.id,
            name: gate.name,
            after_task: gate.after_task,
            requires_approval: gate.requires_approval,
            approvers: gate.approvers,
            timeout_hours: gate.timeout_hours,
            on_timeout: gate.on_timeout,
            status: gate.status,
            approved_by: gate.approved_by,
            approved_at: gate.approved_at.map(time),
        };
        Self {
            id: plan.id,
            intent_id: plan.intent_id,
            state: plan.state,
            tasks: plan.tasks,
            checkpoints: plan.gates.into_iter().map(gate).collect(),
            conditions: plan.conditions,
            on_failure: plan.on_failure,
            on_complete: plan.on_complete,
            metadata: plan.metadata.clone(),
            plan_metadata: plan.metadata,
            version: plan.version,
            created_by: plan.created_by,
            created_at: time(plan.created_at),
            updated_at: time(plan.updated_at),
        }
    }
}

/// Returns a 200 with the plan, and its version as `ETag`.
pub(crate) fn response(plan: Plan, asker: &Asker) -> Reply {
    with_version(plan.version, &PlanBody::new(plan, asker.dialect))
}

fn yes() -> bool {
    true
}

/// A checkpoint to add to a plan.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewPlanCheckpoint)]
struct GateAsk {
    /// Id of the checkpoint within the plan; generated if omitted.
    #[serde(default)]
    id: String,
    /// Subject of the checkpoint.
    #[serde(default)]
    name: String,
    /// Task after which the plan reaches the checkpoint.
    #[serde(default, alias = "after")]
    after_task: String,
    /// Whether the plan waits here for a decision; defaults to true.
    #[serde(default = "yes")]
    requires_approval: bool,
    /// Agents that may decide.
    #[serde(default)]
    approvers: Vec<String>,
    /// Time limit of the decision in hours; stored but not enforced.
    timeout_hours: Option<u32>,
    /// Action after the time limit; stored but not enforced.
    #[serde(default)]
    on_timeout: OnTimeout,
    /// Ignored: the SDK sends a checkpoint as it reads it (OI-3.2.6), and only its decision changes this.
    #[serde(default, rename = "status")]
    #[schema(value_type = Option<String>)]
    _status: ReadOnly,
    /// Ignored, as `status`.
    #[serde(default, rename = "approved_by")]
    #[schema(value_type = Option<String>)]
    _approved_by: ReadOnly,
    /// Ignored, as `status`.
    #[serde(default, rename = "approved_at")]
    #[schema(value_type = Option<String>)]
    _approved_at: ReadOnly,
}

/// A new plan or a change of one; missing fields take their defaults or stay unchanged.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = PlanAsk)]
#[schema(example = json!({ "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "tasks": [], "state": "active" }))]
struct AskBody {
    /// The intent of a new plan; not needed if the path names it.
    intent_id: Option<String>,
    /// State of the plan; a new one is a draft.
    state: Option<PlanState>,
    /// The complete list of its tasks.
    tasks: Option<Vec<String>>,
    /// The complete list of its checkpoints; known checkpoints keep their status.
    checkpoints: Option<Vec<GateAsk>>,
    /// Conditions, stored as given.
    conditions: Option<Vec<Value>>,
    /// Reaction to a task that has failed for good.
    on_failure: Option<OnFailure>,
    /// Action on completion, stored as given.
    on_complete: Option<String>,
    /// Metadata, an object of the client's own.
    #[serde(alias = "plan_metadata")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

impl AskBody {
    fn ask(self) -> Result<PlanAsk, Refusal> {
        let gate = |ask: GateAsk| Gate {
            id: ask.id,
            name: ask.name,
            after_task: ask.after_task,
            requires_approval: ask.requires_approval,
            approvers: ask.approvers,
            timeout_hours: ask.timeout_hours,
            on_timeout: ask.on_timeout,
            status: GateStatus::Pending,
            approved_by: None,
            approved_at: None,
        };
        Ok(PlanAsk {
            state: self.state,
            tasks: self.tasks.as_deref().map(|ids| named("tasks", ids)).transpose()?,
            gates: self.checkpoints.map(|gates| gates.into_iter().map(gate).collect()),
            conditions: self.conditions,
            on_failure: self.on_failure,
            on_complete: self.on_complete,
            metadata: self.metadata,
        })
    }
}

async fn create_one(request: &HttpRequest, asker: &Asker, intent: IntentId, body: Body<AskBody>) -> Reply {
    let api = state_of::<ApiState>(request)?;
    let once = body.once(request)?;
    let ask = body.value.ask()?;
    response(plans::create(&api.ctx, &asker.caller, intent, ask, once.as_ref()).await?, asker)
}

/// Create a plan
#[utoipa::path(operation_id = "create_plan", tag = "plans", request_body = AskBody, params(IdempotencyKey),
    responses((status = 200, description = "The plan", body = PlanBody)))]
#[post("/plans")]
async fn create(request: HttpRequest, asker: Asker, body: Body<AskBody>) -> Reply {
    let intent = intent_of(body.value.intent_id.as_ref())?;
    create_one(&request, &asker, intent, body).await
}

/// Create a plan for an intent
///
/// Same as `POST /plans`, on the RFC's path.
#[utoipa::path(operation_id = "create_intent_plan", tag = "plans", request_body = AskBody, params(IdempotencyKey),
    responses((status = 200, description = "The plan", body = PlanBody)))]
#[post("/intents/{intent_id}/plans")]
async fn create_rfc(
    request: HttpRequest,
    asker: Asker,
    path: web::Path<String>,
    body: Body<AskBody>,
) -> Reply {
    create_one(&request, &asker, id("intent", &path)?, body).await
}

/// List an intent's plans
///
/// Oldest first.
#[utoipa::path(operation_id = "list_plans", tag = "plans",
    params(Limit1000, ("offset" = Option<u32>, Query, description = "Number of plans to skip; defaults to 0")),
    responses((status = 200, description = "The plans", body = Vec<PlanBody>)))]
#[get("/intents/{intent_id}/plans")]
async fn list(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let (limit, offset) = (query.limit(PAGE)?, query.offset()?);
    let intent = id("intent", &path)?;
    let found = plans::list(&api.ctx, &asker.caller, intent, limit, offset).await?;
    listed(found.into_iter().map(|plan| PlanBody::new(plan, asker.dialect)))
}

/// Get a plan
#[utoipa::path(operation_id = "get_plan", tag = "plans",
    responses((status = 200, description = "The plan; its version is the ETag", body = PlanBody)))]
#[get("/plans/{plan_id}")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    response(plans::get(&api.ctx, &asker.caller, id("plan", &path)?).await?, &asker)
}

/// Change a plan
///
/// Requires the version last read in `If-Match`. When a plan ends, its open tasks end too.
#[utoipa::path(operation_id = "update_plan", tag = "plans", request_body = AskBody, params(IfMatch),
    responses((status = 200, description = "The plan", body = PlanBody),
              (status = 409, description = "`version_conflict`, `invalid_transition`", body = entente_http::error::ProblemBody),
              (status = 428, description = "`precondition_required`", body = entente_http::error::ProblemBody)))]
#[patch("/plans/{plan_id}")]
async fn change(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<AskBody>,
) -> Reply {
    let id: PlanId = id("plan", &path)?;
    let seen = if_match_of("plan", &request)?;
    let ask = body.value.ask()?;
    response(plans::change(&api.ctx, &asker.caller, id, Some(seen), ask).await?, &asker)
}
