//! Routes of the inventory: which agents run jobs, in which versions (ARCP §7.5, contract 11).

use actix_web::{get, put, web};
use entente_domain::jobs::OnLost;
use entente_kernel::inventory::{self, Known, VersionAsk};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::OptionalBody;
use super::caller::Asker;
use super::error::Reply;
use super::{Doors, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(register).service(list);
}

/// An agent that runs jobs, as in `session.welcome`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InventoryAgent)]
struct AgentBody {
    /// Its name.
    #[schema(example = "echo")]
    name: String,
    /// Its versions, the oldest registration first.
    versions: Vec<String>,
    /// The one that a bare name means.
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
    /// By name.
    agents: Vec<AgentBody>,
}

/// List the agents that run jobs
///
/// An agent is here whether or not a worker is online. The directory of running agents is `/agents`; one may be in both.
#[utoipa::path(operation_id = "list_inventory", tag = "workers",
    responses((status = 200, description = "The agents", body = Inventory)))]
#[get("/arcp/agents")]
async fn list(doors: web::Data<Doors>, asker: Asker) -> Reply {
    let found = inventory::list(&doors.ctx, &asker.caller).await?;
    ok(&Inventory { agents: found.into_iter().map(|(name, known)| AgentBody::new(name, known)).collect() })
}

/// On what terms a version runs jobs. What is not said stays as it is.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = AgentVersionTerms, example = json!({ "default": true, "max_runtime_sec": 3600, "on_lost": "requeue" }))]
struct RegisterBody {
    /// Whether a bare name means this version. The first one of a name is the default.
    default: Option<bool>,
    /// Whether a job without `model.use` may use no model (ARCP §9.7).
    requires_model_use: Option<bool>,
    /// Seconds that a job may take at the most.
    max_runtime_sec: Option<i64>,
    /// What becomes of a job whose worker was lost: `requeue` (the default) or `fail`.
    on_lost: Option<OnLost>,
    /// How many workers may be lost over one job: 1 to 100; 5 when nothing is said.
    max_attempts: Option<i64>,
}

/// Register an agent's version
///
/// Whoever registers a name first owns it. Saying the same again changes nothing.
#[utoipa::path(operation_id = "register_agent_version", tag = "workers", request_body = Option<RegisterBody>,
    params(("name" = String, Path, description = "The agent"), ("version" = String, Path, description = "The version")),
    responses((status = 200, description = "The agent", body = AgentBody)))]
#[put("/arcp/agents/{name}/versions/{version}")]
async fn register(
    doors: web::Data<Doors>,
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
    };
    let known = inventory::register(&doors.ctx, &asker.caller, &name, &version, ask).await?;
    ok(&AgentBody::new(name, known))
}
