//! Errors of A2A (§3.3.2), with their forms in both bindings (§5.4): a code of JSON-RPC, and a status of HTTP with a word
//! of `google.rpc.Code`. Details are those of `google.rpc`.

use serde_json::{Map, Value, json};

use crate::refusal::{Code, Refusal};

/// The domain of A2A's own reasons.
pub const DOMAIN: &str = "a2a-protocol.org";
/// The domain of this server's codes, which A2A has no reason for.
pub const OWN_DOMAIN: &str = "entente";

/// An error's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// There is no such task, or the caller may not see it.
    TaskNotFound,
    /// The task is over.
    TaskNotCancelable,
    /// The agent sends no push notifications.
    PushNotificationNotSupported,
    /// The operation is not possible, here or for this task.
    UnsupportedOperation,
    /// A media type is not supported.
    ContentTypeNotSupported,
    /// The version of the protocol is not spoken here.
    VersionNotSupported,
    /// The body is no JSON.
    Parse,
    /// The body is no request of JSON-RPC.
    InvalidRequest,
    /// There is no such method.
    MethodNotFound,
    /// A parameter is invalid.
    InvalidParams,
    /// A refusal of this server that A2A has no error for.
    Refused(Code),
}

impl Fault {
    /// Returns the code of JSON-RPC.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::TaskNotFound => -32_001,
            Self::TaskNotCancelable => -32_002,
            Self::PushNotificationNotSupported => -32_003,
            Self::UnsupportedOperation => -32_004,
            Self::ContentTypeNotSupported => -32_005,
            Self::VersionNotSupported => -32_009,
            Self::Parse => -32_700,
            Self::InvalidRequest => -32_600,
            Self::MethodNotFound => -32_601,
            Self::InvalidParams => -32_602,
            Self::Refused(Code::Internal) => -32_603,
            // JSON-RPC leaves this range to servers.
            Self::Refused(_) => -32_000,
        }
    }

    /// Returns the reason, as in `google.rpc.ErrorInfo`.
    #[must_use]
    pub fn reason(self) -> String {
        let word = match self {
            Self::TaskNotFound => "TASK_NOT_FOUND",
            Self::TaskNotCancelable => "TASK_NOT_CANCELABLE",
            Self::PushNotificationNotSupported => "PUSH_NOTIFICATION_NOT_SUPPORTED",
            Self::UnsupportedOperation => "UNSUPPORTED_OPERATION",
            Self::ContentTypeNotSupported => "CONTENT_TYPE_NOT_SUPPORTED",
            Self::VersionNotSupported => "VERSION_NOT_SUPPORTED",
            Self::Parse => "JSON_PARSE_ERROR",
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::MethodNotFound => "METHOD_NOT_FOUND",
            Self::InvalidParams => "INVALID_PARAMS",
            Self::Refused(code) => return code.wire().to_ascii_uppercase(),
        };
        word.to_owned()
    }

    fn domain(self) -> &'static str {
        if matches!(self, Self::Refused(_)) { OWN_DOMAIN } else { DOMAIN }
    }

    /// Returns the status of HTTP, where `refused` is that of this server's own refusals.
    #[must_use]
    pub fn status(self, refused: u16) -> u16 {
        match self {
            Self::TaskNotFound | Self::MethodNotFound => 404,
            Self::Refused(_) => refused,
            _ => 400,
        }
    }
}

/// Returns the word of `google.rpc.Code` for a status of HTTP.
#[must_use]
pub fn word(fault: Fault, status: u16) -> &'static str {
    match (fault, status) {
        (
            Fault::TaskNotCancelable
            | Fault::PushNotificationNotSupported
            | Fault::UnsupportedOperation
            | Fault::VersionNotSupported,
            _,
        ) => "FAILED_PRECONDITION",
        (_, 401) => "UNAUTHENTICATED",
        (_, 403) => "PERMISSION_DENIED",
        (_, 404) => "NOT_FOUND",
        (_, 409) => "ABORTED",
        (_, 429) => "RESOURCE_EXHAUSTED",
        (_, 500) => "INTERNAL",
        (_, 503) => "UNAVAILABLE",
        _ => "INVALID_ARGUMENT",
    }
}

/// A failure to report to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its kind.
    pub fault: Fault,
    /// The error in words, and what to do.
    pub message: String,
    /// Invalid members, each with its place and its fault.
    pub fields: Vec<(String, String)>,
    /// The task that it is about.
    pub task: Option<String>,
}

impl Failure {
    /// Creates a failure.
    #[must_use]
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), fields: Vec::new(), task: None }
    }

    /// Creates the failure of an invalid member.
    #[must_use]
    pub fn invalid(place: &str, told: &str) -> Self {
        let fields = vec![(place.to_owned(), told.to_owned())];
        Self { fields, ..Self::new(Fault::InvalidParams, format!("`{place}` {told}.")) }
    }

    /// Creates the failure of a media type.
    #[must_use]
    pub fn content_type(media_type: &str) -> Self {
        let shown: String = media_type.chars().take(100).collect();
        let message = format!("`{shown}` is no media type. The agent takes all of them.");
        Self::new(Fault::ContentTypeNotSupported, message)
    }

    /// Creates the failure of a task that is not there for the caller.
    #[must_use]
    pub fn no_task(task: &str) -> Self {
        let task = Some(task.chars().take(100).collect());
        let message = "No such task of this agent, or it is not visible to you. Check its id and your key.";
        Self { task, ..Self::new(Fault::TaskNotFound, message) }
    }

    /// Creates the failure of an operation that a task's state does not allow.
    #[must_use]
    pub fn of_task(fault: Fault, task: &str, message: &str) -> Self {
        Self { task: Some(task.to_owned()), ..Self::new(fault, message) }
    }

    /// Creates the failure of a client that speaks another version.
    #[must_use]
    pub fn version(said: Option<&str>) -> Self {
        let said: String = said.filter(|said| !said.is_empty()).unwrap_or("0.3").chars().take(20).collect();
        let message = format!(
            "A2A {said} is not spoken here. Send the header `A2A-Version: 1.0`; without it 0.3 is meant."
        );
        Self::new(Fault::VersionNotSupported, message)
    }

    /// Returns the details, each with its type.
    #[must_use]
    pub fn details(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(task) = &self.task {
            metadata.insert("taskId".to_owned(), json!(task));
        }
        let mut details = vec![json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": self.fault.reason(),
            "domain": self.fault.domain(), "metadata": metadata,
        })];
        if !self.fields.is_empty() {
            let fields: Vec<Value> = self
                .fields
                .iter()
                .map(|(field, told)| json!({ "field": field, "description": told }))
                .collect();
            details.push(
                json!({ "@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": fields }),
            );
        }
        Value::Array(details)
    }

    /// Returns the error object of JSON-RPC (§9.5).
    #[must_use]
    pub fn rpc(&self) -> Value {
        json!({ "code": self.fault.code(), "message": self.message, "data": self.details() })
    }

    /// Returns the body of a response of HTTP+JSON with this status (§11.6).
    #[must_use]
    pub fn http(&self, status: u16) -> Value {
        json!({ "error": {
            "code": status, "status": word(self.fault, status), "message": self.message, "details": self.details(),
        } })
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let fault = match refusal.code {
            Code::JobNotFound => Fault::TaskNotFound,
            Code::JobEnded => Fault::UnsupportedOperation,
            Code::InvalidJson => Fault::Parse,
            Code::InvalidRequest
            | Code::InvalidParameter
            | Code::Unprocessable
            | Code::TooDeep
            | Code::NulCharacter => Fault::InvalidParams,
            code => Fault::Refused(code),
        };
        let place = |loc: &[String]| {
            let inner = loc.iter().skip(1).map(String::as_str).collect::<Vec<_>>();
            inner.join(".")
        };
        let fields = refusal.errors.iter().map(|error| (place(&error.loc), error.msg.clone())).collect();
        Self { fault, message: refusal.message, fields, task: None }
    }
}
