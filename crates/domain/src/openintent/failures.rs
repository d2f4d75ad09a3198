//! Failures (RFC-0010): failed attempts at an intent, and their consequences by its retry policy.
//!
//! The consequence is another attempt of the same agent, an attempt of the fallback agent, or none.

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::ids::{FailureId, IntentId};
use crate::limits::{NAME_BYTES, TEXT_BYTES};
use crate::metadata;
use crate::openintent::retry_policies::{Rules, Strategy};
use crate::refusal::{Code, Refusal};

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The failure's id.
    pub id: FailureId,
    /// The intent.
    pub intent_id: IntentId,
    /// The agent that made the attempt.
    pub agent_id: String,
    /// Attempt number as counted by the agent, or else the number of failures it has reported.
    pub attempt_number: u32,
    /// The kind of failure.
    pub error_code: Option<String>,
    /// Description of the failure.
    pub error_message: Option<String>,
    /// Whether another attempt can help.
    pub recoverable: bool,
    /// An object defined by the client.
    pub metadata: Map<String, Value>,
    /// The consequence.
    pub next: Next,
    /// When the agent was notified to try again.
    pub announced_at: Option<Timestamp>,
    /// When it became irrelevant because the intent was completed.
    pub resolved_at: Option<Timestamp>,
    /// When it was recorded.
    pub created_at: Timestamp,
}

/// Input for a new failure.
#[derive(Debug, Clone, Default)]
pub struct FailureAsk {
    /// Attempt number; defaults to the number of failures.
    pub attempt_number: Option<u32>,
    /// The kind of failure.
    pub error_code: Option<String>,
    /// Description of the failure.
    pub error_message: Option<String>,
    /// Whether another attempt can help; defaults to true.
    pub recoverable: Option<bool>,
    /// When the agent tries again on its own; it then needs no notification.
    pub retry_scheduled_at: Option<Timestamp>,
    /// An object defined by the client.
    pub metadata: Map<String, Value>,
}

/// The consequence of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Next {
    /// The same agent tries again at the given time.
    Again {
        /// Number of the retry, starting at 1.
        attempt: u32,
        /// The time of the retry.
        at: Timestamp,
    },
    /// The agent itself has scheduled a retry.
    Own {
        /// The time of the retry.
        at: Timestamp,
    },
    /// The policy's fallback agent takes over at once.
    HandedOver {
        /// The fallback agent.
        agent_id: String,
        /// Number of the retry, starting at 1.
        attempt: u32,
    },
    /// Nothing is tried again.
    Nothing {
        /// The reason.
        reason: Reason,
    },
}

/// Why nothing is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = NoRetry)]
pub enum Reason {
    /// The intent has no retry policy.
    NoPolicy,
    /// The policy allows no retries.
    NoRetries,
    /// The agent reported that another attempt cannot help.
    NotRecoverable,
    /// The policy's retries are used up.
    Exhausted,
    /// The intent is over.
    IntentResolved,
}

/// The facts that decide the consequence of a failure.
#[derive(Debug, Clone)]
pub struct Case<'a> {
    /// The agent that made the attempt.
    pub agent_id: &'a str,
    /// Number of failures of this agent since the policy was last changed, including this one.
    pub failures: u32,
    /// The policy, if there is one.
    pub rules: Option<&'a Rules>,
    /// Whether the fallback can still take over: it has not done so yet, and may write to the intent.
    pub fallback_free: bool,
    /// Whether the intent is over.
    pub over: bool,
}

/// Records a failure and decides its consequence; `chance` shortens the delay if the policy asks for jitter.
///
/// # Errors
/// A text over its limit, or an invalid code.
pub fn record(
    ask: FailureAsk,
    case: &Case<'_>,
    intent_id: IntentId,
    id: FailureId,
    chance: u64,
    now: Timestamp,
) -> Result<Failure, Refusal> {
    if let Some(code) = &ask.error_code {
        metadata::check_label("error_code", code, NAME_BYTES)?;
    }
    if ask.error_message.as_ref().is_some_and(|text| text.len() > TEXT_BYTES) {
        let message = format!("`error_message` has at most {TEXT_BYTES} bytes. Keep logs elsewhere.");
        return Err(Refusal::field(Code::TooLarge, "error_message", "too_long", message));
    }
    metadata::check("metadata", &ask.metadata)?;
    Ok(Failure {
        id,
        intent_id,
        agent_id: case.agent_id.to_owned(),
        attempt_number: ask.attempt_number.unwrap_or(case.failures),
        next: judge(&ask, case, chance, now),
        error_code: ask.error_code,
        error_message: ask.error_message,
        recoverable: ask.recoverable.unwrap_or(true),
        metadata: ask.metadata,
        announced_at: None,
        resolved_at: None,
        created_at: now,
    })
}

fn judge(ask: &FailureAsk, case: &Case<'_>, chance: u64, now: Timestamp) -> Next {
    let nothing = |reason| Next::Nothing { reason };
    if case.over {
        return nothing(Reason::IntentResolved);
    }
    if let Some(at) = ask.retry_scheduled_at {
        return Next::Own { at };
    }
    let Some(rules) = case.rules else { return nothing(Reason::NoPolicy) };
    // The larger number counts: an agent that always claims the first attempt is not retried forever, and one
    // that counts across restarts is believed.
    let failed = ask.attempt_number.unwrap_or(0).max(case.failures);
    let stop = if ask.recoverable == Some(false) {
        Some(Reason::NotRecoverable)
    } else if rules.strategy == Strategy::None || rules.max_retries == 0 {
        Some(Reason::NoRetries)
    } else if failed > rules.max_retries {
        Some(Reason::Exhausted)
    } else {
        None
    };
    let fallback =
        rules.fallback_agent_id.as_ref().filter(|agent| case.fallback_free && *agent != case.agent_id);
    match (fallback, stop) {
        (Some(agent), stop) if stop.is_some() || failed >= rules.failure_threshold => {
            Next::HandedOver { agent_id: agent.clone(), attempt: failed }
        }
        (_, Some(reason)) => nothing(reason),
        (_, None) => {
            let pause = i64::try_from(rules.delay_ms(failed, chance)).unwrap_or(0);
            Next::Again { attempt: failed, at: now + TimeDelta::milliseconds(pause) }
        }
    }
}
