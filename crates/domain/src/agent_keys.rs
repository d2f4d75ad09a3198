//! An agent's key and the time in which it counts (RFC-0018). How an agent comes by it is [`crate::identities`].

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::signatures::PublicKey;

/// How a key ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// It named its successor.
    Rotated,
    /// It was declared lost or stolen.
    Revoked,
    /// It had expired, and the agent registered another one.
    Replaced,
}

impl End {
    /// The word as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rotated => "rotated",
            Self::Revoked => "revoked",
            Self::Replaced => "replaced",
        }
    }

    /// Reads a word; `None` when there is no such word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Rotated, Self::Revoked, Self::Replaced].into_iter().find(|end| end.as_str() == text)
    }
}

/// Where a key is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyStatus {
    /// It counts.
    Active,
    /// Its time ran out.
    Expired,
    /// It was revoked.
    Revoked,
    /// Another one has taken its place.
    Superseded,
}

impl KeyStatus {
    /// The status as it is written.
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

/// One of an agent's keys, and the time in which it counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentKey {
    /// The key.
    pub public_key: PublicKey,
    /// When the agent was first registered with a key that led to this one.
    pub registered_at: Timestamp,
    /// From when it counts.
    pub valid_from: Timestamp,
    /// When its time runs out, as was said when it was registered.
    pub expires_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// By what.
    pub ended_by: Option<End>,
}

impl AgentKey {
    /// Where it is in its life at this moment.
    #[must_use]
    pub fn status_at(&self, now: Timestamp) -> KeyStatus {
        match (self.ended_at, self.ended_by) {
            (Some(end), Some(End::Revoked)) if end <= now => KeyStatus::Revoked,
            (Some(end), _) if end <= now => KeyStatus::Superseded,
            _ if self.expires_at.is_some_and(|end| end <= now) => KeyStatus::Expired,
            _ => KeyStatus::Active,
        }
    }

    /// Whether it counts at this moment.
    #[must_use]
    pub fn in_force(&self, now: Timestamp) -> bool {
        self.valid_from <= now && self.status_at(now) == KeyStatus::Active
    }
}
