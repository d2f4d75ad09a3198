//! Reservations of calls that belong to no job, such as those of a model gateway: reserved before the call, settled with
//! its cost after it. Table `spend_reservations`.
//!
//! A reservation that nobody settles is released when it expires, so a gateway that died holds no money for long.

use std::collections::BTreeMap;

use entente_domain::access::Level;
use entente_domain::amounts::Amount;
use entente_domain::clock::{Timestamp, plus_seconds};
use entente_domain::identity::principals::check_name;
use entente_domain::ids::{IntentId, JobId, KeyId, ReservationId};
use entente_domain::limits::NAME_BYTES;
use entente_domain::openintent::costs::CostAsk;
use entente_domain::refusal::{Code, Refusal};
use entente_domain::spending::{Usage, check_unit};
use entente_domain::subjects::Act;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::cost_limits;
use super::cost_limits::CostLimit;
use super::costs;
use crate::access::membership;
use crate::charges;
use crate::charges::Charge;
use crate::log::writer::IntentLog;
use crate::{Caller, Ctx, Outcome, not_found, unknown};

/// Default time after which a reservation is released, in seconds: longer than a call of a model takes.
pub const DEFAULT_SECONDS: u32 = 600;
/// Longest time, in seconds: a day.
pub const MOST_SECONDS: u32 = 24 * 3_600;
/// Maximum number of units in one reservation.
const UNITS: usize = 10;
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
    /// Seconds until it is released.
    pub seconds: Option<u32>,
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
    /// Who spends, and for what.
    pub act: Act,
    /// Job that the call is for.
    pub job_id: Option<JobId>,
    /// Provider.
    pub provider: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Amounts by unit.
    pub amounts: BTreeMap<String, Amount>,
    /// When it is released.
    pub expires_at: Timestamp,
    /// How it ended: `settled`, `released` or `expired`.
    pub ended_as: Option<String>,
}

/// Judges a call, and reserves its amounts on every budget that pays for it, or on none.
///
/// # Errors
/// The call is stopped; a budget has too little left or restricts the model or tool; the caller may not act for the
/// principal or agent, or for the job's; the intent is not writable; the request is invalid.
pub async fn reserve(ctx: &Ctx, caller: &Caller, ask: CallAsk) -> Outcome<AllowedCall> {
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
        ended_as: None,
    };
    let key = caller.grant.key.id;
    if !insert(&mut tx, &made, key, ask.call_id.as_deref(), now).await? {
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
        remove(&mut tx, made.id).await?;
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

/// Who spends what a job costs.
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
    let before = of_call(&mut conn, &made.act.principal, call_id).await?;
    let before = before.ok_or_else(|| {
        Refusal::new(Code::Unavailable, "The same call is just being judged. Ask again shortly.")
    })?;
    let parts = |one: &Reservation| {
        let Reservation { act, job_id, provider, model, amounts, .. } = one.clone();
        (act.agents, act.intent, job_id, provider, model, amounts)
    };
    if parts(&before) != parts(made) {
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
/// It does not exist, or the caller may not act for its agent; a cost is below zero.
pub async fn settle(
    ctx: &Ctx,
    caller: &Caller,
    id: ReservationId,
    cost: &BTreeMap<String, Amount>,
    model: Option<String>,
) -> Outcome<Reservation> {
    for (unit, amount) in cost {
        check_unit(unit)?;
        if amount.is_negative() {
            let message = format!("`cost` of {unit} is below zero: a cost gives nothing back.");
            return Err(Refusal::field(Code::InvalidRequest, "cost", "range", message).into());
        }
    }
    let now = ctx.now();
    let intent = intent_of(&mut *ctx.pool.acquire().await?, id).await?;
    let mut tx = ctx.begin(intent.as_slice()).await?;
    let found = lock(&mut tx, id).await?;
    let mine = |one: &Reservation| {
        let key = &caller.grant.key;
        one.act.key == Some(key.id) || key.may_act_as(&one.act.principal) || key.may_act_as(one.act.agent())
    };
    let mut found = found.filter(mine).ok_or_else(|| not_found("reservation"))?;
    let is_over = match found.ended_as.as_deref() {
        Some("settled") => true,
        Some("released") => cost.is_empty(),
        _ => false,
    };
    if is_over {
        tx.rollback().await?;
        return Ok(found);
    }
    found.model = model.or(found.model);
    let reserved = std::mem::replace(&mut found.amounts, cost.clone());
    let log = bill(ctx, &mut tx, caller, &found).await?;
    let charges = charged(&found, |unit| cost.get(unit).copied().unwrap_or(Amount::ZERO), None);
    charges::apply(ctx, &mut tx, &charges, &[id], now).await?;
    found.amounts = reserved;
    let ended = if cost.is_empty() { "released" } else { "settled" };
    end(&mut tx, id, ended, now).await?;
    tx.commit().await?;
    if let Some(log) = log {
        ctx.feed.publish_log(&log);
    }
    found.ended_as = Some(ended.to_owned());
    Ok(found)
}

/// Records the costs of a settled call as costs of its intent (RFC-0009), even beyond the intent's limit: the money is
/// already spent.
async fn bill(
    ctx: &Ctx,
    conn: &mut PgConnection,
    caller: &Caller,
    settled: &Reservation,
) -> Outcome<Option<IntentLog>> {
    let costs: Vec<_> = settled.amounts.iter().filter(|(_, amount)| **amount != Amount::ZERO).collect();
    let Some(intent) = settled.act.intent.filter(|_| !costs.is_empty()) else { return Ok(None) };
    let mut log = IntentLog::open(conn, intent, caller.trace, ctx.now()).await?;
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

/// Releases up to `limit` reservations that nobody settled in time.
///
/// # Errors
/// A database error.
pub async fn expire_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let now = ctx.now();
    let mut tx = ctx.begin(&[]).await?;
    let due = sqlx::query_scalar!(
        "-- spend_reservations::due
         SELECT id FROM spend_reservations WHERE ended_at IS NULL AND expires_at <= $1
         ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED",
        now,
        limit
    )
    .fetch_all(&mut *tx)
    .await?;
    if due.is_empty() {
        tx.rollback().await?;
        return Ok(0);
    }
    let ids: Vec<ReservationId> = due.iter().copied().map(ReservationId::from).collect();
    charges::apply(ctx, &mut tx, &[], &ids, now).await?;
    sqlx::query!(
        "-- spend_reservations::expire
         UPDATE spend_reservations SET ended_at = $2, ended_as = 'expired' WHERE id = ANY($1)",
        &due,
        now
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(u64::try_from(due.len()).unwrap_or(u64::MAX))
}

/// Deletes up to `limit` reservations that ended before a time; returns how many.
///
/// # Errors
/// A database error.
pub(super) async fn forget(conn: &mut PgConnection, before: Timestamp, limit: i64) -> Outcome<u64> {
    let gone = sqlx::query!(
        "-- spend_reservations::forget
         DELETE FROM spend_reservations WHERE id IN (
             SELECT id FROM spend_reservations WHERE ended_at < $1 LIMIT $2)",
        before,
        limit
    )
    .execute(conn)
    .await?;
    Ok(gone.rows_affected())
}

async fn insert(
    conn: &mut PgConnection,
    made: &Reservation,
    key: KeyId,
    call_id: Option<&str>,
    now: Timestamp,
) -> Outcome<bool> {
    let inserted = sqlx::query!(
        "-- spend_reservations::insert
         INSERT INTO spend_reservations (id, principal_id, agent, intent_id, key_id, provider, model, amounts, call_id,
                                         created_at, expires_at, job_id, agents)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         ON CONFLICT (principal_id, call_id) WHERE call_id IS NOT NULL DO NOTHING",
        made.id.uuid(),
        made.act.principal,
        made.act.agent(),
        made.act.intent.map(IntentId::uuid),
        made.act.key.unwrap_or(key).uuid(),
        made.provider,
        made.model,
        serde_json::to_string(&made.amounts)?,
        call_id,
        now,
        made.expires_at,
        made.job_id.map(JobId::uuid),
        &made.act.agents
    )
    .execute(conn)
    .await?;
    Ok(inserted.rows_affected() > 0)
}

/// The intent of a reservation, which never changes.
async fn intent_of(conn: &mut PgConnection, id: ReservationId) -> Outcome<Option<IntentId>> {
    let found = sqlx::query_scalar!(
        "-- spend_reservations::intent\n SELECT intent_id FROM spend_reservations WHERE id = $1",
        id.uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(found.flatten().map(IntentId::from))
}

async fn remove(conn: &mut PgConnection, id: ReservationId) -> Outcome<()> {
    sqlx::query!("-- spend_reservations::remove\n DELETE FROM spend_reservations WHERE id = $1", id.uuid())
        .execute(conn)
        .await?;
    Ok(())
}

async fn end(conn: &mut PgConnection, id: ReservationId, ended_as: &str, now: Timestamp) -> Outcome<()> {
    sqlx::query!(
        "-- spend_reservations::end\n UPDATE spend_reservations SET ended_at = $2, ended_as = $3 WHERE id = $1",
        id.uuid(),
        now,
        ended_as
    )
    .execute(conn)
    .await?;
    Ok(())
}

struct Row {
    id: Uuid,
    principal_id: String,
    agent: String,
    agents: Option<Vec<String>>,
    intent_id: Option<Uuid>,
    job_id: Option<Uuid>,
    key_id: Uuid,
    provider: Option<String>,
    model: Option<String>,
    amounts: String,
    expires_at: Timestamp,
    ended_as: Option<String>,
}

impl TryFrom<Row> for Reservation {
    type Error = crate::AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        Ok(Self {
            id: row.id.into(),
            act: Act {
                principal: row.principal_id,
                agents: row.agents.unwrap_or_else(|| vec![row.agent]),
                intent: row.intent_id.map(IntentId::from),
                key: Some(row.key_id.into()),
            },
            job_id: row.job_id.map(JobId::from),
            provider: row.provider,
            model: row.model,
            amounts: serde_json::from_str(&row.amounts).map_err(|_e| unknown("amounts", &row.amounts))?,
            expires_at: row.expires_at,
            ended_as: row.ended_as,
        })
    }
}

async fn of_call(conn: &mut PgConnection, principal: &str, call_id: &str) -> Outcome<Option<Reservation>> {
    let row = sqlx::query_as!(
        Row,
        "-- spend_reservations::of_call
         SELECT id, principal_id, agent, agents, intent_id, job_id, key_id, provider, model, amounts, expires_at, ended_as
         FROM spend_reservations WHERE principal_id = $1 AND call_id = $2",
        principal,
        call_id
    )
    .fetch_optional(conn)
    .await?;
    row.map(Reservation::try_from).transpose()
}

async fn lock(conn: &mut PgConnection, id: ReservationId) -> Outcome<Option<Reservation>> {
    let row = sqlx::query_as!(
        Row,
        "-- spend_reservations::lock
         SELECT id, principal_id, agent, agents, intent_id, job_id, key_id, provider, model, amounts, expires_at, ended_as
         FROM spend_reservations WHERE id = $1 FOR UPDATE",
        id.uuid()
    )
    .fetch_optional(conn)
    .await?;
    row.map(Reservation::try_from).transpose()
}
