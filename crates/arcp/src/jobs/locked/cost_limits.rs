//! Cost limits of the intents that jobs work for (RFC-0013 `max_cost`). A job's cost is also a cost of its
//! intent (RFC-0009), written once, in the transaction that charges the job's counters. An exhausted intent
//! stops its jobs like an exhausted counter (ARCP §9.6). Each unit is counted separately.

use std::collections::BTreeMap;

use entente_domain::amounts::Amount;
use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::jobs::Job;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::openintent::costs::CostAsk;
use entente_domain::openintent::governance::GovernancePolicy;
use entente_domain::refusal::Refusal;
use entente_kernel::costs;
use entente_kernel::{AppError, Outcome};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{JobChange, LockedJobs};
use crate::Ctx;

/// Cost type of all costs reported by jobs.
const COST_TYPE: &str = "job";

/// Spending of an intent that has a cost limit: its costs and its jobs' reservations.
#[derive(Debug, Clone)]
pub(in crate::jobs) struct CostLimit {
    policy: GovernancePolicy,
    spent: Budget,
    reserved: Budget,
}

impl CostLimit {
    fn spent(&self, unit: &str) -> Amount {
        self.spent.0.get(unit).copied().unwrap_or(Amount::ZERO)
    }

    /// Requires that something is left, in the named unit or else in each.
    pub fn require_left(&self, unit: Option<&str>) -> Result<(), Refusal> {
        match unit {
            Some(unit) => self.policy.judge_left(unit, self.spent(unit)),
            None if self.spent.0.is_empty() => self.policy.judge_left("", Amount::ZERO),
            None => self.spent.0.iter().try_for_each(|(unit, spent)| self.policy.judge_left(unit, *spent)),
        }
    }

    /// Requires room for further reserved amounts.
    fn require_room(&self, amounts: &Budget) -> Result<(), Refusal> {
        amounts.0.iter().try_for_each(|(unit, amount)| {
            let reserved = self.reserved.0.get(unit).copied().unwrap_or(Amount::ZERO);
            self.policy.judge_reserve(unit, self.spent(unit) + reserved, *amount)
        })
    }

    fn add(to: &mut Budget, unit: &str, amount: Amount) {
        let sum = to.0.entry(unit.to_owned()).or_insert(Amount::ZERO);
        *sum = *sum + amount;
    }
}

/// Loads the spending of those intents that have a limit; it is stable under the intents' locks.
pub(in crate::jobs) async fn load(
    conn: &mut PgConnection,
    intents: &[IntentId],
) -> Outcome<BTreeMap<IntentId, CostLimit>> {
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
    let mut cost_limits = BTreeMap::new();
    for row in policies {
        let policy = GovernancePolicy::kept(&serde_json::from_str::<Map<String, Value>>(&row.policy)?);
        if policy.max_cost.is_some() {
            let cost_limit = CostLimit { policy, spent: Budget::default(), reserved: Budget::default() };
            cost_limits.insert(IntentId::from(row.id), cost_limit);
        }
    }
    let capped: Vec<IntentId> = cost_limits.keys().copied().collect();
    if capped.is_empty() {
        return Ok(cost_limits);
    }
    for (intent, unit, amount) in costs::spent_on(conn, &capped).await? {
        cost_limits
            .entry(intent)
            .and_modify(|cost_limit| CostLimit::add(&mut cost_limit.spent, &unit, amount));
    }
    for (intent, amounts) in set_aside(conn, &capped).await? {
        let Some(cost_limit) = cost_limits.get_mut(&intent) else { continue };
        amounts.0.iter().for_each(|(unit, amount)| CostLimit::add(&mut cost_limit.reserved, unit, *amount));
    }
    Ok(cost_limits)
}

/// Reserved amounts of the jobs of these intents.
async fn set_aside(conn: &mut PgConnection, intents: &[IntentId]) -> Outcome<Vec<(IntentId, Budget)>> {
    let ids: Vec<Uuid> = intents.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        r#"-- cost_limits::set_aside
         SELECT j.intent_id AS "intent_id!", r.amounts FROM job_reservations r JOIN jobs j ON j.id = r.job_id
         WHERE j.intent_id = ANY($1)"#,
        &ids
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(|row| Ok((row.intent_id.into(), serde_json::from_str(&row.amounts)?))).collect()
}

/// Costs to record on intents, by intent, job and unit.
pub(super) type Bills = BTreeMap<(IntentId, JobId, String), Amount>;

impl JobChange {
    /// Adds a cost to the job's intent, even beyond the limit: the money is already spent.
    pub(super) fn bill(&mut self, unit: &str, cost: Amount) {
        if self.job.intent_id.is_none() || cost == Amount::ZERO {
            return;
        }
        if let Some(cost_limit) = self.cost_limit.as_mut() {
            CostLimit::add(&mut cost_limit.spent, unit, cost);
        }
        CostLimit::add(&mut self.bills, unit, cost);
    }

    /// Reserves amounts of the intent as well.
    pub(super) fn earmark(&mut self, amounts: &Budget) -> Result<(), Refusal> {
        let Some(cost_limit) = self.cost_limit.as_mut() else { return Ok(()) };
        cost_limit.require_room(amounts)?;
        amounts.0.iter().for_each(|(unit, amount)| CostLimit::add(&mut cost_limit.reserved, unit, *amount));
        Ok(())
    }

    /// Releases reserved amounts of the intent.
    pub(super) fn unmark(&mut self, amounts: &Budget) {
        let Some(cost_limit) = self.cost_limit.as_mut() else { return };
        for (unit, amount) in &amounts.0 {
            if let Some(sum) = cost_limit.reserved.0.get_mut(unit) {
                *sum = *sum - *amount;
            }
        }
    }
}

impl LockedJobs {
    /// Adds the costs of an applied change.
    pub(super) fn add_bills(&mut self, job: &Job, bills: Budget) {
        let Some(intent) = job.intent_id else { return };
        for (unit, cost) in bills.0 {
            let sum = self.bills.entry((intent, job.id, unit)).or_insert(Amount::ZERO);
            *sum = *sum + cost;
        }
    }

    /// Writes the costs of the intents, each with its event.
    pub(super) async fn save_bills(&mut self, ctx: &Ctx, conn: &mut PgConnection) -> Outcome<()> {
        for ((intent, id, unit), amount) in std::mem::take(&mut self.bills) {
            let Some(agent) = self.jobs.get(&id).map(|job: &Job| job.agent.clone()) else { continue };
            let log = self.logs.get_mut(&intent).ok_or_else(|| {
                AppError::Inconsistent(format!("{intent} is not locked by whoever bills it for {id}"))
            })?;
            let Value::Object(metadata) = json!({ "job_id": id }) else { continue };
            let ask =
                CostAsk { cost_type: COST_TYPE.to_owned(), amount, unit, metadata, ..CostAsk::default() };
            costs::enter(ctx, conn, log, ask, &agent).await?;
        }
        Ok(())
    }
}
