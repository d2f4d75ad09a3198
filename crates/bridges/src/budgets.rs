//! Consequences of budgets' thresholds: the event, the stop, and the question to a person as a binding moment. Table
//! `budget_reached`.
//!
//! The charge that reaches a threshold only notes it. The consequences have their own transactions, each of which any
//! server may do, and does once: the event and the stop; the question; and, when the person has answered, the choice.

use entente_domain::amounts::Amount;
use entente_domain::clock::rfc3339;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::{IntentId, MomentId};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::moments::{Moment, MomentAsk};
use entente_domain::spending::{Asked, Threshold, Usage, Window};
use entente_domain::subjects::SubjectKind;
use entente_kernel::charges;
use entente_kernel::charges::reached;
use entente_kernel::charges::reached::Reached;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::spending::budgets;
use entente_kernel::{AppError, IntentTx, Outcome, stops};
use entente_moments as moments;
use entente_moments::{LockSet, MomentTx};
use serde_json::{Value, json};

use crate::Ctx;

/// Options of the question: raise by a quarter of the limit, double it, stop, or go on.
const QUARTER: usize = 0;
const DOUBLE: usize = 1;
const STOP: usize = 2;

/// Records the consequences of up to `limit` thresholds that were reached, and of answers about them.
///
/// # Errors
/// A database error.
pub async fn follow_up(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let open = reached::open(&mut *ctx.pool.acquire().await?, limit).await?;
    let mut done = 0;
    for one in open {
        let usage = budgets::find(&mut *ctx.pool.acquire().await?, ctx, one.budget_id).await?;
        let threshold =
            usage.budget.thresholds.iter().find(|threshold| threshold.percent == one.percent).cloned();
        let threshold =
            threshold.unwrap_or_else(|| Threshold { percent: one.percent, ..Threshold::default() });
        let asked = threshold.ask.clone();
        if one.told_at.is_none() {
            done += u64::from(tell(ctx, &one, &usage, &threshold).await?);
        }
        match (asked, one.moment_id) {
            // An answer counts, whatever the threshold says by now.
            (_, Some(moment)) => done += u64::from(heed(ctx, &one, &usage, moment).await?),
            (Some(asked), None) => done += u64::from(ask(ctx, &one, &usage, &asked).await?),
            // Nobody is to be asked any more.
            (None, None) => {
                reached::handle(&mut *ctx.pool.acquire().await?, &one, ctx.now()).await?;
            }
        }
    }
    Ok(done)
}

/// Records the event, and makes the stop.
async fn tell(ctx: &Ctx, one: &Reached, usage: &Usage, threshold: &Threshold) -> Outcome<bool> {
    let budget = &usage.budget;
    let payload = json!({
        "budget_id": budget.id, "name": budget.name, "scope": budget.scope, "unit": budget.unit,
        "percent": one.percent, "limit": one.limit, "spent": one.spent, "window": budget.window,
        "window_starts_at": rfc3339(one.starts_at), "degrade": threshold.degrade, "stop": threshold.stop,
    });
    let mut work = IntentTx::unattended(ctx, IntentId::SYSTEM).await?;
    let last = threshold.ask.is_none();
    if !reached::tell(work.conn(), one, last, ctx.now()).await? {
        return Ok(false);
    }
    work.record(Draft::of(Kind::BudgetThreshold, SYSTEM, payload.clone()));
    if threshold.stop {
        let reason = format!("{} % of the budget \"{}\" are spent", one.percent, budget.name);
        stops::put(&mut work, budget.scope.clone(), reason, Some(budget.id), SYSTEM).await?;
    }
    work.commit().await?;
    if threshold.stop {
        ctx.stops.refresh(ctx).await?;
    }
    if let Some(intent) = intent_of(usage) {
        tell_intent(ctx, intent, payload).await?;
    }
    Ok(true)
}

/// Records the event in the log of the intent whose spending the budget limits, too. If the server dies before that, the
/// system log has it.
async fn tell_intent(ctx: &Ctx, intent: IntentId, payload: Value) -> Outcome<()> {
    if entente_kernel::intents::load(&mut *ctx.pool.acquire().await?, intent).await?.is_none() {
        return Ok(());
    }
    let mut tx = ctx.begin(&[intent]).await?;
    let mut log = IntentLog::open(&mut tx, intent, None, ctx.now()).await?;
    log.record(ctx, Draft::of(Kind::BudgetThreshold, SYSTEM, payload));
    log.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.publish_log(&log);
    Ok(())
}

fn intent_of(usage: &Usage) -> Option<IntentId> {
    let scope = &usage.budget.scope;
    (scope.kind == SubjectKind::Intent).then(|| scope.name.parse().ok()).flatten()
}

/// Asks the person; a question that cannot be asked is given up, with a warning in the server's log.
async fn ask(ctx: &Ctx, one: &Reached, usage: &Usage, asked: &Asked) -> Outcome<bool> {
    let mut locks_needed = LockSet::default();
    locks_needed.about(None, None);
    locks_needed.between(SYSTEM, [Some(asked.person.as_str()), None]);
    let mut work = MomentTx::begin(&ctx.moments, None, locks_needed).await?;
    if !reached::unasked(&mut work.tx, one).await? {
        return Ok(false);
    }
    let ask = MomentAsk {
        agent_id: SYSTEM.to_owned(),
        principal_id: asked.person.clone(),
        hatch_justification: Some("The server asks, and cannot talk about it.".to_owned()),
        corr: Some(format!("{}/{}/{}", usage.budget.id, rfc3339(one.starts_at), one.percent)),
        ..MomentAsk::default()
    };
    match moments::put(&ctx.moments, &mut work, ask, &brief(one, usage), None).await {
        Ok(moment) => {
            reached::asked(&mut work.tx, one, moment).await?;
            work.conclude(&ctx.moments).await?;
        }
        // Too many questions just now: it is asked later.
        Err(AppError::Refused(refusal)) if refusal.retry_after_seconds.is_some() => return Ok(false),
        Err(AppError::Refused(refusal)) => {
            drop(work);
            tracing::warn!(budget = %usage.budget.id, person = asked.person, %refusal, "a person could not be asked about a budget");
            reached::handle(&mut *ctx.pool.acquire().await?, one, ctx.now()).await?;
        }
        Err(failure) => return Err(failure),
    }
    Ok(true)
}

fn brief(one: &Reached, usage: &Usage) -> Value {
    let budget = &usage.budget;
    let (unit, scope) = (&budget.unit, &budget.scope);
    let until = usage.ends_at.map_or_else(|| "for good".to_owned(), |end| format!("until {}", rfc3339(end)));
    let period = match budget.window {
        Window::Total => "in total".to_owned(),
        window => format!("per {window}"),
    };
    let raise = |amount: Amount| format!("Raise the limit by {amount} {unit} {until}");
    json!({
        "synopsis": format!("{} has spent {} of {} {unit}.", scope, one.spent, one.limit),
        "findings": [
            format!("The budget \"{}\" allows {} {unit} {period}.", budget.name, budget.limit),
            format!("At least {} % of it are spent; {} {unit} are reserved for work under way.", one.percent, usage.reserved),
            "When nothing is left, work that costs money is refused.".to_owned(),
        ],
        "recommendations": ["Look at what it is spent on before raising the limit: GET /api/v1/spend."],
        "offer": format!("The budget has all of it: GET /api/v1/budgets/{}.", budget.id),
        "question": {
            "stem": format!("How shall {scope} go on, with {} % of the budget \"{}\" spent?", one.percent, budget.name),
            "options": [
                { "label": raise(quarter(one)), "reasoning": "For work that is nearly done." },
                { "label": raise(one.limit), "reasoning": "For work that needs as much again." },
                { "label": format!("Stop {scope} now"), "reasoning": "Running jobs are told to end, and nothing new starts." },
                { "label": "Go on with what is left", "reasoning": "Nothing changes." },
            ],
            "recommended_idx": 3,
            // The server cannot talk. In deliberation, the person would refuse its every later question.
            "hatches": { "free_text": true, "dialogue": false },
        },
        "meta": { "decision_class": "budget.threshold" },
    })
}

/// A quarter of the limit that the question names.
fn quarter(one: &Reached) -> Amount {
    one.limit.extrapolated(4, 1).unwrap_or_default()
}

/// Carries out the person's choice, once the question has ended.
async fn heed(ctx: &Ctx, one: &Reached, usage: &Usage, moment: MomentId) -> Outcome<bool> {
    let kept = moments::load(&mut *ctx.pool.acquire().await?, moment).await?;
    let Some(moment) = kept.map(|kept| kept.moment) else {
        return reached::handle(&mut *ctx.pool.acquire().await?, one, ctx.now()).await;
    };
    if moment.resolution.is_none() && !moment.state_at(ctx.now()).is_terminal() {
        return Ok(false);
    }
    let mut work = IntentTx::unattended(ctx, IntentId::SYSTEM).await?;
    if !reached::handle(work.conn(), one, ctx.now()).await? {
        return Ok(false);
    }
    let by = moment.resolution.as_ref().map_or(SYSTEM, |settled| settled.by.as_str()).to_owned();
    let raise = match chosen(&moment) {
        Some(QUARTER) => Some(quarter(one)),
        Some(DOUBLE) => Some(one.limit),
        _ => None,
    };
    // The answer concerns the window that was asked about; if that is over, there is nothing to raise.
    if let Some(amount) =
        raise.filter(|_| usage.starts_at == one.starts_at && usage.budget.closed_at.is_none())
    {
        charges::raise(work.conn(), usage, amount).await?;
        work.record(budgets::raised(&usage.budget, amount, &by));
    }
    let is_stop = chosen(&moment) == Some(STOP);
    if is_stop {
        let reason =
            format!("{by} chose to stop it when {} % of \"{}\" were spent", one.percent, usage.budget.name);
        stops::put(&mut work, usage.budget.scope.clone(), reason, Some(usage.budget.id), &by).await?;
    }
    work.commit().await?;
    if is_stop {
        ctx.stops.refresh(ctx).await?;
    }
    Ok(true)
}

/// Index of the chosen option.
fn chosen(moment: &Moment) -> Option<usize> {
    moment.resolution.as_ref().and_then(|settled| settled.option_idx)
}
