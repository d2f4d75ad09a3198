//! Routes of approvals: the tasks that wait for a person to agree (AEE §3), and what the person says.

use actix_web::{get, post, web};
use entente_domain::envelopes::approvals::Decision;
use entente_kernel::Outcome;
use entente_kernel::approvals::{self, Waiting};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::{Body, Query, id};
use super::caller::Asker;
use super::envelopes::EnvelopeBody;
use super::error::{ProblemBody, Reply};
use super::wire::WireTime;
use super::{Doors, listed, ok};
use crate::http::routes::Routes;

/// Tasks of a page, when nothing is said and at the most.
const PAGE: (u32, u32) = (20, 100);

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(decide);
}

/// A task that waits for a person to agree.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Approval)]
struct ApprovalBody {
    /// The task's id.
    id: String,
    /// Who is to do it.
    respondents: Vec<String>,
    #[serde(flatten)]
    task: EnvelopeBody,
}

/// List the tasks that wait for a person
///
/// Tasks with `requires.human_approval` to who is no person wait until a person agrees. For keys of people, and only those
/// that others asked for: one of each principal, the oldest first, then a second of each, and so on. What is decided or has run
/// out is no longer here, and what waits behind it moves up: whoever has decided begins anew.
#[utoipa::path(operation_id = "list_approvals", tag = "envelopes",
    params(("after" = Option<String>, Query, description = "The last `id` of the page before"),
           ("limit" = Option<u32>, Query, description = "1 to 100; 20 when nothing is said", maximum = 100)),
    responses((status = 200, description = "The tasks", body = Vec<ApprovalBody>),
              (status = 403, description = "The key is no person's, or another person is asked", body = ProblemBody)))]
#[get("/aee/approvals")]
async fn list(doors: web::Data<Doors>, asker: Asker, query: Query) -> Reply {
    let limit = query.number("limit", PAGE.0, 1, PAGE.1)?;
    let waiting = approvals::waiting(&doors.ctx, &asker.caller, query.text("after"), limit).await?;
    let shown = waiting.into_iter().map(|Waiting { task, respondents }| {
        let id = task.id.clone();
        Ok(ApprovalBody { id, respondents, task: EnvelopeBody::new(task, asker.dialect)? })
    });
    listed(shown.collect::<Outcome<Vec<_>>>()?)
}

/// What a person says to a task.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ApprovalAnswer, example = json!({ "decision": "approve" }))]
struct DecisionBody {
    /// `approve` or `decline`.
    decision: Decision,
    /// Why so. Whoever asked is told with a `decline`.
    reason: Option<String>,
}

/// A decision about a task.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApprovalDecided)]
struct DecidedBody {
    /// The task's id.
    id: String,
    /// What was decided.
    decision: Decision,
    /// By whom.
    decided_by: String,
    /// When.
    #[schema(value_type = String)]
    decided_at: WireTime,
    /// In how many mailboxes the task was put.
    delivered: usize,
}

/// Agree to a task, or not
///
/// Only a person's own key, and not who asked. `approve` puts the task into its recipients' mailboxes; `decline` ends it, and
/// who asked gets an `error` `E_DECLINED` from the server. There is one decision: another one is 409.
#[utoipa::path(operation_id = "decide_approval", tag = "envelopes", request_body = DecisionBody,
    params(("envelope_id" = String, Path, description = "The task's `id`")),
    responses((status = 200, description = "It is decided", body = DecidedBody),
              (status = 403, description = "The key is no person's, or the asker's", body = ProblemBody),
              (status = 409, description = "It was decided before, or its time ran out", body = ProblemBody)))]
#[post("/aee/approvals/{envelope_id}")]
async fn decide(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<DecisionBody>,
) -> Reply {
    let id: String = id("task", &path)?;
    let DecisionBody { decision, reason } = body.value;
    let decided = approvals::decide(&doors.ctx, &asker.caller, &id, decision, reason.as_deref()).await?;
    ok(&DecidedBody {
        id: decided.id,
        decision: decided.decision,
        decided_by: decided.by,
        decided_at: WireTime::new(decided.at, asker.dialect),
        delivered: decided.delivered,
    })
}
