//! Reservations of calls that belong to no job, such as those of a model gateway: reserved before the call, settled with
//! its cost after it. Table `spend_reservations`.
//!
//! A reservation that nobody settles is released when it expires, so a gateway that died holds no money for long; or it is
//! charged, if the gateway prefers to count too much to counting too little.

use std::collections::BTreeMap;

use entente_domain::access::Level;
use entente_domain::amounts::Amount;
use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::check_name;
use entente_domain::ids::{IntentId, JobId, KeyId, ReservationId};
use entente_domain::limits::NAME_BYTES;
use entente_domain::openintent::costs::CostAsk;
use entente_domain::refusal::{Code, Refusal};
use entente_domain::spending::{Unsettled, Usage, check_unit};
use entente_domain::subjects::Act;
use entente_domain::traces::Trace;
use serde_json::{Value, json};
use sqlx::PgConnection;

mod rows;
pub(super) use rows::forget;

use super::cost_limits;
use super::cost_limits::CostLimit;
use super::costs;
use crate::access::membership;
use crate::charges;
use crate::charges::Charge;
use crate::due::run_each;
use crate::log::writer::IntentLog;
use crate::{AppError, Caller, Ctx, Outcome, Tx, not_found};

/// Default time after which a reservation is released, in seconds: longer than a call of a model takes.
pub const DEFAULT_SECONDS: u32 = 600;
/// Longest time, in seconds: a day.
pub const MOST_SECONDS: u32 = 24 * 3_600;
/// Maximum number of units in one reservation.
const UNITS: usize = 10;
/// How a reservation ended that nobody settled, so that its amounts were charged.
const CHARGED: &str = "charged";
/// How a reservation ended that nobody settled, so that its amounts were released.
const EXPIRED: &str = "expired";
/// Cost type of the costs of intents that settled calls make.
const COST_TYPE: &str = "call";

/// A call that is about to be made.
#[derive(Debug, Clone, Default)]
pub struct CallAsk {
    /// Principal on whose behalf it is made; defaults to the caller's.
    pub principal: Option<String>,
    /// Agent that makes it; defaults to the caller's.
    pub agent: Option<String>,
    /// Intent that it is for.
    pub intent_id: Option<IntentId>,
    /// Job that it is for: then whoever submitted the job spends.
    pub job_id: Option<JobId>,
    /// Provider of the model or tool.
    pub provider: Option<String>,
    /// Model that is called.
    pub model: Option<String>,
    /// Tool that is called.
    pub tool: Option<String>,
    /// Amounts to reserve by unit; empty only asks whether the call is allowed.
    pub amounts: BTreeMap<String, Amount>,
    /// The caller's id for the call: the same call again gets the same reservation.
    pub call_id: Option<String>,
    /// Seconds until it expires.
    pub seconds: Option<u32>,
    /// What happens to the amounts then.
    pub unsettled: Unsettled,
}

/// An allowed call.
#[derive(Debug, Clone)]
pub struct AllowedCall {
    /// The reservation; `None` if nothing was to be reserved.
    pub reservation: Option<Reservation>,
    /// The budgets that pay for it, as they are now.
    pub budgets: Vec<Usage>,
}

/// A reservation.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// Its id.
    pub id: ReservationId,
    /// The act that spends the amounts.
    pub act: Act,
    /// Job that the call is for.
    pub job_id: Option<JobId>,
    /// Provider.
    pub provider: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Amounts by unit.
    pub amounts: BTreeMap<String, Amount>,
    /// When it expires.
    pub expires_at: Timestamp,
    /// What happens to the amounts then.
    pub unsettled: Unsettled,
    /// How it ended: `settled`, `released`, `expired`, or `charged` when it expired.
    pub ended_as: Option<String>,
}

/// Requires a scope under which work is done.
fn require_work(caller: &Caller) -> Result<(), Refusal> {
    if caller.has(Scope::JobsWork) { Ok(()) } else { caller.require(Scope::ToolsUse) }
}

/// Judges a call, and reserves its amounts on every budget that pays for it, or on none.
///
/// # Errors
/// The scope `jobs:work` or `tools:use` is missing; the call is stopped; a budget has too little left or restricts the model or tool; the caller may not act for the
/// principal or agent, or for the job's; the intent is not writable; the request is invalid.
pub async fn reserve(ctx: &Ctx, caller: &Caller, ask: CallAsk) -> Outcome<AllowedCall> {
    require_work(caller)?;
    check(&ask)?;
    let now = ctx.now();
    let act = act(ctx, caller, &ask).await?;
    // A stopped caller spends nothing on behalf of others either.
    ctx.stops.require_none(&caller.act(act.intent))?;
    ctx.stops.require_none(&act)?;
    // That of a job was judged when the job was accepted.
    if let Some(intent) = ask.intent_id {
        let mut conn = ctx.pool.acquire().await?;
        membership::require(&mut conn, act.agent(), intent, Level::Write, now).await?;
    }
    if ask.amounts.is_empty() {
        let mut conn = ctx.pool.acquire().await?;
        let budgets = charges::of_act(&mut conn, &act, now).await?;
        if let Some(limit) = limit_of(&mut conn, act.intent).await? {
            limit.require_left(None)?;
        }
        allowed(&budgets, &ask)?;
        for usage in &budgets {
            usage.require_left()?;
        }
        return Ok(AllowedCall { reservation: None, budgets });
    }
    // The intent's lock keeps its cost limit exact among jobs and calls.
    let mut tx = ctx.begin(act.intent.as_slice()).await?;
    let limit = limit_of(&mut tx, act.intent).await?;
    let seconds = ask.seconds.unwrap_or(DEFAULT_SECONDS);
    let made = Reservation {
        id: ReservationId::mint(now, &*ctx.chance),
        act,
        job_id: ask.job_id,
        provider: ask.provider.clone(),
        model: ask.model.clone(),
        amounts: ask.amounts.clone(),
        expires_at: plus_seconds(now, seconds),
        unsettled: ask.unsettled,
        ended_as: None,
    };
    let key = caller.grant.key.id;
    if !rows::insert(&mut tx, &made, key, &ask, now).await? {
        tx.rollback().await?;
        return again(ctx, &made, &ask).await;
    }
    if let Some(mut limit) = limit {
        limit.reserve(&made.amounts)?;
    }
    let wanted = charged(&made, |_| Amount::ZERO, Some(made.id));
    let paid = charges::apply(ctx, &mut tx, &wanted, &[], now).await?;
    // Budgets in other units judge the call as well, although it takes nothing from them.
    let budgets = charges::of_act(&mut tx, &made.act, now).await?;
    let others = || charges::unpaid(&budgets, &paid).try_for_each(Usage::require_left);
    if let Err(refusal) = allowed(&budgets, &ask).and_then(|()| others()) {
        tx.rollback().await?;
        return Err(refusal.into());
    }
    if let Err(refusal) = charges::require_room(&mut tx, &paid, now).await? {
        // The thresholds that the refusal has reached are kept.
        charges::apply(ctx, &mut tx, &[], &[made.id], now).await?;
        rows::remove(&mut tx, made.id).await?;
        tx.commit().await?;
        return Err(refusal.into());
    }
    tx.commit().await?;
    Ok(AllowedCall { reservation: Some(made), budgets })
}

async fn limit_of(conn: &mut PgConnection, intent: Option<IntentId>) -> Outcome<Option<CostLimit>> {
    Ok(cost_limits::load(conn, intent.as_slice()).await?.into_values().next())
}

/// Who spends: the caller, or who it may act for.
async fn act(ctx: &Ctx, caller: &Caller, ask: &CallAsk) -> Outcome<Act> {
    let key = &caller.grant.key;
    if let Some(job) = ask.job_id {
        let found = act_of_job(&mut *ctx.pool.acquire().await?, job).await?;
        let theirs = |act: &Act| act.principal == key.principal_id || key.may_act_as(&act.principal);
        return found.filter(theirs).ok_or_else(|| not_found("job"));
    }
    let mut act = caller.act(ask.intent_id);
    for (member, name) in [("principal_id", &ask.principal), ("agent_id", &ask.agent)] {
        let Some(name) = name else { continue };
        check_name(member, name)?;
        if !key.may_act_as(name) && *name != caller.agent {
            let message = format!(
                "The key of `{}` may not act as `{name}`. Use a key whose act_as covers it.",
                key.principal_id
            );
            return Err(Refusal::new(Code::MayNotActAs, message).into());
        }
    }
    if let Some(principal) = &ask.principal {
        act.principal.clone_from(principal);
        act.agents = vec![principal.clone()];
    }
    if let Some(agent) = &ask.agent {
        act.agents = vec![agent.clone()];
    }
    Ok(act)
}

/// Returns the act of a job, by whose budgets its costs are paid; `None` if there is no such job.
async fn act_of_job(conn: &mut PgConnection, job: JobId) -> Outcome<Option<Act>> {
    let row = sqlx::query!(
        "-- jobs::act\n SELECT owner, principal, agent, intent_id, key_id FROM jobs WHERE id = $1",
        job.uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| {
        let (intent, key) = (row.intent_id.map(IntentId::from), row.key_id.map(KeyId::from));
        Act::of_job(row.owner, &row.principal, &row.agent, intent, key)
    }))
}

fn check(ask: &CallAsk) -> Result<(), Refusal> {
    let refused =
        |member: &str, message: String| Err(Refusal::field(Code::InvalidRequest, member, "value", message));
    if ask.amounts.len() > UNITS {
        return refused("reserve", format!("A call reserves at most {UNITS} units."));
    }
    for (unit, amount) in &ask.amounts {
        check_unit(unit)?;
        if amount.is_negative() {
            return refused("reserve", format!("`reserve` of {unit} is below zero."));
        }
    }
    if ask.job_id.is_some() && (ask.principal.is_some() || ask.agent.is_some() || ask.intent_id.is_some()) {
        let told =
            "The job says who spends. Leave out `principal_id`, `agent_id` and `intent_id`, or `job_id`.";
        return refused("job_id", told.to_owned());
    }
    let texts =
        [("provider", &ask.provider), ("model", &ask.model), ("tool", &ask.tool), ("call_id", &ask.call_id)];
    for (member, text) in texts {
        if text.as_ref().is_some_and(|text| text.is_empty() || text.len() > NAME_BYTES) {
            return refused(member, format!("`{member}` must have 1 to {NAME_BYTES} bytes."));
        }
    }
    if ask.seconds.is_some_and(|seconds| !(1..=MOST_SECONDS).contains(&seconds)) {
        return refused("expires_in", format!("`expires_in` must be 1 to {MOST_SECONDS} seconds."));
    }
    Ok(())
}

fn allowed(budgets: &[Usage], ask: &CallAsk) -> Result<(), Refusal> {
    for usage in budgets {
        if let Some(model) = &ask.model {
            usage.require_allowed("model.use", model)?;
        }
        if let Some(tool) = &ask.tool {
            usage.require_allowed("tool.call", tool)?;
        }
    }
    Ok(())
}

/// The charges of a reservation: its amounts are held, and `spent` of each unit is charged.
fn charged(
    made: &Reservation,
    spent: impl Fn(&str) -> Amount,
    reservation: Option<ReservationId>,
) -> Vec<Charge> {
    let held = |amount: Amount| if reservation.is_some() { amount } else { Amount::ZERO };
    let charge = |(unit, amount): (&String, &Amount)| Charge {
        act: made.act.clone(),
        unit: unit.clone(),
        spent: spent(unit),
        held: held(*amount),
        reservation,
        settles: if reservation.is_none() { Some(made.id) } else { None },
        job: made.job_id,
        provider: made.provider.clone(),
        model: made.model.clone(),
    };
    made.amounts.iter().map(charge).collect()
}

/// The answer to a repeated call: the reservation that it made, while that holds the amounts. One that has ended pays for no
/// further call.
async fn again(ctx: &Ctx, made: &Reservation, ask: &CallAsk) -> Outcome<AllowedCall> {
    let mut conn = ctx.pool.acquire().await?;
    let call_id = ask.call_id.as_deref().unwrap_or_default();
    let before = rows::of_call(&mut conn, &made.act.principal, call_id).await?;
    let before = before.ok_or_else(|| {
        Refusal::new(Code::Unavailable, "The same call is just being judged. Ask again shortly.")
    })?;
    let parts = |one: &Reservation| {
        let Reservation { act, job_id, provider, model, amounts, .. } = one.clone();
        (act.agents, act.intent, job_id, provider, model, amounts)
    };
    if parts(&before) != parts(made) || before.unsettled != ask.unsettled {
        let message = "`call_id` was used for another call. Give each call an id of its own.";
        return Err(Refusal::new(Code::IdempotencyMismatch, message).into());
    }
    if let Some(ended) = &before.ended_as {
        let message = format!(
            "The call with this `call_id` is over: its reservation was {ended}. Give each call an id of its own."
        );
        return Err(Refusal::new(Code::IdempotencyMismatch, message).into());
    }
    let budgets = charges::of_act(&mut conn, &before.act, ctx.now()).await?;
    allowed(&budgets, ask)?;
    Ok(AllowedCall { reservation: Some(before), budgets })
}

/// Settles a reservation: the cost is charged instead of the reserved amounts; an empty cost releases it. Settling again
/// changes nothing.
///
/// A reservation that has expired, or was released by an attempt that failed before another one cost something, is charged all
/// the same: the money is spent.
///
/// # Errors
/// The scope `jobs:work` or `tools:use` is missing; it does not exist, or the caller may not act for its agent; a cost is below
/// zero.
pub async fn settle(
    ctx: &Ctx,
    caller: &Caller,
    id: ReservationId,
    cost: &BTreeMap<String, Amount>,
    model: Option<String>,
) -> Outcome<Reservation> {
    require_work(caller)?;
    for (unit, amount) in cost {
        check_unit(unit)?;
        if amount.is_negative() {
            let message = format!("`cost` of {unit} is below zero: a cost gives nothing back.");
            return Err(Refusal::field(Code::InvalidRequest, "cost", "range", message).into());
        }
    }
    let intent = rows::intent_of(&mut *ctx.pool.acquire().await?, id).await?;
    let mut tx = ctx.begin(intent.as_slice()).await?;
    let found = rows::lock(&mut tx, id).await?;
    let mine = |one: &Reservation| {
        let key = &caller.grant.key;
        one.act.key == Some(key.id) || key.may_act_as(&one.act.principal) || key.may_act_as(one.act.agent())
    };
    let mut found = found.filter(mine).ok_or_else(|| not_found("reservation"))?;
    let charge = match found.ended_as.as_deref() {
        Some(CHARGED) => above(cost, &found.amounts),
        _ => cost.clone(),
    };
    let is_over = match found.ended_as.as_deref() {
        Some("settled") => true,
        Some("released" | CHARGED) => charge.is_empty(),
        _ => false,
    };
    if is_over {
        tx.rollback().await?;
        return Ok(found);
    }
    found.model = model.or(found.model);
    let ended_as = if cost.is_empty() { "released" } else { "settled" };
    conclude(ctx, tx, found, Ending { cost: charge, ended_as, is_billed: true, trace: caller.trace }).await
}

/// The part of a cost above the amount charged already.
fn above(cost: &BTreeMap<String, Amount>, charged: &BTreeMap<String, Amount>) -> BTreeMap<String, Amount> {
    let rest = cost.iter().map(|(unit, amount)| {
        let before = charged.get(unit).copied().unwrap_or(Amount::ZERO);
        (unit.clone(), *amount - before)
    });
    rest.filter(|(_, rest)| !rest.is_spent()).collect()
}

/// How a reservation ends.
struct Ending {
    /// The amounts to charge.
    cost: BTreeMap<String, Amount>,
    ended_as: &'static str,
    /// Whether the cost is recorded as one of the intent as well.
    is_billed: bool,
    trace: Option<Trace>,
}

/// Ends a reservation: charges its cost, gives back the reserved rest, and commits.
async fn conclude(ctx: &Ctx, mut tx: Tx, mut found: Reservation, ending: Ending) -> Outcome<Reservation> {
    let now = ctx.now();
    let reserved = std::mem::replace(&mut found.amounts, ending.cost);
    let log = if ending.is_billed { bill(ctx, &mut tx, ending.trace, &found).await? } else { None };
    let charges = charged(&found, |unit| found.amounts.get(unit).copied().unwrap_or(Amount::ZERO), None);
    charges::apply(ctx, &mut tx, &charges, &[found.id], now).await?;
    found.amounts = reserved;
    rows::end(&mut tx, found.id, ending.ended_as, now).await?;
    tx.commit().await?;
    if let Some(log) = log {
        ctx.feed.publish_log(&log);
    }
    found.ended_as = Some(ending.ended_as.to_owned());
    Ok(found)
}

/// Records the costs of a settled call as costs of its intent (RFC-0009), even beyond the intent's limit: the money is
/// already spent.
async fn bill(
    ctx: &Ctx,
    conn: &mut PgConnection,
    trace: Option<Trace>,
    settled: &Reservation,
) -> Outcome<Option<IntentLog>> {
    let costs: Vec<_> = settled.amounts.iter().filter(|(_, amount)| **amount != Amount::ZERO).collect();
    let Some(intent) = settled.act.intent.filter(|_| !costs.is_empty()) else { return Ok(None) };
    let mut log = IntentLog::open(conn, intent, trace, ctx.now()).await?;
    for (unit, amount) in costs {
        let Value::Object(metadata) = json!({ "reservation_id": settled.id }) else { continue };
        let ask = CostAsk {
            cost_type: COST_TYPE.to_owned(),
            amount: *amount,
            unit: unit.clone(),
            provider: settled.provider.clone(),
            model: settled.model.clone(),
            metadata,
        };
        costs::enter(ctx, conn, &mut log, ask, settled.act.agent()).await?;
    }
    log.save(conn).await?;
    Ok(Some(log))
}

/// Releases or charges up to `limit` reservations that nobody settled in time.
///
/// # Errors
/// A database error.
pub async fn expire_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let released = release_due(ctx, limit).await?;
    Ok(released + charge_due(ctx, limit).await?)
}

/// Charges reservations that say so, each in a transaction of its own: the cost of an intent needs the intent's lock.
async fn charge_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let due = rows::to_charge(&mut *ctx.pool.acquire().await?, ctx.now(), limit).await?;
    let each = due.into_iter().map(async |(id, intent)| match charge_one(ctx, id, intent, true).await {
        // An intent takes no further cost, such as one with too many sums; the budgets are charged all the same.
        Err(AppError::Refused(_)) => charge_one(ctx, id, intent, false).await,
        charged => charged,
    });
    // One that cannot be charged now, such as for an intent that stays locked for long, keeps back no other.
    run_each(each).await
}

async fn charge_one(ctx: &Ctx, id: ReservationId, intent: Option<IntentId>, is_billed: bool) -> Outcome<u64> {
    let mut tx = ctx.begin(intent.as_slice()).await?;
    let found = rows::lock(&mut tx, id).await?;
    // A server of the previous release has ended it as expired.
    let is_due = |found: &Reservation| found.ended_as.as_deref().is_none_or(|ended| ended == EXPIRED);
    let Some(found) = found.filter(is_due) else {
        tx.rollback().await?;
        return Ok(0);
    };
    let ending = Ending { cost: found.amounts.clone(), ended_as: CHARGED, is_billed, trace: None };
    conclude(ctx, tx, found, ending).await?;
    Ok(1)
}

async fn release_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let now = ctx.now();
    let mut tx = ctx.begin(&[]).await?;
    let due = rows::to_release(&mut tx, now, limit).await?;
    if due.is_empty() {
        tx.rollback().await?;
        return Ok(0);
    }
    charges::apply(ctx, &mut tx, &[], &due, now).await?;
    rows::expire(&mut tx, &due, now).await?;
    tx.commit().await?;
    Ok(u64::try_from(due.len()).unwrap_or(u64::MAX))
}
