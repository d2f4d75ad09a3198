//! Dispatching (RFC-0022): giving an intent of ours to a peer. Done is that it is written down; sending follows.

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::events::{Draft, Kind};
use entente_domain::federation::dispatches::{self as law, DispatchAsk, State};
use entente_domain::idempotency::Idempotency;
use entente_domain::ids::{DispatchId, IntentId};
use entente_domain::keys::Scope;
use entente_domain::limits::FEDERATION_OPEN;
use entente_domain::refusal::{Code, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{letters, peer_lock, rows, set_up};
use crate::governance::Attempt;
use crate::lines::Line;
use crate::{Caller, Ctx, Outcome, governance, idempotency, intents, lock_key, not_found, seats};

/// An intent of ours at a peer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Dispatch {
    /// Its id.
    pub id: DispatchId,
    /// The intent.
    pub intent_id: IntentId,
    /// The peer's DID.
    pub peer: String,
    /// The peer's URL.
    pub target_server: String,
    /// Which of its agents was asked for.
    pub agent_id: Option<String>,
    /// Who dispatched it.
    pub requested_by: String,
    /// Where it is.
    pub state: State,
    /// The peer's id of its copy.
    pub remote_intent_id: Option<String>,
    /// The last that was heard of it, in words.
    pub message: String,
    /// Callbacks that were heard.
    pub callbacks: i32,
    /// When it was dispatched.
    pub created_at: Timestamp,
    /// When anything was last heard of it.
    pub heard_at: Timestamp,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
}

impl Dispatch {
    /// Notes some news, if it is any.
    pub(super) fn hears(&mut self, next: State, message: &str, now: Timestamp) {
        if self.state.is_over() {
            return;
        }
        self.state = self.state.after(next);
        message.clone_into(&mut self.message);
        self.heard_at = now;
        self.ended_at = self.state.is_over().then_some(now);
    }
}

/// Dispatches an intent to a peer. What leaves is a copy as it is now; who may do that is who may do everything with it.
///
/// # Errors
/// The intent is not there, over, or the caller is no admin of it; the target is no peer that may be dispatched to; the ask is
/// not lawful; too many are open.
pub async fn dispatch(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: DispatchAsk,
    once: Option<&Idempotency>,
) -> Outcome<Dispatch> {
    caller.require(Scope::IntentsWrite)?;
    let mut locks = vec![lock_key(intent_id)];
    locks.extend(once.map(|once| idempotency::lock_key(caller.principal(), &once.key)));
    let known = ctx.settings.federation.as_ref().and_then(|federation| federation.peer(&ask.target_server));
    locks.extend(known.map(peer_lock));
    let mut tx = ctx.begin_locked(locks).await?;
    let seat = seats::require(&mut tx, &caller.agent, intent_id, Level::Admin, ctx.now()).await?;
    if let Some(done) = idempotency::find(&mut tx, caller, once).await? {
        return Ok(done);
    }
    let attempt = Attempt { intent_id, seat: &seat, agent: &caller.agent, deed: "dispatch" };
    let mut tx = governance::admit(ctx, caller, tx, attempt).await?;
    let federation = set_up(ctx)?;
    let peer = federation.target(&ask.target_server)?;
    let mut line = Line::open(&mut tx, intent_id, caller.trace, ctx.now()).await?;
    let now = line.now();
    let intent = intents::load(&mut tx, intent_id).await?.ok_or_else(|| not_found("intent"))?;
    if intent.status.is_terminal() {
        let message = "The intent is completed or abandoned: there is nothing left for a peer to do.";
        return Err(Refusal::new(Code::IntentResolved, message).into());
    }
    if rows::open(&mut tx, &peer.did).await? >= FEDERATION_OPEN {
        let message =
            format!("{FEDERATION_OPEN} dispatches to that peer are not over. Wait for some of them.");
        return Err(
            Refusal { retry_after_seconds: Some(60), ..Refusal::new(Code::RateLimited, message) }.into()
        );
    }
    let id = DispatchId::mint(now, &*ctx.chance);
    let origin = rows::origin(&mut tx, intent_id).await?;
    let ask = DispatchAsk { trace_context: ask.trace_context.or_else(|| trace_of(caller)), ..ask };
    let letter = law::letter(federation, peer, &intent, &ask, origin.as_ref(), id, now)?;
    let dispatch = Dispatch {
        id,
        intent_id,
        peer: peer.did.clone(),
        target_server: peer.url.clone(),
        agent_id: ask.agent_id,
        requested_by: caller.agent.clone(),
        state: State::Pending,
        remote_intent_id: None,
        message: "Written down; it is sent at once, and again until the peer has answered".to_owned(),
        callbacks: 0,
        created_at: now,
        heard_at: now,
        ended_at: None,
    };
    rows::save_dispatch(&mut tx, &dispatch).await?;
    letters::post_dispatch(&mut tx, &dispatch, &letter, now).await?;
    line.record(ctx, dispatched(&dispatch, &letter));
    line.save(&mut tx).await?;
    idempotency::keep(&mut tx, caller, once, &dispatch, now).await?;
    tx.commit().await?;
    ctx.feed.news(intent_id);
    Ok(dispatch)
}

/// The trace that the request belongs to: the work at the peer belongs to it too (RFC-0020).
fn trace_of(caller: &Caller) -> Option<Map<String, Value>> {
    caller.trace.map(|trace| Map::from_iter([("trace_id".to_owned(), Value::from(trace.id()))]))
}

/// What the log says: whom it went to and which parts of it, not what is in them.
fn dispatched(dispatch: &Dispatch, letter: &Map<String, Value>) -> Draft {
    let full = |name: &&str| match letter.get(*name) {
        Some(Value::Object(members)) => !members.is_empty(),
        Some(Value::String(text)) => !text.is_empty(),
        _ => false,
    };
    let parts = ["intent_title", "intent_description", "intent_state", "intent_constraints"];
    let payload = json!({
        "dispatch_id": dispatch.id, "peer": dispatch.peer, "target_server": dispatch.target_server,
        "agent_id": dispatch.agent_id, "shared": parts.into_iter().filter(full).collect::<Vec<_>>(),
        "delegation_scope": letter.get("delegation_scope"),
    });
    Draft::of(Kind::FederationDispatched, &dispatch.requested_by, payload)
}

/// A dispatch, for whoever may read its intent.
///
/// # Errors
/// There is none, or its intent is not readable.
pub async fn get(ctx: &Ctx, caller: &Caller, id: DispatchId) -> Outcome<Dispatch> {
    caller.require(Scope::IntentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    let found = rows::dispatch(&mut conn, id).await?.ok_or_else(|| not_found("dispatch"))?;
    let seat = seats::seat(&mut conn, &caller.agent, found.intent_id, ctx.now()).await?;
    if seat.is_some_and(|seat| seat.standing.reaches(Level::Read)) {
        Ok(found)
    } else {
        Err(not_found("dispatch"))
    }
}
