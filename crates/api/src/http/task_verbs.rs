//! The verbs of tasks (RFC-0012), each a route of its own. A body may be missing, and so may `If-Match`.

use actix_web::{HttpRequest, post, web};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::tasks::change::Verb;
use entente_kernel::tasks;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::Doors;
use super::body::{OptionalBody, id, if_match_maybe};
use super::caller::Asker;
use super::error::{Problem, Reply};
use super::tasks::{TaskBody, shown};
use crate::http::routes::Routes;

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

/// A verb as a route: what it is called, where it is, and what it is made of from what was said with it.
macro_rules! verb {
    ($(#[$doc:meta])+ $name:ident, $operation:literal, $path:literal, $verb:expr) => {
        $(#[$doc])+
        #[utoipa::path(operation_id = $operation, tag = "tasks", request_body = Option<VerbBody>,
            params(("task_id" = String, Path, description = "The task"),
                   ("If-Match" = Option<i64>, Header, description = "The version that you last read")),
            responses((status = 200, description = "The task", body = TaskBody),
                      (status = 409, description = "`claim_conflict`, `invalid_transition`, `version_conflict`", body = super::error::ProblemBody)))]
        #[post($path)]
        async fn $name(
            request: HttpRequest,
            doors: web::Data<Doors>,
            asker: Asker,
            path: web::Path<String>,
            body: OptionalBody<VerbBody>,
        ) -> Reply {
            act(&request, &doors, &asker, &path, body.0.value, $verb).await
        }
    };
}

verb! {
    /// Claim a task
    ///
    /// One that is ready. Of many who try at the same time one gets it; the others are told `claim_conflict`. The
    /// `claim_token` of the answer is the claim: name it with what follows, and be told when it holds no longer.
    claim, "claim_task", "/tasks/{task_id}/claim",
    |_| Ok(Verb::Claim)
}

verb! {
    /// Start a task
    ///
    /// The agent that has claimed it begins to work on it; the time of the attempt begins anew.
    start, "start_task", "/tasks/{task_id}/start",
    |_| Ok(Verb::Start)
}

verb! {
    /// Say how far a task is
    ///
    /// What is said is recorded and told, and changes nothing. Members of your own are welcome.
    progress, "report_task_progress", "/tasks/{task_id}/progress",
    |told| Ok(Verb::Progress(told.said()))
}

verb! {
    /// Complete a task
    ///
    /// Those that wait for it become ready, and the channels that are scoped to it close (RFC-0021 §7.3).
    complete, "complete_task", "/tasks/{task_id}/complete",
    |told| {
        Ok(Verb::Complete { output: told.output.take(), artifacts: told.artifacts.take() })
    }
}

verb! {
    /// Say that an attempt failed
    ///
    /// The task is tried again, after its pause, while it has attempts left; then it has failed for good.
    fail, "fail_task", "/tasks/{task_id}/fail",
    |told| {
        Ok(Verb::Fail { error: told.why(), for_good: false })
    }
}

verb! {
    /// Block a task
    ///
    /// It cannot go on until somebody unblocks it. Whoever has it keeps it.
    block, "block_task", "/tasks/{task_id}/block",
    |told| Ok(Verb::Block(told.why()))
}

verb! {
    /// Unblock a task
    ///
    /// It goes on where it was. What it depended on and will never be completed is waited for no longer.
    unblock, "unblock_task", "/tasks/{task_id}/unblock",
    |_| Ok(Verb::Unblock)
}

verb! {
    /// Let go of a task
    ///
    /// Whoever has it hands it back: it can be claimed again, and has lost no attempt.
    release, "release_task", "/tasks/{task_id}/release",
    |_| Ok(Verb::HandBack)
}

verb! {
    /// Delegate a task
    ///
    /// It is kept for another agent, who hears of it and can claim it.
    delegate, "delegate_task", "/tasks/{task_id}/delegate",
    |told| {
        let to = told.to.take().ok_or_else(nobody)?;
        Ok(Verb::Delegate { to, reason: told.why() })
    }
}

verb! {
    /// Escalate a task
    ///
    /// It is put before somebody who decides, and blocked until it is unblocked.
    escalate, "escalate_task", "/tasks/{task_id}/escalate",
    |told| {
        Ok(Verb::Escalate { to: told.to.take(), reason: told.why() })
    }
}

verb! {
    /// Cancel a task
    ///
    /// It is called off. What depends on it is blocked.
    cancel, "cancel_task", "/tasks/{task_id}/cancel",
    |told| Ok(Verb::Cancel(told.why()))
}

verb! {
    /// Skip a task
    ///
    /// It is not needed. What depends on it is blocked until it is unblocked, because only what is completed is there.
    skip, "skip_task", "/tasks/{task_id}/skip",
    |told| Ok(Verb::Skip(told.why()))
}

fn nobody() -> Problem {
    let message = "`to` is missing: the agent that is to take the task.";
    Refusal::field(Code::InvalidRequest, "to", "missing", message).into()
}
