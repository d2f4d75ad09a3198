//! Messages as ARCP's workers get them: the first message of a task is the input of a job, each further one a signal to it.
//!
//! A repeated message is the same job or signal: the key is made of the agent and the whole message with its settings, so a
//! client that uses an id twice, for different messages, gets two tasks.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Builder;

use super::errors::{Failure, Fault};
use super::messages::{Message, object};
use super::requests::SendRequest;
use crate::arcp::jobs::ask::{Constraints, Submit};
use crate::arcp::jobs::signals::SignalAsk;
use crate::canonical::{hex, sha256};

/// Label of a job with the context that it belongs to, by which a context's jobs are found.
pub const CONTEXT: &str = "a2a.context";
/// Name of the signals that are messages.
pub const SIGNAL: &str = "message";
/// Member of a request's metadata with members of the job.
pub const TERMS: &str = "entente";

/// A message in the input of a job or in the payload of a signal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Given {
    /// The texts of the message, for workers that know nothing of A2A.
    pub text: String,
    /// The message.
    pub message: Message,
    /// Media types that the client takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted_output_modes: Vec<String>,
    /// Metadata of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Box<RawValue>>,
    /// In a signal: number of the job's last event before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_event_seq: Option<i64>,
}

/// Members of the job that a client may set in `metadata.entente`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Terms {
    intent_id: Option<String>,
    lease_request: Option<std::collections::BTreeMap<String, Vec<String>>>,
    lease_constraints: Option<Constraints>,
    max_runtime_sec: Option<i64>,
    queue_timeout_sec: Option<i64>,
    priority: Option<i64>,
    labels: Option<std::collections::BTreeMap<String, String>>,
}

impl Terms {
    fn of(metadata: Option<&RawValue>) -> Result<Self, Failure> {
        let Some(metadata) = metadata else { return Ok(Self::default()) };
        let wrong =
            |e: serde_json::Error| Failure::invalid(&format!("metadata.{TERMS}"), &format!("is wrong: {e}"));
        let members: Map<String, Value> = serde_json::from_str(metadata.get()).map_err(wrong)?;
        members
            .get(TERMS)
            .map_or_else(|| Ok(Self::default()), |terms| Self::deserialize(terms).map_err(wrong))
    }
}

impl Given {
    fn of(request: &SendRequest, message: Message) -> Result<Self, Failure> {
        object(request.metadata.as_deref(), "metadata")?;
        let modes = request.configuration.as_ref().and_then(|said| said.accepted_output_modes.clone());
        Ok(Self {
            text: message.text(),
            message,
            accepted_output_modes: modes.unwrap_or_default(),
            metadata: request.metadata.clone(),
            after_event_seq: None,
        })
    }

    fn json(&self) -> Result<Box<RawValue>, Failure> {
        serde_json::value::to_raw_value(self)
            .map_err(|e| Failure::new(Fault::InvalidParams, format!("The message cannot be written: {e}.")))
    }
}

/// Returns the key of a message to an agent's task, or to a new one.
fn key(agent: &str, given: &RawValue) -> [u8; 32] {
    sha256(format!("a2a\0{agent}\0{}", given.get()))
}

/// Returns the job that a message begins. Without a context it gets one of its own: always the same for a repeated message.
///
/// # Errors
/// The request is invalid.
pub fn job(agent: &str, request: &SendRequest) -> Result<Submit, Failure> {
    let message = request.message.clone().checked()?;
    let terms = Terms::of(request.metadata.as_deref())?;
    let mut given = Given::of(request, message)?;
    let key = key(agent, &given.json()?);
    let context = given.message.context_id.clone().unwrap_or_else(|| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&sha256([b"context".as_slice(), &key].concat())[..16]);
        Builder::from_custom_bytes(bytes).into_uuid().to_string()
    });
    given.message.context_id = Some(context.clone());
    let mut labels = terms.labels.unwrap_or_default();
    labels.insert(CONTEXT.to_owned(), context);
    Ok(Submit {
        agent: agent.to_owned(),
        input: Some(given.json()?),
        lease_request: terms.lease_request,
        lease_constraints: terms.lease_constraints,
        idempotency_key: Some(format!("a2a:{}", hex(&key))),
        max_runtime_sec: terms.max_runtime_sec,
        queue_timeout_sec: terms.queue_timeout_sec,
        intent_id: terms.intent_id,
        priority: terms.priority,
        labels: Some(labels),
        ..Submit::default()
    })
}

/// Returns the signal by which a message continues a task, after the last event that its job has.
///
/// # Errors
/// The request is invalid; its context is not the task's.
pub fn signal(
    task: &str,
    context: &str,
    last_event: i64,
    request: &SendRequest,
) -> Result<SignalAsk, Failure> {
    let mut message = request.message.clone().checked()?;
    if message.context_id.as_ref().is_some_and(|said| said != context) {
        return Err(Failure::invalid("message.contextId", "is not the context of the task. Leave it out"));
    }
    message.context_id = Some(context.to_owned());
    let given = Given::of(request, message)?;
    let key = key(task, &given.json()?);
    let given = Given { after_event_seq: Some(last_event), ..given };
    Ok(SignalAsk {
        name: SIGNAL.to_owned(),
        payload: Some(given.json()?),
        key: Some(format!("a2a:{}", hex(&key))),
    })
}

/// Reads a message from an input or a payload; `None` if it is none.
#[must_use]
pub fn given(stored: &str) -> Option<Given> {
    serde_json::from_str(stored).ok().filter(|_| stored.starts_with('{'))
}
