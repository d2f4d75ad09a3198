//! The verbs of tasks (RFC-0012), each a route of its own. A body may be missing, and so may `If-Match`.

use actix_web::{HttpRequest, post, web};
use entente_core::refusal::{Code, Refusal};
use entente_core::tasks::change::Verb;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_actix_web::service_config::ServiceConfig;

use super::Doors;
use super::body::{OptionalBody, id, if_match_maybe};
use super::caller::Asker;
use super::error::{Problem, Reply};
use super::tasks::{TaskBody, shown};
use crate::app::tasks;

pub fn routes(config: &mut ServiceConfig<'_>) {
    config
        .service(claim)
        .service(start)
        .service(progress)
        .service(complete)
        .service(fail)
        .service(block)
        .service(unblock)
        .service(release)
        .service(delegate)
        .service(escalate)
        .service(cancel)
        .service(skip);
}

/// What is said with a verb. Each takes what it needs.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = TaskVerb)]
#[schema(example = json!({ "claim_token": 1, "output": { "pages": 12 } }))]
struct VerbBody {
    /// Who does it; the acting agent when nothing is said.
    agent_id: Option<String>,
    /// The claim that you have: when it holds no longer, nothing is done.
    claim_token: Option<i64>,
    /// `complete`: what came of it.
    #[schema(value_type = Option<Object>)]
    output: Option<Map<String, Value>>,
    /// `complete`: what was made on the way, by reference.
    artifacts: Option<Vec<String>>,
    /// `fail`: what went wrong.
    error: Option<String>,
    /// `delegate`, `escalate`: to whom.
    #[serde(alias = "assigned_agent")]
    to: Option<String>,
    /// Why.
    #[serde(alias = "blocked_reason")]
    reason: Option<String>,
    /// What else is said, with `progress`.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    more: Map<String, Value>,
}

impl VerbBody {
    fn why(&mut self) -> Option<String> {
        self.error.take().or(self.reason.take())
    }

    fn said(&mut self) -> Map<String, Value> {
        let mut said = std::mem::take(&mut self.more);
        if let Some(reason) = self.reason.take() {
            said.insert("reason".to_owned(), Value::from(reason));
        }
        said
    }
}

async fn act(
    request: &HttpRequest,
    doors: &Doors,
    asker: &Asker,
    path: &str,
    mut told: VerbBody,
    verb: impl FnOnce(&mut VerbBody) -> Result<Verb, Problem>,
) -> Reply {
    let id = id("task", path)?;
    let seen = if_match_maybe("task", request)?;
    let strict = doors.ctx.settings.strict;
    let agent = asker.caller.speaker("agent_id", told.agent_id.as_deref(), strict)?;
    let verb = verb(&mut told)?;
    let caller = asker.caller.acting_as(agent);
    shown(tasks::act(&doors.ctx, &caller, id, seen, told.claim_token, verb).await?, asker)
}

/// Claim a task
///
/// One that is ready. Of many who try at the same time one gets it; the others are told `claim_conflict`. The
/// `claim_token` of the answer is the claim: name it with what follows, and be told when it holds no longer.
#[utoipa::path(operation_id = "claim_task", tag = "tasks", request_body = VerbBody,
    params(("task_id" = String, Path, description = "The task"),
           ("If-Match" = Option<i64>, Header, description = "The version that you last read")),
    responses((status = 200, description = "The task", body = TaskBody),
              (status = 409, description = "`claim_conflict`, `invalid_transition`, `version_conflict`", body = super::error::ProblemBody)))]
#[post("/tasks/{task_id}/claim")]
async fn claim(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<VerbBody>,
) -> Reply {
    act(&request, &doors, &asker, &path, body.0.value, |_| Ok(Verb::Claim)).await
}

/// Start a task
///
/// The agent that has claimed it begins to work on it; the time of the attempt begins anew.
#[utoipa::path(operation_id = "start_task", tag = "tasks", request_body = VerbBody,
    params(("task_id" = String, Path, description = "The task"),
           ("If-Match" = Option<i64>, Header, description = "The version that you last read")),
    responses((status = 200, description = "The task", body = TaskBody),
              (status = 409, description = "`claim_conflict`, `invalid_transition`, `version_conflict`", body = super::error::ProblemBody)))]
#[post("/tasks/{task_id}/start")]
async fn start(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<VerbBody>,
) -> Reply {
    act(&request, &doors, &asker, &path, body.0.value, |_| Ok(Verb::Start)).await
}

/// Say how far a task is
///
/// What is said is recorded and told, and changes nothing. Members of your own are welcome.
#[utoipa::path(operation_id = "report_task_progress", tag = "tasks", request_body = VerbBody,
    params(("task_id" = String, Path, description = "The task"),
           ("If-Match" = Option<i64>, Header, description = "The version that you last read")),
    responses((status = 200, description = "The task", body = TaskBody),
              (status = 409, description = "`claim_conflict`, `invalid_transition`, `version_conflict`", body = super::error::ProblemBody)))]
#[post("/tasks/{task_id}/progress")]
async fn progress(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<VerbBody>,
) -> Reply {
    act(&request, &doors, &asker, &path, body.0.value, |told| Ok(Verb::Progress(told.said()))).await
}

/// Complete a task
///
/// Those that wait for it become ready, and the channels that are scoped to it close (RFC-0021 §7.3).
#[utoipa::path(operation_id = "complete_task", tag = "tasks", request_body = VerbBody,
    params(("task_id" = String, Path, description = "The task"),
           ("If-Match" = Option<i64>, Header, description = "The version that you last read")),
    responses((status = 200, description = "The task", body = TaskBody),
              (status = 409, description = "`claim_conflict`, `invalid_transition`, `version_conflict`", body = super::error::ProblemBody)))]
#[post("/tasks/{task_id}/complete")]
async fn complete(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<VerbBody>,
) -> Reply {
    act(&request, &doors, &asker, &path, body.0.value, |told| {
        Ok(Verb::Complete { output: told.output.take(), artifacts: told.artifacts.take() })
    })
    .await
}

/// Say that an attempt failed
///
/// The task is tried again, after its pause, while it has attempts left; then it has failed for good.
#[utoipa::path(operation_id = "fail_task", tag = "tasks", request_body = VerbBody,
    params(("task_id" = String, Path, description = "The task"),
           ("If-Match" = Option<i64>, Header, description = "The version that you last read")),
    responses((status = 200, description = "The task", body = TaskBody),
              (status = 409, description = "`claim_conflict`, `invalid_transition`, `version_conflict`", body = super::error::ProblemBody)))]
#[post("/tasks/{task_id}/fail")]
async fn fail(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<VerbBody>,
) -> Reply {
    act(&request, &doors, &asker, &path, body.0.value, |told| {
        Ok(Verb::Fail { error: told.why(), for_good: false })
    })
    .await
}

/// Block a task
///
/// It cannot go on until somebody unblocks it. Whoever has it keeps it.
#[utoipa::path(operation_id = "block_task", tag = "tasks", request_body = VerbBody,
    params(("task_id" = String, Path, description = "The task"),
           ("If-Match" = Option<i64>, Header, description = "The version that you last read")),
    responses((status = 200, description = "The task", body = TaskBody),
              (status = 409, description = "`claim_conflict`, `invalid_transition`, `version_conflict`", body = super::error::ProblemBody)))]
#[post("/tasks/{task_id}/block")]
async fn block(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<VerbBody>,
) -> Reply {
    act(&request, &doors, &asker, &path, body.0.value, |told| Ok(Verb::Block(told.why()))).await
}

/// Unblock a task
///
/// It goes on where it was. What it depended on and will never be completed is waited for no longer.
#[utoipa::path(operation_id = "unblock_task", tag = "tasks", request_body = VerbBody,
    params(("task_id" = String, Path, description = "The task"),
           ("If-Match" = Option<i64>, Header, description = "The version that you last read")),
    responses((status = 200, description = "The task", body = TaskBody),
              (status = 409, description = "`claim_conflict`, `invalid_transition`, `version_conflict`", body = super::error::ProblemBody)))]
#[post("/tasks/{task_id}/unblock")]
async fn unblock(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<VerbBody>,
) -> Reply {
    act(&request, &doors, &asker, &path, body.0.value, |_| Ok(Verb::Unblock)).await
}

/// Let go of a task
///
/// Whoever has it hands it back: it can be claimed again, and has lost no attempt.
#[utoipa::path(operation_id = "release_task", tag = "tasks", request_body = VerbBody,
    params(("task_id" = String, Path, description = "The task"),
           ("If-Match" = Option<i64>, Header, description = "The version that you last read")),
    responses((status = 200, description = "The task", body = TaskBody),
              (status = 409, description = "`claim_conflict`, `invalid_transition`, `version_conflict`", body = super::error::ProblemBody)))]
#[post("/tasks/{task_id}/release")]
async fn release(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<VerbBody>,
) -> Reply {
    act(&request, &doors, &asker, &path, body.0.value, |_| Ok(Verb::HandBack)).await
}

/// Delegate a task
///
/// It is kept for another agent, who hears of it and can claim it.
#[utoipa::path(operation_id = "delegate_task", tag = "tasks", request_body = VerbBody,
    params(("task_id" = String, Path, description = "The task"),
           ("If-Match" = Option<i64>, Header, description = "The version that you last read")),
    responses((status = 200, description = "The task", body = TaskBody),
              (status = 409, description = "`claim_conflict`, `invalid_transition`, `version_conflict`", body = super::error::ProblemBody)))]
#[post("/tasks/{task_id}/delegate")]
async fn delegate(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<VerbBody>,
) -> Reply {
    act(&request, &doors, &asker, &path, body.0.value, |told| {
        let to = told.to.take().ok_or_else(nobody)?;
        Ok(Verb::Delegate { to, reason: told.why() })
    })
    .await
}

/// Escalate a task
///
/// It is put before somebody who decides, and blocked until it is unblocked.
#[utoipa::path(operation_id = "escalate_task", tag = "tasks", request_body = VerbBody,
    params(("task_id" = String, Path, description = "The task"),
           ("If-Match" = Option<i64>, Header, description = "The version that you last read")),
    responses((status = 200, description = "The task", body = TaskBody),
              (status = 409, description = "`claim_conflict`, `invalid_transition`, `version_conflict`", body = super::error::ProblemBody)))]
#[post("/tasks/{task_id}/escalate")]
async fn escalate(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<VerbBody>,
) -> Reply {
    act(&request, &doors, &asker, &path, body.0.value, |told| {
        Ok(Verb::Escalate { to: told.to.take(), reason: told.why() })
    })
    .await
}

/// Cancel a task
///
/// It is called off. What depends on it is blocked.
#[utoipa::path(operation_id = "cancel_task", tag = "tasks", request_body = VerbBody,
    params(("task_id" = String, Path, description = "The task"),
           ("If-Match" = Option<i64>, Header, description = "The version that you last read")),
    responses((status = 200, description = "The task", body = TaskBody),
              (status = 409, description = "`claim_conflict`, `invalid_transition`, `version_conflict`", body = super::error::ProblemBody)))]
#[post("/tasks/{task_id}/cancel")]
async fn cancel(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<VerbBody>,
) -> Reply {
    act(&request, &doors, &asker, &path, body.0.value, |told| Ok(Verb::Cancel(told.why()))).await
}

/// Skip a task
///
/// It is not needed. What depends on it is blocked until it is unblocked, because only what is completed is there.
#[utoipa::path(operation_id = "skip_task", tag = "tasks", request_body = VerbBody,
    params(("task_id" = String, Path, description = "The task"),
           ("If-Match" = Option<i64>, Header, description = "The version that you last read")),
    responses((status = 200, description = "The task", body = TaskBody),
              (status = 409, description = "`claim_conflict`, `invalid_transition`, `version_conflict`", body = super::error::ProblemBody)))]
#[post("/tasks/{task_id}/skip")]
async fn skip(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<VerbBody>,
) -> Reply {
    act(&request, &doors, &asker, &path, body.0.value, |told| Ok(Verb::Skip(told.why()))).await
}

fn nobody() -> Problem {
    let message = "`to` is missing: the agent that is to take the task.";
    Refusal::field(Code::InvalidRequest, "to", "missing", message).into()
}
