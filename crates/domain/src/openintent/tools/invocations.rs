//! Invocations (RFC-0014): the records of tool calls, whether made by the server or reported by an agent.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::clock::Timestamp;
use crate::identity::principals::check_name;
use crate::ids::{InvocationId, ToolGrantId};
use crate::limits::{IDEMPOTENCY_KEY_BYTES, METADATA_BYTES, TOOL_PARAMETERS_BYTES, TOOL_RESULT_BYTES};
use crate::openintent::tools::tool_credentials::check_object;
use crate::openintent::tools::tool_secrets::redacted;
use crate::refusal::{Code, Refusal};

/// The status of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum InvocationStatus {
    /// In progress.
    Running,
    /// The tool executed the call.
    Success,
    /// The call was not sent, because of a constraint of its grant or a rule of the server.
    Denied,
    /// The tool did not execute the call, or the outcome is unknown.
    Error,
}

impl InvocationStatus {
    /// Returns the status's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Success => "success",
            Self::Denied => "denied",
            Self::Error => "error",
        }
    }

    /// Parses a status's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Running, Self::Success, Self::Denied, Self::Error]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFailure {
    /// The tool answered with an error.
    Refused,
    /// The tool redirected the server elsewhere, which would expose the secret.
    Redirected,
    /// The tool did not answer in time; it may have executed the call.
    TimedOut,
    /// There was no connection, or it broke.
    Unreachable,
    /// The server does not send to this address.
    Blocked,
    /// The answer was larger than the server reads; the tool may well have executed the call.
    TooLarge,
    /// The service issued no token.
    NoToken,
    /// The server stopped or died during the call; the tool may have executed it.
    Interrupted,
    /// The grant does not allow the call.
    Constraint,
}

impl CallFailure {
    /// Returns the code for programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Redirected => "redirected",
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
            Self::Blocked => "blocked",
            Self::TooLarge => "too_large",
            Self::NoToken => "no_token",
            Self::Interrupted => "interrupted",
            Self::Constraint => "constraint",
        }
    }

    /// Returns the status of a call that failed this way.
    #[must_use]
    pub fn status(self) -> InvocationStatus {
        match self {
            Self::Blocked | Self::Constraint => InvocationStatus::Denied,
            _ => InvocationStatus::Error,
        }
    }

    /// Returns the error as it is stored and shown.
    #[must_use]
    pub fn told(self, message: &str) -> Map<String, Value> {
        let told = json!({ "code": self.code(), "message": message });
        told.as_object().cloned().unwrap_or_default()
    }
}

/// The message for a call with an unknown outcome.
pub const INTERRUPTED: &str = "The server that made this call ended before it had the answer, or could not write it down. \
                               The tool may have done what it was asked.";

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// The call's id.
    pub id: InvocationId,
    /// The grant that it was made under.
    pub grant_id: ToolGrantId,
    /// The service.
    pub service: String,
    /// The tool.
    pub tool: String,
    /// The agent that made it.
    pub agent_id: String,
    /// The parameters, without secrets.
    pub parameters: Map<String, Value>,
    /// The status.
    pub status: InvocationStatus,
    /// The tool's answer.
    pub result: Option<Map<String, Value>>,
    /// The error.
    pub error: Option<Map<String, Value>>,
    /// The cost, as reported by the agent.
    pub cost: Option<Map<String, Value>>,
    /// Duration in milliseconds.
    pub duration_ms: Option<i32>,
    /// The tool's HTTP status.
    pub http_status: Option<i32>,
    /// Bytes of the request's body.
    pub request_bytes: Option<i32>,
    /// Bytes of the response.
    pub response_bytes: Option<i32>,
    /// The client's idempotency key.
    pub idempotency_key: Option<String>,
    /// Additional information from the agent.
    pub context: Map<String, Value>,
    /// Whether an agent reported it, so that the server has not seen the call.
    pub reported: bool,
    /// When it began.
    pub started_at: Timestamp,
    /// While in progress, the time after which it counts as interrupted.
    pub deadline_at: Option<Timestamp>,
}

impl Invocation {
    /// Returns the call as of the given time: past its deadline it counts as interrupted.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        let over = self.deadline_at.is_some_and(|deadline| deadline <= now);
        if self.status == InvocationStatus::Running && over {
            self.status = InvocationStatus::Error;
            self.error = Some(CallFailure::Interrupted.told(INTERRUPTED));
        }
        self
    }
}

/// An agent's report of a tool call.
#[derive(Debug, Default)]
pub struct Report {
    /// The service.
    pub service: String,
    /// The tool.
    pub tool: String,
    /// The agent that made the call.
    pub agent_id: String,
    /// The parameters.
    pub parameters: Map<String, Value>,
    /// The outcome.
    pub status: Option<InvocationStatus>,
    /// The tool's answer.
    pub result: Option<Map<String, Value>>,
    /// The error.
    pub error: Option<Map<String, Value>>,
    /// The cost.
    pub cost: Option<Map<String, Value>>,
    /// Duration in milliseconds.
    pub duration_ms: Option<i32>,
    /// The client's idempotency key.
    pub idempotency_key: Option<String>,
    /// Additional information.
    pub context: Map<String, Value>,
}

/// Creates the record of a reported call.
///
/// # Errors
/// Invalid names, parts that are too large, a status that is not final, or a negative duration.
pub fn report(
    said: Report,
    grant_id: ToolGrantId,
    id: InvocationId,
    now: Timestamp,
) -> Result<Invocation, Refusal> {
    check_name("service", &said.service)?;
    check_tool("tool", &said.tool)?;
    check_parameters(&said.parameters)?;
    let status = said.status.unwrap_or(InvocationStatus::Success);
    if status == InvocationStatus::Running {
        let message = "`status` must be success, denied or error: report a call when it is over.";
        return Err(Refusal::field(Code::InvalidRequest, "status", "enum", message));
    }
    for (member, object) in [("result", &said.result), ("error", &said.error), ("cost", &said.cost)] {
        if let Some(object) = object {
            check_object(member, object, TOOL_RESULT_BYTES)?;
        }
    }
    check_object("context", &said.context, METADATA_BYTES)?;
    if said.duration_ms.is_some_and(|millis| millis < 0) {
        let message = "`duration_ms` is a number from 0.";
        return Err(Refusal::field(Code::InvalidRequest, "duration_ms", "value", message));
    }
    if said.idempotency_key.as_ref().is_some_and(|key| key.len() > IDEMPOTENCY_KEY_BYTES) {
        let message = format!("`idempotency_key` has at most {IDEMPOTENCY_KEY_BYTES} bytes.");
        return Err(Refusal::field(Code::TooLarge, "idempotency_key", "too_long", message));
    }
    Ok(Invocation {
        id,
        grant_id,
        service: said.service,
        tool: said.tool,
        agent_id: said.agent_id,
        parameters: redacted(said.parameters),
        status,
        result: said.result.map(redacted),
        error: said.error.map(redacted),
        cost: said.cost,
        duration_ms: said.duration_ms,
        http_status: None,
        request_bytes: None,
        response_bytes: None,
        idempotency_key: said.idempotency_key,
        context: redacted(said.context),
        reported: true,
        started_at: now,
        deadline_at: None,
    })
}

/// Checks the name of a tool.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn check_tool(member: &str, tool: &str) -> Result<(), Refusal> {
    check_name(member, tool)
}

/// Checks the parameters for a tool.
///
/// # Errors
/// [`Code::TooLarge`].
pub fn check_parameters(parameters: &Map<String, Value>) -> Result<(), Refusal> {
    check_object("parameters", parameters, TOOL_PARAMETERS_BYTES)
}

/// Returns a tool's answer as an object: objects unchanged, other JSON as `value`, other text as `raw`.
#[must_use]
pub fn shaped(answer: &str) -> Map<String, Value> {
    match serde_json::from_str(answer) {
        Ok(Value::Object(members)) => members,
        Ok(Value::Null) => Map::new(),
        Ok(other) => Map::from_iter([("value".to_owned(), other)]),
        Err(_no_json) if answer.trim().is_empty() => Map::new(),
        Err(_no_json) => Map::from_iter([("raw".to_owned(), Value::String(answer.to_owned()))]),
    }
}
