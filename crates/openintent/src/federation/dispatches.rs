//! Dispatches (RFC-0022): gives our intents to peers. A dispatch is only recorded here; `outbox.rs` sends it.

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{DispatchId, IntentId};
use entente_domain::limits::FEDERATION_OPEN;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::federation::dispatches as domain;
use entente_domain::openintent::federation::dispatches::{DispatchAsk, State};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::governance;
use entente_kernel::access::governance::Attempt;
use entente_kernel::access::membership;
use entente_kernel::intents;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{Caller, Outcome, idempotency, lock_key, not_found};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{outbox, peer_lock, rows, set_up};
use crate::Ctx;

/// Our intent at a peer.
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
    /// The agent of the peer that was requested.
    pub agent_id: Option<String>,
    /// The agent that dispatched it.
    pub requested_by: String,
    /// Its state.
    pub state: State,
    /// The id of the peer's copy.
    pub remote_intent_id: Option<String>,
    /// The latest news of it, as text.
    pub message: String,
    /// Number of callbacks received.
    pub callbacks: i32,
    /// When it was dispatched.
    pub created_at: Timestamp,
    /// When the latest news of it arrived.
    pub heard_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl Dispatch {
    /// Applies news to the dispatch, unless it has ended.
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

/// Dispatches a copy of an intent, as it is now, to a peer; requires admin access to the intent.
///
/// # Errors
/// The intent does not exist or is over, or the caller is no admin of it; the target is no peer that accepts
/// dispatches; the request is invalid; too many dispatches are open.
pub async fn dispatch(
    ctx: &Ctx,
    caller: &Caller,
    intent_id: IntentId,
    ask: DispatchAsk,
    once: Option<&Idempotency>,
) -> Outcome<Dispatch> {
    caller.require(Scope::IntentsWrite)?;
    ctx.stops.objection(caller, &caller.agent, Some(intent_id)).map_or(Ok(()), Err)?;
    let mut locks = vec![lock_key(intent_id)];
    locks.extend(once.map(|once| idempotency::lock_key(caller.principal(), &once.key)));
    let known = ctx.state.federation.as_ref().and_then(|federation| federation.peer(&ask.target_server));
    locks.extend(known.map(peer_lock));
    let mut tx = ctx.begin_locked(locks).await?;
    let membership = membership::require(&mut tx, &caller.agent, intent_id, Level::Admin, ctx.now()).await?;
    if let Some(done) = idempotency::find(&mut tx, caller, once).await? {
        return Ok(done);
    }
    let attempt = Attempt { intent_id, membership: &membership, agent: &caller.agent, operation: "dispatch" };
    let mut tx = governance::admit_tx(ctx, caller, tx, attempt).await?;
    let federation = set_up(ctx)?;
    let peer = federation.target(&ask.target_server)?;
    let mut log = IntentLog::open(&mut tx, intent_id, caller.trace, ctx.now()).await?;
    let now = log.now();
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
    let letter = domain::letter(federation, peer, &intent, &ask, origin.as_ref(), id, now)?;
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
    outbox::post_dispatch(&mut tx, &dispatch, &letter, now).await?;
    log.record(ctx, dispatched(&dispatch, &letter));
    log.save(&mut tx).await?;
    idempotency::keep(&mut tx, caller, once, &dispatch, now).await?;
    tx.commit().await?;
    ctx.feed.notify_committed(intent_id);
    Ok(dispatch)
}

/// Returns the request's trace, to which the work at the peer belongs too (RFC-0020).
fn trace_of(caller: &Caller) -> Option<Map<String, Value>> {
    caller.trace.map(|trace| Map::from_iter([("trace_id".to_owned(), Value::from(trace.id()))]))
}

/// Builds the event of a dispatch: the peer and the names of the shared parts, without their content.
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

/// Returns a dispatch, if its intent is readable.
///
/// # Errors
/// The dispatch does not exist, or its intent is not readable.
pub async fn get(ctx: &Ctx, caller: &Caller, id: DispatchId) -> Outcome<Dispatch> {
    caller.require(Scope::IntentsRead)?;
    let mut conn = ctx.pool.acquire().await?;
    let found = rows::dispatch(&mut conn, id).await?.ok_or_else(|| not_found("dispatch"))?;
    let membership = membership::find(&mut conn, &caller.agent, found.intent_id, ctx.now()).await?;
    if membership.is_some_and(|membership| membership.access.reaches(Level::Read)) {
        Ok(found)
    } else {
        Err(not_found("dispatch"))
    }
}
