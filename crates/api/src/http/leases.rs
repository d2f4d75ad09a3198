//! Routes of leases (RFC-0003, contract 6), and how a lease looks on the wire.

use actix_web::{HttpRequest, delete, get, patch, post, web};
use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, LeaseId};
use entente_domain::keys::Dialect;
use entente_domain::leases::{DEFAULT_SECONDS, Lease, LeaseAsk, LeaseStatus};
use entente_kernel::leases;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::{Body, OptionalBody, Query, id};
use super::caller::Asker;
use super::error::{Problem, ProblemBody, Reply};
use super::wire::WireTime;
use super::{Doors, ok};
use crate::http::routes::Routes;

pub fn routes(config: &mut Routes<'_>) {
    config.service(acquire).service(list).service(renew).service(release);
}

/// A lease.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Lease)]
pub struct LeaseBody {
    /// Its id.
    id: LeaseId,
    /// The intent.
    intent_id: IntentId,
    /// Who holds it.
    #[schema(example = "agent.researcher")]
    agent_id: String,
    /// The scope, as its holder wrote it.
    #[schema(example = "research")]
    scope: String,
    /// Where it is in its life.
    status: LeaseStatus,
    /// Rises with every lease on the intent: of two holders of a scope the later one has the larger token.
    #[schema(example = 42)]
    fencing_token: i64,
    /// Since when it is held.
    acquired_at: WireTime,
    /// The same, under the SDK's name.
    created_at: WireTime,
    /// Until when; it holds nothing from that instant.
    expires_at: WireTime,
    /// When it was given back or taken away.
    released_at: Option<WireTime>,
}

impl LeaseBody {
    /// A lease as it is at this moment.
    pub fn new(lease: &Lease, now: Timestamp, dialect: Dialect) -> Self {
        Self { status: lease.status_at(now), ..Self::written(lease, dialect) }
    }

    /// A lease as it was written down.
    pub fn written(lease: &Lease, dialect: Dialect) -> Self {
        // One that ran out was never released: `expires_at` says when it ended (contract 6).
        let released_at = lease.ended_at.filter(|_| lease.status != LeaseStatus::Expired);
        Self {
            id: lease.id,
            intent_id: lease.intent_id,
            agent_id: lease.agent_id.clone(),
            scope: lease.scope.clone(),
            status: lease.status,
            fencing_token: lease.fencing_token,
            acquired_at: WireTime::new(lease.acquired_at, dialect),
            created_at: WireTime::new(lease.acquired_at, dialect),
            expires_at: WireTime::new(lease.expires_at, dialect),
            released_at: released_at.map(|at| WireTime::new(at, dialect)),
        }
    }
}

/// What is asked for in a new lease.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewLease)]
#[schema(example = json!({ "scope": "research", "duration_seconds": 300 }))]
struct AcquireBody {
    /// A part of the intent's state, such as `research` or `research/sources`; `*` for all of it. Covers what is below.
    scope: String,
    /// For how long: 1 to 604,800 seconds; 300 when nothing is said.
    duration_seconds: Option<i64>,
    /// Who will hold it; the acting agent when nothing is said.
    agent_id: Option<String>,
}

/// Acquire a lease
///
/// Until it ends, nobody else can acquire its scope or one that overlaps it, nor patch that part of the state. It never
/// outlives its holder's access to the intent.
#[utoipa::path(operation_id = "acquire_lease", tag = "leases", request_body = AcquireBody,
    params(("intent_id" = String, Path, description = "The intent"),
           ("Idempotency-Key" = Option<String>, Header, description = "A retry with the same key is done once")),
    responses((status = 200, description = "The lease", body = LeaseBody),
              (status = 409, description = "`lease_held`, with `existing_lease`; `intent_resolved`", body = ProblemBody)))]
#[post("/intents/{intent_id}/leases")]
async fn acquire(
    request: HttpRequest,
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<AcquireBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let strict = doors.ctx.settings.strict;
    let holder = asker.caller.speaker("agent_id", said.agent_id.as_deref(), strict)?;
    let ask =
        LeaseAsk { scope: said.scope, duration_seconds: said.duration_seconds.unwrap_or(DEFAULT_SECONDS) };
    let caller = asker.caller.acting_as(holder);
    let lease = leases::acquire(&doors.ctx, &caller, intent_id, ask, once.as_ref()).await?;
    ok(&LeaseBody::new(&lease, doors.ctx.now(), asker.dialect))
}

/// The leases on an intent.
#[derive(Debug, Serialize, ToSchema)]
struct LeaseList {
    /// The leases, oldest first.
    leases: Vec<LeaseBody>,
}

/// List the leases on an intent
///
/// Those that are held, oldest first; the last 1,000 of them.
#[utoipa::path(operation_id = "list_leases", tag = "leases",
    params(("intent_id" = String, Path, description = "The intent"),
           ("status" = Option<String>, Query, description = "`active` when nothing is said; `released`, `expired`, `revoked`, or `all`"),
           ("format" = Option<String>, Query, description = "`array` for a bare array")),
    responses((status = 200, description = "The leases", body = LeaseList)))]
#[get("/intents/{intent_id}/leases")]
async fn list(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let status = match query.text("status") {
        None => Some(LeaseStatus::Active),
        Some("all") => None,
        Some(_) => query.parsed("status", "a lease's status or `all`", LeaseStatus::parse)?,
    };
    let bare = query.parsed("format", "`array`", |text| (text == "array").then_some(()))?.is_some();
    let found = leases::list(&doors.ctx, &asker.caller, id("intent", &path)?, status).await?;
    let now = doors.ctx.now();
    let leases: Vec<LeaseBody> =
        found.iter().map(|lease| LeaseBody::new(lease, now, asker.dialect)).collect();
    if bare { ok(&leases) } else { ok(&LeaseList { leases }) }
}

/// For how long a lease is to go on.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = LeaseRenewal)]
#[schema(example = json!({ "duration_seconds": 300 }))]
struct RenewBody {
    /// From now on: 1 to 604,800 seconds; 300 when nothing is said.
    duration_seconds: Option<i64>,
}

/// Renew a lease
///
/// Only its holder, and only while it is held: one that has ended is acquired anew.
#[utoipa::path(operation_id = "renew_lease", tag = "leases", request_body = Option<RenewBody>,
    params(("intent_id" = String, Path, description = "The intent"), ("lease_id" = String, Path, description = "The lease")),
    responses((status = 200, description = "The lease", body = LeaseBody),
              (status = 409, description = "`lease_ended`", body = ProblemBody)))]
#[patch("/intents/{intent_id}/leases/{lease_id}")]
async fn renew(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: OptionalBody<RenewBody>,
) -> Reply {
    let (intent_id, lease_id) = ids(&path)?;
    let seconds = body.0.value.duration_seconds.unwrap_or(DEFAULT_SECONDS);
    let lease = leases::renew(&doors.ctx, &asker.caller, intent_id, lease_id, seconds).await?;
    ok(&LeaseBody::new(&lease, doors.ctx.now(), asker.dialect))
}

fn ids(path: &(String, String)) -> Result<(IntentId, LeaseId), Problem> {
    Ok((id("intent", &path.0)?, id("lease", &path.1)?))
}

/// What is said of a lease that ended.
#[derive(Debug, Serialize, ToSchema)]
struct LeaseEnd {
    /// For people.
    #[schema(example = "Lease released")]
    message: &'static str,
    /// The lease.
    lease: LeaseBody,
}

/// Release a lease
///
/// Its holder gives it back; a creator or admin of the intent takes it away. Once more changes nothing.
#[utoipa::path(operation_id = "release_lease", tag = "leases",
    params(("intent_id" = String, Path, description = "The intent"), ("lease_id" = String, Path, description = "The lease")),
    responses((status = 200, description = "It has ended", body = LeaseEnd)))]
#[delete("/intents/{intent_id}/leases/{lease_id}")]
async fn release(doors: web::Data<Doors>, asker: Asker, path: web::Path<(String, String)>) -> Reply {
    let (intent_id, lease_id) = ids(&path)?;
    let lease = leases::release(&doors.ctx, &asker.caller, intent_id, lease_id).await?;
    let message = "Lease released";
    ok(&LeaseEnd { message, lease: LeaseBody::new(&lease, doors.ctx.now(), asker.dialect) })
}
