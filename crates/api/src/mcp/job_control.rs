//! The tool for jobs after their submission: running one again, resolving a dead letter, sending signals, taking these or handing
//! the job back as its worker, its attempts, and the jobs that it delegated. It is one tool, because every tool costs
//! each model that reads the list of tools.

use std::time::Duration;

use entente_arcp::jobs;
use entente_arcp::jobs::RerunAsk;
use entente_arcp_api::attempts::JobAttempts;
use entente_arcp_api::jobs::job_id;
use entente_arcp_api::signal_bodies::SignalBody;
use entente_arcp_api::trees::TreeBody;
use entente_domain::arcp::jobs::reruns::Version;
use entente_domain::arcp::jobs::signals::SignalAsk;
use entente_domain::clock::rfc3339;
use entente_domain::refusal::{Code, Refusal};
use entente_http::error::Problem;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::shapes::{any, flag, gives, may, must, takes, text, whole, word};
use super::{Answer, Call, Hints, Tool, ToolResult, WAIT_SECONDS, claims, within};

/// The actions of the tool.
const ACTIONS: [&str; 7] = ["rerun", "resolve", "signal", "take_signals", "hand_back", "attempts", "tree"];

/// Jobs of a tree that are returned.
const TREE: u32 = 200;

/// Returns the tool of this file.
pub fn tools() -> [Tool; 1] {
    [Tool {
        name: "control_job",
        title: "Run a job again, or signal it",
        about: "rerun: runs an ended job again. resolve: closes a failed one. signal: sends input to an open one. take_signals: \
                returns or awaits signals to a job that you run, until you `ack` them. hand_back: returns it to its queue. \
                attempts: who tried it. tree: what it delegated.",
        takes: takes(vec![
            must("job_id", text("The job.")),
            must("action", word("What to do.", &ACTIONS)),
            may("default_version", flag("rerun.")),
            may("note", text("resolve.")),
            may("name", text("signal: such as `input`.")),
            may("payload", any("signal.")),
            may("claim_token", text("take_signals, hand_back.")),
            may("ack", whole("take_signals: last `seq` acted on.", 0, 1 << 53)),
            may("wait_s", whole("take_signals: seconds.", 0, i64::from(WAIT_SECONDS))),
            may("idempotency_key", text("rerun, signal.")),
        ]),
        example: json!({ "job_id": "job_…", "action": "rerun", "idempotency_key": "again-1" }),
        gives: gives(vec![must("job_id", text("The job; after rerun, the new one."))]),
        hints: Hints::adds(),
        names: &[],
        run: |call| Box::pin(control_job(call)),
    }]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ControlArgs {
    job_id: String,
    action: Action,
    #[serde(default)]
    default_version: bool,
    note: Option<String>,
    name: Option<String>,
    payload: Option<Box<RawValue>>,
    claim_token: Option<String>,
    ack: Option<i64>,
    wait_s: Option<u32>,
    idempotency_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Rerun,
    Resolve,
    Signal,
    TakeSignals,
    HandBack,
    Attempts,
    Tree,
}

async fn control_job(call: Call) -> ToolResult {
    let said: ControlArgs = call.read()?;
    match said.action {
        Action::Rerun => rerun(&call, said).await,
        Action::Resolve => resolve(&call, said).await,
        Action::Signal => signal(&call, said).await,
        Action::TakeSignals => take(&call, said).await,
        Action::HandBack => hand_back(&call, said).await,
        Action::Attempts => attempts(&call, said).await,
        Action::Tree => tree(&call, said).await,
    }
}

fn missing(member: &str, action: &str) -> Refusal {
    let message = format!("`{member}` is missing: the action `{action}` needs it.");
    Refusal::field(Code::InvalidRequest, member, "missing", message)
}

async fn rerun(call: &Call, said: ControlArgs) -> ToolResult {
    let source = job_id(&said.job_id)?;
    let version = if said.default_version { Version::Default } else { Version::Same };
    let ask = RerunAsk { version, key: said.idempotency_key };
    let submitted = jobs::rerun(&call.api.arcp.job_writer, &call.caller, source, &ask).await?;
    let job = &submitted.job;
    let mut body =
        json!({ "job_id": job.id, "rerun_of": source, "agent": job.agent, "repeated": submitted.repeated });
    if job.principal == call.caller.agent {
        body["session_id"] = json!(job.session_id);
    }
    Answer::new(format!("{} runs {source} again.", job.id), &body)
}

async fn resolve(call: &Call, said: ControlArgs) -> ToolResult {
    let id = job_id(&said.job_id)?;
    jobs::resolve(&call.ctx().arcp, &call.caller, id, said.note).await?;
    Answer::new(format!("{id} is resolved."), &json!({ "job_id": id }))
}

async fn signal(call: &Call, said: ControlArgs) -> ToolResult {
    let id = job_id(&said.job_id)?;
    let name = said.name.ok_or_else(|| missing("name", "signal"))?;
    let ask = SignalAsk { name, payload: said.payload, key: said.idempotency_key };
    let signal = jobs::send(&call.ctx().arcp, &call.caller, id, ask).await?;
    let body = json!({ "job_id": id, "seq": signal.seq });
    Answer::new(format!("{id} gets it as signal {}.", signal.seq), &body)
}

async fn hand_back(call: &Call, said: ControlArgs) -> ToolResult {
    let id = job_id(&said.job_id)?;
    let token = said.claim_token.ok_or_else(|| missing("claim_token", "hand_back"))?;
    let status = jobs::release(&call.ctx().arcp, &call.caller, id, &token).await?;
    let body = json!({ "job_id": id, "status": status });
    Answer::new(format!("{id} is handed back: {}.", status.as_str()), &body)
}

async fn attempts(call: &Call, said: ControlArgs) -> ToolResult {
    let id = job_id(&said.job_id)?;
    let found = JobAttempts::load(&call.ctx().arcp, &call.caller, id).await?;
    Answer::new(format!("{} attempt(s) at {id}.", found.count()), &found)
}

async fn tree(call: &Call, said: ControlArgs) -> ToolResult {
    let id = job_id(&said.job_id)?;
    let found = TreeBody::load(&call.ctx().arcp, &call.caller, id, TREE).await?;
    let summary = format!("{} job(s), {id} included.", found.count());
    let mut body = serde_json::to_value(found).map_err(|e| Problem::internal(&e.to_string()))?;
    body["job_id"] = json!(id);
    Answer::new(summary, &body)
}

async fn take(call: &Call, said: ControlArgs) -> ToolResult {
    let id = job_id(&said.job_id)?;
    let token = said.claim_token.ok_or_else(|| missing("claim_token", "take_signals"))?;
    let wait = within("wait_s", said.wait_s, 0, 0, WAIT_SECONDS)?;
    claims::extend(call, id, &token).await?;
    let ctx = &call.ctx().arcp;
    if let Some(seq) = said.ack {
        jobs::acknowledge(ctx, &call.caller, id, &token, seq).await?;
    }
    let patience = Duration::from_secs(wait.into());
    let _place = if wait == 0 { None } else { Some(call.waits()?) };
    let taken = jobs::wait(ctx, &call.caller, id, &token, None, patience, call.presence.over()).await?;
    let summary = match taken.signals.len() {
        _ if taken.cancel_due_at.is_some() => "The job is to stop: end it with finish_job.".to_owned(),
        0 => "No signal.".to_owned(),
        count => format!("{count} signal(s)."),
    };
    let body = json!({
        "job_id": id, "signals": SignalBody::all(taken.signals)?, "acknowledged": taken.acked,
        "cancel_requested": taken.cancel_due_at.is_some(), "cancel_due_at": taken.cancel_due_at.map(rfc3339),
    });
    Answer::new(summary, &body)
}
