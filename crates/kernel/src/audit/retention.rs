//! Retention of events: the oldest events of a log are deleted, once they and a checkpoint that covers them are past
//! `ENTENTE_EVENT_RETENTION_DAYS` (docs/adr/0019-events-leave-their-hashes.md). Their hashes stay (`floors.rs`), so the
//! rest of the log is verified and proved as before.

use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::ids::IntentId;
use entente_domain::log::chains::verify;
use entente_domain::log::events::{Event, Sealed};
use entente_domain::openintent::intents::{Intent, replay};

use crate::audit::{chains, checkpoints, events, floors};
use crate::log::order;
use crate::{AppError, Ctx, Outcome};

/// Events deleted in one transaction: enough to keep up, few enough to stay short.
const STEP: i64 = 1_000;

/// Logs examined in one run.
const LOGS: i64 = 500;

/// Events that can be deleted: those of a log after its floor, up to these numbers.
#[derive(Debug, Clone, Copy)]
struct Deletable {
    log: IntentId,
    /// Number in the log up to which every reader has passed.
    until_seq: i64,
    /// Number in the hash chain up to which a checkpoint vouches for the events; the last event always stays.
    until_sequence: i64,
}

/// Returns the time before which events and their checkpoints are past the retention; `None` if they are kept for ever.
fn horizon(ctx: &Ctx) -> Option<Timestamp> {
    let kept = TimeDelta::from_std(ctx.settings.event_retention?).unwrap_or(TimeDelta::MAX);
    ctx.now().checked_sub_signed(kept)
}

/// Deletes up to `limit` events past their retention, each log's oldest first; returns their number.
///
/// A log is verified first: of one that is damaged nothing is deleted.
///
/// # Errors
/// A database error.
pub async fn forget(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let Some(before) = horizon(ctx) else { return Ok(0) };
    let mut conn = ctx.pool.acquire().await?;
    // Readers of everything pass events by their numbers.
    order::advance(&mut conn).await?;
    checkpoints::spend(&mut conn, before, limit).await?;
    drop(conn);
    let mut gone = 0;
    for one in deletable(ctx, before, None).await? {
        if gone >= limit {
            break;
        }
        gone += match forget_of(ctx, one, before, limit - gone).await {
            Err(AppError::Inconsistent(why)) => {
                tracing::error!(log = %one.log, why, "no event is deleted from a log that is not whole");
                0
            }
            done => done?,
        };
    }
    Ok(u64::try_from(gone).unwrap_or(0))
}

async fn forget_of(ctx: &Ctx, one: Deletable, before: Timestamp, limit: i64) -> Outcome<i64> {
    let found = chains::of_log(ctx, one.log).await?;
    if let Some(fault) = found.breaks.first() {
        return Err(AppError::Inconsistent(format!("event {}: {}", fault.sequence, fault.reason)));
    }
    let mut gone = 0;
    while gone < limit {
        let done = step(ctx, one, before, STEP.min(limit - gone)).await?;
        if done == 0 {
            break;
        }
        gone += done;
    }
    Ok(gone)
}

/// Deletes up to `limit` events of a log in one transaction, with everything that has to stay of them.
async fn step(ctx: &Ctx, one: Deletable, before: Timestamp, limit: i64) -> Outcome<i64> {
    let mut tx = ctx.pool.begin().await?;
    let floor = floors::lock(&mut tx, one.log).await?;
    let until = (one.until_seq, one.until_sequence);
    let due = events::oldest(&mut tx, one.log, floor.seq, until, before, limit).await?;
    // Another server has deleted them.
    let Some(last) = due.last() else { return Ok(0) };
    check(&floor, &due)?;
    let intent: Option<Intent> = due.iter().try_fold(floor.intent, replay).map_err(AppError::Inconsistent)?;
    floors::raise(&mut tx, one.log, &due, intent.as_ref()).await?;
    events::forget(&mut tx, one.log, last.seq).await?;
    tx.commit().await?;
    Ok(i64::try_from(due.len()).unwrap_or(i64::MAX))
}

/// Checks that these events follow the floor without a gap and unchanged: another transaction may have changed them
/// since the log was verified.
fn check(floor: &floors::Floor, due: &[Event]) -> Outcome<()> {
    let sealed: Vec<Sealed> = due.iter().map(Sealed::from).collect();
    let previous = sealed.first().and_then(|event| event.previous_event_hash.clone());
    match verify(&sealed, floor.sequence + 1, previous.as_deref()).first() {
        None => Ok(()),
        Some(fault) => Err(AppError::Inconsistent(format!("event {}: {}", fault.sequence, fault.reason))),
    }
}

/// Counts the events past their retention.
///
/// # Errors
/// A database error.
pub async fn count(ctx: &Ctx) -> Outcome<i64> {
    let Some(before) = horizon(ctx) else { return Ok(0) };
    let mut conn = ctx.pool.acquire().await?;
    order::advance(&mut conn).await?;
    let (mut total, mut after) = (0, None);
    loop {
        let page = deletable(ctx, before, after).await?;
        let Some(last) = page.last() else { return Ok(total) };
        after = Some(last.log);
        for one in page {
            total +=
                events::count_oldest(&mut conn, one.log, (one.until_seq, one.until_sequence), before).await?;
        }
    }
}

/// Returns logs with events that can be deleted, after a log in the order of their ids.
///
/// Readers of old events hold them back: webhooks and triggers that have not read so far, replays, deliveries and
/// firings that wait for their event, reports to peers, and open assignments, which an agent's stream shows by their
/// events (OI-11.8). The fan-outs never stop, and everything else of these ends by itself or with its intent.
async fn deletable(ctx: &Ctx, before: Timestamp, after: Option<IntentId>) -> Outcome<Vec<Deletable>> {
    let rows = sqlx::query!(
        r#"-- event_retention::deletable
         WITH reached AS (
             SELECT least((SELECT global FROM webhook_cursor), (SELECT global FROM trigger_cursor),
                          (SELECT min(coalesce(global, 0)) FROM webhook_replays)) AS global),
         waiting AS MATERIALIZED (
             SELECT b.intent_id, min(b.seq) AS seq FROM webhook_deliveries d
             JOIN webhook_bodies b ON b.webhook_id = d.webhook_id
             WHERE d.status = 'waiting' AND b.seq IS NOT NULL GROUP BY b.intent_id
             UNION ALL SELECT source_intent, min(source_seq) FROM trigger_firings
             WHERE status IN ('heard', 'waiting') AND source_intent IS NOT NULL GROUP BY source_intent),
         covered AS (
             SELECT intent_id, max(last_sequence) AS last_sequence FROM checkpoints
             WHERE NOT spent AND created_at < $1 AND ($2::uuid IS NULL OR intent_id > $2) GROUP BY intent_id)
         SELECT l.intent_id AS "log!", l.until_seq AS "until_seq!", l.until_sequence AS "until_sequence!" FROM (
             SELECT k.intent_id, coalesce(f.seq, 0) AS floor, least(k.last_sequence, c.sequence - 1) AS until_sequence,
                    least(coalesce((SELECT max(o.to_seq) FROM log_order o WHERE o.intent_id = k.intent_id
                                    AND (r.global IS NULL OR o.global < r.global)), 0),
                          (SELECT min(w.seq) - 1 FROM waiting w WHERE w.intent_id = k.intent_id),
                          (SELECT min(d.reported_seq) FROM federation_deliveries d
                           WHERE d.local_intent_id = k.intent_id AND d.ended_at IS NULL),
                          (SELECT min(s.seq) - 1 FROM assignments s JOIN intents i ON i.id = s.intent_id
                           WHERE s.intent_id = k.intent_id AND i.status NOT IN ('completed', 'abandoned'))) AS until_seq
             FROM covered k JOIN intent_clock c ON c.intent_id = k.intent_id CROSS JOIN reached r
             LEFT JOIN log_floors f ON f.intent_id = k.intent_id) l
         CROSS JOIN LATERAL (SELECT e.seq, e.sequence, e.created_at FROM events e
                             WHERE e.intent_id = l.intent_id AND e.seq > l.floor ORDER BY e.seq LIMIT 1) n
         WHERE n.seq <= l.until_seq AND n.sequence <= l.until_sequence AND n.created_at < $1
         ORDER BY l.intent_id LIMIT $3"#,
        before,
        after.map(IntentId::uuid),
        LOGS
    )
    .fetch_all(&ctx.pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Deletable {
            log: row.log.into(),
            until_seq: row.until_seq,
            until_sequence: row.until_sequence,
        })
        .collect())
}
