//! Endpoints for the inventory: the agents that run jobs, and their versions (ARCP §7.5, ARCP-W-11).

use actix_web::{get, put, web};
use entente_arcp::inventory;
use entente_arcp::inventory::{Known, VersionAsk};
use entente_domain::arcp::jobs::OnLost;
use entente_domain::arcp::jobs::retries::RetryPolicy;
use entente_http::body::OptionalBody;
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(register).service(list);
}

/// An agent that runs jobs, as in `session.welcome`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InventoryAgent)]
struct AgentBody {
    /// The agent's name.
    #[schema(example = "echo")]
    name: String,
    /// The agent's versions, in order of first registration.
    versions: Vec<String>,
    /// The version that a bare name stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<String>,
}

impl AgentBody {
    fn new(name: String, known: Known) -> Self {
        Self { name, versions: known.versions.registered, default: known.versions.default }
    }
}

/// The agents that run jobs.
#[derive(Debug, Serialize, ToSchema)]
struct Inventory {
    /// The agents, ordered by name.
    agents: Vec<AgentBody>,
}

/// List the agents that run jobs
///
/// Lists agents whether or not a worker is online. `/agents` lists the running agents; an agent may be in both.
#[utoipa::path(operation_id = "list_inventory", tag = "workers",
    responses((status = 200, description = "The agents", body = Inventory)))]
#[get("/arcp/agents")]
async fn list(api: web::Data<ApiState>, asker: Asker) -> Reply {
    let found = inventory::list(&api.ctx, &asker.caller).await?;
    ok(&Inventory { agents: found.into_iter().map(|(name, known)| AgentBody::new(name, known)).collect() })
}

/// The terms on which a version runs jobs. Omitted members stay as they are.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = AgentVersionTerms, example = json!({ "default": true, "max_runtime_sec": 3600, "on_lost": "requeue" }))]
struct RegisterBody {
    /// Whether a bare name stands for this version. The first version of a name is the default.
    default: Option<bool>,
    /// Whether a job without `model.use` in its lease may use no model (ARCP §9.7).
    requires_model_use: Option<bool>,
    /// Maximum runtime of a job in seconds.
    max_runtime_sec: Option<i64>,
    /// The treatment of a job whose worker was lost: `requeue` (the default) or `fail`.
    on_lost: Option<OnLost>,
    /// How many workers may be lost on one job: 1 to 100; defaults to 5.
    max_attempts: Option<i64>,
    /// Retries after failures that workers report, for jobs that ask for none of their own; by default nothing is retried.
    retry: Option<RetryPolicy>,
}

/// Register an agent's version
///
/// The first principal to register a name owns it. Repeating a registration changes nothing.
#[utoipa::path(operation_id = "register_agent_version", tag = "workers", request_body = Option<RegisterBody>,
    params(("name" = String, Path, description = "The agent"), ("version" = String, Path, description = "The version")),
    responses((status = 200, description = "The agent", body = AgentBody)))]
#[put("/arcp/agents/{name}/versions/{version}")]
async fn register(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: OptionalBody<RegisterBody>,
) -> Reply {
    let (name, version) = path.into_inner();
    let said = body.0.value;
    let ask = VersionAsk {
        default: said.default,
        requires_model_use: said.requires_model_use,
        max_runtime_sec: said.max_runtime_sec,
        on_lost: said.on_lost,
        max_attempts: said.max_attempts,
        retry: said.retry,
    };
    let known = inventory::register(&api.ctx, &asker.caller, &name, &version, ask).await?;
    ok(&AgentBody::new(name, known))
}
