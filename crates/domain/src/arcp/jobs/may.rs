//! Permissions of a job (ARCP §9.3 to §9.7), checked before each operation and always in the same order, so
//! that the first reason is the one reported.

use super::Job;
use crate::arcp::budgets::{BUDGET, Budget};
use crate::arcp::capabilities::Namespace;
use crate::clock::{Timestamp, rfc3339};
use crate::refusal::{Code, Refusal};

/// The namespace of models.
const MODEL: &str = "model.use";

/// Checks an operation: the job is not cancelled, its lease is in force and covers the target, no budget is
/// spent.
///
/// `payers` are the budgets of the job and its ancestors.
///
/// # Errors
/// [`Code::Cancelled`], [`Code::LeaseExpired`], [`Code::PermissionDenied`], [`Code::BudgetExhausted`], in
/// this order; [`Code::InvalidRequest`] for an invalid capability.
pub fn operate(
    job: &Job,
    payers: &[&Budget],
    capability: &str,
    target: &str,
    now: Timestamp,
) -> Result<(), Refusal> {
    let namespace = Namespace::parse(capability).ok_or_else(|| {
        let message = format!(
            "`{capability}` is no capability: use one of ARCP §9.2 or `x-vendor.<vendor>.<capability>`."
        );
        Refusal::field(Code::InvalidRequest, "capability", "enum", message)
    })?;
    if job.cancel.is_some() {
        return Err(Refusal::new(Code::Cancelled, "The job is cancelled: stop, and report it ended."));
    }
    if job.lease_expired(now) {
        let end = job.expires_at.map(rfc3339).unwrap_or_default();
        let message = format!("The job's lease ended at {end}. It cannot be renewed: submit the job again.");
        return Err(Refusal::new(Code::LeaseExpired, message));
    }
    if namespace == Namespace::Budget {
        // Checks a counter, not a pattern (ARCP-W-10.3).
        return counter(payers, target);
    }
    let free = capability == MODEL && !job.lease.names(MODEL) && !job.needs_model;
    if !free && !job.lease.covers(capability, target) {
        let message = format!("The job's authority does not cover `{capability}` of `{}`.", cut(target));
        return Err(Refusal::new(Code::PermissionDenied, message));
    }
    match payers.iter().find_map(|budget| budget.spent()) {
        Some(currency) => Err(spent(currency)),
        None => Ok(()),
    }
}

fn counter(payers: &[&Budget], currency: &str) -> Result<(), Refusal> {
    let out = payers.iter().filter_map(|budget| budget.0.get(currency)).any(|left| left.is_spent());
    if out { Err(spent(currency)) } else { Ok(()) }
}

/// Returns the refusal for a counter with nothing left.
#[must_use]
pub fn spent(currency: &str) -> Refusal {
    let message = format!(
        "`{BUDGET}` has no {currency} left. Go on with what costs nothing, or end with what there is."
    );
    Refusal::new(Code::BudgetExhausted, message)
}

fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}
