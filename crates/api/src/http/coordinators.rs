//! Routes of coordinators (RFC-0013). What they decide is `coordinator_decisions.rs`.

use actix_web::http::header::ETAG;
use actix_web::{HttpRequest, HttpResponse, get, patch, post, web};
use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::coordinators::{
    Bound, Coordinator, CoordinatorAsk, CoordinatorChange, CoordinatorStatus, CoordinatorType,
};
use entente_domain::ids::{CoordinatorId, IntentId};
use entente_domain::keys::Dialect;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::coordinators;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::body::{Body, Query, id, if_match_of, intent_of, one};
use super::caller::Asker;
use super::error::{Problem, ProblemBody, Reply};
use super::wire::{GivenTime, WireTime};
use super::{Doors, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(appoint).service(beat).service(get).service(change).service(list);
}

/// An agent's appointment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Coordinator)]
struct CoordinatorBody {
    /// Its id.
    id: CoordinatorId,
    /// The intent.
    intent_id: IntentId,
    /// Always null: appointments are to intents.
    portfolio_id: Option<String>,
    /// Who is appointed.
    #[schema(example = "agent.lead")]
    agent_id: String,
    /// As what.
    #[schema(example = "coordinator")]
    role: String,
    /// Who oversees it.
    supervisor_id: String,
    /// Who appointed it.
    appointed_by: String,
    /// What it is.
    coordinator_type: CoordinatorType,
    /// Always `intent`.
    #[schema(example = "intent")]
    scope: &'static str,
    /// Where it stands at this moment.
    status: CoordinatorStatus,
    /// What it is bound by, as given.
    #[schema(value_type = Option<Object>)]
    guardrails: Option<Map<String, Value>>,
    /// Seconds between two heartbeats: silent for two of them it is unresponsive, for five it is given up.
    heartbeat_interval_seconds: u32,
    /// Its last heartbeat.
    last_heartbeat: Option<WireTime>,
    /// When it was appointed.
    granted_at: WireTime,
    /// When it is over if nothing is heard of it; null while it rests.
    expires_at: Option<WireTime>,
    /// When it was over.
    ended_at: Option<WireTime>,
    /// Rises with each change but heartbeats; guards writes.
    version: i64,
    /// The client's own.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// The same, under the reference server's name.
    #[schema(value_type = Object)]
    lease_metadata: Map<String, Value>,
}

impl CoordinatorBody {
    fn new(made: Coordinator, now: Timestamp, dialect: Dialect) -> Self {
        let at = |at| WireTime::new(at, dialect);
        let (status, expires_at) = (made.status_at(now), made.expires_at());
        let ended = made.ended_at.or(expires_at.filter(|_| status.is_over()));
        Self {
            id: made.id,
            intent_id: made.intent_id,
            portfolio_id: None,
            agent_id: made.agent_id,
            role: made.role,
            supervisor_id: made.supervisor_id,
            appointed_by: made.appointed_by,
            coordinator_type: made.coordinator_type,
            scope: "intent",
            status,
            guardrails: made.guardrails,
            heartbeat_interval_seconds: made.heartbeat_seconds,
            last_heartbeat: made.last_heartbeat.map(at),
            granted_at: at(made.granted_at),
            expires_at: expires_at.or(made.until).map(at),
            ended_at: ended.map(at),
            version: made.version,
            metadata: made.metadata.clone(),
            lease_metadata: made.metadata,
        }
    }
}

fn shown(made: Coordinator, doors: &Doors, asker: &Asker) -> Reply {
    let version = made.version;
    let text = serde_json::to_vec(&CoordinatorBody::new(made, doors.ctx.now(), asker.dialect));
    let text = text.map_err(|e| Problem::internal(&e.to_string()))?;
    Ok(HttpResponse::Ok()
        .content_type("application/json")
        .insert_header((ETAG, format!("\"{version}\"")))
        .body(text))
}

/// Who is to be appointed.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewCoordinator)]
#[schema(example = json!({ "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "agent_id": "agent.lead" }))]
struct AppointBody {
    /// Who.
    agent_id: String,
    /// To which intent.
    intent_id: Option<String>,
    /// Portfolios have no coordinators here; appoint one to each of the intents.
    portfolio_id: Option<String>,
    /// As what, one at a time; `coordinator` when nothing is said, which manages the intent's channels and tasks.
    role: Option<String>,
    /// Who oversees it; who appoints it when nothing is said.
    supervisor_id: Option<String>,
    /// What it is; `llm` when nothing is said.
    #[serde(default, alias = "type")]
    coordinator_type: CoordinatorType,
    /// `intent`.
    scope: Option<String>,
    /// What it is bound by (RFC-0013 §3).
    #[schema(value_type = Option<Object>)]
    guardrails: Option<Map<String, Value>>,
    /// Seconds between two heartbeats, 1 to 86,400; 60 when nothing is said.
    heartbeat_interval_seconds: Option<u32>,
    /// Until when at the latest.
    expires_at: Option<GivenTime>,
    /// For how many seconds at the most.
    duration_seconds: Option<u32>,
    /// The client's own.
    #[serde(default, alias = "lease_metadata")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// The coordinator in this role that is to give way.
    replaces: Option<String>,
}

/// Appoint a coordinator
///
/// By the intent's admins. One holds each role of an intent at a time, for as long as it beats; one that is silent is
/// replaced by the next, one that is heard of only when `replaces` names it.
#[utoipa::path(operation_id = "create_coordinator_lease", tag = "coordinators", request_body = AppointBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 200, description = "The appointment", body = CoordinatorBody),
              (status = 409, description = "`already_exists`, `intent_resolved`", body = ProblemBody)))]
#[post("/coordinators")]
async fn appoint(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    body: Body<AppointBody>,
) -> Reply {
    let once = body.once(&request)?;
    let said = body.value;
    let odd = said.scope.as_deref().is_some_and(|scope| scope != "intent");
    if odd || said.portfolio_id.is_some_and(|id| !id.is_empty()) {
        let message = "Coordinators are appointed to intents. Appoint one to each intent of the portfolio, with `intent_id`.";
        return Err(Refusal::field(Code::Unprocessable, "scope", "unsupported", message).into());
    }
    let intent_id = intent_of(said.intent_id.as_ref())?;
    let after = said.duration_seconds.map(|seconds| plus_seconds(doors.ctx.now(), seconds));
    let ask = CoordinatorAsk {
        agent_id: said.agent_id,
        role: said.role,
        supervisor_id: said.supervisor_id,
        coordinator_type: said.coordinator_type,
        guardrails: said.guardrails,
        heartbeat_seconds: said.heartbeat_interval_seconds,
        until: said.expires_at.map(|at| at.0).or(after),
        metadata: said.metadata.unwrap_or_default(),
    };
    let replaces = one("replaces", said.replaces)?;
    let ctx = &doors.ctx;
    let made = coordinators::appoint(ctx, &asker.caller, intent_id, ask, replaces, once.as_ref()).await?;
    shown(made, &doors, &asker)
}

/// Get a coordinator
#[utoipa::path(operation_id = "get_coordinator_lease", tag = "coordinators",
    params(("coordinator_id" = String, Path, description = "The appointment")),
    responses((status = 200, description = "The appointment; its version is the ETag", body = CoordinatorBody)))]
#[get("/coordinators/{coordinator_id}")]
async fn get(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = coordinators::get(&doors.ctx, &asker.caller, id("coordinator", &path)?).await?;
    shown(found, &doors, &asker)
}

/// List an intent's coordinators
///
/// A bare array, oldest first; the last 1,000 of them.
#[utoipa::path(operation_id = "list_coordinator_leases", tag = "coordinators",
    params(("intent_id" = String, Path, description = "The intent"),
           ("before" = Option<String>, Query, description = "Only older ones: the first id of the previous page")),
    responses((status = 200, description = "The appointments", body = Vec<CoordinatorBody>)))]
#[get("/intents/{intent_id}/coordinators")]
async fn list(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let before = query.parsed("before", "a coordinator's id", |text| text.parse().ok())?;
    let found = coordinators::list(&doors.ctx, &asker.caller, id("intent", &path)?, before).await?;
    let now = doors.ctx.now();
    let list: Vec<CoordinatorBody> =
        found.into_iter().map(|one| CoordinatorBody::new(one, now, asker.dialect)).collect();
    ok(&list)
}

/// What is said of a heartbeat.
#[derive(Debug, Serialize, ToSchema)]
struct CoordinatorBeat {
    /// For people.
    #[schema(example = "ok")]
    status: &'static str,
    /// Where the coordinator stands.
    coordinator_status: CoordinatorStatus,
    /// When the next one is due.
    next_heartbeat_at: WireTime,
    /// When it is given up, if nothing more is heard of it.
    expires_at: Option<WireTime>,
}

/// Send a coordinator's heartbeat
///
/// Only the appointed agent. No body. A silent one is back with it, until it was given up.
#[utoipa::path(operation_id = "coordinator_heartbeat", tag = "coordinators",
    params(("coordinator_id" = String, Path, description = "The appointment")),
    responses((status = 200, description = "It was heard", body = CoordinatorBeat),
              (status = 409, description = "`invalid_transition`: the appointment is over", body = ProblemBody)))]
#[post("/coordinators/{coordinator_id}/heartbeat")]
async fn beat(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    let heard = coordinators::beat(&doors.ctx, &asker.caller, id("coordinator", &path)?).await?;
    let at = |at| WireTime::new(at, asker.dialect);
    ok(&CoordinatorBeat {
        status: "ok",
        coordinator_status: heard.status,
        next_heartbeat_at: at(plus_seconds(heard.heard_at, heard.heartbeat_seconds)),
        expires_at: heard.expires_at().map(at),
    })
}

/// Reads a member that is there, null or not; one that is left out stays as it is.
fn given<'de, D: Deserializer<'de>>(member: D) -> Result<Bound, D::Error> {
    let said: Option<Map<String, Value>> = Option::deserialize(member)?;
    Ok(said.map_or(Bound::Free, Bound::By))
}

/// A change of an appointment.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = CoordinatorPatch)]
#[schema(example = json!({ "status": "paused", "reason": "the plan is looked at" }))]
struct ChangeBody {
    /// `paused`, `active`, `completing` or `completed`.
    status: Option<CoordinatorStatus>,
    /// What it is bound by; null: by nothing.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Object>)]
    guardrails: Bound,
    /// Why.
    reason: Option<String>,
}

/// Change a coordinator
///
/// Under its version. The intent's admins and the supervisor have it rest and go on, and bind it; it may finish itself.
#[utoipa::path(operation_id = "update_coordinator", tag = "coordinators", request_body = ChangeBody,
    params(("coordinator_id" = String, Path, description = "The appointment"),
           ("If-Match" = i64, Header, description = "The version that you last read")),
    responses((status = 200, description = "The appointment", body = CoordinatorBody),
              (status = 409, description = "`version_conflict`, with `current_version`; `invalid_transition`", body = ProblemBody),
              (status = 428, description = "`precondition_required`", body = ProblemBody)))]
#[patch("/coordinators/{coordinator_id}")]
async fn change(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ChangeBody>,
) -> Reply {
    let coordinator_id = id("coordinator", &path)?;
    let seen = if_match_of("coordinator", &request)?;
    let said = body.value;
    let change = CoordinatorChange { status: said.status, guardrails: said.guardrails, reason: said.reason };
    let changed = coordinators::change(&doors.ctx, &asker.caller, coordinator_id, seen, change).await?;
    shown(changed, &doors, &asker)
}
