//! Budgets: creating, changing, raising, closing and reading them. Tables `budgets` and `budget_windows`.

use entente_domain::amounts::Amount;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{BudgetId, IntentId};
use entente_domain::limits::PAGE;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::spending as domain;
use entente_domain::spending::{BudgetAsk, BudgetChange, SpendingBudget, Usage, check_time_zone};
use entente_domain::subjects::{Act, Subject, SubjectKind};
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::charges;
use crate::charges::{Row, select_usage};
use crate::identity::teams;
use crate::{Caller, Ctx, IntentTx, Outcome, not_found};

/// PostgreSQL's code for a value that a function does not take (SQLSTATE).
const INVALID_PARAMETER_VALUE: &str = "22023";

/// Creates a budget.
///
/// Costs reported before it was created are not charged to it.
///
/// # Errors
/// The scope `admin` is missing; the request is invalid; the team does not exist.
pub async fn create(
    ctx: &Ctx,
    caller: &Caller,
    ask: BudgetAsk,
    once: Option<&Idempotency>,
) -> Outcome<SpendingBudget> {
    caller.require(Scope::Admin)?;
    if let Some(time_zone) = &ask.time_zone {
        require_time_zone(ctx, time_zone).await?;
    }
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if let Some(done) = work.repeated()? {
        return Ok(done);
    }
    teams::require_known(work.reading(), &ask.scope).await?;
    let now = work.now();
    let budget = domain::create(ask, caller.principal(), BudgetId::mint(now, &*ctx.chance), now)?;
    work.record(Draft::of(Kind::BudgetCreated, caller.principal(), payload(&budget)));
    let (conn, log) = work.parts();
    insert(conn, &budget, log.tail.seq).await?;
    let made = work.finish(budget).await?;
    ctx.stops.refresh(ctx).await?;
    Ok(made)
}

/// Requires that PostgreSQL knows a time zone too: it computes windows and days, with the time zones of its own system, and every
/// reservation that such a budget pays for would fail.
///
/// # Errors
/// [`Code::InvalidRequest`]; a database error.
pub(super) async fn require_time_zone(ctx: &Ctx, time_zone: &str) -> Outcome<()> {
    check_time_zone(time_zone)?;
    let asked = sqlx::query_scalar!(
        "-- budgets::time_zone\n SELECT date_trunc('day', timestamptz 'epoch', $1)",
        time_zone
    )
    .fetch_one(&ctx.pool)
    .await;
    match asked {
        Err(sqlx::Error::Database(e)) if e.code().as_deref() == Some(INVALID_PARAMETER_VALUE) => {
            let message = format!(
                "PostgreSQL does not know the time zone `{time_zone}`. Use another name for it, such as America/Los_Angeles for \
                 US/Pacific, or install all time zones (Debian's package tzdata-legacy) beside the database."
            );
            Err(Refusal::field(Code::InvalidRequest, "time_zone", "unknown", message).into())
        }
        asked => Ok(asked.map(|_day| ())?),
    }
}

fn payload(budget: &SpendingBudget) -> serde_json::Value {
    json!({
        "budget_id": budget.id, "name": budget.name, "scope": budget.scope, "unit": budget.unit,
        "window": budget.window, "limit": budget.limit, "closed": budget.closed_at.is_some(),
    })
}

/// Changes a budget's name, limit or thresholds.
///
/// # Errors
/// The scope `admin` is missing; the budget does not exist or is closed; the request is invalid.
pub async fn change(
    ctx: &Ctx,
    caller: &Caller,
    id: BudgetId,
    change: BudgetChange,
    once: Option<&Idempotency>,
) -> Outcome<Usage> {
    edit(ctx, caller, id, once, |before| before.changed(change)).await
}

/// Closes a budget; its reservations can still be settled.
///
/// # Errors
/// The scope `admin` is missing; the budget does not exist or is closed already.
pub async fn close(ctx: &Ctx, caller: &Caller, id: BudgetId, once: Option<&Idempotency>) -> Outcome<Usage> {
    let now = ctx.now();
    edit(ctx, caller, id, once, |before| before.closed(now)).await
}

async fn edit(
    ctx: &Ctx,
    caller: &Caller,
    id: BudgetId,
    once: Option<&Idempotency>,
    judge: impl FnOnce(&SpendingBudget) -> Result<SpendingBudget, Refusal>,
) -> Outcome<Usage> {
    caller.require(Scope::Admin)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if work.repeated::<BudgetId>()?.is_some() {
        return find(work.reading(), ctx, id).await;
    }
    let before = find(work.reading(), ctx, id).await?;
    let budget = judge(&before.budget)?;
    work.record(Draft::of(Kind::BudgetChanged, caller.principal(), payload(&budget)));
    let (conn, log) = work.parts();
    update(conn, &budget, log.tail.seq).await?;
    // A lower limit may have reached thresholds, which no cost will cross.
    let usage = Usage { budget, ..before };
    let reached: Vec<(&Usage, u32)> = usage.reached(false).map(|one| (&usage, one.percent)).collect();
    if usage.budget.closed_at.is_none() {
        charges::reached::insert(work.conn(), &reached, ctx.now()).await?;
    }
    work.finish(id).await?;
    ctx.stops.refresh(ctx).await?;
    Ok(usage)
}

/// Raises the limit of a budget in its present window.
///
/// # Errors
/// The scope `admin` is missing; the budget does not exist or is closed; the amount is not above zero.
pub async fn raise(
    ctx: &Ctx,
    caller: &Caller,
    id: BudgetId,
    by: Amount,
    once: Option<&Idempotency>,
) -> Outcome<Usage> {
    caller.require(Scope::Admin)?;
    if by.is_spent() {
        let message = "`amount` must be above zero. To lower a limit, change the budget.";
        return Err(Refusal::field(Code::InvalidRequest, "amount", "range", message).into());
    }
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, once).await?;
    if work.repeated::<BudgetId>()?.is_some() {
        return find(work.reading(), ctx, id).await;
    }
    let usage = find(work.reading(), ctx, id).await?;
    usage.budget.require_open()?;
    charges::raise(work.conn(), &usage, by).await?;
    work.record(raised(&usage.budget, by, caller.principal()));
    work.finish(id).await?;
    find(&mut *ctx.pool.acquire().await?, ctx, id).await
}

/// The event of a raised limit.
#[must_use]
pub fn raised(budget: &SpendingBudget, by: Amount, actor: &str) -> Draft {
    let mut payload = payload(budget);
    if let Some(payload) = payload.as_object_mut() {
        payload.insert("raised_by".to_owned(), json!(by));
    }
    Draft::of(Kind::BudgetChanged, actor, payload)
}

/// Returns a budget with its use in the present window.
///
/// # Errors
/// It does not exist, or the caller may not see it: only admins see budgets that do not concern themselves.
pub async fn get(ctx: &Ctx, caller: &Caller, id: BudgetId) -> Outcome<Usage> {
    require_reading(caller)?;
    let mut conn = ctx.pool.acquire().await?;
    if caller.has(Scope::Admin) {
        return find(&mut conn, ctx, id).await;
    }
    let own = charges::of_act(&mut conn, &caller.act(None), ctx.now()).await?;
    own.into_iter().find(|usage| usage.budget.id == id).ok_or_else(|| not_found("budget"))
}

/// Returns the budgets that pay for the caller's own acts, with their use in the present window.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn own(ctx: &Ctx, caller: &Caller) -> Outcome<Vec<Usage>> {
    charges::of_act(&mut *ctx.pool.acquire().await?, &caller.act(None), ctx.now()).await
}

/// Lists budgets with their use in the present window, oldest first: admins see all, others those that pay for
/// their own acts.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn list(
    ctx: &Ctx,
    caller: &Caller,
    scope: Option<&Subject>,
    after: Option<BudgetId>,
    limit: u32,
) -> Outcome<Vec<Usage>> {
    require_reading(caller)?;
    let mut conn = ctx.pool.acquire().await?;
    if caller.has(Scope::Admin) {
        return page(&mut conn, ctx, scope, after, limit).await;
    }
    let own = charges::of_act(&mut conn, &caller.act(None), ctx.now()).await?;
    let wanted = |usage: &Usage| {
        scope.is_none_or(|scope| *scope == usage.budget.scope)
            && after.is_none_or(|after| usage.budget.id > after)
    };
    Ok(own.into_iter().filter(wanted).take(limit as usize).collect())
}

/// Lists the open budgets with their use in the present window, ordered by their scopes: admins see all, others those that
/// pay for their own acts. `after` is the last budget of the previous page.
///
/// # Errors
/// The budget `after` does not exist; a database error; a stored value is invalid.
pub async fn list_open(
    ctx: &Ctx,
    caller: &Caller,
    after: Option<BudgetId>,
    limit: u32,
) -> Outcome<Vec<Usage>> {
    require_reading(caller)?;
    let mut conn = ctx.pool.acquire().await?;
    if !caller.has(Scope::Admin) {
        let mut own = charges::of_act(&mut conn, &caller.act(None), ctx.now()).await?;
        let order = |usage: &Usage| (usage.budget.scope.to_string(), usage.budget.id);
        own.sort_by_cached_key(order);
        let last = after.and_then(|id| own.iter().find(|usage| usage.budget.id == id)).map(order);
        own.retain(|usage| last.as_ref().is_none_or(|last| order(usage) > *last));
        own.truncate(limit as usize);
        return Ok(own);
    }
    let last = match after {
        Some(id) => Some(find(&mut conn, ctx, id).await?.budget),
        None => None,
    };
    // No kind of subject sorts before the empty text, so the first page begins there.
    let (kind, name, id) = last.as_ref().map_or(("", "", Uuid::nil()), |last| {
        (last.scope.kind.as_str(), last.scope.name.as_str(), last.id.uuid())
    });
    let rows = select_usage!(
        "budgets::open",
        "budgets b",
        "WHERE b.closed_at IS NULL AND (b.scope, b.subject, b.id) > ($2, $3, $4)
             ORDER BY b.scope, b.subject, b.id LIMIT $5",
        ctx.now(),
        kind,
        name,
        id,
        i64::from(limit)
    )
    .fetch_all(&mut *conn)
    .await?;
    rows.into_iter().map(Row::usage).collect()
}

/// Returns the percentages of thresholds that were reached in the window of a budget's use, for its present limit, and when. A
/// threshold of 100 per cent or less is also reached when a reservation is refused.
///
/// # Errors
/// A database error.
pub async fn reached(ctx: &Ctx, usage: &Usage) -> Outcome<Vec<(u32, Timestamp)>> {
    let rows = sqlx::query!(
        "-- budgets::reached
         SELECT percent, reached_at FROM budget_reached
         WHERE budget_id = $1 AND starts_at = $2 AND amount = $3::text::numeric ORDER BY percent",
        usage.budget.id.uuid(),
        usage.starts_at,
        usage.limit().to_string()
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(rows.into_iter().filter_map(|row| Some((u32::try_from(row.percent).ok()?, row.reached_at))).collect())
}

/// Loads the budgets of an intent with their use in the present window, for an admin: the spending of all agents on it
/// is not shown to each of them, here as in the list.
///
/// # Errors
/// A database error; a stored value is invalid.
pub async fn of_intent(
    conn: &mut PgConnection,
    ctx: &Ctx,
    caller: &Caller,
    intent: IntentId,
) -> Outcome<Vec<Usage>> {
    if !caller.has(Scope::Admin) {
        return Ok(Vec::new());
    }
    let scope = Subject::of(SubjectKind::Intent, intent.to_string());
    page(conn, ctx, Some(&scope), None, PAGE).await
}

async fn page(
    conn: &mut PgConnection,
    ctx: &Ctx,
    scope: Option<&Subject>,
    after: Option<BudgetId>,
    limit: u32,
) -> Outcome<Vec<Usage>> {
    let rows = select_usage!(
        "budgets::page",
        "budgets b",
        "WHERE ($2::uuid IS NULL OR b.id > $2) AND ($3::text IS NULL OR (b.scope = $3 AND b.subject = $4))
             ORDER BY b.id LIMIT $5",
        ctx.now(),
        after.map(BudgetId::uuid),
        scope.map(|scope| scope.kind.as_str()),
        scope.map(|scope| scope.name.as_str()),
        i64::from(limit)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Row::usage).collect()
}

/// Loads a budget with its use in the present window.
///
/// # Errors
/// It does not exist; a database error; a stored value is invalid.
pub async fn find(conn: &mut PgConnection, ctx: &Ctx, id: BudgetId) -> Outcome<Usage> {
    let row = select_usage!("budgets::find", "budgets b", "WHERE b.id = $2", ctx.now(), id.uuid())
        .fetch_optional(conn)
        .await?;
    row.ok_or_else(|| not_found("budget"))?.usage()
}

async fn insert(conn: &mut PgConnection, budget: &SpendingBudget, seq: i64) -> Outcome<()> {
    sqlx::query!(
        "-- budgets::insert
         INSERT INTO budgets (id, name, scope, subject, unit, period, time_zone, amount, thresholds, created_by,
                              created_at, closed_at, changed_seq)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::numeric, $9, $10, $11, $12, $13)",
        budget.id.uuid(),
        budget.name,
        budget.scope.kind.as_str(),
        budget.scope.name,
        budget.unit,
        budget.window.as_str(),
        budget.time_zone,
        budget.limit.to_string(),
        serde_json::to_string(&budget.thresholds)?,
        budget.created_by,
        budget.created_at,
        budget.closed_at,
        seq
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn update(conn: &mut PgConnection, budget: &SpendingBudget, seq: i64) -> Outcome<()> {
    sqlx::query!(
        "-- budgets::update
         UPDATE budgets SET name = $2, amount = $3::text::numeric, thresholds = $4, closed_at = $5, changed_seq = $6
         WHERE id = $1",
        budget.id.uuid(),
        budget.name,
        budget.limit.to_string(),
        serde_json::to_string(&budget.thresholds)?,
        budget.closed_at,
        seq
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Requires a scope under which work is read.
///
/// # Errors
/// [`ScopeMissing`](entente_domain::refusal::Code::ScopeMissing).
pub(super) fn require_reading(caller: &Caller) -> Result<(), Refusal> {
    let may = [Scope::Admin, Scope::IntentsRead, Scope::JobsRead].into_iter().any(|scope| caller.has(scope));
    if may { Ok(()) } else { caller.require(Scope::JobsRead) }
}

impl Caller {
    /// Returns the act of the caller itself, for an intent if one is named.
    #[must_use]
    pub fn act(&self, intent: Option<IntentId>) -> Act {
        Act {
            principal: self.principal().to_owned(),
            agents: vec![self.agent.clone()],
            intent,
            key: Some(self.grant.key.id),
        }
    }
}
