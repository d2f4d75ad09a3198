//! Federation (RFC-0022, RFC-0023): intents of ours that peers work on, and intents of theirs that are worked on here. Tables
//! `federation_dispatches`, `federation_callbacks`, `federation_deliveries` and `federation_letters`.
//!
//! What is promised to a peer is a letter, written in the transaction that promises it, and sent afterwards
//! (`src/background/federate.rs`) until it has arrived or is given up. What is to be told of a peer's intent is read off that
//! intent's line, so that nothing which changes it has to think of peers.

mod dispatching;
mod ending;
mod hearing;
mod letters;
mod receiving;
mod reporting;
mod rows;

use entente_domain::agents::AgentStatus;
use entente_domain::canonical::sha256;
use entente_domain::federation::{Federation, Peer, Visibility};
use entente_domain::keys::Scope;
use entente_domain::limits::PAGE;
use entente_domain::refusal::{Code, Refusal};

use super::{Caller, Ctx, Outcome, agents as directory};

pub use self::dispatching::{Dispatch, dispatch, get};
pub(crate) use self::ending::end_of_intent;
pub use self::ending::tidy;
pub use self::hearing::{Heard, hear};
pub use self::letters::{Answered, Due, claim, letter, record};
pub use self::receiving::{Received, receive};
pub use self::reporting::report;

/// What is configured.
///
/// # Errors
/// Nothing is: there is no federation here.
pub fn set_up(ctx: &Ctx) -> Result<&Federation, Refusal> {
    ctx.settings.federation.as_ref().ok_or_else(|| {
        Refusal::new(
            Code::NotFound,
            "Federation is not set up on this server. Its operator can name peers (ENTENTE_FEDERATION_FILE).",
        )
    })
}

/// The advisory lock of everything that is counted per peer, or done once per peer.
fn peer_lock(peer: &Peer) -> i64 {
    let digest = sha256(format!("federation\0{}", peer.did));
    digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// How much is going on.
#[derive(Debug, Default)]
pub struct Counts {
    /// Dispatches that are not over.
    pub active: i64,
    /// Dispatches that are kept.
    pub dispatches: i64,
    /// Deliveries that are kept.
    pub received: i64,
}

/// How federation stands: what is configured, and how much is going on, of which everybody hears its own: a peer's key what
/// that peer gave us, an agent what it dispatched and was given, an admin everything.
///
/// # Errors
/// The scope is missing.
pub async fn status<'a>(ctx: &'a Ctx, caller: &Caller) -> Outcome<(Option<&'a Federation>, Counts)> {
    caller.require(Scope::IntentsRead)?;
    let Some(federation) = ctx.settings.federation.as_ref() else { return Ok((None, Counts::default())) };
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

/// The peer that a caller is, by the principal of its key.
fn peer_of<'a>(federation: &'a Federation, caller: &Caller) -> Option<&'a Peer> {
    federation.peers.iter().find(|peer| peer.did == caller.principal())
}

/// An agent that is exported.
#[derive(Debug)]
pub struct Exported {
    /// Its name.
    pub agent_id: String,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// Who is shown it.
    pub visibility: Visibility,
    /// Its status at this moment.
    pub status: AgentStatus,
}

/// The agents that are exported, in the order of their ids, up to a page after `after`: those that a peer sees, for its own key
/// or for whoever asks what `source` sees; else those that everybody may see. Whether there are more.
///
/// # Errors
/// The scope is missing; `source` is no peer, or a peer asks what another one sees.
pub async fn agents(
    ctx: &Ctx,
    caller: &Caller,
    source: Option<&str>,
    after: Option<&str>,
) -> Outcome<(Vec<Exported>, bool)> {
    caller.require(Scope::AgentsRead)?;
    let Some(federation) = ctx.settings.federation.as_ref() else { return Ok((Vec::new(), false)) };
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
    // Who is exported is the law's to tell, so records are taken until enough fit.
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
