//! The experimental tasks of 2025-11-25, which the library does not have: a host marks a call of a tool as a task, and
//! then sends `tasks/get`, `tasks/result`, `tasks/list` and `tasks/cancel`. These requests are answered here, before
//! the library sees them; requests of all other versions pass.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse};
use entente_arcp::jobs;
use entente_domain::arcp::jobs::{Job, JobStatus};
use entente_domain::identity::keys::Scope;
use entente_domain::ids::MomentId;
use entente_domain::refusal::{Code, Refusal};
use entente_http::error::Problem;
use entente_moments as moments;
use rmcp::model::{ErrorCode, ErrorData, TaskStatus};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};

use super::{Begun, Loaded, Subject, TOOLS, TaskView, cancel};
use crate::mcp::handler::Visitor;
use crate::mcp::toolsets::tool_named;
use crate::mcp::{Call, WAIT_SECONDS, arguments, contains, fault};

/// The version that has these tasks.
pub(in crate::mcp) const VERSION: &str = "2025-11-25";

/// Member of a request's `_meta` that only later versions have.
const LATER: &str = "io.modelcontextprotocol/protocolVersion";

/// Member of a result's `_meta` with the task that it belongs to.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Page size of the list of tasks.
const STEP: u32 = 50;

/// Interval for reading a task whose end is awaited, because time alone may end it.
const LOOK: Duration = Duration::from_secs(2);

/// A request.
#[derive(Deserialize)]
struct Request {
    id: Value,
    method: String,
    #[serde(default)]
    params: Map<String, Value>,
}

impl Request {
    /// Reads a request of tasks; `None` for all others.
    fn read(headers: &HttpRequest, body: &[u8]) -> Option<Self> {
        if headers.headers().get("mcp-protocol-version")?.to_str().ok()? != VERSION
            || !contains(body, b"\"task")
        {
            return None;
        }
        let request: Self = serde_json::from_slice(body).ok()?;
        let later = request.params.get("_meta").is_some_and(|meta| meta.get(LATER).is_some());
        let known =
            matches!(request.method.as_str(), "tasks/get" | "tasks/result" | "tasks/list" | "tasks/cancel")
                || request.method == "tools/call" && request.params.get("task").is_some_and(Value::is_object);
        (known && !later && (request.id.is_string() || request.id.is_number())).then_some(request)
    }

    fn text(&self, name: &str) -> Result<&str, ErrorData> {
        let text = self.params.get(name).and_then(Value::as_str);
        text.ok_or_else(|| ErrorData::invalid_params(format!("`{name}` must be a text."), None))
    }

    /// Returns the task that the request names, with a call of its tool to read it by.
    fn subject(&self, visitor: Visitor) -> Result<(Call, Subject), ErrorData> {
        let subject = Subject::parse(self.text("taskId")?).map_err(|problem| fault(&problem))?;
        Ok((visitor.reader(subject.tool())?, subject))
    }
}

/// Answers a request of these tasks; `None` for any other request.
pub(in crate::mcp) async fn answered(
    visitor: &Visitor,
    headers: &HttpRequest,
    body: &[u8],
) -> Option<HttpResponse> {
    let request = Request::read(headers, body)?;
    let visitor = visitor.clone();
    let answer = match request.method.as_str() {
        "tools/call" => begin(&request, visitor).await?,
        "tasks/get" => get(&request, visitor).await,
        "tasks/result" => result(&request, visitor).await,
        "tasks/cancel" => end(&request, visitor).await,
        _ => list(&request, visitor).await,
    };
    let mut message = json!({ "jsonrpc": "2.0", "id": request.id });
    match answer {
        Ok(result) => message["result"] = result,
        Err(error) => message["error"] = serde_json::to_value(error).unwrap_or_default(),
    }
    Some(HttpResponse::Ok().content_type("application/json").body(message.to_string()))
}

/// Returns a task in the form of this version.
fn told(view: &TaskView) -> Value {
    json!({
        "taskId": view.id, "status": view.status, "statusMessage": view.message, "createdAt": view.created_at,
        "lastUpdatedAt": view.updated_at, "ttl": null, "pollInterval": view.poll_millis,
    })
}

/// Returns a task as loaded: a job that failed is a failed task in this version.
fn loaded(found: &Loaded) -> Value {
    let mut task = told(&found.view);
    let erred = found.result.as_ref().is_some_and(|result| result["isError"] == true);
    if erred && found.view.status == TaskStatus::Completed {
        task["status"] = json!("failed");
    }
    task
}

/// Calls a tool as a task; `None` for an unknown tool, about which the library answers.
async fn begin(request: &Request, visitor: Visitor) -> Option<Result<Value, ErrorData>> {
    let tool = tool_named(request.text("name").ok()?)?;
    if !TOOLS.contains(&tool.name) {
        let message = format!("`{}` is no task: call it without `task`.", tool.name);
        return Some(Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)));
    }
    let said = match request.params.get("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(said)) => said.clone(),
        Some(_) => return Some(Err(ErrorData::invalid_params("`arguments` must be an object.", None))),
    };
    let call = visitor.clone().call(tool, arguments::understood(tool, said));
    let answer = match (tool.run)(Call { as_task: true, ..call }).await {
        Ok(answer) => answer,
        Err(problem) => return Some(Err(fault(&problem))),
    };
    let reader = visitor.call(tool, Vec::new());
    let Some(Begun { view, meta }) = Begun::of(&reader, &answer).await else {
        let message = format!(
            "It was done, but this key may not read it, which a task needs: its scopes lack `jobs:read` or `moments:read`. \
             The result: {}",
            answer.body
        );
        return Some(Err(ErrorData::invalid_request(message, None)));
    };
    Some(Ok(json!({ "task": told(&view), "_meta": meta })))
}

async fn get(request: &Request, visitor: Visitor) -> Result<Value, ErrorData> {
    let (call, subject) = request.subject(visitor)?;
    let found = Loaded::load(&call, subject).await.map_err(|problem| fault(&problem))?;
    Ok(loaded(&found))
}

/// Waits for the end of a task and returns its result. A task that is not over in time is an error, because no wait is
/// without a limit; the host repeats the request.
async fn result(request: &Request, visitor: Visitor) -> Result<Value, ErrorData> {
    let (call, subject) = request.subject(visitor)?;
    let found = awaited(&call, subject).await.map_err(|problem| fault(&problem))?;
    let Some(mut result) = found.result else {
        let message = format!(
            "{} This request waits for up to {WAIT_SECONDS} seconds; send it again, or follow the task with tasks/get.",
            found.view.message
        );
        return Err(ErrorData::internal_error(message, Some(loaded_task(&found.view))));
    };
    if let Some(members) = result.as_object_mut() {
        members.remove("resultType");
        members.insert("_meta".to_owned(), json!({ RELATED: { "taskId": found.view.id } }));
    }
    Ok(result)
}

fn loaded_task(view: &TaskView) -> Value {
    json!({ "task": told(view) })
}

async fn awaited(call: &Call, subject: Subject) -> Result<Loaded, Problem> {
    // Registered before the first read, so that no notification in between is lost.
    let mut listener = call.ctx().feed.wakeups().listener();
    listener.add(subject.wakeup());
    let until = Instant::now() + Duration::from_secs(WAIT_SECONDS.into());
    let mut place = None;
    loop {
        call.caller.require_key(call.ctx().now())?;
        let found = Loaded::load(call, subject).await?;
        let left = until.saturating_duration_since(Instant::now());
        if found.result.is_some() || left.is_zero() {
            return Ok(found);
        }
        if place.is_none() {
            place = Some(call.waits()?);
        }
        let rung = timeout(left.min(LOOK), listener.rung());
        if call.unless_stopping(rung).await.is_none() {
            return Ok(found);
        }
    }
}

async fn end(request: &Request, visitor: Visitor) -> Result<Value, ErrorData> {
    let (call, subject) = request.subject(visitor)?;
    let ended = cancel(&call, subject).await.map_err(|problem| fault(&problem))?;
    let found = Loaded::load(&call, subject).await.map_err(|problem| fault(&problem))?;
    if !ended {
        let message = format!("The task is over and cannot be cancelled. {}", found.view.message);
        return Err(ErrorData::invalid_params(message, Some(json!({ "task": loaded(&found) }))));
    }
    Ok(loaded(&found))
}

/// Lists the caller's jobs, newest first, then the questions that it asked.
async fn list(request: &Request, visitor: Visitor) -> Result<Value, ErrorData> {
    let cursor = request.params.get("cursor").and_then(Value::as_str);
    let call = visitor.reader("submit_job")?;
    let (tasks, next) = page(&call, cursor).await.map_err(|problem| fault(&problem))?;
    let mut body = json!({ "tasks": tasks });
    if let Some(next) = next {
        body["nextCursor"] = json!(next);
    }
    Ok(body)
}

async fn page(call: &Call, cursor: Option<&str>) -> Result<(Vec<Value>, Option<String>), Problem> {
    let (ctx, caller) = (call.ctx(), &call.caller);
    let (jobs_over, cursor) = match cursor.map(|cursor| cursor.split_once(':')) {
        None => (!caller.has(Scope::JobsRead), None),
        Some(Some(("jobs", after))) => (false, Some(after)),
        Some(Some(("moments", after))) => (true, Some(after).filter(|after| !after.is_empty())),
        Some(_) => return Err(foreign().into()),
    };
    if !jobs_over {
        let cursor = cursor.map(str::to_owned);
        let filter = jobs::JobFilter { limit: STEP, cursor, ..jobs::JobFilter::default() };
        let (found, next) = jobs::list(&ctx.arcp, caller, &filter).await?;
        let tasks = found.iter().filter(|job| job.principal == caller.agent).map(listed_job).collect();
        return Ok((tasks, Some(next.map_or_else(|| "moments:".to_owned(), |next| format!("jobs:{next}")))));
    }
    if !caller.has(Scope::MomentsRead) {
        return Ok((Vec::new(), None));
    }
    let filter = moments::MomentFilter {
        state: None,
        principal: None,
        agent: Some(caller.agent.clone()),
        class: None,
        job: None,
        intent: None,
        limit: STEP,
        before: cursor.map(|text| text.parse::<MomentId>().map_err(|_no_id| foreign())).transpose()?,
    };
    let (found, next) = moments::list(&ctx.moments, caller, &filter).await?;
    let tasks = found.iter().map(|one| told(&TaskView::of_moment(call, &one.moment))).collect();
    Ok((tasks, next.map(|next| format!("moments:{next}"))))
}

/// Returns a job of a list as a task.
fn listed_job(job: &Job) -> Value {
    let mut task = told(&TaskView::of_job(job));
    if matches!(job.status, JobStatus::Error | JobStatus::TimedOut) {
        task["status"] = json!("failed");
    }
    task
}

fn foreign() -> Refusal {
    let message = "`cursor` is none of this list's. Begin without one.";
    Refusal::field(Code::InvalidRequest, "cursor", "value", message)
}
