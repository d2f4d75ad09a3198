//! Routes through which workers report of their jobs (contract 11.2): events, the result, an error.

use actix_web::{post, web};
use entente_domain::jobs::wire::numbers;
use entente_kernel::jobs::{End, EventAsk, Reported};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::body::Body;
use super::caller::Asker;
use super::error::Reply;
use super::jobs::job_id;
use super::{Doors, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(post_events).service(post_result).service(post_error);
}

/// One event.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewJobEvent, example = json!({ "kind": "progress", "body": { "current": 1, "total": 4 } }))]
struct EventBody {
    /// Its kind: one of ARCP §8.2, or `x-vendor.<vendor>.<kind>`.
    kind: String,
    /// When it happened; now when nothing is said.
    ts: Option<String>,
    /// What.
    #[schema(value_type = Object)]
    body: Box<RawValue>,
    /// The worker's name for it: one that is sent twice is kept once.
    event_key: Option<String>,
}

/// Events of a job.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewJobEvents, example = json!({ "claim_token": "ct_…", "events": [{ "kind": "progress", "body": { "current": 1, "total": 4 } }] }))]
struct EventsBody {
    /// The claim's token.
    claim_token: String,
    /// Up to 1,000, in their order. All are kept, or none.
    events: Vec<EventBody>,
}

/// An operation that an event told of and that the job may not do.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobDenial)]
struct DeniedBody {
    /// Which event of the request.
    index: usize,
    /// Which call.
    call_id: Option<String>,
    /// Why.
    code: &'static str,
    /// The same in words.
    message: String,
}

/// What a worker is told of its report.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobReported)]
pub(crate) struct ReportedBody {
    /// The number of the job's last event.
    last_event_seq: i64,
    /// What the job has left.
    #[schema(value_type = Object)]
    budget: Map<String, Value>,
    /// Whether it is to stop.
    cancel_requested: bool,
    /// Whether its lease has ended, and with that the job.
    lease_expired: bool,
    /// What it may not do.
    denied: Vec<DeniedBody>,
}

impl From<Reported> for ReportedBody {
    fn from(told: Reported) -> Self {
        let denied = told.denied.into_iter().map(|one| DeniedBody {
            index: one.index,
            call_id: one.call_id,
            code: one.refusal.code.fault().wire(),
            message: one.refusal.message,
        });
        Self {
            last_event_seq: told.last_seq,
            budget: numbers(&told.budget),
            cancel_requested: told.cancel_requested,
            lease_expired: told.lease_expired,
            denied: denied.collect(),
        }
    }
}

/// Report events of a job
///
/// All of them are kept, or none. Costs are taken off the budget in the same transaction; a `tool_call` or `delegate` that the
/// job's authority does not cover is answered with a `tool_result` event and stands in `denied`.
#[utoipa::path(operation_id = "report_job_events", tag = "workers", request_body = EventsBody,
    params(("job_id" = String, Path, description = "The job")),
    responses((status = 200, description = "They are kept", body = ReportedBody)))]
#[post("/jobs/{job_id}/events")]
async fn post_events(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<EventsBody>,
) -> Reply {
    let EventsBody { claim_token, events } = body.value;
    let events = events.into_iter().map(|event| EventAsk {
        kind: event.kind,
        ts: event.ts,
        body: event.body,
        event_key: event.event_key,
    });
    let told =
        doors.works.post(&doors.ctx, &asker.caller, job_id(&path)?, &claim_token, events.collect()).await?;
    ok(&ReportedBody::from(told))
}

/// What a job came to.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewJobResult, example = json!({ "claim_token": "ct_…", "result": { "ok": true } }))]
struct ResultBody {
    /// The claim's token.
    claim_token: String,
    /// The result, up to 700 KiB; or:
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    result: Option<Box<RawValue>>,
    /// Which streamed result.
    result_id: Option<String>,
    /// Its bytes, decoded; checked when it is said.
    result_size: Option<u64>,
    /// In a sentence.
    summary: Option<String>,
}

/// Report a job's result
///
/// It ends the job. A streamed result must be complete; inline and streamed are not mixed (ARCP §8.4). A job that was to stop
/// ends as cancelled all the same.
#[utoipa::path(operation_id = "report_job_result", tag = "workers", request_body = ResultBody,
    params(("job_id" = String, Path, description = "The job")),
    responses((status = 200, description = "The job is over", body = ReportedBody)))]
#[post("/jobs/{job_id}/result")]
async fn post_result(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ResultBody>,
) -> Reply {
    let ResultBody { claim_token, result, result_id, result_size, summary } = body.value;
    let end = End::Result { result, result_id, result_size, summary };
    let told = doors.works.end(&doors.ctx, &asker.caller, job_id(&path)?, &claim_token, end).await?;
    ok(&ReportedBody::from(told))
}

/// Why a job failed.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewJobError, example = json!({ "claim_token": "ct_…", "code": "INTERNAL_ERROR", "message": "the tool crashed", "retryable": true }))]
struct ErrorBody {
    /// The claim's token.
    claim_token: String,
    /// One of ARCP §12; `INTERNAL_ERROR` when nothing is said.
    code: Option<String>,
    /// Why.
    #[serde(default)]
    message: String,
    /// Whether the same may be tried again.
    retryable: Option<bool>,
    /// More of it.
    #[schema(value_type = Option<Object>)]
    details: Option<Map<String, Value>>,
}

/// Report that a job failed
///
/// It ends the job, by the code as `error`, `cancelled` or `timed_out`.
#[utoipa::path(operation_id = "report_job_error", tag = "workers", request_body = ErrorBody,
    params(("job_id" = String, Path, description = "The job")),
    responses((status = 200, description = "The job is over", body = ReportedBody)))]
#[post("/jobs/{job_id}/error")]
async fn post_error(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ErrorBody>,
) -> Reply {
    let ErrorBody { claim_token, code, message, retryable, details } = body.value;
    let code = code.unwrap_or_else(|| "INTERNAL_ERROR".to_owned());
    let end = End::Error { code, message, retryable, details };
    let told = doors.works.end(&doors.ctx, &asker.caller, job_id(&path)?, &claim_token, end).await?;
    ok(&ReportedBody::from(told))
}
