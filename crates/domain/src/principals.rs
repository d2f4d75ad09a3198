//! Principals: who can hold a key, and what a name may look like. Agents' records are [`crate::agents`]; keys are
//! [`crate::keys`].

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::limits::NAME_BYTES;
use crate::refusal::{Code, Refusal};

/// What kind of being a principal is (design §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A person. Only a person's own credential resolves that person's decisions.
    Human,
    /// A program that acts on its own judgement.
    Agent,
    /// A program that serves others, such as CI or a gateway.
    Service,
}

impl Kind {
    /// The kind as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Agent => "agent",
            Self::Service => "service",
        }
    }

    /// Reads a kind; `None` when there is no such kind.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Human, Self::Agent, Self::Service].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Somebody who can hold keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// The id: any name, by convention `agent.x`, `human.ada`, `service.ci`.
    pub id: String,
    /// What kind of being.
    pub kind: Kind,
    /// A name for people, if the id is not enough.
    pub display_name: Option<String>,
    /// Who created it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
}

/// The name under which the server itself acts: it closes what has run out, and tells of departures (RFC-0021 §7.2).
/// Nobody else bears it, so that its notices cannot be forged.
pub const HOUSE: &str = "entente";

/// Checks the name of a principal, agent or role: 1 to [`NAME_BYTES`] bytes, no control characters, no blank at either
/// end, not one of the words that addressing gives a meaning (`*`, `role:…`, RFC-0021 §4), and not [`HOUSE`].
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
    } else if name == HOUSE {
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
