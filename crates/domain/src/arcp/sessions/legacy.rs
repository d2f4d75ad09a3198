//! The older protocol of the published Rust crates (ARCP-W-6.3): open, invoke, cancel, close. Other types are never
//! sent to such clients, because a type they cannot parse terminates them.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::envelope::{Hello, client, shaped, token};
use crate::arcp::faults::Fault;
use crate::arcp::jobs::ask::Submit;
use crate::ids::JobId;

/// Messages of such a client.
#[derive(Debug)]
pub enum Legacy {
    /// `session.open`.
    Open(Box<Hello>),
    /// `tool.invoke`: submits a job.
    Invoke(Box<Submit>),
    /// `cancel`.
    Cancel {
        /// Id of a job.
        job_id: String,
    },
    /// `resume`: not supported, nothing is kept for it.
    Resume,
}

#[derive(Deserialize)]
struct Invoke {
    tool: String,
    arguments: Option<Box<RawValue>>,
    lease_request: Option<std::collections::BTreeMap<String, Vec<String>>>,
    idempotency_key: Option<String>,
}

#[derive(Deserialize)]
struct Cancel {
    target_id: String,
}

impl Legacy {
    /// Parses a message; `None` if its type does not belong to the older protocol.
    pub(super) fn read(word: &str, payload: Option<&RawValue>) -> Result<Option<Self>, String> {
        Ok(Some(match word {
            "session.open" => {
                let said: Map<String, Value> = shaped(payload)?;
                let hello = Hello {
                    token: token(said.get("auth")),
                    client: client(said.get("client")),
                    ..Hello::default()
                };
                Self::Open(Box::new(hello))
            }
            "tool.invoke" => {
                let Invoke { tool, arguments, lease_request, idempotency_key } = shaped(payload)?;
                let submit = Submit {
                    agent: tool,
                    input: arguments,
                    lease_request,
                    idempotency_key,
                    ..Submit::default()
                };
                Self::Invoke(Box::new(submit))
            }
            "cancel" => Self::Cancel { job_id: shaped::<Cancel>(payload)?.target_id },
            "resume" => Self::Resume,
            _ => return Ok(None),
        }))
    }
}

/// Returns the older protocol's code for a fault.
#[must_use]
pub fn code(fault: Fault) -> &'static str {
    match fault {
        Fault::PermissionDenied | Fault::LeaseSubsetViolation => "PERMISSION_DENIED",
        Fault::JobNotFound | Fault::AgentNotAvailable | Fault::AgentVersionNotAvailable => "NOT_FOUND",
        Fault::DuplicateKey => "ALREADY_EXISTS",
        Fault::Cancelled => "CANCELLED",
        Fault::Timeout | Fault::LeaseExpired => "DEADLINE_EXCEEDED",
        Fault::ResumeWindowExpired => "OUT_OF_RANGE",
        Fault::HeartbeatLost => "UNAVAILABLE",
        Fault::BudgetExhausted => "RESOURCE_EXHAUSTED",
        Fault::InvalidRequest => "INVALID_ARGUMENT",
        Fault::Unauthenticated => "UNAUTHENTICATED",
        Fault::InternalError => "INTERNAL",
    }
}

/// Returns type and payload of a job's end in the older protocol; `None` if the stored payload is not an end.
#[must_use]
pub fn end(job_id: JobId, payload: &str) -> Option<(&'static str, Value)> {
    let said: Value = serde_json::from_str(payload).ok()?;
    let text = |name: &str| said.get(name).and_then(Value::as_str);
    match text("final_status")? {
        "success" => {
            let streamed = || said.get("result_id").map(|id| json!({ "result_id": id }));
            let value = said.get("result").cloned().or_else(streamed).unwrap_or(Value::Null);
            Some(("job.completed", json!({ "job_id": job_id, "value": value })))
        }
        "cancelled" => Some(("job.cancelled", json!({ "job_id": job_id }))),
        _ => {
            let word = text("code").and_then(Fault::parse).map_or("INTERNAL", code);
            let message = text("message").unwrap_or("The job failed.");
            Some(("job.failed", json!({ "job_id": job_id, "code": word, "message": message })))
        }
    }
}
