//! Tools for agents that run a job (ARCP §8, §9): reporting, ending it, and checking its permissions. A job
//! and its `claim_token` come from `claim_job` (`claims.rs`), or from the worker that claimed it (`entente worker`, or the
//! REST of workers).

use entente_arcp::jobs;
use entente_arcp::jobs::{EventAsk, OperationAsk, Reported};
use entente_arcp_api::jobs::job_id;
use entente_arcp_api::reports::ReportedBody;
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::ends::End;
use entente_domain::arcp::jobs::wire::numbers;
use entente_domain::clock::rfc3339;
use entente_domain::refusal::Code;
use entente_http::error::Problem;
use entente_kernel::AppError;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::shapes::{any, flag, free, gives, may, must, nullable, takes, text, word};
use super::{Answer, Call, Hints, Tool, ToolResult, claims};

/// Kinds of events that these tools can report.
const KINDS: [&str; 6] = ["progress", "log", "metric", "status", "artifact_ref", "result_chunk"];

/// Returns the tools of this file.
pub fn tools() -> [Tool; 3] {
    [report_tool(), finish_tool(), check_tool()]
}

fn token() -> Value {
    text("Token of the claim, from claim_job.")
}

fn report_tool() -> Tool {
    Tool {
        name: "report_job",
        title: "Report on a job",
        about: "Reports on your job. On `cancel_requested`, stop: finish_job.",
        takes: takes(vec![
            must("job_id", text("The job, `job_…`.")),
            must("claim_token", token()),
            must("kind", word("Kind of the report.", &KINDS)),
            must(
                "body",
                free(
                    "Content, by kind: progress {current, total, message}; log {level, message}; metric {name, value, unit} (`cost.<currency>` is charged); status {phase, message}.",
                ),
            ),
            may("event_key", text("Only the first report of a key is stored.")),
            may("checkpoint", any("Progress for the next attempt.")),
        ]),
        example: json!({ "job_id": "job_…", "claim_token": "ct_…", "kind": "progress", "body": { "current": 1, "total": 3 } }),
        gives: reported(),
        hints: Hints::adds(),
        names: &[],
        run: |call| Box::pin(report_job(call)),
    }
}

fn finish_tool() -> Tool {
    Tool {
        name: "finish_job",
        title: "End a job",
        about: "Ends a job that you run, with `result` or `error`.",
        takes: takes(vec![
            must("job_id", text("The job, `job_…`.")),
            must("claim_token", token()),
            may("result", any("The result: any JSON of up to 700 KiB.")),
            may(
                "error",
                takes(vec![
                    must("message", text("Description of the error.")),
                    may("code", text("A code of ARCP; `INTERNAL_ERROR` by default.")),
                    may("retryable", flag("Whether the same job may be tried again.")),
                ]),
            ),
            may("summary", text("The result in a sentence.")),
        ]),
        example: json!({ "job_id": "job_…", "claim_token": "ct_…", "result": { "ok": true } }),
        gives: reported(),
        hints: Hints::changes(),
        names: &[],
        run: |call| Box::pin(finish_job(call)),
    }
}

fn check_tool() -> Tool {
    Tool {
        name: "check_lease",
        title: "Check a job's permissions",
        about: "Checks whether your job may perform an operation, before it does. A denial is an answer, no error.",
        takes: takes(vec![
            must("job_id", text("The job, `job_…`.")),
            must("claim_token", token()),
            must("capability", text("Such as `tool.call`, `net.fetch`, `cost.budget`.")),
            must("target", text("A path, a URL or a name; for `cost.budget`, the currency.")),
        ]),
        example: json!({ "job_id": "job_…", "claim_token": "ct_…", "capability": "tool.call", "target": "search.web" }),
        gives: gives(vec![
            must("allowed", json!({ "type": "boolean" })),
            must("reason", nullable(text("Reason for a denial."))),
            must("code", nullable(text("Error code of a denial."))),
            must("budget", nullable(free("Remaining budget, by currency."))),
        ]),
        // It extends the claim, so the tool does not only read.
        hints: Hints::marks(),
        names: &[],
        run: |call| Box::pin(check_lease(call)),
    }
}

fn reported() -> Value {
    gives(vec![
        must("last_event_seq", json!({ "type": "integer" })),
        must("budget", free("Remaining budget, by currency.")),
        must("cancel_requested", flag("Whether the job must stop.")),
        may("cancel_due_at", text("When the server ends it then.")),
        must("lease_expired", flag("Whether the lease has expired, which ends the job.")),
        may("next_attempt_at", text("When it is tried again.")),
    ])
}

fn told(done: &str, reported: Reported) -> ToolResult {
    let summary = if reported.cancel_due_at.is_some() {
        format!("{done} The job is to stop: end it with finish_job.")
    } else {
        done.to_owned()
    };
    Answer::new(summary, &ReportedBody::from(reported))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportArgs {
    job_id: String,
    claim_token: String,
    kind: ReportKind,
    body: Box<RawValue>,
    event_key: Option<String>,
    checkpoint: Option<Box<RawValue>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReportKind {
    Progress,
    Log,
    Metric,
    Status,
    ArtifactRef,
    ResultChunk,
}

async fn report_job(call: Call) -> ToolResult {
    let said: ReportArgs = call.read()?;
    let kind = KINDS[said.kind as usize].to_owned();
    let event = EventAsk { kind, ts: None, body: said.body, event_key: said.event_key };
    let id = job_id(&said.job_id)?;
    claims::extend(&call, id, &said.claim_token).await?;
    let done = call
        .api
        .arcp
        .job_writer
        .post(&call.ctx().arcp, &call.caller, id, &said.claim_token, vec![event], said.checkpoint.as_deref())
        .await?;
    told(&format!("Reported of {id}."), done)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FinishArgs {
    job_id: String,
    claim_token: String,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    error: Option<Failure>,
    summary: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    message: String,
    code: Option<String>,
    retryable: Option<bool>,
}

async fn finish_job(call: Call) -> ToolResult {
    let said: FinishArgs = call.read()?;
    let id = job_id(&said.job_id)?;
    let end = match (said.result, said.error) {
        (Some(_), Some(_)) => return Err(both()),
        (None, Some(failure)) => End::Error {
            code: failure.code.unwrap_or_else(|| "INTERNAL_ERROR".to_owned()),
            message: failure.message,
            retryable: failure.retryable,
            details: None,
        },
        (result, None) => End::Result { result, result_id: None, result_size: None, summary: said.summary },
    };
    let done =
        call.api.arcp.job_writer.end(&call.ctx().arcp, &call.caller, id, &said.claim_token, end).await?;
    let done_as = match done.next_attempt_at {
        Some(at) => format!("Your attempt at {id} is over; another may begin at {}.", rfc3339(at)),
        None => format!("{id} is over."),
    };
    told(&done_as, done)
}

fn both() -> Problem {
    let message = "Send `result` or `error`, not both: a job has one end.";
    entente_domain::refusal::Refusal::field(Code::InvalidRequest, "error", "value", message).into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckArgs {
    job_id: String,
    claim_token: String,
    capability: String,
    target: String,
}

async fn check_lease(call: Call) -> ToolResult {
    let said: CheckArgs = call.read()?;
    let what = format!("{} on {}", said.capability, said.target);
    let ask = OperationAsk { capability: said.capability, target: said.target, call_id: None, reserve: None };
    let id = job_id(&said.job_id)?;
    claims::extend(&call, id, &said.claim_token).await?;
    match jobs::authorize(&call.ctx().arcp, &call.caller, id, &said.claim_token, ask).await {
        Ok(allowed) => {
            let budget: Map<String, Value> = numbers(&allowed.budget);
            let body = json!({ "allowed": true, "reason": null, "code": null, "budget": budget });
            Answer::new(format!("Allowed: {what}."), &body)
        }
        Err(AppError::Refused(refusal)) if judged(refusal.code) => {
            let (reason, code) = (&refusal.message, Fault::from(refusal.code).wire());
            let body = json!({ "allowed": false, "reason": reason, "code": code, "budget": null });
            Answer::new(format!("Not allowed: {what}. {reason}"), &body)
        }
        Err(failure) => Err(failure.into()),
    }
}

/// Returns whether a refusal answers the question, rather than being an error.
fn judged(code: Code) -> bool {
    matches!(code, Code::PermissionDenied | Code::LeaseExpired | Code::BudgetExhausted | Code::Cancelled)
}
