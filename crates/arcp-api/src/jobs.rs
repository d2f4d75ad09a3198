//! Job routes for the clients that submit and follow jobs (ARCP §7, ARCP-W-11.1). Job events are served by
//! `job_events.rs`; the worker routes are in `claims.rs` and `reports.rs`.

use std::collections::BTreeMap;

use actix_web::http::header::CONTENT_LENGTH;
use actix_web::{HttpRequest, HttpResponse, get, post, web};
use bytes::Bytes;
use entente_arcp::jobs::{Canceller, Description, Failure, Holding, JobSearch, Marks, Origin, Stored};
use entente_arcp::{Ctx, jobs};
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::ask::{Submit, no_job};
use entente_domain::arcp::jobs::limits::Concurrency;
use entente_domain::arcp::jobs::retries::RetryPolicy;
use entente_domain::arcp::jobs::wire::{Accepted, Described, Listed, numbers};
use entente_domain::arcp::jobs::{Job, JobStatus, labels};
use entente_domain::arcp::versions::AgentRef;
use entente_domain::clock::{self, Timestamp};
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{JobId, MomentId, SessionId, WorkerId};
use entente_domain::limits::PAGE;
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, OptionalBody, Query};
use entente_http::caller::Asker;
use entente_http::error::{Problem, ProblemBody, Reply};
use entente_http::routes::Routes;
use entente_http::{created, json, ok};
use entente_kernel::Caller;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(submit).service(list).service(get).service(cancel).service(result);
}

/// Parses a job id from a path; a malformed id is reported like an unknown job.
///
/// # Errors
/// `JOB_NOT_FOUND`.
pub fn job_id(text: &str) -> Result<JobId, Problem> {
    text.parse().map_err(|_no_id| no_job().into())
}

/// Submit a job
///
/// Accepts the job immediately, whether or not a worker is connected. Repeating the same `idempotency_key`
/// (or `Idempotency-Key` header) with the same parameters returns the same job, with status 200. Cancelling
/// the job requires its `session_id` or a key with the scope `admin`.
#[utoipa::path(operation_id = "submit_job", tag = "jobs", request_body = Submit,
    params(("Idempotency-Key" = Option<String>, Header, description = "Same as `idempotency_key` in the body"),
           ("traceparent" = Option<String>, Header, description = "Trace that the job belongs to (W3C Trace Context)")),
    responses((status = 201, description = "The job was accepted", body = Accepted), (status = 200, description = "The job was already accepted", body = Accepted)))]
#[post("/jobs")]
async fn submit(request: HttpRequest, api: web::Data<ApiState>, asker: Asker, body: Body<Submit>) -> Reply {
    let mut said = body.value;
    if let Some(key) = request.headers().get("idempotency-key") {
        let key = key.to_str().unwrap_or_default().to_owned();
        if said.idempotency_key.as_ref().is_some_and(|known| *known != key) {
            let message = "The header `Idempotency-Key` and `idempotency_key` differ. Send one of them.";
            return Err(Refusal::field(Code::InvalidRequest, "idempotency_key", "value", message).into());
        }
        said.idempotency_key = Some(key);
    }
    let submitted = api.job_writer.submit(&asker.caller, said, Origin::Rest).await?;
    // A job accepted over a socket can be cancelled only there (ARCP-W-9.6): its session id is
    // not returned.
    let session_id = (!submitted.job.counted).then_some(submitted.job.session_id);
    let accepted = Accepted { session_id, ..submitted.accepted };
    if submitted.repeated { ok(&accepted) } else { created(&accepted) }
}

/// The worker that runs a job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobHolder)]
struct HolderBody {
    /// The worker.
    worker_id: WorkerId,
    /// Name of the worker; absent if it has left.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    /// Agent or service that registered the worker; absent if the worker has left.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    /// When the worker claimed the job.
    since: String,
    /// When the claim expires, unless a heartbeat of the worker extends it; then the job goes to another worker or fails.
    expires_at: String,
    /// When the worker last sent a heartbeat or claimed; absent if it has left.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_heartbeat_at: Option<String>,
    /// Seconds since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat_age_sec: Option<i64>,
}

impl HolderBody {
    fn new(holding: Holding, now: Timestamp) -> Self {
        Self {
            last_heartbeat_at: holding.heartbeat_at.map(clock::rfc3339),
            heartbeat_age_sec: holding.heartbeat_at.map(|at| (now - at).num_seconds().max(0)),
            worker_id: holding.worker_id,
            worker: holding.worker,
            agent: holding.principal,
            since: clock::rfc3339(holding.since),
            expires_at: clock::rfc3339(holding.expires_at),
        }
    }
}

/// A job in a list.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobSummary)]
pub struct ListedBody {
    /// The fields that ARCP's `session.jobs` has.
    #[serde(flatten)]
    listed: Listed,
    /// Jobs with a higher priority start first; 0 is normal.
    priority: i16,
    /// The worker that runs the job; absent unless the job is running and may be followed by the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<HolderBody>,
    /// Session that cancels the job; only for its submitter, and absent if it was submitted over a socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<SessionId>,
    /// Agent that submitted the job; like the members below only for those who may see all of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    /// When the job ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// Labels of the submission.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// The failed end of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureBody>,
    /// The job that this one runs again.
    #[serde(skip_serializing_if = "Option::is_none")]
    rerun_of: Option<JobId>,
    /// Cost of the job itself, by currency, without its children's.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    cost: Map<String, Value>,
}

/// The failed end of a job, which is a dead letter until somebody resolves it or runs the job again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobFailure)]
pub struct FailureBody {
    /// Error code (ARCP §12).
    code: String,
    /// Whether the job is an open dead letter: failed, tried by nothing again, and not resolved.
    is_dead_letter: bool,
    /// When it was resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved_at: Option<String>,
    /// Agent that resolved it.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved_by: Option<String>,
    /// Note of that agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl From<Failure> for FailureBody {
    fn from(failure: Failure) -> Self {
        Self {
            code: failure.code,
            is_dead_letter: failure.is_open,
            resolved_at: failure.resolved_at.map(clock::rfc3339),
            resolved_by: failure.resolved_by,
            note: failure.note,
        }
    }
}

impl ListedBody {
    /// Builds the list items of jobs, with the workers that run them.
    ///
    /// # Errors
    /// The workers cannot be read.
    pub async fn load(ctx: &Ctx, caller: &Caller, jobs: &[Job]) -> Result<Vec<Self>, Problem> {
        let mut claims = jobs::holdings(ctx, caller, jobs).await?;
        let mut besides = jobs::beside(ctx, caller, jobs).await?;
        let now = ctx.now();
        let listed = jobs.iter().map(|job| {
            let beside = besides.remove(&job.id);
            let all = beside.is_some();
            let beside = beside.unwrap_or_default();
            Self {
                listed: Listed::new(job),
                priority: job.priority.get(),
                claim: claims.remove(&job.id).map(|holding| HolderBody::new(holding, now)),
                principal: all.then(|| job.principal.clone()),
                session_id: job.session_for(&caller.agent),
                ended_at: job.ended_at.filter(|_| all).map(clock::rfc3339),
                labels: beside.labels,
                failure: beside.failure.map(FailureBody::from),
                rerun_of: beside.links.rerun_of,
                cost: numbers(&beside.cost),
            }
        });
        Ok(listed.collect())
    }
}

/// Reads the conditions of a search from the parameters of a request.
///
/// # Errors
/// A parameter is invalid.
pub(crate) fn searched(query: &Query, limit: u32, most: u32) -> Result<JobSearch, Problem> {
    let read =
        |text: &str| text.split(',').map(|word| JobStatus::parse(word.trim())).collect::<Option<Vec<_>>>();
    let labels = query.texts("label").map(|text| {
        labels::parse(text).ok_or_else(|| {
            let message = format!("`label` is invalid: `{text}` is not `key=value`.");
            Refusal::new(Code::InvalidParameter, message)
        })
    });
    let letter =
        |text: &str| [("open", true), ("resolved", false)].into_iter().find(|(word, _)| *word == text);
    Ok(JobSearch {
        statuses: query.parsed("status", "a job's status", read)?.unwrap_or_default(),
        agent: query.parsed("agent", "`name` or `name@version`", AgentRef::parse)?,
        principal: query.text("principal").map(str::to_owned),
        labels: labels.collect::<Result<_, _>>()?,
        parent: query.parsed("parent_job_id", "a job's id", |text| text.parse().ok())?,
        trace: query.text("trace_id").map(str::to_ascii_lowercase),
        error_code: query.parsed("error_code", "an error code of ARCP §12", Fault::parse)?,
        dead_letter: query.parsed("dead_letter", "`open` or `resolved`", letter)?.map(|(_, is_open)| is_open),
        created_after: query.parsed("created_after", "an RFC 3339 time", clock::parse)?,
        created_before: query.parsed("created_before", "an RFC 3339 time", clock::parse)?,
        limit: query.number("limit", limit, 1, most)?,
        cursor: query.text("cursor").map(str::to_owned),
    })
}

/// A page of jobs.
#[derive(Debug, Serialize, ToSchema)]
struct JobList {
    /// The jobs, newest first.
    jobs: Vec<ListedBody>,
    /// Cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// List jobs
///
/// Lists the caller's jobs, and everybody's to a key with the scope `admin`. A job fulfils all conditions. A page may be shorter
/// than its limit although more follow: `next_cursor` says whether they do.
#[utoipa::path(operation_id = "list_jobs", tag = "jobs",
    params(("status" = Option<String>, Query, description = "Only jobs in this status; several are separated by commas"),
           ("agent" = Option<String>, Query, description = "Only jobs of this agent: `name` or `name@version`"),
           ("principal" = Option<String>, Query, description = "Only jobs that this agent submitted"),
           ("label" = Option<Vec<String>>, Query, description = "Only jobs with this label: `key=value`; repeatable"),
           ("parent_job_id" = Option<String>, Query, description = "Only jobs that this one delegated"),
           ("trace_id" = Option<String>, Query, description = "Only jobs of this trace"),
           ("error_code" = Option<String>, Query, description = "Only jobs that ended with this error code (ARCP §12)"),
           ("dead_letter" = Option<String>, Query, description = "Only dead letters: `open` ones, which nobody has resolved, or `resolved` ones"),
           ("created_after" = Option<String>, Query, description = "Only jobs accepted after this time, RFC 3339"),
           ("created_before" = Option<String>, Query, description = "Only jobs accepted before this time, RFC 3339"),
           ("limit" = Option<u32>, Query, description = "Page size, 1 to 1,000; defaults to 100"),
           ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page")),
    responses((status = 200, description = "The jobs", body = JobList)))]
#[get("/jobs")]
async fn list(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let search = searched(&query, 100, PAGE)?;
    let (found, next_cursor) = jobs::search(&api.ctx, &asker.caller, &search).await?;
    ok(&JobList { jobs: ListedBody::load(&api.ctx, &asker.caller, &found).await?, next_cursor })
}

/// Numbers of a job's signals.
#[derive(Debug, Serialize, ToSchema)]
struct SignalMarks {
    /// Number of the last signal.
    sent: i64,
    /// Number of the last acknowledged signal.
    acknowledged: i64,
}

impl SignalMarks {
    fn of(marks: Marks) -> Option<Self> {
        (marks.sent > 0).then_some(Self { sent: marks.sent, acknowledged: marks.acked })
    }
}

/// A job, with its terminal payload once it has ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobBody {
    /// The fields that every observer of the job sees: agent, lease, remaining budget.
    #[serde(flatten)]
    described: Described,
    /// The same as `current_status`.
    status: JobStatus,
    /// Agent that submitted the job.
    principal: String,
    /// Session that cancels the job; only for its submitter, and absent if it was submitted over a socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<SessionId>,
    /// When the job was accepted.
    created_at: String,
    /// Number of the job's last event; numbering is per job.
    last_event_seq: i64,
    /// How many times the job has been claimed.
    attempt: u32,
    /// Jobs with a higher priority start first; 0 is normal.
    priority: i16,
    /// When the job may be claimed; absent if it may be at once. `GET /jobs/{job_id}/attempts` has its attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<String>,
    /// When the job times out unless a worker claims it.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_deadline: Option<String>,
    /// Retries after failures; absent if a failure ends the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryPolicy>,
    /// The key by which running jobs of its principal are limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<Concurrency>,
    /// The worker that runs the job; absent unless the job is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<HolderBody>,
    /// Whether cancellation has been requested.
    cancel_requested: bool,
    /// When the job times out.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    /// The intent that the job works on.
    #[serde(skip_serializing_if = "Option::is_none")]
    intent_id: Option<String>,
    /// Questions to people that the job waits for, as `moments/{moment_id}` ids; the job is
    /// `awaiting_decision` while there is one.
    awaiting_decision: Vec<MomentId>,
    /// When the job ends at the latest, if cancellation has been requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_due_at: Option<String>,
    /// When the job ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// Labels of the submission.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// The failed end of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureBody>,
    /// The job that this one runs again.
    #[serde(skip_serializing_if = "Option::is_none")]
    rerun_of: Option<JobId>,
    /// The jobs that run this one again, oldest first; the first 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reruns: Vec<JobId>,
    /// Cost of the job itself, by currency; `/jobs/{job_id}/tree` adds its children's.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    cost: Map<String, Value>,
    /// Number of the job's last signal, and of the last one that its worker acknowledged; absent without signals.
    #[serde(skip_serializing_if = "Option::is_none")]
    signals: Option<SignalMarks>,
    /// Payload of the job's `job.result` or `job.error`, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    terminal: Option<Box<RawValue>>,
}

impl JobBody {
    /// Builds the body, with the questions that an unfinished job waits for.
    ///
    /// # Errors
    /// The questions cannot be read.
    pub async fn load(
        moments: &entente_moments::Ctx,
        caller: &Caller,
        found: &Description,
    ) -> Result<Self, Problem> {
        let job = &found.job;
        let over = job.status.is_terminal();
        let awaiting = if over { Vec::new() } else { entente_moments::awaited(moments, job.id).await? };
        Ok(Self {
            described: Described::new(job, &found.remaining),
            status: job.status,
            principal: job.principal.clone(),
            session_id: job.session_for(&caller.agent),
            created_at: clock::rfc3339(job.created_at),
            last_event_seq: job.last_seq,
            attempt: job.attempt,
            priority: job.priority.get(),
            concurrency: job.concurrency.clone(),
            not_before: job.not_before.map(clock::rfc3339),
            queue_deadline: job.queue_end().map(clock::rfc3339),
            retry: job.retry.clone(),
            claim: found.holding.clone().map(|holding| HolderBody::new(holding, moments.now())),
            cancel_due_at: job.cancel.as_ref().filter(|_| !over).map(|asked| clock::rfc3339(asked.due_at)),
            ended_at: job.ended_at.map(clock::rfc3339),
            labels: found.beside.labels.clone(),
            failure: found.beside.failure.clone().map(FailureBody::from),
            rerun_of: found.beside.links.rerun_of,
            reruns: found.beside.links.reruns.clone(),
            cost: numbers(&found.beside.cost),
            signals: SignalMarks::of(found.beside.signals),
            cancel_requested: job.cancel.is_some(),
            deadline: job.deadline.map(clock::rfc3339),
            intent_id: job.intent_id.map(|id| id.to_string()),
            awaiting_decision: awaiting,
            terminal: found.terminal.as_ref().map(Stored::payload).transpose()?,
        })
    }
}

/// Get a job
///
/// Returns the job's status, lease, remaining budget, the worker that runs it and, once it has ended, its result or error.
#[utoipa::path(operation_id = "get_job", tag = "jobs",
    responses((status = 200, description = "The job", body = JobBody)))]
#[get("/jobs/{job_id}")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = jobs::describe(&api.ctx, &asker.caller, job_id(&path)?).await?;
    ok(&JobBody::load(&api.moments, &asker.caller, &found).await?)
}

/// The session that cancels a job, and the reason.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = JobCancel, example = json!({ "session_id": "sess_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "reason": "no longer needed" }))]
struct CancelBody {
    /// The session that submitted the job; optional for a key with the scope `admin`.
    session_id: Option<String>,
    /// Reason for the cancellation.
    reason: Option<String>,
    /// Seconds that the worker has to stop, 0 to 3,600; defaults to the server's setting. A second request may shorten them.
    grace_sec: Option<i64>,
}

/// A cancelled job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobCancelled)]
struct CancelledBody {
    /// Job id.
    job_id: JobId,
    /// Status of the job: `running` until its worker has stopped.
    status: JobStatus,
    /// Reason for the cancellation.
    reason: String,
}

/// Cancel a job
///
/// Allowed for the session that submitted the job and for keys with the scope `admin`. A pending job ends
/// immediately. A running job is asked to stop, and is ended after the grace period whether or not its worker
/// reacts.
#[utoipa::path(operation_id = "cancel_job", tag = "jobs", request_body = Option<CancelBody>,
    responses((status = 202, description = "The job has ended, or has been asked to stop", body = CancelledBody)))]
#[post("/jobs/{job_id}/cancel")]
async fn cancel(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<CancelBody>,
) -> Reply {
    let id = job_id(&path)?;
    let said = body.0.value;
    let session = said.session_id.as_deref().map(str::parse::<SessionId>).transpose();
    let by = match session {
        Ok(Some(session)) => Canceller::Session(session),
        Ok(None) if asker.caller.has(Scope::Admin) => Canceller::Operator,
        Ok(None) | Err(_) => Canceller::nobody(),
    };
    let job = jobs::cancel(&api.ctx, &asker.caller, id, by, said.reason.clone(), said.grace_sec).await?;
    let reason = job.cancel.map_or_else(|| said.reason.unwrap_or_default(), |cancel| cancel.reason);
    json(actix_web::http::StatusCode::ACCEPTED, &CancelledBody { job_id: id, status: job.status, reason })
}

/// Get a job's result
///
/// Returns an inline result as JSON and a streamed result as its assembled bytes.
#[utoipa::path(operation_id = "get_job_result", tag = "jobs",
    responses((status = 200, description = "The result", content(
                  (serde_json::Value = "application/json"), (String = "text/plain"), (String = "application/octet-stream"))),
              (status = 409, description = "The job has no result, or none yet", body = ProblemBody)))]
#[get("/jobs/{job_id}/result")]
async fn result(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let id = job_id(&path)?;
    match jobs::result(&api.ctx, &asker.caller, id).await? {
        jobs::Result::Inline(text) => Ok(HttpResponse::Ok().content_type("application/json").body(text)),
        jobs::Result::Streamed { result_id, size, text } => {
            let kind = if text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
            let body = stream::unfold(Some(0), move |place| {
                let (api, result_id) = (api.clone(), result_id.clone());
                async move {
                    let place = place?;
                    match jobs::pieces(&api.ctx, id, &result_id, place).await {
                        Ok(piece) => Some((Ok(Bytes::from(piece.bytes)), piece.next)),
                        Err(failure) => {
                            tracing::error!(error = %failure, job = %id, "a result could not be read");
                            Some((Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)), None))
                        }
                    }
                }
            });
            Ok(HttpResponse::Ok()
                .content_type(kind)
                .insert_header((CONTENT_LENGTH, size))
                .no_chunking(size)
                .streaming(body))
        }
    }
}
