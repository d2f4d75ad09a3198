//! Expires undeliverable outbox messages and silent dispatches, and deletes old ones that ended.

use chrono::TimeDelta;
use entente_domain::identity::principals::SYSTEM;
use entente_domain::limits::{FEDERATION_KEPT_DAYS, FEDERATION_LETTER_DAYS, FEDERATION_SILENCE_DAYS};
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::federation::dispatches::State;
use entente_kernel::due::run_each;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{IntentTx, Outcome};
use serde_json::json;
use sqlx::PgConnection;

use super::{Dispatch, outbox, rows};
use crate::Ctx;

/// Expires and deletes up to `limit` of each; returns their number.
///
/// # Errors
/// A database error.
pub async fn tidy(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let now = ctx.now();
    let before = |days: i64| now - TimeDelta::days(days);
    let mut conn = ctx.pool.acquire().await?;
    let old = outbox::older(&mut conn, before(FEDERATION_LETTER_DAYS), limit).await?;
    let silent = rows::silent(&mut conn, before(FEDERATION_SILENCE_DAYS), limit).await?;
    let mut done = rows::stop_telling(&mut conn, before(FEDERATION_SILENCE_DAYS), now, limit).await?;
    done += rows::forget(&mut conn, before(FEDERATION_KEPT_DAYS), limit).await?;
    drop(conn);
    done += run_each(old.into_iter().map(|due| outbox::give_up(ctx, due))).await?;
    done += run_each(silent.into_iter().map(|dispatch| give_up(ctx, dispatch))).await?;
    Ok(done)
}

/// Gives up a dispatch without news for too long.
async fn give_up(ctx: &Ctx, found: Dispatch) -> Outcome<u64> {
    let mut work = IntentTx::unattended(ctx, found.intent_id).await?;
    let current = rows::dispatch(work.conn(), found.id).await?;
    let Some(mut dispatch) = current.filter(|now| now.ended_at.is_none() && now.heard_at == found.heard_at)
    else {
        return Ok(0);
    };
    let message = format!("Nothing was heard of it for {FEDERATION_SILENCE_DAYS} days");
    dispatch.hears(State::Failed, &message, work.now());
    rows::save_dispatch(work.conn(), &dispatch).await?;
    let payload = json!({
        "dispatch_id": dispatch.id, "peer": dispatch.peer, "remote_intent_id": dispatch.remote_intent_id,
        "event_type": "silent", "reason": message,
    });
    work.record(Draft::of(Kind::FederationFailed, SYSTEM, payload));
    work.commit().await?;
    Ok(1)
}

/// Cancels the dispatches of an intent that no peer has accepted yet, within the operation that ends the
/// intent.
///
/// Accepted dispatches continue until the peer reports their end: the RFC defines no way to stop them.
pub(crate) async fn end_of_intent(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    actor: &str,
) -> Outcome<()> {
    for mut dispatch in rows::on_their_way(conn, log.intent_id).await? {
        let message = "Called off: the intent was resolved before the peer had taken it";
        dispatch.hears(State::Dead, message, log.now());
        rows::save_dispatch(conn, &dispatch).await?;
        outbox::call_off(conn, &dispatch.peer, &dispatch.id.to_string()).await?;
        let payload = json!({
            "dispatch_id": dispatch.id, "peer": dispatch.peer, "event_type": "called_off", "reason": message,
        });
        log.record(ctx, Draft::of(Kind::FederationFailed, actor, payload));
    }
    Ok(())
}
