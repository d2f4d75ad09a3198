//! Ends of leases other than by their holder: by time, with the holder's access or departure, with the
//! intent. Each end is an event of its own, written by the operation that caused it.

use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::IntentId;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::leases::{EndReason, Lease};
use entente_kernel::access::membership;
use entente_kernel::due::run_each;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{IntentTx, Outcome};
use serde_json::json;
use sqlx::PgConnection;

use super::event_payload;
use super::rows::{active, due, update};
use crate::Ctx;

/// Ends expired leases, one intent at a time, on up to `limit` intents.
///
/// # Errors
/// The database query fails.
pub async fn expire_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let due = due(&ctx.pool, ctx.now(), limit).await?;
    run_each(due.into_iter().map(|intent_id| expire_on(ctx, intent_id))).await
}

/// Ends the expired leases on one intent.
async fn expire_on(ctx: &Ctx, intent_id: IntentId) -> Outcome<u64> {
    let mut work = IntentTx::unattended(ctx, intent_id).await?;
    let (conn, log) = work.parts();
    settle(conn, ctx, log).await?;
    // Zero if another server was faster.
    let ended = log.recorded.len() as u64;
    work.commit().await?;
    Ok(ended)
}

/// Ends, within an operation that changed access, the leases of agents that may no longer write (OI-7.4).
pub(crate) async fn end_without_access(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    actor: &str,
) -> Outcome<()> {
    let held = settle(conn, ctx, log).await?;
    let mut holders: Vec<(IntentId, &str)> =
        held.iter().map(|lease| (log.intent_id, lease.agent_id.as_str())).collect();
    holders.sort_unstable();
    holders.dedup();
    let writers = membership::writers(conn, &holders, log.now()).await?;
    let lost: Vec<Lease> = held.iter().filter(|lease| !writers.contains(&lease.agent_id)).cloned().collect();
    end(conn, ctx, log, &lost, EndReason::AccessLost, actor).await?;
    Ok(())
}

/// Ends, within an operation, an agent's leases on the intent of the log.
pub(crate) async fn end_of_agent(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    agent: &str,
    actor: &str,
) -> Outcome<()> {
    let mut held = settle(conn, ctx, log).await?;
    held.retain(|lease| lease.agent_id == agent);
    end(conn, ctx, log, &held, EndReason::AgentDeparted, actor).await?;
    Ok(())
}

/// Ends, within an operation, all leases on a resolved intent.
pub(crate) async fn end_of_intent(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    actor: &str,
) -> Outcome<()> {
    let held = settle(conn, ctx, log).await?;
    end(conn, ctx, log, &held, EndReason::IntentResolved, actor).await?;
    Ok(())
}

/// Ends the expired leases on the intent of the log and returns the others.
pub(super) async fn settle(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
) -> Outcome<Vec<Lease>> {
    let now = log.now();
    let (held, due): (Vec<Lease>, Vec<Lease>) =
        active(conn, log.intent_id).await?.into_iter().partition(|lease| lease.in_force(now));
    end(conn, ctx, log, &due, EndReason::Expired, SYSTEM).await?;
    Ok(held)
}

/// Ends these leases and records each in the log.
pub(super) async fn end(
    conn: &mut PgConnection,
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    leases: &[Lease],
    reason: EndReason,
    actor: &str,
) -> Outcome<Vec<Lease>> {
    if leases.is_empty() {
        return Ok(Vec::new());
    }
    let ended = record_ends(ctx, log, leases, reason, actor);
    update(conn, &ended).await?;
    Ok(ended)
}

/// Records the end of each of these leases in the log, and returns them as they are to be written.
pub(super) fn record_ends(
    ctx: &entente_kernel::Ctx,
    log: &mut IntentLog,
    leases: &[Lease],
    reason: EndReason,
    actor: &str,
) -> Vec<Lease> {
    let ended: Vec<Lease> = leases.iter().map(|lease| lease.ended(reason, log.now())).collect();
    for lease in &ended {
        let mut payload = event_payload(lease);
        payload["reason"] = json!(reason);
        log.record(ctx, Draft::of(Kind::LeaseReleased, actor, payload));
    }
    ended
}
