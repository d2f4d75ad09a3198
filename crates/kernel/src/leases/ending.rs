//! How leases end otherwise than by their holder: by their time, with their holder's access or departure, with the intent.
//! Each end is an event of its own, written by the deed that brought it about.

use entente_domain::events::{Draft, Kind};
use entente_domain::ids::IntentId;
use entente_domain::leases::{EndReason, Lease};
use entente_domain::principals::HOUSE;
use serde_json::json;
use sqlx::PgConnection;

use super::described;
use super::rows::{active, due, update};
use crate::lines::Line;
use crate::rounds::round;
use crate::{Ctx, Outcome, seats};

/// Ends leases that have run out; one intent at a time, up to `limit` of them.
///
/// # Errors
/// The database.
pub async fn expire_due(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let due = due(&ctx.pool, ctx.now(), limit).await?;
    round(due.into_iter().map(|intent_id| expire_on(ctx, intent_id))).await
}

/// Ends the leases on one intent that have run out.
async fn expire_on(ctx: &Ctx, intent_id: IntentId) -> Outcome<u64> {
    let mut tx = ctx.begin(&[intent_id]).await?;
    let mut line = Line::open(&mut tx, intent_id, None, ctx.now()).await?;
    settle(&mut tx, ctx, &mut line).await?;
    if line.recorded.is_empty() {
        // Another server was faster.
        return Ok(0);
    }
    line.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.news(intent_id);
    Ok(line.recorded.len() as u64)
}

/// Ends, within a deed that changed who has access, the leases of those who may no longer write (contract 7).
pub(crate) async fn end_without_access(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    actor: &str,
) -> Outcome<()> {
    let held = settle(conn, ctx, line).await?;
    let mut holders: Vec<(IntentId, &str)> =
        held.iter().map(|lease| (line.intent_id, lease.agent_id.as_str())).collect();
    holders.sort_unstable();
    holders.dedup();
    let writers = seats::writers(conn, &holders, line.now()).await?;
    let lost: Vec<Lease> = held.iter().filter(|lease| !writers.contains(&lease.agent_id)).cloned().collect();
    end(conn, ctx, line, &lost, EndReason::AccessLost, actor).await?;
    Ok(())
}

/// Ends, within a deed, an agent's leases on the line's intent.
pub(crate) async fn end_of_agent(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    agent: &str,
    actor: &str,
) -> Outcome<()> {
    let mut held = settle(conn, ctx, line).await?;
    held.retain(|lease| lease.agent_id == agent);
    end(conn, ctx, line, &held, EndReason::AgentDeparted, actor).await?;
    Ok(())
}

/// Ends, within a deed, all leases on the line's intent, which is resolved.
pub(crate) async fn end_of_intent(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    actor: &str,
) -> Outcome<()> {
    let held = settle(conn, ctx, line).await?;
    end(conn, ctx, line, &held, EndReason::IntentResolved, actor).await?;
    Ok(())
}

/// Ends the leases on the line's intent that have run out; those that are left.
pub(super) async fn settle(conn: &mut PgConnection, ctx: &Ctx, line: &mut Line) -> Outcome<Vec<Lease>> {
    let now = line.now();
    let (held, due): (Vec<Lease>, Vec<Lease>) =
        active(conn, line.intent_id).await?.into_iter().partition(|lease| lease.in_force(now));
    end(conn, ctx, line, &due, EndReason::Expired, HOUSE).await?;
    Ok(held)
}

/// Ends these leases, and says so on the line.
pub(super) async fn end(
    conn: &mut PgConnection,
    ctx: &Ctx,
    line: &mut Line,
    leases: &[Lease],
    reason: EndReason,
    actor: &str,
) -> Outcome<Vec<Lease>> {
    if leases.is_empty() {
        return Ok(Vec::new());
    }
    let ended: Vec<Lease> = leases.iter().map(|lease| lease.ended(reason, line.now())).collect();
    update(conn, &ended).await?;
    for lease in &ended {
        let mut payload = described(lease);
        payload["reason"] = json!(reason);
        line.record(ctx, Draft::of(Kind::LeaseReleased, actor, payload));
    }
    Ok(ended)
}
