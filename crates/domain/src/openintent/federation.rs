//! Federation (RFC-0022, RFC-0023): the peers of this server, and their rights. The operator configures
//! peers, their keys and their rights; no server becomes a peer by contacting this one, and all others are
//! refused.
//!
//! Signatures are in [`signing`], outgoing work in [`dispatches`], incoming work in [`deliveries`], and
//! progress reports in [`callbacks`].

pub mod callbacks;
pub mod deliveries;
pub mod dispatches;
pub mod signing;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use crate::globs::Glob;
use crate::identity::signatures::PublicKey;
use crate::openintent::agents::Agent;
use crate::refusal::{Code, Refusal};

/// The relationship to a peer; informative only, as the peer's rights are in its other members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = FederationRelationship)]
pub enum Relationship {
    /// An equal.
    #[default]
    Peer,
    /// A peer that gives work to this server.
    Upstream,
    /// A peer that this server gives work to.
    Downstream,
}

/// The audience of an agent (RFC-0022), declared as `federation_visibility` in its metadata; it can only be
/// more private than the operator's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = FederationVisibility)]
pub enum Visibility {
    /// Every peer and caller that may list agents.
    Public,
    /// Only peers.
    Unlisted,
    /// None, and no peer can give it work.
    Private,
}

impl Visibility {
    /// Returns an agent's declared visibility; unknown values count as private, as they were meant to hide
    /// something.
    #[must_use]
    pub fn of(agent: &Agent) -> Self {
        match agent.metadata.get("federation_visibility") {
            None | Some(Value::Null) => Self::Public,
            Some(Value::String(word)) if word == "public" => Self::Public,
            Some(Value::String(word)) if word == "unlisted" => Self::Unlisted,
            Some(_) => Self::Private,
        }
    }
}

/// A part of an intent that may be sent to a peer, in addition to its title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = FederationPart)]
pub enum Part {
    /// The full description.
    Description,
    /// The state; for an intent received from a peer, also reports on its state here.
    State,
    /// The constraints.
    Constraints,
}

/// Another server configured by the operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Peer {
    /// Its URL, in lower case and without a trailing slash.
    pub url: String,
    /// Its DID; also the principal that owns the intents it delivers, and that may use API keys for
    /// signatures.
    pub did: String,
    /// The keys that its signatures are verified with: two during a key change.
    pub keys: Vec<PublicKey>,
    /// The relationship to this server.
    pub relationship: Relationship,
    /// Whether it may give work to this server.
    pub delivers: bool,
    /// Whether work may be given to it.
    pub takes: bool,
    /// The parts of intents sent to it, in addition to titles.
    pub share: Vec<Part>,
    /// The exported agents that it sees and may name; empty means all.
    pub agents: Vec<Glob>,
}

/// This server's federation settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Federation {
    /// This server's URL, without a trailing slash.
    pub url: String,
    /// This server's DID.
    pub did: String,
    /// The peers.
    pub peers: Vec<Peer>,
    /// The exported agents.
    pub export: Vec<Glob>,
}

/// Returns the `did:web` of a server at a URL; `None` if the URL has no host.
///
/// A port is written as `%3A`, as the method requires; the SDK writes a colon, and [`is_same_did`] accepts
/// both.
#[must_use]
pub fn did_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let host = url.host_str()?.to_lowercase();
    Some(match url.port() {
        Some(port) => format!("did:web:{host}%3A{port}"),
        None => format!("did:web:{host}"),
    })
}

/// Whether two DIDs are equal, however a port is written in them.
#[must_use]
pub fn is_same_did(one: &str, other: &str) -> bool {
    let plain = |did: &str| did.to_lowercase().replace("%3a", ":");
    plain(one) == plain(other)
}

/// Whether a peer's answer means that the message itself is invalid, so that a retry cannot succeed.
///
/// All other errors may be temporary: a clock, key or right yet to be fixed, or a proxy that answers for the
/// peer.
#[must_use]
pub fn is_final(status: u16, said: &str) -> bool {
    matches!(status, 400 | 409 | 410 | 413 | 422) && !said.contains(Code::OutsideWindow.wire())
}

/// Returns the origin of a URL: scheme, host and port; `None` if it is not an HTTP URL, or has credentials.
fn origin(url: &str) -> Option<(String, String, u16)> {
    let url = Url::parse(url).ok()?;
    let lawful =
        matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none();
    let port = url.port_or_known_default()?;
    lawful.then_some((url.scheme().to_owned(), url.host_str()?.to_lowercase(), port))
}

fn is_called(name: &str, url: &str, did: &str) -> bool {
    let name = name.trim_end_matches('/');
    name.eq_ignore_ascii_case(url) || is_same_did(name, did)
}

impl Peer {
    /// Whether a URL or a DID is this peer's.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        is_called(name, &self.url, &self.did)
    }

    /// Whether a URL leads to this peer: its callbacks must not go to other servers or the internal network.
    #[must_use]
    pub fn owns(&self, url: &str) -> bool {
        let its = origin(&self.url);
        its.is_some() && its == origin(url)
    }

    /// Whether a part of an intent may be sent to this peer.
    #[must_use]
    pub fn shares(&self, part: Part) -> bool {
        self.share.contains(&part)
    }
}

impl Federation {
    /// Whether a URL or a DID is this server's own.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        is_called(name, &self.url, &self.did)
    }

    /// Returns the peer with a URL or a DID.
    #[must_use]
    pub fn peer(&self, name: &str) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.is_called(name))
    }

    /// Returns the peer that signed a body.
    #[must_use]
    pub fn signer(&self, body: &Map<String, Value>) -> Option<&Peer> {
        let signature = signing::signature(body)?;
        let text = signing::canonical(body);
        self.peers.iter().find(|peer| peer.keys.iter().any(|key| key.made(&signature, &text)))
    }

    /// Whether an agent is exported and visible to this peer; `None` stands for this server's own callers.
    ///
    /// No agent is visible unless the operator exports it, and none that declares itself private.
    #[must_use]
    pub fn shows(&self, agent: &Agent, peer: Option<&Peer>) -> bool {
        let exported = self.export.iter().any(|glob| glob.matches(&agent.agent_id));
        let seen = match (Visibility::of(agent), peer) {
            (Visibility::Private, _) | (Visibility::Unlisted, None) => false,
            (Visibility::Public, None) => true,
            (_, Some(peer)) => {
                peer.agents.is_empty() || peer.agents.iter().any(|glob| glob.matches(&agent.agent_id))
            }
        };
        exported && seen
    }

    /// Returns the peer that work is to be sent to.
    ///
    /// # Errors
    /// [`Code::Forbidden`]: it is not a peer, or the operator does not allow sending work to it.
    pub fn target(&self, name: &str) -> Result<&Peer, Refusal> {
        let peer = self.peer(name).ok_or_else(|| {
            Refusal::new(
                Code::Forbidden,
                "`target_server` is no peer of this server. Its operator decides who is; GET /api/v1/federation/status \
                 lists them.",
            )
        })?;
        if peer.takes {
            return Ok(peer);
        }
        Err(Refusal::new(
            Code::Forbidden,
            "The operator of this server lets nothing be dispatched to that peer.",
        ))
    }

    /// Returns the peer that a message claims to come from.
    ///
    /// # Errors
    /// [`Code::Forbidden`]: it is not a peer.
    pub fn source(&self, name: &str) -> Result<&Peer, Refusal> {
        self.peer(name).ok_or_else(|| {
            Refusal::new(
                Code::Forbidden,
                "`source_server` is no peer of this server. Its operator has to name it, with its key, before anything is \
                 taken from it.",
            )
        })
    }
}
