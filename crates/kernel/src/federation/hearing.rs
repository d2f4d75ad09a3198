//! Hearing (RFC-0022): what a peer tells of an intent that we dispatched to it. It is an event on that intent's log, once; the
//! intent's state and status are changed by those who work on it here, who can read the log.

use entente_domain::events::{Draft, Kind};
use entente_domain::federation::callbacks::{Callback, News, STAMP};
use entente_domain::federation::{Federation, Peer, signing};
use entente_domain::ids::{DispatchId, IntentId};
use entente_domain::keys::Scope;
use entente_domain::limits::FEDERATION_CALLBACKS;
use entente_domain::refusal::{Code, Refusal};
use serde_json::{Map, Value};

use super::{peer_of, rows, set_up};
use crate::lines::Line;
use crate::{Caller, Ctx, Outcome, not_found};

/// What a peer is told of its callback.
#[derive(Debug, Clone, Copy)]
pub struct Heard {
    /// Of which dispatch.
    pub dispatch_id: DispatchId,
    /// What it told.
    pub event_type: News,
}

/// The peer that stands for a body: whoever signed it, or whose own API key here it came with.
fn authenticate<'a>(
    ctx: &Ctx,
    federation: &'a Federation,
    caller: Option<&Caller>,
    body: &Map<String, Value>,
) -> Outcome<&'a Peer> {
    if signing::is_signed(body) {
        let peer = federation.signer(body).ok_or_else(signing::bad)?;
        signing::check_fresh(body, STAMP, ctx.now())?;
        return Ok(peer);
    }
    let Some(caller) = caller else { return Err(signing::unsigned().into()) };
    caller.require(Scope::IntentsWrite)?;
    Ok(peer_of(federation, caller).ok_or_else(signing::unsigned)?)
}

/// Hears a callback. A dispatch of another peer's is none.
///
/// # Errors
/// It does not come from a peer; there is no such dispatch; it is not lawful; there were too many.
pub async fn hear(
    ctx: &Ctx,
    caller: Option<&Caller>,
    callback: &Callback,
    body: &Map<String, Value>,
) -> Outcome<Heard> {
    let federation = set_up(ctx)?;
    let peer = authenticate(ctx, federation, caller, body)?;
    callback.check()?;
    let id: DispatchId = callback.dispatch_id.parse().map_err(|_no_id| not_found("dispatch"))?;
    let heard = Heard { dispatch_id: id, event_type: callback.event_type };
    let intent_id = home(ctx, id, peer).await?.ok_or_else(|| not_found("dispatch"))?;
    let mut tx = ctx.begin(&[intent_id]).await?;
    // Under the lock: it may have been forgotten meanwhile.
    let mut dispatch = rows::dispatch(&mut tx, id).await?.ok_or_else(|| not_found("dispatch"))?;
    if !rows::note_callback(&mut tx, id, &callback.key(body)).await? {
        return Ok(heard);
    }
    // The end is always heard, once.
    let ends = callback.event_type.state().is_over() && !dispatch.state.is_over();
    if dispatch.callbacks >= FEDERATION_CALLBACKS && !ends {
        let message = format!("{FEDERATION_CALLBACKS} callbacks of this dispatch were heard; no more are.");
        return Err(Refusal::new(Code::TooLarge, message).into());
    }
    let mut line = Line::open(&mut tx, intent_id, None, ctx.now()).await?;
    let news = serde_json::to_value(callback.event_type)?;
    dispatch.callbacks += 1;
    dispatch.hears(
        callback.event_type.state(),
        &format!("The peer told `{}`", news.as_str().unwrap_or_default()),
        line.now(),
    );
    rows::save_dispatch(&mut tx, &dispatch).await?;
    let payload = callback.payload(&peer.did, dispatch.remote_intent_id.as_deref());
    let kind: Kind = callback.event_type.kind();
    line.record(ctx, Draft { trace_id: callback.trace(), ..Draft::of(kind, &peer.did, payload) });
    line.save(&mut tx).await?;
    tx.commit().await?;
    ctx.feed.news(intent_id);
    Ok(heard)
}

/// The intent of a peer's dispatch.
async fn home(ctx: &Ctx, id: DispatchId, peer: &Peer) -> Outcome<Option<IntentId>> {
    let mut conn = ctx.pool.acquire().await?;
    let found = rows::dispatch(&mut conn, id).await?;
    Ok(found.filter(|dispatch| dispatch.peer == peer.did).map(|dispatch| dispatch.intent_id))
}
