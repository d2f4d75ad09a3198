//! Endpoints for assignments (RFC-0001).

use actix_web::{HttpRequest, delete, get, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{AssignmentId, IntentId};
use entente_kernel::access::assignments;
use entente_kernel::access::assignments::Assignment;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Body, IdempotencyKey, id};
use crate::caller::Asker;
use crate::error::Reply;
use crate::routes::Routes;
use crate::wire::WireTime;
use crate::{HttpState, ok};

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(assign).service(unassign);
}

/// An agent's assignment to an intent.
#[derive(Debug, Serialize, ToSchema)]
struct AssignmentBody {
    /// The assignment's id.
    id: AssignmentId,
    /// The intent.
    intent_id: IntentId,
    /// The agent.
    #[schema(example = "agent.researcher")]
    agent_id: String,
    /// The agent's role on the intent.
    #[schema(example = "worker")]
    role: String,
    /// When it was assigned.
    assigned_at: WireTime,
    /// The agent that was assigned to the intent itself and handed it on; null for every other assignment.
    #[schema(example = "agent.lead")]
    delegated_by: Option<String>,
}

impl AssignmentBody {
    fn new(assignment: Assignment, dialect: Dialect) -> Self {
        Self {
            id: assignment.id,
            intent_id: assignment.intent_id,
            agent_id: assignment.agent_id,
            role: assignment.role,
            assigned_at: WireTime::new(assignment.assigned_at, dialect),
            delegated_by: assignment.delegated_by,
        }
    }
}

/// List the agents assigned to an intent
#[utoipa::path(operation_id = "list_assignments",
    tag = "intents",
    responses((status = 200, description = "The assignments", body = [AssignmentBody])))]
#[get("/intents/{intent_id}/agents")]
async fn list(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = assignments::list(&api.ctx, &asker.caller, id("intent", &path)?).await?;
    ok(&found.into_iter().map(|one| AssignmentBody::new(one, asker.dialect)).collect::<Vec<_>>())
}

/// An agent to assign.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "agent_id": "agent.researcher" }))]
struct AssignBody {
    /// The agent.
    agent_id: String,
    /// The agent's role; defaults to `worker`. A `coordinator` manages the intent's channels.
    role: Option<String>,
}

/// Assign an agent to an intent
///
/// An agent that is assigned itself hands the intent on by assigning another: `delegated_by` then names it.
#[utoipa::path(operation_id = "assign_agent", tag = "intents", request_body = AssignBody, params(IdempotencyKey),
    responses((status = 200, description = "The assignment", body = AssignmentBody)))]
#[post("/intents/{intent_id}/agents")]
async fn assign(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<AssignBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let role = body.value.role.as_deref().unwrap_or("worker");
    let assignment =
        assignments::assign(&api.ctx, &asker.caller, intent_id, &body.value.agent_id, role, once.as_ref())
            .await?;
    ok(&AssignmentBody::new(assignment, asker.dialect))
}

/// The confirmation that an assignment ended.
#[derive(Debug, Serialize, ToSchema)]
struct UnassignedBody<'a> {
    /// Always `unassigned`.
    #[schema(example = "unassigned")]
    status: &'static str,
    /// The agent.
    #[schema(example = "agent.researcher")]
    agent_id: &'a str,
}

/// Remove an agent from an intent
#[utoipa::path(operation_id = "unassign_agent", tag = "intents",
    responses((status = 200, description = "The agent was removed from the intent", body = UnassignedBody)))]
#[delete("/intents/{intent_id}/agents/{agent_id}")]
async fn unassign(api: web::Data<HttpState>, asker: Asker, path: web::Path<(String, String)>) -> Reply {
    let (intent, agent) = path.into_inner();
    assignments::unassign(&api.ctx, &asker.caller, id("intent", &intent)?, &agent).await?;
    ok(&UnassignedBody { status: "unassigned", agent_id: &agent })
}
