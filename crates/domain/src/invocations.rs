//! Invocations (RFC-0014): what is written down of each use of a tool, whether the server made the call or an agent says that
//! it did.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::clock::Timestamp;
use crate::ids::{InvocationId, ToolGrantId};
use crate::limits::{IDEMPOTENCY_KEY_BYTES, METADATA_BYTES, TOOL_PARAMETERS_BYTES, TOOL_RESULT_BYTES};
use crate::principals::check_name;
use crate::refusal::{Code, Refusal};
use crate::tool_credentials::check_object;
use crate::tool_secrets::redacted;

/// How a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum InvocationStatus {
    /// It is under way.
    Running,
    /// The tool did it.
    Success,
    /// It was not let out: by a constraint of its grant, or by the server's guard.
    Denied,
    /// The tool did not do it, or nobody knows whether it did.
    Error,
}

impl InvocationStatus {
    /// The status as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Success => "success",
            Self::Denied => "denied",
            Self::Error => "error",
        }
    }

    /// Reads a status; `None` when there is no such status.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Running, Self::Success, Self::Denied, Self::Error]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

/// Why a call came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// The tool answered with an error.
    Refused,
    /// It wanted the server to go elsewhere, with the secret.
    Redirected,
    /// It did not answer in time; it may have done it.
    TimedOut,
    /// There was no connection, or it broke.
    Unreachable,
    /// Its address is not one that the server sends to.
    Blocked,
    /// It answered more than the server reads; it may well have done it.
    TooLarge,
    /// The service gave no token.
    NoToken,
    /// The server stopped or died over it; it may have been done.
    Interrupted,
    /// The grant does not allow it.
    Constraint,
}

impl Mishap {
    /// The word for programs.
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

    /// The status of a call that came to this.
    #[must_use]
    pub fn status(self) -> InvocationStatus {
        match self {
            Self::Blocked | Self::Constraint => InvocationStatus::Denied,
            _ => InvocationStatus::Error,
        }
    }

    /// As it is kept, and shown.
    #[must_use]
    pub fn told(self, message: &str) -> Map<String, Value> {
        let told = json!({ "code": self.code(), "message": message });
        told.as_object().cloned().unwrap_or_default()
    }
}

/// What is known of a call that nobody has seen the end of.
pub const INTERRUPTED: &str = "The server that made this call ended before it had the answer, or could not write it down. \
                               The tool may have done what it was asked.";

/// A use of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// Its id.
    pub id: InvocationId,
    /// The grant that it was made under.
    pub grant_id: ToolGrantId,
    /// The service.
    pub service: String,
    /// The tool.
    pub tool: String,
    /// Who used it.
    pub agent_id: String,
    /// What it was told, without what is secret.
    pub parameters: Map<String, Value>,
    /// How it stands.
    pub status: InvocationStatus,
    /// What it answered.
    pub result: Option<Map<String, Value>>,
    /// What went wrong.
    pub error: Option<Map<String, Value>>,
    /// What it cost, as its agent says.
    pub cost: Option<Map<String, Value>>,
    /// Milliseconds that it took.
    pub duration_ms: Option<i32>,
    /// The tool's HTTP status.
    pub http_status: Option<i32>,
    /// Bytes that were sent as a body.
    pub request_bytes: Option<i32>,
    /// Bytes that were answered.
    pub response_bytes: Option<i32>,
    /// The client's key against doing it twice.
    pub idempotency_key: Option<String>,
    /// Whatever its agent says besides.
    pub context: Map<String, Value>,
    /// An agent says so; the server has not seen it.
    pub reported: bool,
    /// When it began.
    pub started_at: Timestamp,
    /// When nobody will end it any more, while it is under way.
    pub deadline_at: Option<Timestamp>,
}

impl Invocation {
    /// As it stands at a moment: one whose deadline has passed was interrupted.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        let over = self.deadline_at.is_some_and(|deadline| deadline <= now);
        if self.status == InvocationStatus::Running && over {
            self.status = InvocationStatus::Error;
            self.error = Some(Mishap::Interrupted.told(INTERRUPTED));
        }
        self
    }
}

/// What an agent says that it has done.
#[derive(Debug, Default)]
pub struct Report {
    /// The service.
    pub service: String,
    /// The tool.
    pub tool: String,
    /// Who did it.
    pub agent_id: String,
    /// What the tool was told.
    pub parameters: Map<String, Value>,
    /// How it ended.
    pub status: Option<InvocationStatus>,
    /// What it answered.
    pub result: Option<Map<String, Value>>,
    /// What went wrong.
    pub error: Option<Map<String, Value>>,
    /// What it cost.
    pub cost: Option<Map<String, Value>>,
    /// Milliseconds that it took.
    pub duration_ms: Option<i32>,
    /// The client's key.
    pub idempotency_key: Option<String>,
    /// Whatever is to be said besides.
    pub context: Map<String, Value>,
}

/// Makes a record of what an agent says that it has done.
///
/// # Errors
/// Names that are none, parts that are too large, a status that says nothing, a time that is none.
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

/// Checks what a tool is to be told.
///
/// # Errors
/// [`Code::TooLarge`].
pub fn check_parameters(parameters: &Map<String, Value>) -> Result<(), Refusal> {
    check_object("parameters", parameters, TOOL_PARAMETERS_BYTES)
}

/// What a tool's answer is shown as: an object as it is, everything else in one (a text as `raw`).
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
