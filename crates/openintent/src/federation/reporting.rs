//! Reports to peers on their intents here (RFC-0022). Reports are derived from the logs, like webhooks:
//! operations on an intent need not know about peers, and reports match the facts.

use entente_domain::limits::FEDERATION_CALLBACKS;
use entente_domain::openintent::federation::Part;
use entente_domain::openintent::federation::callbacks as domain;
use entente_domain::openintent::federation::callbacks::is_last;
use entente_domain::openintent::federation::dispatches::DelegationScope;
use entente_kernel::Outcome;
use entente_kernel::audit::events;
use entente_kernel::due::run_each;
use entente_kernel::intents;
use entente_kernel::log::writer;
use serde_json::{Map, Value};

use super::rows::{self, Telling};
use super::{outbox, set_up};
use crate::Ctx;

/// Maximum number of events of an intent examined at once.
const STRETCH: i64 = 500;

/// Queues callbacks about new events on peers' intents; returns the number of intents.
///
/// # Errors
/// A database error.
pub async fn report(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    if ctx.state.federation.is_none() {
        return Ok(0);
    }
    let mut conn = ctx.pool.acquire().await?;
    let due = rows::to_tell(&mut conn, limit).await?;
    drop(conn);
    run_each(due.into_iter().map(|one| tell(ctx, one))).await
}

/// Reports on one intent, once all earlier callbacks about it are delivered: events that arrive meanwhile are
/// combined into one report.
async fn tell(ctx: &Ctx, one: Telling) -> Outcome<u64> {
    let federation = set_up(ctx)?;
    let mut tx = ctx.begin(&[]).await?;
    // Skipped while another server reports it.
    let Some(told) = rows::hold_delivery(&mut tx, &one).await? else { return Ok(0) };
    let tail = writer::tails(&mut tx, &[one.intent_id]).await?.pop().map_or(0, |(_, tail)| tail.seq);
    let events = events::of_line(&mut tx, one.intent_id, told.reported_seq, tail, STRETCH).await?;
    let full = i64::try_from(events.len()).is_ok_and(|count| count == STRETCH);
    let seq = if full { events.last().map_or(tail, |event| event.seq) } else { tail };
    let peer = federation.peers.iter().find(|peer| peer.did == one.peer);
    let intent = intents::load(&mut tx, one.intent_id).await?;
    let over = intent.as_ref().is_none_or(|intent| intent.status.is_terminal());
    let scope: DelegationScope =
        told.delegation_scope.as_deref().map(serde_json::from_str).transpose()?.unwrap_or_default();
    let (mut told_all, mut callbacks) = (false, told.callbacks);
    if let (Some(peer), Some(intent), Some(url)) = (peer, intent, &told.callback_url) {
        let state = peer.shares(Part::State) && scope.allows("state.patch");
        for mut callback in domain::news(&one.dispatch_id, &events, &intent, state) {
            told_all |= is_last(&callback);
            // A peer refuses callbacks over the limit, except the final one.
            if callbacks >= FEDERATION_CALLBACKS && !is_last(&callback) {
                continue;
            }
            callbacks = callbacks.saturating_add(1);
            add_trace(&mut callback, told.trace_id.as_deref());
            outbox::post_callback(&mut tx, &one, url, &callback, ctx.now()).await?;
        }
    } else {
        // No callback is sent: the peer wanted none, or is no longer configured. The delivery ends with the
        // intent.
        told_all = over;
    }
    rows::told(&mut tx, &one, seq, callbacks, told_all, ctx.now()).await?;
    tx.commit().await?;
    Ok(1)
}

fn add_trace(callback: &mut Map<String, Value>, trace: Option<&str>) {
    if let Some(trace) = trace {
        callback.insert("trace_id".to_owned(), Value::from(trace));
    }
}
