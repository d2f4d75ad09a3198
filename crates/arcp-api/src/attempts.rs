//! Endpoint for the attempts at a job: their workers and outcomes.

use actix_web::{get, web};
use entente_arcp::jobs::{AttemptOutcome, Checkpoint, Tried};
use entente_arcp::{Ctx, jobs};
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::retries::RetryPolicy;
use entente_domain::clock::rfc3339;
use entente_domain::ids::{JobId, WorkerId};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_kernel::{Caller, Outcome};
use serde::Serialize;
use utoipa::ToSchema;

use crate::ApiState;
use crate::jobs::job_id;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(list);
}

/// An attempt at a job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobAttempt)]
struct AttemptBody {
    /// Number of the attempt, starting at 1.
    attempt: u32,
    /// The worker that claimed the job.
    worker_id: WorkerId,
    /// Name of the worker; absent if it has left.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    /// When the worker claimed the job.
    claimed_at: String,
    /// When the attempt ended; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// How it went.
    outcome: AttemptOutcome,
    /// Error code of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Fault>,
    /// The failure in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// When the next attempt could begin; absent if none was to follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<String>,
}

impl From<Tried> for AttemptBody {
    fn from(tried: Tried) -> Self {
        let (code, message) = tried.error.unzip();
        Self {
            attempt: tried.attempt,
            worker_id: tried.worker_id,
            worker: tried.worker,
            claimed_at: rfc3339(tried.claimed_at),
            ended_at: tried.ended_at.map(rfc3339),
            outcome: tried.outcome,
            code,
            message,
            next_attempt_at: tried.next_at.map(rfc3339),
        }
    }
}

/// The checkpoint of a job, without its content, which only its workers get.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobCheckpoint)]
struct CheckpointBody {
    /// The attempt that stored it.
    attempt: u32,
    /// Its size in bytes.
    bytes: u32,
    /// When it was stored.
    saved_at: String,
}

impl From<Checkpoint> for CheckpointBody {
    fn from(checkpoint: Checkpoint) -> Self {
        let Checkpoint { attempt, bytes, saved_at } = checkpoint;
        Self { attempt, bytes, saved_at: rfc3339(saved_at) }
    }
}

/// The attempts at a job.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobAttempts {
    /// The job.
    job_id: JobId,
    /// The attempts, oldest first; one whose worker handed the job back is none.
    attempts: Vec<AttemptBody>,
    /// When the job may be claimed again; absent if it may be at once, is claimed, or has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<String>,
    /// Number of failures that another attempt followed.
    failures: u32,
    /// Retries after failures; absent if a failure ends the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryPolicy>,
    /// The checkpoint that the next attempt receives.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<CheckpointBody>,
}

impl JobAttempts {
    /// Loads the attempts at a job.
    ///
    /// # Errors
    /// As [`jobs::history`].
    pub async fn load(ctx: &Ctx, caller: &Caller, id: JobId) -> Outcome<Self> {
        let found = jobs::history(ctx, caller, id).await?;
        Ok(Self {
            job_id: found.job.id,
            attempts: found.attempts.into_iter().map(AttemptBody::from).collect(),
            not_before: found.job.not_before.map(rfc3339),
            failures: found.job.failures,
            retry: found.job.retry,
            checkpoint: found.checkpoint.map(CheckpointBody::from),
        })
    }

    /// Number of attempts.
    #[must_use]
    pub fn count(&self) -> usize {
        self.attempts.len()
    }
}

/// List the attempts at a job
///
/// Each attempt with its worker and its outcome: a failed one with its error, and when the next one could begin.
#[utoipa::path(operation_id = "list_job_attempts", tag = "jobs",
    responses((status = 200, description = "The attempts", body = JobAttempts)))]
#[get("/jobs/{job_id}/attempts")]
async fn list(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    ok(&JobAttempts::load(&api.ctx, &asker.caller, job_id(&path)?).await?)
}
