//! Endpoints of federation (RFC-0022, RFC-0023) for this server's own clients. Requests of peers are in `peers`,
//! public documents in `documents`.

mod documents;
mod peers;

use actix_web::{HttpRequest, get, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{DispatchId, IntentId};
use entente_domain::openintent::agents::AgentStatus;
use entente_domain::openintent::federation::dispatches::{DelegationScope, DispatchAsk, State};
use entente_domain::openintent::federation::{Federation, Part, Peer, Relationship, Visibility, signing};
use entente_http::body::{Body, IdempotencyKey, Query, id};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_openintent::federation;
use entente_openintent::federation::{Dispatch, Exported};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub use crate::federation::documents::well_known;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;

pub fn routes(config: &mut Routes<'_>) {
    config.service(status).service(agents).service(dispatch).service(get);
    peers::routes(config);
}

/// The only policy for trusting peers: the operator's list.
const TRUST: &str = "allowlist";

/// The status of federation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FederationStatus)]
struct StatusBody {
    /// Whether federation is configured.
    enabled: bool,
    /// This server's DID.
    server_did: Option<String>,
    /// The policy for trusting peers.
    trust_policy: &'static str,
    /// Number of peers.
    peer_count: usize,
    /// Number of unfinished dispatches of the caller; for admins, of all.
    active_dispatches: i64,
    /// Number of stored dispatches of the caller; for admins, of all.
    total_dispatches: i64,
    /// Number of stored deliveries that the caller received from peers, or sent as a peer; for admins, of all.
    total_received: i64,
    /// The peers.
    peers: Vec<PeerBody>,
}

/// A peer server.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FederationPeer)]
struct PeerBody {
    /// The peer's URL.
    server_url: String,
    /// The peer's DID.
    server_did: String,
    /// The peer's relationship to this server.
    relationship: Relationship,
    /// The policy for trusting it.
    trust_policy: &'static str,
    /// The first of the peer's public keys, in base64.
    public_key: Option<String>,
    /// Whether it may give us work.
    receive_from: bool,
    /// Whether we may give it work.
    dispatch_to: bool,
    /// The parts of an intent that are shared with it, besides titles.
    share: Vec<Part>,
}

impl PeerBody {
    fn new(peer: &Peer) -> Self {
        Self {
            server_url: peer.url.clone(),
            server_did: peer.did.clone(),
            relationship: peer.relationship,
            trust_policy: TRUST,
            public_key: peer.keys.first().map(signing::show_key),
            receive_from: peer.delivers,
            dispatch_to: peer.takes,
            share: peer.share.clone(),
        }
    }
}

/// Get the status of federation
///
/// Lists the peers and counts the caller's own dispatches and deliveries.
#[utoipa::path(operation_id = "federation_status", tag = "federation",
    responses((status = 200, description = "Status of federation", body = StatusBody)))]
#[get("/federation/status")]
async fn status(api: web::Data<ApiState>, asker: Asker) -> Reply {
    let (set_up, counts) = federation::status(&api.ctx, &asker.caller).await?;
    let peers: Vec<PeerBody> =
        set_up.map_or_else(Vec::new, |federation| federation.peers.iter().map(PeerBody::new).collect());
    ok(&StatusBody {
        enabled: set_up.is_some(),
        server_did: set_up.map(|federation| federation.did.clone()),
        trust_policy: TRUST,
        peer_count: peers.len(),
        active_dispatches: counts.active,
        total_dispatches: counts.dispatches,
        total_received: counts.received,
        peers,
    })
}

/// The exported agents.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FederatedAgents)]
struct AgentList {
    /// The agents, ordered by id.
    agents: Vec<AgentBody>,
    /// The `after` of the next page; null on the last page.
    next: Option<String>,
}

/// An exported agent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FederatedAgent)]
struct AgentBody {
    /// The agent's id.
    #[schema(example = "agent.translator")]
    agent_id: String,
    /// The URL of the agent's server, which is this one.
    server_url: String,
    /// The agent's capabilities.
    capabilities: Vec<String>,
    /// The agent's visibility.
    visibility: Visibility,
    /// The server's DID.
    server_did: Option<String>,
    /// The agent's current status.
    status: AgentStatus,
}

impl AgentBody {
    fn new(agent: Exported, federation: Option<&Federation>) -> Self {
        Self {
            agent_id: agent.agent_id,
            server_url: federation.map(|federation| federation.url.clone()).unwrap_or_default(),
            capabilities: agent.capabilities,
            visibility: agent.visibility,
            server_did: federation.map(|federation| federation.did.clone()),
            status: agent.status,
        }
    }
}

/// List the exported agents
///
/// Agents that the operator exports and that are not declared private: those visible to everyone, or those visible to
/// one peer if the key is that peer's or the request names it.
#[utoipa::path(operation_id = "list_federated_agents", tag = "federation",
    params(("X-Source-Server" = Option<String>, Header, description = "Peer, by URL or DID: lists the agents visible to it; defaults to the peer that owns the key, if any"),
           ("after" = Option<String>, Query, description = "Only agents after this id: `next` of the previous page")),
    responses((status = 200, description = "The agents", body = AgentList)))]
#[get("/federation/agents")]
async fn agents(request: HttpRequest, api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let source = request.headers().get("x-source-server").map(|value| value.to_str().unwrap_or("\u{fffd}"));
    let (found, more) = federation::agents(&api.ctx, &asker.caller, source, query.text("after")).await?;
    let next = found.last().filter(|_| more).map(|agent| agent.agent_id.clone());
    let federation = api.ctx.state.federation.as_ref();
    let agents = found.into_iter().map(|agent| AgentBody::new(agent, federation)).collect();
    ok(&AgentList { agents, next })
}

/// A dispatch to a peer.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewFederationDispatch)]
#[schema(example = json!({ "intent_id": "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "target_server": "https://b.example" }))]
struct AskBody {
    /// The intent.
    intent_id: String,
    /// The peer, by URL or DID.
    target_server: String,
    /// The peer's agent to assign.
    agent_id: Option<String>,
    /// The operations the peer may perform on the intent.
    delegation_scope: Option<DelegationScope>,
    /// Requirements on the peer: governance, budget, observability.
    #[schema(value_type = Option<Object>)]
    federation_policy: Option<Map<String, Value>>,
    /// The callback URL; if given, it must be this server's own.
    callback_url: Option<String>,
    /// The trace it belongs to.
    #[schema(value_type = Option<Object>)]
    trace_context: Option<Map<String, Value>>,
}

/// A dispatch of an intent to a peer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FederationDispatch)]
struct DispatchBody {
    /// The dispatch's id.
    dispatch_id: DispatchId,
    /// `pending`, `accepted` or `rejected`: whether the peer has accepted the intent.
    #[schema(example = "pending")]
    status: &'static str,
    /// The detailed state.
    state: State,
    /// The peer.
    target_server: String,
    /// The latest news, human-readable.
    message: String,
    /// The peer's id of its copy of the intent.
    remote_intent_id: Option<String>,
    /// The intent.
    intent_id: IntentId,
    /// The peer's agent that was requested.
    agent_id: Option<String>,
    /// The agent that dispatched it.
    requested_by: String,
    /// When it was dispatched.
    created_at: WireTime,
    /// When the peer was last heard from about it.
    heard_at: WireTime,
    /// When it ended.
    ended_at: Option<WireTime>,
}

impl DispatchBody {
    fn new(one: Dispatch, dialect: Dialect) -> Self {
        Self {
            dispatch_id: one.id,
            status: one.state.status(),
            state: one.state,
            target_server: one.target_server,
            message: one.message,
            remote_intent_id: one.remote_intent_id,
            intent_id: one.intent_id,
            agent_id: one.agent_id,
            requested_by: one.requested_by,
            created_at: WireTime::new(one.created_at, dialect),
            heard_at: WireTime::new(one.heard_at, dialect),
            ended_at: one.ended_at.map(|at| WireTime::new(at, dialect)),
        }
    }
}

/// Dispatch an intent to a peer
///
/// Responds once the dispatch is stored. It is sent immediately, and again until the peer has responded. The outcome
/// is recorded on the intent's log.
#[utoipa::path(operation_id = "federation_dispatch", tag = "federation", request_body = AskBody, params(IdempotencyKey),
    responses((status = 200, description = "The dispatch", body = DispatchBody)))]
#[post("/federation/dispatch")]
async fn dispatch(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    body: Body<AskBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &body.value.intent_id)?;
    let once = body.once(&request)?;
    let said = body.value;
    let ask = DispatchAsk {
        target_server: said.target_server,
        agent_id: said.agent_id.filter(|agent| !agent.is_empty()),
        scope: said.delegation_scope,
        policy: said.federation_policy,
        callback_url: said.callback_url.filter(|url| !url.is_empty()),
        trace_context: said.trace_context,
    };
    let made = federation::dispatch(&api.ctx, &asker.caller, intent_id, ask, once.as_ref()).await?;
    ok(&DispatchBody::new(made, asker.dialect))
}

/// Get a dispatch
#[utoipa::path(operation_id = "get_federation_dispatch", tag = "federation",
    responses((status = 200, description = "The dispatch", body = DispatchBody)))]
#[get("/federation/dispatches/{dispatch_id}")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = federation::get(&api.ctx, &asker.caller, id("dispatch", &path)?).await?;
    ok(&DispatchBody::new(found, asker.dialect))
}
