//! Actions on tasks (RFC-0012), each a route of its own. The body and `If-Match` are optional.

use actix_web::{HttpRequest, post, web};
use entente_domain::openintent::tasks::change::Verb;
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{IfMatchMaybe, OptionalBody, id, if_match_maybe};
use entente_http::caller::Asker;
use entente_http::error::{Problem, Reply};
use entente_http::routes::Routes;
use entente_openintent::tasks;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;
use crate::tasks::{TaskBody, response};

pub fn routes(config: &mut Routes<'_>) {
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

/// The body common to all task actions but progress reports; each action uses the fields that it needs.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = TaskVerb)]
#[schema(example = json!({ "claim_token": 1, "output": { "pages": 12 } }))]
struct VerbBody {
    /// Agent that acts; defaults to the acting agent.
    agent_id: Option<String>,
    /// Token of the caller's claim; if the claim no longer holds, the action is refused.
    claim_token: Option<i64>,
    /// `complete`: result of the task.
    #[schema(value_type = Option<Object>)]
    output: Option<Map<String, Value>>,
    /// `complete`: references to artifacts of the work.
    artifacts: Option<Vec<String>>,
    /// `fail`: the error.
    error: Option<String>,
    /// `delegate`, `escalate`: the agent to hand the task to.
    #[serde(alias = "assigned_agent")]
    to: Option<String>,
    /// Reason for the action.
    #[serde(alias = "blocked_reason")]
    reason: Option<String>,
}

/// A progress report: any fields, besides those that say who acts.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = TaskProgress)]
#[schema(example = json!({ "claim_token": 1, "percent": 40, "reason": "the tables are done" }))]
struct ProgressBody {
    /// Agent that acts; defaults to the acting agent.
    agent_id: Option<String>,
    /// Token of the caller's claim; if the claim no longer holds, the report is refused.
    claim_token: Option<i64>,
    /// Any further fields, which the event contains.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    more: Map<String, Value>,
}

impl VerbBody {
    fn why(&mut self) -> Option<String> {
        self.error.take().or(self.reason.take())
    }
}

async fn act(
    request: &HttpRequest,
    api: &ApiState,
    asker: &Asker,
    path: &str,
    mut told: VerbBody,
    verb: impl FnOnce(&mut VerbBody) -> Result<Verb, Problem>,
) -> Reply {
    let id = id("task", path)?;
    let seen = if_match_maybe("task", request)?;
    let strict = api.ctx.settings.strict;
    let agent = asker.caller.speaker("agent_id", told.agent_id.as_deref(), strict)?;
    let verb = verb(&mut told)?;
    let caller = asker.caller.acting_as(agent);
    response(tasks::act(&api.ctx, &caller, id, seen, told.claim_token, verb).await?, asker)
}

/// Defines an action's route from its name, operation id, path, and the verb to build from the body.
macro_rules! verb {
    ($(#[$doc:meta])+ $name:ident, $operation:literal, $path:literal, $verb:expr) => {
        $(#[$doc])+
        #[utoipa::path(operation_id = $operation, tag = "tasks", request_body = Option<VerbBody>, params(IfMatchMaybe),
            responses((status = 200, description = "The task", body = TaskBody),
                      (status = 409, description = "`claim_conflict`, `invalid_transition`, `version_conflict`", body = entente_http::error::ProblemBody)))]
        #[post($path)]
        async fn $name(
            request: HttpRequest,
            api: web::Data<ApiState>,
            asker: Asker,
            path: web::Path<String>,
            body: OptionalBody<VerbBody>,
        ) -> Reply {
            act(&request, &api, &asker, &path, body.0.value, $verb).await
        }
    };
}

verb! {
    /// Claim a task
    ///
    /// The task must be ready. Of several concurrent claims one succeeds; the others fail with
    /// `claim_conflict`. Send the `claim_token` of the response with later actions: they fail once the claim
    /// is lost. Other writes name it as well: `Entente-Claim: <task id>; token=<claim_token>`.
    claim, "claim_task", "/tasks/{task_id}/claim",
    |_| Ok(Verb::Claim)
}

verb! {
    /// Start a task
    ///
    /// The agent that claimed the task begins to work on it; the time limit of the attempt restarts.
    start, "start_task", "/tasks/{task_id}/start",
    |_| Ok(Verb::Start)
}

verb! {
    /// Complete a task
    ///
    /// Tasks that depend on it become ready, and channels scoped to it close (RFC-0021 §7.3).
    complete, "complete_task", "/tasks/{task_id}/complete",
    |told| {
        Ok(Verb::Complete { output: told.output.take(), artifacts: told.artifacts.take() })
    }
}

verb! {
    /// Report that an attempt failed
    ///
    /// The task is retried after a pause while it has attempts left; then it fails for good.
    fail, "fail_task", "/tasks/{task_id}/fail",
    |told| {
        Ok(Verb::Fail { error: told.why(), for_good: false })
    }
}

verb! {
    /// Block a task
    ///
    /// The task waits until it is unblocked. Its assignee keeps it.
    block, "block_task", "/tasks/{task_id}/block",
    |told| Ok(Verb::Block(told.why()))
}

verb! {
    /// Unblock a task
    ///
    /// The task resumes where it was. It no longer waits for dependencies that will never be completed.
    unblock, "unblock_task", "/tasks/{task_id}/unblock",
    |_| Ok(Verb::Unblock)
}

verb! {
    /// Release a task
    ///
    /// The assignee returns the task: it can be claimed again, and the attempt is not counted.
    release, "release_task", "/tasks/{task_id}/release",
    |_| Ok(Verb::HandBack)
}

verb! {
    /// Delegate a task
    ///
    /// Reserves the task for another agent, which is notified and can claim it.
    delegate, "delegate_task", "/tasks/{task_id}/delegate",
    |told| {
        let to = told.to.take().ok_or_else(nobody)?;
        Ok(Verb::Delegate { to, reason: told.why() })
    }
}

verb! {
    /// Escalate a task
    ///
    /// Hands the task to a decision maker and blocks it until it is unblocked.
    escalate, "escalate_task", "/tasks/{task_id}/escalate",
    |told| {
        Ok(Verb::Escalate { to: told.to.take(), reason: told.why() })
    }
}

verb! {
    /// Cancel a task
    ///
    /// Tasks that depend on it are blocked.
    cancel, "cancel_task", "/tasks/{task_id}/cancel",
    |told| Ok(Verb::Cancel(told.why()))
}

verb! {
    /// Skip a task
    ///
    /// Marks the task as not needed. Tasks that depend on it are blocked until they are unblocked, because
    /// only a completed dependency counts.
    skip, "skip_task", "/tasks/{task_id}/skip",
    |told| Ok(Verb::Skip(told.why()))
}

/// Report progress on a task
///
/// Records and publishes the report without changing the task. Further fields are allowed.
#[utoipa::path(operation_id = "report_task_progress", tag = "tasks", request_body = Option<ProgressBody>, params(IfMatchMaybe),
    responses((status = 200, description = "The task", body = TaskBody),
              (status = 409, description = "`claim_conflict`, `invalid_transition`, `version_conflict`", body = entente_http::error::ProblemBody)))]
#[post("/tasks/{task_id}/progress")]
async fn progress(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<ProgressBody>,
) -> Reply {
    let ProgressBody { agent_id, claim_token, more } = body.0.value;
    let told = VerbBody { agent_id, claim_token, ..VerbBody::default() };
    act(&request, &api, &asker, &path, told, |_| Ok(Verb::Progress(more))).await
}

fn nobody() -> Problem {
    let message = "`to` is missing: the agent that is to take the task.";
    Refusal::field(Code::InvalidRequest, "to", "missing", message).into()
}
