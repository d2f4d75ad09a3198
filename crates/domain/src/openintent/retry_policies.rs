//! Retry policies (RFC-0010): number of retries, delays and fallback agent after a failed attempt at an intent. Their
//! application to a failure is in `failures.rs`. Unrelated to `retries.rs` (webhook deliveries) and to a task's
//! `retry_policy`, which is one word (`tasks.rs`).

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::identity::principals::check_name;
use crate::ids::{IntentId, RetryPolicyId};
use crate::limits::{RETRIES, RETRY_DELAY_MS};
use crate::refusal::{Code, Refusal};

/// Growth of the delays between attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = RetryStrategy)]
pub enum Strategy {
    /// The same agent does not retry.
    None,
    /// All delays are equal.
    Fixed,
    /// Each delay is longer than the previous one by the base delay.
    Linear,
    /// Each delay is twice the previous one.
    Exponential,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 4] = [Self::None, Self::Fixed, Self::Linear, Self::Exponential];

    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fixed => "fixed",
            Self::Linear => "linear",
            Self::Exponential => "exponential",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == text)
    }
}

/// An intent's retry policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Identifier; kept when the policy is replaced.
    pub id: RetryPolicyId,
    /// Intent of the policy.
    pub intent_id: IntentId,
    /// Rules of the policy.
    pub rules: Rules,
    /// Agent that set it last.
    pub set_by: String,
    /// Time when it was first set.
    pub created_at: Timestamp,
    /// Time of the last change; earlier failures no longer count.
    pub updated_at: Timestamp,
}

/// Rules of a retry policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Growth of the delays.
    pub strategy: Strategy,
    /// Maximum number of retries of one agent.
    pub max_retries: u32,
    /// First delay in milliseconds.
    pub base_delay_ms: u32,
    /// Maximum delay in milliseconds.
    pub max_delay_ms: u32,
    /// Whether delays are shortened by up to a fifth, so that attempts that failed together are not retried together.
    pub jitter: bool,
    /// Agent that takes over after enough failures.
    pub fallback_agent_id: Option<String>,
    /// Number of failures before the fallback.
    pub failure_threshold: u32,
}

impl Default for Rules {
    /// Defaults of the SDK; `jitter` as in the reference server.
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

/// Maximum reduction of a delay by jitter, in thousandths.
const JITTER: u64 = 200;

impl Rules {
    /// Checks the rules.
    ///
    /// # Errors
    /// A number out of its range, or an invalid name for the fallback.
    pub fn check(&self) -> Result<(), Refusal> {
        check_range("max_retries", self.max_retries, 0, RETRIES)?;
        check_range("failure_threshold", self.failure_threshold, 1, RETRIES)?;
        check_range("base_delay_ms", self.base_delay_ms, 0, RETRY_DELAY_MS)?;
        check_range("max_delay_ms", self.max_delay_ms, 0, RETRY_DELAY_MS)?;
        self.fallback_agent_id.as_deref().map_or(Ok(()), |agent| check_name("fallback_agent_id", agent))
    }

    /// Returns the milliseconds between the failure of attempt `failed`, starting at 1, and the next one; jitter only
    /// shortens them.
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

fn check_range(member: &str, number: u32, least: u32, most: u32) -> Result<(), Refusal> {
    if (least..=most).contains(&number) {
        return Ok(());
    }
    let message = format!("`{member}` must be {least} to {most}.");
    Err(Refusal::field(Code::InvalidRequest, member, "range", message))
}
