//! Callbacks (RFC-0022): receives peers' reports about our intents. Each is recorded once in the intent's
//! log; the intent's state and status are changed only by the agents working on it here, who can read the
//! log. This server's own callbacks to peers are in `reporting.rs`.

use entente_domain::identity::keys::Scope;
use entente_domain::ids::{DispatchId, IntentId};
use entente_domain::limits::FEDERATION_CALLBACKS;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::federation::callbacks::{Callback, News, STAMP};
use entente_domain::openintent::federation::{Federation, Peer, signing};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Caller, IntentTx, Outcome, not_found};
use serde_json::{Map, Value};

use super::{peer_of, rows, set_up};
use crate::Ctx;

/// The response to a callback.
#[derive(Debug, Clone, Copy)]
pub struct Heard {
    /// The dispatch.
    pub dispatch_id: DispatchId,
    /// The event that it reported.
    pub event_type: News,
}

/// Authenticates a callback's peer, by its signature or by the peer's own API key here.
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

/// Accepts a callback; another peer's dispatch counts as not found.
///
/// # Errors
/// It does not come from a peer; the dispatch does not exist; it is invalid; there were too many.
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
    let mut work = IntentTx::unattended(ctx, intent_id).await?;
    // Loaded again under the lock: it may have been deleted meanwhile.
    let mut dispatch = rows::dispatch(work.conn(), id).await?.ok_or_else(|| not_found("dispatch"))?;
    if !rows::note_callback(work.conn(), id, &callback.key(body)).await? {
        return Ok(heard);
    }
    // The final callback is always accepted, once.
    let ends = callback.event_type.state().is_over() && !dispatch.state.is_over();
    if dispatch.callbacks >= FEDERATION_CALLBACKS && !ends {
        let message = format!("{FEDERATION_CALLBACKS} callbacks of this dispatch were heard; no more are.");
        return Err(Refusal::new(Code::TooLarge, message).into());
    }
    let news = serde_json::to_value(callback.event_type)?;
    dispatch.callbacks += 1;
    dispatch.hears(
        callback.event_type.state(),
        &format!("The peer told `{}`", news.as_str().unwrap_or_default()),
        work.now(),
    );
    rows::save_dispatch(work.conn(), &dispatch).await?;
    let payload = callback.payload(&peer.did, dispatch.remote_intent_id.as_deref());
    let kind: Kind = callback.event_type.kind();
    work.record(Draft { trace_id: callback.trace(), ..Draft::of(kind, &peer.did, payload) });
    work.commit().await?;
    Ok(heard)
}

/// Returns the intent of a peer's dispatch.
async fn home(ctx: &Ctx, id: DispatchId, peer: &Peer) -> Outcome<Option<IntentId>> {
    let mut conn = ctx.pool.acquire().await?;
    let found = rows::dispatch(&mut conn, id).await?;
    Ok(found.filter(|dispatch| dispatch.peer == peer.did).map(|dispatch| dispatch.intent_id))
}
