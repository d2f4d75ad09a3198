//! Deliveries (RFC-0022): accepts peers' intents to be worked on here. Each becomes an intent owned by the
//! peer, by its DID; a repeated delivery is accepted once, and gets the same answer each time.

use chrono::TimeDelta;
use entente_domain::access::Level;
use entente_domain::clock::rfc3339;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{AssignmentId, IntentId};
use entente_domain::limits::FEDERATION_OPEN;
use entente_domain::log::events::{Draft, Kind};
use entente_domain::openintent::federation::deliveries as domain;
use entente_domain::openintent::federation::deliveries::Delivery;
use entente_domain::openintent::federation::{Federation, Peer, signing};
use entente_domain::openintent::intents as intent_law;
use entente_domain::openintent::intents::{Intent, created_payload};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::subjects::Act;
use entente_kernel::access::assignments;
use entente_kernel::access::assignments::Assignment;
use entente_kernel::identity::agents;
use entente_kernel::intents;
use entente_kernel::log::writer::IntentLog;
use entente_kernel::{Caller, Outcome, access, lock_key};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use super::{peer_lock, peer_of, rows, set_up};
use crate::Ctx;

/// Seconds after which a peer may deliver again while it, or the agent, is stopped.
const STOPPED_SECONDS: u32 = 60;

const TAKEN: &str = "Intent received and accepted for processing";

/// The response to a peer's delivery.
#[derive(Debug, Clone)]
pub struct Received {
    /// The peer's id for it.
    pub dispatch_id: String,
    /// The intent here, if it was accepted.
    pub local_intent_id: Option<IntentId>,
    /// The answer as text.
    pub message: String,
}

/// Authenticates a delivery's peer, by its signature or by the peer's own API key here.
fn authenticate<'a>(
    ctx: &Ctx,
    federation: &'a Federation,
    caller: Option<&Caller>,
    delivery: &Delivery,
    body: &Map<String, Value>,
) -> Outcome<&'a Peer> {
    let peer = federation.source(&delivery.source_server)?;
    if signing::is_signed(body) {
        domain::check_signed(federation, peer, delivery, body, ctx.now())?;
        return Ok(peer);
    }
    let Some(caller) = caller else { return Err(signing::unsigned().into()) };
    caller.require(Scope::IntentsWrite)?;
    if peer_of(federation, caller).is_some_and(|own| own.did == peer.did) {
        return Ok(peer);
    }
    Err(signing::unsigned().into())
}

/// Accepts a delivery.
///
/// # Errors
/// It does not come from a peer that may deliver; it is invalid; its id was used for another one; too many
/// are open.
pub async fn receive(
    ctx: &Ctx,
    caller: Option<&Caller>,
    delivery: &Delivery,
    body: &Map<String, Value>,
) -> Outcome<Received> {
    let federation = set_up(ctx)?;
    let peer = authenticate(ctx, federation, caller, delivery, body)?;
    delivery.check(peer)?;
    let fingerprint = domain::fingerprint(body);
    let id = IntentId::mint(ctx.now(), &*ctx.chance);
    let mut tx = ctx.begin_locked(vec![lock_key(id), peer_lock(peer)]).await?;
    if let Some((known, local_intent_id, message)) =
        rows::delivery(&mut tx, &peer.did, &delivery.dispatch_id).await?
    {
        if known != fingerprint {
            let message = "This dispatch_id was already used for another delivery. Use a new one.";
            return Err(Refusal { message: message.to_owned(), ..Idempotency::mismatch() }.into());
        }
        return Ok(Received { dispatch_id: delivery.dispatch_id.clone(), local_intent_id, message });
    }
    require_unstopped(ctx, peer, delivery)?;
    if rows::pressing(&mut tx, &peer.did, ctx.now() - TimeDelta::days(1)).await? >= FEDERATION_OPEN {
        let message = format!(
            "{FEDERATION_OPEN} of your deliveries are not over here, or were rejected today. Wait for some of them."
        );
        return Err(
            Refusal { retry_after_seconds: Some(60), ..Refusal::new(Code::RateLimited, message) }.into()
        );
    }
    let served = serves(&mut tx, ctx, federation, peer, delivery).await?;
    let rejection = delivery.rejection(served, ctx.now());
    let mut row = rows::NewDelivery {
        peer: &peer.did,
        dispatch_id: &delivery.dispatch_id,
        fingerprint,
        local_intent_id: None,
        message: rejection.unwrap_or(TAKEN),
        agent_id: delivery.agent_id.as_deref(),
        callback_url: delivery.callback_url.as_deref(),
        delegation_scope: delivery.delegation_scope.as_ref().map(serde_json::to_string).transpose()?,
        federation_policy: delivery.federation_policy.as_ref().map(serde_json::to_string).transpose()?,
        trace_id: delivery.trace_id(),
        reported_seq: 0,
        created_at: ctx.now(),
        ended_at: Some(ctx.now()),
    };
    if rejection.is_none() {
        let log = take(&mut tx, ctx, peer, delivery, id).await?;
        row.local_intent_id = Some(id);
        row.reported_seq = log.tail.seq;
        // It ends with the intent, whether or not the peer wants callbacks.
        row.ended_at = None;
    }
    rows::insert_delivery(&mut tx, &row).await?;
    let received = Received {
        dispatch_id: delivery.dispatch_id.clone(),
        local_intent_id: row.local_intent_id,
        message: row.message.to_owned(),
    };
    tx.commit().await?;
    received.local_intent_id.iter().for_each(|id| ctx.feed.notify_committed(*id));
    Ok(received)
}

/// Requires that neither the peer nor the agent is stopped. The peer may deliver later: its delivery is not rejected.
fn require_unstopped(ctx: &Ctx, peer: &Peer, delivery: &Delivery) -> Result<(), Refusal> {
    let agents = delivery.agent_id.iter().chain([&peer.did]).cloned().collect();
    let act = Act { principal: peer.did.clone(), agents, ..Act::default() };
    ctx.stops.require_none(&act).map_err(|stopped| Refusal {
        retry_after_seconds: Some(STOPPED_SECONDS),
        ..Refusal::new(Code::Unavailable, stopped.message)
    })
}

/// Whether a delivery's agent is available here and exported to that peer; true if it names none.
async fn serves(
    conn: &mut PgConnection,
    ctx: &Ctx,
    federation: &Federation,
    peer: &Peer,
    delivery: &Delivery,
) -> Outcome<bool> {
    let Some(name) = &delivery.agent_id else { return Ok(true) };
    let found = agents::find(conn, name).await?.map(|agent| agents::shown(ctx, agent));
    Ok(found.is_some_and(|agent| agent.status.takes_work() && federation.shows(&agent, Some(peer))))
}

/// Creates the intent, and assigns the agent that was named.
async fn take(
    conn: &mut PgConnection,
    ctx: &Ctx,
    peer: &Peer,
    delivery: &Delivery,
    id: IntentId,
) -> Outcome<IntentLog> {
    let mut log = IntentLog::fresh(id, None, ctx.now());
    let now = log.now();
    let intent: Intent = intent_law::create(delivery.intent(), &peer.did, id, now)?;
    intents::insert(conn, std::slice::from_ref(&intent)).await?;
    log.record(ctx, traced(Draft::of(Kind::IntentCreated, &peer.did, created_payload(&intent)), delivery));
    let assigned: Vec<&str> = delivery.agent_id.as_deref().into_iter().collect();
    // The creator is not here, so the assigned agent must be able to complete the intent.
    access::of_new(conn, ctx, &mut log, &peer.did, &assigned, Level::Admin).await?;
    let payload = json!({
        "dispatch_id": delivery.dispatch_id, "peer": peer.did, "source_server": peer.url,
        "remote_intent_id": delivery.intent_id, "agent_id": delivery.agent_id,
        "delegation_scope": delivery.delegation_scope, "federation_policy": delivery.federation_policy,
    });
    log.record(ctx, traced(Draft::of(Kind::FederationReceived, &peer.did, payload), delivery));
    if let Some(agent_id) = &delivery.agent_id {
        let assignment = Assignment {
            id: AssignmentId::mint(now, &*ctx.chance),
            intent_id: id,
            agent_id: agent_id.clone(),
            role: "worker".to_owned(),
            assigned_at: now,
            // The peer is no agent that has this intent: it created it here.
            delegated_by: None,
        };
        let assignment = assignments::save(conn, assignment, &peer.did, log.next_seq()).await?;
        let payload = json!({
            "id": assignment.id, "agent_id": agent_id, "role": assignment.role, "assigned_at": rfc3339(now),
            "delegated_by": assignment.delegated_by,
        });
        log.record(ctx, traced(Draft::of(Kind::AgentAssigned, &peer.did, payload), delivery));
    }
    log.save(conn).await?;
    Ok(log)
}

/// Adds the peer's trace to an event.
fn traced(draft: Draft, delivery: &Delivery) -> Draft {
    Draft { trace_id: delivery.trace_id(), ..draft }
}
