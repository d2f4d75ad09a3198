//! Costs (RFC-0009) of the work on an intent, and their sums. Tables `costs` and `cost_sums`; the transaction
//! that records a cost updates the sums.

use entente_domain::access::Level;
use entente_domain::amounts::Amount;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{CostId, IntentId};
use entente_domain::limits::COST_SUMS;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::costs as domain;
use entente_domain::openintent::costs::{Axis, Cost, CostAsk, Sum, Summary};
use serde_json::json;
use sqlx::PgConnection;

use crate::access::membership;
use crate::log::writer::IntentLog;
use crate::openintent::governance;
use crate::openintent::governance::Attempt;
use crate::{AppError, Caller, Ctx, Outcome, idempotency, unknown};

/// Records a cost; a resolved intent still takes costs, because bills come late.
///
/// # Errors
/// The intent does not exist or is not writable; the cost is invalid; there would be too many sums, or one
/// too large; the cost exceeds the intent's governance policy, which limits each unit separately.
pub async fn record(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: CostAsk,
    once: Option<&Idempotency>,
) -> Outcome<Cost> {
    caller.require(Scope::IntentsWrite)?;
    let mut tx = ctx.begin_once(&[intent_id], caller, once).await?;
    let membership = membership::require(&mut tx, &caller.agent, intent_id, Level::Write, ctx.now()).await?;
    if let Some(done) = idempotency::find(&mut tx, caller, once).await? {
        return Ok(done);
    }
    let attempt =
        Attempt { intent_id, membership: &membership, agent: &caller.agent, operation: "record_cost" };
    let mut tx = governance::admit(ctx, caller, tx, attempt).await?;
    let mut log = IntentLog::open(&mut tx, intent_id, caller.trace, ctx.now()).await?;
    let now = log.now();
    let made = domain::record(ask, intent_id, &caller.agent, CostId::mint(now, &*ctx.chance), now)?;
    let spent = spent(&mut tx, &made).await?;
    let mut tx = governance::admit_cost(ctx, caller, tx, attempt, (spent, made.amount)).await?;
    write(ctx, &mut tx, &mut log, &made).await?;
    log.save(&mut tx).await?;
    idempotency::keep(&mut tx, caller, once, &made, now).await?;
    tx.commit().await?;
    ctx.feed.notify_committed(intent_id);
    Ok(made)
}

/// Records a cost reported by a job, in the log of its intent, within the transaction that counts it for the
/// job.
///
/// No policy applies: the money is already spent (ARCP §9.6).
///
/// # Errors
/// There would be too many sums, or one too large.
pub(crate) async fn enter(
    ctx: &Ctx,
    conn: &mut PgConnection,
    log: &mut IntentLog,
    ask: CostAsk,
    agent: &str,
) -> Outcome<Cost> {
    let now = log.now();
    let made = domain::record(ask, log.intent_id, agent, CostId::mint(now, &*ctx.chance), now)?;
    write(ctx, conn, log, &made).await?;
    Ok(made)
}

/// Writes a cost, updates the sums and records the event.
async fn write(ctx: &Ctx, conn: &mut PgConnection, log: &mut IntentLog, made: &Cost) -> Outcome<()> {
    let total = add_up(conn, made).await?;
    let payload = json!({
        "about": "cost", "cost_id": made.id, "agent_id": made.agent_id, "cost_type": made.cost_type,
        "amount": made.amount, "unit": made.unit, "provider": made.provider, "model": made.model,
        "total": total,
    });
    log.record(ctx, Draft::of(Kind::Comment, &made.agent_id, payload));
    insert(conn, made, log.tail.seq).await
}

/// Returns the total costs of these intents per unit.
///
/// # Errors
/// A database error.
pub(crate) async fn spent_on(
    conn: &mut PgConnection,
    intents: &[IntentId],
) -> Outcome<Vec<(IntentId, String, Amount)>> {
    let ids: Vec<uuid::Uuid> = intents.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        r#"-- costs::spent_on
         SELECT intent_id, unit, trim_scale(amount)::text AS "amount!" FROM cost_sums
         WHERE intent_id = ANY($1) AND axis = $2 AND key = ''"#,
        &ids,
        Axis::All.as_str()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(|row| Ok((row.intent_id.into(), row.unit, amount(&row.amount)?))).collect()
}

/// A page of an intent's costs with the totals, from one snapshot.
#[derive(Debug, Clone)]
pub struct CostPage {
    /// The costs, oldest first.
    pub costs: Vec<Cost>,
    /// The position after which the next page begins; `None` on the last page.
    pub next: Option<i64>,
    /// The totals of all costs of the intent, including those on other pages.
    pub summary: Summary,
}

/// Lists the costs of an intent after a position, oldest first, with the totals of all.
///
/// # Errors
/// The intent does not exist or is not readable.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    after: i64,
    limit: u32,
) -> Outcome<CostPage> {
    caller.require(Scope::IntentsRead)?;
    // One snapshot for both, so that every cost in the sums is also in the list.
    let mut tx = ctx.snapshot().await?;
    membership::require(&mut tx, &caller.agent, intent_id, Level::Read, ctx.now()).await?;
    let mut rows = load(&mut tx, intent_id, after, i64::from(limit) + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().map(|row| row.seq).filter(|_| more);
    let summary = Summary::of(sums(&mut tx, intent_id).await?);
    tx.commit().await?;
    let costs = rows.into_iter().map(Cost::try_from).collect::<Outcome<_>>()?;
    Ok(CostPage { costs, next, summary })
}

struct Row {
    id: uuid::Uuid,
    intent_id: uuid::Uuid,
    seq: i64,
    agent_id: String,
    cost_type: String,
    amount: String,
    unit: String,
    provider: Option<String>,
    model: Option<String>,
    metadata: String,
    recorded_at: Timestamp,
}

fn amount(stored: &str) -> Outcome<Amount> {
    Amount::try_from(stored.to_owned()).map_err(|_none| unknown("amount", stored))
}

impl TryFrom<Row> for Cost {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            intent_id: row.intent_id.into(),
            agent_id: row.agent_id,
            cost_type: row.cost_type,
            amount: amount(&row.amount)?,
            unit: row.unit,
            provider: row.provider,
            model: row.model,
            metadata: serde_json::from_str(&row.metadata)?,
            recorded_at: row.recorded_at,
        })
    }
}

async fn load(conn: &mut PgConnection, intent_id: IntentId, after: i64, limit: i64) -> Outcome<Vec<Row>> {
    let rows = sqlx::query_as!(
        Row,
        r#"-- costs::load
         SELECT id, intent_id, seq, agent_id, cost_type, trim_scale(amount)::text AS "amount!", unit, provider, model,
                metadata, recorded_at
         FROM costs WHERE intent_id = $1 AND seq > $2 ORDER BY seq LIMIT $3"#,
        intent_id.uuid(),
        after,
        limit
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Loads the sums of an intent's costs; at most [`COST_SUMS`] rows.
pub(crate) async fn sums(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Vec<Sum>> {
    let rows = sqlx::query!(
        r#"-- costs::sums
         SELECT unit, axis, key, trim_scale(amount)::text AS "amount!", count FROM cost_sums WHERE intent_id = $1"#,
        intent_id.uuid()
    )
    .fetch_all(conn)
    .await?;
    let sum = |unit, axis: String, key, text: String, count| -> Outcome<Sum> {
        let axis = Axis::parse(&axis).ok_or_else(|| unknown("axis of costs", &axis))?;
        Ok(Sum { unit, axis, key, amount: amount(&text)?, count })
    };
    rows.into_iter().map(|row| sum(row.unit, row.axis, row.key, row.amount, row.count)).collect()
}

async fn insert(conn: &mut PgConnection, made: &Cost, seq: i64) -> Outcome<()> {
    sqlx::query!(
        "-- costs::insert
         INSERT INTO costs (id, intent_id, seq, agent_id, cost_type, amount, unit, provider, model, metadata, recorded_at)
         VALUES ($1, $2, $3, $4, $5, $6::text::numeric, $7, $8, $9, $10, $11)",
        made.id.uuid(),
        made.intent_id.uuid(),
        seq,
        made.agent_id,
        made.cost_type,
        made.amount.to_string(),
        made.unit,
        made.provider,
        made.model,
        serde_json::to_string(&made.metadata)?,
        made.recorded_at
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns the total of an intent's costs in the unit of a new cost, before it is added.
async fn spent(conn: &mut PgConnection, made: &Cost) -> Outcome<Amount> {
    let sum = sqlx::query_scalar!(
        r#"-- costs::spent
         SELECT trim_scale(amount)::text AS "amount!" FROM cost_sums
         WHERE intent_id = $1 AND unit = $2 AND axis = $3 AND key = ''"#,
        made.intent_id.uuid(),
        made.unit,
        Axis::All.as_str()
    )
    .fetch_optional(conn)
    .await?;
    Ok(sum.as_deref().map(amount).transpose()?.unwrap_or(Amount::ZERO))
}

/// Adds a cost to its sums, under the intent's lock; returns the intent's new total in its unit.
async fn add_up(conn: &mut PgConnection, made: &Cost) -> Outcome<Amount> {
    let (axes, keys): (Vec<String>, Vec<String>) =
        made.sums().map(|(axis, key)| (axis.as_str().to_owned(), key.to_owned())).unzip();
    let sums = sqlx::query!(
        r#"-- costs::add_up
         INSERT INTO cost_sums (intent_id, unit, axis, key, amount, count)
         SELECT $1, $2, k.axis, k.key, $3::text::numeric, 1 FROM UNNEST($4::text[], $5::text[]) AS k (axis, key)
         ON CONFLICT (intent_id, unit, axis, key)
         DO UPDATE SET amount = cost_sums.amount + excluded.amount, count = cost_sums.count + 1
         RETURNING axis, trim_scale(amount)::text AS "amount!", count"#,
        made.intent_id.uuid(),
        made.unit,
        made.amount.to_string(),
        &axes,
        &keys
    )
    .fetch_all(&mut *conn)
    .await?;
    // The total is the largest of the sums: if it is in range, the others are too.
    let all = sums.iter().find(|sum| sum.axis == Axis::All.as_str());
    let total = all.map(|sum| amount(&sum.amount)).transpose().map_err(|_too_large| domain::too_much())?;
    let total = total.ok_or_else(|| AppError::Inconsistent("a cost is in no sum".to_owned()))?;
    if sums.iter().all(|sum| sum.count > 1) {
        return Ok(total);
    }
    let there = sqlx::query_scalar!(
        r#"-- costs::count_sums
         SELECT count(*) AS "count!" FROM cost_sums WHERE intent_id = $1"#,
        made.intent_id.uuid()
    )
    .fetch_one(conn)
    .await?;
    if usize::try_from(there).is_ok_and(|there| there > COST_SUMS) {
        return Err(domain::too_varied().into());
    }
    Ok(total)
}
