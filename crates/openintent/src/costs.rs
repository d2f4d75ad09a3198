//! Costs (RFC-0009) that agents report for the work on an intent, and their sums. The rows are the kernel's
//! (`kernel/src/costs.rs`).

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{CostId, IntentId};
use entente_domain::openintent::costs as domain;
use entente_domain::openintent::costs::{Cost, CostAsk, Sum, Summary};
use entente_domain::subjects::Act;
use entente_kernel::access::membership;
use entente_kernel::charges::Charge;
use entente_kernel::costs::{add, amount, spent, sums, sums_of};
use entente_kernel::operations::{Asked, Operation};
use entente_kernel::{AppError, Caller, IntentTx, Outcome};
use sqlx::PgConnection;

use crate::Ctx;

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
    ctx.operate(caller, intent_id, Record(ask), once).await
}

/// A cost to record.
struct Record(CostAsk);

impl Operation for Record {
    type Answer = Cost;
    type Rows = Vec<Sum>;

    const NAME: &'static str = "record_cost";

    async fn read(
        conn: &mut PgConnection,
        asked: &[Asked<'_, Self>],
        now: Timestamp,
    ) -> Outcome<Vec<Vec<Sum>>> {
        // An invalid cost has no sums; it is refused when it is judged.
        let cost = |one: &Asked<'_, Self>| {
            let id = CostId::from(uuid::Uuid::nil());
            domain::record(one.operation.0.clone(), one.intent_id, &one.caller.agent, id, now).ok()
        };
        sums_of(conn, &asked.iter().map(cost).collect::<Vec<_>>()).await
    }

    async fn apply(&self, caller: &Caller, work: &mut IntentTx<'_>, sums: Vec<Sum>) -> Outcome<Cost> {
        work.require(Level::Write)?;
        if let Some(done) = work.repeated()? {
            return Ok(done);
        }
        work.admit()?;
        let (ctx, intent_id, now) = (work.ctx(), work.intent_id(), work.now());
        let id = CostId::mint(now, &*ctx.chance);
        let made = domain::record(self.0.clone(), intent_id, &caller.agent, id, now)?;
        work.policy().map_or(Ok(()), |policy| policy.judge_cost(spent(&sums), made.amount))?;
        add(work, &made, &sums).await?;
        work.charge(Charge {
            act: Act { agents: vec![made.agent_id.clone()], ..caller.act(Some(intent_id)) },
            unit: made.unit.clone(),
            spent: made.amount,
            provider: made.provider.clone(),
            model: made.model.clone(),
            ..Charge::default()
        });
        Ok(made)
    }
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

/// Loads the next costs of an intent after a position, with their positions, without an access check.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn after(
    conn: &mut PgConnection,
    intent_id: IntentId,
    after: i64,
    limit: i64,
) -> Outcome<Vec<(i64, Cost)>> {
    let rows = load(conn, intent_id, after, limit).await?.into_iter();
    rows.map(|row| Ok((row.seq, Cost::try_from(row)?))).collect()
}

struct CostRow {
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

impl TryFrom<CostRow> for Cost {
    type Error = AppError;

    fn try_from(row: CostRow) -> Outcome<Self> {
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

async fn load(conn: &mut PgConnection, intent_id: IntentId, after: i64, limit: i64) -> Outcome<Vec<CostRow>> {
    let rows = sqlx::query_as!(
        CostRow,
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
