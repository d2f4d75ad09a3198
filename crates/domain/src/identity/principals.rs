//! Principals: key holders, and the rules for names. Agent records are in [`crate::openintent::agents`], keys in [`crate::identity::keys`].

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::limits::NAME_BYTES;
use crate::refusal::{Code, Refusal};

/// Kind of a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Kind)]
pub enum PrincipalKind {
    /// A person; only a person's own credential resolves that person's decisions.
    Human,
    /// A program that acts on its own judgement.
    Agent,
    /// A program that serves others, such as CI or a gateway.
    Service,
}

impl PrincipalKind {
    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Agent => "agent",
            Self::Service => "service",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Human, Self::Agent, Self::Service].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// A holder of keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// Identifier: any name, by convention `agent.x`, `human.ada`, `service.ci`.
    pub id: String,
    /// Kind of principal.
    pub kind: PrincipalKind,
    /// Display name for people, if the id is not enough.
    pub display_name: Option<String>,
    /// Principal that created it.
    pub created_by: String,
    /// Creation time.
    pub created_at: Timestamp,
}

/// Author of a record: an agent, and the principal whose key it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Author<'a> {
    /// The agent.
    pub agent: &'a str,
    /// The principal of its key.
    pub principal: &'a str,
}

/// Name under which the server itself acts: it closes expired items and announces departures (RFC-0021 §7.2).
///
/// No principal may use it, so that its notices cannot be forged.
pub const SYSTEM: &str = "entente";

/// Checks the name of a principal, agent or role.
///
/// It must have 1 to [`NAME_BYTES`] bytes, no control characters, no leading or trailing blank, and be neither an
/// addressing term (`*`, `role:…`, RFC-0021 §4) nor [`SYSTEM`].
///
/// # Errors
/// [`Code::InvalidRequest`] at the body's `member`.
pub fn check_name(member: &str, name: &str) -> Result<(), Refusal> {
    let fault = if name.is_empty() {
        "is empty"
    } else if name.len() > NAME_BYTES {
        "is longer than 200 bytes"
    } else if name.chars().any(char::is_control) {
        "has a control character"
    } else if name.trim() != name {
        "begins or ends with a blank"
    } else if name == "*" || name.starts_with("role:") {
        "is a word of addressing (`*` or `role:…`), not a name"
    } else if name == SYSTEM {
        "is the server's own name"
    } else {
        return Ok(());
    };
    Err(Refusal::field(
        Code::InvalidRequest,
        member,
        "invalid_name",
        format!("`{member}` {fault}. Choose another name."),
    ))
}
