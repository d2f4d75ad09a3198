//! Running an ended job again: a new job with the same agent, input and authority, linked to the old one (beyond ARCP).

use std::collections::BTreeMap;

use serde_json::json;
use serde_json::value::RawValue;

use super::ask::{Constraints, JobAsk, RUNTIME_SECONDS, Submit};
use super::labels::Labels;
use super::{Job, JobStatus};
use crate::canonical::sha256;
use crate::clock::Timestamp;
use crate::refusal::{Code, Refusal};

/// Maximum number of jobs that one request runs again: each is a submission.
pub const AGAIN: u32 = 200;

/// The version that runs a job again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// The version that ran the job.
    #[default]
    Same,
    /// The agent's default version of today, with its corrections.
    Default,
}

/// Whether a job can be run again.
///
/// A delegated job cannot: its costs are its parent's, which is over, so nothing would bound them (ARCP §9.4).
///
/// # Errors
/// [`Code::Unprocessable`] for an open or a delegated job.
pub fn require_again(job: &Job) -> Result<(), Refusal> {
    if !job.status.is_terminal() {
        let message = format!("{} is {}. Only a job that is over is run again.", job.id, word(job.status));
        return Err(Refusal::new(Code::Unprocessable, message));
    }
    if let Some(parent) = job.parent_id {
        let message = format!(
            "{} was delegated by {parent}, whose budget pays for it. Run that one again, and it delegates anew.",
            job.id
        );
        return Err(Refusal::new(Code::Unprocessable, message));
    }
    Ok(())
}

fn word(status: JobStatus) -> &'static str {
    match status {
        JobStatus::Pending => "waiting for a worker",
        _ => "running",
    }
}

/// Members of a job's submission that [`Job`] does not have.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Input as submitted.
    pub input: Option<Box<RawValue>>,
    /// Start, if it was later than the submission.
    pub start_at: Option<Timestamp>,
}

/// Builds the request that runs a job again at a time, which is its start.
///
/// Times are spans from the start, as they were: an end of the lease or of the run time that has passed would end the
/// new job at once. `key` is the new job's idempotency key.
///
/// # Errors
/// As [`require_again`]; the job's authority is not one that can be requested.
pub fn again(
    job: &Job,
    asked: Asked,
    labels: Labels,
    version: Version,
    key: Option<String>,
    now: Timestamp,
) -> Result<JobAsk, Refusal> {
    require_again(job)?;
    let name = job.agent.split('@').next().unwrap_or_default();
    let lease =
        serde_json::to_value(&job.lease).and_then(serde_json::from_value::<BTreeMap<String, Vec<String>>>);
    let lease = lease.map_err(|e| {
        let message =
            format!("The authority of {} cannot be requested again: {e}. Submit a new job.", job.id);
        Refusal::new(Code::Unprocessable, message)
    })?;
    let start = asked.start_at.unwrap_or(job.created_at);
    let seconds = |end: Timestamp| (end - start).num_seconds().clamp(1, i64::from(RUNTIME_SECONDS));
    let said = Submit {
        agent: if version == Version::Same { job.agent.clone() } else { name.to_owned() },
        input: asked.input,
        lease_request: Some(lease),
        lease_constraints: job.expires_at.and_then(|end| Constraints::of(Some(now + (end - start)))),
        max_runtime_sec: job.deadline.map(seconds),
        intent_id: job.intent_id.map(|id| id.to_string()),
        labels: (!labels.is_empty()).then_some(labels),
        priority: Some(i64::from(job.priority.get())),
        concurrency: job.concurrency.clone(),
        retry: job.retry.clone(),
        queue_timeout_sec: job.queue_timeout.map(i64::from),
        ..Submit::default()
    };
    let mut ask = JobAsk::check(said)?;
    // The request is the same however late it is repeated, although its times are not.
    let is_same = version == Version::Same;
    ask.fingerprint = sha256(json!({ "rerun_of": job.id, "same_version": is_same }).to_string());
    ask.idempotency_key = key;
    Ok(ask)
}

/// The idempotency key of the job that runs `source` again at the request of `caller` under `key`.
///
/// It begins with a character that no client's key has, so that none is equal to it.
#[must_use]
pub fn job_key(source: &Job, caller: &str, key: &str) -> String {
    format!("\u{1f}rerun {} {caller} {key}", source.id)
}
