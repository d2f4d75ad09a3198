//! Endpoints for signals to jobs (beyond ARCP): sent by submitters and operators, taken and acknowledged by workers.

use actix_web::{HttpRequest, get, post, web};
use entente_arcp::jobs;
use entente_domain::arcp::jobs::signals::{AT_ONCE, SignalAsk};
use entente_domain::clock::rfc3339;
use entente_domain::refusal::{Code, Refusal};
use entente_http::body::{Body, Query};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::presence::Presence;
use entente_http::routes::Routes;
use entente_http::{created, ok};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::ApiState;
use crate::claims::wait as wait_of;
use crate::jobs::job_id;
use crate::signal_bodies::SignalBody;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(send).service(list).service(wait).service(acknowledge);
}

/// A signal to send.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewJobSignal, example = json!({ "name": "input", "payload": { "answer": 42 } }))]
struct SendBody {
    /// Name of the signal, for the agent.
    name: String,
    /// Payload: any JSON, up to 64 KiB.
    #[schema(value_type = Option<Value>)]
    payload: Option<Box<RawValue>>,
    /// Under the same key the signal is stored once; the same as the header `Idempotency-Key`.
    key: Option<String>,
}

/// Send a signal to a job
///
/// Keeps the signal in order for the worker that runs the job, and for the next one until a worker acknowledges it. A job that
/// waits for a worker takes signals as well. Allowed for the submitter and for keys with the scope `admin`.
#[utoipa::path(operation_id = "signal_job", tag = "jobs", request_body = SendBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Same as `key` in the body")),
    responses((status = 201, description = "The signal", body = SignalBody)))]
#[post("/jobs/{job_id}/signals")]
async fn send(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<SendBody>,
) -> Reply {
    let mut said = body.value;
    if let Some(header) = request.headers().get("idempotency-key") {
        let header = header.to_str().unwrap_or_default().to_owned();
        if said.key.as_ref().is_some_and(|said| *said != header) {
            let message = "The header `Idempotency-Key` and `key` differ. Send one of them.";
            return Err(Refusal::field(Code::InvalidRequest, "key", "value", message).into());
        }
        said.key = Some(header);
    }
    let ask = SignalAsk { name: said.name, payload: said.payload, key: said.key };
    let signal = jobs::send(&api.ctx, &asker.caller, job_id(&path)?, ask).await?;
    created(&SignalBody::try_from(signal)?)
}

/// A page of a job's signals.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobSignals)]
struct SignalList {
    /// The signals, in order.
    signals: Vec<SignalBody>,
}

/// List the signals of a job
///
/// Returns the signals with their acknowledgements: about 256 KiB of them at once; the next page begins after the last `seq`.
#[utoipa::path(operation_id = "list_job_signals", tag = "jobs",
    params(("after" = Option<i64>, Query, description = "Only signals after this number; defaults to 0"),
           ("limit" = Option<u32>, Query, description = "Page size, 1 to 100; defaults to 100")),
    responses((status = 200, description = "The signals", body = SignalList)))]
#[get("/jobs/{job_id}/signals")]
async fn list(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let most = u32::try_from(AT_ONCE).unwrap_or(1);
    let (after, limit) = (query.place()?, query.number("limit", most, 1, most)?);
    let signals = jobs::sent(&api.ctx, &asker.caller, job_id(&path)?, after, limit).await?;
    ok(&SignalList { signals: SignalBody::all(signals)? })
}

/// A worker's request for the signals of a job.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = JobSignalWait, example = json!({ "claim_token": "ct_…", "wait_sec": 20 }))]
struct WaitBody {
    /// The claim's token.
    claim_token: String,
    /// Only signals after this number; defaults to the last acknowledged one.
    after: Option<i64>,
    /// Seconds to wait if there is none: up to 120, defaults to 0.
    wait_sec: Option<f64>,
}

/// The signals for a worker.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobSignalDelivery)]
struct DeliveredBody {
    /// The signals, in order; empty if none came in time.
    signals: Vec<SignalBody>,
    /// Number of the last acknowledged signal.
    acknowledged: i64,
    /// Whether the job has to stop.
    cancel_requested: bool,
    /// When the server ends the job, if its worker has not; absent unless cancellation was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_due_at: Option<String>,
}

/// Wait for signals of a job
///
/// For the worker that holds the job. With `wait_sec`, responds as soon as there is a signal or the job has to stop. Heartbeats do
/// the same for all jobs of a worker (`signals_after`).
#[utoipa::path(operation_id = "wait_for_job_signals", tag = "workers", request_body = WaitBody,
    responses((status = 200, description = "The signals", body = DeliveredBody)))]
#[post("/jobs/{job_id}/signals/wait")]
async fn wait(
    api: web::Data<ApiState>,
    asker: Asker,
    presence: Presence,
    path: web::Path<String>,
    body: Body<WaitBody>,
) -> Reply {
    let said = body.value;
    let (id, patience) = (job_id(&path)?, wait_of(said.wait_sec)?);
    let _place =
        if patience.is_zero() { None } else { Some(asker.caller.waits(api.limits.max_streams_per_key)?) };
    let token = &said.claim_token;
    let delivered =
        jobs::wait(&api.ctx, &asker.caller, id, token, said.after, patience, presence.over()).await?;
    ok(&DeliveredBody {
        signals: SignalBody::all(delivered.signals)?,
        acknowledged: delivered.acked,
        cancel_requested: delivered.cancel_due_at.is_some(),
        cancel_due_at: delivered.cancel_due_at.map(rfc3339),
    })
}

/// A worker's acknowledgement of signals.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = JobSignalAck, example = json!({ "claim_token": "ct_…", "seq": 3 }))]
struct AckBody {
    /// The claim's token.
    claim_token: String,
    /// Number of the last signal that the worker has taken: it and all before it are acknowledged.
    seq: i64,
}

/// The last acknowledged signal.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobSignalAcked)]
struct AckedBody {
    /// Number of the last acknowledged signal.
    acknowledged: i64,
}

/// Acknowledge signals of a job
///
/// For the worker that holds the job. Signals that it does not acknowledge are given to the next attempt.
#[utoipa::path(operation_id = "acknowledge_job_signals", tag = "workers", request_body = AckBody,
    responses((status = 200, description = "The number of the last acknowledged signal", body = AckedBody)))]
#[post("/jobs/{job_id}/signals/ack")]
async fn acknowledge(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<AckBody>,
) -> Reply {
    let said = body.value;
    let acknowledged =
        jobs::acknowledge(&api.ctx, &asker.caller, job_id(&path)?, &said.claim_token, said.seq).await?;
    ok(&AckedBody { acknowledged })
}
