//! Routes of stops: one call after which a subject starts nothing any more.

use actix_web::{HttpRequest, delete, get, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{BudgetId, StopId};
use entente_domain::limits::PAGE;
use entente_domain::stops::Stop;
use entente_domain::subjects::Subject;
use entente_kernel::stops;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Body, IdempotencyKey, Limit1000, Query, id};
use crate::caller::Asker;
use crate::error::Reply;
use crate::routes::Routes;
use crate::wire::WireTime;
use crate::{HttpState, created, ok};

pub fn routes(config: &mut Routes<'_>) {
    config.service(make).service(list).service(get).service(lift);
}

/// A stop.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Stop)]
pub struct StopBody {
    /// Its id.
    id: StopId,
    /// Who is stopped.
    #[schema(value_type = String, example = "team:research")]
    scope: Subject,
    /// Why.
    reason: String,
    /// The budget whose threshold made it; null if somebody did.
    budget_id: Option<BudgetId>,
    /// Whether it is in force.
    in_force: bool,
    /// Principal that made it.
    created_by: String,
    /// When it was made.
    created_at: WireTime,
    /// Principal that lifted it.
    lifted_by: Option<String>,
    /// When it was lifted.
    lifted_at: Option<WireTime>,
}

impl StopBody {
    fn new(stop: Stop, dialect: Dialect) -> Self {
        let time = |at| WireTime::new(at, dialect);
        Self {
            id: stop.id,
            scope: stop.scope,
            reason: stop.reason,
            budget_id: stop.budget_id,
            in_force: stop.lifted_at.is_none(),
            created_by: stop.created_by,
            created_at: time(stop.created_at),
            lifted_by: stop.lifted_by,
            lifted_at: stop.lifted_at.map(time),
        }
    }
}

/// A stop to make.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewStop, example = json!({ "scope": "team:research", "reason": "The prompt leaks customer data." }))]
struct MakeBody {
    /// Who is stopped: `system`, `team:NAME`, `principal:NAME`, `agent:NAME`, `intent:ID` or `key:ID`.
    scope: String,
    /// Why; those who are stopped read it.
    reason: String,
}

/// A page of stops.
#[derive(Debug, Serialize, ToSchema)]
struct StopList {
    /// The stops, newest first.
    stops: Vec<StopBody>,
}

/// Stop a subject
///
/// Needs the scope `admin`. Within a second, on all servers: new jobs, claims, operations and reservations, messages,
/// events, envelopes, intents, dispatches and tool calls of the subject are refused with `stopped`; its running jobs are
/// told to end and are ended after the grace time of a cancellation; their credentials are revoked. Work under way may
/// be reported and settled, and people may answer. Pending jobs wait until the stop is lifted.
#[utoipa::path(operation_id = "make_stop", tag = "budgets", request_body = MakeBody, params(IdempotencyKey),
    responses((status = 201, description = "The stop", body = StopBody)))]
#[post("/stops")]
async fn make(request: HttpRequest, api: web::Data<HttpState>, asker: Asker, body: Body<MakeBody>) -> Reply {
    let once = body.once(&request)?;
    let MakeBody { scope, reason } = body.value;
    let scope = Subject::read("scope", &scope)?;
    let stop = stops::make(&api.ctx, &asker.caller, scope, reason, once.as_ref()).await?;
    created(&StopBody::new(stop, asker.dialect))
}

/// List stops
///
/// The stops in force, or with `lifted=true` all. Callers without the scope `admin` see the one that stops them.
#[utoipa::path(operation_id = "list_stops", tag = "budgets",
    params(("lifted" = Option<bool>, Query, description = "Whether to list lifted stops as well"),
           ("before" = Option<String>, Query, description = "Id of the last stop of the previous page"), Limit1000),
    responses((status = 200, description = "The stops", body = StopList)))]
#[get("/stops")]
async fn list(api: web::Data<HttpState>, asker: Asker, query: Query) -> Reply {
    let before = query.text("before").map(|text| id::<StopId>("stop", text)).transpose()?;
    let lifted = query.text("lifted") == Some("true");
    let found = stops::list(&api.ctx, &asker.caller, lifted, before, query.limit(PAGE)?).await?;
    ok(&StopList { stops: found.into_iter().map(|stop| StopBody::new(stop, asker.dialect)).collect() })
}

/// Get a stop
///
/// Needs the scope `admin`.
#[utoipa::path(operation_id = "get_stop", tag = "budgets",
    params(("stop_id" = StopId, Path, description = "Id of the stop")),
    responses((status = 200, description = "The stop", body = StopBody)))]
#[get("/stops/{stop_id}")]
async fn get(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    ok(&StopBody::new(stops::get(&api.ctx, &asker.caller, id("stop", &path)?).await?, asker.dialect))
}

/// Lift a stop
///
/// Needs the scope `admin`. Jobs that were told to end stay so. Lifting it again changes nothing.
#[utoipa::path(operation_id = "lift_stop", tag = "budgets",
    params(("stop_id" = StopId, Path, description = "Id of the stop")),
    responses((status = 200, description = "The lifted stop", body = StopBody)))]
#[delete("/stops/{stop_id}")]
async fn lift(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    ok(&StopBody::new(stops::lift(&api.ctx, &asker.caller, id("stop", &path)?).await?, asker.dialect))
}
