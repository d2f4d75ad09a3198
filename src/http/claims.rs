//! Routes of workers' claims and what they do with them (contract 11.2): claim, authorize, delegate, set aside and settle,
//! give back. What they report is `reports.rs`, who they are `workers.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use actix_web::{post, web};
use entente_core::amounts::Amount;
use entente_core::budgets::Budget;
use entente_core::clock::rfc3339;
use entente_core::ids::{IntentId, JobId, ReservationId, ResultId, WorkerId};
use entente_core::jobs::JobStatus;
use entente_core::jobs::ask::{Constraints, Submit};
use entente_core::jobs::wire::{Accepted, Credential, numbers};
use entente_core::limits::WAIT_SECONDS;
use entente_core::refusal::{Code, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_actix_web::service_config::ServiceConfig;

use super::body::{Body, id};
use super::caller::Asker;
use super::error::{Problem, Reply};
use super::jobs::job_id;
use super::{Doors, created, ok};
use crate::app::jobs::{self, ClaimAsk, Claimed, OperationAsk};

pub fn routes(config: &mut ServiceConfig<'_>) {
    config
        .service(claim)
        .service(authorize)
        .service(delegate)
        .service(settle)
        .service(let_go)
        .service(release);
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
/// `claim_expires_at`, which heartbeats move on.
#[utoipa::path(operation_id = "claim_jobs", tag = "workers", request_body = ClaimBody,
    responses((status = 200, description = "The jobs", body = ClaimedList)))]
#[post("/jobs/claim")]
async fn claim(doors: web::Data<Doors>, asker: Asker, body: Body<ClaimBody>) -> Reply {
    let said = body.value;
    let ask = ClaimAsk {
        worker_id: id::<WorkerId>("worker", &said.worker_id)?,
        agents: said.agents,
        max: said.max.unwrap_or(1),
        wait: wait(said.wait_sec)?,
    };
    let _place = if ask.wait.is_zero() {
        None
    } else {
        Some(asker.caller.grant.open_stream(doors.limits.max_streams_per_key)?)
    };
    let claiming = jobs::claim(&doors.ctx, &asker.caller, ask);
    let claimed = tokio::select! {
        claimed = claiming => claimed?,
        // Whoever waits asks again, and is told by another server.
        () = doors.draining.cancelled() => Vec::new(),
    };
    ok(&ClaimedList { jobs: claimed.into_iter().map(ClaimedBody::try_from).collect::<Result<_, _>>()? })
}

/// An operation that is about to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = JobOperation, example = json!({ "claim_token": "ct_…", "capability": "tool.call", "target": "search.web", "call_id": "c1", "reserve": { "USD": "0.40" } }))]
struct AuthorizeBody {
    /// The claim's token.
    claim_token: String,
    /// A namespace of ARCP §9.2.
    capability: String,
    /// On what: a path, a URL, a name; for `cost.budget` the currency.
    target: String,
    /// Which call it is: a refusal is then a `tool_result` event too.
    call_id: Option<String>,
    /// What to set aside for it, by currency: all of it, or the operation is refused.
    #[schema(value_type = Option<Object>)]
    reserve: Option<BTreeMap<String, Box<RawValue>>>,
}

/// The operation is allowed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobOperationAllowed)]
struct AllowedBody {
    /// `allow`.
    decision: &'static str,
    /// What the job has left.
    #[schema(value_type = Object)]
    budget: Map<String, Value>,
    /// Under which name the amounts were set aside: to be settled, or let go.
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation_id: Option<ReservationId>,
}

fn amounts(member: &str, said: BTreeMap<String, Box<RawValue>>) -> Result<Budget, Refusal> {
    let read = said.into_iter().map(|(currency, value)| match Amount::written(value.get()) {
        Ok(amount) if !amount.is_negative() => Ok((currency, amount)),
        Ok(_) => {
            let message = format!("`{member}` of {currency} is below zero.");
            Err(Refusal::field(Code::InvalidRequest, member, "range", message))
        }
        Err(e) => {
            let message = format!("`{member}` of {currency} is no amount: it {e}.");
            Err(Refusal::field(Code::InvalidRequest, member, "amount", message))
        }
    });
    Ok(Budget(read.collect::<Result<_, _>>()?))
}

/// Authorize an operation
///
/// Before it is made (ARCP §9.3). In this order: is the job still to go on, has its lease ended, does it cover the target, is
/// a counter spent. `reserve` sets an amount aside, or fails.
#[utoipa::path(operation_id = "authorize_operation", tag = "workers", request_body = AuthorizeBody,
    params(("job_id" = String, Path, description = "The job")),
    responses((status = 200, description = "It is allowed", body = AllowedBody),
              (status = 403, description = "`PERMISSION_DENIED`, `LEASE_EXPIRED`, `BUDGET_EXHAUSTED`", body = super::error::ProblemBody)))]
#[post("/jobs/{job_id}/authorize")]
async fn authorize(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<AuthorizeBody>,
) -> Reply {
    let said = body.value;
    let reserve = said.reserve.map(|said| amounts("reserve", said)).transpose()?;
    let ask = OperationAsk {
        capability: said.capability,
        target: said.target,
        call_id: said.call_id,
        reserve: reserve.filter(|reserve| !reserve.is_unlimited()),
    };
    let allowed = jobs::authorize(&doors.ctx, &asker.caller, job_id(&path)?, &said.claim_token, ask).await?;
    let budget = numbers(&allowed.budget);
    ok(&AllowedBody { decision: "allow", budget, reservation_id: allowed.reservation_id })
}

/// A part that another agent is to do.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = JobDelegation, example = json!({ "claim_token": "ct_…", "delegate_id": "d1", "agent": "echo", "input": {} }))]
struct DelegateBody {
    /// The claim's token.
    claim_token: String,
    /// The delegation's name: under it the child is made once.
    delegate_id: Option<String>,
    /// Which agent: a name, or `name@version`.
    agent: String,
    /// What it is to work on.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    input: Option<Box<RawValue>>,
    /// What the child may touch and spend: no more than its parent.
    lease_request: Option<BTreeMap<String, Vec<String>>>,
    /// Until when: no longer than its parent.
    lease_constraints: Option<Constraints>,
    /// Seconds after which the child is timed out.
    max_runtime_sec: Option<i64>,
}

impl DelegateBody {
    fn split(self) -> (String, Submit) {
        let submit = Submit {
            agent: self.agent,
            input: self.input,
            lease_request: self.lease_request,
            lease_constraints: self.lease_constraints,
            idempotency_key: None,
            max_runtime_sec: self.max_runtime_sec,
            parent_job_id: None,
            delegate_id: self.delegate_id,
            intent_id: None,
        };
        (self.claim_token, submit)
    }
}

/// Delegate a part of a job
///
/// A child in the same session, with a part of the job's authority (ARCP §9.4, §10). Under the same `delegate_id` it is made
/// once.
#[utoipa::path(operation_id = "delegate_job", tag = "workers", request_body = DelegateBody,
    params(("job_id" = String, Path, description = "The job")),
    responses((status = 201, description = "The child", body = Accepted),
              (status = 422, description = "`LEASE_SUBSET_VIOLATION`", body = super::error::ProblemBody)))]
#[post("/jobs/{job_id}/delegate")]
async fn delegate(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<DelegateBody>,
) -> Reply {
    let (claim_token, submit) = body.value.split();
    let child = jobs::delegate(&doors.ctx, &asker.caller, job_id(&path)?, &claim_token, submit).await?;
    created(&child)
}

/// What an operation has really cost.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = JobSettlement, example = json!({ "claim_token": "ct_…", "cost": { "USD": "0.31" } }))]
struct SettleBody {
    /// The claim's token.
    claim_token: String,
    /// By currency; taken off instead of what was set aside.
    #[serde(default)]
    #[schema(value_type = Object)]
    cost: BTreeMap<String, Box<RawValue>>,
}

/// What a job has left.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobBudget)]
struct BudgetBody {
    /// By currency.
    #[schema(value_type = Object)]
    budget: Map<String, Value>,
}

/// Settle what was set aside
#[utoipa::path(operation_id = "settle_reservation", tag = "workers", request_body = SettleBody,
    params(("job_id" = String, Path, description = "The job"), ("reservation_id" = String, Path, description = "What was set aside")),
    responses((status = 200, description = "What is left", body = BudgetBody)))]
#[post("/jobs/{job_id}/reservations/{reservation_id}/settle")]
async fn settle(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: Body<SettleBody>,
) -> Reply {
    let SettleBody { claim_token, cost } = body.value;
    let cost = amounts("cost", cost)?;
    let left =
        jobs::settle(&doors.ctx, &asker.caller, job_id(&path.0)?, &claim_token, &path.1, &cost).await?;
    ok(&BudgetBody { budget: numbers(&left) })
}

/// A claim's token.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ClaimToken, example = json!({ "claim_token": "ct_…" }))]
struct TokenBody {
    /// The claim's token.
    claim_token: String,
    /// Why, for the log.
    reason: Option<String>,
}

/// Let go of what was set aside
#[utoipa::path(operation_id = "release_reservation", tag = "workers", request_body = TokenBody,
    params(("job_id" = String, Path, description = "The job"), ("reservation_id" = String, Path, description = "What was set aside")),
    responses((status = 200, description = "What is left", body = BudgetBody)))]
#[post("/jobs/{job_id}/reservations/{reservation_id}/release")]
async fn let_go(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: Body<TokenBody>,
) -> Reply {
    let token = &body.value.claim_token;
    let none = Budget::default();
    let left = jobs::settle(&doors.ctx, &asker.caller, job_id(&path.0)?, token, &path.1, &none).await?;
    ok(&BudgetBody { budget: numbers(&left) })
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
