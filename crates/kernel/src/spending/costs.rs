//! The ledger of an intent's costs (RFC-0009): tables `costs` and `cost_sums`. The transaction that records a cost
//! updates the sums. Agents report costs (OpenIntent), and jobs do (ARCP §9.6).

use std::collections::BTreeMap;

use entente_domain::amounts::Amount;
use entente_domain::ids::{CostId, IntentId};
use entente_domain::limits::COST_SUMS;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::costs as domain;
use entente_domain::openintent::costs::{Axis, Cost, CostAsk, Sum};
use serde_json::json;
use sqlx::PgConnection;

pub use crate::charges::amount;
use crate::column;
use crate::log::deferred::Deferred;
use crate::log::writer::IntentLog;
use crate::{AppError, Ctx, IntentTx, Outcome, unknown};

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
    let total = add_up(conn, &made, log.next_seq()).await?;
    log.record(ctx, event(&made, total));
    Ok(made)
}

/// The event of a cost, with the intent's new total in its unit.
fn event(made: &Cost, total: Amount) -> Draft {
    let payload = json!({
        "about": "cost", "cost_id": made.id, "agent_id": made.agent_id, "cost_type": made.cost_type,
        "amount": made.amount, "unit": made.unit, "provider": made.provider, "model": made.model,
        "total": total,
    });
    Draft::of(Kind::Comment, &made.agent_id, payload)
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
    rows.into_iter().map(|row| stored_sum(row.unit, &row.axis, row.key, &row.amount, row.count)).collect()
}

/// Returns the total of an intent's costs among the sums that a new cost is added to; there are none before the first one.
#[must_use]
pub fn spent(sums: &[Sum]) -> Amount {
    sums.iter().find(|sum| sum.axis == Axis::All).map_or(Amount::ZERO, |sum| sum.amount)
}

/// Loads the sums that each of these costs is added to, as far as there are any, in their order.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn sums_of(conn: &mut PgConnection, costs: &[Option<Cost>]) -> Outcome<Vec<Vec<Sum>>> {
    let (mut places, mut intents, mut units) = (Vec::new(), Vec::new(), Vec::new());
    let (mut axes, mut keys) = (Vec::new(), Vec::new());
    for (place, cost) in costs.iter().enumerate() {
        for (cost, (axis, key)) in cost.iter().flat_map(|cost| cost.sums().map(move |sum| (cost, sum))) {
            places.push(i64::try_from(place).unwrap_or(i64::MAX));
            intents.push(cost.intent_id.uuid());
            units.push(cost.unit.as_str());
            axes.push(axis.as_str());
            keys.push(key);
        }
    }
    let rows = sqlx::query!(
        r#"-- costs::sums_of
         SELECT k.place AS "place!", s.unit, s.axis, s.key, trim_scale(s.amount)::text AS "amount!", s.count
         FROM UNNEST($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::text[]) AS k (place, intent_id, unit, axis, key)
         JOIN cost_sums s ON s.intent_id = k.intent_id AND s.unit = k.unit AND s.axis = k.axis AND s.key = k.key"#,
        &places,
        &intents,
        &units as &[&str],
        &axes as &[&str],
        &keys as &[&str]
    )
    .fetch_all(conn)
    .await?;
    let mut all: Vec<Vec<Sum>> = costs.iter().map(|_| Vec::new()).collect();
    for row in rows {
        let sum = stored_sum(row.unit, &row.axis, row.key, &row.amount, row.count)?;
        if let Some(sums) = usize::try_from(row.place).ok().and_then(|place| all.get_mut(place)) {
            sums.push(sum);
        }
    }
    Ok(all)
}

fn stored_sum(unit: String, axis: &str, key: String, text: &str, count: i64) -> Outcome<Sum> {
    let axis = Axis::parse(axis).ok_or_else(|| unknown("axis of costs", axis))?;
    Ok(Sum { unit, axis, key, amount: amount(text)?, count })
}

/// Adds a cost to the `sums` that it is added to, under the intent's lock, and records the event; the rows are written at
/// the end of the transaction.
///
/// # Errors
/// There would be too many sums, or one too large.
pub async fn add(work: &mut IntentTx<'_>, made: &Cost, sums: &[Sum]) -> Outcome<()> {
    // The total is the largest of the sums: if it is in range, the others are too.
    let total = amount(&(spent(sums) + made.amount).to_string()).map_err(|_too_large| domain::too_much())?;
    let is_new = |(axis, key): &(Axis, &str)| !sums.iter().any(|sum| sum.axis == *axis && sum.key == *key);
    let new = made.sums().filter(is_new).count();
    if new > 0 && count_sums(work.reading(), made.intent_id).await? + new > COST_SUMS {
        return Err(domain::too_varied().into());
    }
    let seq = work.log().next_seq();
    work.defer(NewCost { cost: made.clone(), seq });
    work.record(event(made, total));
    Ok(())
}

/// A cost to write, with its place in the intent's log.
struct NewCost {
    cost: Cost,
    seq: i64,
}

impl Deferred for NewCost {
    async fn write(conn: &mut PgConnection, rows: Vec<Self>) -> Outcome<()> {
        let metadata = rows.iter().map(|row| serde_json::to_string(&row.cost.metadata));
        let metadata: Vec<String> = metadata.collect::<Result<_, _>>()?;
        // One row for each sum: a statement may not change a row twice.
        let mut sums: BTreeMap<(IntentId, &str, &str, &str), (Amount, i64)> = BTreeMap::new();
        for NewCost { cost, .. } in &rows {
            for (axis, key) in cost.sums() {
                let sum = sums.entry((cost.intent_id, &cost.unit, axis.as_str(), key)).or_default();
                *sum = (sum.0 + cost.amount, sum.1 + 1);
            }
        }
        sqlx::query!(
            "-- costs::add
             WITH cost AS (
                 INSERT INTO costs (id, intent_id, seq, agent_id, cost_type, amount, unit, provider, model, metadata,
                                    recorded_at)
                 SELECT id, intent_id, seq, agent_id, cost_type, amount::numeric, unit, provider, model, metadata,
                        recorded_at
                 FROM UNNEST($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[],
                             $8::text[], $9::text[], $10::text[], $11::timestamptz[])
                      AS k (id, intent_id, seq, agent_id, cost_type, amount, unit, provider, model, metadata,
                            recorded_at))
             INSERT INTO cost_sums (intent_id, unit, axis, key, amount, count)
             SELECT intent_id, unit, axis, key, amount::numeric, count
             FROM UNNEST($12::uuid[], $13::text[], $14::text[], $15::text[], $16::text[], $17::bigint[])
                  AS k (intent_id, unit, axis, key, amount, count)
             ON CONFLICT (intent_id, unit, axis, key)
             DO UPDATE SET amount = cost_sums.amount + excluded.amount, count = cost_sums.count + excluded.count",
            column!(rows, row => row.cost.id.uuid()),
            column!(rows, row => row.cost.intent_id.uuid()),
            column!(rows, row => row.seq),
            column!(rows, row => row.cost.agent_id.as_str()) as &[&str],
            column!(rows, row => row.cost.cost_type.as_str()) as &[&str],
            column!(rows, row => row.cost.amount.to_string()),
            column!(rows, row => row.cost.unit.as_str()) as &[&str],
            column!(rows, row => row.cost.provider.as_deref()) as &[Option<&str>],
            column!(rows, row => row.cost.model.as_deref()) as &[Option<&str>],
            &metadata,
            column!(rows, row => row.cost.recorded_at),
            column!(sums, row => row.0.0.uuid()),
            column!(sums, row => row.0.1) as &[&str],
            column!(sums, row => row.0.2) as &[&str],
            column!(sums, row => row.0.3) as &[&str],
            column!(sums, row => row.1.0.to_string()),
            column!(sums, row => row.1.1),
        )
        .execute(conn)
        .await?;
        Ok(())
    }
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
    if count_sums(conn, made.intent_id).await? > COST_SUMS {
        return Err(domain::too_varied().into());
    }
    Ok(total)
}

async fn count_sums(conn: &mut PgConnection, intent_id: IntentId) -> Outcome<usize> {
    let there = sqlx::query_scalar!(
        r#"-- costs::count_sums
         SELECT count(*) AS "count!" FROM cost_sums WHERE intent_id = $1"#,
        intent_id.uuid()
    )
    .fetch_one(conn)
    .await?;
    Ok(usize::try_from(there).unwrap_or(usize::MAX / 2))
}
