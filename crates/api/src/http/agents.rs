//! Routes of agents (RFC-0016). Two paths each to register and to get, the RFC's and the reference server's (contract 4.7).

use actix_web::{HttpRequest, delete, get, patch, post, web};
use entente_domain::agents::{Agent, AgentStatus, HeartbeatConfig, Registration};
use entente_domain::clock::Timestamp;
use entente_domain::keys::Dialect;
use entente_domain::limits::{DURATION_SECONDS, PAGE};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{agents, departures, heartbeats};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::body::{Body, OptionalBody, Query};
use super::caller::Asker;
use super::error::Reply;
use super::wire::WireTime;
use super::{Doors, created, listed, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
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
}

/// An agent's record.
#[derive(Debug, Serialize, ToSchema)]
pub struct AgentBody {
    /// The id it acts under.
    #[schema(example = "agent.researcher")]
    agent_id: String,
    /// Where it is in its life.
    status: AgentStatus,
    /// The role it can be addressed by.
    #[schema(example = "billing-processor")]
    role_id: Option<String>,
    /// A name for people.
    name: Option<String>,
    /// What it can do.
    capabilities: Vec<String>,
    /// What it can take on.
    #[schema(value_type = Option<Object>)]
    capacity: Option<Map<String, Value>>,
    /// Where it can be reached.
    endpoint: Option<String>,
    /// What it promised about its heartbeats.
    heartbeat_config: Option<HeartbeatConfig>,
    /// Its own object.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// The same, under the reference server's name.
    #[schema(value_type = Object)]
    agent_metadata: Map<String, Value>,
    /// When it last registered.
    registered_at: WireTime,
    /// When it was last heard.
    last_heartbeat_at: Option<WireTime>,
    /// What it said it carries.
    current_load: i64,
    /// The tasks that it said it works on.
    tasks_in_progress: Vec<String>,
    /// Seconds that draining may take.
    drain_timeout_seconds: Option<u32>,
    /// The principal that registered it.
    principal_id: String,
    /// Rises with each change of the record.
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

/// An agent that registers.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "agent_id": "agent.researcher", "role_id": "researcher", "capabilities": ["search"] }))]
struct RegisterBody {
    /// The id to act under.
    agent_id: String,
    /// The role to be addressed by.
    role_id: Option<String>,
    /// A name for people.
    name: Option<String>,
    /// What it can do.
    #[serde(default)]
    capabilities: Vec<String>,
    /// What it can take on; its own object.
    #[schema(value_type = Option<Object>)]
    capacity: Option<Map<String, Value>>,
    /// Where it can be reached.
    endpoint: Option<String>,
    /// How often it will send heartbeats; without it, and until its first one, its silence says nothing.
    heartbeat_config: Option<HeartbeatConfig>,
    /// Its own object.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Map<String, Value>,
    /// Seconds that draining may take.
    drain_timeout_seconds: Option<u32>,
}

async fn register_one(
    request: &HttpRequest,
    doors: &Doors,
    asker: &Asker,
    body: Body<RegisterBody>,
) -> Result<AgentBody, super::error::Problem> {
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
    let agent = agents::register(&doors.ctx, &asker.caller, registration, once.as_ref()).await?;
    Ok(AgentBody::new(agent, asker.dialect))
}

/// Register an agent
///
/// Or renew its record: the same principal may at any time. Registering is optional; it gives an agent a role to be
/// addressed by, and a heart that is listened to.
#[utoipa::path(operation_id = "register_agent", tag = "agents", request_body = RegisterBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 200, description = "The record", body = AgentBody),
              (status = 409, description = "`already_registered`: by another principal", body = super::error::ProblemBody)))]
#[post("/agents/register")]
async fn register(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    body: Body<RegisterBody>,
) -> Reply {
    ok(&register_one(&request, &doors, &asker, body).await?)
}

/// Register an agent (RFC-0016's path)
///
/// The same as `POST /agents/register`, answered with 201.
#[utoipa::path(operation_id = "register_agent_rfc", tag = "agents", request_body = RegisterBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 201, description = "The record", body = AgentBody),
              (status = 409, description = "`already_registered`: by another principal", body = super::error::ProblemBody)))]
#[post("/agents")]
async fn register_rfc(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    body: Body<RegisterBody>,
) -> Reply {
    created(&register_one(&request, &doors, &asker, body).await?)
}

/// List agents
///
/// In the order of their ids.
#[utoipa::path(operation_id = "list_agents", tag = "agents",
    params(("status" = Option<AgentStatus>, Query, description = "Only in this status"),
           ("role_id" = Option<String>, Query, description = "Only with this role"),
           ("after" = Option<String>, Query, description = "The id of the last agent of the previous page"),
           ("limit" = Option<u32>, Query, description = "At most this many, 1 to 1,000", maximum = 1000)),
    responses((status = 200, description = "The agents", body = [AgentBody])))]
#[get("/agents")]
async fn list(doors: web::Data<Doors>, asker: Asker, query: Query) -> Reply {
    let filter = agents::Filter {
        status: query.parsed("status", "an agent status", AgentStatus::parse)?,
        role_id: query.text("role_id").map(str::to_owned),
        after: query.text("after").map(str::to_owned),
        limit: query.limit(PAGE)?,
    };
    let found = agents::list(&doors.ctx, &asker.caller, &filter).await?;
    listed(found.into_iter().map(|agent| AgentBody::new(agent, asker.dialect)))
}

/// Get an agent's record (the reference server's path)
#[utoipa::path(operation_id = "get_agent_record",
    tag = "agents", params(("agent_id" = String, Path, description = "The agent")),
    responses((status = 200, description = "The record", body = AgentBody)))]
#[get("/agents/{agent_id}/record")]
async fn record(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    ok(&AgentBody::new(agents::get(&doors.ctx, &asker.caller, &path).await?, asker.dialect))
}

/// Get an agent's record
#[utoipa::path(operation_id = "get_agent",
    tag = "agents", params(("agent_id" = String, Path, description = "The agent")),
    responses((status = 200, description = "The record", body = AgentBody)))]
#[get("/agents/{agent_id}")]
async fn get(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    ok(&AgentBody::new(agents::get(&doors.ctx, &asker.caller, &path).await?, asker.dialect))
}

/// A heartbeat.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(example = json!({ "status": "active", "current_load": 1, "tasks_in_progress": ["task-7"] }))]
struct HeartbeatBody {
    /// Read by nobody: the status follows from being heard.
    #[serde(default)]
    #[expect(dead_code, reason = "clients send it, and a body with it must not be refused")]
    status: Option<String>,
    /// What the agent carries.
    #[serde(default)]
    current_load: i64,
    /// The tasks that it works on.
    #[serde(default)]
    tasks_in_progress: Vec<String>,
}

/// That a heartbeat was heard: what the reference server and RFC-0016 answer with, together (contract 9).
#[derive(Debug, Serialize, ToSchema)]
struct HeartbeatReply {
    /// Always `ok`.
    #[schema(example = "ok")]
    status: &'static str,
    /// Always true.
    acknowledged: bool,
    /// The agent's status now.
    agent_status: AgentStatus,
    /// The server's time.
    server_timestamp: WireTime,
    /// When the next heartbeat is due.
    next_heartbeat_at: WireTime,
    /// Commands for the agent; none yet.
    pending_commands: Vec<String>,
}

/// Send a heartbeat
///
/// Brings an unhealthy agent back to active. One that is dead or deregistered must register again.
#[utoipa::path(operation_id = "heartbeat",
    tag = "agents", request_body = Option<HeartbeatBody>, params(("agent_id" = String, Path, description = "The agent")),
    responses((status = 200, description = "It was heard", body = HeartbeatReply),
              (status = 410, description = "`gone`: dead or deregistered", body = super::error::ProblemBody)))]
#[post("/agents/{agent_id}/heartbeat")]
async fn heartbeat(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<HeartbeatBody>,
) -> Reply {
    let beat = body.0.value;
    let agent =
        heartbeats::heartbeat(&doors.ctx, &asker.caller, &path, beat.current_load, beat.tasks_in_progress)
            .await?;
    let now: Timestamp = doors.ctx.now();
    ok(&HeartbeatReply {
        status: "ok",
        acknowledged: true,
        agent_status: agent.status,
        server_timestamp: WireTime::new(now, asker.dialect),
        next_heartbeat_at: WireTime::new(agent.next_heartbeat_at(now), asker.dialect),
        pending_commands: Vec::new(),
    })
}

/// A new status.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AgentStatusChange)]
#[schema(example = json!({ "status": "draining" }))]
struct StatusBody {
    /// The status.
    status: AgentStatus,
}

/// Change an agent's status
///
/// `deregistered` is the same as `DELETE /agents/{agent_id}`.
#[utoipa::path(operation_id = "set_agent_status",
    tag = "agents", request_body = StatusBody, params(("agent_id" = String, Path, description = "The agent")),
    responses((status = 200, description = "The record", body = AgentBody),
              (status = 410, description = "`gone`: dead or deregistered", body = super::error::ProblemBody)))]
#[patch("/agents/{agent_id}/status")]
async fn set_status(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<StatusBody>,
) -> Reply {
    let agent = match body.value.status {
        AgentStatus::Deregistered => departures::deregister(&doors.ctx, &asker.caller, &path).await?,
        status => agents::set_status(&doors.ctx, &asker.caller, &path, status).await?,
    };
    ok(&AgentBody::new(agent, asker.dialect))
}

/// Let an agent drain
///
/// It takes no new work by its role and finishes what it has; after its `drain_timeout_seconds`, if it gave any, it is
/// deregistered.
#[utoipa::path(operation_id = "drain_agent",
    tag = "agents", params(("agent_id" = String, Path, description = "The agent")),
    responses((status = 200, description = "The record", body = AgentBody),
              (status = 410, description = "`gone`: dead or deregistered", body = super::error::ProblemBody)))]
#[post("/agents/{agent_id}/drain")]
async fn drain(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    let agent = agents::set_status(&doors.ctx, &asker.caller, &path, AgentStatus::Draining).await?;
    ok(&AgentBody::new(agent, asker.dialect))
}

/// Deregister an agent
///
/// It leaves the members of every channel, requests that wait for it alone expire, and those channels are told
/// (RFC-0021 §7.2).
#[utoipa::path(operation_id = "deregister_agent",
    tag = "agents", params(("agent_id" = String, Path, description = "The agent")),
    responses((status = 200, description = "The record", body = AgentBody)))]
#[delete("/agents/{agent_id}")]
async fn deregister(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    let agent = departures::deregister(&doors.ctx, &asker.caller, &path).await?;
    ok(&AgentBody::new(agent, asker.dialect))
}
