//! The payloads of ARCP's `job.*` messages, one set for the sockets and for REST, in their strict form (contract 4, 6.2).
//! What differs from client to client is `sessions/dialects.rs`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value, json};

use super::ask::Constraints;
use super::{Job, JobStatus};
use crate::budgets::{BUDGET, Budget};
use crate::capabilities::Authority;
use crate::clock::rfc3339;
use crate::faults::Fault;
use crate::ids::{JobId, SessionId};

/// A budget as clients read it: numbers by currency.
#[must_use]
pub fn numbers(budget: &Budget) -> Map<String, Value> {
    let number = |text: String| text.parse::<Number>().map_or(Value::Null, Value::Number);
    budget.0.iter().map(|(currency, amount)| (currency.clone(), number(amount.to_string()))).collect()
}

/// A credential as its job's submitter and worker see it (§9.8.1).
#[derive(Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Credential {
    /// Its id, stable over rotations.
    pub id: String,
    /// `bearer`.
    pub scheme: String,
    /// The secret.
    pub value: String,
    /// Where it is good.
    pub endpoint: String,
    /// Which protocol is spoken there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// What the other side enforces by itself.
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
    /// The agent, resolved.
    #[schema(example = "echo@1.0.0")]
    pub agent: String,
    /// What the job may touch.
    #[schema(value_type = Object)]
    pub lease: Authority,
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_constraints: Option<Constraints>,
    /// What it may spend, by currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub budget: Option<Map<String, Value>>,
    /// What was provisioned for it, for its submitter's eyes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<Credential>,
    /// When.
    pub accepted_at: String,
    /// The trace.
    pub trace_id: String,
    /// Its parent.
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
    /// What is said of a job when it is accepted, and whenever the same is asked again.
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
    /// The agent, resolved.
    pub agent: String,
    /// Where it stands.
    pub status: JobStatus,
    /// What it may touch.
    #[schema(value_type = Object)]
    pub lease: Authority,
    /// Its parent.
    pub parent_job_id: Option<JobId>,
    /// When it was accepted.
    pub created_at: String,
    /// The same, under the Python SDK's name.
    pub submitted_at: String,
    /// The trace.
    pub trace_id: String,
    /// The number of its last event, in the submitting session's numbers.
    pub last_event_seq: i64,
}

impl Listed {
    /// A job in a list.
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

/// What somebody who may observe a job is told of its authority: the payload of `job.subscribed` (§7.6), without what
/// belongs to the subscription.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(as = JobDescription)]
pub struct Described {
    /// The job.
    pub job_id: JobId,
    /// Where it stands.
    pub current_status: JobStatus,
    /// The agent, resolved.
    pub agent: String,
    /// What the job may touch.
    #[schema(value_type = Object)]
    pub lease: Authority,
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_constraints: Option<Constraints>,
    /// What it has left, by currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub budget: Option<Map<String, Value>>,
    /// Its parent.
    pub parent_job_id: Option<JobId>,
    /// The trace.
    pub trace_id: String,
}

impl Described {
    /// A job with what it has left.
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
    /// What.
    #[schema(value_type = Object)]
    pub body: Box<RawValue>,
}

/// The payload of `job.result` (§7.3, §8.4): inline, or the name of what was streamed.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = JobResultPayload)]
pub struct ResultPayload {
    /// `success`.
    pub final_status: JobStatus,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub result: Option<Box<RawValue>>,
    /// Which streamed result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_id: Option<String>,
    /// Its bytes, decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_size: Option<u64>,
    /// In a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// When.
    pub completed_at: String,
}

/// The payload of `job.error` (§7.3, §12).
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = JobErrorPayload)]
pub struct ErrorPayload {
    /// `error`, `cancelled` or `timed_out`.
    pub final_status: JobStatus,
    /// Why.
    pub code: Fault,
    /// The same in words.
    pub message: String,
    /// Whether the same may be tried again.
    pub retryable: bool,
    /// More of it, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub details: Option<Map<String, Value>>,
    /// When.
    pub completed_at: String,
}

/// The body of a `tool_result` event that refuses (§9.5, §9.6).
#[must_use]
pub fn refused_call(call_id: &str, fault: Fault, message: &str) -> Value {
    // The second name of the call is the Python SDK's (contract 5).
    json!({
        "call_id": call_id, "tool_call_id": call_id,
        "error": { "code": fault.wire(), "message": message, "retryable": fault.retryable() },
    })
}
