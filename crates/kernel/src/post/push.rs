//! Pushing: what is put into a mailbox is queued for the mailbox's webhooks by the transaction that puts it, in the
//! mailbox's order. So a receiver is told exactly what is there, and nothing of what was rolled back. Who receives is
//! `endpoints.rs`; sending is the deliveries'.

use std::collections::BTreeSet;

use entente_domain::clock::Timestamp;
use entente_domain::ids::EndpointId;
use sqlx::PgConnection;

use crate::deliveries::{self, Queue};
use crate::envelopes::Kept;
use crate::mailboxes::Item;
use crate::{Ctx, Outcome, endpoints};

/// Queues items of mailboxes that are locked; `kept`: the envelope with an id. Whether something is to be sent now.
pub(crate) async fn push(
    ctx: &Ctx,
    conn: &mut PgConnection,
    items: &[Item],
    kept: impl Fn(&str) -> Option<Kept>,
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
        let post = (ctx.webhooks.encode_item)(&item.entity, item.letter(envelope))?;
        queue.pairs.extend(ids.iter().map(|id| (queue.posts.len(), *id)));
        queue.posts.push(post);
    }
    // Due in the order of the mailbox, whatever the clocks of those say that wrote before.
    let all: Vec<EndpointId> = receivers.into_values().flatten().collect();
    let due = deliveries::in_order(deliveries::latest(conn, &all).await?, now);
    Ok(!deliveries::queue(conn, &queue, due, due, false).await?.is_empty())
}
