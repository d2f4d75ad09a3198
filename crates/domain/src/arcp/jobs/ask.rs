//! Requests for jobs (ARCP §7.1), and the limits of a child job by its parent's authority (§9.4). The later
//! lifecycle of a job is in `jobs.rs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Job;
use super::beyond::Beyond;
use super::labels::{self, Labels};
use super::limits::Concurrency;
use super::order::Priority;
use super::retries::RetryPolicy;
use super::starts::Start;
use crate::arcp::budgets::{BUDGET, Budget};
use crate::arcp::capabilities::Authority;
use crate::arcp::versions::AgentRef;
use crate::canonical::{self, Digest, sha256};
use crate::clock::{self, Timestamp, plus_seconds, rfc3339};
use crate::ids::{IntentId, JobId};
use crate::limits::{IDEMPOTENCY_KEY_BYTES, NAME_BYTES};
use crate::refusal::{Code, Refusal};

/// Maximum bytes of a job's input: with its envelope it stays below the 1 MiB limit of a frame.
pub const INPUT_BYTES: usize = 768 * 1024;
/// Maximum run time of a job in seconds: thirty days.
pub const RUNTIME_SECONDS: u32 = 30 * 24 * 3600;
/// Maximum generations of delegated jobs: an agent that delegates to itself must come to an end.
pub const GENERATIONS: usize = 16;

/// The payload of `job.submit`, and the body of its REST resource.
#[derive(Debug, Clone, Default, Deserialize, Serialize, utoipa::ToSchema)]
#[schema(as = JobSubmit, example = json!({ "agent": "echo", "input": { "x": 1 }, "lease_request": { "cost.budget": ["USD:1.00"] } }))]
pub struct Submit {
    /// The agent: a name, or `name@version`.
    #[schema(example = "code-refactor@2.0.0")]
    pub agent: String,
    /// The input: any JSON.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    pub input: Option<Box<RawValue>>,
    /// The permissions and budget of the job: patterns by namespace (ARCP §9.2).
    #[serde(default)]
    pub lease_request: Option<BTreeMap<String, Vec<String>>>,
    /// Constraints of the lease, such as its end.
    #[serde(default)]
    pub lease_constraints: Option<Constraints>,
    /// Submissions with the same key and parameters are the same job (ARCP §7.2).
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// Seconds after its acceptance at which the job times out.
    #[serde(default)]
    pub max_runtime_sec: Option<i64>,
    /// The delegating job.
    #[serde(default)]
    pub parent_job_id: Option<String>,
    /// The delegation's name, chosen by the parent's agent.
    #[serde(default)]
    pub delegate_id: Option<String>,
    /// The intent that the job works for; its progress is shown there (beyond ARCP).
    #[serde(default)]
    pub intent_id: Option<String>,
    /// Jobs with a higher priority start first: -100 to 100 (beyond ARCP). Defaults to that of the delegating job, otherwise
    /// to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Retries after failures that the worker reports (beyond ARCP); defaults to those of the agent's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// When the job may start, RFC 3339 (beyond ARCP): it is accepted at once and not claimed before. Its `max_runtime_sec`
    /// counts from then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2036-05-13T23:42:00Z")]
    pub start_at: Option<String>,
    /// Seconds that the job may wait for a worker (beyond ARCP), each time that it waits; then it times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_timeout_sec: Option<i64>,
    /// Texts by keys to find the job by: up to 16, such as `{"team": "billing"}` (beyond ARCP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub labels: Option<Labels>,
    /// A key by which running jobs of this principal are limited (beyond ARCP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    /// The members beyond ARCP, for clients that send them apart.
    #[serde(default, rename = "x-entente", skip_serializing_if = "Option::is_none")]
    pub x_entente: Option<Beyond>,
}

/// The `lease_constraints` of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, utoipa::ToSchema)]
#[schema(as = LeaseConstraints)]
pub struct Constraints {
    /// When the lease ends: RFC 3339, UTC with `Z`, in the future.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2036-05-13T23:42:00Z")]
    pub expires_at: Option<String>,
}

impl Constraints {
    /// Creates constraints with an end; `None` if there is none.
    #[must_use]
    pub fn of(expires_at: Option<Timestamp>) -> Option<Self> {
        expires_at.map(|at| Self { expires_at: Some(rfc3339(at)) })
    }
}

/// A valid request for a job.
#[derive(Debug, Clone)]
pub struct JobAsk {
    /// The agent.
    pub agent: AgentRef,
    /// The input as written.
    pub input: Option<Box<RawValue>>,
    /// The permissions.
    pub lease: Authority,
    /// The budget.
    pub budget: Budget,
    /// When the lease ends.
    pub expires_at: Option<Timestamp>,
    /// The client's idempotency key.
    pub idempotency_key: Option<String>,
    /// The time limit in seconds from acceptance: the client knows when the job ends, however long it is
    /// queued.
    pub max_runtime: Option<u32>,
    /// The parent job.
    pub parent_id: Option<JobId>,
    /// The delegation's name.
    pub delegate_id: Option<String>,
    /// The intent.
    pub intent_id: Option<IntentId>,
    /// The priority, if one was requested.
    pub priority: Option<Priority>,
    /// When it may start, and its retries.
    pub start: Start,
    /// The labels.
    pub labels: Labels,
    /// The key by which running jobs are limited.
    pub concurrency: Option<Concurrency>,
    /// A digest that distinguishes it from another job under the same key.
    pub fingerprint: Digest,
}

impl JobAsk {
    /// Checks a request; times may lie in the past, as in a repeated request (see [`Self::check_time`]).
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] with the member at fault; [`Code::TooLarge`]; [`Code::AgentNotAvailable`] for
    /// a name that no agent can have; [`Code::JobNotFound`] for a parent with an invalid id.
    pub fn check(said: Submit) -> Result<Self, Refusal> {
        let agent = AgentRef::parse(&said.agent).ok_or_else(|| {
            let message = format!(
                "`{}` is no agent: use `name` or `name@version`, the name in small letters, digits, `.`, `_` and `-`.",
                shortened(&said.agent)
            );
            Refusal::field(Code::InvalidRequest, "agent", "pattern", message)
        })?;
        if said.input.as_ref().is_some_and(|input| input.get().len() > INPUT_BYTES) {
            let message =
                format!("`input` has more than {INPUT_BYTES} bytes. Pass a reference to what is large.");
            return Err(Refusal::field(Code::TooLarge, "input", "too_long", message));
        }
        let lease = Authority::check(said.lease_request.clone().unwrap_or_default())?;
        let budget = Budget::of(&lease)?;
        let expires_at = said.lease_constraints.as_ref().and_then(|said| said.expires_at.as_deref());
        let expires_at = expires_at.map(utc).transpose()?;
        if let Some(key) = &said.idempotency_key {
            text("idempotency_key", key, IDEMPOTENCY_KEY_BYTES + 1)?;
        }
        if let Some(delegate) = &said.delegate_id {
            text("delegate_id", delegate, NAME_BYTES)?;
        }
        let max_runtime = said.max_runtime_sec.map(runtime).transpose()?;
        let parent_id =
            said.parent_job_id.as_deref().map(str::parse).transpose().map_err(|_no_id| no_job())?;
        let intent_id = said.intent_id.as_deref().map(str::parse).transpose();
        let intent_id = intent_id.map_err(|_no_id| Refusal::not_found("intent"))?;
        let priority = said.asked_priority().map(Priority::check).transpose()?;
        let concurrency = said.asked_concurrency().map(Concurrency::check).transpose()?;
        let start = Start::check(&said)?;
        let fingerprint = fingerprint(&said, &lease, expires_at, priority, &start, concurrency.as_ref())?;
        let labels = said.asked_labels();
        labels::check(&labels)?;
        Ok(Self {
            agent,
            input: said.input,
            lease,
            budget,
            expires_at,
            idempotency_key: said.idempotency_key,
            max_runtime,
            parent_id,
            delegate_id: said.delegate_id,
            intent_id,
            priority,
            start,
            labels,
            concurrency,
            fingerprint,
        })
    }

    /// Requires that the lease ends in the future (§9.5), and that the job starts before.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`].
    pub fn check_time(&self, now: Timestamp) -> Result<(), Refusal> {
        if self.expires_at.is_none_or(|at| at > now) {
            return self.start.check_time(now, self.expires_at);
        }
        let message = format!("`expires_at` must lie in the future; it is {} now.", rfc3339(now));
        Err(Refusal::field(Code::InvalidRequest, "expires_at", "past", message))
    }

    /// When the job times out, counted from its acceptance or its later start; `most` is the limit of its agent's version.
    #[must_use]
    pub fn deadline(&self, now: Timestamp, most: Option<u32>) -> Option<Timestamp> {
        let seconds = match (self.max_runtime, most) {
            (Some(asked), Some(most)) => Some(asked.min(most)),
            (asked, most) => asked.or(most),
        };
        seconds.map(|seconds| plus_seconds(self.start.not_before(now).unwrap_or(now), seconds))
    }

    /// Narrows the request to the parent's authority (§9.4): no permission beyond its own, no currency above
    /// its remaining budget, no later end.
    ///
    /// A currency absent from the child's budget stays bounded by the parent's counter, because a child's
    /// costs are charged to the parent too.
    ///
    /// # Errors
    /// [`Code::LeaseSubsetViolation`] naming the excess.
    pub fn narrow(&mut self, parent: &Job, remaining: &Budget) -> Result<(), Refusal> {
        let beyond = |message: String| Refusal::new(Code::LeaseSubsetViolation, message);
        self.lease.within(&parent.lease).map_err(|(namespace, pattern)| {
            beyond(format!("`{namespace}` of `{pattern}` is not covered by the parent's. Ask for less."))
        })?;
        self.budget.within(remaining).map_err(|currency| {
            let left = remaining.0.get(&currency).map_or_else(|| "none".to_owned(), ToString::to_string);
            beyond(format!(
                "`{BUDGET}` asks for more {currency} than the parent has left ({left}). Ask for less."
            ))
        })?;
        if let (Some(asked), Some(end)) = (self.expires_at, parent.expires_at)
            && asked > end
        {
            return Err(beyond(format!(
                "`expires_at` is later than the parent's, {}. End earlier.",
                rfc3339(end)
            )));
        }
        if parent.generation + 1 >= GENERATIONS {
            return Err(beyond(format!("It would be the {GENERATIONS}th generation; delegate less deeply.")));
        }
        self.expires_at = self.expires_at.or(parent.expires_at);
        Ok(())
    }
}

/// Returns the refusal for an unknown job, the same for one that may not be seen (ARCP-W-9.5).
#[must_use]
pub fn no_job() -> Refusal {
    Refusal::new(Code::JobNotFound, "No such job, or it is not visible to you. Check the id and the key.")
}

fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

fn text(member: &str, value: &str, most: usize) -> Result<(), Refusal> {
    let lawful = !value.is_empty() && value.chars().count() <= most && !value.chars().any(char::is_control);
    if lawful {
        return Ok(());
    }
    let message = format!("`{member}` must have 1 to {most} characters, none of them a control character.");
    Err(Refusal::field(Code::InvalidRequest, member, "length", message))
}

fn runtime(seconds: i64) -> Result<u32, Refusal> {
    let lawful = u32::try_from(seconds).ok().filter(|seconds| (1..=RUNTIME_SECONDS).contains(seconds));
    lawful.ok_or_else(|| {
        let message = format!("`max_runtime_sec` must be a number of seconds from 1 to {RUNTIME_SECONDS}.");
        Refusal::field(Code::InvalidRequest, "max_runtime_sec", "range", message)
    })
}

/// Parses a time that must be UTC with `Z` (§9.5).
fn utc(said: &str) -> Result<Timestamp, Refusal> {
    let at = clock::parse(said).filter(|_| said.ends_with(['Z', 'z']));
    at.ok_or_else(|| {
        let message = "`expires_at` must be RFC 3339 in UTC with `Z`, such as 2036-05-13T23:42:00Z.";
        Refusal::field(Code::InvalidRequest, "expires_at", "datetime", message)
    })
}

/// Returns a digest of the request, independent of the order of members; missing and empty members are equal.
fn fingerprint(
    said: &Submit,
    lease: &Authority,
    expires_at: Option<Timestamp>,
    priority: Option<Priority>,
    start: &Start,
    concurrency: Option<&Concurrency>,
) -> Result<Digest, Refusal> {
    let wrong = |e: serde_json::Error| {
        Refusal::field(Code::InvalidRequest, "input", "json", format!("`input` cannot be read: {e}."))
    };
    let input: Value = match &said.input {
        Some(raw) => serde_json::from_str(raw.get()).map_err(wrong)?,
        None => Value::Null,
    };
    let mut asked = json!({
        "agent": said.agent, "input": input, "lease": lease, "expires_at": expires_at.map(rfc3339),
        "max_runtime_sec": said.max_runtime_sec, "parent_job_id": said.parent_job_id, "delegate_id": said.delegate_id,
        "intent_id": said.intent_id,
    });
    // Only members that are present, so that a repetition of a request from before these members is still the same.
    if let Some(priority) = priority {
        asked["priority"] = json!(priority.get());
    }
    if let Some(concurrency) = concurrency {
        asked["concurrency"] = json!(concurrency);
    }
    if let Some(retry) = &start.retry {
        asked["retry"] = json!(retry);
    }
    if let Some(at) = start.at {
        asked["start_at"] = json!(rfc3339(at));
    }
    if let Some(seconds) = start.queue_timeout {
        asked["queue_timeout_sec"] = json!(seconds);
    }
    let labels = said.asked_labels();
    if !labels.is_empty() {
        asked["labels"] = json!(labels);
    }
    Ok(sha256(canonical::text(&asked).map_err(wrong)?))
}
