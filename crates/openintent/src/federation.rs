//! Federation (RFC-0022, RFC-0023): our intents that peers work on, and peers' intents that are worked on
//! here. Tables `federation_dispatches`, `federation_callbacks`, `federation_deliveries` and
//! `federation_letters`.
//!
//! Messages to a peer go through an outbox: they are written in the transaction that causes them, and sent
//! afterwards (`src/background/federate.rs`) until they are delivered or given up. Callbacks about a peer's
//! intent are derived from its log, so the operations that change it need not know about peers.

mod callbacks;
mod deliveries;
mod dispatches;
mod ending;
mod outbox;
mod reporting;
mod rows;

use entente_domain::canonical::sha256;
use entente_domain::identity::keys::Scope;
use entente_domain::limits::PAGE;
use entente_domain::openintent::agents::AgentStatus;
use entente_domain::openintent::federation::{Federation, Peer, Visibility};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::identity::agents as directory;
use entente_kernel::{Caller, Outcome};

use crate::Ctx;

pub use crate::federation::callbacks::{Heard, hear};
pub use crate::federation::deliveries::{Received, receive};
pub use crate::federation::dispatches::{Dispatch, dispatch, get};
pub(crate) use crate::federation::ending::end_of_intent;
pub use crate::federation::ending::tidy;
pub use crate::federation::outbox::{Answered, Due, claim, letter, record};
pub use crate::federation::reporting::report;

/// Returns the federation settings.
///
/// # Errors
/// There is no federation on this server.
pub fn set_up(ctx: &Ctx) -> Result<&Federation, Refusal> {
    ctx.state.federation.as_ref().ok_or_else(|| {
        Refusal::new(
            Code::NotFound,
            "Federation is not set up on this server. Its operator can name peers (ENTENTE_FEDERATION_FILE).",
        )
    })
}

/// Returns the advisory lock for everything counted or done once per peer.
fn peer_lock(peer: &Peer) -> i64 {
    let digest = sha256(format!("federation\0{}", peer.did));
    digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// Numbers of dispatches and deliveries.
#[derive(Debug, Default)]
pub struct Counts {
    /// Dispatches in progress.
    pub active: i64,
    /// Dispatches stored.
    pub dispatches: i64,
    /// Accepted deliveries stored.
    pub received: i64,
}

/// Returns the federation settings and counts, limited to the caller's own: a peer's key sees that peer's
/// deliveries, an agent its own dispatches and deliveries, an admin all.
///
/// # Errors
/// The scope is missing.
pub async fn status<'a>(ctx: &'a Ctx, caller: &Caller) -> Outcome<(Option<&'a Federation>, Counts)> {
    caller.require(Scope::IntentsRead)?;
    let Some(federation) = ctx.state.federation.as_ref() else { return Ok((None, Counts::default())) };
    let mut conn = ctx.pool.acquire().await?;
    let counts = if caller.has(Scope::Admin) {
        rows::counts(&mut conn).await?
    } else if let Some(peer) = peer_of(federation, caller) {
        rows::counts_of_peer(&mut conn, &peer.did).await?
    } else {
        rows::counts_of_agent(&mut conn, &caller.agent).await?
    };
    Ok((Some(federation), counts))
}

/// Returns the peer that the caller is, by its key's principal.
fn peer_of<'a>(federation: &'a Federation, caller: &Caller) -> Option<&'a Peer> {
    federation.peers.iter().find(|peer| peer.did == caller.principal())
}

/// An exported agent.
#[derive(Debug)]
pub struct Exported {
    /// Its name.
    pub agent_id: String,
    /// Its capabilities.
    pub capabilities: Vec<String>,
    /// Its visibility.
    pub visibility: Visibility,
    /// Its current status.
    pub status: AgentStatus,
}

/// Lists a page of exported agents after `after`, in the order of their ids, and whether there are more.
///
/// A peer's key sees the agents visible to that peer, `source` those visible to the peer it names; otherwise
/// only public agents are listed.
///
/// # Errors
/// The scope is missing; `source` is no peer, or a peer names another one.
pub async fn agents(
    ctx: &Ctx,
    caller: &Caller,
    source: Option<&str>,
    after: Option<&str>,
) -> Outcome<(Vec<Exported>, bool)> {
    caller.require(Scope::AgentsRead)?;
    let Some(federation) = ctx.state.federation.as_ref() else { return Ok((Vec::new(), false)) };
    let named = source.map(|name| federation.source(name)).transpose()?;
    let own = peer_of(federation, caller);
    if let (Some(own), Some(named)) = (own, named)
        && own.did != named.did
    {
        let message = "`X-Source-Server` names another peer than the one whose key this is.";
        return Err(Refusal::new(Code::Forbidden, message).into());
    }
    let (most, mut found, mut after) = (PAGE as usize, Vec::new(), after.unwrap_or_default().to_owned());
    if federation.export.is_empty() {
        return Ok((found, false));
    }
    // The export rules are evaluated in the domain and not in SQL, so records are read until enough match.
    loop {
        let page = directory::page(ctx, None, &after, i64::from(PAGE)).await?;
        let Some(last) = page.last() else { return Ok((found, false)) };
        after.clone_from(&last.agent_id);
        for agent in page.into_iter().map(|agent| directory::shown(ctx, agent)) {
            if !federation.shows(&agent, named.or(own)) || agent.status.has_left() {
                continue;
            }
            if found.len() == most {
                return Ok((found, true));
            }
            found.push(Exported {
                visibility: Visibility::of(&agent),
                agent_id: agent.agent_id,
                capabilities: agent.capabilities,
                status: agent.status,
            });
        }
    }
}
