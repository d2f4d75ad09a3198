//! Authorisation before an operation (ARCP §9.3): a worker asks whether an operation is allowed, and can
//! reserve its cost (an extension: fails closed). An operation allowed without a reservation takes no lock.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::arcp::budgets::{BUDGET, Budget};
use entente_domain::arcp::jobs::ask::no_job;
use entente_domain::arcp::jobs::may;
use entente_domain::arcp::jobs::wire::numbers;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{JobId, ReservationId};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::charges;
use entente_kernel::charges::Charge;
use entente_kernel::cost_limits;
use entente_kernel::{AppError, Caller, Outcome, Tx};
use serde_json::json;
use sqlx::PgConnection;

use super::claim_tokens::token_digest;
use super::locked::{Call, JobChange, LockedJobs};
use super::reading::conceal;
use super::records::lapsed;
use super::{budgets, log, rows};
use crate::Ctx;

/// The capability of models (ARCP §9.7).
const MODEL: &str = "model.use";

/// An operation that a worker is about to perform.
#[derive(Debug, Clone)]
pub struct OperationAsk {
    /// Capability: a namespace of §9.2.
    pub capability: String,
    /// Target of the operation.
    pub target: String,
    /// Id of the call; with it, a refusal is also recorded as an event of the job (§9.6).
    pub call_id: Option<String>,
    /// Amounts to reserve for the operation.
    pub reserve: Option<Budget>,
}

/// Approval of an operation.
#[derive(Debug)]
pub struct Allowed {
    /// Remaining budget of the job.
    pub budget: Budget,
    /// Id of the reservation, if amounts were reserved.
    pub reservation_id: Option<ReservationId>,
}

/// Authorises an operation before it is performed.
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
    // A stop of the worker's principal or key holds as well as one of the job.
    ctx.stops.objection(caller, &caller.agent, None).map_or(Ok(()), Err)?;
    let done = authorize_held(ctx, id, token, ask).await;
    conceal(ctx, caller, id, done).await
}

async fn authorize_held(ctx: &Ctx, id: JobId, token: &str, ask: OperationAsk) -> Outcome<Allowed> {
    if ask.reserve.is_none()
        && let Some(budget) = authorize_unlocked(ctx, id, token, &ask).await?
    {
        return Ok(Allowed { budget, reservation_id: None });
    }
    let (mut tx, mut locked) = LockedJobs::begin(ctx, id).await?;
    let mut change = locked.change(id)?;
    change.job().hold(&token_digest(token), change.now())?;
    ctx.stops.require_none(&change.job().act())?;
    let judged = match change.may(&ask.capability, &ask.target) {
        Ok(()) => judge_shared(ctx, &mut tx, &mut change, &ask).await?,
        Err(refusal) => Err(refusal),
    };
    if let Err(refusal) = &judged {
        // Forgets the reservations that the refused operation has made so far.
        change = locked.change(id)?;
        change.refuse(ask.call_id.as_deref(), refusal)?;
    }
    let budget = change.remaining();
    locked.apply(change);
    locked.conclude(ctx, tx).await?;
    let reservation_id = judged.map_err(AppError::from)?;
    Ok(Allowed { budget, reservation_id })
}

/// Judges an operation by the budgets that the job shares with others, and reserves its amounts there and on the job's
/// own counters; on all of them or on none.
async fn judge_shared(
    ctx: &Ctx,
    conn: &mut PgConnection,
    change: &mut JobChange,
    ask: &OperationAsk,
) -> Outcome<Result<Option<ReservationId>, Refusal>> {
    let (act, now) = (change.job().act(), change.now());
    let Some(amounts) = &ask.reserve else {
        let usages = charges::of_act(conn, &act, now).await?;
        return Ok(charges::require_allowed(&usages, &ask.capability, &ask.target).map(|()| None));
    };
    if let Some(before) = change.reservation_of(ask.call_id.as_deref(), amounts) {
        return Ok(Ok(Some(before)));
    }
    let fresh = ReservationId::mint(now, &*ctx.chance);
    let model = (ask.capability == MODEL).then_some(ask.target.as_str());
    let call = Call { id: ask.call_id.as_deref(), model };
    let wanted: Vec<Charge> = amounts
        .0
        .iter()
        .map(|(unit, amount)| Charge {
            act: act.clone(),
            unit: unit.clone(),
            held: *amount,
            reservation: Some(fresh),
            job: Some(change.job().id),
            ..Charge::default()
        })
        .collect();
    let paid = charges::apply(ctx, conn, &wanted, &[], now).await?;
    let shared: BTreeSet<&str> = paid.iter().map(|one| one.usage.budget.unit.as_str()).collect();
    let own = change.reserve(fresh, amounts, &call, &shared);
    let mut allowed = own.and_then(|()| {
        paid.iter().try_for_each(|one| one.usage.require_allowed(&ask.capability, &ask.target))
    });
    if allowed.is_ok() && ctx.stops.has_budgets() {
        // Budgets in other units judge the operation as well, although it takes nothing from them.
        let usages = charges::of_act(conn, &act, now).await?;
        allowed = charges::require_others_allowed(&usages, &paid, &ask.capability, &ask.target);
    }
    let judged = match allowed {
        Ok(()) => charges::require_room(conn, &paid, now).await?,
        Err(refusal) => Err(refusal),
    };
    if judged.is_err() {
        charges::apply(ctx, conn, &[], &[fresh], now).await?;
    }
    Ok(judged.map(|()| Some(fresh)))
}

/// Checks an operation without locks; returns `None` if a refusal has to be recorded in the job.
async fn authorize_unlocked(
    ctx: &Ctx,
    id: JobId,
    token: &str,
    ask: &OperationAsk,
) -> Outcome<Option<Budget>> {
    let mut conn = ctx.pool.acquire().await?;
    let job = rows::load(&mut conn, &[id]).await?.pop().ok_or_else(no_job)?;
    let now = ctx.now();
    job.hold(&token_digest(token), now)?;
    let counters = budgets::load(&mut conn, &job.payers).await?;
    let payers: Vec<&Budget> = counters.values().collect();
    let mut judged = may::operate(&job, &payers, &ask.capability, &ask.target, now);
    if let Some(intent) = job.intent_id.filter(|_| judged.is_ok()) {
        let cost_limits = cost_limits::load(&mut conn, &[intent]).await?;
        let unit = (ask.capability == BUDGET).then_some(ask.target.as_str());
        judged = cost_limits.get(&intent).map_or(Ok(()), |cost_limit| cost_limit.require_left(unit));
    }
    ctx.stops.require_none(&job.act())?;
    if judged.is_ok() && ctx.stops.has_budgets() {
        let usages = charges::of_act(&mut conn, &job.act(), now).await?;
        judged = charges::require_allowed(&usages, &ask.capability, &ask.target);
    }
    match judged {
        Ok(()) => Ok(Some(counters.get(&id).cloned().unwrap_or_default())),
        // Such a refusal is not recorded.
        Err(refusal) if ask.call_id.is_none() && refusal.code != Code::LeaseExpired => Err(refusal.into()),
        Err(_) => Ok(None),
    }
}

/// Settles a reservation and returns the job's remaining budget.
///
/// The reserved amounts are put back and `cost` is charged instead; an empty cost charges nothing. A reservation that lapsed with
/// its claim or its job is charged for a day more, under the token of that claim.
///
/// # Errors
/// The claim is lost, and had no such reservation; there is no such reservation; a cost is below zero.
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

/// Checks the cost of a settlement.
pub(super) fn check_cost(cost: &Budget) -> Result<(), Refusal> {
    let Some((currency, _)) = cost.0.iter().find(|(_, amount)| amount.is_negative()) else { return Ok(()) };
    let message = format!("`cost` of {currency} is below zero: a cost gives nothing back.");
    Err(Refusal::field(Code::InvalidRequest, "cost", "range", message))
}

async fn settle_held(ctx: &Ctx, id: JobId, token: &str, reservation: &str, cost: &Budget) -> Outcome<Budget> {
    check_cost(cost)?;
    let (mut tx, mut locked) = LockedJobs::begin(ctx, id).await?;
    let mut change = locked.change(id)?;
    if let Err(lost) = change.job().hold(&token_digest(token), change.now()) {
        return settle_lapsed(ctx, tx, locked, id, token, reservation, cost)
            .await?
            .ok_or_else(|| lost.into());
    }
    if let Err(unknown) = settle_on(&mut change, reservation, cost) {
        // The first answer was lost and this is a retry: the reservation is settled only once.
        let settled = log::known(&mut tx, &[(id, settling(reservation))]).await?;
        return if settled.is_empty() { Err(unknown.into()) } else { Ok(change.remaining()) };
    }
    let left = change.remaining();
    locked.apply(change);
    locked.conclude(ctx, tx).await?;
    Ok(left)
}

/// Settles a reservation that ended with the claim or the job, within a day: the money is spent. `None` if the claim with this
/// token had no such reservation.
async fn settle_lapsed(
    ctx: &Ctx,
    mut tx: Tx,
    mut locked: LockedJobs,
    id: JobId,
    token: &str,
    reservation: &str,
    cost: &Budget,
) -> Outcome<Option<Budget>> {
    let Ok(named) = reservation.parse::<ReservationId>() else { return Ok(None) };
    let found = lapsed::settle(&mut tx, id, named, &token_digest(token), ctx.now()).await?;
    let Some(found) = found else { return Ok(None) };
    let mut change = locked.change(id)?;
    if !found.is_first {
        return Ok(Some(change.remaining()));
    }
    change.charge_late(found.model, cost)?;
    let left = change.remaining();
    locked.apply(change);
    locked.conclude(ctx, tx).await?;
    Ok(Some(left))
}

/// Settles a reservation of a job that its worker holds.
pub(super) fn settle_on(change: &mut JobChange, reservation: &str, cost: &Budget) -> Result<(), Refusal> {
    change.put_back(reservation)?;
    if cost.is_unlimited() {
        let body = json!({ "name": "cost.released", "value": 0, "unit": "", "reservation_id": reservation });
        change.append("metric", change.now(), body.to_string(), Some(settling(reservation)));
    }
    for (index, (currency, amount)) in cost.0.iter().enumerate() {
        let value = numbers(&Budget(BTreeMap::from([(currency.clone(), *amount)])));
        let body = json!({
            "name": "cost.settled", "value": value.get(currency), "unit": currency, "reservation_id": reservation,
        });
        let key = (index == 0).then(|| settling(reservation));
        change.append("metric", change.now(), body.to_string(), key);
        change.charge(currency, *amount, None)?;
    }
    change.settles = None;
    Ok(())
}

/// Event key of the event that settles a reservation.
fn settling(reservation: &str) -> String {
    format!("settle:{reservation}")
}
