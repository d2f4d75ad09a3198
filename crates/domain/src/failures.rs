//! Failures (RFC-0010): attempts at an intent that failed, and what comes of each by the intent's retry policy: another
//! attempt of the same agent, another agent's turn, or nothing. Pure arithmetic over what happened.

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::ids::{FailureId, IntentId};
use crate::limits::{NAME_BYTES, TEXT_BYTES};
use crate::metadata;
use crate::refusal::{Code, Refusal};
use crate::retry_policies::{Rules, Strategy};

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Its id.
    pub id: FailureId,
    /// The intent.
    pub intent_id: IntentId,
    /// Whose attempt it was.
    pub agent_id: String,
    /// Which attempt it was, as the agent counts, or else by what it has reported.
    pub attempt_number: u32,
    /// What sort of failure.
    pub error_code: Option<String>,
    /// What went wrong.
    pub error_message: Option<String>,
    /// Whether another attempt can help.
    pub recoverable: bool,
    /// The client's own object.
    pub metadata: Map<String, Value>,
    /// What comes of it.
    pub next: Next,
    /// When the agent was told to try again.
    pub announced_at: Option<Timestamp>,
    /// When it no longer mattered: the intent was completed.
    pub resolved_at: Option<Timestamp>,
    /// When it was recorded.
    pub created_at: Timestamp,
}

/// What is to be recorded.
#[derive(Debug, Clone, Default)]
pub struct FailureAsk {
    /// Which attempt it was; counted when nothing is said.
    pub attempt_number: Option<u32>,
    /// What sort of failure.
    pub error_code: Option<String>,
    /// What went wrong.
    pub error_message: Option<String>,
    /// Whether another attempt can help; true when nothing is said.
    pub recoverable: Option<bool>,
    /// When the agent tries again by itself: then nobody has to tell it.
    pub retry_scheduled_at: Option<Timestamp>,
    /// The client's own object.
    pub metadata: Map<String, Value>,
}

/// What comes of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Next {
    /// The same agent tries again then.
    Again {
        /// Which retry it is, from 1.
        attempt: u32,
        /// When.
        at: Timestamp,
    },
    /// The agent has said itself when it tries again.
    Own {
        /// When.
        at: Timestamp,
    },
    /// The policy's fallback has its turn, at once.
    HandedOver {
        /// Which agent.
        agent_id: String,
        /// Which retry it is, from 1.
        attempt: u32,
    },
    /// Nothing is tried again.
    Nothing {
        /// Why not.
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
    /// The policy has no retries.
    NoRetries,
    /// The agent says that another attempt cannot help.
    NotRecoverable,
    /// It was tried as often as the policy allows.
    Exhausted,
    /// The intent is over.
    IntentResolved,
}

/// What a failure is judged by.
#[derive(Debug, Clone)]
pub struct Case<'a> {
    /// Whose attempt it was.
    pub agent_id: &'a str,
    /// How often this agent has failed since the policy was last changed, this time included.
    pub failures: u32,
    /// The policy, if there is one.
    pub rules: Option<&'a Rules>,
    /// Whether the fallback can still have its turn: it had none yet, and may write on the intent.
    pub fallback_free: bool,
    /// Whether the intent is over.
    pub over: bool,
}

/// Records a failure and decides what comes of it. `chance` shortens the pause where the policy says so.
///
/// # Errors
/// A text that is over its limit, or a code that is none.
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
    // An agent that always says "the first" is not tried for ever, and one that counts across restarts is believed.
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
