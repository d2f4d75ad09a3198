//! The policy of an intent for loops and storms: the limits that define them, and the steps against them.

use serde::{Deserialize, Serialize};

use super::WINDOW;
use crate::refusal::{Code, Refusal};

/// Action of the server against a loop or a storm. A later one includes the earlier ones.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LoopAction {
    /// Records it, for all who follow the intent.
    Tell,
    /// Lets the agents of the lineage send at a slow pace only.
    Slow,
    /// Refuses the messages of the lineage's agents.
    Stop,
}

impl LoopAction {
    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tell => "tell",
            Self::Slow => "slow",
            Self::Stop => "stop",
        }
    }

    /// Parses the name.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Tell, Self::Slow, Self::Stop].into_iter().find(|action| action.as_str() == word)
    }
}

/// Limits that define loops and storms, and the steps against them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoopPolicy {
    /// Whether loops and storms are looked for.
    pub enabled: bool,
    /// Hops of a lineage from which on it may be a loop.
    #[schema(example = 24)]
    pub hops: u32,
    /// How many of its last 16 messages repeat an earlier one, in a loop.
    #[schema(example = 12)]
    pub repeats: u32,
    /// Messages of one lineage within a minute above which they are a storm; 0 for no limit.
    #[schema(example = 0)]
    pub lineage_per_minute: u32,
    /// Messages of one agent to another, in one lineage within a minute, above which they are a storm; 0 for no limit.
    #[schema(example = 0)]
    pub pair_per_minute: u32,
    /// Messages that one agent sends because of one message, above which they are a storm; 0 for no limit.
    #[schema(example = 0)]
    pub fan_out: u32,
    /// Steps against a loop, one after the other.
    #[schema(example = json!(["tell", "slow", "stop"]))]
    pub loop_steps: Vec<LoopAction>,
    /// Steps against a storm, one after the other.
    #[schema(example = json!(["tell", "slow"]))]
    pub storm_steps: Vec<LoopAction>,
    /// Messages of the lineage from one step to the next, if it goes on.
    #[schema(example = 8)]
    pub patience: u32,
    /// Seconds between two messages of an agent that is slowed.
    #[schema(example = 5)]
    pub slow_seconds: u32,
    /// Seconds within which an agent acts because of a message that it was sent. After them it begins a new lineage.
    #[schema(example = 600)]
    pub window_seconds: u32,
    /// Whether an agent may also act because of another's message to everybody on the intent. Without it, agents that
    /// announce the same thing again and again are no loop; a person's message to everybody reaches each in any case.
    #[schema(example = false)]
    pub broadcasts: bool,
}

impl Default for LoopPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            hops: 24,
            repeats: 12,
            lineage_per_minute: 0,
            pair_per_minute: 0,
            fan_out: 0,
            loop_steps: vec![LoopAction::Tell, LoopAction::Slow, LoopAction::Stop],
            storm_steps: vec![LoopAction::Tell, LoopAction::Slow],
            patience: 8,
            slow_seconds: 5,
            window_seconds: 600,
            broadcasts: false,
        }
    }
}

/// A policy as it is written: missing and null members are the server's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LoopPolicyAsk, example = json!({ "hops": 12, "pair_per_minute": 60, "loop_steps": ["tell", "stop"] }))]
pub struct LoopPolicyAsk {
    /// Whether loops and storms are looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// As in the policy: 2 to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
    /// As in the policy: 2 to 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// As in the policy: up to a million.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage_per_minute: Option<u32>,
    /// As in the policy: up to a million.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair_per_minute: Option<u32>,
    /// As in the policy: up to a million.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<u32>,
    /// As in the policy: some of `tell`, `slow`, `stop`, in this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_steps: Option<Vec<LoopAction>>,
    /// As in the policy: some of `tell`, `slow`, `stop`, in this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storm_steps: Option<Vec<LoopAction>>,
    /// As in the policy: 1 to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<u32>,
    /// As in the policy: 1 to 3,600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_seconds: Option<u32>,
    /// As in the policy: 10 to 86,400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<u32>,
    /// As in the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broadcasts: Option<bool>,
}

/// Largest rate: beyond it nothing is limited.
const RATE: u32 = 1_000_000;

impl LoopPolicyAsk {
    /// Returns the policy: the members that are asked for, over the server's.
    #[must_use]
    pub fn over(self, base: &LoopPolicy) -> LoopPolicy {
        LoopPolicy {
            enabled: self.enabled.unwrap_or(base.enabled),
            hops: self.hops.unwrap_or(base.hops),
            repeats: self.repeats.unwrap_or(base.repeats),
            lineage_per_minute: self.lineage_per_minute.unwrap_or(base.lineage_per_minute),
            pair_per_minute: self.pair_per_minute.unwrap_or(base.pair_per_minute),
            fan_out: self.fan_out.unwrap_or(base.fan_out),
            loop_steps: self.loop_steps.unwrap_or_else(|| base.loop_steps.clone()),
            storm_steps: self.storm_steps.unwrap_or_else(|| base.storm_steps.clone()),
            patience: self.patience.unwrap_or(base.patience),
            slow_seconds: self.slow_seconds.unwrap_or(base.slow_seconds),
            window_seconds: self.window_seconds.unwrap_or(base.window_seconds),
            broadcasts: self.broadcasts.unwrap_or(base.broadcasts),
        }
    }
}

impl LoopPolicy {
    /// Checks the members.
    ///
    /// # Errors
    /// A member is out of its bounds.
    pub fn check(&self) -> Result<(), Refusal> {
        let window = u32::try_from(WINDOW).unwrap_or(u32::MAX);
        for (member, value, least, most) in [
            ("hops", self.hops, 2, 10_000),
            ("repeats", self.repeats, 2, window),
            ("lineage_per_minute", self.lineage_per_minute, 0, RATE),
            ("pair_per_minute", self.pair_per_minute, 0, RATE),
            ("fan_out", self.fan_out, 0, RATE),
            ("patience", self.patience, 1, 10_000),
            ("slow_seconds", self.slow_seconds, 1, 3_600),
            ("window_seconds", self.window_seconds, 10, 86_400),
        ] {
            if !(least..=most).contains(&value) {
                let message = format!("`{member}` must be {least} to {most}, not {value}.");
                return Err(Refusal::field(Code::InvalidRequest, member, "range", message));
            }
        }
        for (member, steps) in [("loop_steps", &self.loop_steps), ("storm_steps", &self.storm_steps)] {
            if steps.is_empty() || steps.windows(2).any(|pair| pair[0] >= pair[1]) {
                let message = format!(
                    "`{member}` must be some of `tell`, `slow` and `stop`, in this order. To look for nothing, set `enabled` to false."
                );
                return Err(Refusal::field(Code::InvalidRequest, member, "order", message));
            }
        }
        Ok(())
    }
}
