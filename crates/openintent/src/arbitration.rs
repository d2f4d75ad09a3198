//! Arbitration (RFC-0003): requests for a ruling, and decisions. Owns the tables `arbitrations` and
//! `decisions`.

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{ArbitrationId, DecisionId, IntentId};
use entente_domain::limits::PAGE;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::arbitration as domain;
use entente_domain::openintent::arbitration::{
    Arbitration, ArbitrationAsk, ArbitrationStatus, Decision, DecisionAsk,
};
use entente_kernel::access::membership;
use entente_kernel::{AppError, Caller, IntentTx, Outcome, not_found, unknown};
use serde_json::json;
use sqlx::PgConnection;

use crate::Ctx;

/// Requests arbitration on an intent.
///
/// # Errors
/// The intent does not exist or is not writable; the request is invalid.
pub async fn request(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: ArbitrationAsk,
    once: Option<&Idempotency>,
) -> Outcome<Arbitration> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    work.require(Level::Write)?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let now = work.now();
    let made = domain::request(ask, intent_id, &caller.agent, ArbitrationId::mint(now, &*ctx.chance), now)?;
    insert(work.conn(), &made).await?;
    let payload = json!({
        "arbitration_id": made.id, "requester_id": made.requester_id, "reason": made.reason, "context": made.context,
        "options": made.options,
    });
    work.record(Draft::of(Kind::ArbitrationRequested, &caller.agent, payload));
    work.finish(made).await
}

/// Returns the newest [`PAGE`] requests for arbitration on an intent, oldest first.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn requests(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    status: Option<ArbitrationStatus>,
) -> Outcome<Vec<Arbitration>> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    membership::require(&mut connection, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    load(&mut connection, intent_id, None, status).await
}

/// Records a decision on an intent.
///
/// A decision that names a request for arbitration resolves it. A resolved request counts as not found, as
/// with requests for access (OI-7.6).
///
/// # Errors
/// The intent does not exist or the caller is no admin of it; there is no such pending request; the decision
/// is invalid.
pub async fn decide(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: DecisionAsk,
    once: Option<&Idempotency>,
) -> Outcome<Decision> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    work.require(Level::Admin)?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    let now = work.now();
    let made = domain::decide(ask, intent_id, &caller.agent, DecisionId::mint(now, &*ctx.chance), now)?;
    if let Some(id) = made.arbitration_id {
        let pending = Some(ArbitrationStatus::Pending);
        let found = load(work.conn(), intent_id, Some(id), pending).await?.pop();
        found.ok_or_else(|| not_found("pending request for arbitration"))?;
        resolve(work.conn(), id, &made).await?;
    }
    insert_decision(work.conn(), &made).await?;
    let payload = json!({
        "decision_id": made.id, "decision_maker_id": made.decision_maker_id, "decision_type": made.decision_type,
        "outcome": made.outcome, "reasoning": made.reasoning, "evidence": made.evidence,
        "arbitration_id": made.arbitration_id,
    });
    work.record(Draft::of(Kind::DecisionRecorded, &caller.agent, payload));
    work.finish(made).await
}

/// Returns the newest [`PAGE`] decisions on an intent, oldest first.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn decisions(ctx: &Ctx, caller: &Caller, intent_id: IntentId) -> Outcome<Vec<Decision>> {
    caller.require(Scope::IntentsRead)?;
    let mut connection = ctx.pool.acquire().await?;
    membership::require(&mut connection, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    let rows = sqlx::query_as!(
        DecisionRow,
        "-- arbitration::decisions
         SELECT id, intent_id, decision_maker_id, decision_type, outcome, reasoning, evidence, arbitration_id, created_at
         FROM decisions WHERE intent_id = $1 ORDER BY id DESC LIMIT $2",
        intent_id.uuid(),
        i64::from(PAGE)
    )
    .fetch_all(&mut *connection)
    .await?;
    rows.into_iter().rev().map(Decision::try_from).collect()
}

struct Row {
    id: uuid::Uuid,
    intent_id: uuid::Uuid,
    requester_id: String,
    reason: String,
    context: String,
    options: String,
    status: String,
    decision_id: Option<uuid::Uuid>,
    resolution: Option<String>,
    created_at: Timestamp,
    resolved_at: Option<Timestamp>,
}

impl TryFrom<Row> for Arbitration {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            requester_id: row.requester_id,
            reason: row.reason,
            context: serde_json::from_str(&row.context)?,
            options: serde_json::from_str(&row.options)?,
            status: ArbitrationStatus::parse(&row.status)
                .ok_or_else(|| unknown("arbitration status", &row.status))?,
            decision_id: row.decision_id.map(DecisionId::from),
            resolution: row.resolution,
            created_at: row.created_at,
            resolved_at: row.resolved_at,
        })
    }
}

struct DecisionRow {
    id: uuid::Uuid,
    intent_id: uuid::Uuid,
    decision_maker_id: String,
    decision_type: String,
    outcome: String,
    reasoning: String,
    evidence: String,
    arbitration_id: Option<uuid::Uuid>,
    created_at: Timestamp,
}

impl TryFrom<DecisionRow> for Decision {
    type Error = AppError;

    fn try_from(row: DecisionRow) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            decision_maker_id: row.decision_maker_id,
            decision_type: row.decision_type,
            outcome: row.outcome,
            reasoning: row.reasoning,
            evidence: serde_json::from_str(&row.evidence)?,
            arbitration_id: row.arbitration_id.map(ArbitrationId::from),
            created_at: row.created_at,
        })
    }
}

/// Loads the newest [`PAGE`] requests on an intent, optionally only this id or this status, oldest first.
async fn load(
    conn: &mut PgConnection,
    intent_id: IntentId,
    id: Option<ArbitrationId>,
    status: Option<ArbitrationStatus>,
) -> Outcome<Vec<Arbitration>> {
    let rows = sqlx::query_as!(
        Row,
        "-- arbitration::load
         SELECT id, intent_id, requester_id, reason, context, options, status, decision_id, resolution, created_at,
                resolved_at
         FROM arbitrations
         WHERE intent_id = $1 AND ($3::text IS NULL OR status = $3)
           -- As a range, which the index finds whether or not an id is given.
           AND id BETWEEN coalesce($2, '00000000-0000-0000-0000-000000000000'::uuid)
                  AND coalesce($2, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
         ORDER BY id DESC LIMIT $4",
        intent_id.uuid(),
        id.map(ArbitrationId::uuid),
        status.map(ArbitrationStatus::as_str),
        i64::from(PAGE)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().rev().map(Arbitration::try_from).collect()
}

async fn insert(conn: &mut PgConnection, made: &Arbitration) -> Outcome<()> {
    sqlx::query!(
        "-- arbitration::insert
         INSERT INTO arbitrations (id, intent_id, requester_id, reason, context, options, status, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        made.id.uuid(),
        made.intent_id.uuid(),
        made.requester_id,
        made.reason,
        serde_json::to_string(&made.context)?,
        serde_json::to_string(&made.options)?,
        made.status.as_str(),
        made.created_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores which decision resolved a request.
async fn resolve(conn: &mut PgConnection, id: ArbitrationId, by: &Decision) -> Outcome<()> {
    sqlx::query!(
        "-- arbitration::resolve
         UPDATE arbitrations SET status = $2, decision_id = $3, resolution = $4, resolved_at = $5 WHERE id = $1",
        id.uuid(),
        ArbitrationStatus::Resolved.as_str(),
        by.id.uuid(),
        by.outcome,
        by.created_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn insert_decision(conn: &mut PgConnection, made: &Decision) -> Outcome<()> {
    sqlx::query!(
        "-- arbitration::insert_decision
         INSERT INTO decisions (id, intent_id, decision_maker_id, decision_type, outcome, reasoning, evidence,
                                arbitration_id, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        made.id.uuid(),
        made.intent_id.uuid(),
        made.decision_maker_id,
        made.decision_type,
        made.outcome,
        made.reasoning,
        serde_json::to_string(&made.evidence)?,
        made.arbitration_id.map(ArbitrationId::uuid),
        made.created_at
    )
    .execute(conn)
    .await?;
    Ok(())
}
