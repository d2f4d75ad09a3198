//! Endpoints for limits of running jobs, of agents and of principals (beyond ARCP). The limits of concurrency keys come
//! with the jobs.

use actix_web::{delete, get, put, web};
use entente_arcp::limits;
use entente_arcp::limits::{JobLimit, LimitScope};
use entente_domain::arcp::jobs::limits::Limits;
use entente_domain::clock::rfc3339;
use entente_domain::refusal::Refusal;
use entente_http::body::Body;
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use serde::Serialize;
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(set).service(remove);
}

/// The limits of an agent's or a principal's jobs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobLimit)]
struct LimitBody {
    /// `agent`: jobs of all versions of the agent. `principal`: jobs that the principal submitted.
    scope: String,
    /// The agent or principal.
    name: String,
    /// The limits.
    #[serde(flatten)]
    limits: Limits,
    /// How many of these jobs run now.
    running: i64,
    /// Who set the limits.
    set_by: String,
    /// When they were set.
    set_at: String,
}

impl From<JobLimit> for LimitBody {
    fn from(limit: JobLimit) -> Self {
        Self {
            scope: limit.scope,
            name: limit.name,
            limits: limit.limits,
            running: limit.running,
            set_by: limit.set_by,
            set_at: rfc3339(limit.set_at),
        }
    }
}

/// Limits of running jobs.
#[derive(Debug, Serialize, ToSchema)]
struct JobLimitList {
    /// The limits, ordered by scope and name.
    limits: Vec<LimitBody>,
}

fn scope(word: &str) -> Result<LimitScope, Refusal> {
    match word {
        "agents" => Ok(LimitScope::Agent),
        "principals" => Ok(LimitScope::Principal),
        _ => Err(Refusal::not_found("limit")),
    }
}

/// List limits of running jobs
///
/// Returns all limits for a key with the scope `admin`; otherwise those of the caller's agents, and the caller's own.
#[utoipa::path(operation_id = "list_job_limits", tag = "workers",
    responses((status = 200, description = "The limits", body = JobLimitList)))]
#[get("/arcp/limits")]
async fn list(api: web::Data<ApiState>, asker: Asker) -> Reply {
    let found = limits::list(&api.ctx, &asker.caller).await?;
    ok(&JobLimitList { limits: found.into_iter().map(LimitBody::from).collect() })
}

/// Limit running jobs
///
/// Limits how many jobs of an agent (its owner may), or of a principal (the scope `admin` may), run at once or start within a
/// time, on all servers together. Replaces earlier limits. Jobs that run count, and go on; the others wait.
#[utoipa::path(operation_id = "set_job_limits", tag = "workers", request_body = Limits,
    params(("scope" = String, Path, description = "`agents` or `principals`"),
           ("name" = String, Path, description = "The agent, without a version, or the principal")),
    responses((status = 200, description = "The limits are in force", body = Limits)))]
#[put("/arcp/limits/{scope}/{name}")]
async fn set(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: Body<Limits>,
) -> Reply {
    let (word, name) = path.into_inner();
    limits::set(&api.ctx, &asker.caller, scope(&word)?, &name, body.value).await?;
    ok(&body.value)
}

/// Remove limits of running jobs
#[utoipa::path(operation_id = "remove_job_limits", tag = "workers",
    params(("scope" = String, Path, description = "`agents` or `principals`"),
           ("name" = String, Path, description = "The agent, without a version, or the principal")),
    responses((status = 200, description = "There are no limits any more", body = Limits)))]
#[delete("/arcp/limits/{scope}/{name}")]
async fn remove(api: web::Data<ApiState>, asker: Asker, path: web::Path<(String, String)>) -> Reply {
    let (word, name) = path.into_inner();
    limits::remove(&api.ctx, &asker.caller, scope(&word)?, &name).await?;
    ok(&Limits::default())
}
