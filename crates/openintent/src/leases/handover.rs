//! Leases that an agent hands over to another one, which holds the same scopes under new fencing tokens: nobody in the queue comes
//! between, because the hold goes on.

use entente_domain::ids::LeaseId;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::leases::{self as domain, Claimant, EndReason, Lease, NewLease};
use entente_kernel::Outcome;
use entente_kernel::log::writer::IntentLog;
use serde_json::json;
use sqlx::PgConnection;

use super::ending::{end, settle};
use super::rows::insert;
use super::{event_payload, not_yours};
use crate::Ctx;

/// Hands leases of `from` over to the claimant: those named, or all.
///
/// # Errors
/// A named lease is not in force, or not the agent's.
pub(crate) async fn hand_over(
    conn: &mut PgConnection,
    ctx: &Ctx,
    log: &mut IntentLog,
    from: &str,
    to: Claimant<'_>,
    named: Option<&[LeaseId]>,
) -> Outcome<Vec<Lease>> {
    let mut held = settle(conn, ctx, log).await?;
    held.retain(|lease| lease.agent_id == from);
    if let Some(named) = named {
        if !named.iter().all(|id| held.iter().any(|lease| lease.id == *id)) {
            return Err(not_yours());
        }
        held.retain(|lease| named.contains(&lease.id));
    }
    // The index allows one lease in force for a scope.
    end(conn, ctx, log, &held, EndReason::HandedOver, from).await?;
    let mut handed = Vec::with_capacity(held.len());
    for lease in &held {
        let (now, fencing_token) = (log.now(), log.next_seq());
        let new = NewLease { id: LeaseId::mint(now, &*ctx.chance), intent_id: log.intent_id, fencing_token };
        let lease = domain::hand_over(lease, to, new, now);
        insert(conn, std::slice::from_ref(&lease)).await?;
        let mut payload = event_payload(&lease);
        payload["handed_over_by"] = json!(from);
        log.record(ctx, Draft::of(Kind::LeaseAcquired, to.agent, payload));
        handed.push(lease);
    }
    Ok(handed)
}
