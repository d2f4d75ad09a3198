//! Worker routes (ARCP-W-11.2): registration, heartbeats and directives.

use std::collections::BTreeMap;

use actix_web::{get, post, web};
use entente_arcp::jobs::{Beat, BeatAsk, Held, HeldJob};
use entente_arcp::workers::{Directive, Worker, WorkerAsk};
use entente_arcp::{jobs, workers};
use entente_domain::clock::rfc3339;
use entente_domain::ids::{JobId, WorkerId};
use entente_domain::limits::PAGE;
use entente_http::body::{Body, OptionalBody, Query, id};
use entente_http::caller::Asker;
use entente_http::error::{Problem, Reply};
use entente_http::presence::Presence;
use entente_http::routes::Routes;
use entente_http::{created, ok};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;
use crate::claims::wait;
use crate::signal_bodies::SignalBody;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(register).service(list).service(beat).service(direct).service(leave);
}

/// A worker to register.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewWorker, example = json!({ "name": "build-7", "agents": ["echo@1.0.0"], "slots": 4 }))]
struct RegisterBody {
    /// Name of the worker, for people.
    name: String,
    /// Agents whose jobs the worker runs: `name@version`, or `name` for all versions.
    agents: Vec<String>,
    /// How many jobs the worker runs at once; defaults to 1.
    slots: Option<i64>,
    /// Labels, for people.
    #[serde(default)]
    labels: Map<String, Value>,
}

/// A job that a worker runs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkerJob)]
struct WorkerJobBody {
    /// The job.
    job_id: JobId,
    /// The agent that the worker runs it as.
    agent: String,
    /// Attempt number, starting at 1.
    attempt: u32,
    /// When the worker claimed it.
    since: String,
    /// When the claim expires, unless a heartbeat extends it.
    expires_at: String,
}

impl From<HeldJob> for WorkerJobBody {
    fn from(held: HeldJob) -> Self {
        Self {
            job_id: held.job_id,
            agent: held.agent,
            attempt: held.attempt,
            since: rfc3339(held.since),
            expires_at: rfc3339(held.expires_at),
        }
    }
}

/// A worker.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Worker)]
struct WorkerBody {
    /// Worker id.
    worker_id: WorkerId,
    /// Name of the worker.
    name: String,
    /// Principal that registered the worker.
    principal: String,
    /// Agents whose jobs the worker runs.
    agents: Vec<String>,
    /// How many jobs the worker runs at once.
    slots: u32,
    /// Labels, for people.
    #[schema(value_type = Object)]
    labels: Box<RawValue>,
    /// Current directive to the worker.
    directive: Directive,
    /// State that the worker last reported.
    state: String,
    /// When the worker registered.
    registered_at: String,
    /// When the worker was last seen.
    last_seen_at: String,
    /// Recommended heartbeat interval in seconds.
    heartbeat_interval_sec: u64,
    /// The jobs that the worker runs, the oldest claims first; a list of workers has at most 1,000 in all.
    jobs: Vec<WorkerJobBody>,
}

impl WorkerBody {
    fn new(api: &ApiState, worker: Worker, jobs: Vec<HeldJob>) -> Result<Self, Problem> {
        let labels = RawValue::from_string(worker.labels);
        Ok(Self {
            worker_id: worker.id,
            name: worker.name,
            principal: worker.principal,
            agents: worker.agents,
            slots: worker.slots,
            labels: labels.map_err(|e| Problem::internal(&format!("stored labels are no JSON: {e}")))?,
            directive: worker.directive,
            state: worker.state,
            registered_at: rfc3339(worker.registered_at),
            last_seen_at: rfc3339(worker.last_seen_at),
            // Several heartbeats fit into one claim, so that a lost one does no harm.
            heartbeat_interval_sec: (api.ctx.state.jobs.claim.as_secs() / 6).max(1),
            jobs: jobs.into_iter().map(WorkerJobBody::from).collect(),
        })
    }
}

/// Register a worker
#[utoipa::path(operation_id = "register_worker", tag = "workers", request_body = RegisterBody,
    responses((status = 201, description = "The worker", body = WorkerBody)))]
#[post("/workers")]
async fn register(api: web::Data<ApiState>, asker: Asker, body: Body<RegisterBody>) -> Reply {
    let said = body.value;
    let labels = Value::Object(said.labels).to_string();
    let ask = WorkerAsk { name: said.name, agents: said.agents, slots: said.slots.unwrap_or(1), labels };
    let worker = workers::register(&api.ctx, &asker.caller, ask).await?;
    created(&WorkerBody::new(&api, worker, Vec::new())?)
}

/// A page of workers.
#[derive(Debug, Serialize, ToSchema)]
struct WorkerList {
    /// The workers, last seen first.
    workers: Vec<WorkerBody>,
}

/// List workers
///
/// Returns the caller's own workers; with the scope `admin`, everyone's. Each has the jobs that it runs, since when, and
/// when their claims expire.
#[utoipa::path(operation_id = "list_workers", tag = "workers",
    params(("limit" = Option<u32>, Query, description = "Page size, 1 to 1,000; defaults to 100")),
    responses((status = 200, description = "The workers", body = WorkerList)))]
#[get("/workers")]
async fn list(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let found = workers::list(&api.ctx, &asker.caller, query.number("limit", 100, 1, PAGE)?).await?;
    let mut held = jobs::held(&api.ctx, &found).await?;
    let workers = found.into_iter().map(|worker| {
        let jobs = held.remove(&worker.id).unwrap_or_default();
        WorkerBody::new(&api, worker, jobs)
    });
    ok(&WorkerList { workers: workers.collect::<Result<_, _>>()? })
}

/// A job that a worker holds.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct HeldBody {
    /// The job.
    job_id: String,
    /// Token of the claim.
    claim_token: String,
    /// Whether the worker already knows that the job must stop, so that the request does not return early for
    /// it.
    #[serde(default)]
    stopping: bool,
    /// Number of the last signal of the job that the worker knows, 0 for none: the response then has those after it. If it is
    /// absent, the worker gets no signals with its heartbeats.
    signals_after: Option<i64>,
}

/// A heartbeat of a worker.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = WorkerBeat, example = json!({ "jobs": [{ "job_id": "job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "claim_token": "ct_…" }], "wait_sec": 10 }))]
struct BeatBody {
    /// State of the worker, as it reports it.
    state: Option<String>,
    /// The jobs that the worker holds; their claims are extended.
    #[serde(default)]
    jobs: Vec<HeldBody>,
    /// The directive that the worker already follows; defaults to `run`.
    directive: Option<Directive>,
    /// Seconds for which the response may wait; it returns immediately if the directive changes, or a job
    /// must stop or is lost.
    wait_sec: Option<f64>,
}

/// The response to a heartbeat.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkerDirectives)]
pub struct DirectivesBody {
    /// Whether to continue, to claim no more jobs, or to terminate.
    directive: Directive,
    /// Jobs to stop and to report as ended.
    cancel: Vec<JobId>,
    /// For each job of `cancel`, when the server ends it if the worker has not; absent if there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    cancel_due_at: BTreeMap<String, String>,
    /// Jobs that the worker no longer holds: drop them without a report.
    lost: Vec<String>,
    /// When the claims on the other jobs expire.
    claim_expires_at: String,
    /// Signals by job, for those jobs that have new ones; absent if there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    signals: BTreeMap<String, Vec<SignalBody>>,
}

/// Send a heartbeat
#[utoipa::path(operation_id = "worker_heartbeat", tag = "workers", request_body = Option<BeatBody>,
    responses((status = 200, description = "Instructions for the worker", body = DirectivesBody)))]
#[post("/workers/{worker_id}/heartbeat")]
async fn beat(
    api: web::Data<ApiState>,
    asker: Asker,
    presence: Presence,
    path: web::Path<String>,
    body: OptionalBody<BeatBody>,
) -> Reply {
    let worker: WorkerId = id("worker", &path)?;
    let said = body.0.value;
    let wait = wait(said.wait_sec)?;
    let (held, lost) = held(said.jobs);
    let _place =
        if wait.is_zero() { None } else { Some(asker.caller.waits(api.limits.max_streams_per_key)?) };
    let state = said.state.as_deref().map(shortened);
    let obeyed = said.directive.unwrap_or(Directive::Run);
    let ask = BeatAsk { worker, state, held, obeyed, wait };
    let beat = jobs::beat(&api.ctx, &asker.caller, &ask, presence.over()).await?;
    ok(&DirectivesBody::new(beat, lost)?)
}

/// Divides the jobs that a worker names into those it may hold and those that are none: a malformed id is a lost job.
pub(crate) fn held(named: Vec<HeldBody>) -> (Vec<Held>, Vec<String>) {
    let (mut held, mut lost) = (Vec::new(), Vec::new());
    for one in named {
        match one.job_id.parse() {
            Ok(job_id) => held.push(Held {
                job_id,
                token: one.claim_token,
                stopping: one.stopping,
                signals_after: one.signals_after,
            }),
            Err(_no_id) => lost.push(one.job_id),
        }
    }
    (held, lost)
}

/// State of a worker in the length that is stored.
pub(crate) fn shortened(state: &str) -> String {
    state.chars().take(200).collect()
}

impl DirectivesBody {
    /// Shapes the response to a heartbeat; `lost` has the named jobs that are none.
    ///
    /// # Errors
    /// A stored signal is no JSON.
    pub fn new(response: Beat, mut lost: Vec<String>) -> Result<Self, Problem> {
        lost.extend(response.lost.iter().map(JobId::to_string));
        let signals =
            response.signals.into_iter().map(|(id, signals)| Ok((id.to_string(), SignalBody::all(signals)?)));
        Ok(Self {
            directive: response.directive,
            cancel: response.cancel.keys().copied().collect(),
            cancel_due_at: response.cancel.iter().map(|(id, due)| (id.to_string(), rfc3339(*due))).collect(),
            lost,
            claim_expires_at: rfc3339(response.claim_expires_at),
            signals: signals.collect::<Result<_, Problem>>()?,
        })
    }
}

/// A directive to a worker.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = WorkerDirective, example = json!({ "directive": "quiet" }))]
struct DirectiveBody {
    /// `run`, `quiet` or `terminate`.
    directive: Directive,
}

/// Send a directive to a worker
///
/// The worker receives it with its next heartbeat: `quiet` to claim no more jobs, `terminate` to end.
#[utoipa::path(operation_id = "direct_worker", tag = "workers", request_body = DirectiveBody,
    responses((status = 200, description = "The worker", body = WorkerBody)))]
#[post("/workers/{worker_id}/directive")]
async fn direct(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<DirectiveBody>,
) -> Reply {
    let directive = body.value.directive;
    let worker = workers::direct(&api.ctx, &asker.caller, id("worker", &path)?, directive).await?;
    let jobs = jobs::held(&api.ctx, std::slice::from_ref(&worker)).await?.remove(&worker.id);
    ok(&WorkerBody::new(&api, worker, jobs.unwrap_or_default())?)
}

/// The response to a worker's departure.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkerLeft)]
struct LeftBody {
    /// The worker.
    worker_id: WorkerId,
}

/// Deregister a worker
///
/// The jobs that the worker still holds become available to others immediately.
#[utoipa::path(operation_id = "worker_leave", tag = "workers",
    responses((status = 200, description = "The worker has left", body = LeftBody)))]
#[post("/workers/{worker_id}/leave")]
async fn leave(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let worker_id: WorkerId = id("worker", &path)?;
    jobs::leave(&api.ctx, &asker.caller, worker_id).await?;
    ok(&LeftBody { worker_id })
}
