//! Retry policies (RFC-0010): how often, after which pauses and by whom an intent is tried again after a failure. What a
//! failure comes to by them is `failures.rs`. Not `retries.rs`, which is about deliveries of webhooks, nor a task's
//! `retry_policy`, which is a word (`tasks.rs`).

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::ids::{IntentId, RetryPolicyId};
use crate::limits::{RETRIES, RETRY_DELAY_MS};
use crate::principals::check_name;
use crate::refusal::{Code, Refusal};

/// How the pauses between attempts grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = RetryStrategy)]
pub enum Strategy {
    /// Nothing is tried again by the same agent.
    None,
    /// They are all the same.
    Fixed,
    /// Each is longer than the one before by the first.
    Linear,
    /// Each is twice the one before.
    Exponential,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 4] = [Self::None, Self::Fixed, Self::Linear, Self::Exponential];

    /// The strategy as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fixed => "fixed",
            Self::Linear => "linear",
            Self::Exponential => "exponential",
        }
    }

    /// Reads a strategy; `None` when there is no such strategy.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == text)
    }
}

/// An intent's retry policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Its id; it stays when the policy is set anew.
    pub id: RetryPolicyId,
    /// The intent.
    pub intent_id: IntentId,
    /// What it says.
    pub rules: Rules,
    /// Who set it last.
    pub set_by: String,
    /// When it was first set.
    pub created_at: Timestamp,
    /// When it was last changed. What failed before that no longer counts.
    pub updated_at: Timestamp,
}

/// What a retry policy says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// How the pauses grow.
    pub strategy: Strategy,
    /// Retries of one agent at the most.
    pub max_retries: u32,
    /// Milliseconds of the first pause.
    pub base_delay_ms: u32,
    /// Milliseconds of the longest pause.
    pub max_delay_ms: u32,
    /// Whether pauses are shortened by up to a fifth, so that what failed together does not come back together.
    pub jitter: bool,
    /// Who has its turn when an agent has failed often enough.
    pub fallback_agent_id: Option<String>,
    /// How often that is.
    pub failure_threshold: u32,
}

impl Default for Rules {
    /// What the SDK has when nothing is said; `jitter` is the reference server's.
    fn default() -> Self {
        Self {
            strategy: Strategy::Exponential,
            max_retries: 3,
            base_delay_ms: 1_000,
            max_delay_ms: 60_000,
            jitter: true,
            fallback_agent_id: None,
            failure_threshold: 3,
        }
    }
}

/// A pause is at the most this much shorter by chance, in thousandths.
const JITTER: u64 = 200;

impl Rules {
    /// Checks what somebody wants to set.
    ///
    /// # Errors
    /// A number out of its range, a fallback that is no name.
    pub fn check(&self) -> Result<(), Refusal> {
        check_range("max_retries", self.max_retries, (0, RETRIES))?;
        check_range("failure_threshold", self.failure_threshold, (1, RETRIES))?;
        check_range("base_delay_ms", self.base_delay_ms, (0, RETRY_DELAY_MS))?;
        check_range("max_delay_ms", self.max_delay_ms, (0, RETRY_DELAY_MS))?;
        self.fallback_agent_id.as_deref().map_or(Ok(()), |agent| check_name("fallback_agent_id", agent))
    }

    /// Milliseconds between the failure of attempt `failed`, from 1, and the next one. `chance` makes them fewer, never more.
    #[must_use]
    pub fn delay_ms(&self, failed: u32, chance: u64) -> u64 {
        let base = u64::from(self.base_delay_ms);
        let grown = match self.strategy {
            Strategy::None => 0,
            Strategy::Fixed => base,
            Strategy::Linear => base.saturating_mul(u64::from(failed)),
            Strategy::Exponential => base.saturating_mul(2_u64.saturating_pow(failed.saturating_sub(1))),
        };
        let delay = grown.min(u64::from(self.max_delay_ms));
        if self.jitter { delay * (1_000 - chance % (JITTER + 1)) / 1_000 } else { delay }
    }
}

fn check_range(member: &str, number: u32, (least, most): (u32, u32)) -> Result<(), Refusal> {
    if (least..=most).contains(&number) {
        return Ok(());
    }
    let message = format!("`{member}` must be {least} to {most}.");
    Err(Refusal::field(Code::InvalidRequest, member, "range", message))
}
