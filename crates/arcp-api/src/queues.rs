//! Endpoints for the queues of agents: open, paused, draining (beyond ARCP).

use actix_web::{get, put, web};
use entente_arcp::queues;
use entente_arcp::queues::{Queue, State};
use entente_domain::clock::rfc3339;
use entente_http::body::Body;
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(show).service(change);
}

/// The queue of an agent's jobs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobQueue)]
struct QueueBody {
    /// The agent: `name` for all of its versions, or `name@version`. Both may be stopped apart from each other.
    agent: String,
    /// State of the queue.
    state: State,
    /// Why, as stated with the change.
    reason: Option<String>,
    /// Agent that changed it last; null if nobody did since it was opened.
    changed_by: Option<String>,
    /// When it was changed last.
    changed_at: Option<String>,
    /// Number of its jobs that wait for a worker; at most 10,000 are counted of a version.
    pending: i64,
    /// Number of its jobs that run; at most 10,000 are counted. A draining queue is empty once both are 0.
    running: i64,
}

impl From<Queue> for QueueBody {
    fn from(queue: Queue) -> Self {
        Self {
            agent: queue.agent,
            state: queue.state,
            reason: queue.reason,
            changed_by: queue.changed_by,
            changed_at: queue.changed_at.map(rfc3339),
            pending: queue.pending,
            running: queue.running,
        }
    }
}

/// A change of a queue.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = JobQueueChange, example = json!({ "state": "paused", "reason": "the upstream is down" }))]
struct ChangeBody {
    /// `open`, `paused` (accepts jobs and gives out none) or `draining` (accepts none and finishes those that it has).
    state: State,
    /// Why, for people.
    reason: Option<String>,
}

/// Get the queue of an agent's jobs
///
/// For the agent's owner and keys with the scope `admin`.
#[utoipa::path(operation_id = "get_job_queue", tag = "workers",
    params(("name" = String, Path, description = "The agent: `name` for all of its versions, or `name@version`")),
    responses((status = 200, description = "The queue", body = QueueBody)))]
#[get("/arcp/agents/{name}/queue")]
async fn show(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    ok(&QueueBody::from(queues::show(&api.ctx, &asker.caller, &path).await?))
}

/// Open, pause or drain the queue of an agent's jobs
///
/// The change holds on every server at once; jobs that run go on. The system log records who made it. For the agent's owner and
/// keys with the scope `admin`.
#[utoipa::path(operation_id = "change_job_queue", tag = "workers", request_body = ChangeBody,
    params(("name" = String, Path, description = "The agent: `name` for all of its versions, or `name@version`")),
    responses((status = 200, description = "The queue", body = QueueBody)))]
#[put("/arcp/agents/{name}/queue")]
async fn change(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ChangeBody>,
) -> Reply {
    let said = body.value;
    let queue = queues::change(&api.ctx, &asker.caller, &path, said.state, said.reason).await?;
    ok(&QueueBody::from(queue))
}
