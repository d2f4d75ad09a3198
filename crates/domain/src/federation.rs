//! Federation (RFC-0022, RFC-0023): which other servers this one knows, and what each of them may do. Nobody becomes a peer
//! by writing to us: peers, their keys and their rights are the operator's list, and what is not on it is refused.
//!
//! What is signed and how is [`signing`]; what leaves is [`dispatches`], what comes is [`deliveries`], and how it went on is
//! told with [`callbacks`].

pub mod callbacks;
pub mod deliveries;
pub mod dispatches;
pub mod signing;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use crate::agents::Agent;
use crate::globs::Glob;
use crate::refusal::{Code, Refusal};
use crate::signatures::PublicKey;

/// What a peer is to this server. A word for people: what a peer may do is said by its other members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = FederationRelationship)]
pub enum Relationship {
    /// An equal.
    #[default]
    Peer,
    /// One that gives us work.
    Upstream,
    /// One that we give work to.
    Downstream,
}

/// Who is shown an agent (RFC-0022). An agent says so itself, as `federation_visibility` of its record's metadata; it can
/// only be more private than the operator has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = FederationVisibility)]
pub enum Visibility {
    /// Everybody who may ask.
    Public,
    /// Only peers.
    Unlisted,
    /// Nobody, and no peer can give it work.
    Private,
}

impl Visibility {
    /// What an agent says of itself. A word that is none is taken for the most private: it was meant to hide something.
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

/// A part of an intent that may leave with it, besides its title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = FederationPart)]
pub enum Part {
    /// The goal in full.
    Description,
    /// What is known so far; also, of a peer's own intent, what becomes of it here.
    State,
    /// What must hold on the way.
    Constraints,
}

/// Another server that the operator knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Peer {
    /// Its URL, in small letters and without a slash at the end.
    pub url: String,
    /// Its name; also the principal that owns what it gives us, and whose API keys stand for its signature.
    pub did: String,
    /// The keys that its signatures count by: two while it changes them.
    pub keys: Vec<PublicKey>,
    /// What it is to us.
    pub relationship: Relationship,
    /// Whether it may give us work.
    pub delivers: bool,
    /// Whether work may be given to it.
    pub takes: bool,
    /// What leaves besides titles.
    pub share: Vec<Part>,
    /// Which of the exported agents it sees and may name; none is all of them.
    pub agents: Vec<Glob>,
}

/// This server among its peers.
#[derive(Debug, Clone, PartialEq)]
pub struct Federation {
    /// Its own URL, without a slash at the end.
    pub url: String,
    /// Its own name.
    pub did: String,
    /// The others.
    pub peers: Vec<Peer>,
    /// Which agents are exported.
    pub export: Vec<Glob>,
}

/// The `did:web` of a server at a URL. A port is written `%3A` as the method asks; the SDK writes a colon, and both are
/// understood ([`is_same_did`]). `None` when it is no URL of a server.
#[must_use]
pub fn did_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let host = url.host_str()?.to_lowercase();
    Some(match url.port() {
        Some(port) => format!("did:web:{host}%3A{port}"),
        None => format!("did:web:{host}"),
    })
}

/// Whether two names are one, however a port is written in them.
#[must_use]
pub fn is_same_did(one: &str, other: &str) -> bool {
    let plain = |did: &str| did.to_lowercase().replace("%3a", ":");
    plain(one) == plain(other)
}

/// Whether a peer's answer says that the letter itself is wrong, so that it would be no better tomorrow. All else may pass: a
/// clock, a key or a right that an operator has yet to put right, a proxy that answers in the peer's place.
#[must_use]
pub fn is_final(status: u16, said: &str) -> bool {
    matches!(status, 400 | 409 | 410 | 413 | 422) && !said.contains(Code::OutsideWindow.wire())
}

/// Where a URL leads: scheme, host and port. `None` when it leads nowhere over HTTP.
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

    /// Whether a URL leads to this peer and nowhere else: what it asks us to call may be no other server, and nothing in our
    /// own network.
    #[must_use]
    pub fn owns(&self, url: &str) -> bool {
        let its = origin(&self.url);
        its.is_some() && its == origin(url)
    }

    /// Whether a part of an intent may leave for it.
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

    /// The peer with a URL or a DID.
    #[must_use]
    pub fn peer(&self, name: &str) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.is_called(name))
    }

    /// The peer who signed a body.
    #[must_use]
    pub fn signer(&self, body: &Map<String, Value>) -> Option<&Peer> {
        let signature = signing::signature(body)?;
        let text = signing::canonical(body);
        self.peers.iter().find(|peer| peer.keys.iter().any(|key| key.made(&signature, &text)))
    }

    /// Whether an agent is exported, and this peer may see it; `None` asks for our own callers. Nobody is unless the operator
    /// has said so, and an agent that calls itself private is not.
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

    /// The peer that somebody wants to give work to.
    ///
    /// # Errors
    /// [`Code::Forbidden`]: it is none, or the operator has it that nothing is sent there.
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

    /// The peer that something says it comes from.
    ///
    /// # Errors
    /// [`Code::Forbidden`]: it is none.
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
