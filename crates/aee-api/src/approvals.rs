//! Endpoints for approvals: tasks that wait for a person's consent (AEE §3), and the person's decision.

use actix_web::{get, post, web};
use entente_aee::approvals;
use entente_aee::approvals::Waiting;
use entente_domain::aee::envelopes::approvals::Decision;
use entente_http::body::{Body, Query, id};
use entente_http::caller::Asker;
use entente_http::error::{ProblemBody, Reply};
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_http::{listed, ok};
use entente_kernel::Outcome;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ApiState;
use crate::envelopes::EnvelopeBody;

/// Tasks per page: default and maximum.
const PAGE: (u32, u32) = (20, 100);

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(decide);
}

/// A task that waits for a person's approval.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Approval)]
struct ApprovalBody {
    /// The task's id.
    id: String,
    /// The entities that are to perform the task.
    respondents: Vec<String>,
    #[serde(flatten)]
    task: EnvelopeBody,
}

/// List the tasks that wait for a person
///
/// A task with `requires.human_approval` whose recipient is not a person waits for a person's approval. Requires a
/// person's key; a person's own tasks are not listed. The order is fair: the oldest task of each principal, then the
/// second of each, and so on. Decided and expired tasks drop out of the list and later ones move up, so start again
/// from the first page after a decision.
#[utoipa::path(operation_id = "list_approvals", tag = "envelopes",
    params(("after" = Option<String>, Query, description = "Last `id` of the previous page"),
           ("limit" = Option<u32>, Query, description = "Page size, 1 to 100; defaults to 20", maximum = 100)),
    responses((status = 200, description = "The tasks", body = Vec<ApprovalBody>),
              (status = 403, description = "The key is not a person's, or the operator named another approver", body = ProblemBody)))]
#[get("/aee/approvals")]
async fn list(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let limit = query.number("limit", PAGE.0, 1, PAGE.1)?;
    let waiting = approvals::waiting(&api.ctx, &asker.caller, query.text("after"), limit).await?;
    let shown = waiting.into_iter().map(|Waiting { task, respondents }| {
        let id = task.id.clone();
        Ok(ApprovalBody { id, respondents, task: EnvelopeBody::new(task, asker.dialect)? })
    });
    listed(shown.collect::<Outcome<Vec<_>>>()?)
}

/// A person's decision about a task.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ApprovalAnswer, example = json!({ "decision": "approve" }))]
struct DecisionBody {
    /// `approve` or `decline`.
    decision: Decision,
    /// The reason. With `decline` it is passed on to the sender.
    reason: Option<String>,
}

/// A recorded decision about a task.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApprovalDecided)]
struct DecidedBody {
    /// The task's id.
    id: String,
    /// The decision.
    decision: Decision,
    /// The person that decided.
    decided_by: String,
    /// When it was decided.
    #[schema(value_type = String)]
    decided_at: WireTime,
    /// Number of mailboxes the task was delivered to.
    delivered: usize,
}

/// Approve or decline a task
///
/// Requires a person's own key; the task's sender may not decide. `approve` delivers the task to its recipients'
/// mailboxes; `decline` ends it, and the server sends an `error` with `E_DECLINED` to the sender. A task is decided
/// once: a later decision is refused with 409.
#[utoipa::path(operation_id = "decide_approval", tag = "envelopes", request_body = DecisionBody,
    params(("envelope_id" = String, Path, description = "`id` of the task")),
    responses((status = 200, description = "The decision", body = DecidedBody),
              (status = 403, description = "The key is not a person's, the person sent or submitted the task, or the operator named another approver", body = ProblemBody),
              (status = 409, description = "The task was already decided, or its time ran out", body = ProblemBody)))]
#[post("/aee/approvals/{envelope_id}")]
async fn decide(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<DecisionBody>,
) -> Reply {
    let id: String = id("task", &path)?;
    let DecisionBody { decision, reason } = body.value;
    let decided = approvals::decide(&api.ctx, &asker.caller, &id, decision, reason.as_deref()).await?;
    ok(&DecidedBody {
        id: decided.id,
        decision: decided.decision,
        decided_by: decided.by,
        decided_at: WireTime::new(decided.at, asker.dialect),
        delivered: decided.delivered,
    })
}
