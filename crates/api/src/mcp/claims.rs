//! The tool that claims jobs (ARCP-W-11.2): it registers a worker for the caller and hands out the `claim_token` that the
//! tools of `work.rs` need. A model sends no heartbeats, so these tools extend the claim of the job that they name.

use std::time::Duration;

use entente_arcp::inventory::VersionAsk;
use entente_arcp::jobs::{BeatAsk, ClaimAsk, ClaimKey, Claimed, Held};
use entente_arcp::workers::{Worker, WorkerAsk};
use entente_arcp::{inventory, jobs, workers};
use entente_domain::arcp::jobs::wire::numbers;
use entente_domain::arcp::versions::AgentRef;
use entente_domain::clock::rfc3339;
use entente_domain::ids::{JobId, WorkerId};
use entente_domain::limits::PAGE;
use entente_domain::refusal::{Code, Refusal};
use entente_http::error::Problem;
use entente_http::presence::Presence;
use entente_kernel::AppError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::shapes::{any, flag, free, gives, list, may, must, nullable, retry_key, takes, text, whole};
use super::{Answer, Call, Hints, Tool, ToolResult, WAIT_SECONDS, within};

/// Name of the workers that this tool registers.
const WORKER: &str = "mcp";

/// Version of an agent that is registered without one.
const FIRST_VERSION: &str = "1";

/// Maximum number of jobs that such a worker holds: as many as one agent works on by turns.
const SLOTS: i64 = 100;

/// Returns the tools of this file.
pub fn tools() -> [Tool; 1] {
    let job = gives(vec![
        must("job_id", text("The job.")),
        must("claim_token", text("Token of the claim.")),
        must("agent", text("The agent to run it as.")),
        must("input", any("The input.")),
        must("lease", free("Its permissions.")),
        must("claim_expires_at", text("When the claim ends.")),
        may("checkpoint", any("Progress of an earlier attempt.")),
    ]);
    [Tool {
        name: "claim_job",
        title: "Claim a job",
        about: "Takes the next pending job of agents that you run. Report with report_job and end it with finish_job, with \
                the `claim_token`. The claim ends at `claim_expires_at` unless report_job or check_lease extend it before.",
        takes: takes(vec![
            must("agents", list(text("`name`, or `name@version`."), "Agents whose jobs you run, 1 to 20.")),
            may("register", flag("Register unknown agents as yours; defaults to false.")),
            may("idempotency_key", retry_key("Returns the same job again. ")),
            may("wait_s", whole("Seconds to wait for a job; defaults to 0.", 0, i64::from(WAIT_SECONDS))),
        ]),
        example: json!({ "agents": ["echo"], "register": true, "wait_s": 20 }),
        gives: gives(vec![must("job", nullable(job))]),
        hints: Hints::adds(),
        names: &[("wait_sec", "wait_s"), ("name", "agents"), ("version", "agents")],
        run: |call| Box::pin(claim_job(call)),
    }]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    agents: Vec<String>,
    #[serde(default)]
    register: bool,
    idempotency_key: Option<String>,
    wait_s: Option<u32>,
}

/// Maximum number of agents of one call.
const AGENTS: usize = 20;

async fn claim_job(call: Call) -> ToolResult {
    let said: Args = call.read()?;
    let patience = within("wait_s", said.wait_s, 0, 0, WAIT_SECONDS)?;
    if said.agents.is_empty() || said.agents.len() > AGENTS {
        let message = format!("`agents` must name 1 to {AGENTS} agents.");
        return Err(Refusal::field(Code::InvalidRequest, "agents", "range", message).into());
    }
    let _place = call.waits_for(patience)?;
    let (ctx, caller) = (&call.ctx().arcp, &call.caller);
    let agents = resolved(&call, &said.agents, said.register).await?;
    let ask = ClaimAsk {
        worker_id: worker(&call, &agents).await?,
        agents: Some(agents),
        max: 1,
        wait: Duration::from_secs(u64::from(patience)),
        key: said.idempotency_key.map(ClaimKey::check).transpose()?,
    };
    let claimed = jobs::claim(ctx, caller, &ask, call.presence.over()).await?;
    if !claimed.is_empty() && call.presence.is_gone().await {
        jobs::return_unheard(ctx, &ask, &claimed).await;
        return Err(Presence::refusal());
    }
    let Some(job) = claimed.into_iter().next() else {
        return Answer::new("There is no job for these agents now.", &json!({ "job": null }));
    };
    let summary = format!(
        "{} is yours, as {}. Report on it before {}.",
        job.job_id,
        job.agent,
        rfc3339(job.claim_expires_at)
    );
    Answer::new(summary, &json!({ "job": shown(&job)? }))
}

/// Returns a claimed job without its provisioned credentials, because a tool's result enters a model's context.
fn shown(job: &Claimed) -> Result<Value, Problem> {
    let read = |text: &str| -> Result<Value, AppError> { Ok(serde_json::from_str(text)?) };
    let mut body = json!({
        "job_id": job.job_id, "claim_token": job.claim_token, "claim_expires_at": rfc3339(job.claim_expires_at),
        "agent": job.agent, "input": job.input.as_deref().map(read).transpose()?, "lease": read(&job.lease)?,
        "lease_expires_at": job.expires_at.map(rfc3339), "budget": job.budget.as_ref().map(numbers),
        "principal": job.principal, "intent_id": job.intent_id, "parent_job_id": job.parent_id,
        "attempt": job.attempt, "deadline": job.deadline.map(rfc3339), "trace_id": job.trace_id,
    });
    if let Some(checkpoint) = &job.checkpoint {
        body["checkpoint"] = read(checkpoint)?;
    }
    Ok(body)
}

/// Returns all versions of the named agents, as `name@version`; registers unknown ones on request.
async fn resolved(call: &Call, said: &[String], register: bool) -> Result<Vec<String>, Problem> {
    let (ctx, caller) = (&call.ctx().arcp, &call.caller);
    let mut known = inventory::list(ctx, caller).await?;
    let mut agents = Vec::new();
    for text in said {
        let agent = AgentRef::parse(text).ok_or_else(|| {
            let message = format!("`{text}` is no agent: use a name such as `echo`, or `echo@1`.");
            Refusal::field(Code::InvalidRequest, "agents", "pattern", message)
        })?;
        let named = known.get(&agent.name).map(|found| &found.versions.registered);
        let missing = match (&agent.version, named) {
            (Some(version), Some(registered)) => !registered.contains(version),
            (None, Some(_)) => false,
            (_, None) => true,
        };
        if missing && register {
            let version = agent.version.as_deref().unwrap_or(FIRST_VERSION);
            let made = inventory::register(ctx, caller, &agent.name, version, VersionAsk::default()).await?;
            known.insert(agent.name.clone(), made);
        } else if missing {
            let message = format!(
                "No agent `{text}` runs jobs here. Set `register` to true if you are to run its jobs; list_agents shows the \
                 others as `job_agents`."
            );
            return Err(Refusal::field(Code::AgentNotAvailable, "agents", "unknown", message).into());
        }
        let versions =
            known.get(&agent.name).map(|found| found.versions.registered.as_slice()).unwrap_or_default();
        let covered =
            versions.iter().filter(|version| agent.version.as_ref().is_none_or(|only| only == *version));
        agents.extend(covered.map(|version| format!("{}@{version}", agent.name)));
    }
    agents.sort_unstable();
    agents.dedup();
    Ok(agents)
}

/// Returns the caller's worker for these agents, and registers it if there is none.
async fn worker(call: &Call, agents: &[String]) -> Result<WorkerId, Problem> {
    // One that is told to claim nothing is found too: a new one would evade its directive.
    let covers = |worker: &Worker| agents.iter().all(|agent| worker.agents.contains(agent));
    if let Some(found) = own(call).await?.into_iter().find(covers) {
        return Ok(found.id);
    }
    let labels = json!({ "by": "claim_job" }).to_string();
    let ask = WorkerAsk { name: WORKER.to_owned(), agents: agents.to_vec(), slots: SLOTS, labels };
    Ok(workers::register(&call.ctx().arcp, &call.caller, ask).await?.id)
}

/// Returns the workers that this tool registered for the caller, last seen first.
async fn own(call: &Call) -> Result<Vec<Worker>, Problem> {
    let mut found = workers::list(&call.ctx().arcp, &call.caller, PAGE).await?;
    found.retain(|worker| worker.principal == call.caller.agent && worker.name == WORKER);
    Ok(found)
}

/// Extends a claim, as a heartbeat does. The claims of other workers, which send their own, are left alone; so is one that
/// is lost, which the operation on its job reports.
///
/// # Errors
/// The database fails.
pub(super) async fn extend(call: &Call, job_id: JobId, token: &str) -> Result<(), Problem> {
    let Some(worker) = own(call).await?.into_iter().next() else { return Ok(()) };
    let held = vec![Held { job_id, token: token.to_owned(), stopping: true, signals_after: None }];
    let ask =
        BeatAsk { worker: worker.id, state: None, held, obeyed: worker.directive, wait: Duration::ZERO };
    match jobs::beat(&call.ctx().arcp, &call.caller, &ask, call.presence.over()).await {
        Ok(_) | Err(AppError::Refused(_)) => Ok(()),
        Err(failure) => Err(failure.into()),
    }
}
