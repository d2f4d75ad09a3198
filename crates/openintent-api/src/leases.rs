//! Lease routes (RFC-0003, OI-6).

use std::time::Duration;

use actix_web::{HttpRequest, delete, get, patch, post, web};
use entente_domain::ids::{IntentId, LeaseId};
use entente_domain::openintent::leases::queue::LeaseWait;
use entente_domain::openintent::leases::{DEFAULT_SECONDS, LeaseAsk, LeaseStatus};
use entente_http::body::{Body, IdempotencyKey, OptionalBody, Query, id};
use entente_http::caller::Asker;
use entente_http::error::{Problem, ProblemBody, Reply};
use entente_http::lease::LeaseBody;
use entente_http::ok;
use entente_http::presence::Presence;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_openintent::leases;
use entente_openintent::leases::WAIT_SECONDS;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(acquire).service(list).service(waiting).service(renew).service(release);
}

/// A lease to acquire.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewLease)]
#[schema(example = json!({ "scope": "research", "duration_seconds": 300 }))]
struct AcquireBody {
    /// A part of the intent's state, such as `research` or `research/sources`, including everything below it;
    /// `*` for the whole state.
    scope: String,
    /// Duration: 1 to 604,800 seconds; defaults to 300.
    duration_seconds: Option<i64>,
    /// Agent that will hold the lease; defaults to the acting agent.
    agent_id: Option<String>,
}

/// Acquire a lease
///
/// Until the lease ends, no other agent can acquire its scope or an overlapping one, or patch that part of
/// the state. A lease never outlives its holder's access to the intent. A write with `Entente-Lease: <id>; token=<fencing_token>`,
/// whatever it is about, takes effect only while the lease is held; otherwise it is refused with `lease_ended`.
///
/// With `wait`, the request takes a place in the queue while the scope is held, and gets the lease in its turn: nobody who
/// came later gets an overlapping scope before it, on any server. When the time is up it is refused, and its place is kept for
/// some seconds: repeat the request to go on waiting.
#[utoipa::path(operation_id = "acquire_lease", tag = "leases", request_body = AcquireBody,
    params(IdempotencyKey,
           ("wait" = Option<u32>, Query, description = "Seconds to wait for the lease, up to 25; defaults to 0", maximum = 25)),
    responses((status = 200, description = "The lease", body = LeaseBody),
              (status = 409, description = "`lease_held`, with `existing_lease` or, while others wait, without one; \
                                            `intent_resolved`", body = ProblemBody)))]
#[post("/intents/{intent_id}/leases")]
async fn acquire(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    presence: Presence,
    path: web::Path<String>,
    query: Query,
    body: Body<AcquireBody>,
) -> Reply {
    let wait = query.wait(WAIT_SECONDS)?;
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let strict = api.ctx.settings.strict;
    let holder = asker.caller.speaker("agent_id", said.agent_id.as_deref(), strict)?;
    let ask =
        LeaseAsk { scope: said.scope, duration_seconds: said.duration_seconds.unwrap_or(DEFAULT_SECONDS) };
    let caller = asker.caller.acting_as(holder);
    let lease = if wait == 0 {
        leases::acquire(&api.ctx, &caller, intent_id, ask, once.as_ref()).await?
    } else {
        let _permit = caller.waits(api.limits.max_streams_per_key)?;
        let (wait, once) = (Duration::from_secs(wait.into()), once.as_ref());
        let lease =
            leases::acquire_in_turn(&api.ctx, &caller, intent_id, ask, once, wait, presence.over()).await?;
        // With an idempotency key the client can ask for the lease that it did not hear of.
        if once.is_none() && presence.is_gone().await {
            leases::release(&api.ctx, &caller, intent_id, lease.id).await?;
            return Err(Presence::refusal());
        }
        lease
    };
    ok(&LeaseBody::new(&lease, api.ctx.now(), asker.dialect))
}

/// A request that waits for a lease.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LeaseWait)]
struct WaitBody {
    /// Agent that waits.
    #[schema(example = "agent.researcher")]
    agent_id: String,
    /// The scope that it waits for, as it wrote it.
    #[schema(example = "research")]
    scope: String,
    /// Since when it waits.
    since: WireTime,
}

/// The queue for leases on an intent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LeaseQueue)]
struct QueueBody {
    /// The waiting requests; the first one has the first turn.
    waiting: Vec<WaitBody>,
}

/// List the requests that wait for leases on an intent
#[utoipa::path(operation_id = "list_lease_waits", tag = "leases",
    responses((status = 200, description = "The queue", body = QueueBody)))]
#[get("/intents/{intent_id}/leases/waiting")]
async fn waiting(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = leases::waiting(&api.ctx, &asker.caller, id("intent", &path)?).await?;
    let body = |wait: LeaseWait| WaitBody {
        agent_id: wait.agent_id,
        scope: wait.scope,
        since: WireTime::new(wait.since, asker.dialect),
    };
    ok(&QueueBody { waiting: found.into_iter().map(body).collect() })
}

/// The leases on an intent.
#[derive(Debug, Serialize, ToSchema)]
struct LeaseList {
    /// The leases, oldest first.
    leases: Vec<LeaseBody>,
}

/// The leases on an intent, oldest first: an object, or a bare array on request.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Leases)]
#[serde(untagged)]
enum LeasesBody {
    /// The default.
    Object(LeaseList),
    /// With `format=array`.
    Array(Vec<LeaseBody>),
}

/// List the leases on an intent
///
/// Returns the active leases, oldest first; at most the last 1,000.
#[utoipa::path(operation_id = "list_leases", tag = "leases",
    params(("status" = Option<String>, Query, description = "Status: `active`, `released`, `expired`, `revoked` or `all`; defaults to `active`"),
           ("format" = Option<String>, Query, description = "`array` returns a bare array; defaults to an object")),
    responses((status = 200, description = "The leases", body = LeasesBody)))]
#[get("/intents/{intent_id}/leases")]
async fn list(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let status = match query.text("status") {
        None => Some(LeaseStatus::Active),
        Some("all") => None,
        Some(_) => query.parsed("status", "a lease's status or `all`", LeaseStatus::parse)?,
    };
    let bare = query.parsed("format", "`array`", |text| (text == "array").then_some(()))?.is_some();
    let found = leases::list(&api.ctx, &asker.caller, id("intent", &path)?, status).await?;
    let now = api.ctx.now();
    let leases: Vec<LeaseBody> =
        found.iter().map(|lease| LeaseBody::new(lease, now, asker.dialect)).collect();
    ok(&if bare { LeasesBody::Array(leases) } else { LeasesBody::Object(LeaseList { leases }) })
}

/// Options of a lease renewal.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = LeaseRenewal)]
#[schema(example = json!({ "duration_seconds": 300 }))]
struct RenewBody {
    /// Duration from now: 1 to 604,800 seconds; defaults to 300.
    duration_seconds: Option<i64>,
}

/// Renew a lease
///
/// Allowed for the holder while the lease is active. A lease that has ended must be acquired anew.
#[utoipa::path(operation_id = "renew_lease", tag = "leases", request_body = Option<RenewBody>,
    responses((status = 200, description = "The lease", body = LeaseBody),
              (status = 409, description = "`lease_ended`", body = ProblemBody)))]
#[patch("/intents/{intent_id}/leases/{lease_id}")]
async fn renew(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: OptionalBody<RenewBody>,
) -> Reply {
    let (intent_id, lease_id) = ids(&path)?;
    let seconds = body.0.value.duration_seconds.unwrap_or(DEFAULT_SECONDS);
    let lease = leases::renew(&api.ctx, &asker.caller, intent_id, lease_id, seconds).await?;
    ok(&LeaseBody::new(&lease, api.ctx.now(), asker.dialect))
}

fn ids(path: &(String, String)) -> Result<(IntentId, LeaseId), Problem> {
    Ok((id("intent", &path.0)?, id("lease", &path.1)?))
}

/// The response to a release.
#[derive(Debug, Serialize, ToSchema)]
struct LeaseEnd {
    /// Message for people.
    #[schema(example = "Lease released")]
    message: &'static str,
    /// The lease.
    lease: LeaseBody,
}

/// Release a lease
///
/// Its holder releases the lease; a creator or admin of the intent revokes it. Repeating the request changes
/// nothing.
#[utoipa::path(operation_id = "release_lease", tag = "leases",
    responses((status = 200, description = "The ended lease", body = LeaseEnd)))]
#[delete("/intents/{intent_id}/leases/{lease_id}")]
async fn release(api: web::Data<ApiState>, asker: Asker, path: web::Path<(String, String)>) -> Reply {
    let (intent_id, lease_id) = ids(&path)?;
    let lease = leases::release(&api.ctx, &asker.caller, intent_id, lease_id).await?;
    let message = "Lease released";
    ok(&LeaseEnd { message, lease: LeaseBody::new(&lease, api.ctx.now(), asker.dialect) })
}
