//! Effects of time on triggers: schedules become due, waiting firings run, and old rows are deleted. Steps are
//! independent (`crates/kernel/src/due.rs`), and one that fails permanently is not repeated for ever.

use chrono::TimeDelta;
use entente_domain::ids::{FiringId, TriggerId};
use entente_domain::limits::TRIGGER_FIRING_DAYS;
use entente_domain::log::events::Kind;
use entente_domain::openintent::triggers::schedule::Skipped;
use entente_domain::openintent::triggers::{Cause, DisabledReason, SkipReason};
use entente_kernel::due::run_each;
use entente_kernel::{AppError, Outcome};
use serde_json::{Map, json};

use super::firings::{self, Firing, FiringStatus};
use super::rows;
use super::tx::FiringTx;
use crate::Ctx;

/// Fires up to `limit` due triggers, once each, and runs up to as many waiting firings.
///
/// # Errors
/// Returns database errors.
pub async fn expire_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let due = rows::due(ctx, limit).await?;
    let due = run_each(due.into_iter().map(|id| Box::pin(fire_due(ctx, id)))).await;
    let ready = firings::ready(ctx, limit).await?;
    let ready = run_each(ready.into_iter().map(|id| Box::pin(go_on(ctx, id)))).await;
    Ok(due? + ready?)
}

async fn fire_due(ctx: &Ctx, id: TriggerId) -> Outcome<u64> {
    match due(ctx, id).await {
        Ok(done) => Ok(done),
        Err(failure) if is_lasting(&failure) => {
            tracing::error!(trigger.id = %id, error = %failure, "a trigger that was due could not be fired");
            break_off(ctx, id).await
        }
        Err(failure) => Err(failure),
    }
}

async fn go_on(ctx: &Ctx, id: FiringId) -> Outcome<u64> {
    match ready(ctx, id).await {
        Ok(done) => Ok(done),
        Err(failure) if is_lasting(&failure) => {
            tracing::error!(firing.id = %id, error = %failure, "a firing that waited could not be done");
            give_up(ctx, id).await
        }
        Err(failure) => Err(failure),
    }
}

/// Returns whether a repetition would fail in the same way.
fn is_lasting(failure: &AppError) -> bool {
    !failure.is_passing()
}

/// Processes one due time of a schedule.
async fn due(ctx: &Ctx, id: TriggerId) -> Outcome<u64> {
    let mut work = FiringTx::begin(ctx).await?;
    let now = work.system_log.now();
    let Some(mut stored) = rows::find(&mut work.tx, id).await? else { return Ok(0) };
    let waits = stored.trigger.next_due.filter(|due| stored.trigger.enabled && *due <= now);
    // Another server has fired it already.
    let Some(since) = waits else { return Ok(0) };
    let schedule = stored.trigger.schedule()?;
    let schedule =
        schedule.ok_or_else(|| AppError::Inconsistent(format!("{id} is due without a schedule")))?;
    let step = schedule.step(since, now);
    stored.trigger.next_due = step.next;
    if let Some(skipped) = step.skipped {
        pass_over(ctx, &mut work, &stored, skipped).await?;
    }
    if let Some(at) = step.fire {
        let key = at.timestamp_micros().to_string();
        if firings::for_cause(&mut work.tx, id, Cause::Due, &key).await?.is_none() {
            let firing_id = FiringId::mint(now, &*ctx.chance);
            let mut firing = Firing::new(firing_id, id, Cause::Due, key, now);
            firing.due_at = Some(at);
            work.pull(ctx, &mut stored, firing, &Map::new()).await?;
        }
    }
    // RFC-0017 §2.3: a trigger with a single time is disabled once that is over.
    if schedule.is_once() && stored.trigger.enabled {
        stored.trigger = stored.trigger.disabled(DisabledReason::Done, now);
        work.switched_off(ctx, &stored).await?;
    }
    rows::save(&mut work.tx, &stored, false).await?;
    work.conclude(ctx).await?;
    Ok(1)
}

/// Records skipped times in the history and in the log.
async fn pass_over(ctx: &Ctx, work: &mut FiringTx, stored: &rows::Stored, skipped: Skipped) -> Outcome<()> {
    let now = work.system_log.now();
    let key = skipped.from.timestamp_micros().to_string();
    let id = FiringId::mint(now, &*ctx.chance);
    let mut firing = Firing::new(id, stored.trigger.id, Cause::Due, key, now);
    firing.status = FiringStatus::Skipped;
    firing.reason = Some(SkipReason::Missed.as_str().to_owned());
    firing.detail = Some(format!("Nobody looked when it was due, {} times from this one on.", skipped.count));
    firing.due_at = Some(skipped.from);
    firing.done_at = Some(now);
    firings::insert(&mut work.tx, &[firing]).await?;
    let from = entente_domain::clock::rfc3339(skipped.from);
    let about = json!({ "reason": SkipReason::Missed, "due_at": from, "count": skipped.count });
    work.tell(ctx, Kind::TriggerSkipped, &stored.trigger, about);
    Ok(())
}

/// Runs a firing for a matched event, or one that waited for an open intent.
async fn ready(ctx: &Ctx, id: FiringId) -> Outcome<u64> {
    let mut work = FiringTx::begin(ctx).await?;
    let found = firings::find(&mut work.tx, id).await?.filter(|firing| firing.status.is_open());
    let Some(mut firing) = found else { return Ok(0) };
    let stored = rows::find(&mut work.tx, firing.trigger_id).await?;
    let lives = |stored: &rows::Stored| {
        stored.trigger.enabled || stored.trigger.disabled_reason == Some(DisabledReason::Done)
    };
    let Some(mut stored) = stored.filter(lives) else {
        firing.status = FiringStatus::Skipped;
        firing.reason = Some(SkipReason::Disabled.as_str().to_owned());
        (firing.brought, firing.done_at) = (None, Some(work.system_log.now()));
        firings::save(&mut work.tx, &firing).await?;
        work.tx.commit().await?;
        return Ok(1);
    };
    let brought = match firing.brought.as_deref() {
        Some(text) => serde_json::from_str(text)?,
        None => Map::new(),
    };
    let waited = firing.status == FiringStatus::Waiting;
    let done = work.pull(ctx, &mut stored, firing, &brought).await?;
    if waited && done.status == FiringStatus::Waiting {
        return Ok(0);
    }
    work.conclude(ctx).await?;
    Ok(1)
}

/// Ends a firing that cannot run, which counts as a failure of its trigger.
async fn give_up(ctx: &Ctx, id: FiringId) -> Outcome<u64> {
    let mut work = FiringTx::begin(ctx).await?;
    let now = work.system_log.now();
    let Some(trigger) = firings::break_off(&mut work.tx, id, now).await? else { return Ok(0) };
    work.count_failure(ctx, trigger, "internal").await?;
    work.conclude(ctx).await?;
    Ok(1)
}

/// Disables a trigger that cannot be read, because it would be due again in every run.
pub(super) async fn break_off(ctx: &Ctx, id: TriggerId) -> Outcome<u64> {
    let mut work = FiringTx::begin(ctx).await?;
    let Some(agent_id) = rows::break_off(&mut work.tx, id, work.system_log.now()).await? else {
        return Ok(0);
    };
    work.broken(ctx, id, &agent_id, "internal");
    work.conclude(ctx).await?;
    Ok(1)
}

/// Deletes firings and removed triggers at the end of their retention.
///
/// # Errors
/// Returns database errors.
pub async fn tidy(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let before = ctx.now() - TimeDelta::days(TRIGGER_FIRING_DAYS);
    Ok(firings::forget(ctx, before, limit).await? + rows::forget(ctx, before, limit).await?)
}
