//! The payloads of ARCP's `job.*` messages, the same for sockets and REST, in their strict form (ARCP-W-4,
//! ARCP-W-6.2). Differences between clients are in `sessions/dialects.rs`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value, json};

use super::ask::Constraints;
use super::{Job, JobStatus};
use crate::arcp::budgets::{BUDGET, Budget};
use crate::arcp::capabilities::Authority;
use crate::arcp::faults::Fault;
use crate::clock::rfc3339;
use crate::ids::{JobId, SessionId};

/// Returns a budget in its wire form: numbers by currency.
#[must_use]
pub fn numbers(budget: &Budget) -> Map<String, Value> {
    let number = |text: String| text.parse::<Number>().map_or(Value::Null, Value::Number);
    budget.0.iter().map(|(currency, amount)| (currency.clone(), number(amount.to_string()))).collect()
}

/// A credential as shown to its job's submitter and worker (§9.8.1).
#[derive(Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Credential {
    /// Its id, stable over rotations.
    pub id: String,
    /// `bearer`.
    pub scheme: String,
    /// The secret.
    pub value: String,
    /// The URL it is valid for.
    pub endpoint: String,
    /// The protocol of that endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The constraints that the other side enforces itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraints: Option<Value>,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credential({}, …)", self.id)
    }
}

/// The payload of `job.accepted` (§7.1).
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(as = JobAccepted)]
pub struct Accepted {
    /// The job.
    pub job_id: JobId,
    /// The agent, with its resolved version.
    #[schema(example = "echo@1.0.0")]
    pub agent: String,
    /// The permissions of the job.
    #[schema(value_type = Object)]
    pub lease: Authority,
    /// Constraints of the lease, such as its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_constraints: Option<Constraints>,
    /// The budget by currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub budget: Option<Map<String, Value>>,
    /// The credentials provisioned for it; shown to its submitter only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<Credential>,
    /// When it was accepted.
    pub accepted_at: String,
    /// The trace.
    pub trace_id: String,
    /// The parent job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_job_id: Option<JobId>,
    /// The delegation's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegate_id: Option<String>,
    /// The intent that it works for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent_id: Option<String>,
    /// The session that may cancel it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

impl Accepted {
    /// Creates the payload for an accepted job, and for repetitions of its request.
    #[must_use]
    pub fn new(job: &Job, credentials: Vec<Credential>) -> Self {
        let budget = Budget::of(&job.lease).unwrap_or_default();
        Self {
            job_id: job.id,
            agent: job.agent.clone(),
            lease: job.lease.clone(),
            lease_constraints: Constraints::of(job.expires_at),
            budget: job.lease.names(BUDGET).then(|| numbers(&budget)),
            credentials,
            accepted_at: rfc3339(job.created_at),
            trace_id: job.trace_id.clone(),
            parent_job_id: job.parent_id,
            delegate_id: job.delegate_id.clone(),
            intent_id: job.intent_id.map(|id| id.to_string()),
            session_id: None,
        }
    }
}

/// A job in a list: an item of `session.jobs` (§6.6).
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(as = JobListed)]
pub struct Listed {
    /// The job.
    pub job_id: JobId,
    /// The agent, with its resolved version.
    pub agent: String,
    /// The status.
    pub status: JobStatus,
    /// The permissions of the job.
    #[schema(value_type = Object)]
    pub lease: Authority,
    /// The parent job.
    pub parent_job_id: Option<JobId>,
    /// When it was accepted.
    pub created_at: String,
    /// The same, under the Python SDK's name.
    pub submitted_at: String,
    /// The trace.
    pub trace_id: String,
    /// The number of its last event, in the numbering of the submitting session.
    pub last_event_seq: i64,
}

impl Listed {
    /// Creates the list item of a job.
    #[must_use]
    pub fn new(job: &Job) -> Self {
        Self {
            job_id: job.id,
            agent: job.agent.clone(),
            status: job.status,
            lease: job.lease.clone(),
            parent_job_id: job.parent_id,
            created_at: rfc3339(job.created_at),
            submitted_at: rfc3339(job.created_at),
            trace_id: job.trace_id.clone(),
            last_event_seq: job.origin_seq,
        }
    }
}

/// The description of a job for its observers: the payload of `job.subscribed` (§7.6), without the members
/// about the subscription.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(as = JobDescription)]
pub struct Described {
    /// The job.
    pub job_id: JobId,
    /// The status.
    pub current_status: JobStatus,
    /// The agent, with its resolved version.
    pub agent: String,
    /// The permissions of the job.
    #[schema(value_type = Object)]
    pub lease: Authority,
    /// Constraints of the lease, such as its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_constraints: Option<Constraints>,
    /// The remaining budget by currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub budget: Option<Map<String, Value>>,
    /// The parent job.
    pub parent_job_id: Option<JobId>,
    /// The trace.
    pub trace_id: String,
}

impl Described {
    /// Creates the description of a job with its remaining budget.
    #[must_use]
    pub fn new(job: &Job, remaining: &Budget) -> Self {
        Self {
            job_id: job.id,
            current_status: job.status,
            agent: job.agent.clone(),
            lease: job.lease.clone(),
            lease_constraints: Constraints::of(job.expires_at),
            budget: job.lease.names(BUDGET).then(|| numbers(remaining)),
            parent_job_id: job.parent_id,
            trace_id: job.trace_id.clone(),
        }
    }
}

/// The payload of `job.event` (§8.1).
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = JobEventPayload)]
pub struct EventPayload {
    /// Its kind.
    pub kind: String,
    /// When it happened.
    pub ts: String,
    /// The body.
    #[schema(value_type = Object)]
    pub body: Box<RawValue>,
}

/// The payload of `job.result` (§7.3, §8.4): an inline result, or the id of a streamed one.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = JobResultPayload)]
pub struct ResultPayload {
    /// `success`.
    pub final_status: JobStatus,
    /// The inline result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub result: Option<Box<RawValue>>,
    /// The id of the streamed result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_id: Option<String>,
    /// Decoded bytes of the streamed result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_size: Option<u64>,
    /// A summary in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// When the job ended.
    pub completed_at: String,
}

/// The payload of `job.error` (§7.3, §12).
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = JobErrorPayload)]
pub struct ErrorPayload {
    /// `error`, `cancelled` or `timed_out`.
    pub final_status: JobStatus,
    /// The error code.
    pub code: Fault,
    /// The error in words.
    pub message: String,
    /// Whether the same request may be retried.
    pub retryable: bool,
    /// Details, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub details: Option<Map<String, Value>>,
    /// When the job ended.
    pub completed_at: String,
}

/// Returns the body of a `tool_result` event that refuses a call (§9.5, §9.6).
#[must_use]
pub fn refused_call(call_id: &str, fault: Fault, message: &str) -> Value {
    // The second name of the call is that of the Python SDK (ARCP-W-5.2).
    json!({
        "call_id": call_id, "tool_call_id": call_id,
        "error": { "code": fault.wire(), "message": message, "retryable": fault.retryable() },
    })
}
