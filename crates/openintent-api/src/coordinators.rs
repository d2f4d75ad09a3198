//! Endpoints for coordinators (RFC-0013). Their decisions are in `coordinator_decisions.rs`.

pub(crate) mod decisions;

use actix_web::{HttpRequest, get, patch, post, web};
use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{CoordinatorId, IntentId};
use entente_domain::openintent::coordinators::{
    Bound, Coordinator, CoordinatorAsk, CoordinatorChange, CoordinatorStatus, CoordinatorType,
};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, IdempotencyKey, IfMatch, Query, id, if_match_of, intent_of, one};
use entente_http::caller::Asker;
use entente_http::error::{ProblemBody, Reply};
use entente_http::routes::Routes;
use entente_http::wire::{GivenTime, WireTime};
use entente_http::{ok, with_version};
use entente_openintent::coordinators;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(appoint).service(beat).service(get).service(change).service(list);
}

/// An agent's appointment as coordinator.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Coordinator)]
struct CoordinatorBody {
    /// The appointment's id.
    id: CoordinatorId,
    /// The intent.
    intent_id: IntentId,
    /// Always null, because coordinators are appointed to intents.
    portfolio_id: Option<String>,
    /// The appointed agent.
    #[schema(example = "agent.lead")]
    agent_id: String,
    /// The role it is appointed to.
    #[schema(example = "coordinator")]
    role: String,
    /// The agent that supervises the coordinator.
    supervisor_id: String,
    /// The agent that made the appointment.
    appointed_by: String,
    /// The kind of coordinator.
    coordinator_type: CoordinatorType,
    /// Always `intent`.
    #[schema(example = "intent")]
    scope: &'static str,
    /// The current status.
    status: CoordinatorStatus,
    /// The guardrails, as given.
    #[schema(value_type = Option<Object>)]
    guardrails: Option<Map<String, Value>>,
    /// Seconds between heartbeats. After two silent intervals the coordinator is unresponsive; after five its
    /// appointment ends.
    heartbeat_interval_seconds: u32,
    /// When the last heartbeat arrived.
    last_heartbeat: Option<WireTime>,
    /// When the appointment was made.
    granted_at: WireTime,
    /// When the appointment ends unless a heartbeat arrives: at the requested end, or after too long a silence.
    /// Silence does not count while the coordinator is paused on request. Null if neither applies.
    expires_at: Option<WireTime>,
    /// When the appointment ended.
    ended_at: Option<WireTime>,
    /// The version, which guards writes; increases with each change except heartbeats.
    version: i64,
    /// Client-defined metadata.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// Same as `metadata`, under the reference server's name.
    #[schema(value_type = Object)]
    lease_metadata: Map<String, Value>,
}

impl CoordinatorBody {
    fn new(made: Coordinator, now: Timestamp, dialect: Dialect) -> Self {
        let at = |at| WireTime::new(at, dialect);
        let (status, expires_at) = (made.status_at(now), made.expires_at());
        let ended = made.ended_at.or(expires_at.filter(|_| status.is_over()));
        Self {
            id: made.id,
            intent_id: made.intent_id,
            portfolio_id: None,
            agent_id: made.agent_id,
            role: made.role,
            supervisor_id: made.supervisor_id,
            appointed_by: made.appointed_by,
            coordinator_type: made.coordinator_type,
            scope: "intent",
            status,
            guardrails: made.guardrails,
            heartbeat_interval_seconds: made.heartbeat_seconds,
            last_heartbeat: made.last_heartbeat.map(at),
            granted_at: at(made.granted_at),
            expires_at: expires_at.or(made.until).map(at),
            ended_at: ended.map(at),
            version: made.version,
            metadata: made.metadata.clone(),
            lease_metadata: made.metadata,
        }
    }
}

fn response(made: Coordinator, api: &ApiState, asker: &Asker) -> Reply {
    with_version(made.version, &CoordinatorBody::new(made, api.ctx.now(), asker.dialect))
}

/// An appointment to make.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewCoordinator)]
#[schema(example = json!({ "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "agent_id": "agent.lead" }))]
struct AppointBody {
    /// The agent to appoint.
    agent_id: String,
    /// The intent.
    intent_id: Option<String>,
    /// Not supported for portfolios; appoint a coordinator to each of their intents.
    portfolio_id: Option<String>,
    /// The role, held by one agent at a time; defaults to `coordinator`, which manages the intent's channels and
    /// tasks.
    role: Option<String>,
    /// The agent that supervises the coordinator; defaults to the agent that makes the appointment.
    supervisor_id: Option<String>,
    /// The kind of coordinator; defaults to `llm`.
    #[serde(default, alias = "type")]
    coordinator_type: CoordinatorType,
    /// Only `intent` is supported.
    scope: Option<String>,
    /// The guardrails (RFC-0013 §3).
    #[schema(value_type = Option<Object>)]
    guardrails: Option<Map<String, Value>>,
    /// Seconds between heartbeats, 1 to 86,400; defaults to 60.
    heartbeat_interval_seconds: Option<u32>,
    /// When the appointment ends at the latest.
    expires_at: Option<GivenTime>,
    /// Maximum duration of the appointment in seconds; `expires_at` takes precedence.
    duration_seconds: Option<u32>,
    /// Client-defined metadata.
    #[serde(default, alias = "lease_metadata")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// The current coordinator in this role, to be replaced.
    replaces: Option<String>,
}

/// Appoint a coordinator
///
/// Requires admin access to the intent. Each role of an intent is held by one coordinator at a time, as long as it
/// sends heartbeats. A silent coordinator is replaced by the next appointment; a responsive one only if `replaces`
/// names it.
#[utoipa::path(operation_id = "create_coordinator_lease", tag = "coordinators", request_body = AppointBody,
    params(IdempotencyKey),
    responses((status = 200, description = "The appointment", body = CoordinatorBody),
              (status = 409, description = "`already_exists`, `intent_resolved`", body = ProblemBody)))]
#[post("/coordinators")]
async fn appoint(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    body: Body<AppointBody>,
) -> Reply {
    let once = body.once(&request)?;
    let said = body.value;
    let odd = said.scope.as_deref().is_some_and(|scope| scope != "intent");
    if odd || said.portfolio_id.is_some_and(|id| !id.is_empty()) {
        let message = "Coordinators are appointed to intents. Appoint one to each intent of the portfolio, with `intent_id`.";
        return Err(Refusal::field(Code::Unprocessable, "scope", "unsupported", message).into());
    }
    let intent_id = intent_of(said.intent_id.as_ref())?;
    let after = said.duration_seconds.map(|seconds| plus_seconds(api.ctx.now(), seconds));
    let ask = CoordinatorAsk {
        agent_id: said.agent_id,
        role: said.role,
        supervisor_id: said.supervisor_id,
        coordinator_type: said.coordinator_type,
        guardrails: said.guardrails,
        heartbeat_seconds: said.heartbeat_interval_seconds,
        until: said.expires_at.map(|at| at.0).or(after),
        metadata: said.metadata.unwrap_or_default(),
    };
    let replaces = one("replaces", said.replaces)?;
    let ctx = &api.ctx;
    let made = coordinators::appoint(ctx, &asker.caller, intent_id, ask, replaces, once.as_ref()).await?;
    response(made, &api, &asker)
}

/// Get a coordinator
#[utoipa::path(operation_id = "get_coordinator_lease", tag = "coordinators",
    responses((status = 200, description = "The appointment; its version is the ETag", body = CoordinatorBody)))]
#[get("/coordinators/{coordinator_id}")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = coordinators::get(&api.ctx, &asker.caller, id("coordinator", &path)?).await?;
    response(found, &api, &asker)
}

/// List an intent's coordinators
///
/// Returns a bare array of the latest 1,000, oldest first.
#[utoipa::path(operation_id = "list_coordinator_leases", tag = "coordinators",
    params(("before" = Option<String>, Query, description = "Only appointments older than this one: the first id of the previous page")),
    responses((status = 200, description = "The appointments", body = Vec<CoordinatorBody>)))]
#[get("/intents/{intent_id}/coordinators")]
async fn list(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let before = query.parsed("before", "a coordinator's id", |text| text.parse().ok())?;
    let found = coordinators::list(&api.ctx, &asker.caller, id("intent", &path)?, before).await?;
    let now = api.ctx.now();
    let list: Vec<CoordinatorBody> =
        found.into_iter().map(|one| CoordinatorBody::new(one, now, asker.dialect)).collect();
    ok(&list)
}

/// The response to a coordinator's heartbeat.
#[derive(Debug, Serialize, ToSchema)]
struct CoordinatorBeat {
    /// Always `ok`.
    #[schema(example = "ok")]
    status: &'static str,
    /// The coordinator's status.
    coordinator_status: CoordinatorStatus,
    /// When the next heartbeat is due.
    next_heartbeat_at: WireTime,
    /// When the appointment ends unless another heartbeat arrives.
    expires_at: Option<WireTime>,
}

/// Send a coordinator's heartbeat
///
/// Requires being the appointed agent; takes no body. A heartbeat returns an unresponsive coordinator to active,
/// until its appointment has ended.
#[utoipa::path(operation_id = "coordinator_heartbeat", tag = "coordinators",
    responses((status = 200, description = "The heartbeat was recorded", body = CoordinatorBeat),
              (status = 409, description = "`invalid_transition`: the appointment is over", body = ProblemBody)))]
#[post("/coordinators/{coordinator_id}/heartbeat")]
async fn beat(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let heard = coordinators::beat(&api.ctx, &asker.caller, id("coordinator", &path)?).await?;
    let at = |at| WireTime::new(at, asker.dialect);
    ok(&CoordinatorBeat {
        status: "ok",
        coordinator_status: heard.status,
        next_heartbeat_at: at(plus_seconds(heard.heard_at, heard.heartbeat_seconds)),
        expires_at: heard.expires_at().map(at),
    })
}

/// Deserializes a member that is present, null or not; an omitted one keeps its default (no change).
fn given<'de, D: Deserializer<'de>>(member: D) -> Result<Bound, D::Error> {
    let said: Option<Map<String, Value>> = Option::deserialize(member)?;
    Ok(said.map_or(Bound::Free, Bound::By))
}

/// A change to an appointment.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = CoordinatorPatch)]
#[schema(example = json!({ "status": "paused", "reason": "the plan is looked at" }))]
struct ChangeBody {
    /// `paused`, `active`, `completing` or `completed`.
    status: Option<CoordinatorStatus>,
    /// The guardrails; null removes them.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Object>)]
    guardrails: Bound,
    /// The reason for the change.
    reason: Option<String>,
}

/// Change a coordinator
///
/// Under its version. The intent's admins and the supervisor may pause and resume the coordinator and change its
/// guardrails; the coordinator itself may only finish.
#[utoipa::path(operation_id = "update_coordinator", tag = "coordinators", request_body = ChangeBody, params(IfMatch),
    responses((status = 200, description = "The appointment", body = CoordinatorBody),
              (status = 409, description = "`version_conflict`, with `current_version`; `invalid_transition`", body = ProblemBody),
              (status = 428, description = "`precondition_required`", body = ProblemBody)))]
#[patch("/coordinators/{coordinator_id}")]
async fn change(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ChangeBody>,
) -> Reply {
    let coordinator_id = id("coordinator", &path)?;
    let seen = if_match_of("coordinator", &request)?;
    let said = body.value;
    let change = CoordinatorChange { status: said.status, guardrails: said.guardrails, reason: said.reason };
    let changed = coordinators::change(&api.ctx, &asker.caller, coordinator_id, seen, change).await?;
    response(changed, &api, &asker)
}
