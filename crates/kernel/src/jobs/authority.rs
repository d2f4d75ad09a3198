//! Authority before the act (ARCP §9.3): a worker asks whether an operation is allowed before it is made, and can set aside
//! what it will cost (an extension: fails closed). What is only looked at takes no lock.

use std::collections::BTreeMap;

use entente_domain::budgets::{BUDGET, Budget};
use entente_domain::ids::{JobId, ReservationId};
use entente_domain::jobs::ask::no_job;
use entente_domain::jobs::may;
use entente_domain::jobs::wire::numbers;
use entente_domain::keys::Scope;
use entente_domain::refusal::{Code, Refusal};
use serde_json::json;

use super::hold::{Hold, purses};
use super::reading::conceal;
use super::reports::token_digest;
use super::{budgets, log, rows};
use crate::{AppError, Caller, Ctx, Outcome};

/// An operation that a worker is about to make.
#[derive(Debug, Clone)]
pub struct OperationAsk {
    /// A namespace of §9.2.
    pub capability: String,
    /// On what.
    pub target: String,
    /// Which call it is: a refusal is then an event of the job too (§9.6).
    pub call_id: Option<String>,
    /// What to set aside for it.
    pub reserve: Option<Budget>,
}

/// The operation is allowed.
#[derive(Debug)]
pub struct Allowed {
    /// What the job has left.
    pub budget: Budget,
    /// Under which name the amounts were set aside.
    pub reservation_id: Option<ReservationId>,
}

/// Judges an operation before it is made.
///
/// # Errors
/// [`Code::ClaimLost`], [`Code::Cancelled`], [`Code::LeaseExpired`], [`Code::PermissionDenied`],
/// [`Code::BudgetExhausted`], in this order.
pub async fn authorize(
    ctx: &Ctx,
    caller: &Caller,
    id: JobId,
    token: &str,
    ask: OperationAsk,
) -> Outcome<Allowed> {
    caller.require(Scope::JobsWork)?;
    let done = authorize_held(ctx, id, token, ask).await;
    conceal(ctx, caller, id, done).await
}

async fn authorize_held(ctx: &Ctx, id: JobId, token: &str, ask: OperationAsk) -> Outcome<Allowed> {
    if ask.reserve.is_none()
        && let Some(budget) = glance(ctx, id, token, &ask).await?
    {
        return Ok(Allowed { budget, reservation_id: None });
    }
    let (tx, mut hold) = Hold::begin(ctx, id).await?;
    hold.job(id)?.hold(&token_digest(token), hold.now())?;
    let fresh = ReservationId::mint(hold.now(), &*ctx.chance);
    let judged = hold.may(id, &ask.capability, &ask.target).and_then(|()| {
        let reserve = ask.reserve.as_ref();
        reserve.map(|amounts| hold.reserve(id, fresh, amounts, ask.call_id.as_deref())).transpose()
    });
    if let Err(refusal) = &judged {
        hold.refuse(id, ask.call_id.as_deref(), refusal)?;
    }
    let budget = hold.remaining(id);
    hold.conclude(ctx, tx).await?;
    let reservation_id = judged.map_err(AppError::from)?;
    Ok(Allowed { budget, reservation_id })
}

/// Looks whether an operation is plainly allowed; `None` when somebody has to be told that it is not.
async fn glance(ctx: &Ctx, id: JobId, token: &str, ask: &OperationAsk) -> Outcome<Option<Budget>> {
    let mut conn = ctx.pool.acquire().await?;
    let job = rows::load(&mut conn, &[id]).await?.pop().ok_or_else(no_job)?;
    let now = ctx.now();
    job.hold(&token_digest(token), now)?;
    let counters = budgets::load(&mut conn, &job.payers).await?;
    let payers: Vec<&Budget> = counters.values().collect();
    let mut judged = may::operate(&job, &payers, &ask.capability, &ask.target, now);
    if let Some(intent) = job.intent_id.filter(|_| judged.is_ok()) {
        let purses = purses::load(&mut conn, &[intent]).await?;
        let unit = (ask.capability == BUDGET).then_some(ask.target.as_str());
        judged = purses.get(&intent).map_or(Ok(()), |purse| purse.require_left(unit));
    }
    match judged {
        Ok(()) => Ok(Some(counters.get(&id).cloned().unwrap_or_default())),
        // Nothing of it has to be written down.
        Err(refusal) if ask.call_id.is_none() && refusal.code != Code::LeaseExpired => Err(refusal.into()),
        Err(_) => Ok(None),
    }
}

/// Settles what was set aside: `cost` is taken off instead, nothing when it is empty. What is left of the job's budget.
///
/// # Errors
/// The claim is lost; nothing is set aside under that name; a cost is below zero.
pub async fn settle(
    ctx: &Ctx,
    caller: &Caller,
    id: JobId,
    token: &str,
    reservation: &str,
    cost: &Budget,
) -> Outcome<Budget> {
    caller.require(Scope::JobsWork)?;
    let done = settle_held(ctx, id, token, reservation, cost).await;
    conceal(ctx, caller, id, done).await
}

async fn settle_held(ctx: &Ctx, id: JobId, token: &str, reservation: &str, cost: &Budget) -> Outcome<Budget> {
    if let Some((currency, _)) = cost.0.iter().find(|(_, amount)| amount.is_negative()) {
        let message = format!("`cost` of {currency} is below zero: a cost gives nothing back.");
        return Err(Refusal::field(Code::InvalidRequest, "cost", "range", message).into());
    }
    let (mut tx, mut hold) = Hold::begin(ctx, id).await?;
    hold.job(id)?.hold(&token_digest(token), hold.now())?;
    if let Err(unknown) = hold.put_back(id, reservation) {
        // The answer to the first time was lost: settled once, it is not settled again.
        let settled = log::known(&mut tx, &[(id, settling(reservation))]).await?;
        return if settled.is_empty() { Err(unknown.into()) } else { Ok(hold.remaining(id)) };
    }
    if cost.is_unlimited() {
        let body = json!({ "name": "cost.released", "value": 0, "unit": "", "reservation_id": reservation });
        hold.append(id, "metric", hold.now(), body.to_string(), Some(settling(reservation)));
    }
    for (index, (currency, amount)) in cost.0.iter().enumerate() {
        let value = numbers(&Budget(BTreeMap::from([(currency.clone(), *amount)])));
        let body = json!({
            "name": "cost.settled", "value": value.get(currency), "unit": currency, "reservation_id": reservation,
        });
        let key = (index == 0).then(|| settling(reservation));
        hold.append(id, "metric", hold.now(), body.to_string(), key);
        hold.charge(id, currency, *amount, None)?;
    }
    let left = hold.remaining(id);
    hold.conclude(ctx, tx).await?;
    Ok(left)
}

/// The name of the event that says how a reservation ended.
fn settling(reservation: &str) -> String {
    format!("settle:{reservation}")
}
