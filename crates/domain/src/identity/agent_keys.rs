//! An agent's key and the period in which it is valid (RFC-0018). Registration and rotation are in
//! [`crate::identity::identities`].

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::identity::signatures::PublicKey;

/// How a key ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The agent rotated to a successor key.
    Rotated,
    /// The key was declared lost or stolen.
    Revoked,
    /// It had expired, and the agent registered another one.
    Replaced,
}

impl End {
    /// Returns the wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rotated => "rotated",
            Self::Revoked => "revoked",
            Self::Replaced => "replaced",
        }
    }

    /// Parses the wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Rotated, Self::Revoked, Self::Replaced].into_iter().find(|end| end.as_str() == text)
    }
}

/// The stage of a key's lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyStatus {
    /// The key is valid.
    Active,
    /// The key passed its expiry date.
    Expired,
    /// The key was revoked.
    Revoked,
    /// Another key has replaced it.
    Superseded,
}

impl KeyStatus {
    /// Returns the status's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Superseded => "superseded",
        }
    }
}

/// One of an agent's keys, with its validity period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentKey {
    /// The key.
    pub public_key: PublicKey,
    /// When the agent was first registered with a key that led to this one.
    pub registered_at: Timestamp,
    /// When the key becomes valid.
    pub valid_from: Timestamp,
    /// The expiry date set at registration.
    pub expires_at: Option<Timestamp>,
    /// When it was rotated or revoked.
    pub ended_at: Option<Timestamp>,
    /// How it ended.
    pub ended_by: Option<End>,
}

impl AgentKey {
    /// Returns the status at the given time.
    #[must_use]
    pub fn status_at(&self, now: Timestamp) -> KeyStatus {
        match (self.ended_at, self.ended_by) {
            (Some(end), Some(End::Revoked)) if end <= now => KeyStatus::Revoked,
            (Some(end), _) if end <= now => KeyStatus::Superseded,
            _ if self.expires_at.is_some_and(|end| end <= now) => KeyStatus::Expired,
            _ => KeyStatus::Active,
        }
    }

    /// Whether the key is valid at the given time.
    #[must_use]
    pub fn in_force(&self, now: Timestamp) -> bool {
        self.valid_from <= now && self.status_at(now) == KeyStatus::Active
    }
}
