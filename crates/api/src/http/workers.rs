//! Routes of workers (contract 11.2): registering, heartbeats, what they are told.

use actix_web::{get, post, web};
use entente_domain::clock::rfc3339;
use entente_domain::ids::{JobId, WorkerId};
use entente_domain::limits::PAGE;
use entente_kernel::jobs::{self, BeatAsk, Held};
use entente_kernel::workers::{self, Directive, Worker, WorkerAsk};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::body::{Body, OptionalBody, Query, id};
use super::caller::Asker;
use super::claims::wait;
use super::error::{Problem, Reply};
use super::presence::Presence;
use super::{Doors, created, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(register).service(list).service(beat).service(direct).service(leave);
}

/// What a worker says when it begins.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewWorker, example = json!({ "name": "build-7", "agents": ["echo@1.0.0"], "slots": 4 }))]
struct RegisterBody {
    /// Its name, for people.
    name: String,
    /// Which agents' jobs it takes: `name@version`, or `name` for all of its versions.
    agents: Vec<String>,
    /// How many jobs it holds at once; 1 when nothing is said.
    slots: Option<i64>,
    /// For people.
    #[serde(default)]
    labels: Map<String, Value>,
}

/// A worker.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Worker)]
struct WorkerBody {
    /// Its id.
    worker_id: WorkerId,
    /// Its name.
    name: String,
    /// Whose it is.
    principal: String,
    /// Which agents' jobs it takes.
    agents: Vec<String>,
    /// How many it holds at once.
    slots: u32,
    /// For people.
    #[schema(value_type = Object)]
    labels: Box<RawValue>,
    /// What it is told.
    directive: Directive,
    /// What it last said of itself.
    state: String,
    /// Since when.
    registered_at: String,
    /// When it was last heard of.
    last_seen_at: String,
    /// How often it should be heard of, in seconds.
    heartbeat_interval_sec: u64,
}

impl WorkerBody {
    fn new(doors: &Doors, worker: Worker) -> Result<Self, Problem> {
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
            // Several times within a claim, so that one that is lost on its way costs nothing.
            heartbeat_interval_sec: (doors.ctx.settings.jobs.claim.as_secs() / 6).max(1),
        })
    }
}

/// Register a worker
#[utoipa::path(operation_id = "register_worker", tag = "workers", request_body = RegisterBody,
    responses((status = 201, description = "The worker", body = WorkerBody)))]
#[post("/workers")]
async fn register(doors: web::Data<Doors>, asker: Asker, body: Body<RegisterBody>) -> Reply {
    let said = body.value;
    let labels = Value::Object(said.labels).to_string();
    let ask = WorkerAsk { name: said.name, agents: said.agents, slots: said.slots.unwrap_or(1), labels };
    let worker = workers::register(&doors.ctx, &asker.caller, ask).await?;
    created(&WorkerBody::new(&doors, worker)?)
}

/// Workers.
#[derive(Debug, Serialize, ToSchema)]
struct WorkerList {
    /// The workers, the last heard of first.
    workers: Vec<WorkerBody>,
}

/// List workers
///
/// One's own; with the scope `admin` everybody's.
#[utoipa::path(operation_id = "list_workers", tag = "workers",
    params(("limit" = Option<u32>, Query, description = "1 to 1,000; 100 when nothing is said")),
    responses((status = 200, description = "The workers", body = WorkerList)))]
#[get("/workers")]
async fn list(doors: web::Data<Doors>, asker: Asker, query: Query) -> Reply {
    let found = workers::list(&doors.ctx, &asker.caller, query.number("limit", 100, 1, PAGE)?).await?;
    let workers =
        found.into_iter().map(|worker| WorkerBody::new(&doors, worker)).collect::<Result<_, _>>()?;
    ok(&WorkerList { workers })
}

/// A job that a worker holds.
#[derive(Debug, Deserialize, ToSchema)]
struct HeldBody {
    /// The job.
    job_id: String,
    /// Its claim's token.
    claim_token: String,
    /// Whether the worker knows already that it is to stop: then that is no news to wake it for.
    #[serde(default)]
    stopping: bool,
}

/// A sign that a worker is there.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = WorkerBeat, example = json!({ "jobs": [{ "job_id": "job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "claim_token": "ct_…" }], "wait_sec": 10 }))]
struct BeatBody {
    /// What it says of itself.
    state: Option<String>,
    /// The jobs that it holds: their claims are moved on.
    #[serde(default)]
    jobs: Vec<HeldBody>,
    /// The directive that the worker obeys already; `run` when nothing is said.
    directive: Option<Directive>,
    /// How long the answer may wait for news: it comes at once when a job is to stop or is lost.
    wait_sec: Option<f64>,
}

/// What a worker is told.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkerDirectives)]
struct DirectivesBody {
    /// To go on, to claim nothing more, or to end.
    directive: Directive,
    /// Jobs to stop, and to report ended.
    cancel: Vec<JobId>,
    /// Jobs that are no longer its: to be dropped without a word.
    lost: Vec<String>,
    /// Until when it holds the others.
    claim_expires_at: String,
}

/// Send a heartbeat
#[utoipa::path(operation_id = "worker_heartbeat", tag = "workers", request_body = Option<BeatBody>,
    params(("worker_id" = String, Path, description = "The worker")),
    responses((status = 200, description = "What it is to do", body = DirectivesBody)))]
#[post("/workers/{worker_id}/heartbeat")]
async fn beat(
    doors: web::Data<Doors>,
    asker: Asker,
    presence: Presence,
    path: web::Path<String>,
    body: OptionalBody<BeatBody>,
) -> Reply {
    let worker: WorkerId = id("worker", &path)?;
    let said = body.0.value;
    let wait = wait(said.wait_sec)?;
    // What is no job's id is a job that it does not have.
    let mut lost: Vec<String> = Vec::new();
    let mut held: Vec<Held> = Vec::new();
    for one in said.jobs {
        match one.job_id.parse() {
            Ok(job_id) => held.push(Held { job_id, token: one.claim_token, stopping: one.stopping }),
            Err(_no_id) => lost.push(one.job_id),
        }
    }
    let _place =
        if wait.is_zero() { None } else { Some(asker.caller.waits(doors.limits.max_streams_per_key)?) };
    let state: Option<String> = said.state.map(|state| state.chars().take(200).collect());
    let obeyed = said.directive.unwrap_or(Directive::Run);
    let ask = BeatAsk { worker, state, held, obeyed, wait };
    let beat = jobs::beat(&doors.ctx, &asker.caller, &ask, presence.over()).await?;
    lost.extend(beat.lost.iter().map(JobId::to_string));
    ok(&DirectivesBody {
        directive: beat.directive,
        cancel: beat.cancel,
        lost,
        claim_expires_at: rfc3339(beat.claim_expires_at),
    })
}

/// What a worker is to do.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = WorkerDirective, example = json!({ "directive": "quiet" }))]
struct DirectiveBody {
    /// `run`, `quiet` or `terminate`.
    directive: Directive,
}

/// Tell a worker what to do
///
/// It hears of it with its next heartbeat: `quiet` to claim nothing more, `terminate` to end.
#[utoipa::path(operation_id = "direct_worker", tag = "workers", request_body = DirectiveBody,
    params(("worker_id" = String, Path, description = "The worker")),
    responses((status = 200, description = "The worker", body = WorkerBody)))]
#[post("/workers/{worker_id}/directive")]
async fn direct(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<DirectiveBody>,
) -> Reply {
    let directive = body.value.directive;
    let worker = workers::direct(&doors.ctx, &asker.caller, id("worker", &path)?, directive).await?;
    ok(&WorkerBody::new(&doors, worker)?)
}

/// A worker that has left.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkerLeft)]
struct LeftBody {
    /// The worker.
    worker_id: WorkerId,
}

/// Leave
///
/// What the worker still holds goes to others at once.
#[utoipa::path(operation_id = "worker_leave", tag = "workers",
    params(("worker_id" = String, Path, description = "The worker")),
    responses((status = 200, description = "It has left", body = LeftBody)))]
#[post("/workers/{worker_id}/leave")]
async fn leave(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    let worker_id: WorkerId = id("worker", &path)?;
    jobs::leave(&doors.ctx, &asker.caller, worker_id).await?;
    ok(&LeftBody { worker_id })
}
