//! Cost limits of intents (RFC-0013 `max_cost`): the amounts spent on an intent and reserved for it, by its jobs and by
//! calls that belong to no job, stay within the limit. Each unit is counted separately.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::access::Level;
use entente_domain::amounts::Amount;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::openintent::governance::GovernancePolicy;
use entente_domain::refusal::Refusal;
use serde_json::{Map, Value};
use sqlx::PgConnection;
use uuid::Uuid;

use super::costs;
use crate::access::membership;
use crate::{Caller, Ctx, Outcome};

/// Amounts by unit.
type Amounts = BTreeMap<String, Amount>;

/// Spending of an intent that has a cost limit: its costs and its reservations.
#[derive(Debug, Clone)]
pub struct CostLimit {
    policy: GovernancePolicy,
    spent: Amounts,
    reserved: Amounts,
}

/// Use of a cost limit in one unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostLimitUsage {
    /// The unit.
    pub unit: String,
    /// The limit.
    pub limit: Amount,
    /// The sum of the costs.
    pub spent: Amount,
    /// The reserved amounts that are not costs yet.
    pub reserved: Amount,
}

impl CostLimitUsage {
    /// Returns the rest of the limit; zero if it is exceeded.
    #[must_use]
    pub fn left(&self) -> Amount {
        let left = self.limit - self.spent - self.reserved;
        if left.is_negative() { Amount::ZERO } else { left }
    }
}

impl CostLimit {
    /// Returns the use of the limit in each unit that has costs or reservations.
    fn usage(&self) -> Vec<CostLimitUsage> {
        let limit = self.policy.max_cost.unwrap_or(Amount::ZERO);
        let units: BTreeSet<&String> = self.spent.keys().chain(self.reserved.keys()).collect();
        let of = |amounts: &Amounts, unit| amounts.get(unit).copied().unwrap_or(Amount::ZERO);
        units
            .into_iter()
            .map(|unit| CostLimitUsage {
                unit: unit.clone(),
                limit,
                spent: of(&self.spent, unit),
                reserved: of(&self.reserved, unit),
            })
            .collect()
    }

    fn spent(&self, unit: &str) -> Amount {
        self.spent.get(unit).copied().unwrap_or(Amount::ZERO)
    }

    /// Requires that something is left, in the named unit or else in each.
    ///
    /// # Errors
    /// [`BudgetExhausted`](entente_domain::refusal::Code::BudgetExhausted).
    pub fn require_left(&self, unit: Option<&str>) -> Result<(), Refusal> {
        match unit {
            Some(unit) => self.policy.judge_left(unit, self.spent(unit)),
            None if self.spent.is_empty() => self.policy.judge_left("", Amount::ZERO),
            None => self.spent.iter().try_for_each(|(unit, spent)| self.policy.judge_left(unit, *spent)),
        }
    }

    /// Reserves further amounts, all of them or none.
    ///
    /// # Errors
    /// [`BudgetExhausted`](entente_domain::refusal::Code::BudgetExhausted).
    pub fn reserve(&mut self, amounts: &Amounts) -> Result<(), Refusal> {
        for (unit, amount) in amounts {
            let reserved = self.reserved.get(unit).copied().unwrap_or(Amount::ZERO);
            self.policy.judge_reserve(unit, self.spent(unit) + reserved, *amount)?;
        }
        amounts.iter().for_each(|(unit, amount)| add(&mut self.reserved, unit, *amount));
        Ok(())
    }

    /// Releases reserved amounts.
    pub fn release(&mut self, amounts: &Amounts) {
        for (unit, amount) in amounts {
            if let Some(sum) = self.reserved.get_mut(unit) {
                *sum = *sum - *amount;
            }
        }
    }

    /// Adds a cost, even beyond the limit: the money is already spent.
    pub fn spend(&mut self, unit: &str, cost: Amount) {
        add(&mut self.spent, unit, cost);
    }
}

fn add(to: &mut Amounts, unit: &str, amount: Amount) {
    let sum = to.entry(unit.to_owned()).or_insert(Amount::ZERO);
    *sum = *sum + amount;
}

/// Loads the spending of those intents that have a limit; it is stable under the intents' locks.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn load(conn: &mut PgConnection, intents: &[IntentId]) -> Outcome<BTreeMap<IntentId, CostLimit>> {
    if intents.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ids: Vec<Uuid> = intents.iter().map(|id| id.uuid()).collect();
    let policies = sqlx::query!(
        r#"-- cost_limits::policies
         SELECT id, governance_policy AS "policy!" FROM intents WHERE id = ANY($1) AND governance_policy IS NOT NULL"#,
        &ids
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut limits = BTreeMap::new();
    for row in policies {
        let policy = GovernancePolicy::kept(&serde_json::from_str::<Map<String, Value>>(&row.policy)?);
        if policy.max_cost.is_some() {
            let limit = CostLimit { policy, spent: Amounts::new(), reserved: Amounts::new() };
            limits.insert(IntentId::from(row.id), limit);
        }
    }
    let limited: Vec<IntentId> = limits.keys().copied().collect();
    if limited.is_empty() {
        return Ok(limits);
    }
    for (intent, unit, amount) in costs::spent_on(conn, &limited).await? {
        limits.entry(intent).and_modify(|limit| limit.spend(&unit, amount));
    }
    for (intent, amounts) in reserved(conn, &limited).await? {
        let Some(limit) = limits.get_mut(&intent) else { continue };
        amounts.iter().for_each(|(unit, amount)| add(&mut limit.reserved, unit, *amount));
    }
    Ok(limits)
}

/// Returns an intent's cost limit and its use in each unit; `None` if it has no limit, or if the caller may not see it: admins
/// see that of every intent, others that of intents which they may read.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn usage(
    ctx: &Ctx,
    caller: &Caller,
    intent: IntentId,
) -> Outcome<Option<(Amount, Vec<CostLimitUsage>)>> {
    // One snapshot, so that a reservation that becomes a cost is not counted twice.
    let mut tx = ctx.snapshot().await?;
    let shown = caller.has(Scope::Admin) || {
        let member = membership::find(&mut tx, &caller.agent, intent, ctx.now()).await?;
        caller.has(Scope::IntentsRead) && member.is_some_and(|member| member.access.reaches(Level::Read))
    };
    let limit = if shown { load(&mut tx, &[intent]).await?.remove(&intent) } else { None };
    tx.commit().await?;
    Ok(limit.and_then(|limit| Some((limit.policy.max_cost?, limit.usage()))))
}

/// Reserved amounts of the jobs of these intents, and of calls for them.
async fn reserved(conn: &mut PgConnection, intents: &[IntentId]) -> Outcome<Vec<(IntentId, Amounts)>> {
    let ids: Vec<Uuid> = intents.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        r#"-- cost_limits::reserved
         SELECT j.intent_id AS "intent_id!", r.amounts AS "amounts!" FROM job_reservations r JOIN jobs j ON j.id = r.job_id
         WHERE j.intent_id = ANY($1)
         UNION ALL
         SELECT intent_id, amounts FROM spend_reservations WHERE intent_id = ANY($1) AND ended_at IS NULL"#,
        &ids
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(|row| Ok((row.intent_id.into(), serde_json::from_str(&row.amounts)?))).collect()
}
