//! Costs of the intents that jobs work for (RFC-0009): a job's cost is also a cost of its intent, written once, in the
//! transaction that charges the job's counters. An exhausted intent (RFC-0013 `max_cost`) stops its jobs like an
//! exhausted counter (ARCP §9.6).

use std::collections::BTreeMap;

use entente_domain::amounts::Amount;
use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::jobs::Job;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::openintent::costs::CostAsk;
use entente_domain::refusal::Refusal;
use entente_kernel::costs;
use entente_kernel::{AppError, Outcome};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::{JobChange, LockedJobs};
use crate::Ctx;

/// Cost type of all costs reported by jobs.
const COST_TYPE: &str = "job";

/// Costs to record on intents, by intent, job and unit.
pub(super) type Bills = BTreeMap<(IntentId, JobId, String), Amount>;

impl JobChange {
    /// Adds a cost to the job's intent, even beyond the limit: the money is already spent.
    pub(super) fn bill(&mut self, unit: &str, cost: Amount) {
        if self.job.intent_id.is_none() || cost == Amount::ZERO {
            return;
        }
        if let Some(cost_limit) = self.cost_limit.as_mut() {
            cost_limit.spend(unit, cost);
        }
        let sum = self.bills.0.entry(unit.to_owned()).or_insert(Amount::ZERO);
        *sum = *sum + cost;
    }

    /// Reserves amounts of the intent as well.
    pub(super) fn earmark(&mut self, amounts: &Budget) -> Result<(), Refusal> {
        self.cost_limit.as_mut().map_or(Ok(()), |cost_limit| cost_limit.reserve(&amounts.0))
    }

    /// Releases reserved amounts of the intent.
    pub(super) fn unmark(&mut self, amounts: &Budget) {
        if let Some(cost_limit) = self.cost_limit.as_mut() {
            cost_limit.release(&amounts.0);
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
