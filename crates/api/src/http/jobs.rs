//! Routes of jobs for those who submit and follow them (ARCP §7, contract 11.1). Their events are `job_events.rs`, what workers
//! do `claims.rs` and `reports.rs`.

use actix_web::http::header::CONTENT_LENGTH;
use actix_web::{HttpRequest, HttpResponse, get, post, web};
use bytes::Bytes;
use entente_domain::clock;
use entente_domain::ids::{JobId, MomentId, SessionId};
use entente_domain::jobs::JobStatus;
use entente_domain::jobs::ask::{Submit, no_job};
use entente_domain::jobs::wire::{Accepted, Described, Listed};
use entente_domain::keys::Scope;
use entente_domain::limits::PAGE;
use entente_domain::refusal::{Code, Refusal};
use entente_domain::versions::AgentRef;
use entente_kernel::jobs::{self, Canceller, Description, Filter, Origin, Stored};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::body::{Body, OptionalBody, Query};
use super::caller::Asker;
use super::error::{Problem, ProblemBody, Reply};
use super::{Doors, created, json, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config
        .service(submit)
        .service(list)
        .service(super::job_events::follow_all)
        .service(get)
        .service(cancel)
        .service(result);
}

/// Reads a job's id from a path. A text that is none is as one that nobody has.
///
/// # Errors
/// `JOB_NOT_FOUND`.
pub fn job_id(text: &str) -> Result<JobId, Problem> {
    text.parse().map_err(|_no_id| no_job().into())
}

/// Submit a job
///
/// It is accepted at once, whether or not a worker is there. The same `idempotency_key` (or `Idempotency-Key` header) with the
/// same parameters is the same job, and is answered with 200. `session_id` is what cancels it.
#[utoipa::path(operation_id = "submit_job", tag = "jobs", request_body = Submit,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `idempotency_key`"),
           ("traceparent" = Option<String>, Header, description = "The trace that the job belongs to")),
    responses((status = 201, description = "Accepted", body = Accepted), (status = 200, description = "Accepted before", body = Accepted)))]
#[post("/jobs")]
async fn submit(request: HttpRequest, doors: web::Data<Doors>, asker: Asker, body: Body<Submit>) -> Reply {
    let mut said = body.value;
    if let Some(key) = request.headers().get("idempotency-key") {
        let key = key.to_str().unwrap_or_default().to_owned();
        if said.idempotency_key.as_ref().is_some_and(|known| *known != key) {
            let message = "The header `Idempotency-Key` and `idempotency_key` differ. Send one of them.";
            return Err(Refusal::field(Code::InvalidRequest, "idempotency_key", "value", message).into());
        }
        said.idempotency_key = Some(key);
    }
    let submitted = doors.works.submit(&asker.caller, said, Origin::Rest).await?;
    // What was accepted over a socket is cancelled there (contract 9, decision 6).
    let session_id = (!submitted.job.counted).then_some(submitted.job.session_id);
    let accepted = Accepted { session_id, ..submitted.accepted };
    if submitted.repeated { ok(&accepted) } else { created(&accepted) }
}

/// A page of jobs.
#[derive(Debug, Serialize, ToSchema)]
struct JobList {
    /// The jobs, the latest first.
    jobs: Vec<Listed>,
    /// Where to go on; null at the end.
    next_cursor: Option<String>,
}

/// List jobs
#[utoipa::path(operation_id = "list_jobs", tag = "jobs",
    params(("status" = Option<String>, Query, description = "One or several, with commas between"),
           ("agent" = Option<String>, Query, description = "`name`, or `name@version`"),
           ("created_after" = Option<String>, Query, description = "RFC 3339"),
           ("created_before" = Option<String>, Query, description = "RFC 3339"),
           ("limit" = Option<u32>, Query, description = "1 to 1,000; 100 when nothing is said"),
           ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")),
    responses((status = 200, description = "The jobs", body = JobList)))]
#[get("/jobs")]
async fn list(doors: web::Data<Doors>, asker: Asker, query: Query) -> Reply {
    let read =
        |text: &str| text.split(',').map(|word| JobStatus::parse(word.trim())).collect::<Option<Vec<_>>>();
    let filter = Filter {
        statuses: query.parsed("status", "a job's status", read)?.unwrap_or_default(),
        agent: query.parsed("agent", "`name` or `name@version`", AgentRef::parse)?,
        created_after: query.parsed("created_after", "an RFC 3339 time", clock::parse)?,
        created_before: query.parsed("created_before", "an RFC 3339 time", clock::parse)?,
        limit: query.number("limit", 100, 1, PAGE)?,
        cursor: query.text("cursor").map(str::to_owned),
    };
    let (found, next_cursor) = jobs::list(&doors.ctx, &asker.caller, &filter).await?;
    ok(&JobList { jobs: found.iter().map(Listed::new).collect(), next_cursor })
}

/// A job, with its end when that has come.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobBody {
    /// What its observers are told of its authority.
    #[serde(flatten)]
    described: Described,
    /// The same as `current_status`.
    status: JobStatus,
    /// Who submitted it.
    principal: String,
    /// When it was accepted.
    created_at: String,
    /// The number of its last event in this resource.
    last_event_seq: i64,
    /// How often it was claimed.
    attempt: u32,
    /// Whether it is to stop.
    cancel_requested: bool,
    /// When it is timed out.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    /// The intent that it works for.
    #[serde(skip_serializing_if = "Option::is_none")]
    intent_id: Option<String>,
    /// The questions to people that it waits for, `moments/{moment_id}`: it is `awaiting_decision` while there is one.
    awaiting_decision: Vec<MomentId>,
    /// The payload of its `job.result` or `job.error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    terminal: Option<Box<RawValue>>,
}

impl JobBody {
    pub(crate) fn new(found: &Description) -> Result<Self, Problem> {
        let job = &found.job;
        Ok(Self {
            described: Described::new(job, &found.remaining),
            status: job.status,
            principal: job.principal.clone(),
            created_at: clock::rfc3339(job.created_at),
            last_event_seq: job.last_seq,
            attempt: job.attempt,
            cancel_requested: job.cancel.is_some(),
            deadline: job.deadline.map(clock::rfc3339),
            intent_id: job.intent_id.map(|id| id.to_string()),
            awaiting_decision: found.awaiting.clone(),
            terminal: found.terminal.as_ref().map(Stored::payload).transpose()?,
        })
    }
}

/// Get a job
///
/// Where it stands, what it may touch, what it has left, and how it ended.
#[utoipa::path(operation_id = "get_job", tag = "jobs", params(("job_id" = String, Path, description = "The job")),
    responses((status = 200, description = "The job", body = JobBody)))]
#[get("/jobs/{job_id}")]
async fn get(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = jobs::describe(&doors.ctx, &asker.caller, job_id(&path)?).await?;
    ok(&JobBody::new(&found)?)
}

/// Who cancels, and why.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = JobCancel, example = json!({ "session_id": "sess_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "reason": "no longer needed" }))]
struct CancelBody {
    /// The session that submitted the job; a key with the scope `admin` needs none.
    session_id: Option<String>,
    /// Why.
    reason: Option<String>,
}

/// A job that is cancelled.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobCancelled)]
struct CancelledBody {
    /// The job.
    job_id: JobId,
    /// Where it stands: `running` until its worker has stopped.
    status: JobStatus,
    /// Why.
    reason: String,
}

/// Cancel a job
///
/// Only the session that submitted it may, or a key with the scope `admin`. One that waits ends at once; one that runs is
/// asked to stop, and ended after the grace whatever its worker does.
#[utoipa::path(operation_id = "cancel_job", tag = "jobs", request_body = Option<CancelBody>,
    params(("job_id" = String, Path, description = "The job")),
    responses((status = 202, description = "It will end, or has", body = CancelledBody)))]
#[post("/jobs/{job_id}/cancel")]
async fn cancel(
    doors: web::Data<Doors>,
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
        // One that it cannot be: whether the job is there is said by what follows.
        Ok(None) | Err(_) => Canceller::Session(uuid::Uuid::nil().into()),
    };
    let job = jobs::cancel(&doors.ctx, &asker.caller, id, by, said.reason.clone()).await?;
    let reason = job.cancel.map_or_else(|| said.reason.unwrap_or_default(), |cancel| cancel.reason);
    json(actix_web::http::StatusCode::ACCEPTED, &CancelledBody { job_id: id, status: job.status, reason })
}

/// Get a job's result
///
/// An inline one as JSON; a streamed one as its bytes, put together.
#[utoipa::path(operation_id = "get_job_result", tag = "jobs", params(("job_id" = String, Path, description = "The job")),
    responses((status = 200, description = "The result", content(
                  (serde_json::Value = "application/json"), (String = "text/plain"), (String = "application/octet-stream"))),
              (status = 409, description = "It has none, or none yet", body = ProblemBody)))]
#[get("/jobs/{job_id}/result")]
async fn result(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    let id = job_id(&path)?;
    match jobs::result(&doors.ctx, &asker.caller, id).await? {
        jobs::Result::Inline(text) => Ok(HttpResponse::Ok().content_type("application/json").body(text)),
        jobs::Result::Streamed { result_id, size, text } => {
            let kind = if text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
            let body = stream::unfold(Some(0), move |place| {
                let (doors, result_id) = (doors.clone(), result_id.clone());
                async move {
                    let place = place?;
                    match jobs::pieces(&doors.ctx, id, &result_id, place).await {
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
