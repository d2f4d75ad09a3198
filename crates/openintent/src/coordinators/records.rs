//! Decisions of coordinators (RFC-0013 §4). Owns the table `coordinator_decisions`, whose rows are never
//! changed.

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{CoordinatorId, DecisionRecordId, IntentId};
use entente_domain::log::events::Kind;
use entente_domain::openintent::coordinators::{
    Coordinator, Decided, DecisionRecord, DecisionType, exceeded,
};
use entente_kernel::access::governance;
use entente_kernel::access::governance::Attempt;
use entente_kernel::access::membership;
use entente_kernel::{AppError, Caller, IntentTx, Outcome, not_found, unknown};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::{event_draft, lay_down, require_own, rows, settle};
use crate::Ctx;
use crate::tasks::visit;

/// Input for recording a decision.
#[derive(Debug, Clone)]
pub struct RecordAsk {
    /// The appointment: its id, or the agent's name.
    pub coordinator: String,
    /// The type of decision.
    pub decision_type: DecisionType,
    /// The decision.
    pub summary: String,
    /// The reason for it.
    pub rationale: String,
    /// The alternatives considered.
    pub alternatives: Vec<Value>,
    /// The coordinator's confidence in it.
    pub confidence: Option<f64>,
}

/// Records a coordinator's decision, which counts as a sign of life and of progress.
///
/// A decision that a guardrail forbids is refused, but the guardrail's consequence is committed.
///
/// # Errors
/// The intent does not exist or is not readable; there is no such current appointment; the caller is another
/// agent; the coordinator is paused; a guardrail is exceeded.
pub async fn decide(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: RecordAsk,
    once: Option<&Idempotency>,
) -> Outcome<DecisionRecord> {
    caller.require(Scope::IntentsWrite)?;
    let mut work = IntentTx::begin(ctx, caller, intent_id, once).await?;
    work.require(Level::Read)?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    // Before `settle` writes anything, because a refusal must leave nothing behind.
    let membership = work.require(Level::Write)?;
    let attempt =
        Attempt { intent_id, membership: &membership, agent: &caller.agent, operation: "record_decision" };
    let mut work = governance::admit(caller, work, attempt).await?;
    let now = work.now();
    let (conn, log) = work.parts();
    let there = settle(conn, ctx, log).await?;
    let named: Option<CoordinatorId> = ask.coordinator.parse().ok();
    let is = |one: &&Coordinator| named.map_or(one.agent_id == ask.coordinator, |id| one.id == id);
    let found = match (there.iter().find(is), named) {
        (Some(found), _) => found.clone(),
        // An appointment that is over is refused below, with its own reason.
        (None, Some(id)) => {
            let found = rows::load(conn, id).await?.filter(|one| one.intent_id == intent_id);
            found.ok_or_else(|| not_found("coordinator"))?
        }
        (None, None) => return Err(not_found("coordinator")),
    };
    require_own(caller, &found.agent_id)?;
    let made = DecisionRecord {
        id: DecisionRecordId::mint(now, &*ctx.chance),
        coordinator_id: found.id,
        agent_id: found.agent_id.clone(),
        intent_id,
        decision_type: ask.decision_type,
        summary: ask.summary,
        rationale: ask.rationale,
        alternatives: ask.alternatives,
        confidence: ask.confidence,
        at: now,
    };
    made.check()?;
    let plans = plans(conn, found.id).await?;
    let next = match found.decides(made.decision_type, plans, now)? {
        Decided::Lawful(next) => next,
        Decided::Exceeds(next) => return exceeds(ctx, work, next).await,
    };
    rows::update(conn, &next).await?;
    insert(conn, &made).await?;
    let more = json!({
        "id": made.id, "decision_type": made.decision_type, "summary": made.summary, "rationale": made.rationale,
        "confidence": made.confidence,
    });
    work.record(event_draft(Kind::CoordinatorDecision, &caller.agent, &next, &more));
    work.finish(made).await
}

/// Commits the guardrail's consequence, and refuses the decision.
async fn exceeds(
    ctx: &Ctx,
    mut work: IntentTx<'_>,
    next: Option<(Coordinator, Kind)>,
) -> Outcome<DecisionRecord> {
    let Some((next, kind)) = next else { return Err(exceeded().into()) };
    let (conn, log) = work.parts();
    rows::update(conn, &next).await?;
    let actor = entente_domain::identity::principals::SYSTEM;
    log.record(ctx, event_draft(kind, actor, &next, &json!({ "guardrail": "max_plan_versions" })));
    if next.status.is_over() {
        lay_down(conn, ctx, log, &next, actor).await?;
    }
    work.commit().await?;
    Err(exceeded().into())
}

struct Row {
    id: uuid::Uuid,
    coordinator_id: uuid::Uuid,
    agent_id: String,
    intent_id: uuid::Uuid,
    decision_type: String,
    summary: String,
    rationale: String,
    alternatives: String,
    confidence: Option<f64>,
    decided_at: Timestamp,
}

impl TryFrom<Row> for DecisionRecord {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            coordinator_id: row.coordinator_id.into(),
            agent_id: row.agent_id,
            intent_id: row.intent_id.into(),
            decision_type: DecisionType::parse(&row.decision_type)
                .ok_or_else(|| unknown("type of a decision", &row.decision_type))?,
            summary: row.summary,
            rationale: row.rationale,
            alternatives: serde_json::from_str(&row.alternatives)?,
            confidence: row.confidence,
            at: row.decided_at,
        })
    }
}

/// Selects a page of decisions: the query's name, the column that names their owner, and the page.
macro_rules! select {
    ($name:literal, $column:literal, $owner:expr, $before:expr, $limit:expr) => {
        sqlx::query_as!(
            Row,
            "-- " + $name + "
             SELECT id, coordinator_id, agent_id, intent_id, decision_type, summary, rationale, alternatives, confidence,
                    decided_at
             FROM coordinator_decisions
             WHERE " + $column + " = $1 AND id < coalesce($2, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
             ORDER BY id DESC LIMIT $3",
            $owner.uuid(),
            $before.map(DecisionRecordId::uuid),
            i64::from($limit)
        )
    };
}

/// Returns up to `limit` decisions on an intent before a given one, newest first.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn decisions(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    before: Option<DecisionRecordId>,
    limit: u32,
) -> Outcome<Vec<DecisionRecord>> {
    caller.require(Scope::IntentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    membership::require(&mut conn, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    let rows = select!("coordinator_decisions::of_intent", "intent_id", intent_id, before, limit)
        .fetch_all(&mut *conn)
        .await?;
    rows.into_iter().map(DecisionRecord::try_from).collect()
}

/// Returns up to `limit` decisions under an appointment before a given one, newest first.
///
/// # Errors
/// The appointment does not exist; also if its intent is not readable (OI-7.3).
pub async fn decisions_of(
    ctx: &Ctx,
    caller: &Caller,
    id: CoordinatorId,
    before: Option<DecisionRecordId>,
    limit: u32,
) -> Outcome<Vec<DecisionRecord>> {
    caller.require(Scope::IntentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    let found = rows::load(&mut conn, id).await?.ok_or_else(|| not_found("coordinator"))?;
    visit(&mut conn, ctx, caller, found.intent_id, "coordinator").await?;
    let rows = select!("coordinator_decisions::of_coordinator", "coordinator_id", id, before, limit)
        .fetch_all(&mut *conn)
        .await?;
    rows.into_iter().map(DecisionRecord::try_from).collect()
}

/// Returns the number of decisions under an appointment that created or modified plans.
async fn plans(conn: &mut PgConnection, id: CoordinatorId) -> Outcome<u64> {
    let count = sqlx::query_scalar!(
        r#"-- coordinator_decisions::plans
         SELECT count(*) AS "count!" FROM coordinator_decisions
         WHERE coordinator_id = $1 AND decision_type IN ('plan_created', 'plan_modified')"#,
        id.uuid()
    )
    .fetch_one(conn)
    .await?;
    Ok(u64::try_from(count).unwrap_or(0))
}

async fn insert(conn: &mut PgConnection, made: &DecisionRecord) -> Outcome<()> {
    sqlx::query!(
        "-- coordinator_decisions::insert
         INSERT INTO coordinator_decisions (id, coordinator_id, agent_id, intent_id, decision_type, summary, rationale,
                                            alternatives, confidence, decided_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        made.id.uuid(),
        made.coordinator_id.uuid(),
        made.agent_id,
        made.intent_id.uuid(),
        made.decision_type.as_str(),
        made.summary,
        made.rationale,
        serde_json::to_string(&made.alternatives)?,
        made.confidence,
        made.at
    )
    .execute(conn)
    .await?;
    Ok(())
}
