//! Push: the transaction that puts an item into a mailbox also queues it for the mailbox's webhooks, in the mailbox's
//! order.
//!
//! A receiver is therefore notified of exactly the stored items, and of nothing that was rolled back.
//! `crates/kernel/src/webhooks/endpoints.rs` determines the receivers, and the webhook sender sends the deliveries.

use std::collections::BTreeSet;

use entente_domain::clock::Timestamp;
use entente_domain::ids::EndpointId;
use entente_kernel::Outcome;
use entente_kernel::webhooks::deliveries;
use entente_kernel::webhooks::deliveries::Queue;
use entente_kernel::webhooks::endpoints;
use sqlx::PgConnection;

use crate::Ctx;
use crate::envelopes::StoredEnvelope;
use crate::mailboxes::Item;

/// Queues items of locked mailboxes for webhooks (`kept` finds an envelope by id); returns whether any is to be sent
/// now.
pub(crate) async fn push(
    ctx: &Ctx,
    conn: &mut PgConnection,
    items: &[Item],
    kept: impl Fn(&str) -> Option<StoredEnvelope>,
    now: Timestamp,
) -> Outcome<bool> {
    if items.is_empty() {
        return Ok(false);
    }
    let entities: BTreeSet<&str> = items.iter().map(|item| item.entity.as_str()).collect();
    let entities: Vec<&str> = entities.into_iter().collect();
    let receivers = endpoints::of_mailboxes(conn, &entities, now).await?;
    if receivers.is_empty() {
        return Ok(false);
    }
    let mut queue = Queue::default();
    for item in items {
        let Some(ids) = receivers.get(&item.entity) else { continue };
        let Some(envelope) = kept(item.envelope_id()) else { continue };
        let body = (ctx.state.encode_item)(&item.entity, item.with_envelope(envelope))?;
        queue.pairs.extend(ids.iter().map(|id| (queue.posts.len(), *id)));
        queue.posts.push(body);
    }
    // Due times follow the mailbox's order, even if the clocks of earlier writers were ahead.
    let all: Vec<EndpointId> = receivers.into_values().flatten().collect();
    let due = deliveries::in_order(deliveries::latest(conn, &all).await?, now);
    Ok(!deliveries::queue(conn, &queue, due, due, false).await?.is_empty())
}
