//! Tools for submitting and following jobs (ARCP §7). The tools for running one are in `work.rs`.
//!
//! The results omit credentials that were provisioned for a job, because a tool's result enters a model's
//! context. REST and ARCP sessions deliver them.

use std::collections::BTreeMap;

use entente_arcp::jobs;
use entente_arcp::jobs::{Canceller, JobSearch, Origin};
use entente_arcp_api::jobs::{JobBody, ListedBody, job_id};
use entente_domain::arcp::jobs::ask::{Constraints, Submit};
use entente_domain::arcp::jobs::limits::Concurrency;
use entente_domain::arcp::jobs::retries::RetryPolicy;
use entente_domain::arcp::jobs::{Job, JobStatus};
use entente_domain::arcp::versions::AgentRef;
use entente_domain::clock::rfc3339;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::SessionId;
use entente_domain::limits::PAGE;
use entente_domain::refusal::{Code, Refusal};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::shapes::{any, flag, free, gives, list, may, must, nullable, retry_key, takes, text, whole, word};
use super::{Answer, Call, Hints, Tool, ToolResult, within};

/// Default page size.
const STEP: u32 = 50;

/// The statuses of a job.
const STATUSES: [&str; 6] = ["pending", "running", "success", "error", "cancelled", "timed_out"];

/// Returns the tools of this file.
pub fn tools() -> [Tool; 4] {
    [submit_tool(), get_tool(), list_tool(), cancel_tool()]
}

fn submit_tool() -> Tool {
    Tool {
        name: "submit_job",
        title: "Submit a job",
        about: "Submits a job, which runs in the background: wait_for_events reports its progress and end, get_job returns \
                its result. Always send an idempotency_key.",
        takes: takes(vec![
            must("agent", text("The agent: a name, or `name@version`.")),
            may("input", any("Input of the job: any JSON.")),
            may("lease_request", free("Permissions and budget: patterns by namespace.")),
            may("constraints", lease_constraints()),
            may("max_runtime_s", whole("Seconds until it times out.", 1, 2_592_000)),
            may("intent_id", text("Its intent.")),
            may("priority", whole("Higher starts first.", -100, 100)),
            may("concurrency_key", text("Limits running jobs with it.")),
            may("max_running", whole("How many; 1 by default.", 1, 10_000)),
            may("start_at", text("Earliest start.")),
            may("queue_timeout_s", whole("Longest wait for a worker.", 1, 2_592_000)),
            may("retry", free("{max_attempts, initial_delay_ms, factor, max_delay_ms, jitter, codes}")),
            may("labels", free("Texts by keys, to find it by.")),
            may("idempotency_key", retry_key("")),
        ]),
        example: json!({ "agent": "echo", "input": { "text": "hi" }, "lease_request": { "cost.budget": ["USD:1.00"] }, "idempotency_key": "echo-1" }),
        gives: gives(vec![
            must("job_id", text("The job, `job_…`.")),
            must("agent", text("The agent, with its version.")),
            must("accepted_at", text("When the job was accepted.")),
            must("repeated", json!({ "type": "boolean" })),
            may("session_id", text("For cancel_job.")),
        ]),
        hints: Hints { idempotent: true, ..Hints::adds() },
        names: &[
            ("max_runtime_sec", "max_runtime_s"),
            ("lease_constraints", "constraints"),
            ("queue_timeout_sec", "queue_timeout_s"),
        ],
        run: |call| Box::pin(submit_job(call)),
    }
}

fn get_tool() -> Tool {
    Tool {
        name: "get_job",
        title: "Get a job",
        about: "Returns a job's status, remaining budget, worker and result.",
        takes: takes(vec![must("job_id", text("The job, `job_…`."))]),
        example: json!({ "job_id": "job_…" }),
        gives: gives(vec![
            must("job_id", text("The job.")),
            must("agent", text("The agent.")),
            must("status", word("Status of the job.", &STATUSES)),
            must("last_event_seq", json!({ "type": "integer" })),
            may("not_before", text("Earliest start or next attempt.")),
            may("claim", free("The worker that runs it.")),
            may("terminal", free("Outcome of the job: `result`, or `code` and `message`.")),
        ]),
        hints: Hints::reads(),
        names: &[],
        run: |call| Box::pin(get_job(call)),
    }
}

fn list_tool() -> Tool {
    Tool {
        name: "list_jobs",
        title: "List jobs",
        about: "Lists the jobs that you submitted, newest first, with the `session_id` that cancel_job takes. A job without it \
                was submitted over a socket.",
        takes: takes(vec![
            may("status", list(word("Status of the job.", &STATUSES), "Only these.")),
            may("agent", text("Its agent: `name`, or `name@version`.")),
            may("labels", free("Only with these.")),
            may("parent_job_id", text("Only its children.")),
            may("dead_letter", flag("Only unresolved failures.")),
            may("limit", whole("At most; defaults to 50.", 1, i64::from(PAGE))),
            may("cursor", text("`next_cursor` of the last answer.")),
            may("count", flag("Only numbers by status.")),
        ]),
        example: json!({ "status": ["pending", "running"] }),
        gives: gives(vec![
            must(
                "jobs",
                list(
                    gives(vec![
                        must("job_id", text("The job.")),
                        must("status", text("Status of the job.")),
                        may("session_id", text("For cancel_job.")),
                    ]),
                    "The jobs.",
                ),
            ),
            must("next_cursor", nullable(text("Cursor of the next page; null on the last page."))),
        ]),
        hints: Hints::reads(),
        names: &[],
        run: |call| Box::pin(list_jobs(call)),
    }
}

fn cancel_tool() -> Tool {
    Tool {
        name: "cancel_job",
        title: "Cancel a job",
        about: "Cancels a job that you submitted; it has a grace period to end.",
        takes: takes(vec![
            must("job_id", text("The job, `job_…`.")),
            may("session_id", text("From submit_job or list_jobs.")),
            may("reason", text("The reason.")),
            may("grace_s", whole("Seconds to stop.", 0, 3_600)),
        ]),
        example: json!({ "job_id": "job_…", "session_id": "sess_…", "reason": "no longer needed" }),
        gives: gives(vec![
            must("job_id", text("The job.")),
            must("status", text("Status of the job: `running` until its worker has stopped.")),
        ]),
        hints: Hints::ends(),
        names: &[("grace_sec", "grace_s")],
        run: |call| Box::pin(cancel_job(call)),
    }
}

fn lease_constraints() -> Value {
    let mut schema = takes(vec![may("expires_at", text("When the lease ends: RFC 3339, UTC with `Z`."))]);
    schema["description"] = json!("Constraints of the lease.");
    schema
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubmitArgs {
    agent: String,
    #[serde(default)]
    input: Option<Box<RawValue>>,
    lease_request: Option<BTreeMap<String, Vec<String>>>,
    constraints: Option<ConstraintsArgs>,
    max_runtime_s: Option<i64>,
    intent_id: Option<String>,
    priority: Option<i64>,
    start_at: Option<String>,
    queue_timeout_s: Option<i64>,
    retry: Option<RetryPolicy>,
    labels: Option<BTreeMap<String, String>>,
    concurrency_key: Option<String>,
    max_running: Option<i64>,
    idempotency_key: Option<String>,
}

/// Closed, while the type of the wire format is open as ARCP requires: a misspelt member would leave the
/// lease without an end.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstraintsArgs {
    expires_at: Option<String>,
}

/// Returns a concurrency key with its limit.
fn concurrency(key: Option<String>, max_running: Option<i64>) -> Result<Option<Concurrency>, Refusal> {
    match (key, max_running) {
        (Some(key), max_running) => {
            Ok(Some(Concurrency { key, max_running, max_starts: None, per_sec: None }))
        }
        (None, None) => Ok(None),
        (None, Some(_)) => {
            let message = "`max_running` is the limit of a `concurrency_key`: give the key too.";
            Err(Refusal::field(Code::InvalidRequest, "concurrency_key", "required", message))
        }
    }
}

async fn submit_job(call: Call) -> ToolResult {
    let said: SubmitArgs = call.read()?;
    let ask = Submit {
        agent: said.agent,
        input: said.input,
        lease_request: said.lease_request,
        lease_constraints: said.constraints.map(|said| Constraints { expires_at: said.expires_at }),
        idempotency_key: said.idempotency_key,
        max_runtime_sec: said.max_runtime_s,
        intent_id: said.intent_id,
        priority: said.priority,
        retry: said.retry,
        start_at: said.start_at,
        queue_timeout_sec: said.queue_timeout_s,
        labels: said.labels,
        concurrency: concurrency(said.concurrency_key, said.max_running)?,
        ..Submit::default()
    };
    let submitted = call.api.arcp.job_writer.submit(&call.caller, ask, Origin::Rest).await?;
    let job = &submitted.job;
    // A job accepted over a socket can be cancelled only there.
    let session = (!job.counted).then_some(job.session_id);
    let body = json!({
        "job_id": job.id, "agent": job.agent, "accepted_at": rfc3339(job.created_at), "session_id": session,
        "repeated": submitted.repeated, "lease": job.lease, "trace_id": job.trace_id,
        "intent_id": job.intent_id.map(|id| id.to_string()), "not_before": job.not_before.map(rfc3339),
    });
    let before = if submitted.repeated { "was accepted before" } else { "is accepted" };
    Answer::new(format!("{} {before} by {}.", job.id, job.agent), &without_nulls(body))
}

/// Removes members that are null.
fn without_nulls(mut body: Value) -> Value {
    if let Some(members) = body.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    body
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetArgs {
    job_id: String,
}

async fn get_job(call: Call) -> ToolResult {
    let said: GetArgs = call.read()?;
    let found = jobs::describe(&call.ctx().arcp, &call.caller, job_id(&said.job_id)?).await?;
    Answer::new(told(&found.job), &JobBody::load(&call.ctx().moments, &call.caller, &found).await?)
}

/// Describes the status of a job in one sentence.
pub(super) fn told(job: &Job) -> String {
    let over = if job.status.is_terminal() { "over: " } else { "" };
    format!("{} of {} is {over}{}.", job.id, job.agent, job.status.as_str())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArgs {
    #[serde(default)]
    status: Vec<JobStatus>,
    agent: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    parent_job_id: Option<String>,
    dead_letter: Option<bool>,
    limit: Option<u32>,
    cursor: Option<String>,
    #[serde(default)]
    count: bool,
}

async fn list_jobs(call: Call) -> ToolResult {
    let said: ListArgs = call.read()?;
    let agent = said.agent.map(|text| {
        let message = format!("`{text}` is no agent: use `name` or `name@version`.");
        AgentRef::parse(&text)
            .ok_or_else(|| Refusal::field(Code::InvalidRequest, "agent", "pattern", message))
    });
    let search = JobSearch {
        statuses: said.status,
        agent: agent.transpose()?,
        principal: Some(call.caller.agent.clone()),
        labels: said.labels.into_iter().collect(),
        parent: said.parent_job_id.as_deref().map(job_id).transpose()?,
        dead_letter: said.dead_letter.filter(|wanted| *wanted),
        limit: within("limit", said.limit, STEP, 1, PAGE)?,
        cursor: said.cursor,
        ..JobSearch::default()
    };
    if said.count {
        let counts = jobs::count(&call.ctx().arcp, &call.caller, &search).await?;
        let numbers: BTreeMap<&str, i64> =
            counts.by_status.iter().map(|(status, number)| (status.as_str(), *number)).collect();
        let summary = format!("{} job(s).", numbers.values().sum::<i64>());
        let body = json!({
            "jobs": [], "next_cursor": null, "counts": numbers, "complete": counts.is_complete,
        });
        return Answer::new(summary, &body);
    }
    let (found, next) = jobs::search(&call.ctx().arcp, &call.caller, &search).await?;
    let bodies = ListedBody::load(&call.ctx().arcp, &call.caller, &found).await?;
    Answer::new(format!("{} job(s).", bodies.len()), &json!({ "jobs": bodies, "next_cursor": next }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelArgs {
    job_id: String,
    session_id: Option<String>,
    reason: Option<String>,
    grace_s: Option<i64>,
}

async fn cancel_job(call: Call) -> ToolResult {
    let said: CancelArgs = call.read()?;
    let id = job_id(&said.job_id)?;
    let by = match said.session_id.as_deref().map(str::parse::<SessionId>) {
        Some(Ok(session)) => Canceller::Session(session),
        None if call.caller.has(Scope::Admin) => Canceller::Operator,
        None | Some(Err(_)) => Canceller::nobody(),
    };
    let job = jobs::cancel(&call.ctx().arcp, &call.caller, id, by, said.reason, said.grace_s).await?;
    let summary = format!("{id} is to stop; it is {}.", job.status.as_str());
    Answer::new(summary, &json!({ "job_id": id, "status": job.status }))
}
