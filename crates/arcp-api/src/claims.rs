//! Endpoints for claims (ARCP-W-11.2): workers claim and release jobs. `authority.rs` has the operations on a
//! claimed job, `reports.rs` the reports and `workers.rs` the workers.

use std::time::Duration;

use actix_web::{post, web};
use entente_arcp::jobs;
use entente_arcp::jobs::{ClaimAsk, ClaimKey, Claimed};
use entente_domain::arcp::jobs::JobStatus;
use entente_domain::arcp::jobs::ask::Constraints;
use entente_domain::arcp::jobs::wire::{Credential, numbers};
use entente_domain::clock::rfc3339;
use entente_domain::ids::{IntentId, JobId, ResultId, WorkerId};
use entente_domain::limits::WAIT_SECONDS;
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, id};
use entente_http::caller::Asker;
use entente_http::error::{Problem, Reply};
use entente_http::ok;
use entente_http::presence::Presence;
use entente_http::routes::Routes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;
use crate::jobs::job_id;
use crate::signal_bodies::SignalBody;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(claim).service(release);
}

/// A worker's request for jobs.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = JobClaim, example = json!({ "worker_id": "wrk_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "max": 10, "wait_sec": 20 }))]
struct ClaimBody {
    /// The worker.
    worker_id: String,
    /// The agents to take jobs for; defaults to all of the worker's agents.
    agents: Option<Vec<String>>,
    /// Maximum number of jobs; defaults to 1.
    max: Option<i64>,
    /// Seconds to wait if no job is pending: up to 120, defaults to 0.
    wait_sec: Option<f64>,
    /// The claim's key: after a lost answer the same key returns the same jobs and tokens again, those that the worker still
    /// holds. Use a new one for each claim.
    idempotency_key: Option<String>,
}

/// A job claimed by a worker.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClaimedJob)]
pub struct ClaimedBody {
    /// The job.
    job_id: JobId,
    /// The agent to run the job as.
    agent: String,
    /// The job's input.
    #[schema(value_type = Value)]
    input: Option<Box<RawValue>>,
    /// The job's authority: the capabilities it may use.
    #[schema(value_type = Object)]
    lease: Box<RawValue>,
    /// When the lease expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_constraints: Option<Constraints>,
    /// The job's remaining budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    budget: Option<Map<String, Value>>,
    /// The credentials provisioned for the job.
    credentials: Vec<Credential>,
    /// The trace id, to be passed on (ARCP §11).
    trace_id: String,
    /// The agent that submitted the job.
    principal: String,
    /// The parent job, for a delegated job.
    parent_job_id: Option<JobId>,
    /// The delegation's name.
    delegate_id: Option<String>,
    /// The intent the job works for.
    intent_id: Option<IntentId>,
    /// Attempt number, starting at 1.
    attempt: u32,
    /// The progress that an earlier attempt stored last; continue from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    checkpoint: Option<Box<RawValue>>,
    /// When the job times out.
    deadline: Option<String>,
    /// The token that every report must carry.
    claim_token: String,
    /// When the claim expires, unless a heartbeat extends it.
    claim_expires_at: String,
    /// The id under which a result can be streamed.
    result_id: ResultId,
    /// Signals that no worker has acknowledged, in order; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signals: Vec<SignalBody>,
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
            checkpoint: job.checkpoint.map(raw).transpose()?,
            deadline: job.deadline.map(rfc3339),
            claim_token: job.claim_token,
            claim_expires_at: rfc3339(job.claim_expires_at),
            result_id: job.result_id,
            signals: SignalBody::all(job.signals)?,
        })
    }
}

/// The jobs claimed by a worker.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClaimedJobs)]
struct ClaimedList {
    /// The jobs; empty if none became available in time.
    jobs: Vec<ClaimedBody>,
}

/// Validates a wait time in seconds; defaults to 0.
///
/// # Errors
/// It is negative, not a number, or too long.
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
/// Takes pending jobs: those of the highest priority, the principals that submitted them in turns, the oldest of each
/// first. With `wait_sec`, responds as soon as there is one. A claim lasts until
/// `claim_expires_at`, which heartbeats extend. If the client disconnects before the response, no job is taken.
/// With an `idempotency_key` a claim can be repeated whose response was lost on the way. A write with `Entente-Claim: <job
/// id>; token=<claim_token>`, whatever it is about, takes effect only while the job is held by that claim.
#[utoipa::path(operation_id = "claim_jobs", tag = "workers", request_body = ClaimBody,
    responses((status = 200, description = "The jobs", body = ClaimedList)))]
#[post("/jobs/claim")]
async fn claim(api: web::Data<ApiState>, asker: Asker, presence: Presence, body: Body<ClaimBody>) -> Reply {
    let said = body.value;
    let ask = ClaimAsk {
        worker_id: id::<WorkerId>("worker", &said.worker_id)?,
        agents: said.agents,
        max: said.max.unwrap_or(1),
        wait: wait(said.wait_sec)?,
        key: said.idempotency_key.map(ClaimKey::check).transpose()?,
    };
    let _place =
        if ask.wait.is_zero() { None } else { Some(asker.caller.waits(api.limits.max_streams_per_key)?) };
    let claimed = jobs::claim(&api.ctx, &asker.caller, &ask, presence.over()).await?;
    if !claimed.is_empty() && presence.is_gone().await {
        jobs::return_unheard(&api.ctx, &ask, &claimed).await;
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
    /// The reason, for the server's log.
    reason: Option<String>,
}

/// A released job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobReleased)]
struct ReleasedBody {
    /// The job.
    job_id: JobId,
    /// The job's status: `pending`, or its final status if it was to stop.
    status: JobStatus,
}

/// Release a job
///
/// Another worker may claim it immediately.
#[utoipa::path(operation_id = "release_job", tag = "workers", request_body = TokenBody,
    responses((status = 200, description = "The job was released", body = ReleasedBody)))]
#[post("/jobs/{job_id}/release")]
async fn release(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<TokenBody>,
) -> Reply {
    let job_id = job_id(&path)?;
    let status = jobs::release(&api.ctx, &asker.caller, job_id, &body.value.claim_token).await?;
    if let Some(reason) = &body.value.reason {
        tracing::info!(job = %job_id, reason = reason.as_str(), "a job was given back");
    }
    ok(&ReleasedBody { job_id, status })
}
