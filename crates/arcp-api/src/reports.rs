//! Routes through which workers report on their jobs (ARCP-W-11.2): events, the result, an error.

use actix_web::{post, put, web};
use entente_arcp::jobs::{EventAsk, Reported};
use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::ends::End;
use entente_domain::arcp::jobs::wire::numbers;
use entente_domain::clock::rfc3339;
use entente_domain::ids::JobId;
use entente_http::body::Body;
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;
use crate::jobs::job_id;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(post_events).service(post_result).service(post_error).service(put_checkpoint);
}

/// An event to report.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewJobEvent, example = json!({ "kind": "progress", "body": { "current": 1, "total": 4 } }))]
pub(crate) struct EventBody {
    /// Event kind: one of ARCP §8.2, or `x-vendor.<vendor>.<kind>`.
    kind: String,
    /// When the event happened; defaults to now.
    ts: Option<String>,
    /// Body of the event.
    #[schema(value_type = Object)]
    body: Box<RawValue>,
    /// Deduplication key chosen by the worker: of events with the same key only the first is stored.
    event_key: Option<String>,
}

impl From<EventBody> for EventAsk {
    fn from(event: EventBody) -> Self {
        Self { kind: event.kind, ts: event.ts, body: event.body, event_key: event.event_key }
    }
}

/// A batch of events of a job.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewJobEvents, example = json!({ "claim_token": "ct_…", "events": [{ "kind": "progress", "body": { "current": 1, "total": 4 } }] }))]
struct EventsBody {
    /// Token of the claim.
    claim_token: String,
    /// Up to 1,000 events, in order. If one is invalid, none is stored.
    events: Vec<EventBody>,
    /// Progress to continue from, any JSON of up to 100 KiB; stored with the events, in place of the last one.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    checkpoint: Option<Box<RawValue>>,
}

/// A reported operation that the job is not authorised to perform.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobDenial)]
struct DeniedBody {
    /// Index of the event in the request.
    index: usize,
    /// Id of the call.
    call_id: Option<String>,
    /// Error code.
    code: &'static str,
    /// Message for people.
    message: String,
}

/// A child job that a `delegate` event created.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobChild)]
struct ChildBody {
    /// Index of the event in the request.
    index: usize,
    /// Name of the delegation.
    delegate_id: String,
    /// The child job.
    job_id: JobId,
}

/// The response to a worker's report.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobReported)]
pub struct ReportedBody {
    /// Number of the job's last event.
    last_event_seq: i64,
    /// Remaining budget.
    #[schema(value_type = Object)]
    budget: Map<String, Value>,
    /// Whether cancellation has been requested.
    cancel_requested: bool,
    /// When the server ends the job, if its worker has not; absent unless cancellation was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_due_at: Option<String>,
    /// Whether the lease has expired, which ends the job.
    lease_expired: bool,
    /// Operations that the job is not authorised to perform.
    denied: Vec<DeniedBody>,
    /// Children that the `delegate` events created.
    children: Vec<ChildBody>,
    /// When the next attempt at the job may begin; present if the report was a failure that is retried, so that the job has
    /// not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<String>,
}

impl From<Reported> for ReportedBody {
    fn from(told: Reported) -> Self {
        let denied = told.denied.into_iter().map(|one| DeniedBody {
            index: one.index,
            call_id: one.call_id,
            code: Fault::from(one.refusal.code).wire(),
            message: one.refusal.message,
        });
        let children = told.children.into_iter().map(|child| ChildBody {
            index: child.index,
            delegate_id: child.delegate_id,
            job_id: child.job_id,
        });
        Self {
            last_event_seq: told.last_seq,
            budget: numbers(&told.budget),
            cancel_requested: told.cancel_due_at.is_some(),
            cancel_due_at: told.cancel_due_at.map(rfc3339),
            lease_expired: told.lease_expired,
            denied: denied.collect(),
            children: children.collect(),
            next_attempt_at: told.next_attempt_at.map(rfc3339),
        }
    }
}

/// Report events of a job
///
/// Stores all of the events or none. Costs are deducted from the budget in the same transaction. A `tool_call` or
/// `delegate` that the job's authority does not cover is answered with a `tool_result` event and listed in `denied`. A
/// `tool_call` of `fs.read`, `fs.write` or `net.fetch` is judged as that operation on its `path` or `url`, if the lease
/// names its capability. A `delegate` with a `delegate_id` and without a `child_job_id` creates the child (ARCP §10),
/// as `POST /jobs/{job_id}/delegate` does, and lists it in `children`; the events before it are stored first.
#[utoipa::path(operation_id = "report_job_events", tag = "workers", request_body = EventsBody,
    responses((status = 200, description = "The events were stored", body = ReportedBody)))]
#[post("/jobs/{job_id}/events")]
async fn post_events(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<EventsBody>,
) -> Reply {
    let EventsBody { claim_token, events, checkpoint } = body.value;
    let events = events.into_iter().map(EventAsk::from).collect();
    let (job, checkpoint) = (job_id(&path)?, checkpoint.as_deref());
    let told = api.job_writer.post(&api.ctx, &asker.caller, job, &claim_token, events, checkpoint).await?;
    ok(&ReportedBody::from(told))
}

/// The progress of a job, to continue from.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewJobCheckpoint, example = json!({ "claim_token": "ct_…", "checkpoint": { "done": 47 } }))]
struct CheckpointBody {
    /// Token of the claim.
    claim_token: String,
    /// The progress: any JSON of up to 100 KiB.
    #[schema(value_type = Value)]
    checkpoint: Box<RawValue>,
}

/// Store a job's checkpoint
///
/// Stores how far the work is, in place of the previous checkpoint. The next attempt at the job receives it with its
/// claim: after the loss of this worker, a retried failure, or a release. A report of events may carry it too.
#[utoipa::path(operation_id = "store_job_checkpoint", tag = "workers", request_body = CheckpointBody,
    responses((status = 200, description = "The checkpoint was stored", body = ReportedBody)))]
#[put("/jobs/{job_id}/checkpoint")]
async fn put_checkpoint(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<CheckpointBody>,
) -> Reply {
    let CheckpointBody { claim_token, checkpoint } = body.value;
    let (job, checkpoint) = (job_id(&path)?, Some(&*checkpoint));
    let told =
        api.job_writer.post(&api.ctx, &asker.caller, job, &claim_token, Vec::new(), checkpoint).await?;
    ok(&ReportedBody::from(told))
}

/// The result of a job.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewJobResult, example = json!({ "claim_token": "ct_…", "result": { "ok": true } }))]
struct ResultBody {
    /// Token of the claim.
    claim_token: String,
    /// Inline result, up to 700 KiB; alternatively set `result_id`.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    result: Option<Box<RawValue>>,
    /// Id of a streamed result.
    result_id: Option<String>,
    /// Size of the streamed result in decoded bytes; verified if present.
    result_size: Option<u64>,
    /// One-sentence summary.
    summary: Option<String>,
}

/// Report a job's result
///
/// Ends the job. A streamed result must be complete; a job's result is either inline or streamed (ARCP §8.4).
/// A job whose cancellation was requested ends as cancelled all the same. The same report again has the same answer;
/// a different one is 409 `CLAIM_LOST`, and the first stands.
#[utoipa::path(operation_id = "report_job_result", tag = "workers", request_body = ResultBody,
    responses((status = 200, description = "The job has ended", body = ReportedBody)))]
#[post("/jobs/{job_id}/result")]
async fn post_result(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ResultBody>,
) -> Reply {
    let ResultBody { claim_token, result, result_id, result_size, summary } = body.value;
    let end = End::Result { result, result_id, result_size, summary };
    let told = api.job_writer.end(&api.ctx, &asker.caller, job_id(&path)?, &claim_token, end).await?;
    ok(&ReportedBody::from(told))
}

/// Code of a failure that names none.
pub(crate) fn internal_error() -> String {
    "INTERNAL_ERROR".to_owned()
}

/// The error with which a job failed.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewJobError, example = json!({ "claim_token": "ct_…", "code": "INTERNAL_ERROR", "message": "the tool crashed", "retryable": true }))]
struct ErrorBody {
    /// Token of the claim.
    claim_token: String,
    /// A code of ARCP §12; defaults to `INTERNAL_ERROR`.
    code: Option<String>,
    /// Message for people.
    #[serde(default)]
    message: String,
    /// Whether the same job may be tried again; for most codes this decides over a retry.
    retryable: Option<bool>,
    /// Further details.
    #[schema(value_type = Option<Object>)]
    details: Option<Map<String, Value>>,
}

/// Report that a job failed
///
/// Ends the job as `error`, `cancelled` or `timed_out`, depending on the code, unless the job's `retry` has another attempt
/// for it: then the job waits until `next_attempt_at`, and its followers get a `status` event with the phase `retrying`.
/// The same report again has the same answer; a different one is 409 `CLAIM_LOST`, and the first stands.
#[utoipa::path(operation_id = "report_job_error", tag = "workers", request_body = ErrorBody,
    responses((status = 200, description = "The job has ended", body = ReportedBody)))]
#[post("/jobs/{job_id}/error")]
async fn post_error(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ErrorBody>,
) -> Reply {
    let ErrorBody { claim_token, code, message, retryable, details } = body.value;
    let code = code.unwrap_or_else(internal_error);
    let end = End::Error { code, message, retryable, details };
    let told = api.job_writer.end(&api.ctx, &asker.caller, job_id(&path)?, &claim_token, end).await?;
    ok(&ReportedBody::from(told))
}
