//! Spending of locked jobs (ARCP §9.6): costs are charged to the counters of the job and its ancestors,
//! amounts are reserved and put back.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::amounts::Amount;
use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::jobs::may;
use entente_domain::arcp::jobs::wire::numbers;
use entente_domain::ids::{JobId, ReservationId};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::charges::Charge;
use serde_json::json;

use super::{JobChange, LockedJobs};
use crate::jobs::budgets::Reservation;

/// A call that amounts are reserved for.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The worker's id for it.
    pub id: Option<&'a str>,
    /// Model that it uses.
    pub model: Option<&'a str>,
}

/// Maximum number of open reservations of a job: its operations under way.
const RESERVATIONS: usize = 1_000;

impl LockedJobs {
    /// Adds the costs of an applied change.
    pub(super) fn add_costs(&mut self, id: JobId, costs: Budget) {
        if costs.is_unlimited() {
            return;
        }
        let known = self.costs.entry(id).or_default();
        for (currency, cost) in costs.0 {
            let sum = known.0.entry(currency).or_insert(Amount::ZERO);
            *sum = *sum + cost;
        }
    }

    /// Budget available to a child: per currency, the least that the job or an ancestor has left.
    pub fn available(&self, id: JobId) -> Budget {
        let mut least: BTreeMap<String, Amount> = BTreeMap::new();
        let payers = self.jobs.get(&id).map(|job| job.payers.as_slice()).unwrap_or_default();
        for budget in payers.iter().filter_map(|payer| self.budgets.get(payer)) {
            for (currency, left) in &budget.0 {
                let known = least.entry(currency.clone()).or_insert(*left);
                *known = (*known).min(*left);
            }
        }
        Budget(least)
    }
}

impl JobChange {
    /// Charges a cost to the job and its ancestors, and reports the remaining budget (§9.6).
    ///
    /// The named reservation is put back first.
    pub fn charge(&mut self, currency: &str, cost: Amount, reservation: Option<&str>) -> Result<(), Refusal> {
        if let Some(named) = reservation {
            self.put_back(named)?;
        }
        let settles = self.settles;
        if reservation.is_some() {
            self.settles = None;
        }
        // The reservation is back; this is the actual cost.
        self.bill(currency, cost);
        self.charges.push(Charge {
            act: self.job.act(),
            unit: currency.to_owned(),
            spent: cost,
            settles,
            job: Some(self.job.id),
            model: self.model.clone(),
            ..Charge::default()
        });
        let sum = self.costs.0.entry(currency.to_owned()).or_insert(Amount::ZERO);
        *sum = *sum + cost;
        let mut own = None;
        for payer in &self.job.payers {
            let Some(budget) = self.budgets.get_mut(payer) else { continue };
            let left = budget.charge(currency, cost)?;
            if left.is_some() {
                self.spent.insert(*payer);
            }
            if *payer == self.job.id {
                own = left;
            }
        }
        // Nothing follows the end of a job.
        if let Some(left) = own.filter(|_| !self.job.status.is_terminal()) {
            let left = numbers(&Budget(BTreeMap::from([(currency.to_owned(), left)])));
            let body =
                json!({ "name": "cost.budget.remaining", "value": left.get(currency), "unit": currency });
            self.say("metric", &body);
        }
        Ok(())
    }

    /// Charges the cost under a reservation that has lapsed.
    pub fn charge_late(&mut self, model: Option<String>, cost: &Budget) -> Result<(), Refusal> {
        self.model = model;
        cost.0.iter().try_for_each(|(currency, amount)| self.charge(currency, *amount, None))
    }

    /// Returns the reservation of a call that asks for the same amounts again: its first answer was lost.
    pub fn reservation_of(&self, call_id: Option<&str>, amounts: &Budget) -> Option<ReservationId> {
        let attempt = self.job.attempt;
        let same = |one: &&Reservation| {
            one.attempt == attempt && one.call_id.as_deref() == call_id && one.amounts == *amounts
        };
        call_id.and(self.reserved.iter().find(same)).map(|before| before.id)
    }

    /// Reserves amounts on every counter of their currencies, or on none. A currency that neither a counter nor one of
    /// the shared budgets (`shared`) counts is refused.
    pub fn reserve(
        &mut self,
        reservation: ReservationId,
        amounts: &Budget,
        call: &Call<'_>,
        shared: &BTreeSet<&str>,
    ) -> Result<(), Refusal> {
        if self.reserved.len() >= RESERVATIONS {
            let message =
                format!("The job has {RESERVATIONS} reservations open. Settle some, or let them go.");
            return Err(Refusal::field(Code::InvalidRequest, "reserve", "too_many", message));
        }
        for currency in amounts.0.keys() {
            // For a job without a budget of its own, the intent's limit applies.
            if self.cost_limit.is_none()
                && !shared.contains(currency.as_str())
                && !self.payers().iter().any(|budget| budget.0.contains_key(currency))
            {
                return Err(may::spent(currency));
            }
        }
        let mut after = Vec::new();
        for payer in &self.job.payers {
            let Some(budget) = self.budgets.get(payer) else { continue };
            let counted = |(currency, _): &(&String, &Amount)| budget.0.contains_key(*currency);
            let mine = amounts.0.iter().filter(counted).map(|(c, a)| (c.clone(), *a)).collect();
            let mut next = budget.clone();
            next.reserve(&Budget(mine)).map_err(|currency| may::spent(&currency))?;
            after.push((*payer, next));
        }
        self.earmark(amounts)?;
        self.spent.extend(after.iter().map(|(payer, _)| *payer));
        self.budgets.extend(after);
        let made = Reservation {
            id: reservation,
            job_id: self.job.id,
            attempt: self.job.attempt,
            amounts: amounts.clone(),
            call_id: call.id.map(str::to_owned),
            model: call.model.map(str::to_owned),
        };
        self.reserved.push(made.clone());
        self.made.push(made);
        if self.job.payers.is_empty() && !self.job.reserves {
            self.job_mut().reserves = true;
        }
        Ok(())
    }

    /// Puts a reservation back.
    pub fn put_back(&mut self, named: &str) -> Result<(), Refusal> {
        let place = self.reserved.iter().position(|one| one.id.to_string() == named);
        let place = place.ok_or_else(|| {
            let message = "No such reservation of this job: it was settled or let go already. Report the cost without it.";
            Refusal::field(Code::InvalidRequest, "reservation_id", "unknown", message)
        })?;
        let reservation = self.reserved.remove(place);
        self.give_back(&reservation);
        self.settles = Some(reservation.id);
        self.model = reservation.model;
        Ok(())
    }

    fn give_back(&mut self, reservation: &Reservation) {
        self.unmark(&reservation.amounts);
        for payer in &self.job.payers {
            let Some(budget) = self.budgets.get_mut(payer) else { continue };
            for (currency, amount) in &reservation.amounts.0 {
                if let Some(left) = budget.0.get_mut(currency) {
                    *left = *left + *amount;
                    self.spent.insert(*payer);
                }
            }
        }
        self.gone.push(reservation.id);
    }

    /// Puts back all reservations of the job after the loss of its worker or its end.
    pub(super) fn put_back_all(&mut self) {
        let reserved = std::mem::take(&mut self.reserved);
        reserved.iter().for_each(|reservation| self.give_back(reservation));
        if let Some(token) = self.job.claim.as_ref().map(|claim| claim.token) {
            self.lapsed.extend(reserved.into_iter().map(|reservation| (reservation, token)));
        }
    }
}
