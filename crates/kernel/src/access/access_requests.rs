//! Requests for access to an intent, and the decisions about them (RFC-0011). Owns the table
//! `access_requests`.

use entente_domain::access::access_requests as requests;
use entente_domain::access::access_requests::{AccessRequest, RequestAsk, RequestStatus};
use entente_domain::access::{self as domain, EntryAsk, Level};
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{AccessRequestId, EntryId, IntentId};
use entente_domain::limits::PAGE;
use entente_domain::log::events::{Draft, Kind};
use serde_json::json;
use sqlx::PgConnection;

use crate::access::membership;
use crate::{AppError, Caller, Ctx, IntentTx, Outcome, access, not_found, unknown};

/// Requests access to an intent; the caller needs no access for this (RFC-0011).
///
/// # Errors
/// The intent does not exist; the request is invalid.
pub async fn request(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: RequestAsk,
    once: Option<&Idempotency>,
) -> Outcome<AccessRequest> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    membership::find(work.conn(), &ask.principal_id, intent_id, ctx.now())
        .await?
        .ok_or_else(|| not_found("intent"))?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let now = work.now();
    let request = requests::request(ask, intent_id, AccessRequestId::mint(now, &*ctx.chance), now)?;
    insert(work.conn(), &request).await?;
    let payload = json!({
        "request_id": request.id, "principal_id": request.principal_id, "principal_type": request.principal_type,
        "requested_permission": request.requested_permission, "reason": request.reason,
    });
    work.record(Draft::of(Kind::AccessRequested, &request.principal_id, payload));
    work.finish(request).await
}

/// Returns the newest [`PAGE`] requests for access to an intent, oldest first: all of these for callers that
/// manage access, only their own for others.
///
/// # Errors
/// The intent does not exist.
pub async fn list(ctx: &Ctx, caller: &Caller, intent_id: IntentId) -> Outcome<Vec<AccessRequest>> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    let membership = membership::find(&mut connection, &caller.agent, intent_id, ctx.now())
        .await?
        .ok_or_else(|| not_found("intent"))?;
    let every = load(&mut connection, intent_id, None).await?;
    if membership.access.reaches(Level::Admin) || caller.has(Scope::Admin) {
        return Ok(every);
    }
    Ok(every.into_iter().filter(|request| request.principal_id == caller.agent).collect())
}

/// The decision on a request.
#[derive(Debug, Clone)]
pub enum Judgement {
    /// Grants access, optionally with another level or an expiry.
    Approve {
        /// The access level granted; defaults to the one requested.
        permission: Option<Level>,
        /// When the access expires.
        expires_at: Option<Timestamp>,
    },
    /// Denies access.
    Deny,
}

/// Decides a request for access; a request that is already decided counts as not found (OI-7.6).
///
/// # Errors
/// The caller does not manage access; this intent has no such pending request.
pub async fn decide(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    id: AccessRequestId,
    decided_by: &str,
    decision: Judgement,
    reason: Option<String>,
) -> Outcome<AccessRequest> {
    caller.require(Scope::IntentsWrite)?;
    domain::check_reason(reason.as_deref())?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, None).await?;
    let judge = caller.acting_as(decided_by.to_owned());
    membership::require_manager(work.conn(), &judge, intent_id, ctx.now()).await?;
    let now = work.now();
    let found = load(work.conn(), intent_id, Some(id)).await?.pop();
    let pending = found.filter(|request| request.status == RequestStatus::Pending);
    let mut request = pending.ok_or_else(|| not_found("pending access request"))?;
    request.decided_by = Some(decided_by.to_owned());
    request.decided_at = Some(now);
    request.decision_reason.clone_from(&reason);
    let kind = match decision {
        Judgement::Approve { permission, expires_at } => {
            let ask = EntryAsk {
                principal_id: request.principal_id.clone(),
                principal_type: Some(request.principal_type.clone()),
                permission: Some(permission.unwrap_or(request.requested_permission)),
                expires_at,
                reason,
            };
            access::check_room(access::load(work.conn(), intent_id, now).await?.entries.len() + 1)?;
            let entry = domain::grant(ask, intent_id, decided_by, EntryId::mint(now, &*ctx.chance), now)?;
            access::insert(work.conn(), std::slice::from_ref(&entry)).await?;
            request.status = RequestStatus::Approved;
            work.record(Draft::of(Kind::AccessGranted, decided_by, access::event_payload(&entry)));
            let (conn, log) = work.parts();
            access::take_from_outsiders(conn, ctx, log, decided_by).await?;
            Kind::AccessRequestApproved
        }
        Judgement::Deny => {
            request.status = RequestStatus::Denied;
            Kind::AccessRequestDenied
        }
    };
    save_decision(work.conn(), &request).await?;
    let payload =
        json!({ "request_id": id, "principal_id": request.principal_id, "reason": request.decision_reason });
    work.record(Draft::of(kind, decided_by, payload));
    work.finish(request).await
}

struct Row {
    id: uuid::Uuid,
    intent_id: uuid::Uuid,
    principal_id: String,
    principal_type: String,
    requested_permission: String,
    reason: String,
    status: String,
    capabilities: Vec<String>,
    decided_by: Option<String>,
    decided_at: Option<Timestamp>,
    decision_reason: Option<String>,
    created_at: Timestamp,
}

impl TryFrom<Row> for AccessRequest {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            principal_id: row.principal_id,
            principal_type: row.principal_type,
            requested_permission: membership::level(&row.requested_permission)?,
            reason: row.reason,
            status: RequestStatus::parse(&row.status)
                .ok_or_else(|| unknown("request status", &row.status))?,
            capabilities: row.capabilities,
            decided_by: row.decided_by,
            decided_at: row.decided_at,
            decision_reason: row.decision_reason,
            created_at: row.created_at,
        })
    }
}

/// Loads the newest [`PAGE`] requests for an intent, or only the one with this id, oldest first.
async fn load(
    conn: &mut PgConnection,
    intent_id: IntentId,
    id: Option<AccessRequestId>,
) -> Outcome<Vec<AccessRequest>> {
    let rows = sqlx::query_as!(
        Row,
        "-- access_requests::load
         SELECT id, intent_id, principal_id, principal_type, requested_permission, reason, status, capabilities,
                decided_by, decided_at, decision_reason, created_at
         FROM access_requests WHERE intent_id = $1 AND ($2::uuid IS NULL OR id = $2) ORDER BY id DESC LIMIT $3",
        intent_id.uuid(),
        id.map(AccessRequestId::uuid),
        i64::from(PAGE)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().rev().map(AccessRequest::try_from).collect()
}

async fn insert(conn: &mut PgConnection, request: &AccessRequest) -> Outcome<()> {
    sqlx::query!(
        "-- access_requests::insert
         INSERT INTO access_requests (id, intent_id, principal_id, principal_type, requested_permission, reason, status,
                                      capabilities, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        request.id.uuid(),
        request.intent_id.uuid(),
        request.principal_id,
        request.principal_type,
        request.requested_permission.as_str(),
        request.reason,
        request.status.as_str(),
        &request.capabilities,
        request.created_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn save_decision(conn: &mut PgConnection, request: &AccessRequest) -> Outcome<()> {
    sqlx::query!(
        "-- access_requests::save_decision
         UPDATE access_requests SET status = $2, decided_by = $3, decided_at = $4, decision_reason = $5 WHERE id = $1",
        request.id.uuid(),
        request.status.as_str(),
        request.decided_by,
        request.decided_at,
        request.decision_reason
    )
    .execute(conn)
    .await?;
    Ok(())
}
