//! Epochs: which of an agent's processes may still write. Each session that an agent opens has a higher epoch than the one
//! before, and a write that names a lower one is refused: a process that was paused, cut off or forgotten cannot write
//! into the work of its successor.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::refusal::{Code, Refusal};

/// Header that names the epoch of the session that a request belongs to.
pub const HEADER: &str = "Entente-Epoch";

/// The session of an agent that a write belongs to: it takes effect only while this is the agent's latest.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch {
    /// The agent.
    pub agent: String,
    /// The epoch of its session.
    pub epoch: i64,
}

/// The latest session of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSession {
    /// The agent.
    pub agent_id: String,
    /// Its epoch, from 1.
    pub epoch: i64,
    /// Principal that opened it.
    pub opened_by: String,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// Whether every write of the agent has to name the epoch.
    pub strict: bool,
}

impl Epoch {
    /// Parses the value of the header, for a request of this agent.
    ///
    /// # Errors
    /// It is no whole number from 1.
    pub fn read(agent: &str, text: &str) -> Result<Self, Refusal> {
        let epoch = text.trim().parse().ok().filter(|epoch: &i64| *epoch > 0);
        let epoch = epoch.ok_or_else(|| {
            Refusal::new(
                Code::InvalidParameter,
                format!("`{HEADER}` must be the epoch that `POST /agents/{agent}/sessions` returned: a whole number from 1."),
            )
        })?;
        Ok(Self { agent: agent.to_owned(), epoch })
    }

    /// Returns the refusal of a write in a session that is not the agent's latest.
    #[must_use]
    pub fn stale(&self) -> Refusal {
        Refusal::new(
            Code::StaleEpoch,
            format!(
                "{self} is not the latest session of this agent, so this process may not write for it any more. Stop it; or, if it \
                 is the one that should go on, open a session of its own (`POST /agents/{}/sessions`).",
                self.agent
            ),
        )
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch {} of {}", self.epoch, self.agent)
    }
}

/// Returns the refusal of an agent's write without an epoch on an intent where all writes have to name it.
#[must_use]
pub fn required_here() -> Refusal {
    Refusal::new(
        Code::EpochRequired,
        format!(
            "What an agent writes on this intent has to name the epoch of its session. Send `{HEADER}` with the epoch that \
             `POST /agents/{{agent_id}}/sessions` returned, and `X-Agent-ID` with the agent."
        ),
    )
}

/// Returns the refusal of a write without an epoch by an agent whose writes have to name it.
#[must_use]
pub fn required(agent: &str) -> Refusal {
    Refusal::new(
        Code::EpochRequired,
        format!(
            "Writes of {agent} have to name the epoch of its session. Send `{HEADER}` with the epoch that \
             `POST /agents/{agent}/sessions` returned, and `X-Agent-ID: {agent}`."
        ),
    )
}
