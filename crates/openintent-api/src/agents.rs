//! Endpoints for agents (RFC-0016). Registering and getting have two paths each: the RFC's and the reference server's
//! (OI-4.7).

pub mod handovers;

use actix_web::{HttpRequest, delete, get, patch, post, web};
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Dialect;
use entente_domain::limits::{DURATION_SECONDS, PAGE};
use entente_domain::openintent::agents::{Agent, AgentStatus, HeartbeatConfig, Registration};
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, IdempotencyKey, Limit1000, OptionalBody, Query};
use entente_http::caller::{Asker, state_of};
use entente_http::error::Reply;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_http::{created, listed, ok};
use entente_openintent::agents;
use entente_openintent::agents::{departures, heartbeats};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config
        .service(register)
        .service(register_rfc)
        .service(list)
        .service(record)
        .service(get)
        .service(heartbeat)
        .service(set_status)
        .service(drain)
        .service(deregister);
    handovers::routes(config);
}

/// An agent's record.
#[derive(Debug, Serialize, ToSchema)]
pub struct AgentBody {
    /// The id the agent acts under.
    #[schema(example = "agent.researcher")]
    agent_id: String,
    /// The agent's lifecycle status.
    status: AgentStatus,
    /// The role the agent can be addressed by.
    #[schema(example = "billing-processor")]
    role_id: Option<String>,
    /// A display name.
    name: Option<String>,
    /// The agent's capabilities.
    capabilities: Vec<String>,
    /// The agent's declared capacity.
    #[schema(value_type = Option<Object>)]
    capacity: Option<Map<String, Value>>,
    /// The URL at which the agent can be reached.
    endpoint: Option<String>,
    /// The heartbeat schedule the agent declared.
    heartbeat_config: Option<HeartbeatConfig>,
    /// Client-defined metadata.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// Same as `metadata`, under the reference server's name.
    #[schema(value_type = Object)]
    agent_metadata: Map<String, Value>,
    /// When the agent last registered.
    registered_at: WireTime,
    /// When the last heartbeat arrived; null before the first one.
    last_heartbeat_at: Option<WireTime>,
    /// The load the agent last reported.
    current_load: i64,
    /// The tasks the agent last reported as in progress.
    tasks_in_progress: Vec<String>,
    /// Seconds that draining may take.
    drain_timeout_seconds: Option<u32>,
    /// The principal that registered the agent.
    principal_id: String,
    /// The record's version; increases with each change.
    version: i64,
}

impl AgentBody {
    fn new(agent: Agent, dialect: Dialect) -> Self {
        Self {
            agent_id: agent.agent_id,
            status: agent.status,
            role_id: agent.role_id,
            name: agent.name,
            capabilities: agent.capabilities,
            capacity: agent.capacity,
            endpoint: agent.endpoint,
            heartbeat_config: agent.heartbeat_config,
            metadata: agent.metadata.clone(),
            agent_metadata: agent.metadata,
            registered_at: WireTime::new(agent.registered_at, dialect),
            last_heartbeat_at: agent.last_heartbeat_at.map(|at| WireTime::new(at, dialect)),
            current_load: agent.current_load,
            tasks_in_progress: agent.tasks_in_progress,
            drain_timeout_seconds: agent.drain_timeout_seconds,
            principal_id: agent.principal_id,
            version: agent.version,
        }
    }
}

/// An agent to register.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "agent_id": "agent.researcher", "role_id": "researcher", "capabilities": ["search"] }))]
struct RegisterBody {
    /// The id to act under.
    agent_id: String,
    /// The role to be addressed by.
    role_id: Option<String>,
    /// A display name.
    name: Option<String>,
    /// The agent's capabilities.
    #[serde(default)]
    capabilities: Vec<String>,
    /// The agent's capacity, as a client-defined object.
    #[schema(value_type = Option<Object>)]
    capacity: Option<Map<String, Value>>,
    /// The URL at which the agent can be reached.
    endpoint: Option<String>,
    /// How often the agent will send heartbeats. Without it, and until the first heartbeat, silence has no effect on
    /// the agent's status.
    heartbeat_config: Option<HeartbeatConfig>,
    /// Client-defined metadata.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Map<String, Value>,
    /// Seconds that draining may take.
    drain_timeout_seconds: Option<u32>,
}

async fn register_one(
    request: &HttpRequest,
    asker: &Asker,
    body: Body<RegisterBody>,
) -> Result<AgentBody, entente_http::error::Problem> {
    let api = state_of::<ApiState>(request)?;
    let once = body.once(request)?;
    let ask = body.value;
    if ask.drain_timeout_seconds.is_some_and(|seconds| seconds > DURATION_SECONDS) {
        let message = "`drain_timeout_seconds` is more than ten years.";
        return Err(Refusal::field(Code::InvalidRequest, "drain_timeout_seconds", "too_long", message).into());
    }
    let registration = Registration {
        agent_id: ask.agent_id,
        role_id: ask.role_id,
        name: ask.name,
        capabilities: ask.capabilities,
        capacity: ask.capacity,
        endpoint: ask.endpoint,
        heartbeat_config: ask.heartbeat_config,
        metadata: ask.metadata,
        drain_timeout_seconds: ask.drain_timeout_seconds,
    };
    let agent = agents::register(&api.ctx, &asker.caller, registration, once.as_ref()).await?;
    Ok(AgentBody::new(agent, asker.dialect))
}

/// Register an agent
///
/// Or renew its record, which the same principal may do at any time. Registration is optional: it gives an agent a
/// role to be addressed by, and heartbeat monitoring.
#[utoipa::path(operation_id = "register_agent", tag = "agents", request_body = RegisterBody, params(IdempotencyKey),
    responses((status = 200, description = "The record", body = AgentBody),
              (status = 409, description = "`already_registered`: the id belongs to another principal", body = entente_http::error::ProblemBody)))]
#[post("/agents/register")]
async fn register(request: HttpRequest, asker: Asker, body: Body<RegisterBody>) -> Reply {
    ok(&register_one(&request, &asker, body).await?)
}

/// Register an agent (RFC-0016's path)
///
/// Same as `POST /agents/register`, but responds with 201.
#[utoipa::path(operation_id = "register_agent_rfc", tag = "agents", request_body = RegisterBody, params(IdempotencyKey),
    responses((status = 201, description = "The record", body = AgentBody),
              (status = 409, description = "`already_registered`: the id belongs to another principal", body = entente_http::error::ProblemBody)))]
#[post("/agents")]
async fn register_rfc(request: HttpRequest, asker: Asker, body: Body<RegisterBody>) -> Reply {
    created(&register_one(&request, &asker, body).await?)
}

/// List agents
///
/// Ordered by id.
#[utoipa::path(operation_id = "list_agents", tag = "agents",
    params(("status" = Option<AgentStatus>, Query, description = "Only agents in this status"),
           ("role_id" = Option<String>, Query, description = "Only agents with this role"),
           ("after" = Option<String>, Query, description = "Id of the last agent of the previous page"), Limit1000),
    responses((status = 200, description = "The agents", body = [AgentBody])))]
#[get("/agents")]
async fn list(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let filter = agents::AgentFilter {
        status: query.parsed("status", "an agent status", AgentStatus::parse)?,
        role_id: query.text("role_id").map(str::to_owned),
        after: query.text("after").map(str::to_owned),
        limit: query.limit(PAGE)?,
    };
    let found = agents::list(&api.ctx, &asker.caller, &filter).await?;
    listed(found.into_iter().map(|agent| AgentBody::new(agent, asker.dialect)))
}

/// Get an agent's record (the reference server's path)
#[utoipa::path(operation_id = "get_agent_record",
    tag = "agents",
    responses((status = 200, description = "The record", body = AgentBody)))]
#[get("/agents/{agent_id}/record")]
async fn record(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    ok(&AgentBody::new(agents::get(&api.ctx, &asker.caller, &path).await?, asker.dialect))
}

/// Get an agent's record
#[utoipa::path(operation_id = "get_agent",
    tag = "agents",
    responses((status = 200, description = "The record", body = AgentBody)))]
#[get("/agents/{agent_id}")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    ok(&AgentBody::new(agents::get(&api.ctx, &asker.caller, &path).await?, asker.dialect))
}

/// A heartbeat.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(example = json!({ "status": "active", "current_load": 1, "tasks_in_progress": ["task-7"] }))]
struct HeartbeatBody {
    /// Ignored: the server derives the status from the arrival of heartbeats.
    #[serde(default)]
    #[expect(dead_code, reason = "clients send it, and a body with it must not be refused")]
    status: Option<String>,
    /// The agent's current load.
    #[serde(default)]
    current_load: i64,
    /// The tasks the agent is working on.
    #[serde(default)]
    tasks_in_progress: Vec<String>,
}

/// The response to a heartbeat: the reference server's members and RFC-0016's together (OI-9.4).
#[derive(Debug, Serialize, ToSchema)]
struct HeartbeatReply {
    /// Always `ok`.
    #[schema(example = "ok")]
    status: &'static str,
    /// Always true.
    acknowledged: bool,
    /// The agent's current status.
    agent_status: AgentStatus,
    /// The server's current time.
    server_timestamp: WireTime,
    /// When the next heartbeat is due.
    next_heartbeat_at: WireTime,
    /// Commands for the agent; always empty for now.
    pending_commands: Vec<String>,
}

/// Send a heartbeat
///
/// Returns an unhealthy agent to active. A dead or deregistered agent must register again.
#[utoipa::path(operation_id = "heartbeat",
    tag = "agents", request_body = Option<HeartbeatBody>,
    responses((status = 200, description = "The heartbeat was recorded", body = HeartbeatReply),
              (status = 410, description = "`gone`: the agent is dead or deregistered", body = entente_http::error::ProblemBody)))]
#[post("/agents/{agent_id}/heartbeat")]
async fn heartbeat(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<HeartbeatBody>,
) -> Reply {
    let beat = body.0.value;
    let agent =
        heartbeats::heartbeat(&api.ctx, &asker.caller, &path, beat.current_load, beat.tasks_in_progress)
            .await?;
    let now: Timestamp = api.ctx.now();
    ok(&HeartbeatReply {
        status: "ok",
        acknowledged: true,
        agent_status: agent.status,
        server_timestamp: WireTime::new(now, asker.dialect),
        next_heartbeat_at: WireTime::new(agent.next_heartbeat_at(now), asker.dialect),
        pending_commands: Vec::new(),
    })
}

/// A status change.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AgentStatusChange)]
#[schema(example = json!({ "status": "draining" }))]
struct StatusBody {
    /// The new status.
    status: AgentStatus,
}

/// Change an agent's status
///
/// `deregistered` has the same effect as `DELETE /agents/{agent_id}`.
#[utoipa::path(operation_id = "set_agent_status",
    tag = "agents", request_body = StatusBody,
    responses((status = 200, description = "The record", body = AgentBody),
              (status = 410, description = "`gone`: the agent is dead or deregistered", body = entente_http::error::ProblemBody)))]
#[patch("/agents/{agent_id}/status")]
async fn set_status(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<StatusBody>,
) -> Reply {
    let agent = match body.value.status {
        AgentStatus::Deregistered => departures::deregister(&api.ctx, &asker.caller, &path).await?,
        status => agents::set_status(&api.ctx, &asker.caller, &path, status).await?,
    };
    ok(&AgentBody::new(agent, asker.dialect))
}

/// Drain an agent
///
/// The agent gets no new work addressed to its role and finishes the work it has. If it declared
/// `drain_timeout_seconds`, it is deregistered after that time.
#[utoipa::path(operation_id = "drain_agent",
    tag = "agents",
    responses((status = 200, description = "The record", body = AgentBody),
              (status = 410, description = "`gone`: the agent is dead or deregistered", body = entente_http::error::ProblemBody)))]
#[post("/agents/{agent_id}/drain")]
async fn drain(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let agent = agents::set_status(&api.ctx, &asker.caller, &path, AgentStatus::Draining).await?;
    ok(&AgentBody::new(agent, asker.dialect))
}

/// Deregister an agent
///
/// Removes the agent from the members of every channel, expires requests that wait for it alone, and notifies those
/// channels (RFC-0021 §7.2).
#[utoipa::path(operation_id = "deregister_agent",
    tag = "agents",
    responses((status = 200, description = "The record", body = AgentBody)))]
#[delete("/agents/{agent_id}")]
async fn deregister(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let agent = departures::deregister(&api.ctx, &asker.caller, &path).await?;
    ok(&AgentBody::new(agent, asker.dialect))
}
