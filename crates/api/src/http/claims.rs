//! Routes of workers' claims (contract 11.2): taking jobs, and giving them back. What they may do with them is
//! `authority.rs`, what they report `reports.rs`, who they are `workers.rs`.

use std::time::Duration;

use actix_web::{post, web};
use entente_domain::clock::rfc3339;
use entente_domain::ids::{IntentId, JobId, ResultId, WorkerId};
use entente_domain::jobs::JobStatus;
use entente_domain::jobs::ask::Constraints;
use entente_domain::jobs::wire::{Credential, numbers};
use entente_domain::limits::WAIT_SECONDS;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::jobs::{self, ClaimAsk, Claimed};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::body::{Body, id};
use super::caller::Asker;
use super::error::{Problem, Reply};
use super::jobs::job_id;
use super::presence::Presence;
use super::{Doors, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(claim).service(release);
}

/// What a worker asks for.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = JobClaim, example = json!({ "worker_id": "wrk_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "max": 10, "wait_sec": 20 }))]
struct ClaimBody {
    /// The worker.
    worker_id: String,
    /// Of which of its agents; all of them when nothing is said.
    agents: Option<Vec<String>>,
    /// How many jobs at the most; 1 when nothing is said.
    max: Option<i64>,
    /// How long to wait when there is none: up to 120 seconds, 0 when nothing is said.
    wait_sec: Option<f64>,
}

/// A job that a worker has taken.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClaimedJob)]
struct ClaimedBody {
    /// The job.
    job_id: JobId,
    /// As which agent it is to be run.
    agent: String,
    /// What it is to work on.
    #[schema(value_type = Value)]
    input: Option<Box<RawValue>>,
    /// What it may touch.
    #[schema(value_type = Object)]
    lease: Box<RawValue>,
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_constraints: Option<Constraints>,
    /// What it has left.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    budget: Option<Map<String, Value>>,
    /// What was provisioned for it.
    credentials: Vec<Credential>,
    /// The trace, to be passed on (ARCP §11).
    trace_id: String,
    /// Who submitted it.
    principal: String,
    /// Its parent.
    parent_job_id: Option<JobId>,
    /// The delegation's name.
    delegate_id: Option<String>,
    /// The intent that it works for.
    intent_id: Option<IntentId>,
    /// The how-manieth attempt this is.
    attempt: u32,
    /// When it is timed out.
    deadline: Option<String>,
    /// What every report must carry.
    claim_token: String,
    /// Until when it is the worker's, unless a heartbeat names it.
    claim_expires_at: String,
    /// Under which name a result can be streamed.
    result_id: ResultId,
}

impl TryFrom<Claimed> for ClaimedBody {
    type Error = Problem;

    fn try_from(job: Claimed) -> Result<Self, Problem> {
        let raw = |text: String| {
            RawValue::from_string(text).map_err(|e| Problem::internal(&format!("a stored JSON is none: {e}")))
        };
        Ok(Self {
            job_id: job.job_id,
            agent: job.agent,
            input: job.input.map(raw).transpose()?,
            lease: raw(job.lease)?,
            lease_constraints: Constraints::of(job.expires_at),
            budget: job.budget.as_ref().map(numbers),
            credentials: job.credentials,
            trace_id: job.trace_id,
            principal: job.principal,
            parent_job_id: job.parent_id,
            delegate_id: job.delegate_id,
            intent_id: job.intent_id,
            attempt: job.attempt,
            deadline: job.deadline.map(rfc3339),
            claim_token: job.claim_token,
            claim_expires_at: rfc3339(job.claim_expires_at),
            result_id: job.result_id,
        })
    }
}

/// The jobs that a worker has taken.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClaimedJobs)]
struct ClaimedList {
    /// The jobs; none when there were none in time.
    jobs: Vec<ClaimedBody>,
}

/// How long to wait.
///
/// # Errors
/// It is no time, or too long.
pub fn wait(said: Option<f64>) -> Result<Duration, Refusal> {
    let wait = said.unwrap_or(0.0);
    let lawful = (0.0..=f64::from(WAIT_SECONDS)).contains(&wait);
    let message = format!("`wait_sec` must be a number of seconds from 0 to {WAIT_SECONDS}.");
    if lawful {
        Ok(Duration::from_secs_f64(wait))
    } else {
        Err(Refusal::field(Code::InvalidRequest, "wait_sec", "range", message))
    }
}

/// Claim jobs
///
/// The oldest that wait; with `wait_sec` the answer comes as soon as there is one. Each is the worker's until its
/// `claim_expires_at`, which heartbeats move on. Whoever hangs up before the answer takes nothing.
#[utoipa::path(operation_id = "claim_jobs", tag = "workers", request_body = ClaimBody,
    responses((status = 200, description = "The jobs", body = ClaimedList)))]
#[post("/jobs/claim")]
async fn claim(doors: web::Data<Doors>, asker: Asker, presence: Presence, body: Body<ClaimBody>) -> Reply {
    let said = body.value;
    let ask = ClaimAsk {
        worker_id: id::<WorkerId>("worker", &said.worker_id)?,
        agents: said.agents,
        max: said.max.unwrap_or(1),
        wait: wait(said.wait_sec)?,
    };
    let _place =
        if ask.wait.is_zero() { None } else { Some(asker.caller.waits(doors.limits.max_streams_per_key)?) };
    let claimed = jobs::claim(&doors.ctx, &asker.caller, ask, presence.over()).await?;
    if !claimed.is_empty() && presence.is_gone().await {
        jobs::return_unheard(&doors.ctx, &asker.caller, &claimed).await;
        return Err(Presence::refusal());
    }
    ok(&ClaimedList { jobs: claimed.into_iter().map(ClaimedBody::try_from).collect::<Result<_, _>>()? })
}

/// A claim's token.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ClaimToken, example = json!({ "claim_token": "ct_…" }))]
pub struct TokenBody {
    /// The claim's token.
    pub claim_token: String,
    /// Why, for the log.
    reason: Option<String>,
}

/// A job that was given back.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobReleased)]
struct ReleasedBody {
    /// The job.
    job_id: JobId,
    /// Where it stands: `pending`, or how it ended when it was to stop.
    status: JobStatus,
}

/// Give a job back
///
/// Another worker may take it, at once.
#[utoipa::path(operation_id = "release_job", tag = "workers", request_body = TokenBody,
    params(("job_id" = String, Path, description = "The job")),
    responses((status = 200, description = "It was given back", body = ReleasedBody)))]
#[post("/jobs/{job_id}/release")]
async fn release(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<TokenBody>,
) -> Reply {
    let job_id = job_id(&path)?;
    let status = jobs::release(&doors.ctx, &asker.caller, job_id, &body.value.claim_token).await?;
    if let Some(reason) = &body.value.reason {
        tracing::info!(job = %job_id, reason = reason.as_str(), "a job was given back");
    }
    ok(&ReleasedBody { job_id, status })
}
