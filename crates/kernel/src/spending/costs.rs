//! The ledger of an intent's costs (RFC-0009): tables `costs` and `cost_sums`. The transaction that records a cost
//! updates the sums. Agents report costs (OpenIntent), and jobs do (ARCP §9.6).

use entente_domain::amounts::Amount;
use entente_domain::ids::{CostId, IntentId};
use entente_domain::limits::COST_SUMS;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::costs as domain;
use entente_domain::openintent::costs::{Axis, Cost, CostAsk, Sum};
use serde_json::json;
use sqlx::PgConnection;

pub use crate::charges::amount;
use crate::log::writer::IntentLog;
use crate::{AppError, Ctx, Outcome, unknown};

/// Records a cost reported by a job, in the log of its intent, within the transaction that counts it for the
/// job.
///
/// No policy applies: the money is already spent (ARCP §9.6).
///
/// # Errors
/// There would be too many sums, or one too large.
pub async fn enter(
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
///
/// # Errors
/// There would be too many sums, or one too large.
pub async fn write(ctx: &Ctx, conn: &mut PgConnection, log: &mut IntentLog, made: &Cost) -> Outcome<()> {
    let total = add_up(conn, made, log.next_seq()).await?;
    let payload = json!({
        "about": "cost", "cost_id": made.id, "agent_id": made.agent_id, "cost_type": made.cost_type,
        "amount": made.amount, "unit": made.unit, "provider": made.provider, "model": made.model,
        "total": total,
    });
    log.record(ctx, Draft::of(Kind::Comment, &made.agent_id, payload));
    Ok(())
}

/// Returns the total costs of these intents per unit.
///
/// # Errors
/// A database error.
pub async fn spent_on(
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

/// Loads the sums of an intent's costs; at most [`COST_SUMS`] rows.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn sums(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<Vec<Sum>> {
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

/// Returns the total of an intent's costs in the unit of a new cost, before it is added.
///
/// # Errors
/// A database error; the stored amount is invalid.
pub async fn spent(conn: &mut PgConnection, made: &Cost) -> Outcome<Amount> {
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

/// Writes a cost, whose event has the number `seq`, and adds it to its sums, under the intent's lock; returns the
/// intent's new total in its unit.
async fn add_up(conn: &mut PgConnection, made: &Cost, seq: i64) -> Outcome<Amount> {
    let (axes, keys): (Vec<String>, Vec<String>) =
        made.sums().map(|(axis, key)| (axis.as_str().to_owned(), key.to_owned())).unzip();
    let sums = sqlx::query!(
        r#"-- costs::add_up
         WITH cost AS (
             INSERT INTO costs (id, intent_id, seq, agent_id, cost_type, amount, unit, provider, model, metadata,
                                recorded_at)
             VALUES ($6, $1, $7, $8, $9, $3::text::numeric, $2, $10, $11, $12, $13))
         INSERT INTO cost_sums (intent_id, unit, axis, key, amount, count)
         SELECT $1, $2, k.axis, k.key, $3::text::numeric, 1 FROM UNNEST($4::text[], $5::text[]) AS k (axis, key)
         ON CONFLICT (intent_id, unit, axis, key)
         DO UPDATE SET amount = cost_sums.amount + excluded.amount, count = cost_sums.count + 1
         RETURNING axis, trim_scale(amount)::text AS "amount!", count"#,
        made.intent_id.uuid(),
        made.unit,
        made.amount.to_string(),
        &axes,
        &keys,
        made.id.uuid(),
        seq,
        made.agent_id,
        made.cost_type,
        made.provider,
        made.model,
        serde_json::to_string(&made.metadata)?,
        made.recorded_at
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
